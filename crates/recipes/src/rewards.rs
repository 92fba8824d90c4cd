//! The rewards of answers: by their measured times for problems with tests, by a reward model for others.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_actors::answer::without_program;
use flopsmith_config::Standard;
use flopsmith_evaluate::Evaluator;
use flopsmith_generator::measured::exercises::{Exercise, Feedback, reward};
use flopsmith_learner::Judge;
use flopsmith_measure::{Purpose, Timer, Verifier};
use flopsmith_problem::{Problem, prompt};
use flopsmith_protocol::{
    CandidateFault, Digest, InfrastructureCause, RawAnswer, TechniqueSet, UnknownCause, Verdict,
};
use flopsmith_run::console::usage;
use flopsmith_run::farm::{self, Farm, Ways};
use flopsmith_run::interrupt::CancellationToken;
use flopsmith_run::{evaluator, paths};

use crate::reasons::{Reason, Unsuccessful};
use crate::{Placement, Reader, open};

/// The compiler of answers.
const COMPILER: &str = "gcc";

/// An answer to judge.
pub struct Answer<'a> {
    /// The exercise that it answers.
    pub exercise: &'a Exercise,
    /// Its text.
    pub text: String,
    /// False if the length limit cut it off.
    pub finished: bool,
}

impl Answer<'_> {
    /// The reason of this name why the answer has no measurement.
    fn reason(&self, kind: &str, detail: &str) -> Reason {
        Reason::of(kind, detail, &self.exercise.problem, self.raw())
    }

    fn raw(&self) -> RawAnswer {
        RawAnswer::of(&self.text, self.finished)
    }
}

/// The worth of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Worth {
    /// The program passed its tests and was timed.
    Timed {
        /// The reward by equation 4.
        score: f64,
        /// Seconds of a call.
        seconds: f64,
    },
    /// The program failed.
    Failed,
    /// A reward model judged the answer.
    Judged {
        /// The reward model's score.
        score: f64,
    },
    /// The machine failed, so the worth is unknown.
    Unknown,
}

impl Worth {
    /// The reward; `None` if the worth is unknown.
    pub fn score(self) -> Option<f64> {
        match self {
            Worth::Timed { score, .. } | Worth::Judged { score } => Some(score),
            Worth::Failed => Some(-1.0),
            Worth::Unknown => None,
        }
    }
}

/// Why an answer failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The fault.
    pub fault: CandidateFault,
    /// Its diagnostics.
    pub detail: String,
}

impl Failure {
    /// The words of a failure for the policy.
    pub fn feedback(failure: Option<&Self>) -> Feedback<'_> {
        match failure {
            Some(failure) => Feedback::Failed {
                fault: failure.fault.name(),
                detail: &failure.detail,
            },
            None => Feedback::Failed {
                fault: "",
                detail: "",
            },
        }
    }
}

/// The result of a program, which does not depend on the exercise.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Seconds(f64),
    Failed(CandidateFault),
    /// The name of the cause.
    Unknown(&'static str),
}

impl Fate {
    /// The fate of a program with this verdict, and the verdict's detail.
    fn of(verdict: Verdict) -> (Self, String) {
        match verdict {
            Verdict::Measured { measurement } => match measurement.known_seconds_per_call() {
                Some(seconds) => (Fate::Seconds(seconds), String::new()),
                None => (
                    Fate::Unknown(UnknownCause::NoSamples.name()),
                    "its time has an unknown error".to_owned(),
                ),
            },
            Verdict::Rejected { fault, detail } => (Fate::Failed(fault), detail),
            Verdict::Infrastructure { cause, detail } => (Fate::Unknown(cause.name()), detail),
            Verdict::Unknown { cause, detail } => (Fate::Unknown(cause.name()), detail),
        }
    }
}

/// A problem and the names of its workloads that count; no name stands for all.
type Timed = (String, Vec<String>);

fn timed(exercise: &Exercise) -> Timed {
    (exercise.problem.clone(), exercise.workloads.clone())
}

