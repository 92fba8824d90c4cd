//! A population of programs on islands as a source.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use async_trait::async_trait;
use flopsmith_agent::{Parent, Population, Rules, edit};
use flopsmith_archive::identity;
use flopsmith_config::Settings;
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    CandidateId, MachineClass, Measurement, Outcome, ProblemId, Task, TaskId,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Answers, Source};
use crate::error::Error;
use crate::journal::Journal;
use crate::role::recorder::files;
use crate::source::schedule::Searching;
use crate::source::variants::Variants;

/// How often a task asks the space for programs in place of those that were evaluated before.
const ROUNDS: usize = 4;
/// Programs of all islands that half of a task's programs vary, as many as a search without islands varies.
const FASTEST: usize = 12;
/// Equal lines around a change in the record.
const AROUND: usize = 2;

/// Lets the confirmed programs of a population have children.
///
/// Each task works on one island: it draws parents there, cell by cell, and the problem's space varies them. A share of the programs
/// varies the user's own, which is no program of the space. The source saves no state: a generator reports every outcome of the run
/// before it asks for programs, and the population follows from them. A file of the run's folder names the parents of each attempt.
pub struct AgentSource {
    bred: HashMap<ProblemId, Bred>,
    /// Parents of a task.
    parents: usize,
    /// The program with which the run begins.
    start: Option<String>,
    record: Record,
}

/// The population of a problem, and what varies its programs.
struct Bred {
    population: Population,
    /// The space of programs, if the problem has one.
    searching: Option<Searching>,
    /// The variants of the user's program, where the run makes some.
    variants: Option<Variants>,
}

/// A program that others can be made of.
#[derive(Debug, Clone, PartialEq)]
struct Origin {
    candidate: CandidateId,
    source: String,
}

impl From<&Parent<'_>> for Origin {
    fn from(parent: &Parent<'_>) -> Self {
        Self {
            candidate: parent.elite.candidate.clone(),
            source: parent.elite.source.clone(),
        }
    }
}

/// A program for a task, and what it was made of.
#[derive(Default)]
struct Made {
    source: String,
    origins: Vec<Origin>,
    /// The program that it varies, for a variant of the user's own.
    follows: Option<CandidateId>,
}

/// A line of `attempts.jsonl`. The outcome of the candidate has its program and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Attempt {
    candidate: CandidateId,
    island: usize,
    /// The programs that it varies; none for one that was drawn from the space.
    parents: Vec<CandidateId>,
    /// The parent from which it differs least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nearest: Option<CandidateId>,
    /// The lines in which it differs from that one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    difference: String,
}

/// The file of attempts. A task that is answered again after a restart has no second line.
struct Record {
    file: Journal,
    written: HashSet<CandidateId>,
}

impl Record {
    fn open(folder: &Path) -> Result<Self, Error> {
        let (file, attempts) = Journal::open::<Attempt>(folder.join(files::ATTEMPTS))?;
        Ok(Self {
            file,
            written: attempts.into_iter().map(|a| a.candidate).collect(),
        })
    }

    fn write(&mut self, attempt: Attempt) -> Result<(), Error> {
        if self.written.contains(&attempt.candidate) {
            return Ok(());
        }
        self.file.write(&attempt)?;
        self.written.insert(attempt.candidate);
        Ok(())
    }
}

impl AgentSource {
    /// A source with a population for each problem, whose attempts are recorded in this folder.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn open(
        settings: &Settings,
        machine_class: &MachineClass,
        folder: &Path,
        problems: &[&Problem],
    ) -> Result<Self, Error> {
        let agent = &settings.generator.agent;
        let bred = problems.iter().map(|problem| {
            let variants = Variants::of_run(problem, settings).map(Variants::confirmed);
            let searching = match Searching::of_run(problem, settings) {
                Ok(searching) => Some(searching),
                Err(_) if settings.start_share() >= 1.0 && variants.is_some() => None,
                Err(why) => return Err(Error::Generator(format!("`{}`: {why}", problem.id))),
            };
            let bred = Bred {
                population: population(settings, &problem.id, machine_class),
                searching,
                variants,
            };
            Ok((problem.id.clone(), bred))
        });
        Ok(Self {
            bred: bred.collect::<Result<_, _>>()?,
            parents: agent.parents as usize,
            start: settings.start.as_ref().map(|start| start.source.clone()),
            record: Record::open(folder)?,
        })
    }
}

