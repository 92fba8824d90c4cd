//! How fast OpenBLAS is here, when it is told the right processor.
//!
//! In a virtual machine OpenBLAS may not know the processor and fall back to
//! its oldest kernel, four times slower than it could be. So it is run once
//! per core type the processor can execute, each in a process of its own, and
//! the fastest counts and is named. It is a comparison for reports, never a
//! reward.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// The best OpenBLAS can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// 10⁹ operations a second.
    pub gflops: f64,
    /// The core type it was told; none when its own choice was as good as any.
    pub core_type: Option<String>,
    /// The library.
    pub library: PathBuf,
    /// What it reaches when it chooses itself.
    pub detected_gflops: f64,
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
  if (argc < 3) return 2;
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) return 3;
  Gemm gemm = (Gemm)dlsym(library, "cblas_dgemm");
  if (!gemm) return 4;
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

/// Where Linux distributions put the library.
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

/// Measures C = A·B with n × n doubles on one thread of `core`. None where OpenBLAS or the compiler is missing.
pub fn measure(compiler: &Path, n: usize, core: Option<usize>) -> Option<Best> {
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
        seconds(&driver, &library, n, core, core_type).map(|s| flops / s / 1e9)
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

/// Runs the driver once, at most for a few seconds.
fn seconds(
    driver: &Path,
    library: &Path,
    n: usize,
    core: Option<usize>,
    core_type: Option<&str>,
) -> Option<f64> {
    let mut command = Command::new(driver);
    command
        .arg(library)
        .arg(n.to_string())
        .env("OPENBLAS_NUM_THREADS", "1")
        .env("OMP_NUM_THREADS", "1")
        .env_remove("OPENBLAS_CORETYPE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(core_type) = core_type {
        command.env("OPENBLAS_CORETYPE", core_type);
    }
    // A child inherits the cores of the thread that starts it.
    let pinned = crate::pinning::Pinned::to(core).ok()?;
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

    #[test]
    fn openblas_is_measured_where_it_is_installed() {
        let Some(best) = measure(Path::new("gcc"), 128, None) else {
            // Without the library (or a compiler) there is nothing to measure, and the answer says so.
            assert!(
                find_library().is_none() || Command::new("gcc").arg("--version").output().is_err()
            );
            return;
        };
        assert!(
            best.gflops >= best.detected_gflops && best.gflops > 0.1,
            "{best:?}"
        );
    }

    #[test]
    fn a_missing_compiler_is_no_measurement() {
        assert_eq!(measure(Path::new("/nonexistent/compiler"), 64, None), None);
    }
}
