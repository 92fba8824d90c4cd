//! The same kernel by other methods: the fastest of a hundred calls in a plain process, and Google Benchmark.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flopsmith_machine::pinning::Pinned;

use super::{Done, Laboratory, numbers};

const PLAIN: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
void dgemm(int n, const double *A, const double *B, double *C);
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
int main(void) {
  enum { n = 256, calls = 100 };
  static double seconds[calls];
  size_t bytes = sizeof(double) * n * n;
  double *a = aligned_alloc(64, bytes), *b = aligned_alloc(64, bytes), *c = aligned_alloc(64, bytes);
  if (!a || !b || !c) return 1;
  for (int i = 0; i < n * n; i++) {
    a[i] = (i * 37 % 101) / 101.0 - 0.5;
    b[i] = (i * 53 % 103) / 103.0 - 0.5;
  }
  for (int call = 0; call < calls; call++) {
    double start = now();
    dgemm(n, a, b, c);
    seconds[call] = now() - start;
  }
  for (int call = 0; call < calls; call++) printf("%.9e\n", seconds[call]);
  return 0;
}
"#;

const GOOGLE: &str = r#"
#include <benchmark/benchmark.h>
#include <cstdlib>
extern "C" void dgemm(int n, const double *A, const double *B, double *C);
static void product(benchmark::State &state) {
  const int n = 256;
  const size_t bytes = sizeof(double) * n * n;
  double *a = static_cast<double *>(std::aligned_alloc(64, bytes));
  double *b = static_cast<double *>(std::aligned_alloc(64, bytes));
  double *c = static_cast<double *>(std::aligned_alloc(64, bytes));
  for (int i = 0; i < n * n; i++) {
    a[i] = (i * 37 % 101) / 101.0 - 0.5;
    b[i] = (i * 53 % 103) / 103.0 - 0.5;
  }
  for (auto _ : state) {
    dgemm(n, a, b, c);
    benchmark::DoNotOptimize(c);
    benchmark::ClobberMemory();
  }
  std::free(a);
  std::free(b);
  std::free(c);
}
BENCHMARK(product);
BENCHMARK_MAIN();
"#;

/// The times of a hundred calls of a plain process.
pub struct Calls {
    /// The fastest, seconds.
    pub minimum: f64,
    /// The median, seconds.
    pub median: f64,
}

/// Programs that time the kernel themselves, without a jail.
pub struct Peers {
    core: usize,
    plain: PathBuf,
    /// The program, or the reason why there is none.
    google: Result<PathBuf, String>,
    _folder: tempfile::TempDir,
}

impl Peers {
    /// Builds them around a kernel, with the same compiler and flags.
    pub fn build(laboratory: &Laboratory, source: &str) -> Done<Self> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("kernel.c"), source)?;
        std::fs::write(at("plain.c"), PLAIN)?;
        std::fs::write(at("google.cc"), GOOGLE)?;
        let compiler = &laboratory.toolchain.compiler;
        let flags = &laboratory.toolchain.flags;
        let mut kernel = Command::new(compiler);
        kernel.args(flags).args(["-w", "-c", "-o"]);
        built(kernel.args([at("kernel.o"), at("kernel.c")]))?;
        let mut plain = Command::new(compiler);
        plain.args(flags).arg("-o");
        built(plain.args([at("plain"), at("plain.c"), at("kernel.o")]))?;
        let found = ["/usr/include", "/usr/local/include"]
            .iter()
            .any(|root| Path::new(root).join("benchmark/benchmark.h").is_file());
        let google = if found {
            let mut google = Command::new("g++");
            google.args(["-O2", "-std=c++17", "-o"]);
            google.args([at("google"), at("google.cc"), at("kernel.o")]);
            google.args(["-lbenchmark", "-fopenmp", "-lpthread"]);
            built(&mut google)
                .map(|()| at("google"))
                .map_err(|e| e.to_string())
        } else {
            Err("not installed (Debian, Ubuntu: apt install libbenchmark-dev g++)".to_owned())
        };
        Ok(Self {
            core: laboratory.kernel_core(),
            plain: at("plain"),
            google,
            _folder: folder,
        })
    }

    /// The reason why Google Benchmark is left out, if it is.
    pub fn without_google(&self) -> Option<&str> {
        self.google.as_ref().err().map(String::as_str)
    }

    /// A hundred calls in a fresh process on the kernels' core.
    pub fn plain(&self) -> Done<Calls> {
        let said = self.said(&mut Command::new(&self.plain))?;
        let seconds = said
            .lines()
            .map(str::parse::<f64>)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Calls {
            minimum: numbers::smallest(&seconds),
            median: numbers::median(&seconds),
        })
    }

    /// Google Benchmark's own time of one call in a fresh process on the kernels' core, seconds.
    pub fn google(&self) -> Done<Option<f64>> {
        let Ok(program) = &self.google else {
            return Ok(None);
        };
        let said = self.said(Command::new(program).arg("--benchmark_format=json"))?;
        let report: serde_json::Value = serde_json::from_str(&said)?;
        let nanoseconds = report["benchmarks"][0]["real_time"]
            .as_f64()
            .ok_or("Google Benchmark reports no time")?;
        Ok(Some(nanoseconds * 1e-9))
    }

    /// The output of a program. A process starts on the cores of the thread that starts it.
    fn said(&self, command: &mut Command) -> Done<String> {
        let _pinned = Pinned::to(Some(self.core))?;
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Err(format!("{command:?} failed: {}", output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Runs a compiler; returns its messages if it fails.
fn built(command: &mut Command) -> Done {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}", said.trim()).into())
}
