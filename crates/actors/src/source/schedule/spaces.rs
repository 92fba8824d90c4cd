//! The searches of a run, one for each kind of space of programs: here is all that tells one from another.

use std::collections::{BTreeSet, HashMap};

use flopsmith_generator::parameters::{Configurations, Search as TunedSearch};
use flopsmith_generator::schedule::{Index, Schedule, Search as ProductSearch, Share};
use flopsmith_generator::template::{self, Point, Search as TemplateSearch};
use flopsmith_nest::schedule::Schedule as NestSchedule;
use flopsmith_nest::search::{Search as NestSearch, marked, unmarked};
use flopsmith_protocol::Task;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::source::numbers::Numbers;

/// A program that a search made of others.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::source) struct Child {
    /// Its text.
    pub source: String,
    /// The parents that it varies, as places among those that were given; empty for a program that varies none.
    pub parents: Vec<usize>,
}

/// Those of the parents that are of a space, as its points, with their places among all.
fn of_space<P>(parents: &[&str], mut point: impl FnMut(&str) -> Option<P>) -> (Vec<usize>, Vec<P>) {
    let found = (0..).zip(parents);
    let found = found.filter_map(|(place, source)| Some((place, point(source)?)));
    found.unzip()
}

/// A search of the programs for one problem, which learns from outcomes.
pub(super) trait ProgramSearch: Send + Sync {
    /// A sentence on the lack of its space, if that has the plain order of the loops only.
    fn lack(&self) -> Option<&'static str> {
        None
    }

    /// The programs for a task.
    fn programs(&mut self, task: &Task, count: usize) -> Vec<String>;

    /// Programs for a task with the points of programs of earlier searches: at most `count`. A point that gives no program here,
    /// or one that another task of the step tries, is left out.
    fn begin(&mut self, task: &Task, earlier: &[String], count: usize) -> Vec<String>;

    /// True if [`Self::programs`] leaves out what [`Self::begin`] gave.
    fn leaves_out_begun(&self) -> bool {
        false
    }

    /// Programs for a task that vary `parents`, of which earlier ones are varied more often, and some that vary none: at most
    /// `count`. Parents that are not of the space are left out.
    fn children(&mut self, task: &Task, parents: &[&str], count: usize, seed: u64) -> Vec<Child>;

    /// Forgets the proposals that have no outcome.
    fn forget_undecided(&mut self);

    /// Takes the speed of a program; none if it was refused. Programs that are not of the space change nothing.
    fn outcome_seen(&mut self, source: &str, gflops: Option<f64>);
}

/// The part of the programs that a task of a step tries: no two tasks of a step try the same one.
pub(in crate::source) fn share_of(task: &Task) -> Share {
    let all = Share::ALL;
    task.id.group().map_or(all, |number| Share {
        number,
        of: task.tasks_in_step,
    })
}

/// The schedules of a matrix product.
pub(super) struct Product {
    search: ProductSearch,
    proposed: HashMap<String, Schedule>,
    /// Made when a reported program was not proposed by this process, as after a restart.
    index: Option<Index>,
}

impl Product {
    pub(super) fn new(search: ProductSearch) -> Self {
        Self {
            search,
            proposed: HashMap::new(),
            index: None,
        }
    }

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

impl ProgramSearch for Product {
    fn programs(&mut self, task: &Task, count: usize) -> Vec<String> {
        self.search.reseed(task.seed);
        let proposed = self.search.propose(count, task.permitted, share_of(task));
        self.rendered(proposed)
    }

    fn begin(&mut self, task: &Task, earlier: &[String], count: usize) -> Vec<String> {
        let share = share_of(task);
        let schedules = earlier.iter().filter_map(|source| self.schedule(source));
        let schedules = schedules.filter(|schedule| {
            share.has(schedule) && schedule.techniques().is_subset(task.permitted)
        });
        let schedules: Vec<Schedule> = schedules.take(count).collect();
        self.rendered(schedules)
    }

