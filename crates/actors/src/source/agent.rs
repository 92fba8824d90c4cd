//! A population of programs on islands as a source.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use async_trait::async_trait;
use flopsmith_agent::{Parent, Population, Rules, edit};
use flopsmith_archive::identity;
use flopsmith_config::Settings;
use flopsmith_problem::Problem;
use flopsmith_protocol::{CandidateId, MachineClass, Measurement, Outcome, ProblemId, Task};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Answers, Source};
use crate::error::Error;
use crate::journal::Journal;
use crate::role::recorder::files;
use crate::source::schedule::Searching;

/// How often a task asks the space for programs in place of those that were evaluated before.
const ROUNDS: usize = 4;
/// Programs of all islands that half of a task's programs vary, as many as a search without islands varies.
const FASTEST: usize = 12;
/// Equal lines around a change in the record.
const AROUND: usize = 2;

/// Lets the confirmed programs of a population have children.
///
/// Each task works on one island: it draws parents there, cell by cell, and the problem's space varies them. The source saves
/// no state: a generator reports every outcome of the run before it asks for programs, and the population follows from them.
/// A file of the run's folder names the parents of each attempt.
pub struct AgentSource {
    bred: HashMap<ProblemId, Bred>,
    /// Parents of a task.
    parents: usize,
    /// The program with which the run begins.
    start: Option<String>,
    record: Record,
}

/// The population of a problem, and the space that varies its programs.
struct Bred {
    population: Population,
    searching: Searching,
}

