//! Spaces of programs as a source: schedules, a classic autotuner that a policy has to beat at the same budget, or configurations of the
//! parameters of a user's own program. Variants of such a program stand beside schedules, or alone.

mod spaces;

use std::collections::HashMap;

use async_trait::async_trait;
use flopsmith_config::Settings;
use flopsmith_generator::parameters::{self, Configurations};
use flopsmith_generator::schedule::Search;
use flopsmith_generator::template::{Search as TemplateSearch, Space as TemplateSpace};
use flopsmith_nest::search::{Search as NestSearch, search as nest_search};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Measurement, Outcome, ProblemId, Task};

use crate::answer::{Answer, Answers, Source};
use crate::error::Error;
use crate::source::numbers::Numbers;
use crate::source::variants::Variants;

pub(super) use spaces::{Child, share_of};
use spaces::{Nest, Product, ProgramSearch, Templated, Tuned};

/// Proposes schedules and learns from their measured speed.
///
/// The source saves nothing: a generator reports every outcome of the run before it asks for programs, and each program
/// leads back to its schedule. The schedules for a task depend on the task and on the reported outcomes, not on the
/// answers to other tasks: each task of a step has a share of the space.
pub struct ScheduleSource {
    searches: HashMap<ProblemId, Searching>,
    /// The program with which the run begins.
    start: Option<String>,
    /// The variants of that program, where the run makes some.
    variants: Option<Variants>,
    /// Programs of earlier searches, whose schedules the first step tries.
    warm: Vec<String>,
}

/// The search for one problem, in the space that fits the problem.
pub struct Searching(Box<dyn ProgramSearch>);

impl From<Search> for Searching {
    /// Over the schedules of a matrix product.
    fn from(search: Search) -> Self {
        Self(Box::new(Product::new(search)))
    }
}

impl From<NestSearch> for Searching {
    /// Over the schedules of a loop nest.
    fn from(search: NestSearch) -> Self {
        Self(Box::new(Nest(search)))
    }
}

impl From<TemplateSearch> for Searching {
    /// Over the parameters of a template.
    fn from(search: TemplateSearch) -> Self {
        Self(Box::new(Templated(search)))
    }
}

impl From<Numbers> for Searching {
    /// Over programs that differ from a given one in numbers.
    fn from(search: Numbers) -> Self {
        Self(Box::new(search))
    }
}

impl From<Configurations> for Searching {
    /// Over the configurations of a user's own program.
    fn from(space: Configurations) -> Self {
        Self(Box::new(Tuned::new(space)))
    }
}

