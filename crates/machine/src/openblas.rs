//! The speed of OpenBLAS on this machine: of the newest version found, with the best core type.
//!
//! Candidates are the libraries of the system and of wheels of PyPI, unless `FLOPSMITH_OPENBLAS` names one.
//!
//! In a virtual machine, OpenBLAS may not recognise the processor and may fall back to its oldest kernel, which is four
//! times slower than the best one. This module therefore runs OpenBLAS once for each core type that the processor can
//! execute, each time in a new process. It reports the fastest result and its core type. The result is a comparison for
//! reports and never a reward.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flopsmith_protocol::geometric;
use serde::{Deserialize, Serialize};

mod library;

use library::Library;
pub use library::VARIABLE;

/// Core types of x86-64, oldest first. A type this processor cannot execute ends its process and does not count.
const CORE_TYPES: [&str; 9] = [
    "Prescott",
    "Nehalem",
    "Barcelona",
    "Sandybridge",
    "Haswell",
    "Zen",
    "SkylakeX",
    "Cooperlake",
    "Sapphirerapids",
];

/// The best speed of OpenBLAS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// 10⁹ operations a second.
    pub gflops: f64,
    /// The core type that was set; none if OpenBLAS's own choice was as fast as any.
    pub core_type: Option<String>,
    /// Path of the library.
    pub library: PathBuf,
    /// Its version, as in `0.3.34`; none if the library does not say.
    #[serde(default)]
    pub version: Option<String>,
    /// Speed with OpenBLAS's own choice of core type, 10⁹ operations a second.
    pub detected_gflops: f64,
}

impl Best {
    /// The mean over several sizes: speeds are geometric means, the core type is that of the first size, and the library is
    /// the same at all sizes.
    pub fn over(sizes: &[Best]) -> Option<Best> {
        let first = sizes.first()?;
        Some(Best {
            gflops: geometric(sizes.iter().map(|best| best.gflops))?,
            detected_gflops: geometric(sizes.iter().map(|best| best.detected_gflops))?,
            ..first.clone()
        })
    }
}

/// Why no library was measured, if the user named one.
pub fn unusable() -> Option<String> {
    let path = library::named()?;
    Some(format!(
        "{VARIABLE}={} could not be measured: name a shared library of OpenBLAS for this machine, or unset the variable",
        path.display()
    ))
}

/// The wheels of PyPI put `scipy_` before each name, and `64_` behind it where integers have 64 bits. Without a size the
/// driver prints what the library says of itself.
const DRIVER: &str = r#"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
typedef void (*Gemm)(int, int, int, int, int, int, double, const double *, int,
                     const double *, int, double, double *, int);
