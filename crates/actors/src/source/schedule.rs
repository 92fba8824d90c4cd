//! The schedule space as a source: a classic autotuner that a policy has to beat at the same budget.

use std::collections::HashMap;

use async_trait::async_trait;
use flopsmith_generator::schedule::{Index, Schedule, Search, Share};
use flopsmith_generator::template::{Point, Search as TemplateSearch, Space as TemplateSpace};
use flopsmith_nest::search::{Search as NestSearch, marked, unmarked};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{ArtifactRef, PolicyVersion, ProblemId, Task};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::answer::{Answer, Source};
use crate::error::Error;

/// Proposes schedules and learns from their measured speed.
///
/// The source saves nothing: a generator reports every outcome of the run before it asks for programs, and each program
/// leads back to its schedule. The schedules for a task depend on the task and on the reported outcomes, not on the
/// answers to other tasks: each task of a step has a share of the space.
pub struct ScheduleSource {
    searches: HashMap<ProblemId, Searching>,
}

/// The search for one problem.
#[derive(Clone)]
pub enum Searching {
    /// Over the schedules of a matrix product.
    Product(Box<Product>),
    /// Over the schedules of a loop nest.
    Nest(Box<NestSearch>),
    /// Over the parameters of a template.
    Template(Box<TemplateSearch>),
}

/// A search over the schedules of a matrix product.
#[derive(Clone)]
pub struct Product {
    search: Search,
    proposed: HashMap<String, Schedule>,
    /// Made when a reported program was not proposed by this process, as after a restart.
    index: Option<Index>,
}

impl From<Search> for Searching {
    fn from(search: Search) -> Self {
        Self::Product(Box::new(Product {
            search,
            proposed: HashMap::new(),
            index: None,
        }))
    }
}

impl From<NestSearch> for Searching {
    fn from(search: NestSearch) -> Self {
        Self::Nest(Box::new(search))
    }
}

impl From<TemplateSearch> for Searching {
    fn from(search: TemplateSearch) -> Self {
        Self::Template(Box::new(search))
    }
}

impl Searching {
    /// The search for a problem.
    ///
    /// # Errors
    /// A problem for which no schedules are known, with the reason.
    pub fn of(problem: &Problem, seed: u64) -> Result<Self, String> {
        if problem.language != Language::C {
            return Err(format!(
                "the schedule space writes programs in C, and this problem's must be in {}",
                problem.language.name()
            ));
        }
        if let Some(space) = flopsmith_generator::schedule::Space::of(problem.id.as_str()) {
            return Ok(Search::new(space, seed).into());
        }
        // The schedule, or the parameters, of a program stand in a comment behind it.
        let largest = problem.max_source_bytes - problem.max_source_bytes / 8;
        if let Some(space) = TemplateSpace::of(problem, largest) {
            return Ok(TemplateSearch::new(space).into());
        }
        let program = flopsmith_nest::read::read(problem).map_err(|why| {
            format!(
                "reference.c is no affine loop nest ({why}): give its loops bounds and subscripts that are sums of loop variables and parameters times numbers, name a `template` in problem.toml if one fits, or tune a program of yours with `--start mine.c`"
            )
        })?;
        let space = flopsmith_nest::generate::Space::new(program);
        Ok(NestSearch::new(space, largest).into())
    }

    /// The programs for a task.
    fn programs(&mut self, task: &Task) -> Vec<String> {
        let count = task.group_size as usize;
        match self {
            Self::Product(of) => {
                of.search.reseed(task.seed);
                let proposed = of.search.propose(count, task.permitted, share_of(task));
                let rendered = proposed.into_iter().map(|schedule| {
                    let source = schedule.render();
                    of.proposed.insert(source.clone(), schedule);
                    source
                });
                rendered.collect()
            }
            Self::Nest(search) => {
                let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
                let share = share_of(task);
                let mine = |text: &str| share.has(text.as_bytes());
                let proposed = search.propose(count, task.permitted, &mine, &mut rng);
                proposed
                    .iter()
                    .map(|p| marked(&p.text, &p.schedule))
                    .collect()
            }
            Self::Template(search) => {
                let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
                let share = share_of(task);
                let mine = |point: &Point| share.has(point);
                let proposed = search.propose(count, task.permitted, &mine, &mut rng);
                proposed.into_iter().map(|p| p.source).collect()
            }
        }
    }

    fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        match self {
            Self::Product(of) => {
                let schedule = match of.proposed.get(source) {
                    Some(schedule) => Some(*schedule),
                    None => {
                        let space = of.search.space();
                        let index = of.index.get_or_insert_with(|| Index::new(space));
                        index.schedule(source)
                    }
                };
                if let Some(schedule) = schedule {
                    of.search.report(&schedule, gflops);
                }
            }
            Self::Nest(search) => {
                if let Some((text, schedule)) = unmarked(source)
                    && search.recall(text, &schedule)
                {
                    search.report(text, gflops);
                }
            }
            Self::Template(search) => search.report(source, gflops),
        }
    }
}

impl ScheduleSource {
    /// A source of the schedules that each problem's search proposes.
    pub fn new<S: Into<Searching>>(searches: impl IntoIterator<Item = (ProblemId, S)>) -> Self {
        let searches = searches.into_iter();
        Self {
            searches: searches.map(|(id, search)| (id, search.into())).collect(),
        }
    }
}

