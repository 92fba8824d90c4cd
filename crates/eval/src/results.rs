//! The results of an evaluation, from its files.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_bench::facts;
use flopsmith_bench::rows::Machine;
use flopsmith_endpoint::{Entry, Event, Spending};
use flopsmith_protocol::{CandidateFault, Digest};
use flopsmith_reward::metrics::{Metric, Sample, Samples, estimates};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::answer::Answer;
use crate::evaluation::Troubles;
use crate::folder::{Config, Evaluation, FORMAT, OfModel, OfProblem, VERSION};
use crate::outcome::{Outcome, Reference, State};

/// Number of resamples of an interval.
const RESAMPLES: usize = 2000;
/// Longest diagnostics of an example, characters.
const LONGEST: usize = 400;

/// The results.
#[derive(Debug, Serialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the Flopsmith that computed them.
    pub flopsmith: &'static str,
    /// The configuration.
    pub config: Config,
    /// Machine, compiler and flags.
    pub machine: BTreeMap<String, String>,
    /// Each model at each number of threads.
    pub models: Vec<Judged>,
    /// Tokens and costs of the requests to each endpoint, by the name of the model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spending: BTreeMap<String, Spending>,
    /// Problems whose programs could not be evaluated, with the reasons.
    pub troubles: Troubles,
}

/// A model at one number of threads.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// The model.
    pub model: String,
    /// Number of threads.
    pub threads: u32,
    /// Over all problems.
    pub all: Group,
    /// By the suite of the problems.
    pub suites: Vec<Group>,
    /// By the limit of the problems: `compute` or `memory`.
    pub kinds: Vec<Group>,
    /// By problem.
    pub problems: Vec<Group>,
    /// Why answers failed, the commonest reason first.
    pub refusals: Vec<Refusal>,
    /// Why answers could not be evaluated.
    pub unmeasured: Vec<Refusal>,
    /// Why the endpoint gave no answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<Refusal>,
    /// The problems that the model was not asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<Unasked>,
}

/// Some problems.
#[derive(Debug, Serialize)]
pub struct Group {
    /// Their name.
    pub name: String,
    /// Their answers.
    pub counts: Counts,
    /// Their metrics, by name; none where a metric is not defined.
    pub metrics: BTreeMap<String, Option<Number>>,
}

/// A metric with its 95 % interval.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Number {
    /// The number.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of problems that have it.
    pub problems: usize,
}

/// Numbers of answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Problems.
    pub problems: usize,
    /// Answers.
    pub answers: usize,
    /// Answers that hold no program.
    pub without_program: usize,
    /// Different programs.
    pub distinct_programs: usize,
    /// Answers whose program was built.
    pub built: usize,
    /// Answers whose program is correct.
    pub correct: usize,
    /// Correct answers whose time did not converge.
    pub unconverged: usize,
    /// Answers that this machine failed to evaluate. No metric counts them.
    pub unmeasured: usize,
    /// Answers that the endpoint did not give. No metric counts them.
    pub unanswered: usize,
    /// Problems, of `problems`, that the model was not asked about. No metric counts them.
    pub unasked: usize,
}

/// A problem that a model was not asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unasked {
    /// The problem.
    pub problem: String,
    /// The reason.
    pub reason: &'static str,
    /// The reason in words.
    pub detail: String,
}

/// The reason of a problem that prompts of the asked style cannot state.
const UNSTATED: &str = "unstated";

/// A reason, with an example.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refusal {
    /// The reason.
    pub reason: String,
    /// Number of answers.
    pub count: usize,
    /// Problem of the example.
    pub problem: String,
    /// Number of the example's answer.
    pub sample: u32,
    /// Diagnostics of the example.
    pub example: String,
}

impl Results {
    /// The results of an evaluation. `troubles` are the problems that could not be evaluated.
    pub fn of(evaluation: &Evaluation, troubles: Troubles) -> Self {
        let config = &evaluation.config;
        let mut models = Vec::new();
        for model in &config.models {
            for &threads in &config.threads {
                models.push(Judged::of(evaluation, model, threads));
            }
        }
        let machine = evaluation.machines.values().next();
        let machine = machine.and_then(|json| Machine::new(json.clone()).ok());
        let endpoints = config.models.iter().filter(|m| m.endpoint.is_some());
        let spending = endpoints
            .map(|m| (m.name.clone(), Spending::of(evaluation.requests(&m.name))))
            .collect();
        Self {
            format: FORMAT,
            version: VERSION,
            flopsmith: env!("CARGO_PKG_VERSION"),
            config: config.clone(),
            machine: machine
                .map(|machine| facts::named(&machine).into_iter().collect())
                .unwrap_or_default(),
            models,
            spending,
            troubles,
        }
    }

