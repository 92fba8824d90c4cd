//! The techniques of a written program, by the definitions of `docs/reference/techniques.md`.
//!
//! They follow from the loops as they were written, and not from the schedule: a leaf may be simpler than its schedule asks for, and a loop
//! that carries a dependence is not parallel. The detection of techniques finds the same in the text.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::{Technique, TechniqueSet};

use crate::affine::Var;
use crate::generate::{Rendered, Space, Walk};
use crate::program::{Access, Expr, Origin, Program, Statement};
use crate::schedule::Style;

/// A loop over at most so many elements belongs to a tile of registers and visits no block.
const SHORT: i64 = 16;

/// The techniques of a program.
pub fn techniques(space: &Space, rendered: &Rendered) -> TechniqueSet {
    let program = &space.program;
    let mut set = TechniqueSet::EMPTY;
    let mut note = |used: bool, technique| {
        if used {
            set = set.with(technique);
        }
    };
    let has = |words: &str| rendered.text.contains(words);
    note(has("omp parallel"), Technique::Openmp);
    note(has("omp simd") || has("vector_size"), Technique::Simd);
    note(has("__builtin_prefetch"), Technique::Prefetch);
    note(has("GCC unroll"), Technique::Unroll);
    for fact in &rendered.facts {
        let several = fact.style == Style::Tile && fact.rows * fact.columns > 1;
        // Without a sum, nothing stays in the registers: the tile repeats a statement.
        note(several && fact.sums, Technique::RegisterBlocking);
        note(several && !fact.sums, Technique::Unroll);
        note(fact.operands > 0, Technique::Packing);
    }
    let walks = || rendered.walks.iter();
    note(
        walks().any(|walk| has_blocks(program, walk)),
        Technique::CacheBlocking,
    );
    let order = Order::of(program);
    note(
        walks().any(|walk| order.is_turned(program, walk)),
        Technique::LoopReorder,
    );
    if space.listed().contains(Technique::Fission) {
        note(splits(program, &order.ends, rendered), Technique::Fission);
    }
    if space.listed().contains(Technique::Fusion) {
        note(fuses(program, &order.ends, rendered), Technique::Fusion);
    }
    // Conditions of the reference were read as expressions and parts of ranges. A problem lists this technique if its
    // reference has conditions.
    if space.listed().contains(Technique::BranchRemoval) {
        note(!has("if ("), Technique::BranchRemoval);
    }
    set
}

fn accesses(statement: &Statement) -> impl Iterator<Item = &Access> {
    let reads = statement.value.reads().into_iter();
    reads.chain(std::iter::once(&statement.target))
}

/// The dimensions of an access that move with a variable.
fn moved(access: &Access, var: Var) -> impl Iterator<Item = usize> {
    let subscripts = access.subscripts.iter().enumerate();
    subscripts.filter_map(move |(dim, s)| (s.of(var) != 0).then_some(dim))
}

/// True if a loop visits blocks of more than a few elements of an array. A copy into the program's own memory says nothing about the
/// order of the work.
fn has_blocks(program: &Program, walk: &Walk) -> bool {
    let statement = &program.statements[walk.statement];
    if keeps(program, statement) {
        return false;
    }
    walk.rounds.iter().any(|(var, tile)| {
        let moves = |access: &Access| moved(access, *var).next().is_some();
        tile.is_some_and(|size| size > SHORT) && accesses(statement).any(moves)
    })
}

/// True if two statements that share a loop in the reference have loops of their own over its iterations. They compute different results, or
/// results from different arguments: the steps of one result are not told apart in the text.
fn splits(program: &Program, ends: &Ends, rendered: &Rendered) -> bool {
    let apart = |first: usize, second: usize, var: Var| {
        let repeats = |at: usize| {
            let role = Role::of(program, ends, at, var);
            role.is_none_or(|role| role == Role::Repeat)
        };
        let (a, b) = (loops(rendered, first, var), loops(rendered, second, var));
        !repeats(first) && !repeats(second) && !a.is_empty() && !b.is_empty() && a.is_disjoint(&b)
    };
    pairs(program, ends).into_iter().any(|(first, second)| {
        let (one, other) = (&program.statements[first], &program.statements[second]);
        let shared = &one.iterators[..one.common(other)];
        !finishes(one, other)
            && !finishes(other, one)
            && shared.iter().any(|var| apart(first, second, *var))
    })
}

