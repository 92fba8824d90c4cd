//! Spaces of programs as a source: schedules, a classic autotuner that a policy has to beat at the same budget, or configurations of the
//! parameters of a user's own program.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use flopsmith_config::Settings;
use flopsmith_generator::parameters::{self, Configurations, Search as TunedSearch};
use flopsmith_generator::schedule::{Index, Schedule, Search, Share};
use flopsmith_generator::template::{
    self, Point, Search as TemplateSearch, Space as TemplateSpace,
};
use flopsmith_nest::schedule::Schedule as NestSchedule;
use flopsmith_nest::search::{Search as NestSearch, marked, search as nest_search, unmarked};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{ProblemId, Task};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::answer::{Answer, Answers, Source};
use crate::error::Error;

/// Proposes schedules and learns from their measured speed.
///
/// The source saves nothing: a generator reports every outcome of the run before it asks for programs, and each program
/// leads back to its schedule. The schedules for a task depend on the task and on the reported outcomes, not on the
/// answers to other tasks: each task of a step has a share of the space.
pub struct ScheduleSource {
    searches: HashMap<ProblemId, Searching>,
    /// The program with which the run begins.
    start: Option<String>,
    /// Programs of earlier searches, whose schedules the first step tries.
    warm: Vec<String>,
}

/// The search for one problem.
#[derive(Clone)]
pub enum Searching {
    /// Over the schedules of a matrix product.
    Product(Box<Product>),
    /// Over the schedules of a loop nest.
    Nest(Box<NestSearch>),
    /// Over the configurations of a user's own program.
    Tuned(Box<Tuned>),
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

/// A search over the configurations of a user's own program.
#[derive(Clone)]
pub struct Tuned {
    search: TunedSearch,
    /// The configurations with an outcome.
    decided: BTreeSet<u32>,
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

impl From<Configurations> for Searching {
    fn from(space: Configurations) -> Self {
        Self::Tuned(Box::new(Tuned {
            search: TunedSearch::new(space),
            decided: BTreeSet::new(),
        }))
    }
}

impl Product {
    /// The schedule of a program, if it has one.
    fn schedule(&mut self, source: &str) -> Option<Schedule> {
        match self.proposed.get(source) {
            Some(schedule) => Some(*schedule),
            None => {
                let space = self.search.space();
                let index = self.index.get_or_insert_with(|| Index::new(space));
                index.schedule(source)
            }
        }
    }

    /// The programs of proposed schedules.
    fn rendered(&mut self, proposed: Vec<Schedule>) -> Vec<String> {
        let rendered = proposed.into_iter().map(|schedule| {
            let source = schedule.render();
            self.proposed.insert(source.clone(), schedule);
            source
        });
        rendered.collect()
    }
}

impl Tuned {
    /// The programs for a task. The configurations without an outcome are dealt to the tasks of a step in turn, so each task finds as
    /// many as it asks for until none is left. The configuration that is tried first belongs to the first task.
    fn programs(&mut self, task: &Task, count: usize) -> Vec<String> {
        // The answer must not depend on the answers to other tasks.
        self.search.forget_undecided();
        let space = self.search.space();
        let open: Vec<u32> = (0..space.count())
            .filter(|number| !self.decided.contains(number))
            .collect();
        let share = share_of(task);
        let (of, number) = (share.of.max(1) as usize, share.number as usize);
        let first = open.binary_search(&space.start()).unwrap_or(0);
        let mine = |wanted: &u32, _: &str| {
            let place = open.binary_search(wanted);
            place.is_ok_and(|place| (place + of - first % of) % of == number % of)
        };
        let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
        let proposed = self.search.propose(count, task.permitted, &mine, &mut rng);
        let mut programs: Vec<String> = proposed.into_iter().map(|p| p.text).collect();
        // A step waits for all its samples. Nodes do not evaluate the same program again.
        let space = self.search.space();
        programs.resize_with(count, || space.text(space.start()));
        programs
    }
}

impl Searching {
    /// The search for a problem of a run: over the configurations of the run's own program, if that has parameters, else over
    /// schedules.
    ///
    /// # Errors
    /// Parameters that do not fit their program, and a problem for which no schedules are known, with the reason.
    pub fn of_run(problem: &Problem, settings: &Settings) -> Result<Self, String> {
        let Some(start) = settings.start.as_ref().filter(|s| s.has_parameters()) else {
            return Self::of(problem, settings.seed);
        };
        let space = parameters::read(&start.parameters).and_then(|file| {
            let program = parameters::Program::new(&start.source, &file, problem)?;
            Configurations::new(program, &file)
        });
        Ok(space.map_err(|error| error.to_string())?.into())
    }

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
        let space = flopsmith_nest::generate::Space::new(program).listing(problem.techniques);
        Ok(nest_search(space, largest).into())
    }

