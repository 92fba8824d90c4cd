//! A search among programs that differ from measured ones in numbers, where no space of programs is known: a module of PyTorch.

use std::collections::BTreeSet;

use flopsmith_agent::numbers;
use flopsmith_archive::identity;
use flopsmith_generator::schedule::Share;
use flopsmith_protocol::Digest;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::schedule::Child;

/// Mutations that are drawn for each program that is wanted. Most are new, until few numbers are left to exchange.
const TRIES: usize = 64;

/// The search. It begins with a program, and its other programs have that one's text but for numbers.
#[derive(Clone)]
pub struct Numbers {
    start: String,
    /// The programs with an outcome.
    decided: BTreeSet<Digest>,
    /// The fastest program so far, and its speed.
    best: Option<(f64, String)>,
}

impl Numbers {
    /// A search that begins with this program.
    pub fn new(start: String) -> Self {
        Self {
            start,
            decided: BTreeSet::new(),
            best: None,
        }
    }

    /// The programs for a task with this seed and share: variants of the fastest program so far.
    pub fn programs(&self, seed: u64, share: Share, count: usize) -> Vec<String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let best = self.best.as_ref().map_or(&self.start, |(_, best)| best);
        let children = self.children(&[best.as_str()], share, count, &mut rng);
        let mut programs: Vec<String> = children.into_iter().map(|child| child.source).collect();
        // A step waits for all its samples. Nodes do not evaluate the same program again.
        programs.resize_with(count, || best.clone());
        programs
    }

    /// At most so many programs of the share without an outcome that vary `parents`, of which earlier ones are varied more
    /// often; or the first program of the search if there is none.
    pub(super) fn children(
        &self,
        parents: &[&str],
        share: Share,
        count: usize,
        rng: &mut impl Rng,
    ) -> Vec<Child> {
        let alone = [self.start.as_str()];
        let is_alone = parents.is_empty();
        let parents = if is_alone { &alone[..] } else { parents };
        let mut children: Vec<Child> = Vec::with_capacity(count);
        for _ in 0..count.saturating_mul(TRIES) {
            if children.len() == count {
                break;
            }
            let mut place = || rng.random_range(0..parents.len());
            let place = place().min(place());
            let Some(child) = parents.get(place).and_then(|p| numbers::mutate(p, rng)) else {
                continue;
            };
            // Two exchanges may cancel each other.
            let is_new = !parents.contains(&child.as_str())
                && !self.decided.contains(&identity::source_digest(&child));
            let is_repeated = children.iter().any(|other| other.source == child);
            if is_new && share.has(child.as_bytes()) && !is_repeated {
                children.push(Child {
                    source: child,
                    parents: Some(place).filter(|_| !is_alone).into_iter().collect(),
                });
            }
        }
        children
    }

    /// Of programs of earlier searches those that differ from the first program in numbers, in this share: at most `count`.
    pub fn begin(&self, earlier: &[String], share: Share, count: usize) -> Vec<String> {
        let form = form(&self.start);
        let own = earlier.iter().filter(|program| {
            **program != self.start && share.has(program.as_bytes()) && self::form(program) == form
        });
        own.take(count).cloned().collect()
    }

    /// Takes the speed of a program; none if it was refused.
    pub fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        self.decided.insert(identity::source_digest(source));
        let Some(gflops) = gflops else {
            return;
        };
        if self.best.as_ref().is_none_or(|(best, _)| gflops > *best) {
            self.best = Some((gflops, source.to_owned()));
        }
    }
}