/// True if two statements share a loop whose iterations the reference runs in a loop of its own for each of them. They compute different
/// results, or results from different arguments.
fn fuses(program: &Program, ends: &Ends, rendered: &Rendered) -> bool {
    let own = |at: usize, from: usize| -> BTreeSet<usize> {
        let vars = program.statements[at].iterators[from..].iter();
        let over_data = vars.filter(|var| {
            let role = Role::of(program, ends, at, **var);
            role.is_some_and(|role| role != Role::Repeat)
        });
        over_data
            .flat_map(|var| loops(rendered, at, *var))
            .collect()
    };
    pairs(program, ends).into_iter().any(|(first, second)| {
        let from = program.statements[first].common(&program.statements[second]);
        !own(first, from).is_disjoint(&own(second, from))
    })
}

/// Two statements each that compute different results, or results from different arguments.
fn pairs(program: &Program, ends: &Ends) -> Vec<(usize, usize)> {
    let all = 0..program.statements.len();
    let computing: Vec<usize> = all.filter(|at| computes(program, *at)).collect();
    let name = |at: usize| (&ends.outputs[at], sources(program, at));
    let pairs = computing.iter().enumerate().flat_map(|(number, first)| {
        let others = &computing[number + 1..];
        others.iter().map(move |second| (*first, *second))
    });
    pairs
        .filter(|(first, second)| name(*first) != name(*second))
        .collect()
}

/// The numbers of the loops over data along an iterator around the leaves of a statement.
fn loops(rendered: &Rendered, statement: usize, var: Var) -> BTreeSet<usize> {
    let walks = rendered.walks.iter().filter(|w| w.statement == statement);
    let all = walks.flat_map(|walk| {
        let rounds = walk.rounds.iter().zip(&walk.numbers);
        rounds.filter(move |((other, tile), _)| *other == var && is_over_data(walk, var, *tile))
    });
    all.map(|(_, number)| *number).collect()
}

/// True if the blocks along an iterator are so short that the loops within them are none over data.
fn is_short(walk: &Walk, var: Var) -> bool {
    let mut rounds = walk.rounds.iter();
    rounds.any(|(other, tile)| *other == var && tile.is_some_and(|size| size <= SHORT))
}

/// True if a loop around a statement is over data: one within long blocks, or one over short blocks. Loops over outer tiles are none.
fn is_over_data(walk: &Walk, var: Var, tile: Option<i64>) -> bool {
    match tile {
        Some(size) => size <= SHORT,
        None => !is_short(walk, var),
    }
}

/// True if a statement computes from elements of other arrays, and not only from finished sums.
fn computes(program: &Program, at: usize) -> bool {
    let statement = &program.statements[at];
    let sums = |array: usize| {
        let mut all = program.statements.iter();
        all.any(|s| s.target.array == array && s.update.is_some())
    };
    let operand = |access: &&Access| {
        let scratch = program.arrays[access.array].origin == Origin::Scratch;
        access.array != statement.target.array && !(scratch && sums(access.array))
    };
    let copies = statement.update.is_none() && matches!(statement.value, Expr::Read(_));
    !copies && statement.value.reads().iter().any(operand)
}

/// True if a statement takes the sum of another one.
fn finishes(sum: &Statement, other: &Statement) -> bool {
    let takes = |access: &&Access| access.array == sum.target.array;
    sum.update.is_some()
        && (other.target.array == sum.target.array || other.value.reads().iter().any(takes))
}

/// The arguments that the value of a statement comes from.
fn sources(program: &Program, at: usize) -> BTreeSet<usize> {
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    let mut left = vec![at];
    while let Some(next) = left.pop() {
        for access in program.statements[next].value.reads() {
            let array = access.array;
            if program.arrays[array].origin != Origin::Scratch {
                found.insert(array);
            } else if seen.insert(array) {
                let all = program.statements.iter().enumerate();
                let writers = all.filter(|(_, s)| s.target.array == array);
                left.extend(writers.map(|(writer, _)| writer));
            }
        }
    }
    found
}