    fn children(&mut self, task: &Task, parents: &[&str], count: usize, seed: u64) -> Vec<Child> {
        self.search.reseed(seed);
        let (places, parents) = of_space(parents, |s| self.schedule(s));
        let share = share_of(task);
        let bred = self.search.breed(&parents, count, task.permitted, share);
        let place = |parent: &Schedule| {
            let at = parents.iter().position(|other| other == parent)?;
            places.get(at).copied()
        };
        let children = bred.iter().map(|child| {
            let parents = child.parents.iter().flatten();
            (child.schedule, parents.filter_map(place).collect())
        });
        let (schedules, parents): (Vec<Schedule>, Vec<Vec<usize>>) = children.unzip();
        let sources = self.rendered(schedules).into_iter();
        let children = sources.zip(parents);
        let children = children.map(|(source, parents)| Child { source, parents });
        children.collect()
    }

    /// Its search remembers no proposals.
    fn forget_undecided(&mut self) {}

    fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        if let Some(schedule) = self.schedule(source) {
            self.search.report(&schedule, gflops);
        }
    }
}

/// The schedules of a loop nest.
pub(super) struct Nest(pub(super) NestSearch);

/// Programs with their schedules in comments, from which outcomes lead back to the schedules.
fn nests(proposed: &[flopsmith_nest::search::Proposal]) -> Vec<String> {
    proposed.iter().map(|p| marked(&p.text, &p.point)).collect()
}

impl ProgramSearch for Nest {
    fn lack(&self) -> Option<&'static str> {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        self.0.space().has_one_order(&mut rng).then_some(
            "the dependences of reference.c forbid every other order of its loops, so this search only unrolls, blocks and prefetches: write reference.c so that iterations depend on fewer others, name a `template` in problem.toml if one fits, or tune a program of yours with `--start mine.c`",
        )
    }

    fn programs(&mut self, task: &Task, count: usize) -> Vec<String> {
        let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
        let share = share_of(task);
        let mine = |_: &NestSchedule, text: &str| share.has(text.as_bytes());
        nests(&self.0.propose(count, task.permitted, &mine, &mut rng))
    }

    fn begin(&mut self, task: &Task, earlier: &[String], count: usize) -> Vec<String> {
        let share = share_of(task);
        let points = earlier.iter().filter_map(|s| Some(unmarked(s)?.1));
        let points: Vec<NestSchedule> = points.collect();
        let mine = |_: &NestSchedule, text: &str| share.has(text.as_bytes());
        nests(&self.0.begin(&points, count, task.permitted, &mine))
    }

    fn leaves_out_begun(&self) -> bool {
        true
    }

    fn children(&mut self, task: &Task, parents: &[&str], count: usize, seed: u64) -> Vec<Child> {
        let share = share_of(task);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (places, parents) = of_space(parents, |s| Some(unmarked(s)?.1));
        let mine = |_: &NestSchedule, text: &str| share.has(text.as_bytes());
        let proposed = self
            .0
            .breed(&parents, count, task.permitted, &mine, &mut rng);
        let sources = nests(&proposed).into_iter();
        let children = sources.zip(&proposed).map(|(source, of)| Child {
            source,
            parents: of.parent.map(|at| places[at]).into_iter().collect(),
        });
        children.collect()
    }

    fn forget_undecided(&mut self) {
        self.0.forget_undecided();
    }

    fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        if let Some((text, schedule)) = unmarked(source)
            && self.0.register(text, &schedule)
        {
            self.0.report(text, gflops);
        }
    }
}

/// The configurations of a user's own program.
pub(super) struct Tuned {
    search: TunedSearch,
    /// The configurations with an outcome.
    decided: BTreeSet<u32>,
}

impl Tuned {
    pub(super) fn new(space: Configurations) -> Self {
        Self {
            search: TunedSearch::new(space),
            decided: BTreeSet::new(),
        }
    }
}

impl ProgramSearch for Tuned {
    /// The configurations without an outcome are dealt to the tasks of a step in turn, so each task finds as many as it asks for
    /// until none is left. The configuration that is tried first belongs to the first task.
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

    /// A user's program has no earlier searches.
    fn begin(&mut self, _: &Task, _: &[String], _: usize) -> Vec<String> {
        Vec::new()
    }