    /// A sentence on the lack of the space, if it has the plain order of the loops only.
    pub fn lack(&self) -> Option<&'static str> {
        let Self::Nest(search) = self else {
            return None;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        search.space().has_one_order(&mut rng).then_some(
            "the dependences of reference.c forbid every other order of its loops, so this search only unrolls, blocks and prefetches: write reference.c so that iterations depend on fewer others, name a `template` in problem.toml if one fits, or tune a program of yours with `--start mine.c`",
        )
    }

    /// The programs for a task.
    fn programs(&mut self, task: &Task, count: usize) -> Vec<String> {
        match self {
            Self::Product(of) => {
                of.search.reseed(task.seed);
                let proposed = of.search.propose(count, task.permitted, share_of(task));
                of.rendered(proposed)
            }
            Self::Nest(search) => {
                let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
                let share = share_of(task);
                let mine = |_: &NestSchedule, text: &str| share.has(text.as_bytes());
                let proposed = search.propose(count, task.permitted, &mine, &mut rng);
                proposed.iter().map(|p| marked(&p.text, &p.point)).collect()
            }
            Self::Tuned(of) => of.programs(task, count),
            Self::Template(search) => {
                // The answer must not depend on the answers to other tasks.
                search.forget_undecided();
                let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
                let share = share_of(task);
                let mine = |_: &Point, text: &str| share.has(text.as_bytes());
                let proposed = search.propose(count, task.permitted, &mine, &mut rng);
                let mut points: Vec<Point> = proposed.into_iter().map(|p| p.point).collect();
                let space = search.space();
                // A step waits for all its samples. Nodes do not evaluate the same program again.
                let again = search
                    .best()
                    .map_or(Point::REFERENCE, |(point, _)| point.clone());
                points.resize(count, again);
                let program = |point: &Point| {
                    let text = space.program(point)?;
                    Some(template::marked(space, &text, point))
                };
                points.iter().filter_map(program).collect()
            }
        }
    }

    /// Programs for a task with the schedules of programs of earlier searches: at most `count`. A schedule that gives no
    /// program here, or one that another task of the step tries, is left out.
    fn begin(&mut self, task: &Task, earlier: &[String], count: usize) -> Vec<String> {
        // The answer must not depend on the answers to other tasks.
        self.forget_undecided();
        let share = share_of(task);
        match self {
            Self::Product(of) => {
                let schedules = earlier.iter().filter_map(|source| of.schedule(source));
                let schedules = schedules.filter(|schedule| {
                    share.has(schedule) && schedule.techniques().is_subset(task.permitted)
                });
                let schedules = schedules.take(count).collect();
                of.rendered(schedules)
            }
            Self::Nest(search) => {
                let points = earlier.iter().filter_map(|s| Some(unmarked(s)?.1));
                let points: Vec<NestSchedule> = points.collect();
                let mine = |_: &NestSchedule, text: &str| share.has(text.as_bytes());
                let proposed = search.begin(&points, count, task.permitted, &mine);
                proposed.iter().map(|p| marked(&p.text, &p.point)).collect()
            }
            Self::Template(search) => {
                let space = search.space();
                let points = earlier.iter();
                let points = points.filter_map(|s| Some(template::unmarked(space, s)?.1));
                let points: Vec<Point> = points.collect();
                let mine = |_: &Point, text: &str| share.has(text.as_bytes());
                let proposed = search.begin(&points, count, task.permitted, &mine);
                let space = search.space();
                let marked = proposed
                    .iter()
                    .map(|p| template::marked(space, &p.text, &p.point));
                marked.collect()
            }
            Self::Tuned(_) => Vec::new(),
        }
    }

