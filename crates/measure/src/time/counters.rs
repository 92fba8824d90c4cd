//! Hardware counters of a program's calls, which may say why it is slow.
//!
//! The calls are apart from all timed ones: no number of a measurement comes from here, and nothing is decided by a count. As for
//! timed calls, a process of ours makes the inputs on the same cores. The counters are of the program's process and its threads,
//! and run during its calls only. This side opens and reads them.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_harness::Waiting;
use flopsmith_machine::counters::{Counter, Counts, Readings};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Failure, InfrastructureCause};
use flopsmith_sandbox::Sandbox;
use rand::Rng;

use super::equipment::PlacedArrays;
use super::workload::own_fault;
use super::{CPU_LIMIT, Caches};
use crate::supervise::{Process, Setup, plan, plan_to_fill};
use crate::verify::compile_own;

/// Most workloads at which a program is counted, the first ones.
const WORKLOADS: usize = 4;
/// Most calls that are counted at a workload.
const CALLS: u32 = 16;
/// No further call begins this long after the first one at a workload.
const TIME: Duration = Duration::from_millis(500);
/// No further workload begins this long after the start.
const TIME_IN_ALL: Duration = Duration::from_secs(10);
/// Longest call.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a line of a cache.
const LINE: f64 = 64.0;
/// The program of ours that makes the inputs.
const REFERENCE: &str = "reference.c";

/// The counts of a program at a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// Name of the workload.
    pub workload: String,
    /// Number of calls.
    pub calls: u32,
    /// Counts of a call, the mean over all.
    pub counts: Counts,
    /// The counters that are missing, and why.
    pub missing: Option<String>,
    /// Operations of a call.
    pub operations: f64,
    /// Bytes that a call must move at least, by the problem's own formula.
    pub least_bytes: f64,
}

/// Calls a verified program, whose object this is, at up to four workloads, and counts events in these calls. `cores` has one core
/// for each thread; the caller guarantees that no other process runs on them.
///
/// # Errors
/// The candidate's fault, and infrastructure failures, among them a machine without any counter.
pub fn count(
    sandbox: &Arc<Sandbox>,
    harness: &Path,
    problem: &Problem,
    toolchain: &Toolchain,
    cores: &[usize],
    object: &[u8],
) -> Result<Vec<Counted>, Failure> {
    let source = &problem.reference_source;
    let reference = compile_own(sandbox, toolchain, problem, source, REFERENCE)?;
    let counting = Counting {
        sandbox,
        harness,
        cores,
        reference: &reference,
        object,
    };
    let began = Instant::now();
    let mut all = Vec::new();
    let each = problem.each();
    for (of, workload) in each.iter().zip(&problem.workloads).take(WORKLOADS) {
        if began.elapsed() > TIME_IN_ALL {
            break;
        }
        all.push(counting.at(of, &workload.name)?);
    }
    Ok(all)
}

/// A program to count, and everything that is the same at all workloads.
struct Counting<'a> {
    sandbox: &'a Sandbox,
    harness: &'a Path,
    cores: &'a [usize],
    /// The object of the plain reference, whose process makes the inputs.
    reference: &'a [u8],
    object: &'a [u8],
}

impl Counting<'_> {
    /// The counts at the workload that `problem` is timed at.
    fn at(&self, problem: &Problem, workload: &str) -> Result<Counted, Failure> {
        let PlacedArrays {
            specification,
            arena,
            placement,
            ..
        } = PlacedArrays::of(problem)?;
        let threads = u32::try_from(self.cores.len()).unwrap_or(1).max(1);
        let start = |object: &[u8], cpu_limit: Option<Duration>| {
            let setup = Setup {
                sandbox: self.sandbox,
                harness: self.harness,
                entry: &problem.entry.name,
                arena: &arena,
                threads,
                cores: Some(self.cores),
                waiting: Waiting::Sleep,
                cpu_limit,
            };
            Process::start(&setup, object)
        };
        let ours = own_fault(REFERENCE);
        let mut filler = start(self.reference, None).map_err(&ours)?;
        let to_fill = plan_to_fill(&specification, &placement);
        filler.plan(&to_fill).map_err(&ours)?;
        let mut called = start(self.object, Some(CPU_LIMIT))?;
        called.plan(&plan(&specification, &placement))?;
        let counters = called
            .counters()
            .map_err(|why| Failure::infrastructure(InfrastructureCause::Resources, why))?;
        let cold = Caches::of(problem) == Caches::Cold;
        let mut sum: Option<Readings> = None;
        let mut calls = 0;
        let mut began = None;
        while calls < CALLS {
            let seed = rand::rng().random();
            filler.prepare(seed).map_err(&ours)?;
            if cold {
                filler.chill().map_err(&ours)?;
            }
            if threads > 1 {
                // Gives each thread a core of its own, as between timed calls.
                called.settle()?;
            }
            called.set_scalars(specification.registers_of(seed));
            let before = counters.read();
            called.call(CALL_LIMIT)?;
            let during = counters.read() - before;
            // The first call meets pages for the first time, and makes the threads.
            let Some(began) = began else {
                began = Some(Instant::now());
                continue;
            };
            sum = Some(sum.map_or(during, |sum| sum + during));
            calls += 1;
            if Instant::now() - began > TIME {
                break;
            }
        }
        let counts = sum.unwrap_or_default().counts();
        Ok(Counted {
            workload: workload.to_owned(),
            calls,
            counts: counts.divided_by(f64::from(calls)),
            missing: counters.missing(),
            operations: problem.work_flops(&problem.timed),
            least_bytes: problem.moved_bytes(&problem.timed),
        })
    }
}

