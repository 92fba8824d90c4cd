//! Evaluates the candidates for one module or many, and prints and exports the results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_evaluate::ModuleStages;
use flopsmith_machine::attest::Hardware;
use flopsmith_machine::environment::Watched;
use flopsmith_machine::pinning;
use flopsmith_measure::Purpose;
use flopsmith_module::{
    Architecture, Baseline, Environment, INTERPRETATION, Options, Outcome, Package, Problem,
};
use flopsmith_protocol::TechniqueSet;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::digits::counted;
use flopsmith_run::idle_wait::{self, Patience};
use flopsmith_run::interrupt::{self, CancellationToken};
use flopsmith_run::{exit, local, measuring_lock, paths};

use super::candidates::{self, Sample};
use super::export::{self, Export, Judged, Setting, Unjudged};
use super::levels::{self, Samples};
use super::{header, line, print, rank, select};
use crate::Format;
use crate::announce::waiting;
use crate::threads::{self, ThreadCount};

/// The request of a user.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The problem as it was named.
    pub problem_name: &'a str,
    /// The folders of the problems that the name stands for.
    pub folders: &'a [PathBuf],
    /// The candidates: files, folders and patterns.
    pub files: &'a [PathBuf],
    /// The names of the workloads; all if there is none.
    pub workloads: &'a [String],
    /// The number of threads.
    pub threads: &'a [ThreadCount],
    /// The standard of the measurements.
    pub purpose: Purpose,
    /// Longest time, in all, to wait until the machine is quiet.
    pub wait: Duration,
    /// True if candidates run even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// Output format of the results.
    pub format: Format,
    /// Files in the formats of other tools.
    pub exports: &'a [Export],
    /// The GPUs for which kernels of Triton and of CUDA C++ are compiled; the default ones if there is none.
    pub architectures: &'a [Architecture],
}

/// Evaluates the candidates and prints the results; returns the exit code.
///
/// # Errors
/// Wrong usage, and failures that keep this machine from evaluating modules. If there are results or a folder of modules,
/// a problem that cannot be evaluated keeps neither the results nor the other problems from it.
pub fn run(order: &Order<'_>) -> Result<u8> {
    let mut problems = Vec::new();
    for folder in order.folders {
        let mut problem = Problem::load(folder)?;
        select(&mut problem, order.workloads)?;
        problems.push(problem);
    }
    let samples = candidates::assign(&problems, candidates::read(order.files)?)?;
    let work: Vec<(&Problem, &[Sample])> = problems
        .iter()
        .zip(samples.iter().map(Vec::as_slice))
        .filter(|(_, samples)| !samples.is_empty())
        .collect();
    let solved: Vec<&Problem> = work.iter().map(|(problem, _)| *problem).collect();
    let exports = export::prepare(order.exports, &solved)?;
    let cores = cores(order.threads)?;
    announce(&work, order.wait);
    measuring_lock::announce(&format!("bench --problem {}", order.problem_name));
    let listening = interrupt::Watch::start()?;
    let mut session = Session {
        order,
        of_folder: paths::module(order.problem_name).is_none(),
        watched: watched(&cores),
        cores,
        patience: Patience::new(order.wait),
        stopped: listening.asked(),
        environment: None,
        done: Vec::new(),
        unjudged: Vec::new(),
        failed: false,
    };
    for (problem, samples) in work {
        if !session.stopped.is_cancelled() {
            session.evaluate(problem, samples)?;
        }
    }
    if let Some(environment) = &session.environment {
        let setting = setting(environment, &session.cores);
        let all: Vec<Judged> = session.done.iter().map(Done::judged).collect();
        export::write(exports, &all, &session.unjudged, &setting)?;
    }
    session.print(&problems)?;
    Ok(session.exit_code())
}

/// Says what is going to be done, since it takes minutes.
fn announce(work: &[(&Problem, &[Sample])], wait: Duration) {
    let programs: usize = work.iter().map(|(_, samples)| samples.len()).sum();
    let workloads: usize = work.iter().map(|(of, _)| of.workloads.len()).sum();
    say(&format!(
        "{} for {} at {}, compared with {}; kernels of Triton are verified and not timed, CUDA C++ is compiled only",
        counted(programs as u64, "program"),
        counted(work.len() as u64, "module"),
        counted(workloads as u64, "workload"),
        baselines(work)
    ));
    if let Some(line) = waiting(wait, "") {
        say(&line);
    }
}

/// The baselines that at least one of the problems is timed against, in words.
fn baselines(work: &[(&Problem, &[Sample])]) -> String {
    let timed = |baseline: &Baseline| {
        let mut of_all = work.iter().flat_map(|(of, _)| of.timed_baselines());
        of_all.any(|one| one == *baseline)
    };
    let names: Vec<&str> = Baseline::ALL
        .iter()
        .filter(|baseline| timed(baseline))
        .map(|baseline| baseline.name())
        .collect();
    names.join(" and ")
}

/// A candidate that was evaluated.
struct Done<'a> {
    problem: &'a Problem,
    sample: &'a Sample,
    outcome: Outcome,
    busy: Option<String>,
}

