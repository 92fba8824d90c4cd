//! The results of the tools, and their words.

use flopsmith_problem::Language;
use flopsmith_protocol::{Interval, TechniqueSet};
use flopsmith_run::digits::{between, four, share};
use flopsmith_run::roofline::CACHED;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::best::{Entry, List};
use crate::circumstances::Circumstances;
use crate::describe::Listed;
use crate::roofs::{Bandwidth, Ceiling, Roofs, WorkloadRoof};
use crate::wire::{Answer, Outcome, Purpose, ReferenceSpeeds, Sanitized, is_not_timed};

/// The budget that is left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Left {
    /// Number of programs; null without a limit.
    pub evaluations: Option<u64>,
    /// Seconds of evaluations; null without a limit.
    pub seconds: Option<f64>,
}

/// The speed of a program at one of several workloads.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AtWorkload {
    /// The workload.
    pub name: String,
    /// The plain reference's time divided by the program's; of a module that of its fastest baseline.
    pub ratio: f64,
    /// The 95 % interval of `ratio`.
    pub interval: Interval,
    /// Speed, 10⁹ operations a second.
    pub gflops: f64,
}

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Found {
    /// The result in words.
    pub summary: String,
    /// The kind of the outcome.
    pub outcome: Outcome,
    /// The fault of the program or the part of the machine that failed, for `explain_refusal`; null if the program was
    /// measured.
    pub reason: Option<String>,
    /// Whether the program is right; null if that is not known.
    pub correct: Option<bool>,
    /// The plain reference's time divided by the program's: above 1 is faster. Of a module it is the time of its fastest baseline.
    pub ratio: Option<f64>,
    /// The 95 % interval of `ratio`.
    pub interval: Option<Interval>,
    /// Speed, 10⁹ operations a second.
    pub gflops: Option<f64>,
    /// The speed as a share of the roof; null if that is not known.
    pub share_of_roof: Option<f64>,
    /// The reward by the service's table; null if the machine failed.
    pub reward: Option<f64>,
    /// The single workloads, if there are several.
    pub workloads: Vec<AtWorkload>,
    /// The techniques that detection found, once the program was compiled.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in the object, bits.
    pub vector_bits: Option<u32>,
    /// Text of the compiler or the checks about the program; data that quotes the program.
    pub diagnostics: String,
    /// The sanitizers that checked the program, if they did.
    pub sanitizers: Option<Sanitized>,
    /// Why the machine was not quiet, if the program was timed nevertheless.
    pub machine_busy: Option<String>,
    /// True if the service had evaluated the same program before.
    pub cached: bool,
    /// Names the measurement of the plain reference. Numbers with the same name are comparable.
    pub reference: Option<String>,
    /// True if the plain reference was measured on a busy machine, or imprecisely: it is measured again soon, and the ratio
    /// may change then.
    pub reference_is_provisional: bool,
}

impl Found {
    /// The result of an answer, whose ratio compares the program with the program `beside`. `roofs` are those of its problem,
    /// if they are known.
    pub fn of(answer: &Answer, roofs: Option<&Roofs>, beside: &str) -> Self {
        let several = answer.measurement.iter().flat_map(|m| &m.workloads);
        let workloads = several.map(|workload| AtWorkload {
            name: workload.name.clone(),
            ratio: workload.ratio,
            interval: workload.interval,
            gflops: workload.gflops,
        });
        let roof = roofs.and_then(Roofs::gflops).filter(|roof| *roof > 0.0);
        let share_of_roof = answer.gflops.zip(roof).map(|(gflops, roof)| gflops / roof);
        let may_exceed = roofs.is_some_and(Roofs::may_exceed);
        Self {
            summary: summary(answer, share_of_roof, may_exceed, beside),
            outcome: answer.outcome,
            reason: answer.reason.clone(),
            correct: answer.correct,
            ratio: answer.ratio,
            interval: answer.interval,
            gflops: answer.gflops,
            share_of_roof,
            reward: answer.reward,
            workloads: workloads.collect(),
            techniques: answer.techniques,
            vector_bits: answer.vector_bits,
            diagnostics: answer.diagnostics.clone(),
            sanitizers: answer.sanitizers.clone(),
            machine_busy: answer.machine_busy.clone(),
            cached: answer.cached,
            reference: answer.reference.as_ref().map(|r| r.id.clone()),
            reference_is_provisional: is_provisional(answer.reference.as_ref()),
        }
    }
}