typedef void (*Gemm64)(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t,
                       const double *, int64_t, double, double *, int64_t);
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
static void *find(void *library, const char *name, int *is_64) {
  for (int spelling = 0; spelling < 4; spelling++) {
    char text[64];
    snprintf(text, sizeof text, "%s%s%s", spelling & 1 ? "scipy_" : "", name, spelling & 2 ? "64_" : "");
    void *found = dlsym(library, text);
    if (found) {
      if (is_64) *is_64 = spelling & 2;
      return found;
    }
  }
  return NULL;
}
int main(int argc, char **argv) {
  if (argc < 4) return 2;
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) return 3;
  int is_64 = 0;
  void *gemm = find(library, "cblas_dgemm", &is_64);
  if (!gemm) return 4;
  int (*parallel)(void) = (int (*)(void))find(library, "openblas_get_parallel", NULL);
  if (atoi(argv[3]) > 1 && !(parallel && parallel())) return 7;
  char *(*get_config)(void) = (char *(*)(void))find(library, "openblas_get_config", NULL);
  const char *config = get_config ? get_config() : "";
  int n = atoi(argv[2]);
  if (n < 1) {
    puts(config);
    return 0;
  }
  is_64 = is_64 || strstr(config, "USE64BITINT");
  size_t bytes = sizeof(double) * n * n;
  double *a = aligned_alloc(64, bytes), *b = aligned_alloc(64, bytes), *c = aligned_alloc(64, bytes);
  if (!a || !b || !c) return 5;
  for (int i = 0; i < n * n; i++) {
    a[i] = (i * 37 % 101) / 101.0 - 0.5;
    b[i] = (i * 53 % 103) / 103.0 - 0.5;
  }
  double best = 1e9, start = now();
  for (int call = 0; call < 3 || (now() - start < 0.15 && call < 2000); call++) {
    double t = now();
    if (is_64)
      ((Gemm64)gemm)(101, 111, 111, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
    else
      ((Gemm)gemm)(101, 111, 111, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
    t = now() - t;
    if (t < best) best = t;
  }
  double sum = 0;
  for (int l = 0; l < n; l++) sum += a[l] * b[l * n];
  if (!(sum - c[0] < 1e-9 && c[0] - sum < 1e-9)) return 6;
  printf("%.9e\n", best);
  return 0;
}
"#;

/// Measures C = A·B with n × n doubles on `threads` threads, which run only on `cores`, or on any core if `cores` is
/// empty. None where OpenBLAS or the compiler is missing, and for several threads where the library was built for one.
pub fn measure(compiler: &Path, n: usize, threads: u32, cores: &[usize]) -> Option<Best> {
    let folder = tempfile::tempdir().ok()?;
    let driver = build(compiler, folder.path())?;
    let library = newest(&driver, library::candidates(library::named()), threads)?;
    time(&driver, library, n, threads, cores)
}

/// Builds the driver in a folder.
fn build(compiler: &Path, folder: &Path) -> Option<PathBuf> {
    let source = folder.join("driver.c");
    let driver = folder.join("driver");
    std::fs::write(&source, DRIVER).ok()?;
    let built = Command::new(compiler)
        .args(["-O2", "-o"])
        .arg(&driver)
        .arg(&source)
        .arg("-ldl")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    built.success().then_some(driver)
}

/// The newest of the candidates that the driver can load and that were built for so many threads.
fn newest(driver: &Path, candidates: Vec<PathBuf>, threads: u32) -> Option<Library> {
    let able = candidates.into_iter().filter_map(|path| {
        let config = output(command(driver, &path, 0, threads, None), &[])?;
        let version = library::version(&config);
        Some(Library { path, version })
    });
    library::newest(able.collect())
}

/// Times a library with each core type.
fn time(driver: &Path, library: Library, n: usize, threads: u32, cores: &[usize]) -> Option<Best> {
    let flops = 2.0 * (n as f64).powi(3);
    let run = |core_type: Option<&str>| -> Option<f64> {
        let command = command(driver, &library.path, n, threads, core_type);
        let seconds: f64 = output(command, cores)?.trim().parse().ok()?;
        (seconds > 0.0).then(|| flops / seconds / 1e9)
    };
    let detected = run(None);
    let best = CORE_TYPES
        .iter()
        .filter_map(|name| run(Some(name)).map(|gflops| (gflops, Some((*name).to_owned()))))
        .chain(detected.map(|gflops| (gflops, None)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Best {
        gflops: best.0,
        core_type: best.1,
        library: library.path,
        version: library.version,
        detected_gflops: detected.unwrap_or(0.0),
    })
}

/// The command for one run of the driver.
fn command(
    driver: &Path,
    library: &Path,
    n: usize,
    threads: u32,
    core_type: Option<&str>,
) -> Command {
    let threads = threads.max(1).to_string();
    let mut command = Command::new(driver);
    command
        .arg(library)
        .arg(n.to_string())
        .arg(&threads)
        .env("OPENBLAS_NUM_THREADS", &threads)
        .env("OMP_NUM_THREADS", &threads)
        .env_remove("OPENBLAS_CORETYPE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // A user's settings for other programs would put all threads on one core.
    for name in ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"] {
        command.env_remove(name);
    }
    if let Some(core_type) = core_type {
        command.env("OPENBLAS_CORETYPE", core_type);
    }
    command
}

/// The output of a run of the driver, after at most 10 s.
fn output(mut command: Command, cores: &[usize]) -> Option<String> {
    // A child inherits the allowed cores of the thread that starts it, and its threads inherit them from the child.
    let pinned = crate::pinning::Pinned::to_all(cores).ok()?;
    let mut child = command.spawn().ok()?;
    drop(pinned);
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match child.try_wait().ok()? {
            Some(status) if status.success() => break,
            Some(_) => return None,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take()?, &mut text).ok()?;
    Some(text)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn nothing_to_measure_with() -> bool {
        library::candidates(library::named()).is_empty()
            || Command::new("gcc").arg("--version").output().is_err()
    }

    /// A library that multiplies plainly, with the names and the integers of a wheel of PyPI.
    fn wheel(folder: &Path, file: &str, version: &str) -> PathBuf {
        let text = format!(
            r#"#include <stdint.h>
            void scipy_cblas_dgemm64_(int o, int s, int t, int64_t m, int64_t n, int64_t k, double x, const double *a,
                                      int64_t i, const double *b, int64_t j, double y, double *c, int64_t l) {{
              for (int64_t r = 0; r < m; r++)
                for (int64_t q = 0; q < n; q++) {{
                  double sum = 0;
                  for (int64_t p = 0; p < k; p++) sum += a[r * i + p] * b[p * j + q];
                  c[r * l + q] = x * sum;
                }}
            }}
            const char *scipy_openblas_get_config64_(void) {{ return "OpenBLAS {version} USE64BITINT"; }}"#
        );
        let (source, library) = (folder.join("wheel.c"), folder.join(file));
        std::fs::write(&source, text).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-shared", "-fPIC", "-o"]);
        assert!(gcc.arg(&library).arg(&source).status().unwrap().success());
        library
    }

    #[test]
    fn the_newest_wheel_is_measured_by_its_own_names() {
        let folder = tempfile::tempdir().unwrap();
        let driver = build(Path::new("gcc"), folder.path()).unwrap();
        let old = wheel(folder.path(), "old.so", "0.3.9");
        let new = wheel(folder.path(), "new.so", "0.3.34");
        let none = folder.path().join("none.so");
        let all = vec![none.clone(), old, driver.clone(), new.clone()];
        let library = newest(&driver, all.clone(), 1).unwrap();
        assert_eq!(library.path, new);
        assert_eq!(library.version.as_deref(), Some("0.3.34"));
        let best = time(&driver, library, 16, 1, &[]).unwrap();
        assert!(best.gflops > 0.0 && best.library == new, "{best:?}");
        assert_eq!(best.version.as_deref(), Some("0.3.34"));
        // It does not say that it has threads, and a missing file is no library.
        assert_eq!(newest(&driver, all, 2), None);
        assert_eq!(newest(&driver, vec![none], 1), None);
    }

    #[test]
    fn a_result_of_an_older_version_is_read_without_the_librarys() {
        let old =
            r#"{"gflops": 2.0, "core_type": null, "library": "l.so", "detected_gflops": 1.0}"#;
        let best: Best = serde_json::from_str(old).unwrap();
        assert_eq!(best.version, None);
        let mean = Best::over(&[
            Best {
                version: Some("0.3.34".into()),
                ..best.clone()
            },
            Best {
                gflops: 8.0,
                ..best
            },
        ]);
        let mean = mean.unwrap();
        assert!((mean.gflops - 4.0).abs() < 1e-12, "{mean:?}");
        assert_eq!(mean.version.as_deref(), Some("0.3.34"));
    }

    #[test]
    fn openblas_is_measured_where_it_is_installed() {
        let Some(best) = measure(Path::new("gcc"), 128, 1, &[]) else {
            // Without the library or a compiler, the function has nothing to measure and must return none.
            assert!(nothing_to_measure_with());
            return;
        };
        assert!(
            best.gflops >= best.detected_gflops && best.gflops > 0.1,
            "{best:?}"
        );
    }

    #[test]
    fn openblas_is_measured_on_several_threads_where_it_was_built_for_them() {
        let allowed = crate::pinning::allowed_cores();
        let cores = &allowed[..allowed.len().min(2)];
        let measured = measure(Path::new("gcc"), 128, 2, cores);
        let built_for_them = library::candidates(library::named()).iter().any(|library| {
            ["pthread", "openmp"]
                .iter()
                .any(|kind| library.to_string_lossy().contains(kind))
        });
        if built_for_them && !nothing_to_measure_with() {
            assert!(
                measured.as_ref().is_some_and(|best| best.gflops > 0.1),
                "{measured:?}"
            );
        }
        assert_eq!(
            crate::pinning::allowed_cores(),
            allowed,
            "we stay where we were"
        );
    }

    #[test]
    fn a_run_is_told_its_threads_and_nothing_of_the_users_own() {
        let told = |threads, core_type| {
            let command = command(
                Path::new("driver"),
                Path::new("library"),
                64,
                threads,
                core_type,
            );
            let arguments: Vec<String> = command
                .get_args()
                .map(|a| a.to_string_lossy().into_owned())
                .collect();
            let variables: Vec<(String, Option<String>)> = command
                .get_envs()
                .map(|(name, value)| {
                    let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
                    (text(name), value.map(text))
                })
                .collect();
            (arguments, variables)
        };
        let (arguments, variables) = told(3, Some("Zen"));
        assert_eq!(arguments, ["library", "64", "3"]);
        let set = |name: &str, value: &str| {
            variables.contains(&(name.to_owned(), Some(value.to_owned())))
        };
        assert!(set("OPENBLAS_NUM_THREADS", "3") && set("OMP_NUM_THREADS", "3"));
        assert!(set("OPENBLAS_CORETYPE", "Zen"));
        let (_, variables) = told(1, None);
        for name in ["OPENBLAS_CORETYPE", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY"] {
            assert!(variables.contains(&(name.to_owned(), None)), "{name}");
        }
    }

    #[test]
    fn a_missing_compiler_is_no_measurement() {
        assert_eq!(
            measure(Path::new("/nonexistent/compiler"), 64, 1, &[]),
            None
        );
    }
}