impl Done<'_> {
    fn file(&self) -> &Path {
        &self.sample.candidate.file
    }

    fn line(&self) -> Result<String> {
        let busy = self.busy.as_deref();
        line(&self.problem.id, self.file(), &self.outcome, busy)
    }

    fn judged(&self) -> Judged<'_> {
        Judged {
            problem: self.problem,
            file: self.file(),
            name: &self.sample.candidate.name,
            sample: self.sample.number,
            outcome: &self.outcome,
        }
    }
}

struct Session<'a> {
    order: &'a Order<'a>,
    /// True if the name of the problem is that of a folder of modules.
    of_folder: bool,
    cores: Vec<usize>,
    watched: Watched,
    patience: Patience,
    stopped: &'a CancellationToken,
    environment: Option<Environment>,
    /// In the order of the problems.
    done: Vec<Done<'a>>,
    /// Candidates for problems whose references cannot be used.
    unjudged: Vec<Unjudged<'a>>,
    /// True if this machine failed to evaluate a problem.
    failed: bool,
}

impl<'a> Session<'a> {
    /// Says that something could not be evaluated.
    fn fails(&mut self, text: &str) {
        say(&format!("error: {text}"));
        self.failed = true;
    }

    /// Evaluates the candidates for a problem until a stop is requested.
    fn evaluate(&mut self, problem: &'a Problem, samples: &'a [Sample]) -> Result<()> {
        let options = Options {
            cores: self.cores.clone(),
            architectures: match self.order.architectures {
                [] => Architecture::DEFAULT.to_vec(),
                asked => asked.to_vec(),
            },
            interpretation: INTERPRETATION,
            allow_weaker_jail: self.order.allow_weaker_jail,
            progress: |text| say(&format!("{text}…")),
        };
        let stages = match ModuleStages::open(problem.clone(), options) {
            Ok(stages) => stages,
            // This machine has evaluated modules, and their results count.
            Err(error) if self.environment.is_some() => {
                let error = anyhow::Error::new(error);
                self.fails(&format!(
                    "{error:#}; the programs for {} are left out",
                    problem.id
                ));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let environment = stages.environment().clone();
        if self.order.format == Format::Jsonl {
            data(&header(&problem.id, &environment));
        }
        self.environment = Some(environment);
        for (position, sample) in samples.iter().enumerate() {
            if self.stopped.is_cancelled() {
                return Ok(());
            }
            let file = sample.candidate.file.display();
            say(&format!("evaluating {file}…"));
            // A candidate that is refused before its calls, or not timed, needs no quiet machine.
            let mut busy = None;
            let (patience, watched, stopped) = (&mut self.patience, &self.watched, self.stopped);
            let mut wait = || patience.wait(|| idle_wait::used(watched), stopped).go_on();
            let go_on =
                |package: &Package| package.needs_gpu() || wait().map(|why| busy = why).is_ok();
            let (source, limits) = (&sample.candidate.source, self.order.purpose.limits());
            let outcome = match stages.evaluate(source, TechniqueSet::all(), limits, go_on) {
                Ok(outcome) => outcome,
                // Ctrl-C also reaches the called processes, so a failure after it has no meaning.
                Err(_) if self.stopped.is_cancelled() => return Ok(()),
                Err(error) => {
                    let next = next(&error, self.of_folder || !self.done.is_empty());
                    let of_reference = error.is_of_the_input().then(|| error.to_string());
                    let error =
                        anyhow::Error::new(error).context(format!("{file} could not be evaluated"));
                    match next {
                        Next::Program => self.fails(&format!("{error:#}")),
                        Next::Problem => {
                            if let Some(why) = of_reference {
                                let left = samples[position..].iter();
                                self.unjudged.extend(left.map(|sample| Unjudged {
                                    problem,
                                    name: &sample.candidate.name,
                                    why: why.clone(),
                                }));
                            }
                            let id = &problem.id;
                            self.fails(&format!(
                                "{error:#}; the other programs for {id} are left out"
                            ));
                            return Ok(());
                        }
                        Next::Nothing => return Err(error),
                    }
                    continue;
                }
            };
            let done = Done {
                problem,
                sample,
                outcome,
                busy,
            };
            if self.order.format == Format::Jsonl {
                data(&done.line()?);
            }
            self.done.push(done);
        }
        Ok(())
    }

    /// Prints the results, the fastest candidate of each problem first, and the figures of many problems.
    fn print(&mut self, problems: &[Problem]) -> Result<()> {
        let format = self.order.format;
        let place = |done: &Done<'_>| problems.iter().position(|p| p.id == done.problem.id);
        self.done.sort_by(|a, b| {
            let by_problem = place(a).cmp(&place(b));
            let (a, b) = (rank(&a.outcome), rank(&b.outcome));
            by_problem.then(b.0.cmp(&a.0)).then(b.1.total_cmp(&a.1))
        });
        match format {
            Format::Json => {
                for done in &self.done {
                    data(&done.line()?);
                }
            }
            Format::Text => {
                let rows = self.done.iter();
                let rows = rows.map(|done| (done.file().to_owned(), done.outcome.clone()));
                print(&rows.collect::<Vec<_>>());
            }
            _ => {}
        }
        if !self.of_folder {
            return Ok(());
        }
        let of = |problem: &Problem| {
            let of = self.done.iter().filter(|d| d.problem.id == problem.id);
            let outcomes = of.map(|done| &done.outcome);
            Samples {
                level: problem.level,
                outcomes: outcomes.filter(|o| levels::is_decided(o)).collect(),
            }
        };
        let figures = levels::figures(&problems.iter().map(of).collect::<Vec<_>>());
        match format {
            Format::Text => {
                data("");
                levels::lines(&figures).iter().for_each(|line| data(line));
            }
            _ => data(&levels::to_json(&figures).to_string()),
        }
        Ok(())
    }

    fn exit_code(&self) -> u8 {
        if self.stopped.is_cancelled() {
            return exit::INTERRUPTED;
        }
        code(self.failed, self.done.iter().map(|done| &done.outcome))
    }
}

/// The exit code of a session that was not interrupted; `failed` is true if this machine failed to evaluate a problem.
fn code<'a>(failed: bool, outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> u8 {
    if failed || !outcomes.clone().all(levels::is_decided) {
        exit::INFRASTRUCTURE
    } else if outcomes.clone().all(levels::is_correct) {
        exit::OK
    } else {
        exit::CANDIDATE
    }
}

/// The work after an error of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next program.
    Program,
    /// The next problem.
    Problem,
    /// None: the error ends the command.
    Nothing,
}