impl Searching {
    /// The search for a problem of a run: over the configurations of the run's own program, if that has parameters, else over
    /// schedules; in Python, for which no space is known, over the numbers of the run's own program.
    ///
    /// # Errors
    /// Parameters that do not fit their program, and a problem for which no schedules are known, with the reason.
    pub fn of_run(problem: &Problem, settings: &Settings) -> Result<Self, String> {
        if problem.language == Language::Python {
            let start = settings.start.as_ref().filter(|s| !s.has_parameters());
            let start = start.ok_or(
                "its programs are in Python, for which no space of programs is known; name a program whose numbers are varied, without parameters: `--start mine.py`",
            )?;
            return Ok(Numbers::new(start.source.clone()).into());
        }
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
            let instead = match problem.language {
                Language::Python => String::new(),
                other => format!(
                    ": tune a program of yours with `--start mine.{}`",
                    other.ending()
                ),
            };
            return Err(format!(
                "the schedule space writes programs in C, and this problem's must be in {}{instead}",
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
        let space = flopsmith_nest::generate::Space::new(program)
            .listing(problem.techniques)
            .timed_as(problem);
        Ok(nest_search(space, largest).into())
    }

    /// A sentence on the lack of the space, if it has the plain order of the loops only.
    pub fn lack(&self) -> Option<&'static str> {
        self.0.lack()
    }

    /// The programs for a task.
    fn programs(&mut self, task: &Task, count: usize) -> Vec<String> {
        self.0.programs(task, count)
    }

    /// The programs for a task of the first step: those with the schedules of programs of earlier searches, and then others.
    fn warm_programs(&mut self, task: &Task, earlier: &[String], count: usize) -> Vec<String> {
        // The answer must not depend on the answers to other tasks.
        self.forget_undecided();
        let mut programs = self.0.begin(task, earlier, count);
        let open = count - programs.len();
        let others = match self.0.leaves_out_begun() {
            true => self.0.programs(task, open),
            false => self.0.programs(task, count),
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
    ) -> Vec<Child> {
        self.0.children(task, parents, count, seed)
    }

    /// Forgets the proposals that have no outcome, so that the programs for a task do not depend on those for another.
    pub(super) fn forget_undecided(&mut self) {
        self.0.forget_undecided();
    }

    /// Takes the speed of a program; none if it was refused.
    pub(super) fn outcome_seen(&mut self, source: &str, gflops: Option<f64>) {
        self.0.outcome_seen(source, gflops);
    }
}

impl ScheduleSource {
    /// A source of the schedules that each problem's search proposes.
    pub fn new<S: Into<Searching>>(searches: impl IntoIterator<Item = (ProblemId, S)>) -> Self {
        let searches = searches.into_iter();
        Self {
            searches: searches.map(|(id, search)| (id, search.into())).collect(),
            start: None,
            variants: None,
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

    /// Answers with variants of the user's program, by their share, and with nothing else where a problem has no space.
    #[must_use]
    pub fn varying(self, variants: Option<Variants>) -> Self {
        Self { variants, ..self }
    }

    /// The answers to a task: the program with which the run begins, variants of it, and programs of the space.
    fn group(&mut self, task: &Task) -> Result<Vec<Answer>, Error> {
        let space = self.searches.get_mut(&task.problem);
        if space.is_none() && self.variants.is_none() {
            let why = format!("no schedule space for `{}`", task.problem);
            return Err(Error::Generator(why));
        }
        let begins = task.step == 0 && task.id.group() == Some(0);
        let start = self.start.clone().filter(|_| begins);
        let count = task.group_size as usize;
        let mut group: Vec<Answer> = start
            .map(|source| Answer::of_program(source, None))
            .into_iter()
            .collect();
        if let Some(variants) = &self.variants {
            let open = count.saturating_sub(group.len());
            let made = variants.answers(task, open, space.is_none()).into_iter();
            group.extend(made.map(|made| Answer::of_program(made.source, Some(made.parent))));
        }
        let open = count.saturating_sub(group.len());
        match (space, &self.variants) {
            (Some(of), _) if open > 0 => {
                let programs = match task.step == 0 && !self.warm.is_empty() {
                    true => of.warm_programs(task, &self.warm, open),
                    false => of.programs(task, open),
                };
                let programs = programs.into_iter();
                group.extend(programs.map(|source| Answer::of_program(source, None)));
            }
            (None, Some(variants)) => group.resize_with(count, || {
                let again = variants.again(task);
                Answer::of_program(again.source, Some(again.parent))
            }),
            _ => {}
        }
        Ok(group)
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
            groups.push(self.group(task)?);
        }
        answers.take_all(groups);
        Ok(())
    }

    fn outcome_seen(&mut self, problem: &ProblemId, source: &str, gflops: Option<f64>) {
        if let Some(of) = self.searches.get_mut(problem) {
            of.outcome_seen(source, gflops);
        }
    }

    fn outcome_reported(&mut self, outcome: &Outcome) {
        if let Some(variants) = &mut self.variants {
            variants.note(outcome);
        }
        // A variant is no program of the space.
        if outcome.candidate.follows.is_some() {
            return;
        }
        let measured = outcome.verdict.measurement();
        let gflops = measured.map(Measurement::known_gflops);
        self.outcome_seen(&outcome.candidate.problem, &outcome.source, gflops);
    }
}

#[cfg(test)]
mod tests;
