//! The precision of this machine's clock: a kernel is measured against itself, as `bench` measures programs.
//!
//! [`Kernel::repeat`] is a short look at the noise. [`calibrate`] measures the smallest difference that this machine can tell
//! from noise to each standard, and the time that takes; the figures are kept in the user's state folder. `flopsmith doctor`
//! prints both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flopsmith_evaluate::{Evaluator, Look, Prepared};
use flopsmith_machine::attest::Attestation;
use flopsmith_machine::openblas;
use flopsmith_measure::{METHOD, Purpose, Timer};
use flopsmith_problem::Language;
use flopsmith_protocol::{Measurement, Verdict};
use flopsmith_run::console::say;
use flopsmith_run::idle_wait::{self, Patience};
use flopsmith_run::output::replace;
use flopsmith_run::{evaluator, paths};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Measurements of each standard. The number is large enough to know the spread to about a fifth, or to a quarter for
/// the standard that takes ten seconds for each measurement.
const ROUNDS: [(Purpose, &str, usize); 3] = [
    (Purpose::Screen, "screen", 40),
    (Purpose::Rank, "rank", 30),
    (Purpose::Certify, CERTIFY, 8),
];

/// The name of the standard that changes the code layout.
const CERTIFY: &str = "certify";

/// Two measurements whose true values lie this many standard deviations of their difference apart are told apart with 95 %
/// confidence in 95 of 100 tries: 1.96 + 1.645.
const TOLD_APART: f64 = 3.605;

/// Number of measurements of [`Kernel::repeat`].
pub const REPEATS: usize = 12;

/// Largest spread of a machine that needs no advice, as a share.
const STEADY: f64 = 0.01;

/// The baseline of dgemm as a program, and the timer that measures it. Its ratio to the baseline is 1 in any state of the
/// machine.
pub struct Kernel {
    evaluator: Evaluator,
    timer: Timer,
}

/// How far measurements of one kernel lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeats {
    /// Width of all but the fastest and the slowest, as a share of the slower end.
    pub spread: f64,
    /// Greatest distance from the median, as a share of it.
    pub worst: f64,
}

impl Repeats {
    /// True if the machine was quiet enough.
    pub fn are_steady(&self) -> bool {
        self.spread < STEADY
    }

    /// The repeats of these speeds, of which there are at least three.
    fn of(mut gflops: Vec<f64>) -> Self {
        gflops.sort_by(f64::total_cmp);
        let middle = gflops[gflops.len() / 2];
        let distances = gflops.iter().map(|g| (g / middle - 1.0).abs());
        Self {
            spread: (gflops[gflops.len() - 2] / gflops[1] - 1.0).abs(),
            worst: distances.fold(0.0, f64::max),
        }
    }
}

impl Kernel {
    /// Makes a timer with one thread, which measures peak and reference.
    ///
    /// # Errors
    /// dgemm is not installed, or this machine cannot measure.
    pub fn open() -> Result<Self> {
        let problem = Arc::new(paths::problem("dgemm")?.only_first());
        // The program is our own.
        let evaluator = evaluator::open(problem, "gcc", true)?;
        let timer = evaluator.timer(1)?;
        Ok(Self { evaluator, timer })
    }

    /// The highest speed of one core, in GFLOPS.
    pub fn peak_gflops(&self) -> f64 {
        self.timer.peak_gflops()
    }

    /// Speed of OpenBLAS on the same core; none if it is not installed.
    pub fn openblas(&self) -> Option<openblas::Best> {
        self.evaluator.openblas(1)
    }

    /// The machine.
    pub fn attestation(&self) -> &Attestation {
        self.timer.attestation()
    }

    /// Compiles and verifies the kernel, for measurements to this standard.
    fn prepared(&self, look: Look) -> Result<Prepared> {
        let problem = &self.evaluator.problem;
        let baseline = problem.baseline_source.as_ref();
        let source = baseline.unwrap_or(&problem.reference_source);
        let mut verifier = self.evaluator.verifier(1)?;
        Ok(self
            .evaluator
            .prepare(Language::C, source, &mut verifier, look))
    }

    /// Measures the kernel [`REPEATS`] times.
    ///
    /// # Errors
    /// The kernel was not measured.
    pub fn repeat(&mut self) -> Result<Repeats> {
        let kernel = self.prepared(Purpose::Rank.into())?;
        let mut gflops = Vec::with_capacity(REPEATS);
        for _ in 0..REPEATS {
            let done = kernel.time(&mut self.timer, Purpose::Rank, None);
            gflops.push(measured(&done.verdict)?.gflops);
        }
        Ok(Repeats::of(gflops))
    }
}

