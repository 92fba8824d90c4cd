//! Common parts of the programs that measure Flopsmith's measuring: the stages of dgemm, kernels with a known speed by
//! construction, and peers.

pub mod again;
pub mod harnessed;
pub mod kernels;
pub mod numbers;
pub mod peers;
pub mod words;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use flopsmith_compile::{Compiler, Toolchain};
use flopsmith_machine::Cores;
use flopsmith_machine::pinning::{self, Pinned};
use flopsmith_measure::{Timer, Verifier};
use flopsmith_problem::Problem;
use flopsmith_protocol::TechniqueSet;
use flopsmith_sandbox::{Options, Sandbox};

/// The result of a step of these programs.
pub type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The stages of this machine for dgemm.
pub struct Laboratory {
    /// The problem.
    pub problem: Arc<Problem>,
    /// The jail.
    pub sandbox: Arc<Sandbox>,
    /// Compiler and flags.
    pub toolchain: Toolchain,
    /// Compile stage.
    pub compiler: Compiler,
    /// The cores for a timer of one thread.
    pub cores: Cores,
}

impl Laboratory {
    /// Finds jail and compiler.
    pub fn new() -> Done<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        // The first workload: figures of these programs go back to when there was no other.
        let problem = Arc::new(Problem::load(&root)?.only_first());
        // The programs measured here are our own.
        let options = Options {
            allow_weaker: true,
            ..Options::default()
        };
        let sandbox = Arc::new(Sandbox::new(options)?);
        let toolchain = Toolchain::detect(None, &problem)?;
        let compiler = Compiler::new(Arc::clone(&sandbox), toolchain.clone());
        Ok(Self {
            problem,
            sandbox,
            toolchain,
            compiler,
            cores: pinning::assign(&pinning::allowed_cores(), 1, pinning::siblings),
        })
    }

    /// A timer with its own baseline.
    pub fn timer(&self) -> Done<Timer> {
        self.timer_of(Arc::clone(&self.problem))
    }

    /// A timer with this program as its baseline.
    pub fn timer_against(&self, source: &str) -> Done<Timer> {
        let problem = Problem {
            baseline_source: Some(source.to_owned()),
            ..(*self.problem).clone()
        };
        self.timer_of(Arc::new(problem))
    }

    fn timer_of(&self, problem: Arc<Problem>) -> Done<Timer> {
        Ok(Timer::new(
            Arc::clone(&self.sandbox),
            harness()?,
            problem,
            &self.toolchain,
            self.cores.clone(),
            1,
        )?)
    }

    /// A verifier with its own secrets.
    pub fn verifier(&self) -> Done<Verifier> {
        self.verifier_of(Arc::clone(&self.problem))
    }

    /// The same for another problem, with the same compiler and flags.
    pub fn verifier_of(&self, problem: Arc<Problem>) -> Done<Verifier> {
        Ok(Verifier::new(
            Arc::clone(&self.sandbox),
            harness()?,
            problem,
            &self.toolchain,
            rand::random(),
        )?)
    }

    /// Compiles a program that may use every technique.
    pub fn compile(&self, source: &str) -> Done<Vec<u8>> {
        let built = self
            .compiler
            .compile(&self.problem, source, TechniqueSet::all())?;
        Ok(built.object)
    }

    /// Operations of one timed call.
    pub fn flops(&self) -> f64 {
        self.problem.work_flops(&self.problem.timed)
    }

    /// The core of the kernels.
    pub fn kernel_core(&self) -> usize {
        self.cores.kernel.first().copied().unwrap_or(0)
    }

    /// Keeps another core busy until the guard is dropped.
    pub fn busy(&self) -> Done<Busy> {
        let kernel = self.kernel_core();
        let other = self
            .cores
            .supervisor
            .or_else(|| pinning::allowed_cores().into_iter().find(|c| *c != kernel))
            .ok_or("--busy needs a second core")?;
        Ok(Busy::on(other)?)
    }
}

/// The program that calls kernels in the jail.
fn harness() -> Done<PathBuf> {
    let here = std::env::current_exe()?;
    let program = here
        .parent()
        .and_then(Path::parent)
        .map(|folder| folder.join("flopsmith-harness"))
        .filter(|program| program.is_file())
        .ok_or("there is no flopsmith-harness: cargo build --release --workspace")?;
    Ok(program)
}

/// A loop that uses a whole core.
pub struct Busy {
    /// The core.
    pub core: usize,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn on(core: usize) -> Result<Self, std::io::Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        // A thread starts on the cores of its starter.
        let _pinned = Pinned::to(Some(core))?;
        let thread = std::thread::Builder::new()
            .name("busy".to_owned())
            .spawn(move || {
                let mut x = 1u64;
                while !told.load(Ordering::Relaxed) {
                    for _ in 0..10_000 {
                        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005));
                    }
                }
            })?;
        Ok(Self {
            core,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and this place could not handle a panic.
            let _ended = thread.join();
        }
    }
}