impl Counted {
    /// The meaning of a count beside the others; empty if it stands for itself.
    fn rate(&self, counter: Counter, count: f64) -> String {
        let bytes = count * LINE / self.operations;
        let instructions = self.counts.of(Counter::Instructions);
        match (counter, instructions) {
            (Counter::Instructions, _) => {
                let rate = self.counts.instructions_per_cycle();
                rate.map_or_else(String::new, |rate| format!(" ({rate:.2} a cycle)"))
            }
            (Counter::BranchMisses, Some(instructions)) => {
                let rate = 1000.0 * count / instructions;
                format!(" ({rate:.3} in 1000 instructions)")
            }
            (Counter::FirstCacheMisses | Counter::LastCacheMisses, _) if bytes.is_finite() => {
                format!(" ({bytes:.3} bytes an operation)")
            }
            _ => String::new(),
        }
    }
}

impl Display for Counted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "A call at {}, the mean of {}:",
            self.workload, self.calls
        )?;
        for counter in Counter::ALL {
            if let Some(count) = self.counts.of(counter) {
                let rate = self.rate(counter, count);
                writeln!(f, "{:<16} {count:.0}{rate}", counter.name())?;
            }
        }
        let least = self.least_bytes / self.operations;
        if least.is_finite() {
            writeln!(
                f,
                "The problem must move at least {least:.3} bytes an operation."
            )?;
        }
        Ok(())
    }
}

/// The counts of all workloads for readers, bounded in length.
pub fn in_words(all: &[Counted]) -> String {
    let mut text: String = all.iter().map(ToString::to_string).collect();
    if let Some(missing) = all.first().and_then(|first| first.missing.as_ref()) {
        text.push_str(missing);
        text.push_str(".\n");
    }
    text.push_str("Counted in user mode, over all threads, in calls that are not timed. A miss stands for a line of 64 bytes; lines that the processor fetches ahead are in no count of misses.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: Counts) -> Counted {
        Counted {
            workload: "n=64".into(),
            calls: 16,
            counts,
            missing: None,
            operations: 640.0,
            least_bytes: 160.0,
        }
    }

    #[test]
    fn counts_come_with_the_rates_that_follow_from_them() {
        let counts = Counts::default()
            .with(Counter::Cycles, 1000.0)
            .with(Counter::Instructions, 2500.0)
            .with(Counter::BranchMisses, 5.0)
            .with(Counter::FirstCacheMisses, 20.0)
            .with(Counter::LastCacheMisses, 1.0)
            .with(Counter::PageFaults, 0.0);
        let text = in_words(&[counted(counts)]);
        let expected = "A call at n=64, the mean of 16:\n\
            cycles           1000\n\
            instructions     2500 (2.50 a cycle)\n\
            branch misses    5 (2.000 in 1000 instructions)\n\
            L1 read misses   20 (2.000 bytes an operation)\n\
            LLC read misses  1 (0.100 bytes an operation)\n\
            page faults      0\n\
            The problem must move at least 0.250 bytes an operation.\n\
            Counted in user mode";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_missing_counter_is_named_once_and_the_others_are_shown() {
        let counts = Counts::default()
            .with(Counter::Instructions, 2500.0)
            .with(Counter::PageFaults, 3.0);
        let mut one = counted(counts);
        one.missing = Some("cycles are not counted: for a reason".into());
        one.operations = f64::NAN;
        let text = in_words(&[one.clone(), one]);
        for part in ["instructions     2500\n", "page faults      3\n"] {
            assert_eq!(text.matches(part).count(), 2, "{part}: {text}");
        }
        assert_eq!(text.matches("for a reason.\n").count(), 1, "{text}");
        for part in ["\ncycles  ", "misses  ", "a cycle", "an operation", "NaN"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }
}