/// The benches of all problems with tests, and the reward model for the others.
pub struct Rewards {
    benches: HashMap<Timed, Bench>,
    /// The runs on a cluster by the names of their workloads; none if this machine evaluates the answers.
    farms: HashMap<Vec<String>, Farm>,
    judge: Option<(Judge, Reader)>,
    /// Answers since the last call of [`Rewards::take_unsuccessful`].
    unsuccessful: Unsuccessful,
}

struct Bench {
    problem: Arc<Problem>,
    /// The stages of this machine; none if a cluster evaluates the answers.
    stages: Option<Stages>,
    /// Results of programs that were measured, with their details: late in a training most answers are copies.
    known: HashMap<String, (Fate, String)>,
}

/// The stages with which this machine evaluates answers.
struct Stages {
    evaluator: Evaluator,
    verifier: Verifier,
    timer: Timer,
}

/// The runs on a cluster: one for all problems with the same names of workloads.
fn farms(ways: &Ways, benches: &HashMap<Timed, Bench>) -> Result<HashMap<Vec<String>, Farm>> {
    let mut problems: BTreeMap<&Vec<String>, Vec<Arc<Problem>>> = BTreeMap::new();
    for ((_, workloads), bench) in benches {
        let of = problems.entry(workloads).or_default();
        of.push(Arc::clone(&bench.problem));
    }
    let mut farms = HashMap::new();
    for (workloads, problems) in problems {
        let order = farm::Order {
            name: "rlpf",
            problems: &problems,
            workloads,
            compiler: COMPILER,
            standard: Standard::Screen,
            full: Standard::Screen,
            threads: 1,
            sanitize: false,
        };
        farms.insert(workloads.clone(), Farm::open(ways, &order)?);
    }
    Ok(farms)
}

impl Rewards {
    /// Opens the benches and the reward model that `exercises` need. Missing problems and reward models are reported
    /// here, before the training.
    pub fn new(
        exercises: &[Exercise],
        recipe: &Path,
        reward_model: Option<&Path>,
        chat: bool,
        at: Placement,
        allow_weaker_jail: bool,
        farm: Option<&Ways>,
    ) -> Result<Self> {
        let mut benches = HashMap::new();
        for exercise in exercises.iter().filter(|e| e.median_s.is_some()) {
            if let Entry::Vacant(place) = benches.entry(timed(exercise)) {
                let bench = match farm {
                    None => Bench::here(place.key(), allow_weaker_jail)?,
                    Some(_) => Bench::on_farm(place.key())?,
                };
                place.insert(bench);
            }
        }
        let farms = match farm {
            None => HashMap::new(),
            Some(ways) => farms(ways, &benches)?,
        };
        let untested = exercises.iter().find(|e| e.median_s.is_none());
        let judge = match (reward_model, untested) {
            (None, Some(exercise)) => {
                return Err(usage(format!(
                    "the exercise {:?} of {} has no `median_s` to compare times with: its problem has no tests, or this part of the split has no correct program for this prompt; \
                     name a `reward_model` that judges the answers, leave the exercise out, or split more programs",
                    exercise.prompt, exercise.problem
                )));
            }
            (Some(folder), Some(_)) => {
                let (model, reader) = open(recipe, folder, chat, at)?;
                let judge = Judge::new(model, None).map_err(|e| usage(e.to_string()))?;
                Some((judge, reader))
            }
            (_, None) => None,
        };
        Ok(Self {
            benches,
            farms,
            judge,
            unsuccessful: Unsuccessful::default(),
        })
    }

    /// A digest of the exercises and of the reward model, which identifies the rewards. It does not cover the files of
    /// the problems.
    pub fn digest(&self, exercises: &[Exercise]) -> Result<Digest> {
        let judge = self.judge.as_ref().map(|(judge, _)| judge.fingerprint());
        Ok(Digest::of(&serde_json::to_vec(&(
            exercises,
            judge.transpose()?,
        ))?))
    }