    /// True if every answer was evaluated.
    pub fn is_complete(&self) -> bool {
        let is_whole = |counts: Counts| counts.unmeasured == 0 && counts.unanswered == 0;
        self.troubles.is_empty() && self.models.iter().all(|m| is_whole(m.all.counts))
    }

    /// All metrics at a number of threads.
    pub fn metrics(&self, threads: u32) -> Vec<Metric> {
        Metric::all(&self.config.draws, threads)
    }
}

impl Judged {
    fn of(evaluation: &Evaluation, model: &OfModel, threads: u32) -> Self {
        let config = &evaluation.config;
        let metrics = Metric::all(&config.draws, threads);
        let parts: Vec<Part> = config
            .problems
            .iter()
            .map(|problem| {
                let reference = reference(evaluation, &problem.problem, threads);
                let mut programs = Programs::default();
                let side = Side {
                    evaluation,
                    number: 0,
                    model: &model.name,
                };
                side.part(problem, threads, reference, &mut programs)
            })
            .collect();
        let group = |name: &str, parts: &[&Part]| Group::of(name, parts, &metrics, config.seed);
        let by = |of: &dyn Fn(&Part) -> String| -> Vec<Group> {
            let mut names: BTreeMap<String, Vec<&Part>> = BTreeMap::new();
            for part in &parts {
                names.entry(of(part)).or_default().push(part);
            }
            let groups = names.iter();
            groups
                .map(|(name, parts)| group(name.as_str(), &parts[..]))
                .collect()
        };
        Self {
            model: model.name.clone(),
            threads,
            all: group("all", &parts.iter().collect::<Vec<_>>()[..]),
            suites: by(&|part: &Part| part.suite.clone().unwrap_or_else(|| "none".into())),
            kinds: by(&|part: &Part| part.kind.clone().unwrap_or_else(|| "unknown".into())),
            problems: by(&|part: &Part| part.problem.clone()),
            refusals: tallied(parts.iter().flat_map(|part| &part.refused)),
            unmeasured: tallied(parts.iter().flat_map(|part| &part.unmeasured)),
            unanswered: tallied(parts.iter().flat_map(|part| &part.unanswered)),
            unasked: parts.iter().filter_map(|p| p.unasked.clone()).collect(),
        }
    }
}

impl Group {
    fn of(name: &str, parts: &[&Part], metrics: &[Metric], seed: u64) -> Self {
        let mut counts = Counts::default();
        for part in parts {
            counts.add(&part.counts);
        }
        let asked = parts.iter().filter(|part| part.unasked.is_none());
        let samples: Vec<&Samples> = asked.map(|part| &part.samples).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let found = estimates(&samples, metrics, RESAMPLES, &mut rng);
        let numbers = found.into_iter().map(|found| {
            found.map(|found| Number {
                value: found.value,
                low: found.low,
                high: found.high,
                problems: found.problems,
            })
        });
        Self {
            name: name.to_owned(),
            counts,
            metrics: metrics.iter().map(|m| m.name()).zip(numbers).collect(),
        }
    }

    /// A metric.
    pub fn number(&self, metric: Metric) -> Option<Number> {
        self.metrics.get(&metric.name()).copied().flatten()
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.problems += other.problems;
        self.answers += other.answers;
        self.without_program += other.without_program;
        self.distinct_programs += other.distinct_programs;
        self.built += other.built;
        self.correct += other.correct;
        self.unconverged += other.unconverged;
        self.unmeasured += other.unmeasured;
        self.unanswered += other.unanswered;
        self.unasked += other.unasked;
    }
}

/// The numbers of measurements of a problem's programs, by evaluation and program.
#[derive(Debug, Default)]
pub struct Programs(BTreeMap<(usize, Digest), usize>);