/// A line of `attempts.jsonl`. The outcome of the candidate has its program and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Attempt {
    candidate: CandidateId,
    island: usize,
    /// The programs that it could build on, the likeliest first.
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
        searches: impl IntoIterator<Item = (ProblemId, Searching)>,
    ) -> Result<Self, Error> {
        let agent = &settings.generator.agent;
        let bred = searches.into_iter().map(|(problem, searching)| {
            let population = population(settings, &problem, machine_class);
            (
                problem,
                Bred {
                    population,
                    searching,
                },
            )
        });
        Ok(Self {
            bred: bred.collect(),
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
    /// The programs for a task, with the record of each. They depend on the task and on the reported outcomes alone.
    fn attempts(
        &mut self,
        task: &Task,
        parents: usize,
        start: Option<String>,
    ) -> Vec<(String, Attempt)> {
        let Self {
            population,
            searching,
        } = self;
        let island = population.island_of(task.step, task.tasks_in_step, &task.id);
        let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
        let own = population.parents(island, task.permitted, parents, &mut rng);
        let fastest = population.fastest(task.permitted, FASTEST);
        let count = task.group_size as usize;
        let mut digests: BTreeSet<_> = start
            .as_deref()
            .map(identity::source_digest)
            .into_iter()
            .collect();
        let mut programs: Vec<(String, &[Parent<'_>])> =
            start.into_iter().map(|start| (start, &own[..])).collect();
        searching.forget_undecided();
        for _ in 0..ROUNDS {
            let left = count.saturating_sub(programs.len());
            if left == 0 {
                break;
            }
            // An island has few programs at first, and others are faster.
            for (parents, count) in [(&own[..], left.div_ceil(2)), (&fastest[..], left / 2)] {
                let sources: Vec<&str> = parents.iter().map(|p| p.elite.source.as_str()).collect();
                let seed = rng.random();
                for program in searching.children(task, &sources, count, seed) {
                    let digest = identity::source_digest(&program);
                    if population.known(&program).is_none() && digests.insert(digest) {
                        programs.push((program, parents));
                    }
                }
            }
        }
        // A step waits for all its samples. Nodes do not evaluate the same program again.
        let best = population.best().map(|p| p.elite.source.clone());
        let again = best.or_else(|| programs.first().map(|(program, _)| program.clone()));
        programs.resize(count, (again.unwrap_or_default(), &own));
        let attempts = (0u32..).zip(programs).map(|(sample, (program, parents))| {
            let attempt = attempt(task, sample, island, parents, &program);
            (program, attempt)
        });
        attempts.collect()
    }
}

fn attempt(
    task: &Task,
    sample: u32,
    island: usize,
    parents: &[Parent<'_>],
    program: &str,
) -> Attempt {
    let differences = parents.iter().map(|parent| {
        let text = edit::difference(&parent.elite.source, program, AROUND);
        (text, parent.elite.candidate.clone())
    });
    let nearest = differences.min_by_key(|(text, _)| text.len());
    let (difference, nearest) = nearest.map_or_else(Default::default, |(text, candidate)| {
        (text, Some(candidate))
    });
    Attempt {
        candidate: CandidateId::of(&task.id, sample),
        island,
        parents: parents.iter().map(|p| p.elite.candidate.clone()).collect(),
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
            let begins = task.step == 0 && task.id.group() == Some(0);
            let start = self.start.clone().filter(|_| begins);
            let mut group = Vec::with_capacity(task.group_size as usize);
            for (source, attempt) in bred.attempts(task, self.parents, start) {
                self.record.write(attempt)?;
                // The record names the parents.
                group.push(Answer::of_program(source, None));
            }
            groups.push(group);
        }
        answers.take_all(groups);
        Ok(())
    }

    fn outcome_reported(&mut self, outcome: &Outcome) {
        if let Some(bred) = self.bred.get_mut(&outcome.candidate.problem) {
            bred.population.note(outcome);
            let measured = outcome.verdict.measurement();
            let gflops = measured.map(Measurement::known_gflops);
            bred.searching.outcome_seen(&outcome.source, gflops);
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
        let searching = Searching::of(problem, 1).unwrap();
        let searches = [(problem.id.clone(), searching)];
        AgentSource::open(settings, &machine_class(), folder, searches).unwrap()
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
                let first = Outcome {
                    source: answer.source.clone(),
                    techniques: Some(TechniqueSet::EMPTY),
                    ..outcome(sample_of(task, sample), verdict)
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
            assert!(bred >= 8, "{name}: {bred}");

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

    #[tokio::test]
    async fn a_program_has_children_once_it_was_measured_again() {
        let (problem, settings) = (problem("dgemm"), settings());
        let folder = tempfile::tempdir().unwrap();
        let mut source = source(&problem, &settings, folder.path());
        let tasks = step(&problem, 0);
        let groups = source.answer(&[&problem], &tasks).await.unwrap();
        let all = outcomes(&tasks, &groups);
        let (again, first): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|o| o.candidate.remeasures.is_some());
        first.iter().for_each(|o| source.outcome_reported(o));
        // With two tasks a step and four islands, each island has a task in every second step.
        let later = step(&problem, 2);
        source.answer(&[&problem], &later).await.unwrap();
        assert!(
            attempts(folder.path())
                .iter()
                .all(|a| a.parents.is_empty() && a.difference.is_empty())
        );
        again.iter().for_each(|o| source.outcome_reported(o));
        let last = step(&problem, 4);
        source.answer(&[&problem], &last).await.unwrap();
        let recorded = attempts(folder.path());
        let bred = &recorded[16..];
        assert_eq!(bred.len(), 8);
        for attempt in bred {
            assert!(!attempt.parents.is_empty(), "{attempt:?}");
            assert!(!attempt.difference.is_empty(), "{attempt:?}");
        }
        // Half of a task's programs have parents of its island, the others the fastest ones of all.
        for (group, task) in bred.chunks(4).zip(["-g0-", "-g1-"]) {
            let of_island = |id: &CandidateId| id.as_str().contains(task);
            let own = group.iter().filter(|a| a.parents.iter().all(of_island));
            assert_eq!(own.count(), 2, "{group:?}");
            assert_eq!(group[2].parents, bred[2].parents);
        }
    }

    #[tokio::test]
    async fn a_search_begins_with_the_users_own_program() {
        let problem = problem("dsyrk");
        let mut settings = settings();
        settings.start = Some(Start {
            source: "my program".into(),
            ..Start::default()
        });
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
}