    /// The programs for a task of the first step: those of [`Self::begin`], and then others.
    fn warm_programs(&mut self, task: &Task, earlier: &[String], count: usize) -> Vec<String> {
        let mut programs = self.begin(task, earlier, count);
        let open = count - programs.len();
        let others = match self {
            // It knows the programs that it began with.
            Self::Nest(_) => self.programs(task, open),
            _ => self.programs(task, count),
        };
        let (again, new): (Vec<String>, Vec<String>) = others
            .into_iter()
            .partition(|other| programs.contains(other));
        programs.extend(new.into_iter().chain(again).take(open));
        programs
    }

    /// Programs for a task that vary `parents`, of which earlier ones are varied more often, and some that vary none: at most `count`,
    /// fewer where the task's share of the space has no others. Parents that are not of the space are left out. Proposals
    /// without an outcome are not made again before [`Self::forget_undecided`].
    pub(super) fn children(
        &mut self,
        task: &Task,
        parents: &[&str],
        count: usize,
        seed: u64,
    ) -> Vec<String> {
        let share = share_of(task);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        match self {
            Self::Product(of) => {
                of.search.reseed(seed);
                let parents: Vec<Schedule> =
                    parents.iter().filter_map(|s| of.schedule(s)).collect();
                let proposed = of.search.breed(&parents, count, task.permitted, share);
                of.rendered(proposed)
            }
            Self::Nest(search) => {
                let parents = parents.iter().filter_map(|s| Some(unmarked(s)?.1));
                let parents: Vec<NestSchedule> = parents.collect();
                let mine = |_: &NestSchedule, text: &str| share.has(text.as_bytes());
                let proposed = search.breed(&parents, count, task.permitted, &mine, &mut rng);
                proposed.iter().map(|p| marked(&p.text, &p.point)).collect()
            }
            Self::Template(search) => {
                let space = search.space();
                let points = parents.iter();
                let points = points.filter_map(|s| Some(template::unmarked(space, s)?.1));
                let parents: Vec<Point> = points.collect();
                let mine = |_: &Point, text: &str| share.has(text.as_bytes());
                let proposed = search.breed(&parents, count, task.permitted, &mine, &mut rng);
                let space = search.space();
                let marked = proposed
                    .iter()
                    .map(|p| template::marked(space, &p.text, &p.point));
                marked.collect()
            }
            Self::Tuned(of) => of.programs(task, count),
        }
    }

    /// Forgets the proposals that have no outcome, so that the programs for a task do not depend on those for another.
    pub(super) fn forget_undecided(&mut self) {
        match self {
            // It remembers no proposals.
            Self::Product(_) => {}
            Self::Nest(search) => search.forget_undecided(),
            Self::Template(search) => search.forget_undecided(),
            Self::Tuned(of) => of.search.forget_undecided(),
        }
    }

    /// Takes the speed of a program; none if it was refused.
    pub(super) fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        match self {
            Self::Product(of) => {
                if let Some(schedule) = of.schedule(source) {
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
            Self::Tuned(of) => {
                if let Some(number) = of.search.space().number(source)
                    && of.search.recall(source, &number)
                {
                    of.decided.insert(number);
                    of.search.report(source, gflops);
                }
            }
            Self::Template(search) => {
                let Some((text, point)) = template::unmarked(search.space(), source) else {
                    return;
                };
                if search.recall(text, &point) {
                    let text = text.to_owned();
                    search.report(&text, gflops);
                }
            }
        }
    }
}

impl ScheduleSource {
    /// A source of the schedules that each problem's search proposes.
    pub fn new<S: Into<Searching>>(searches: impl IntoIterator<Item = (ProblemId, S)>) -> Self {
        let searches = searches.into_iter();
        Self {
            searches: searches.map(|(id, search)| (id, search.into())).collect(),
            start: None,
            warm: Vec::new(),
        }
    }

    /// Tries the schedules of these programs, which earlier searches for like loops found, in the first step.
    #[must_use]
    pub fn warmed_by(self, warm: Vec<String>) -> Self {
        Self { warm, ..self }
    }