impl Programs {
    fn number(&mut self, evaluation: usize, program: &Digest) -> usize {
        let next = self.0.len();
        *self.0.entry((evaluation, program.clone())).or_insert(next)
    }
}

/// A model in an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The evaluation.
    pub evaluation: &'a Evaluation,
    /// A number that two evaluations do not share.
    pub number: usize,
    /// The model.
    pub model: &'a str,
}

/// The answers of a model to one problem.
#[derive(Debug)]
pub struct Part {
    problem: String,
    suite: Option<String>,
    kind: Option<String>,
    /// For the metrics.
    pub samples: Samples,
    counts: Counts,
    /// Why answers failed.
    refused: Vec<Refusal>,
    /// Why answers could not be evaluated.
    unmeasured: Vec<Refusal>,
    /// Why the endpoint gave no answers.
    unanswered: Vec<Refusal>,
    /// Why the model was not asked, if it was not.
    unasked: Option<Unasked>,
}

/// The reference to which the ratios of a problem refer: that of the first outcome.
pub fn reference<'a>(
    evaluation: &'a Evaluation,
    problem: &str,
    threads: u32,
) -> Option<&'a Reference> {
    let mut outcomes = evaluation.outcomes.iter();
    let of = |o: &&Outcome| o.problem == problem && o.threads == threads && o.is_final();
    outcomes.find(of).map(|outcome| &outcome.reference)
}

/// The outcome of each program for a problem. Of several outcomes of one program the last one counts.
pub fn outcomes<'a>(
    evaluation: &'a Evaluation,
    problem: &str,
    threads: u32,
) -> BTreeMap<&'a Digest, &'a Outcome> {
    let outcomes = evaluation.outcomes.iter();
    outcomes
        .filter(|outcome| outcome.problem == problem && outcome.threads == threads)
        .map(|outcome| (&outcome.program, outcome))
        .collect()
}

impl Side<'_> {
    /// The answers to a problem. All ratios refer to `reference`.
    pub fn part(
        &self,
        problem: &OfProblem,
        threads: u32,
        reference: Option<&Reference>,
        programs: &mut Programs,
    ) -> Part {
        let id = problem.problem.as_str();
        let outcomes = outcomes(self.evaluation, id, threads);
        let mut part = Part {
            problem: problem.problem.clone(),
            suite: problem.suite.clone(),
            kind: reference.and_then(|reference| reference.bound.clone()),
            samples: Samples {
                samples: Vec::new(),
                reference_log_se: reference.map_or(0.0, |reference| reference.log_ratio_se),
                headroom: reference.and_then(|r| r.share_of_roof).map(f64::recip),
                threaded_reference: reference.is_some_and(|reference| reference.threaded),
            },
            counts: Counts {
                problems: 1,
                ..Counts::default()
            },
            refused: Vec::new(),
            unmeasured: Vec::new(),
            unanswered: Vec::new(),
            unasked: self.unasked(problem),
        };
        let mut distinct: Vec<Digest> = Vec::new();
        for answer in &self.evaluation.answers {
            if answer.problem == id && answer.model == self.model {
                let digest = answer.digest();
                distinct.extend(digest.clone());
                let outcome = digest.as_ref().and_then(|digest| outcomes.get(digest));
                part.add(answer, outcome.copied(), reference, |program| {
                    programs.number(self.number, program)
                });
            }
        }
        distinct.sort();
        distinct.dedup();
        part.counts.distinct_programs = distinct.len();
        part.unanswered = self.unanswered(problem);
        part.counts.unanswered = part.unanswered.len();
        part.counts.unasked = usize::from(part.unasked.is_some());
        part
    }

    /// Why the model was not asked about a problem, if it was not.
    fn unasked(&self, problem: &OfProblem) -> Option<Unasked> {
        let why = problem.unstated.as_ref()?;
        let samples = self.evaluation.samples(self.model, &problem.problem);
        (samples == 0).then(|| Unasked {
            problem: problem.problem.clone(),
            reason: UNSTATED,
            detail: why.clone(),
        })
    }

    /// The answers that the endpoint of the model did not give, each with the reason of the last request for it.
    fn unanswered(&self, problem: &OfProblem) -> Vec<Refusal> {
        let config = &self.evaluation.config;
        let place = config
            .problems
            .iter()
            .position(|p| p.problem == problem.problem);
        let model = config.models.iter().find(|m| m.name == self.model);
        let (Some(place), Some(model)) = (place, model.filter(|m| m.endpoint.is_some())) else {
            return Vec::new();
        };
        let id = problem.problem.as_str();
        let given: BTreeSet<u32> = self
            .evaluation
            .answers
            .iter()
            .filter(|answer| answer.model == self.model && answer.problem == id)
            .map(|answer| answer.number)
            .collect();
        let last: BTreeMap<u32, &Entry> = self
            .evaluation
            .requests(self.model)
            .filter(|entry| entry.problem == id && entry.event == Event::Failed)
            .map(|entry| (entry.number, entry))
            .collect();
        let samples = model.samples.get(place).copied().unwrap_or(0);
        (1..=samples)
            .filter(|number| !given.contains(number))
            .map(|number| {
                let entry = last.get(&number);
                let reason = entry.and_then(|entry| entry.reason);
                Refusal {
                    reason: reason
                        .map_or("not_asked", |reason| reason.name())
                        .to_owned(),
                    count: 1,
                    problem: problem.problem.clone(),
                    sample: number,
                    example: entry.map(|entry| entry.detail.clone()).unwrap_or_default(),
                }
            })
            .collect()
    }
}