    /// The model of the speed chooses among all configurations, so none is made of another.
    fn children(&mut self, task: &Task, _: &[&str], count: usize, _: u64) -> Vec<Child> {
        let programs = self.programs(task, count).into_iter();
        let children = programs.map(|source| Child {
            source,
            parents: Vec::new(),
        });
        children.collect()
    }

    fn forget_undecided(&mut self) {
        self.search.forget_undecided();
    }

    fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        if let Some(number) = self.search.space().number(source)
            && self.search.register(source, &number)
        {
            self.decided.insert(number);
            self.search.report(source, gflops);
        }
    }
}

/// The parameters of a template.
pub(super) struct Templated(pub(super) TemplateSearch);

impl Templated {
    /// The points of programs; those of programs that are not of the space are left out.
    fn points<'s>(&self, programs: impl Iterator<Item = &'s str>) -> Vec<Point> {
        let space = self.0.space();
        let points = programs.filter_map(|s| Some(template::unmarked(space, s)?.1));
        points.collect()
    }
}

impl ProgramSearch for Templated {
    fn programs(&mut self, task: &Task, count: usize) -> Vec<String> {
        // The answer must not depend on the answers to other tasks.
        self.0.forget_undecided();
        let mut rng = ChaCha8Rng::seed_from_u64(task.seed);
        let share = share_of(task);
        let mine = |_: &Point, text: &str| share.has(text.as_bytes());
        let proposed = self.0.propose(count, task.permitted, &mine, &mut rng);
        let mut points: Vec<Point> = proposed.into_iter().map(|p| p.point).collect();
        let space = self.0.space();
        // A step waits for all its samples. Nodes do not evaluate the same program again.
        let again = self
            .0
            .best()
            .map_or(Point::REFERENCE, |(point, _)| point.clone());
        points.resize(count, again);
        let program = |point: &Point| {
            let text = space.program(point)?;
            Some(template::marked(space, &text, point))
        };
        points.iter().filter_map(program).collect()
    }

    fn begin(&mut self, task: &Task, earlier: &[String], count: usize) -> Vec<String> {
        let share = share_of(task);
        let points = self.points(earlier.iter().map(String::as_str));
        let mine = |_: &Point, text: &str| share.has(text.as_bytes());
        let proposed = self.0.begin(&points, count, task.permitted, &mine);
        let space = self.0.space();
        let marked = proposed
            .iter()
            .map(|p| template::marked(space, &p.text, &p.point));
        marked.collect()
    }

    fn children(&mut self, task: &Task, parents: &[&str], count: usize, seed: u64) -> Vec<Child> {
        let share = share_of(task);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let space = self.0.space();
        let (places, parents) = of_space(parents, |s| Some(template::unmarked(space, s)?.1));
        let mine = |_: &Point, text: &str| share.has(text.as_bytes());
        let proposed = self
            .0
            .breed(&parents, count, task.permitted, &mine, &mut rng);
        let space = self.0.space();
        let children = proposed.iter().map(|of| Child {
            source: template::marked(space, &of.text, &of.point),
            parents: of.parent.map(|at| places[at]).into_iter().collect(),
        });
        children.collect()
    }

    fn forget_undecided(&mut self) {
        self.0.forget_undecided();
    }

    fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        let Some((text, point)) = template::unmarked(self.0.space(), source) else {
            return;
        };
        if self.0.register(text, &point) {
            self.0.report(text, gflops);
        }
    }
}

impl ProgramSearch for Numbers {
    fn programs(&mut self, task: &Task, count: usize) -> Vec<String> {
        Numbers::programs(self, task.seed, share_of(task), count)
    }

    fn begin(&mut self, task: &Task, earlier: &[String], count: usize) -> Vec<String> {
        Numbers::begin(self, earlier, share_of(task), count)
    }

    fn children(&mut self, task: &Task, parents: &[&str], count: usize, seed: u64) -> Vec<Child> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Numbers::children(self, parents, share_of(task), count, &mut rng)
    }

    /// It remembers no proposals.
    fn forget_undecided(&mut self) {}

    fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        Numbers::outcome_seen(self, source, gflops);
    }
}