fn is_provisional(reference: Option<&ReferenceSpeeds>) -> bool {
    reference.is_some_and(|speeds| speeds.defects() > 0)
}

/// The words about a provisional reference.
pub const PROVISIONAL: &str = "; the plain reference was measured on a busy machine or imprecisely, and is measured again soon, so this may change";

/// The words about a program that was refused.
pub fn refused(reason: &str) -> String {
    format!(
        "the program was refused: {reason}; `diagnostics` has the details, and explain_refusal says what to try"
    )
}

/// A result in words: fixed words, numbers, and the name of a reason.
fn summary(answer: &Answer, share_of_roof: Option<f64>, may_exceed: bool, beside: &str) -> String {
    let reason = answer.reason.as_deref().unwrap_or("unknown");
    let mut words = match (answer.outcome, answer.ratio, answer.interval) {
        (Outcome::Measured | Outcome::Unconverged, Some(ratio), Some(interval)) => format!(
            "the program is right, and {} times as fast as {beside} (95 % interval {})",
            four(ratio),
            between(&interval),
        ),
        (Outcome::Rejected, ..) => refused(reason),
        _ if is_not_timed(answer) => format!(
            "the machine cannot time the program ({reason}), which says nothing against it; asking again does not help: see `diagnostics` and explain_refusal"
        ),
        _ => format!(
            "the machine could not evaluate the program ({reason}), which says nothing about it; call the tool again"
        ),
    };
    if let Some(gflops) = answer.gflops {
        words.push_str(&format!("; {} GFLOPS", four(gflops)));
    }
    if let Some(of_roof) = share_of_roof {
        words.push_str(&format!(", {} of the roof", share(of_roof)));
        if may_exceed && of_roof > 1.0 {
            words.push_str(&format!(" ({CACHED})"));
        }
    }
    if answer.outcome == Outcome::Unconverged {
        words.push_str("; the measurement is less precise than asked for, so call the tool again before you rely on it");
    }
    if answer.ratio.is_some() && is_provisional(answer.reference.as_ref()) {
        words.push_str(PROVISIONAL);
    }
    words
}

/// The result of `evaluate`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Evaluated {
    /// The result.
    #[serde(flatten)]
    pub found: Found,
    /// The budget that is left; null without a limit.
    pub budget: Option<Left>,
}

/// A program of a comparison with its result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ranked {
    /// Its number among the programs of the call, from 0.
    pub program: usize,
    /// The name that the call gave it.
    pub name: String,
    /// Its rank, from 1; null if it was not measured, or not precisely enough.
    pub rank: Option<u32>,
    /// Letters that it shares with the programs it cannot be told from; null without a rank.
    pub group: Option<String>,
    /// Its result.
    pub result: Found,
}

/// Verdicts on two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The program is faster.
    Faster,
    /// It is slower.
    Slower,
    /// The two hardly differ.
    NoDifference,
    /// Only a stricter measurement can tell.
    Unclear,
}

/// A program beside the first one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BesideFirst {
    /// The number of the program.
    pub program: usize,
    /// The time of the first program divided by that of this one: above 1 this one is faster.
    pub times_as_fast: f64,
    /// The 95 % interval of `times_as_fast`.
    pub interval: Interval,
    /// The verdict. All verdicts of a call together are wrong with a probability of at most 5 %.
    pub verdict: Change,
}

/// The result of `compare`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Compared {
    /// The result in words, by the numbers of the programs.
    pub summary: String,
    /// The programs in the order of the call.
    pub programs: Vec<Ranked>,
    /// The measured programs beside the first one; empty if the first one was not measured.
    pub beside_first: Vec<BesideFirst>,
    /// The budget that is left; null without a limit.
    pub budget: Option<Left>,
}

/// The parties that can be at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// The program.
    Program,
    /// The service or its machine.
    Machine,
    /// It cannot be told.
    Unknown,
}