impl Part {
    /// True if no answer was evaluated.
    pub fn is_empty(&self) -> bool {
        self.samples.samples.is_empty()
    }

    fn add(
        &mut self,
        answer: &Answer,
        outcome: Option<&Outcome>,
        reference: Option<&Reference>,
        number: impl FnOnce(&Digest) -> usize,
    ) {
        self.counts.answers += 1;
        let because = |reason: &str, example: &str| Refusal {
            reason: reason.to_owned(),
            count: 1,
            problem: answer.problem.clone(),
            sample: answer.number,
            example: example.chars().take(LONGEST).collect(),
        };
        if answer.program.is_none() {
            self.counts.without_program += 1;
            let words = answer.answer.as_deref().unwrap_or_default();
            self.refused
                .push(because(CandidateFault::Format.name(), words.trim()));
            self.samples.samples.push(Sample::Failed { built: false });
            return;
        }
        let Some(outcome) = outcome else {
            self.counts.unmeasured += 1;
            self.unmeasured.push(because("not_evaluated", ""));
            return;
        };
        let reason = outcome.reason.as_deref().unwrap_or("unknown");
        let sample = match (outcome.outcome, outcome.speed, reference) {
            (State::Measured | State::Unconverged, Some(speed), Some(reference)) => {
                self.counts.correct += 1;
                self.counts.unconverged += usize::from(outcome.outcome == State::Unconverged);
                Sample::Correct {
                    speedup: (speed.log_ratio + reference.log_ratio).exp(),
                    log_se: speed.log_ratio_se,
                    program: number(&outcome.program),
                }
            }
            (State::Rejected, _, _) => {
                self.refused.push(because(reason, outcome.detail.trim()));
                Sample::Failed {
                    built: outcome.built,
                }
            }
            _ => {
                self.counts.unmeasured += 1;
                self.unmeasured.push(because(reason, outcome.detail.trim()));
                return;
            }
        };
        self.counts.built += usize::from(outcome.built);
        self.samples.samples.push(sample);
    }
}