/// The loops over data around a statement: loops within blocks, and loops over blocks so short that their own loops are none.
fn over_data(walk: &Walk) -> Vec<Var> {
    let counts = |(var, tile): &&(Var, Option<i64>)| is_over_data(walk, *var, *tile);
    walk.rounds
        .iter()
        .filter(counts)
        .map(|(var, _)| *var)
        .collect()
}

/// The dimensions that a loop runs over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// These dimensions of the target, one bit for each.
    Out(u32),
    /// The terms of a result: these dimensions of arguments.
    Sum(BTreeSet<(usize, usize)>),
    /// Nothing: it repeats.
    Repeat,
}

impl Role {
    /// The role of a loop at a statement; none if its value reaches no output.
    fn of(program: &Program, ends: &Ends, at: usize, var: Var) -> Option<Self> {
        let statement = &program.statements[at];
        let mask = ends.dimensions(at, var)?;
        if mask != 0 {
            // Of several dimensions, those that no other loop moves along.
            let others = statement.iterators.iter().filter(|other| **other != var);
            let others = others.filter_map(|other| ends.dimensions(at, *other));
            let own = mask & !others.fold(0, |all, dims| all | dims);
            return Some(Self::Out(if own == 0 { mask } else { own }));
        }
        let mut terms = BTreeSet::new();
        let mut moves = false;
        for access in statement.value.reads() {
            for dim in moved(access, var) {
                moves = true;
                if program.arrays[access.array].origin != Origin::Scratch {
                    terms.insert((access.array, dim));
                }
            }
        }
        // A loop that gives another one its bounds runs over a part of something.
        let constraints = statement.domain.inequalities();
        let mut others = statement.iterators.iter().filter(|other| **other != var);
        let bounds = |other: &Var| {
            let mut all = constraints.iter();
            all.any(|c| c.of(var) != 0 && c.of(*other) != 0)
        };
        moves |= others.any(bounds);
        Some(if moves {
            Self::Sum(terms)
        } else {
            Self::Repeat
        })
    }
}

/// The elements of outputs in which the values of statements end, on their way through memory of the program.
struct Ends {
    /// For each statement and each of its loops, the dimensions along which the loop moves that element, one bit for each; none if the
    /// value reaches no output.
    dimensions: BTreeMap<(usize, Var), Option<u32>>,
    /// For each statement, the outputs that its value reaches.
    outputs: Vec<BTreeSet<usize>>,
}

impl Ends {
    fn of(program: &Program) -> Self {
        let count = program.statements.len();
        let mut ends = Self {
            dimensions: BTreeMap::new(),
            outputs: (0..count).map(|at| outputs(program, at)).collect(),
        };
        for (at, statement) in program.statements.iter().enumerate() {
            for var in &statement.iterators {
                ends.find(program, at, *var);
            }
        }
        ends
    }

    fn dimensions(&self, at: usize, var: Var) -> Option<u32> {
        self.dimensions.get(&(at, var)).copied().flatten()
    }

    fn find(&mut self, program: &Program, at: usize, var: Var) -> Option<u32> {
        if let Some(known) = self.dimensions.get(&(at, var)) {
            return *known;
        }
        let target = &program.statements[at].target;
        let moved: Vec<usize> = moved(target, var).collect();
        // A value that comes back to this statement on its way brings nothing new.
        self.dimensions.insert((at, var), None);
        let found = if program.arrays[target.array].origin == Origin::Scratch {
            let mut found = None;
            for reader in readers(program, target.array) {
                let dims = self.behind(program, reader, target.array, var, &moved);
                if let Some(dims) = dims {
                    found = Some(found.unwrap_or(0) | dims);
                }
            }
            found
        } else {
            Some(moved.iter().fold(0, |mask, dim| mask | 1 << dim.min(&31)))
        };
        self.dimensions.insert((at, var), found);
        found
    }