/// The parts of C that programs for a problem may use, and their limits.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Permitted {
    /// The function that a program defines.
    pub prototype: String,
    /// The headers that programs in C may include.
    pub includes: Vec<String>,
    /// Names of functions and techniques of libraries that programs may not use.
    pub forbidden: Vec<String>,
    /// Length of the longest program, bytes.
    pub max_source_bytes: usize,
    /// The techniques that programs may use.
    pub techniques: TechniqueSet,
}

/// The result of `explain_refusal`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explained {
    /// The reason.
    pub reason: String,
    /// The party at fault.
    pub fault_of: Party,
    /// The meaning of the reason.
    pub meaning: String,
    /// The usual causes, and what to try.
    pub try_next: String,
    /// The headers, techniques and limits of programs for the problem, if the call names one.
    pub permitted: Option<Permitted>,
}

/// The result of `problems`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProblemList {
    /// The problems by name.
    pub problems: Vec<Listed>,
}

/// A program that was measured.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Known {
    /// The program; data.
    pub source: String,
    /// Its language.
    #[schemars(with = "String")]
    pub language: Language,
    /// The standard of its measurement.
    pub purpose: Purpose,
    /// The plain reference's time divided by the program's; of a module that of its fastest baseline.
    pub ratio: f64,
    /// The 95 % interval of `ratio`.
    pub interval: Interval,
    /// Speed, 10⁹ operations a second.
    pub gflops: f64,
    /// The techniques that detection found.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in the object, bits.
    pub vector_bits: Option<u32>,
    /// Names the measurement of the plain reference. Numbers with the same name are comparable.
    pub reference: Option<String>,
    /// True if the plain reference was measured on a busy machine, or imprecisely: such programs come last.
    pub reference_is_provisional: bool,
    /// Time of the measurement, milliseconds since 1970.
    pub measured_unix_ms: u64,
}

impl Known {
    fn of(entry: Entry) -> Self {
        Self {
            source: entry.source,
            language: entry.language,
            purpose: entry.purpose,
            ratio: entry.ratio,
            interval: entry.interval,
            gflops: entry.gflops,
            techniques: entry.techniques,
            vector_bits: entry.vector_bits,
            reference: entry.reference,
            reference_is_provisional: entry.reference_is_provisional,
            measured_unix_ms: entry.measured_unix_ms,
        }
    }
}

/// Programs that were measured in other circumstances.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OtherCircumstances {
    /// True if they were measured on this machine.
    pub this_machine: bool,
    /// The processor.
    pub processor: String,
    /// The C compiler, or Python and PyTorch.
    pub compiler: String,
    /// Number of threads that programs were timed with.
    pub threads: u32,
    /// Everything that differs from the evaluations of this service.
    pub differs_by: Vec<String>,
    /// The programs, the fastest first. Their speeds are comparable with each other only.
    pub programs: Vec<Known>,
}

/// The result of `best_programs`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BestList {
    /// The result in words.
    pub summary: String,
    /// The programs that were measured as this service measures now, on this machine and with its compilers, the fastest
    /// first.
    pub programs: Vec<Known>,
    /// Programs that were measured on another machine, or with another compiler, number of threads or version of Flopsmith:
    /// their speeds do not compare with those of `programs`.
    pub other_circumstances: Vec<OtherCircumstances>,
}

impl BestList {
    /// At most so many programs of each of the lists. Programs are measured in the circumstances `now`, and their ratios compare
    /// them with the program `beside`.
    pub fn of(lists: Vec<List>, now: Option<&Circumstances>, most: usize, beside: &str) -> Self {
        let (here, others): (Vec<List>, Vec<List>) = lists
            .into_iter()
            .partition(|list| now == Some(&list.circumstances));
        let known = |programs: Vec<Entry>| programs.into_iter().take(most).map(Known::of);
        let programs = here.into_iter().flat_map(|list| known(list.programs));
        let programs: Vec<Known> = programs.collect();
        let other_circumstances = others.into_iter().map(|list| {
            let other = list.circumstances;
            OtherCircumstances {
                this_machine: now.is_some_and(|now| now.machine == other.machine),
                differs_by: now.map(|now| now.differences(&other)).unwrap_or_default(),
                processor: other.processor,
                compiler: other.compiler,
                threads: other.threads,
                programs: known(list.programs).collect(),
            }
        });
        let other_circumstances: Vec<OtherCircumstances> = other_circumstances.collect();
        let summary = match programs.first() {
            Some(first) => format!(
                "the fastest known program is {} times as fast as {beside} (95 % interval {}); evaluate it again beside your own with compare before you rely on a difference",
                four(first.ratio),
                between(&first.interval)
            ),
            None if other_circumstances.is_empty() => {
                "no measurement of a program for this problem has converged here yet; evaluate one".into()
            }
            None => "no program for this problem has been measured in these circumstances yet; evaluate those of `other_circumstances`, whose speeds do not compare with yours".into(),
        };
        Self {
            summary,
            programs,
            other_circumstances,
        }
    }
}