    /// The worth of each answer, and the reason of a failure; `reader` is that of the policy that wrote them.
    pub fn worth(
        &mut self,
        answers: &[Answer<'_>],
        reader: &Reader,
    ) -> Result<Vec<(Worth, Option<Failure>)>> {
        self.ask_farms(answers, reader)?;
        let mut worths: Vec<(Worth, Option<Failure>)> = vec![(Worth::Unknown, None); answers.len()];
        let mut untested = Vec::new();
        for (number, answer) in answers.iter().enumerate() {
            let Some(median_s) = answer.exercise.median_s else {
                untested.push(number);
                continue;
            };
            // Each problem with tests has a bench, so this never happens.
            let Some(bench) = self.benches.get_mut(&timed(answer.exercise)) else {
                continue;
            };
            let (fate, detail) = bench.result(answer, reader);
            worths[number] = match fate {
                Fate::Seconds(seconds) => {
                    let score = reward(median_s, Some(seconds));
                    (Worth::Timed { score, seconds }, None)
                }
                Fate::Failed(fault) => {
                    let reason = answer.reason(fault.name(), &detail);
                    self.unsuccessful.refused.add(reason);
                    (Worth::Failed, Some(Failure { fault, detail }))
                }
                Fate::Unknown(cause) => {
                    let reason = answer.reason(cause, &detail);
                    self.unsuccessful.unmeasured.add(reason);
                    (Worth::Unknown, None)
                }
            };
        }
        if let Some((judge, own)) = &self.judge
            && !untested.is_empty()
        {
            let (mut texts, mut read) = (Vec::new(), Vec::new());
            for number in &untested {
                let answer = &answers[*number];
                let prompt = own.prompt(&answer.exercise.prompt)?;
                let text = own.answer(&answer.text)?;
                // An answer that is too long for the reward model has no worth.
                if judge.can_read(&prompt, &text) {
                    texts.push((prompt, text));
                    read.push(*number);
                } else {
                    let detail = "the answer does not fit the positions of the reward model";
                    let reason = answer.reason("too_long", detail);
                    self.unsuccessful.unmeasured.add(reason);
                }
            }
            for (number, score) in read.into_iter().zip(judge.rewards(&texts)?) {
                worths[number] = (Worth::Judged { score }, None);
            }
        }
        Ok(worths)
    }
}

impl Rewards {
    /// Has the workers of a cluster evaluate the programs that have no result yet.
    fn ask_farms(&mut self, answers: &[Answer<'_>], reader: &Reader) -> Result<()> {
        for (workloads, farm) in &mut self.farms {
            let mut asked = Vec::new();
            let mut programs = Vec::new();
            for answer in answers.iter().filter(|a| a.exercise.median_s.is_some()) {
                let of = timed(answer.exercise);
                let Some(bench) = self.benches.get_mut(&of).filter(|_| of.1 == *workloads) else {
                    continue;
                };
                // A failure of the machine may not occur again.
                bench
                    .known
                    .retain(|_, (fate, _)| !matches!(fate, Fate::Unknown(_)));
                let Some(source) = bench.source(answer, reader) else {
                    continue;
                };
                let program = farm::Program {
                    problem: bench.problem.id.clone(),
                    permitted: TechniqueSet::all(),
                    full: false,
                    language: None,
                    source,
                };
                if !bench.known.contains_key(&program.source) && !programs.contains(&program) {
                    programs.push(program);
                    asked.push(of);
                }
            }
            let benches = &mut self.benches;
            farm.evaluate(
                &programs,
                &CancellationToken::new(),
                |number, outcome, _| {
                    if let Some(bench) = benches.get_mut(&asked[number]) {
                        let fate = Fate::of(outcome.verdict);
                        bench.known.insert(programs[number].source.clone(), fate);
                    }
                    Ok(())
                },
            )?;
        }
        Ok(())
    }

    /// The answers without a measurement since the last call, by the reason.
    pub fn take_unsuccessful(&mut self) -> Unsuccessful {
        std::mem::take(&mut self.unsuccessful)
    }

    /// The program in an answer to an exercise with tests.
    pub fn source(&self, answer: &Answer<'_>, reader: &Reader) -> Option<String> {
        self.benches
            .get(&timed(answer.exercise))?
            .source(answer, reader)
    }
}

impl Bench {
    fn here(of: &Timed, allow_weaker_jail: bool) -> Result<Self> {
        let bench = Self::on_farm(of)?;
        let evaluator = evaluator::open(Arc::clone(&bench.problem), COMPILER, allow_weaker_jail)?;
        let (verifier, timer) = (evaluator.verifier(1)?, evaluator.timer(1)?);
        Ok(Self {
            stages: Some(Stages {
                evaluator,
                verifier,
                timer,
            }),
            ..bench
        })
    }