    /// The dimensions for a loop that moves a scratch array along the dimensions `moved`, as a reader of that array has them.
    fn behind(
        &mut self,
        program: &Program,
        reader: usize,
        array: usize,
        var: Var,
        moved: &[usize],
    ) -> Option<u32> {
        let statement = &program.statements[reader];
        if moved.is_empty() {
            // A loop that has ended before the value is read ran over the terms of one result.
            return match statement.iterators.contains(&var) {
                true => self.find(program, reader, var),
                false => (!self.outputs[reader].is_empty()).then_some(0),
            };
        }
        let chooses = |other: &Var| {
            let reads = statement.value.reads().into_iter();
            let mut own = reads.filter(|access| access.array == array);
            own.any(|access| {
                moved
                    .iter()
                    .any(|dim| access.subscripts[*dim].of(*other) != 0)
            })
        };
        let chosen: Vec<Var> = statement
            .iterators
            .iter()
            .copied()
            .filter(chooses)
            .collect();
        let all = chosen
            .into_iter()
            .filter_map(|other| self.find(program, reader, other));
        all.reduce(|all, dims| all | dims)
    }
}

/// The statements that read an array and write another one.
fn readers(program: &Program, array: usize) -> Vec<usize> {
    let reads = |s: &Statement| {
        let mut all = s.value.reads().into_iter();
        s.target.array != array && all.any(|access| access.array == array)
    };
    let statements = program.statements.iter().enumerate();
    statements
        .filter(|(_, s)| reads(s))
        .map(|(at, _)| at)
        .collect()
}

/// The outputs that the value of a statement reaches.
fn outputs(program: &Program, at: usize) -> BTreeSet<usize> {
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    let mut left = vec![at];
    while let Some(next) = left.pop() {
        let array = program.statements[next].target.array;
        if !seen.insert(array) {
            continue;
        }
        match program.arrays[array].origin {
            Origin::Scratch => left.extend(readers(program, array)),
            Origin::Input | Origin::Output => {
                found.insert(array);
            }
        }
    }
    found
}

/// The order of the loops of the reference, for each output.
struct Order {
    parts: BTreeMap<usize, Part>,
    ends: Ends,
    /// For each statement, true if it does the problem's work.
    works: Vec<bool>,
}

#[derive(Default)]
struct Part {
    /// Roles of two loops, the outer one first.
    pairs: BTreeSet<(Role, Role)>,
    sums: BTreeSet<Role>,
}

impl Order {
    fn of(program: &Program) -> Self {
        let works = works(program);
        let ends = Ends::of(program);
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        for (at, works) in works.iter().enumerate() {
            if !works {
                continue;
            }
            let roles = roles(program, &ends, at, &program.statements[at].iterators);
            for output in &ends.outputs[at] {
                parts.entry(*output).or_default().add(&roles);
            }
        }
        Self { parts, ends, works }
    }

    /// True if two loops around a statement run the other way round than in the reference.
    fn is_turned(&self, program: &Program, walk: &Walk) -> bool {
        if !self.works[walk.statement] {
            return false;
        }
        let roles = roles(program, &self.ends, walk.statement, &over_data(walk));
        let outputs = self.ends.outputs[walk.statement].iter();
        let mut parts = outputs.filter_map(|output| self.parts.get(output));
        parts.any(|part| {
            roles.iter().enumerate().any(|(at, outer)| {
                let mut inner = roles[at + 1..].iter();
                inner.any(|inner| part.turns(outer, inner))
            })
        })
    }
}

impl Part {
    fn add(&mut self, roles: &[Role]) {
        let sums = roles.iter().filter(|role| matches!(role, Role::Sum(_)));
        self.sums.extend(sums.cloned());
        for (at, outer) in roles.iter().enumerate() {
            let inner = roles[at + 1..].iter();
            self.pairs
                .extend(inner.map(|inner| (outer.clone(), inner.clone())));
        }
    }

    /// True if the reference runs the two loops in the other order only.
    fn turns(&self, outer: &Role, inner: &Role) -> bool {
        !self.alike(outer, inner) && self.has(inner, outer) && !self.has(outer, inner)
    }

    fn has(&self, outer: &Role, inner: &Role) -> bool {
        let mut pairs = self.pairs.iter();
        pairs.any(|(a, b)| self.alike(a, outer) && self.alike(b, inner))
    }

