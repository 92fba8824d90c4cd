//! From a program and a schedule to C.
//!
//! The loops of a group are made from the outermost level to the innermost one. At each level the statements that depend on each other in
//! a circle stay together in one loop; all others get loops of their own (Allen and Kennedy, "Automatic translation of Fortran programs to
//! vector form", 1987). Loops over outer tiles come first, then those over tiles, then those over points. The bounds of a loop are
//! projections of the statements' domains. A statement that is alone becomes a leaf: a nest of its own that may have register tiles and
//! vectors. Every level is checked: if the loop ran an iteration before another one that it depends on, the schedule is refused.

mod groups;
mod maker;
mod text;

use std::collections::BTreeSet;

use flopsmith_problem::Problem;
use flopsmith_protocol::TechniqueSet;

use crate::affine::{Affine, Range, System, Var};
use crate::dependence::{Dependence, Renamed, dependences};
use crate::extents::Extents;
use crate::leaf::{self, Nest};
use crate::program::{Program, Statement};
use crate::schedule::{Group, Grouping, Schedule, Style};

use maker::Maker;

pub use groups::{Members, fills, members};
pub(crate) use text::{Code, Round, atom, is_used, poly};

/// Why a schedule gives no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An iteration would run before another one that it depends on.
    #[error("the order breaks a dependence between statements {from} and {to}")]
    Order {
        /// The first statement in the reference.
        from: usize,
        /// The second one.
        to: usize,
    },
    /// Statements that must share a loop have no common one.
    #[error("statements that depend on each other lack a common loop")]
    Apart,
    /// The schedule does not fit the program.
    #[error("the schedule does not fit the program: {0}")]
    Misfit(&'static str),
    /// A loop without a first or a last iteration.
    #[error("a loop has no end")]
    Endless,
    /// A bound that the elimination could not find.
    #[error("the bounds of a loop are too complicated")]
    Bounds,
}

/// A program with its dependences: what schedules are made for.
#[derive(Debug, Clone)]
pub struct Space {
    /// The program.
    pub program: Program,
    /// Its dependences.
    pub dependences: Vec<Dependence>,
    /// Pairs of updates of one element, which may change places but not run at the same time.
    commuting: Vec<Dependence>,
    /// The extents at the timed sizes, if the data exceed a second cache there.
    large: Option<Extents>,
    /// Techniques that programs are said to have beside the general ones.
    listed: TechniqueSet,
}

impl Space {
    /// Finds the dependences of a program.
    pub fn new(program: Program) -> Self {
        let dependences = dependences(&program);
        let commuting = crate::dependence::commuting(&program);
        Self {
            program,
            dependences,
            commuting,
            large: None,
            listed: TechniqueSet::EMPTY,
        }
    }

    /// The space for programs that are timed at the sizes of `problem`, whose program this is. If the data of the largest size exceed a
    /// second cache, schedules are drawn with tiles of two levels, too, and the search weighs the bytes of tiles. Otherwise nothing
    /// changes.
    #[must_use]
    pub fn timed_as(self, problem: &Problem) -> Self {
        let large = Extents::of(&self.program, problem).filter(Extents::exceed_caches);
        Self { large, ..self }
    }

    /// The extents at the timed sizes, if the data exceed a second cache there.
    pub(crate) fn large(&self) -> Option<&Extents> {
        self.large.as_ref()
    }

    /// The number of the first statement of a group that has iterators in all dimensions: iterator and dimension have the same place.
    pub(crate) fn deepest(&self, members: &Members) -> Option<usize> {
        let mut numbers = members.statements.iter().copied();
        numbers.find(|n| self.program.statements[*n].iterators == members.main)
    }

    /// The space of a problem that lists these techniques. The programs of other spaces have general techniques only.
    #[must_use]
    pub fn listing(self, techniques: TechniqueSet) -> Self {
        Self {
            listed: techniques,
            ..self
        }
    }

    /// The techniques that the problem lists.
    pub(crate) fn listed(&self) -> TechniqueSet {
        self.listed
    }

    /// The groups of statements in the order in which they run.
    pub fn groups(&self, grouping: Grouping) -> Vec<Members> {
        members(&self.program, &self.dependences, grouping)
    }

    /// The schedule of the loops as they were read.
    pub fn plain(&self) -> Schedule {
        self.plain_in(Grouping::AsRead)
    }

    /// The schedule of plain loops with statements in these groups.
    pub fn plain_in(&self, grouping: Grouping) -> Schedule {
        Schedule {
            grouping,
            groups: self
                .groups(grouping)
                .iter()
                .map(|members| groups::plain(&self.program, members))
                .collect(),
        }
    }