/// The result of `roofline`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Roofed {
    /// The result in words.
    pub summary: String,
    /// The roof over all workloads, 10⁹ operations a second: their geometric mean.
    pub roof_gflops: f64,
    /// The measured peak for the numbers of the problem, 10⁹ operations a second.
    pub peak_gflops: f64,
    /// The speed of the plain reference.
    pub reference_gflops: f64,
    /// Number of threads that programs are timed with.
    pub threads: u32,
    /// The roof at each workload.
    pub workloads: Vec<WorkloadRoof>,
    /// Bandwidths of memory and caches.
    pub bandwidths: Vec<Bandwidth>,
    /// Rates of double-precision arithmetic, by width of vectors.
    pub ceilings: Vec<Ceiling>,
    /// The share of the roof that `gflops` of the call is; null without it.
    pub share_of_roof: Option<f64>,
    /// The budget that is left; null without a limit.
    pub budget: Option<Left>,
}
/// Text of a result for clients that know no structured results, and the result itself.
pub fn success<T: Serialize>(value: &T) -> Value {
    // Results have named fields with numbers and texts, so they always have a JSON form.
    let text = serde_json::to_string(value).unwrap_or_default();
    let structured = serde_json::to_value(value).unwrap_or_default();
    json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": structured,
        "isError": false,
    })
}

/// The result of a call that failed. `words` say what to try.
pub fn failure(words: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": words }], "isError": true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(machine: &str, ratio: f64) -> List {
        let entry = Entry {
            source: format!("of {machine}"),
            language: Language::C,
            purpose: Purpose::Rank,
            ratio,
            interval: Interval {
                low: ratio,
                high: ratio,
                confidence: 0.95,
            },
            reaches: ratio,
            gflops: ratio,
            techniques: None,
            vector_bits: None,
            reference: None,
            reference_is_provisional: false,
            measured_unix_ms: 1,
        };
        List {
            circumstances: Circumstances::of_machine(machine),
            programs: vec![entry.clone(), entry],
        }
    }

    #[test]
    fn programs_of_other_machines_are_shown_apart() {
        let mut older = list("here", 9.0);
        older.circumstances.key.version = "0.0.1".into();
        let lists = vec![list("there", 8.0), list("here", 2.0), older];
        let now = Circumstances::of_machine("here");
        let best = BestList::of(lists.clone(), Some(&now), 1, "the plain reference");
        let sources: Vec<&str> = best.programs.iter().map(|p| p.source.as_str()).collect();
        assert_eq!(sources, ["of here"]);
        assert!(best.summary.contains("is 2.000 times"), "{}", best.summary);
        let found: Vec<_> = best
            .other_circumstances
            .iter()
            .map(|list| (list.this_machine, list.programs.len()))
            .collect();
        assert_eq!(found, [(false, 1), (true, 1)]);
        assert_eq!(best.other_circumstances[0].processor, "processor of there");
        assert_eq!(
            best.other_circumstances[1].differs_by,
            ["version of Flopsmith"]
        );
        // A compiler that does not work measures nothing.
        let best = BestList::of(lists, None, 1, "the plain reference");
        assert!(best.programs.is_empty());
        assert_eq!(best.other_circumstances.len(), 3);
        assert!(
            best.summary.contains("`other_circumstances`"),
            "{}",
            best.summary
        );
    }
}