#[async_trait]
impl Source for ScheduleSource {
    fn version(&self) -> Option<PolicyVersion> {
        None
    }

    async fn update(&mut self, _: PolicyVersion, _: &ArtifactRef) -> Result<(), Error> {
        Ok(())
    }

    async fn answer(&mut self, _: &[&Problem], tasks: &[Task]) -> Result<Vec<Vec<Answer>>, Error> {
        let mut answers = Vec::with_capacity(tasks.len());
        for task in tasks {
            let of = self.searches.get_mut(&task.problem).ok_or_else(|| {
                Error::Generator(format!("no schedule space for `{}`", task.problem))
            })?;
            let programs = of.programs(task).into_iter();
            let group = programs.map(|source| Answer {
                source,
                raw: None,
                sampled: None,
            });
            answers.push(group.collect());
        }
        Ok(answers)
    }

    fn outcome_seen(&mut self, problem: &ProblemId, source: &str, gflops: Option<f64>) {
        if let Some(of) = self.searches.get_mut(problem) {
            of.outcome_seen(source, gflops);
        }
    }
}

fn share_of(task: &Task) -> Share {
    let all = Share::ALL;
    task.id.group().map_or(all, |number| Share {
        number,
        of: task.tasks_in_step,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flopsmith_generator::schedule::Space;
    use flopsmith_protocol::{Purpose, TechniqueSet};

    use super::*;

    fn task(number: u32) -> Task {
        let step = u64::from(number);
        Task {
            group_size: 8,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Search,
            seed: step + 100,
            ..flopsmith_test_support::task(step, 0)
        }
    }

    /// The space of a matrix product, that of another loop nest, and that of a template.
    #[tokio::test]
    async fn a_source_that_is_made_anew_goes_on_from_the_outcomes() {
        for name in ["dgemm", "dsyrk", "histogram"] {
            let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
            let problem = Problem::load(&problems.join(name)).expect("a problem");
            let task = |number: u32| Task {
                problem: problem.id.clone(),
                ..task(number)
            };
            let made = || {
                let searching = Searching::of(&problem, 1).expect("it has schedules");
                ScheduleSource::new([(problem.id.clone(), searching)])
            };
            let mut source = made();
            let mut log: Vec<(String, Option<f64>)> = Vec::new();
            for number in 0..5 {
                let groups = source.answer(&[&problem], &[task(number)]).await;
                for answer in groups.expect("answers").into_iter().flatten() {
                    // Any landscape will do, with some programs that fail.
                    let length = answer.source.len();
                    let gflops = (length % 5 > 0).then_some(length as f64);
                    source.outcome_seen(&problem.id, &answer.source, gflops);
                    log.push((answer.source, gflops));
                }
            }
            let mut again = made();
            for (program, gflops) in &log {
                again.outcome_seen(&problem.id, program, *gflops);
            }
            again.outcome_seen(&problem.id, "int other;", Some(1e9));
            let next = again
                .answer(&[&problem], &[task(5)])
                .await
                .expect("answers");
            let known = |answer: &Answer| log.iter().any(|(program, _)| *program == answer.source);
            assert!(!next.iter().flatten().any(known), "nothing is tried again");
            let other = source
                .answer(&[&problem], &[task(5)])
                .await
                .expect("answers");
            assert_eq!(next, other, "as if it had never ended");
        }
    }

    #[test]
    fn every_shipped_problem_by_itself_has_a_search() {
        let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let mut seen = 0;
        for entry in std::fs::read_dir(problems).expect("the problems") {
            let folder = entry.expect("an entry").path();
            if !folder.join("problem.toml").is_file() {
                continue;
            }
            let problem = Problem::load(&folder).expect("a problem");
            let searching = Searching::of(&problem, 1);
            assert!(searching.is_ok(), "{}: {:?}", problem.id, searching.err());
            seen += 1;
        }
        assert!(seen > 20, "{seen}");
    }

    #[test]
    fn a_problem_that_is_not_affine_learns_the_line_and_what_would_work() {
        let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let mut problem = Problem::load(&problems.join("sort64")).expect("a problem");
        problem.template = None;
        let why = Searching::of(&problem, 1).err().expect("it sorts");
        for part in ["(line ", "`template`", "--start mine.c"] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[tokio::test]
    async fn an_answer_is_the_same_whoever_gives_it_beside_what_else() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let problem = Problem::load(&folder).expect("a problem");
        let made = || ScheduleSource::new([(problem.id.clone(), Search::new(Space::dgemm(), 1))]);
        let step: Vec<Task> = (0..4)
            .map(|number| Task {
                group_size: 16,
                tasks_in_step: 4,
                permitted: TechniqueSet::all(),
                purpose: Purpose::Search,
                seed: 7,
                ..flopsmith_test_support::task(0, number)
            })
            .collect();
        let together = made().answer(&[&problem], &step).await.expect("answers");
        let mut programs: Vec<&str> = Vec::new();
        for (task, answers) in step.into_iter().zip(&together).rev() {
            let alone = made().answer(&[&problem], &[task]).await.expect("answers");
            assert_eq!(alone[0], *answers);
            programs.extend(answers.iter().map(|a| a.source.as_str()));
        }
        programs.sort_unstable();
        let count = programs.len();
        programs.dedup();
        assert_eq!(programs.len(), count, "no two tasks of a step try the same");
    }
}