    /// The program in C.
    ///
    /// # Errors
    /// A schedule that breaks a dependence or does not fit.
    pub fn render(&self, schedule: &Schedule) -> Result<Rendered, Error> {
        let all = self.groups(schedule.grouping);
        if all.len() != schedule.groups.len() {
            return Err(Error::Misfit("another number of groups"));
        }
        let mut code = Code::new(&self.program);
        let mut walks = Vec::new();
        for (members, group) in all.iter().zip(&schedule.groups) {
            let mut maker = Maker::new(self, members, group)?;
            let trees = maker.level(0, &members.statements.clone(), &self.program.context)?;
            for tree in &trees {
                code.tree(&maker.program, tree, group)?;
            }
            walks.extend(code.walks().into_iter().map(|(statement, rounds)| {
                let all = iterators(&self.program, members, statement, &rounds);
                let (rounds, numbers) = all.into_iter().unzip();
                Walk {
                    statement,
                    rounds,
                    numbers,
                }
            }));
        }
        let facts = code.facts();
        Ok(Rendered {
            text: code.finish(&self.program),
            facts,
            walks,
        })
    }
}

/// A program in C.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// Its text.
    pub text: String,
    /// How its leaves were written, in their order.
    pub facts: Vec<Fact>,
    /// The loops around the statement of each leaf, in the same order.
    pub walks: Vec<Walk>,
}

/// The loops around a statement, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The number of the statement.
    pub statement: usize,
    /// Its loops, the outermost first: the iterator of the statement that each runs over, and the size of its steps for loops over tiles.
    pub rounds: Vec<(Var, Option<i64>)>,
    /// For each of these loops, a number that it has at all statements inside of it.
    pub numbers: Vec<usize>,
}

/// How a leaf was written, which may be simpler than its schedule asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fact {
    /// Number of its loops.
    pub depth: u32,
    /// How vectors are written.
    pub style: Style,
    /// Elements of a vector; 1 for none.
    pub lanes: u32,
    /// Bytes of a vector; 0 for none.
    pub bytes: u32,
    /// Rows of the register tile.
    pub rows: u32,
    /// Columns of the register tile.
    pub columns: u32,
    /// True if lanes are elements of the target, false if they are parts of one sum.
    pub across: bool,
    /// True if something is summed.
    pub sums: bool,
    /// Accesses that vectors gather element by element; of plain loops, those that move far along the innermost.
    pub far: u32,
    /// Accesses that move to the next element along the vectors or the innermost loop.
    pub next: u32,
    /// Buffers that are filled first.
    pub packed: u32,
    /// Those of them that hold elements of arguments.
    pub operands: u32,
    /// Unroll factor.
    pub unroll: u32,
    /// Prefetch distance.
    pub prefetch: u32,
}

/// A loop, a condition, or a leaf.
#[derive(Debug, Clone)]
pub enum Tree {
    /// A loop over `var`; the range is the union of those given.
    Loop {
        /// The variable.
        var: Var,
        /// A range for each statement.
        ranges: Vec<Range>,
        /// The dimension of the group that it walks along.
        dimension: usize,
        /// The size of its steps, if it is a loop over tiles.
        tile: Option<i64>,
        /// True if threads share the loop.
        parallel: bool,
        /// The statements and loops inside.
        body: Vec<Tree>,
    },
    /// Runs `then` if one of the conjunctions holds, otherwise `otherwise`.
    If {
        /// Conjunctions of expressions that are at least 0.
        any: Vec<Vec<Affine>>,
        /// Runs if one of them holds.
        then: Vec<Tree>,
        /// Runs if none holds.
        otherwise: Vec<Tree>,
    },
    /// A statement with its innermost loops.
    Leaf(Nest),
}

/// The iterators of a statement that loops run over, with the sizes of tiles and the numbers of the loops. Loops over dimensions that the
/// statement lacks are left out.
fn iterators(
    program: &Program,
    members: &Members,
    number: usize,
    rounds: &[Round],
) -> Vec<((Var, Option<i64>), usize)> {
    let rank = members.statements.iter().position(|n| *n == number);
    let Some(dimensions) = rank.map(|rank| members.dimensions_of(rank)) else {
        return Vec::new();
    };
    let iterators = &program.statements[number].iterators;
    let all = rounds.iter().filter_map(|round| {
        let at = dimensions.iter().position(|d| *d == round.dimension)?;
        Some(((iterators[at], round.tile), round.number))
    });
    all.collect()
}

#[cfg(test)]
mod tests;