/// How well one standard of measurement repeats here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// The standard.
    pub purpose: String,
    /// Measurements of one kernel against itself.
    pub measurements: usize,
    /// Wall-clock seconds of one, the median.
    pub seconds: f64,
    /// Standard deviation of the ratio, as a share of it.
    pub spread: f64,
    /// Smallest difference between two kernels that is told from noise in 95 of 100 tries, as a share.
    pub resolves: f64,
    /// How often the stated 95 % interval held the truth, which is 1.
    pub covered: f64,
}

/// The result of a calibration, and its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Names hardware and toolchain.
    pub machine: String,
    /// The method of measuring ([`flopsmith_measure::METHOD`]); figures of another one say nothing of this one.
    pub method: String,
    /// When, in seconds since 1970.
    pub unix_seconds: u64,
    /// One for each standard.
    pub standards: Vec<Resolution>,
    /// The processes that disturbed it, where the machine did not become quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_busy: Option<String>,
}

/// Measures a kernel against itself to each standard, as `bench` does, and stores the figures. Takes about two minutes,
/// and at most `wait` more until the machine is quiet.
///
/// # Errors
/// This machine cannot measure, or the figures cannot be stored.
pub fn calibrate(wait: Duration) -> Result<(Calibration, PathBuf)> {
    let opened = Kernel::open()?;
    let kernel = opened.prepared(Purpose::Certify.into())?;
    let mut timer = opened.timer;
    let chain = timer.chain();
    let mut standards = Vec::new();
    let (mut patience, mut machine_busy) = (Patience::new(wait), None);
    for (purpose, name, rounds) in ROUNDS {
        let mut logs = Vec::with_capacity(rounds);
        let mut seconds = Vec::with_capacity(rounds);
        let mut covered = 0;
        for round in 0..rounds {
            if round % 10 == 0 {
                say(&format!("{name}: {round} of {rounds}"));
                // No token is needed: a signal ends this process.
                let never = CancellationToken::new();
                let busy = patience
                    .wait(|| idle_wait::look(&mut timer), &never)
                    .go_on()?;
                machine_busy = machine_busy.or(busy);
            }
            let started = Instant::now();
            let done = kernel.time(&mut timer, purpose, None);
            let measured = measured(&done.verdict)?;
            seconds.push(started.elapsed().as_secs_f64());
            let log = measured.ratio.ln() - chain.log_ratio;
            // The interval of a report is not used here, since it also contains the error of the plain reference.
            covered += usize::from(log.abs() <= 1.96 * measured.log_ratio_se);
            logs.push(log);
        }
        standards.push(resolution(name, &logs, seconds, covered));
    }
    let calibration = Calibration {
        machine: timer.attestation().class_key(),
        method: METHOD.into(),
        unix_seconds: flopsmith_run::local::unix_ms() / 1000,
        standards,
        machine_busy,
    };
    let path = place(&folder()?, &calibration.machine);
    keep(&path, &calibration)?;
    Ok((calibration, path))
}

/// The measurement of the problem's own kernel; an error if it was not measured.
fn measured(verdict: &Verdict) -> Result<&Measurement> {
    match verdict {
        Verdict::Measured { measurement } => Ok(measurement),
        Verdict::Rejected { detail, .. }
        | Verdict::Infrastructure { detail, .. }
        | Verdict::Unknown { detail, .. } => {
            anyhow::bail!(
                "the baseline of dgemm could not be measured: {}: {detail}",
                verdict.kind()
            )
        }
    }
}

fn resolution(name: &str, logs: &[f64], mut seconds: Vec<f64>, covered: usize) -> Resolution {
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let spread = variance.sqrt();
    seconds.sort_by(f64::total_cmp);
    Resolution {
        purpose: name.to_owned(),
        measurements: logs.len(),
        seconds: seconds.get(seconds.len() / 2).copied().unwrap_or(0.0),
        spread,
        resolves: TOLD_APART * std::f64::consts::SQRT_2 * spread,
        covered: covered as f64 / n,
    }
}

/// The folder of the figures.
fn folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let state = set("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")))
        .context("neither XDG_STATE_HOME nor HOME is set, so the figures cannot be stored")?;
    Ok(state.join("flopsmith"))
}

/// The file of a machine's figures. Homes are shared by several machines, and the figures of one machine do not hold
/// for another.
fn place(folder: &Path, machine: &str) -> PathBuf {
    folder.join(format!("timing-{machine}.json"))
}

