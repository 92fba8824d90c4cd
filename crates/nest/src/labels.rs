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
        note(fact.packed > 0, Technique::Packing);
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

/// True if a loop visits blocks of more than a few elements of an array.
fn has_blocks(program: &Program, walk: &Walk) -> bool {
    let statement = &program.statements[walk.statement];
    walk.rounds.iter().any(|(var, tile)| {
        let moves = |access: &Access| moved(access, *var).next().is_some();
        tile.is_some_and(|size| size > SHORT) && accesses(statement).any(moves)
    })
}

/// The loops over data around a statement: loops within blocks, and loops over blocks so short that their own loops are none.
fn over_data(walk: &Walk) -> Vec<Var> {
    let short = |var: Var| {
        let mut rounds = walk.rounds.iter();
        rounds.any(|(other, tile)| *other == var && tile.is_some_and(|size| size <= SHORT))
    };
    let counts = |(var, tile): &&(Var, Option<i64>)| tile.is_some() == short(*var);
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
    fn of(program: &Program, statement: &Statement, var: Var) -> Self {
        let mask =
            moved(&statement.target, var).fold(0_u32, |mask, dim| mask | 1_u32 << dim.min(31));
        if mask != 0 {
            return Self::Out(mask);
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
        if moves {
            Self::Sum(terms)
        } else {
            Self::Repeat
        }
    }
}

/// The order of the loops of the reference, for each array that statements write.
struct Order {
    parts: BTreeMap<usize, Part>,
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
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        for (statement, works) in program.statements.iter().zip(&works) {
            if !works {
                continue;
            }
            let roles = roles(program, statement, &statement.iterators);
            let part = parts.entry(statement.target.array).or_default();
            let sums = roles.iter().filter(|role| matches!(role, Role::Sum(_)));
            part.sums.extend(sums.cloned());
            for (at, outer) in roles.iter().enumerate() {
                let inner = roles[at + 1..].iter();
                part.pairs
                    .extend(inner.map(|inner| (outer.clone(), inner.clone())));
            }
        }
        Self { parts, works }
    }

    /// True if two loops around a statement run the other way round than in the reference.
    fn is_turned(&self, program: &Program, walk: &Walk) -> bool {
        if !self.works[walk.statement] {
            return false;
        }
        let statement = &program.statements[walk.statement];
        let roles = roles(program, statement, &over_data(walk));
        let Some(part) = self.parts.get(&statement.target.array) else {
            return false;
        };
        roles.iter().enumerate().any(|(at, outer)| {
            let mut inner = roles[at + 1..].iter();
            inner.any(|inner| part.turns(outer, inner))
        })
    }
}

impl Part {
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
fn roles(program: &Program, statement: &Statement, loops: &[Var]) -> Vec<Role> {
    let mut roles = Vec::new();
    for var in loops {
        let role = Role::of(program, statement, *var);
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    roles
}

/// For each statement, true if it does the problem's work: those in most loops, and the sums of products. Copies into the program's own
/// memory do not.
fn works(program: &Program) -> Vec<bool> {
    let computes = |s: &Statement| {
        let copies = s.update.is_none() && matches!(s.value, Expr::Read(_));
        let own = program.arrays[s.target.array].origin == Origin::Scratch;
        (s.update.is_some() || !s.value.reads().is_empty()) && !(copies && own)
    };
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