/// The work after an error; `keeps` is true if there are results or other problems.
fn next(error: &flopsmith_module::Error, keeps: bool) -> Next {
    match error {
        // Other programs may need no Triton and no nvcc, and be timed without an error.
        flopsmith_module::Error::Triton { .. }
        | flopsmith_module::Error::Cuda { .. }
        | flopsmith_module::Error::Implausible { .. } => Next::Program,
        _ if keeps => Next::Problem,
        _ => Next::Nothing,
    }
}

/// The cores on which all sides are called: the last ones. This process keeps to the others.
fn cores(asked: &[ThreadCount]) -> Result<Vec<usize>> {
    let counts = threads::counts(asked)?;
    let [count] = counts.as_slice() else {
        return Err(usage("a module is timed at one number of threads"));
    };
    let allowed = pinning::allowed_cores();
    let count = (*count as usize).clamp(1, allowed.len().max(1));
    let (others, timed) = allowed.split_at(allowed.len() - count.min(allowed.len()));
    if others.is_empty() {
        say("note: no core is left for this process, so times are less certain");
    } else {
        pinning::pin_this_thread(others).context("this process cannot leave the timed cores")?;
    }
    Ok(timed.to_vec())
}

/// The timed cores and those that share a physical core with them.
fn watched(cores: &[usize]) -> Watched {
    let beside = cores.iter().copied().flat_map(pinning::siblings);
    Watched {
        kernel: cores.to_vec(),
        siblings: beside.filter(|core| !cores.contains(core)).collect(),
        supervisor: None,
    }
}

fn setting<'a>(environment: &'a Environment, cores: &[usize]) -> Setting<'a> {
    Setting {
        hardware: Hardware::of(cores.first().copied().unwrap_or(0)).cpu_model,
        environment,
        timestamp: local::utc(local::unix_ms() / 1000),
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_module::Error;
    use flopsmith_protocol::CandidateFault;

    use super::*;
    use crate::modules::levels::tests::{compiled, measured, refused};

    #[test]
    fn a_program_that_was_only_compiled_is_no_success_and_no_fault() {
        let (right, wrong) = (
            measured(2.0, 2.0),
            refused(CandidateFault::WrongResult, "off"),
        );
        let unknown = compiled();
        for (failed, outcomes, expected) in [
            (false, vec![&right], exit::OK),
            (false, vec![&right, &wrong], exit::CANDIDATE),
            (true, vec![&right], exit::INFRASTRUCTURE),
            (false, vec![&unknown, &right], exit::INFRASTRUCTURE),
            (false, vec![&wrong, &unknown], exit::INFRASTRUCTURE),
        ] {
            assert_eq!(code(failed, outcomes.iter().copied()), expected);
        }
    }

    #[test]
    fn an_error_keeps_results_and_a_missing_tool_keeps_other_programs() {
        let triton = Error::Triton {
            python: "python3".into(),
            missing: "Triton",
        };
        let broken = Error::Process {
            process: "the reference",
            detail: "it ended".into(),
        };
        let cuda = Error::Cuda {
            detail: "no nvcc was found".into(),
        };
        let too_fast = Error::Implausible {
            detail: "no memory is so fast".into(),
        };
        assert_eq!(next(&too_fast, false), Next::Program);
        assert_eq!(next(&triton, false), Next::Program);
        assert_eq!(next(&cuda, false), Next::Program);
        assert_eq!(next(&broken, true), Next::Problem);
        assert_eq!(next(&broken, false), Next::Nothing);
    }
}