    /// Answers the first task of the run with this program first, if there is one.
    #[must_use]
    pub fn beginning_with(self, start: Option<String>) -> Self {
        Self { start, ..self }
    }
}

#[async_trait]
impl Source for ScheduleSource {
    async fn answer_each(
        &mut self,
        _: &[&Problem],
        tasks: &[Task],
        answers: &Answers,
    ) -> Result<(), Error> {
        let mut groups = Vec::with_capacity(tasks.len());
        for task in tasks {
            let of = self.searches.get_mut(&task.problem).ok_or_else(|| {
                Error::Generator(format!("no schedule space for `{}`", task.problem))
            })?;
            let begins = task.step == 0 && task.id.group() == Some(0);
            let start = self.start.clone().filter(|_| begins);
            let mut group = Vec::from_iter(start);
            let count = task.group_size as usize - group.len();
            group.extend(match task.step == 0 && !self.warm.is_empty() {
                true => of.warm_programs(task, &self.warm, count),
                false => of.programs(task, count),
            });
            let group = group.into_iter().map(|source| Answer {
                source,
                raw: None,
                sampled: None,
            });
            groups.push(group.collect());
        }
        answers.take_all(groups);
        Ok(())
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

    #[test]
    fn at_least_45_shipped_problems_are_searched_and_the_others_say_what_they_lack() {
        let folders = flopsmith_test_support::shipped::problems();
        let refused = folders.iter().filter_map(|folder| {
            let problem = Problem::load(folder).expect("a problem");
            let why = Searching::of(&problem, 1).err()?;
            Some((problem.id, why))
        });
        let refused: Vec<(ProblemId, String)> = refused.collect();
        let searched = folders.len() - refused.len();
        assert!(
            searched >= 45,
            "{searched} of {}: {refused:#?}",
            folders.len()
        );
        for (id, why) in &refused {
            for part in ["no affine loop nest (", "`template`", "--start mine.c"] {
                assert!(why.contains(part), "{id}: {why}");
            }
        }
    }

    #[test]
    fn a_problem_whose_dependences_forbid_other_orders_learns_what_would_work() {
        let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let mut problem = Problem::load(&problems.join("prefix_sum")).expect("a problem");
        problem.template = None;
        problem.reference_source = "void prefix_sum(int n, const int *in, int *out) {
            for (int i = 1; i < n; i++) out[i] = 3 * out[i - 1] + in[i];
        }"
        .into();
        let lack = |problem: &Problem| Searching::of(problem, 1).expect("it is affine").lack();
        let words = lack(&problem).expect("it is a recurrence");
        for part in ["forbid every other order", "`template`", "--start mine.c"] {
            assert!(words.contains(part), "{words}");
        }
        let other = Problem::load(&problems.join("dsyrk")).expect("a problem");
        assert_eq!(lack(&other), None);
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

    /// The first step of a search that knows programs of an earlier one tries their schedules, each once.
    #[tokio::test]
    async fn a_warm_search_begins_with_the_schedules_of_earlier_ones() {
        let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let load = |name: &str| Problem::load(&problems.join(name)).expect("a problem");
        for name in ["dgemm", "dsyrk", "histogram"] {
            let problem = load(name);
            let step = |size: u32| -> Vec<Task> {
                let tasks = (0..2).map(|number| Task {
                    problem: problem.id.clone(),
                    group_size: size,
                    tasks_in_step: 2,
                    permitted: TechniqueSet::all(),
                    purpose: Purpose::Search,
                    seed: 11,
                    ..flopsmith_test_support::task(0, number)
                });
                tasks.collect()
            };
            let made = || {
                let searching = Searching::of(&problem, 1).expect("it has schedules");
                ScheduleSource::new([(problem.id.clone(), searching)])
            };
            let found = made().answer(&[&problem], &step(8)).await;
            let found: Vec<String> = found
                .expect("answers")
                .into_iter()
                .flatten()
                .map(|answer| answer.source)
                .collect();
            let known: Vec<String> = found[1..4]
                .iter()
                .cloned()
                .chain(["int other;".to_owned()])
                .collect();
            let mut source = made().warmed_by(known.clone());
            let answers = source.answer(&[&problem], &step(6)).await;
            let answers: Vec<String> = answers
                .expect("answers")
                .into_iter()
                .flatten()
                .map(|answer| answer.source)
                .collect();
            assert_eq!(answers.len(), 12, "{name}");
            for program in &known[..3] {
                let times = answers.iter().filter(|a| *a == program).count();
                assert_eq!(times, 1, "{name}: {program}");
            }
            assert_eq!(answers[..3], known[..3], "{name}: they come first");
        }
    }

    /// The settings of a search that begins with a program with three parameters, of 11 configurations.
    fn tuned() -> Settings {
        let parameters = r#"{"ConfigurationSpace": {"TuningParameters": [
            {"Name": "A", "Type": "int", "Values": "[1, 2, 3]", "Default": 2},
            {"Name": "B", "Type": "int", "Values": "[0, 1]", "Default": 1},
            {"Name": "C", "Type": "int", "Values": "[0, 1]", "Default": 0}],
            "Conditions": [{"Expression": "A + B + C < 5", "Parameters": ["A", "B", "C"]}]}}"#;
        Settings {
            tasks: 2,
            group_size: 3,
            start: Some(flopsmith_config::Start {
                source: "void dgemm(int n) { n = A + B + C; }\n".into(),
                parameters: parameters.into(),
                configurations: 11,
                max_source_bytes: None,
            }),
            ..Settings::default()
        }
    }