/// A program without its digits.
fn form(program: &str) -> String {
    program.replace(|c: char| c.is_ascii_digit(), "")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_config::{Settings, Start, search};
    use flopsmith_problem::Problem;
    use flopsmith_protocol::{Outcome, Purpose, Task, TechniqueSet};
    use flopsmith_test_support::{machine_class, measured, outcome, sample_of, shipped};

    use super::*;
    use crate::answer::Source;
    use crate::source::agent::AgentSource;
    use crate::source::schedule::{ScheduleSource, Searching};

    fn module() -> Problem {
        Problem::load_any(&shipped::at("modules/softmax")).unwrap()
    }

    /// The settings of a search that begins with this program.
    fn settings(source: String) -> Settings {
        let mut settings = search::defaults("modules/softmax", search::BUDGET);
        search::improve(&mut settings);
        settings.start = Some(Start {
            source,
            ..Start::default()
        });
        settings
    }

    fn task(problem: &Problem, step: u64, number: u32) -> Task {
        Task {
            problem: problem.id.clone(),
            group_size: 4,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Search,
            seed: 31 * step + u64::from(number),
            ..flopsmith_test_support::task(step, number)
        }
    }

    #[test]
    fn a_module_is_searched_from_a_program_only() {
        let problem = module();
        let shipped = std::fs::read_to_string(problem.shipped_program().unwrap()).unwrap();
        assert!(numbers::mutate(&shipped, &mut ChaCha8Rng::seed_from_u64(1)).is_some());
        let mut settings = settings(shipped);
        assert!(Searching::of_run(&problem, &settings).is_ok());
        settings.start = None;
        let why = Searching::of_run(&problem, &settings).err().unwrap();
        assert!(why.contains("--start"), "{why}");
    }

    #[tokio::test]
    async fn programs_of_a_step_differ_in_numbers_and_none_is_tried_twice() {
        let problem = module();
        let start = "import torch\nROWS = 16\nBLOCK = 64\nWARPS = 8\nSTAGES = 4\n".to_owned();
        let settings = settings(start.clone());
        let folder = tempfile::tempdir().unwrap();
        let searching = || Searching::of_run(&problem, &settings).unwrap();
        let agent = AgentSource::open(&settings, &machine_class(), folder.path(), &[&problem]);
        let schedule = ScheduleSource::new([(problem.id.clone(), searching())]);
        let schedule = schedule.beginning_with(Some(start.clone()));
        let sources: [Box<dyn Source>; 2] = [Box::new(agent.unwrap()), Box::new(schedule)];
        for mut source in sources {
            let mut tried = BTreeSet::new();
            for step in 0..3 {
                let tasks = [task(&problem, step, 0), task(&problem, step, 1)];
                let groups = source.answer(&[&problem], &tasks).await.unwrap();
                let again = source.answer(&[&problem], &tasks).await.unwrap();
                assert_eq!(groups, again, "a task has one answer");
                for (task, group) in tasks.iter().zip(groups) {
                    for (sample, answer) in (0u32..).zip(group) {
                        assert_eq!(form(&answer.source), form(&start));
                        assert!(tried.insert(answer.source.clone()), "{}", answer.source);
                        source.outcome_reported(&Outcome {
                            source: answer.source,
                            techniques: Some(TechniqueSet::EMPTY),
                            ..outcome(sample_of(task, sample), measured(1.0))
                        });
                    }
                }
                if step == 0 {
                    assert!(tried.contains(&start), "it begins with the user's program");
                }
            }
        }
    }

    #[test]
    fn the_fastest_program_is_varied_and_a_refused_one_is_not_tried_again() {
        let mut search = Numbers::new("block = 64\nunroll = 8\n".into());
        let first = search.programs(1, Share::ALL, 4);
        assert_eq!(first.len(), 4);
        search.outcome_seen("block = 128\nunroll = 16\n", Some(9.0));
        for program in &first {
            search.outcome_seen(program, None);
        }
        search.outcome_seen("block = 64\nunroll = 8\n", Some(3.0));
        let next = search.programs(1, Share::ALL, 8);
        assert!(
            next.iter().all(|program| !first.contains(program)),
            "{next:?}"
        );
        let of_best = |program: &&String| program.contains("128") || program.contains("16");
        assert!(next.iter().filter(of_best).count() >= 4, "{next:?}");
        let earlier = ["block = 32\nunroll = 4\n", "int x;"].map(str::to_owned);
        assert_eq!(search.begin(&earlier, Share::ALL, 4), earlier[..1]);
        // A program without numbers gives itself.
        let plain = Numbers::new("pass".into());
        assert_eq!(plain.programs(1, Share::ALL, 2), ["pass", "pass"]);
    }
}
