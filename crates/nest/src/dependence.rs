//! Pairs of iterations that access the same element.

use std::collections::BTreeMap;

use crate::affine::{Affine, System, Var};
use crate::program::{Access, Program, Statement};

/// Iterators of the second iteration of a pair have other names: they are moved by this number.
const SECOND: Var = 1 << 16;

/// The names of the second iteration's variables.
#[derive(Debug, Clone, Default)]
pub struct Renamed(BTreeMap<Var, Var>);

impl Renamed {
    /// Other names for the iterators of a statement.
    pub fn of(statement: &Statement) -> Self {
        Self(
            statement
                .iterators
                .iter()
                .map(|v| (*v, v + SECOND))
                .collect(),
        )
    }

    /// Other names for these variables.
    pub fn of_vars(vars: &[Var]) -> Self {
        Self(vars.iter().map(|v| (*v, v + SECOND)).collect())
    }

    /// The second iteration's name of a variable.
    pub fn var(&self, var: Var) -> Var {
        self.0.get(&var).copied().unwrap_or(var)
    }

    /// An expression of the second iteration.
    pub fn affine(&self, affine: &Affine) -> Affine {
        affine.replaced(&|var| self.0.get(&var).map(|v| Affine::var(*v)))
    }

    /// Constraints of the second iteration.
    pub fn system(&self, system: &System) -> System {
        system.replaced(&|var| self.0.get(&var).map(|v| Affine::var(*v)))
    }
}

/// Adds that `a` of the first iteration and `b` of the second one are of the same element.
pub fn same_element(system: &mut System, a: &Access, b: &Access, second: &Renamed) {
    for (x, y) in a.subscripts.iter().zip(&b.subscripts) {
        system.equal(x, &second.affine(y));
    }
}

/// Iterations of two statements, the first of which runs before the second in the program as it was read, and both of which access an
/// element that at least one of them writes.
#[derive(Debug, Clone)]
pub struct Dependence {
    /// The number of the first statement.
    pub from: usize,
    /// The number of the second statement.
    pub to: usize,
    /// The pairs: iterators of the second statement have other names.
    pub pairs: System,
}

/// All dependences of a program. Updates of one kind may be made in any order, and their pairs are left out.
pub fn dependences(program: &Program) -> Vec<Dependence> {
    let mut all = Vec::new();
    let statements = &program.statements;
    for (from, first) in statements.iter().enumerate() {
        for (to, second) in statements.iter().enumerate() {
            let renamed = Renamed::of(second);
            for base in conflicts(program, first, second, &renamed) {
                for order in before(first, second, &renamed, from < to) {
                    let mut pairs = base.clone();
                    pairs.and(&order);
                    if !pairs.is_empty() {
                        all.push(Dependence { from, to, pairs });
                    }
                }
            }
        }
    }
    all
}

/// The pairs of iterations, in whatever order, that access the same element.
fn conflicts(
    program: &Program,
    first: &Statement,
    second: &Statement,
    renamed: &Renamed,
) -> Vec<System> {
    let mut base = program.domain(first);
    base.and(&renamed.system(&second.domain));
    let mut all = Vec::new();
    let mut add = |a: &Access, b: &Access| {
        if a.array == b.array {
            let mut pairs = base.clone();
            same_element(&mut pairs, a, b, renamed);
            all.push(pairs);
        }
    };
    let alike = first.kind().is_some() && first.kind() == second.kind();
    if !alike {
        add(&first.target, &second.target);
    }
    for read in second.value.reads() {
        add(&first.target, read);
    }
    for read in first.value.reads() {
        add(read, &second.target);
    }
    all
}

/// The ways in which an iteration of the first statement runs before one of the second.
fn before(
    first: &Statement,
    second: &Statement,
    renamed: &Renamed,
    textually: bool,
) -> Vec<System> {
    let common = first.common(second);
    let mut all = Vec::new();
    let mut equal = System::new();
    for iterator in &first.iterators[..common] {
        let (a, b) = (
            Affine::var(*iterator),
            renamed.affine(&Affine::var(*iterator)),
        );
        let mut less = equal.clone();
        less.less(&a, &b);
        all.push(less);
        equal.equal(&a, &b);
    }
    let place = |statement: &Statement| statement.place.get(common).copied();
    let earlier = match (place(first), place(second)) {
        (Some(a), Some(b)) if a != b => a < b,
        _ => textually,
    };
    if earlier {
        all.push(equal);
    }
    all
}

/// Pairs of updates of one kind and one element. They may change places; they may not run at the same time.
pub fn commuting(program: &Program) -> Vec<Dependence> {
    let mut all = Vec::new();
    for (from, first) in program.statements.iter().enumerate() {
        for (to, second) in program.statements.iter().enumerate() {
            let alike = first.kind().is_some() && first.kind() == second.kind();
            if !alike || first.target.array != second.target.array {
                continue;
            }
            let renamed = Renamed::of(second);
            let mut pairs = program.domain(first);
            pairs.and(&renamed.system(&second.domain));
            same_element(&mut pairs, &first.target, &second.target, &renamed);
            if !pairs.is_empty() {
                all.push(Dependence { from, to, pairs });
            }
        }
    }
    all
}