    fn on_farm((problem, workloads): &Timed) -> Result<Self> {
        Ok(Self {
            problem: Arc::new(paths::selected(paths::problem(problem)?, workloads)?),
            stages: None,
            known: HashMap::new(),
        })
    }

    /// The program in an answer.
    fn source(&self, answer: &Answer<'_>, reader: &Reader) -> Option<String> {
        prompt::extract(&answer.text, reader.style, self.problem.language)
    }

    /// The fate of an answer's program, and the detail of its verdict.
    fn result(&mut self, answer: &Answer<'_>, reader: &Reader) -> (Fate, String) {
        let Some(source) = self.source(answer, reader) else {
            let detail = without_program(Some(&answer.raw()));
            return (Fate::Failed(CandidateFault::Format), detail);
        };
        if let Some(known) = self.known.get(&source) {
            return known.clone();
        }
        let Some(stages) = &mut self.stages else {
            let cause = InfrastructureCause::Bus.name();
            return (
                Fate::Unknown(cause),
                "the cluster gave no outcome".to_owned(),
            );
        };
        let done = stages.evaluator.evaluate(
            self.problem.language,
            &source,
            &mut stages.verifier,
            &mut stages.timer,
            Purpose::Screen,
        );
        let (fate, detail) = Fate::of(done.verdict);
        // A failure of the machine may not occur again, so it is not cached.
        if !matches!(fate, Fate::Unknown(_)) {
            self.known.insert(source, (fate, detail.clone()));
        }
        (fate, detail)
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::Measured;

    use super::*;

    #[test]
    fn a_fate_names_the_fault_or_the_part_of_the_machine_that_failed() {
        let detail = || "words".to_owned();
        for (verdict, fate) in [
            (
                Verdict::Rejected {
                    fault: CandidateFault::Crash,
                    detail: detail(),
                },
                Fate::Failed(CandidateFault::Crash),
            ),
            (
                Verdict::Infrastructure {
                    cause: InfrastructureCause::Jail,
                    detail: detail(),
                },
                Fate::Unknown("jail"),
            ),
            (
                Verdict::Unknown {
                    cause: UnknownCause::NoSamples,
                    detail: detail(),
                },
                Fate::Unknown("no_samples"),
            ),
        ] {
            assert_eq!(Fate::of(verdict), (fate, detail()));
        }
    }

    #[test]
    fn an_unconverged_time_is_rewarded_by_its_upper_end() {
        let of = |measured: Measured| Fate::of(measured.verdict()).0;
        let seconds = Measured::at(40.0).measurement().seconds_per_call;
        assert_eq!(of(Measured::at(40.0)), Fate::Seconds(seconds));
        let Fate::Seconds(least) = of(Measured::at(40.0).se(0.5).unconverged()) else {
            unreachable!("the end is known");
        };
        assert!(2.0 * seconds < least && least < 3.0 * seconds, "{least}");
        let unknown = Measured::at(40.0).se(f64::NAN).unconverged();
        assert_eq!(of(unknown), Fate::Unknown("no_samples"));
    }
}