/// Each reason once, the commonest first, with its first example.
fn tallied<'a>(all: impl Iterator<Item = &'a Refusal>) -> Vec<Refusal> {
    let mut tallied: Vec<Refusal> = Vec::new();
    for refusal in all {
        match tallied.iter_mut().find(|t| t.reason == refusal.reason) {
            Some(known) => known.count += refusal.count,
            None => tallied.push(refusal.clone()),
        }
    }
    tallied.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
    tallied
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(crate) mod tests {
    use flopsmith_endpoint::{Amount, Reason};

    use super::*;
    use crate::folder::Request;
    use crate::folder::tests::{answer, config};
    use crate::outcome::Speed;
    use crate::tell;

    pub(crate) fn outcome(program: &str, outcome: State, log_ratio: f64) -> Outcome {
        let measured = matches!(outcome, State::Measured | State::Unconverged);
        Outcome {
            problem: "dot".into(),
            program: Digest::of(program.as_bytes()),
            threads: 1,
            outcome,
            reason: (!measured).then(|| "wrong_result".to_owned()),
            detail: String::new(),
            built: true,
            techniques: None,
            speed: measured.then_some(Speed {
                log_ratio,
                log_ratio_se: 0.001,
                gflops: 1.0,
                seconds_per_call: 1.0,
                minimum_seconds: None,
                median_seconds: None,
                mdape: None,
                gb_per_second: None,
                share_of_roof: None,
            }),
            reference: Reference {
                log_ratio: 2f64.ln(),
                log_ratio_se: 0.01,
                share_of_roof: Some(0.1),
                bound: Some("memory".into()),
                threaded: false,
            },
            machine_busy: None,
            attestation: Digest::of(b"machine"),
            tools: None,
            record: None,
        }
    }

    pub(crate) fn evaluation(answers: Vec<Answer>, outcomes: Vec<Outcome>) -> Evaluation {
        Evaluation {
            config: config(),
            answers,
            outcomes,
            machines: BTreeMap::new(),
            requests: Vec::new(),
        }
    }

    #[test]
    fn every_answer_is_counted_once() {
        let answers = vec![
            answer("a", 1, Some("fast")),
            answer("a", 2, Some("fast")),
            answer("a", 3, Some("wrong")),
            answer("a", 4, None),
            answer("a", 5, Some("lost")),
            answer("a", 6, Some("never")),
            answer("b", 1, Some("wrong")),
        ];
        let mut other = outcome("fast", State::Measured, 4f64.ln());
        other.threads = 2;
        let outcomes = vec![
            // The machine failed at first.
            outcome("fast", State::Infrastructure, 0.0),
            outcome("wrong", State::Rejected, 0.0),
            outcome("fast", State::Measured, 2f64.ln()),
            outcome("lost", State::Unknown, 0.0),
            other,
        ];
        let results = Results::of(&evaluation(answers, outcomes), Troubles::new());
        assert!(!results.is_complete());
        let [a, b] = &results.models[..] else {
            unreachable!("two models")
        };
        let expected = Counts {
            problems: 1,
            answers: 6,
            without_program: 1,
            distinct_programs: 4,
            built: 3,
            correct: 2,
            unconverged: 0,
            unmeasured: 2,
            unanswered: 0,
            unasked: 0,
        };
        assert_eq!(a.all.counts, expected);
        // Of the four answers that were evaluated two are correct.
        let value = |judged: &Judged, metric: Metric| judged.all.number(metric).unwrap().value;
        assert_eq!(value(a, Metric::Pass(1)), 0.5);
        assert_eq!(value(a, Metric::Build(1)), 0.75);
        assert!((value(a, Metric::Speedup(1)) - 2.0).abs() < 1e-12);
        assert!((value(a, Metric::GeometricMean) - 4.0).abs() < 1e-12);
        assert!((value(a, Metric::ShareOfRoof) - 0.2).abs() < 1e-12);
        let reasons: Vec<&str> = a.refusals.iter().map(|r| r.reason.as_str()).collect();
        assert_eq!(reasons, ["format", "wrong_result"]);
        assert_eq!(a.unmeasured.len(), 2);
        assert_eq!((a.kinds[0].name.as_str(), a.kinds.len()), ("memory", 1));
        // A model without a correct answer has all numbers but the means over correct ones.
        assert_eq!(value(b, Metric::Speedup(1)), 0.0);
        assert_eq!(b.all.number(Metric::GeometricMean).map(|n| n.value), None);
        assert_eq!(b.unmeasured, Vec::new());
    }

    #[test]
    fn a_problem_that_no_prompt_states_has_a_row_and_counts_in_no_number() {
        let answers = vec![answer("a", 1, Some("fast"))];
        let outcomes = vec![outcome("fast", State::Measured, 0.0)];
        let mut evaluation = evaluation(answers, outcomes);
        let config = &mut evaluation.config;
        config.problems.push(OfProblem {
            problem: "sort64".into(),
            unstated: Some("it is no nest".into()),
            ..config.problems[0].clone()
        });
        // Ready answers need no prompt.
        config.models[0].samples = vec![1, 0];
        config.models[1].samples = vec![1, 1];
        let results = Results::of(&evaluation, Troubles::new());
        assert!(results.is_complete(), "another start would change nothing");
        let [a, b] = &results.models[..] else {
            unreachable!("two models")
        };
        let expected = Unasked {
            problem: "sort64".into(),
            reason: UNSTATED,
            detail: "it is no nest".into(),
        };
        assert_eq!(a.unasked, [expected]);
        assert!(b.unasked.is_empty(), "{:?}", b.unasked);
        let counts = a.all.counts;
        assert_eq!((counts.problems, counts.unasked, counts.answers), (2, 1, 1));
        assert_eq!(
            (a.problems[1].name.as_str(), a.problems[1].counts.unasked),
            ("sort64", 1)
        );
        for metric in results.metrics(1) {
            let number = a.all.number(metric).map(|n| n.problems);
            assert_eq!(number, Some(1), "{}", metric.name());
            assert!(a.problems[1].number(metric).is_none(), "{}", metric.name());
        }
        let text = tell::lines(&results).join("\n");
        for part in [
            "1 of 2",
            "a: 1 of 2 problems was not asked",
            "unstated: sort64: it is no nest",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let table = crate::page::csv(&results).unwrap();
        let row = |line: &&str| line.starts_with("a,1,problem,sort64,pass@1,,,,0,0,0,0,1");
        assert_eq!(table.lines().filter(row).count(), 1, "{table}");
    }

    #[test]
    fn a_reference_on_several_threads_leaves_no_efficiency() {
        let of = |threaded| {
            let mut outcome = outcome("fast", State::Measured, 2f64.ln());
            outcome.threads = 2;
            outcome.reference.threaded = threaded;
            let mut evaluation = evaluation(vec![answer("a", 1, Some("fast"))], vec![outcome]);
            evaluation.config.threads = vec![2];
            let results = Results::of(&evaluation, Troubles::new());
            let all = &results.models[0].all;
            let value = |metric| all.number(metric).map(|n| n.value);
            (value(Metric::Speedup(1)), value(Metric::Efficiency(1, 2)))
        };
        let near = |found: Option<f64>, expected: f64| {
            assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?}");
        };
        let ((beside_one, efficiency), (beside_two, none)) = (of(false), of(true));
        near(beside_one, 4.0);
        near(efficiency, 2.0);
        near(beside_two, 4.0);
        assert_eq!(none, None);
    }

    #[test]
    fn answers_that_an_endpoint_did_not_give_are_named_and_counted_apart() {
        let mut evaluation = evaluation(vec![answer("a", 2, Some("fast"))], Vec::new());
        let outcomes = vec![outcome("fast", State::Measured, 0.0)];
        evaluation.outcomes = outcomes;
        let complete = |evaluation: &Evaluation| Results::of(evaluation, Troubles::new());
        // Models without an endpoint have the answers that they have.
        assert!(complete(&evaluation).is_complete());
        evaluation.config.models[0].endpoint = Some("http://127.0.0.1:1/v1#a".into());
        let entry = |event, cost: &str, reason| Request {
            model: "a".into(),
            entry: Entry {
                problem: "dot".into(),
                number: 1,
                attempt: 1,
                event,
                amount: Amount {
                    input_tokens: 10,
                    output_tokens: 20,
                    cost: cost.parse().unwrap(),
                },
                assumed: event == Event::Failed,
                elapsed_ms: 7,
                reason,
                detail: "nothing came".into(),
                served: None,
            },
        };
        evaluation.requests = vec![
            entry(Event::Reserved, "0.1", None),
            entry(Event::Failed, "0.1", Some(Reason::Idle)),
            // A process that was killed.
            entry(Event::Reserved, "0.2", None),
        ];
        let results = complete(&evaluation);
        assert!(!results.is_complete());
        let counts = results.models[0].all.counts;
        assert_eq!((counts.answers, counts.unanswered), (1, 1));
        let missing = &results.models[0].unanswered[0];
        assert_eq!((missing.reason.as_str(), missing.sample), ("idle", 1));
        let spending = results.spending["a"];
        assert_eq!(
            (spending.requests, spending.failed, spending.assumed),
            (2, 2, 2)
        );
        assert_eq!(spending.amount.cost, "0.3".parse().unwrap());
        let text = tell::lines(&results).join("\n");
        for part in [
            "a: 1 of 2 answers are missing",
            "1 × idle, e.g. answer 1 to dot: nothing came",
            "0.3",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
