//! The speed of OpenBLAS on this machine, with the best core type.
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
    /// Speed with OpenBLAS's own choice of core type, 10⁹ operations a second.
    pub detected_gflops: f64,
}

impl Best {
    /// The mean over several sizes: speeds are geometric means, and the core type is that of the first size.
    pub fn over(sizes: &[Best]) -> Option<Best> {
        let first = sizes.first()?;
        Some(Best {
            gflops: geometric(sizes.iter().map(|best| best.gflops))?,
            detected_gflops: geometric(sizes.iter().map(|best| best.detected_gflops))?,
            ..first.clone()
        })
    }
}

const DRIVER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef void (*Gemm)(int, int, int, int, int, int, double, const double *, int,
                     const double *, int, double, double *, int);
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
int main(int argc, char **argv) {
  if (argc < 4) return 2;
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) return 3;
  Gemm gemm = (Gemm)dlsym(library, "cblas_dgemm");
  if (!gemm) return 4;
  int (*parallel)(void) = (int (*)(void))dlsym(library, "openblas_get_parallel");
  if (atoi(argv[3]) > 1 && !(parallel && parallel())) return 7;
  int n = atoi(argv[2]);
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
    gemm(101, 111, 111, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
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

/// Finds the library in the folders that Linux distributions use.
fn find_library() -> Option<PathBuf> {
    let folders = [
        "/usr/lib/x86_64-linux-gnu/openblas-pthread",
        "/usr/lib/x86_64-linux-gnu/openblas-serial",
        "/usr/lib/x86_64-linux-gnu/openblas-openmp",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu/openblas-pthread",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    let names = ["libopenblas.so.0", "libopenblas.so"];
    folders
        .iter()
        .flat_map(|folder| names.iter().map(move |name| Path::new(folder).join(name)))
        .find(|path| path.is_file())
}

/// Measures C = A·B with n × n doubles on `threads` threads, which run only on `cores`, or on any core if `cores` is
/// empty. None where OpenBLAS or the compiler is missing, and for several threads where the library was built for one.
pub fn measure(compiler: &Path, n: usize, threads: u32, cores: &[usize]) -> Option<Best> {
    let library = find_library()?;
    let folder = tempfile::tempdir().ok()?;
    let source = folder.path().join("driver.c");
    let driver = folder.path().join("driver");
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
    if !built.success() {
        return None;
    }
    let flops = 2.0 * (n as f64).powi(3);
    let run = |core_type: Option<&str>| -> Option<f64> {
        let command = command(&driver, &library, n, threads, core_type);
        seconds(command, cores).map(|s| flops / s / 1e9)
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
        library,
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

/// Runs the driver once, for at most 10 s.
fn seconds(mut command: Command, cores: &[usize]) -> Option<f64> {
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
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing_to_measure_with() -> bool {
        find_library().is_none() || Command::new("gcc").arg("--version").output().is_err()
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
        let built_for_them = find_library().is_some_and(|library| {
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