/// The population of a run for a problem, without programs.
pub(super) fn population(
    settings: &Settings,
    problem: &ProblemId,
    machine_class: &MachineClass,
) -> Population {
    let agent = &settings.generator.agent;
    let rules = Rules {
        islands: agent.islands,
        migrate_every: agent.migrate_every,
        pool: settings.sqd.techniques,
        elites_per_cell: settings.sqd.elites_per_cell,
    };
    Population::new(rules, problem.clone(), machine_class.clone())
}

impl Bred {
    /// The programs for a task, with the record of each. They depend on the task and on the reported outcomes alone. The run begins with
    /// `start`, if there is one.
    fn attempts(
        &mut self,
        task: &Task,
        parents: usize,
        start: Option<&str>,
    ) -> Vec<(Answer, Attempt)> {
        let island = (self.population).island_of(task.step, task.tasks_in_step, &task.id);
        let count = task.group_size as usize;
        let begins = task.step == 0 && task.id.group() == Some(0);
        let mut made: Vec<Made> = start
            .filter(|_| begins)
            .map(|start| Made {
                source: start.to_owned(),
                ..Made::default()
            })
            .into_iter()
            .collect();
        if let Some(variants) = &self.variants {
            let open = count.saturating_sub(made.len());
            let found = variants.answers(task, open, self.searching.is_none());
            made.extend(found.into_iter().map(|variant| Made {
                source: variant.source,
                origins: vec![Origin {
                    candidate: variant.parent.clone(),
                    source: variant.of,
                }],
                follows: Some(variant.parent),
            }));
        }
        self.breed(task, island, parents, start, &mut made);
        // A step waits for all its samples. Nodes do not evaluate the same program again.
        let best = self.population.best().map(|p| p.elite.source.as_str());
        let again = best.or(start).map(str::to_owned);
        let again = again.or_else(|| made.first().map(|first| first.source.clone()));
        made.resize_with(count, || Made {
            source: again.clone().unwrap_or_default(),
            ..Made::default()
        });
        let attempts = (0u32..).zip(made).map(|(sample, made)| {
            let attempt = attempt(CandidateId::of(&task.id, sample), island, &made);
            (Answer::of_program(made.source, made.follows), attempt)
        });
        attempts.collect()
    }

    /// Adds programs of the space until the task has as many as it asks for, or no round finds more.
    fn breed(
        &mut self,
        task: &Task,
        island: usize,
        parents: usize,
        start: Option<&str>,
        made: &mut Vec<Made>,
    ) {
        let Self {
            population,
            searching: Some(searching),
            ..
        } = self
        else {
            return;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
        // Until a program of the island is confirmed, the user's own is the parent. A space that does not have it leaves it out.
        let own = population.parents(island, task.permitted, parents, &mut rng);
        let own = match (own.is_empty(), start) {
            (true, Some(start)) => vec![Origin {
                candidate: CandidateId::of(&TaskId::of(&task.run, 0, 0), 0),
                source: start.to_owned(),
            }],
            _ => own.iter().map(Origin::from).collect(),
        };
        let fastest = population.fastest(task.permitted, FASTEST);
        let fastest: Vec<Origin> = fastest.iter().map(Origin::from).collect();
        let digests = made.iter().map(|made| made.source.as_str()).chain(start);
        let mut digests: BTreeSet<_> = digests.map(identity::source_digest).collect();
        searching.forget_undecided();
        for _ in 0..ROUNDS {
            let left = (task.group_size as usize).saturating_sub(made.len());
            if left == 0 {
                break;
            }
            // An island has few programs at first, and others are faster.
            for (origins, count) in [(&own, left.div_ceil(2)), (&fastest, left / 2)] {
                let sources: Vec<&str> = origins.iter().map(|of| of.source.as_str()).collect();
                let seed = rng.random();
                for child in searching.children(task, &sources, count, seed) {
                    let digest = identity::source_digest(&child.source);
                    if population.known(&child.source).is_none() && digests.insert(digest) {
                        let parents = child.parents.iter().filter_map(|at| origins.get(*at));
                        made.push(Made {
                            source: child.source,
                            origins: parents.cloned().collect(),
                            follows: None,
                        });
                    }
                }
            }
        }
    }
}

fn attempt(candidate: CandidateId, island: usize, made: &Made) -> Attempt {
    let differences = made.origins.iter().map(|origin| {
        let text = edit::difference(&origin.source, &made.source, AROUND);
        (text, origin.candidate.clone())
    });
    let nearest = differences.min_by_key(|(text, _)| text.len());
    let (difference, nearest) = nearest.map_or_else(Default::default, |(text, candidate)| {
        (text, Some(candidate))
    });
    Attempt {
        candidate,
        island,
        parents: made.origins.iter().map(|of| of.candidate.clone()).collect(),
        nearest,
        difference,
    }
}

#[async_trait]
impl Source for AgentSource {
    async fn answer_each(
        &mut self,
        _: &[&Problem],
        tasks: &[Task],
        answers: &Answers,
    ) -> Result<(), Error> {
        let mut groups = Vec::with_capacity(tasks.len());
        for task in tasks {
            let bred = self.bred.get_mut(&task.problem).ok_or_else(|| {
                Error::Generator(format!("no schedule space for `{}`", task.problem))
            })?;
            let mut group = Vec::with_capacity(task.group_size as usize);
            for (answer, attempt) in bred.attempts(task, self.parents, self.start.as_deref()) {
                self.record.write(attempt)?;
                group.push(answer);
            }
            groups.push(group);
        }
        answers.take_all(groups);
        Ok(())
    }