    /// The tasks of a step of this search.
    fn step_of(settings: &Settings, step: u64) -> Vec<Task> {
        let (tasks, group_size) = settings.search_step(step);
        let tasks = (0..tasks).map(|number| Task {
            group_size,
            tasks_in_step: tasks,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Search,
            seed: 31 * step + u64::from(number),
            ..flopsmith_test_support::task(step, number)
        });
        tasks.collect()
    }

    #[tokio::test]
    async fn a_search_over_parameters_tries_each_configuration_once_and_the_defaults_first() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let problem = Problem::load(&folder).expect("a problem");
        let settings = tuned();
        let made = || {
            let searching = Searching::of_run(&problem, &settings).expect("they fit");
            ScheduleSource::new([(problem.id.clone(), searching)])
        };
        let mut source = made();
        let mut seen: Vec<String> = Vec::new();
        for step in 0..2 {
            let mut outcomes = Vec::new();
            for task in step_of(&settings, step) {
                let count = task.group_size as usize;
                let mut answers = source
                    .answer(&[&problem], std::slice::from_ref(&task))
                    .await
                    .expect("answers");
                // The same task again, and the same task of another process.
                let again = source
                    .answer(&[&problem], std::slice::from_ref(&task))
                    .await;
                assert_eq!(again.expect("answers"), answers);
                let mut other = made();
                for program in &seen {
                    other.outcome_seen(&problem.id, program, Some(program.len() as f64));
                }
                let elsewhere = other.answer(&[&problem], &[task]).await;
                assert_eq!(elsewhere.expect("answers"), answers);
                let group = answers.remove(0);
                assert_eq!(group.len(), count);
                outcomes.extend(group.into_iter().map(|answer| answer.source));
            }
            for program in &outcomes {
                source.outcome_seen(&problem.id, program, Some(program.len() as f64));
            }
            seen.extend(outcomes);
        }
        let defaults = "#define A 2\n#define B 1\n#define C 0\n";
        assert!(seen[0].starts_with(defaults), "{}", seen[0]);
        assert_eq!(seen.len(), 11);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 11, "no configuration is tried twice");
    }

    #[tokio::test]
    async fn a_search_begins_with_the_users_own_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dsyrk");
        let problem = Problem::load(&folder).expect("a problem");
        let searching = Searching::of(&problem, 1).expect("it has schedules");
        let mut source = ScheduleSource::new([(problem.id.clone(), searching)])
            .beginning_with(Some("my program".into()));
        let mut of = async |step: u64, number: u32| {
            let task = Task {
                problem: problem.id.clone(),
                tasks_in_step: 2,
                group_size: 4,
                permitted: TechniqueSet::all(),
                purpose: Purpose::Search,
                ..flopsmith_test_support::task(step, number)
            };
            let groups = source.answer(&[&problem], &[task]).await.expect("answers");
            let group = groups.into_iter().flatten().map(|answer| answer.source);
            group.collect::<Vec<_>>()
        };
        let first = of(0, 0).await;
        assert_eq!(first[0], "my program");
        assert_eq!(first.len(), 4);
        for (step, number) in [(0, 1), (1, 0)] {
            let later = of(step, number).await;
            assert!(!later.iter().any(|program| program == "my program"));
        }
    }
}