    /// Sums are alike if they share terms, or if all sums of the reference do.
    fn alike(&self, a: &Role, b: &Role) -> bool {
        match (a, b) {
            (Role::Sum(a), Role::Sum(b)) => {
                a.is_empty() || b.is_empty() || !a.is_disjoint(b) || self.has_single_sum()
            }
            (a, b) => a == b,
        }
    }

    fn has_single_sum(&self) -> bool {
        let terms = |role: &Role| match role {
            Role::Sum(terms) => terms.clone(),
            Role::Out(_) | Role::Repeat => BTreeSet::new(),
        };
        let shares = |a: &Role, b: &Role| !terms(a).is_disjoint(&terms(b));
        let shared = |a: &Role| self.sums.iter().all(|b| shares(a, b));
        self.sums.iter().all(shared)
    }
}

/// The roles of loops, each once.
fn roles(program: &Program, ends: &Ends, at: usize, loops: &[Var]) -> Vec<Role> {
    let mut roles = Vec::new();
    for var in loops {
        if let Some(role) = Role::of(program, ends, at, *var)
            && !roles.contains(&role)
        {
            roles.push(role);
        }
    }
    roles
}

/// True if a statement copies into memory of the program.
fn keeps(program: &Program, statement: &Statement) -> bool {
    let copies = statement.update.is_none() && matches!(statement.value, Expr::Read(_));
    copies && program.arrays[statement.target.array].origin == Origin::Scratch
}

/// For each statement, true if it does the problem's work: those in most loops, and the sums of products. Copies into the program's own
/// memory do not.
fn works(program: &Program) -> Vec<bool> {
    let computes =
        |s: &Statement| (s.update.is_some() || !s.value.reads().is_empty()) && !keeps(program, s);
    let factors = |s: &Statement| {
        let arrays = s.value.reads().into_iter().map(|access| access.array);
        arrays.collect::<BTreeSet<usize>>().len()
    };
    let all = || program.statements.iter();
    let deepest = all().filter(|s| computes(s)).map(|s| s.iterators.len());
    let deepest = deepest.max().unwrap_or(0);
    let each = all().map(|s| {
        let product = s.update.is_some() && factors(s) >= 2;
        computes(s) && (product || s.iterators.len() == deepest)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Grouping;

    #[test]
    fn programs_that_split_or_fuse_loops_say_so_if_the_problem_lists_it() {
        let labels = |body: &str, listed: TechniqueSet, is_split: bool| {
            let problem = crate::shipped("polybench/polybench_bicg");
            let source = format!(
                "{} {{ {body} }}",
                problem.entry.prototype.trim_end_matches(';')
            );
            let program = crate::read::read_source(&problem, &source).expect(body);
            let space = Space::new(program).listing(listed);
            let mut schedule = space.plain_in(Grouping::AsRead);
            for group in &mut schedule.groups {
                group.fused = if is_split { 0 } else { group.order.len() };
            }
            let rendered = space.render(&schedule).expect("it is legal");
            techniques(&space, &rendered)
        };
        let fission = TechniqueSet::EMPTY.with(Technique::Fission);
        let none = TechniqueSet::EMPTY;
        let one = "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { s[j] += r[i] * A[i * m + j]; q[i] += A[i * m + j] * p[j]; }";
        assert_eq!(labels(one, fission, true), fission);
        assert_eq!(labels(one, fission, false), none);
        assert_eq!(labels(one, none, true), none);
        // Products that the reference has apart.
        let two = "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) s[j] += r[i] * A[i * m + j]; for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) q[i] += A[i * m + j] * p[j];";
        assert_eq!(labels(two, fission, true), none);
        assert_eq!(labels(two, fission, false), none);
        // Loops that the program runs in one.
        let fusion = TechniqueSet::EMPTY.with(Technique::Fusion);
        let inner = "for (int i = 0; i < n; i++) { for (int j = 0; j < m; j++) s[j] += r[i] * A[i * m + j]; for (int k = 0; k < m; k++) q[i] += A[i * m + k] * p[k]; }";
        assert_eq!(labels(inner, fusion, false), fusion);
        assert_eq!(labels(inner, fusion, true), none);
        assert_eq!(labels(inner, none, false), none);
        assert_eq!(labels(one, fusion, false), none);
    }
}