    fn outcome_reported(&mut self, outcome: &Outcome) {
        if let Some(bred) = self.bred.get_mut(&outcome.candidate.problem) {
            bred.population.note(outcome);
            if let Some(variants) = &mut bred.variants {
                variants.note(outcome);
            }
            let measured = outcome.verdict.measurement();
            let gflops = measured.map(Measurement::known_gflops);
            if let Some(searching) = &mut bred.searching {
                searching.outcome_seen(&outcome.source, gflops);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_config::{Start, search};
    use flopsmith_protocol::{Purpose, TechniqueSet};
    use flopsmith_test_support::{
        again, machine_class, measured, outcome, sample_of, shipped, wrong,
    };

    use super::*;

    fn problem(name: &str) -> Problem {
        Problem::load(&shipped::at(name)).unwrap()
    }

    fn settings() -> Settings {
        let mut settings = search::defaults("dgemm", search::BUDGET);
        search::improve(&mut settings);
        settings.generator.agent.migrate_every = 8;
        settings
    }

    fn source(problem: &Problem, settings: &Settings, folder: &Path) -> AgentSource {
        AgentSource::open(settings, &machine_class(), folder, &[problem]).unwrap()
    }

    /// The tasks of a step.
    fn step(problem: &Problem, number: u64) -> Vec<Task> {
        let tasks = (0..2).map(|task| Task {
            problem: problem.id.clone(),
            group_size: 4,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Search,
            seed: 31 * number + u64::from(task),
            ..flopsmith_test_support::task(number, task)
        });
        tasks.collect()
    }

    /// The outcomes of a step: first measurements, and second ones of all that were measured. Any landscape will do, with some
    /// programs that fail.
    fn outcomes(tasks: &[Task], groups: &[Vec<Answer>]) -> Vec<Outcome> {
        let mut all = Vec::new();
        for (task, group) in tasks.iter().zip(groups) {
            for (sample, answer) in (0u32..).zip(group) {
                let length = answer.source.len();
                let is_measured = length % 5 > 0;
                let verdict = match is_measured {
                    true => measured(length as f64),
                    false => wrong(),
                };
                let mut candidate = sample_of(task, sample);
                candidate.follows.clone_from(&answer.parent);
                let first = Outcome {
                    source: answer.source.clone(),
                    techniques: Some(TechniqueSet::EMPTY),
                    ..outcome(candidate, verdict)
                };
                all.push(first.clone());
                if is_measured {
                    all.push(again(&first, measured(length as f64 - 0.5)));
                }
            }
        }
        all
    }

    fn attempts(folder: &Path) -> Vec<Attempt> {
        let text = std::fs::read_to_string(folder.join(files::ATTEMPTS)).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    /// The space of a matrix product, that of another loop nest, and that of a template.
    #[tokio::test]
    async fn a_source_that_is_made_anew_goes_on_from_the_outcomes_and_tries_nothing_twice() {
        for name in ["dgemm", "dsyrk", "histogram"] {
            let (problem, settings) = (problem(name), settings());
            let folder = tempfile::tempdir().unwrap();
            let mut first = source(&problem, &settings, folder.path());
            let mut log: Vec<Outcome> = Vec::new();
            let mut tried = BTreeSet::new();
            for number in 0..4 {
                let tasks = step(&problem, number);
                let groups = first.answer(&[&problem], &tasks).await.unwrap();
                for answer in groups.iter().flatten() {
                    let digest = identity::source_digest(&answer.source);
                    assert!(tried.insert(digest), "{name}: {}", answer.source);
                }
                let outcomes = outcomes(&tasks, &groups);
                outcomes.iter().for_each(|o| first.outcome_reported(o));
                log.extend(outcomes);
            }
            let recorded = attempts(folder.path());
            assert_eq!(recorded.len(), 32);
            assert!(recorded[..8].iter().all(|a| a.parents.is_empty()));
            let bred = recorded.iter().filter(|a| a.nearest.is_some()).count();
            // The search of a matrix product draws its first 24 programs.
            let least = if name == "dgemm" { 1 } else { 8 };
            assert!(bred >= least, "{name}: {bred}");

            let mut second = source(&problem, &settings, folder.path());
            log.iter().for_each(|o| second.outcome_reported(o));
            let tasks = step(&problem, 4);
            let next = first.answer(&[&problem], &tasks).await.unwrap();
            // A task that comes once more has the same answer, and no second line in the record.
            for source in [&mut first, &mut second] {
                let again = source.answer(&[&problem], &tasks).await.unwrap();
                assert_eq!(again, next, "{name}");
            }
            assert_eq!(attempts(folder.path()).len(), 40, "{name}");
        }
    }

    /// A part of the programs is drawn from the space, and has no parents.
    #[tokio::test]
    async fn programs_have_the_parents_that_they_vary_and_those_were_measured_twice() {
        let (problem, settings) = (problem("dsyrk"), settings());
        let folder = tempfile::tempdir().unwrap();
        let mut source = source(&problem, &settings, folder.path());
        let mut confirmed = BTreeSet::new();
        let mut second = Vec::new();
        // With two tasks a step and four islands, each island has a task in every second step.
        for number in 0..6 {
            let tasks = step(&problem, number);
            let groups = source.answer(&[&problem], &tasks).await.unwrap();
            for outcome in outcomes(&tasks, &groups) {
                match &outcome.candidate.remeasures {
                    Some(first) => {
                        confirmed.insert(first.clone());
                        second.push(outcome);
                    }
                    None => source.outcome_reported(&outcome),
                }
            }
        }
        let recorded = attempts(folder.path());
        let is_drawn = |a: &Attempt| a.parents.is_empty() && a.nearest.is_none();
        assert!(recorded.iter().all(is_drawn));
        second.iter().for_each(|o| source.outcome_reported(o));
        for number in 6..12 {
            let tasks = step(&problem, number);
            source.answer(&[&problem], &tasks).await.unwrap();
        }
        let recorded = attempts(folder.path()).split_off(48);
        let (drawn, bred): (Vec<_>, Vec<_>) = recorded.into_iter().partition(is_drawn);
        assert!(
            !drawn.is_empty() && bred.len() > 12,
            "{} {}",
            drawn.len(),
            bred.len()
        );
        assert!(drawn.iter().all(|attempt| attempt.difference.is_empty()));
        for attempt in bred {
            assert!((1..=2).contains(&attempt.parents.len()), "{attempt:?}");
            assert!(!attempt.difference.is_empty(), "{attempt:?}");
            assert!(attempt.parents.contains(&attempt.nearest.clone().unwrap()));
            assert!(attempt.parents.iter().all(|id| confirmed.contains(id)));
        }
    }

    #[tokio::test]
    async fn half_of_a_tasks_programs_have_parents_of_its_island() {
        let (problem, mut settings) = (problem("dsyrk"), settings());
        settings.generator.agent.migrate_every = 1000;
        let folder = tempfile::tempdir().unwrap();
        let mut source = source(&problem, &settings, folder.path());
        let mut of_island: HashMap<usize, HashSet<CandidateId>> = HashMap::new();
        for number in 0..10 {
            let tasks = step(&problem, number);
            let groups = source.answer(&[&problem], &tasks).await.unwrap();
            // The parents of all later steps are known.
            if number < 2 {
                let all = outcomes(&tasks, &groups);
                all.iter().for_each(|o| source.outcome_reported(o));
            }
        }
        let recorded = attempts(folder.path());
        for attempt in &recorded[..16] {
            let own = of_island.entry(attempt.island).or_default();
            own.insert(attempt.candidate.clone());
        }
        let mut elsewhere = 0;
        for task in recorded[16..].chunks(4) {
            let foreign = task.iter().filter(|attempt| {
                let own = &of_island[&attempt.island];
                attempt.parents.iter().any(|parent| !own.contains(parent))
            });
            let count = foreign.count();
            assert!(count <= 2, "{task:?}");
            elsewhere += count;
        }
        assert!(elsewhere > 0);
    }

    fn starting_with(source: &str) -> Settings {
        let mut settings = settings();
        settings.start = Some(Start {
            source: source.into(),
            ..Start::default()
        });
        settings
    }

    #[tokio::test]
    async fn a_search_begins_with_the_users_own_program() {
        let (problem, settings) = (problem("dsyrk"), starting_with("my program"));
        let folder = tempfile::tempdir().unwrap();
        let mut source = source(&problem, &settings, folder.path());
        for number in 0..2 {
            let tasks = step(&problem, number);
            let groups = source.answer(&[&problem], &tasks).await.unwrap();
            assert!(groups.iter().all(|group| group.len() == 4));
            let own = |a: &&Answer| a.source == "my program";
            let found = groups.iter().flatten().filter(own).count();
            assert_eq!(found, usize::from(number == 0));
        }
    }

    fn without_space() -> Problem {
        let mut problem = problem("sort64");
        problem.template = None;
        problem
    }

    const OWN: &str =
        "#define TILE 64\nvoid f(int n) { for (int i = 0; i < n; i += TILE) g(i); }\n";

    /// A share of the programs beside a space, and all of them where there is none.
    #[tokio::test]
    async fn the_users_program_has_children_and_they_have_some_once_they_are_confirmed() {
        for (problem, share) in [(problem("dsyrk"), 0.5), (without_space(), 1.0)] {
            let (name, mut settings) = (problem.id.clone(), starting_with(OWN));
            settings.generator.start_share = share;
            let folder = tempfile::tempdir().unwrap();
            let mut first = source(&problem, &settings, folder.path());
            let mut log: Vec<Outcome> = Vec::new();
            let mut tried = BTreeSet::new();
            let mut parents = BTreeSet::new();
            let mut confirmed = BTreeSet::new();
            for number in 0..6 {
                let tasks = step(&problem, number);
                let groups = first.answer(&[&problem], &tasks).await.unwrap();
                for answer in groups.iter().flatten() {
                    assert!(tried.insert(answer.source.clone()), "{}", answer.source);
                    parents.extend(answer.parent.clone());
                }
                if number == 0 {
                    let own = sample_of(&tasks[0], 0).id;
                    assert_eq!(groups[0][0].source, OWN);
                    assert_eq!(parents, BTreeSet::from([own.clone()]));
                    confirmed.insert(own);
                }
                assert!(parents.is_subset(&confirmed), "{name}: {parents:?}");
                let outcomes = outcomes(&tasks, &groups);
                for outcome in &outcomes {
                    confirmed.extend(outcome.candidate.remeasures.clone());
                }
                outcomes.iter().for_each(|o| first.outcome_reported(o));
                log.extend(outcomes);
            }
            assert!(parents.len() > 1, "{name}: {parents:?}");
            let recorded = attempts(folder.path());
            let variants = recorded.iter().filter(|a| {
                let is_variant = a.parents.iter().any(|parent| parents.contains(parent));
                is_variant && a.nearest.is_some() && !a.difference.is_empty()
            });
            let least = (share * 40.0) as usize;
            assert!(variants.count() >= least, "{name}");

            let mut second = source(&problem, &settings, folder.path());
            log.iter().for_each(|o| second.outcome_reported(o));
            let tasks = step(&problem, 6);
            let next = first.answer(&[&problem], &tasks).await.unwrap();
            assert_eq!(second.answer(&[&problem], &tasks).await.unwrap(), next);
        }
    }

    #[test]
    fn a_problem_without_a_space_needs_a_program_to_vary() {
        let (problem, folder) = (without_space(), tempfile::tempdir().unwrap());
        let mut settings = starting_with(OWN);
        let open = |settings: &Settings| {
            AgentSource::open(settings, &machine_class(), folder.path(), &[&problem]).err()
        };
        settings.generator.start_share = 1.0;
        assert!(open(&settings).is_none());
        settings.start = None;
        assert!(open(&settings).unwrap().to_string().contains("sort64"));
    }
}