fn keep(path: &Path, calibration: &Calibration) -> Result<()> {
    let text = serde_json::to_string_pretty(calibration)? + "\n";
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| replace(path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The figures of an earlier calibration of this machine.
pub fn known(machine: &str) -> Option<Calibration> {
    known_in(&folder().ok()?, machine)
}

fn known_in(folder: &Path, machine: &str) -> Option<Calibration> {
    let text = std::fs::read_to_string(place(folder, machine)).ok()?;
    let found: Calibration = serde_json::from_str(&text).ok()?;
    (found.machine == machine && found.method == METHOD).then_some(found)
}

/// The figures as lines.
pub fn lines(calibration: &Calibration) -> String {
    let line = |r: &Resolution| {
        // Only a certification changes the code layout; the other standards leave it the same in each measurement.
        let left_out = if r.purpose == CERTIFY {
            ""
        } else {
            ", code layout left out"
        };
        format!(
            "{:<8} tells {:.2} % apart in {:.2} s{left_out} (spread {:.3} %, {:.0} % of {} intervals contain the true value)",
            r.purpose,
            r.resolves * 100.0,
            r.seconds,
            r.spread * 100.0,
            r.covered * 100.0,
            r.measurements
        )
    };
    let said = |why: &String| {
        format!(
            "measured on a busy machine ({why}); an idle machine may tell smaller differences apart"
        )
    };
    let busy = calibration.machine_busy.iter().map(said);
    let standards = calibration.standards.iter().map(line);
    let all: Vec<String> = standards.chain(busy).collect();
    all.join("\n")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_spread_says_what_can_be_told_apart() {
        let logs = [0.01, -0.01, 0.01, -0.01, 0.0];
        let found = resolution("rank", &logs, vec![0.3, 0.1, 0.2, 0.2, 9.0], 4);
        assert!((found.spread - 0.01).abs() < 1e-12, "{found:?}");
        assert!((found.resolves - 0.0509).abs() < 1e-3, "{found:?}");
        assert_eq!((found.seconds, found.covered), (0.2, 0.8));
    }

    #[test]
    fn a_single_disturbance_is_the_worst_and_no_spread() {
        let mut gflops = vec![10.0; REPEATS];
        let even = Repeats {
            spread: 0.0,
            worst: 0.0,
        };
        assert_eq!(Repeats::of(gflops.clone()), even);
        gflops[3] = 5.0;
        let disturbed = Repeats { worst: 0.5, ..even };
        assert_eq!(Repeats::of(gflops.clone()), disturbed);
        assert!(disturbed.are_steady());
        gflops[7] = 8.0;
        let noisy = Repeats::of(gflops);
        assert!((noisy.spread - 0.25).abs() < 1e-12, "{noisy:?}");
        assert!(noisy.worst == 0.5 && !noisy.are_steady(), "{noisy:?}");
    }

    #[test]
    fn figures_are_kept_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a/b");
        let calibration = |machine: &str, spread: f64| Calibration {
            machine: machine.into(),
            method: METHOD.into(),
            unix_seconds: 7,
            standards: vec![resolution("rank", &[0.0, spread], vec![0.1, 0.1], 2)],
            machine_busy: None,
        };
        let (one, other) = (calibration("one", 0.001), calibration("other", 0.02));
        for figures in [&one, &other] {
            keep(&place(&folder, &figures.machine), figures).unwrap();
        }
        // In a shared home, the second machine does not overwrite the figures of the first.
        assert_eq!(known_in(&folder, "one").as_ref(), Some(&one));
        assert_eq!(known_in(&folder, "other").as_ref(), Some(&other));
        assert_eq!(known_in(&folder, "a third"), None);
        // A file under another machine's name is ignored.
        std::fs::copy(place(&folder, "one"), place(&folder, "copied")).unwrap();
        assert_eq!(known_in(&folder, "copied"), None);
        // A file of another measuring method is ignored as well.
        let older = Calibration {
            method: "an older one".into(),
            ..one.clone()
        };
        keep(&place(&folder, "one"), &older).unwrap();
        assert_eq!(known_in(&folder, "one"), None);
        assert!(lines(&one).contains("rank"));
    }

    #[test]
    fn a_resolution_without_other_layouts_has_a_note() {
        let standards = ROUNDS.map(|(_, name, _)| resolution(name, &[0.0, 0.01], vec![0.1], 2));
        let calibration = Calibration {
            machine: "one".into(),
            method: METHOD.into(),
            unix_seconds: 7,
            standards: standards.to_vec(),
            machine_busy: Some("core 1 is used 40 % by others".into()),
        };
        let lines = lines(&calibration);
        let without: Vec<bool> = lines
            .lines()
            .map(|line| line.contains("s, code layout left out (spread"))
            .collect();
        assert_eq!(without, [true, true, false, false], "{lines}");
        assert!(
            lines.contains("busy machine (core 1 is used 40 %"),
            "{lines}"
        );
    }

    #[test]
    fn a_kernel_that_cannot_be_measured_is_an_error_with_its_reason() {
        assert!(measured(&flopsmith_test_support::measured(40.0)).is_ok());
        let error = measured(&flopsmith_test_support::wrong()).unwrap_err();
        assert!(error.to_string().contains("wrong_result"), "{error}");
    }
}
