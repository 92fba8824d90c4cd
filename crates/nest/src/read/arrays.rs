//! From linear subscripts to one subscript a dimension.

use std::collections::BTreeSet;

use super::Error;
use crate::affine::{Affine, System, Var};
use crate::poly::Poly;
use crate::program::{Access, Array, Expr, Program, Statement};

/// A subscript as the source has it: its array, the linear index, and the line.
#[derive(Debug, Clone)]
pub struct Raw {
    pub array: usize,
    pub index: Poly,
    pub line: usize,
}

/// Strides of an array with these extents, in elements. Empty if an extent is not known and a stride therefore is not.
pub fn strides(extents: &[Option<Poly>]) -> Vec<Poly> {
    let mut strides = vec![Poly::constant(1)];
    for extent in extents.iter().skip(1).rev() {
        let last = strides.last().cloned().unwrap_or_default();
        match extent.as_ref().and_then(|e| last.times(e)) {
            Some(stride) => strides.push(stride),
            None => return Vec::new(),
        }
    }
    if extents.is_empty() {
        strides.clear();
    }
    strides.reverse();
    strides
}

/// Replaces the numbers of raw accesses, which stand in the place of subscripts, by the subscripts themselves.
///
/// # Errors
/// A subscript that is not affine in each dimension.
pub fn subscripts(program: &mut Program, raw: &[Raw]) -> Result<(), Error> {
    for array in 0..program.arrays.len() {
        let mine: Vec<&Raw> = raw.iter().filter(|r| r.array == array).collect();
        let known = &program.arrays[array];
        let scalar = known.extents.is_empty() && known.strides.is_empty() && mine.is_empty();
        if known.strides.is_empty() && !scalar {
            let line = mine.first().map_or(0, |r| r.line);
            let inferred = inferred(program, &mine).ok_or_else(|| Error::At {
                line,
                what: format!(
                    "the rows of `{}` cannot be told from its subscripts",
                    program.arrays[array].name
                ),
            })?;
            let known = &mut program.arrays[array];
            known.extents = vec![None; inferred.len()];
            known.strides = inferred;
        }
    }
    let mut statements = std::mem::take(&mut program.statements);
    for statement in &mut statements {
        let domain = program.domain(statement);
        let resolve = |access: &Access| resolved(program, &domain, access, raw);
        statement.target = resolve(&statement.target)?;
        let mut failed = None;
        let value = statement.value.changed(&|e| match e {
            Expr::Read(access) => resolve(access).ok().map(Expr::Read),
            _ => None,
        });
        statement.value.accesses(&mut |access| {
            if failed.is_none() {
                failed = resolve(access).err();
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        statement.value = value;
    }
    program.statements = statements;
    Ok(())
}

/// Marks an access whose subscripts are still the number of a raw one.
pub fn marked(array: usize, number: usize) -> Access {
    Access {
        array,
        subscripts: vec![Affine::constant(-1 - number as i64), Affine::constant(0)],
    }
}

fn resolved(
    program: &Program,
    domain: &System,
    access: &Access,
    raw: &[Raw],
) -> Result<Access, Error> {
    let number = match access.subscripts.as_slice() {
        [number, mark]
            if number.is_constant() && number.constant < 0 && *mark == Affine::default() =>
        {
            (-1 - number.constant) as usize
        }
        // A local scalar has its subscripts already.
        _ => return Ok(access.clone()),
    };
    let raw = &raw[number];
    let array = &program.arrays[raw.array];
    let subscripts = apart(program, array, &raw.index, domain).ok_or_else(|| Error::At {
        line: raw.line,
        what: format!("a subscript of `{}` is not affine", array.name),
    })?;
    Ok(Access {
        array: raw.array,
        subscripts,
    })
}

/// A linear index by dimensions.
fn apart(program: &Program, array: &Array, index: &Poly, domain: &System) -> Option<Vec<Affine>> {
    let mut subscripts: Vec<Affine> = Vec::new();
    let mut rest = index.clone();
    for stride in &array.strides {
        let (quotient, remainder) = rest.divided(stride)?;
        subscripts.push(quotient.as_affine()?);
        rest = remainder;
    }
    if rest != Poly::default() {
        return None;
    }
    // `i * w + w - 1` is the last column of row i, not the column before the first of row i + 1.
    for n in (1..subscripts.len()).rev() {
        let stated = array.extents[n].clone();
        let is_inferred = stated.is_none();
        let Some(extent) = stated.or_else(|| row_length(&array.strides[n - 1], &array.strides[n]))
        else {
            continue;
        };
        let inside = |s: &Affine| domain.implies(s) && domain.implies(&extent.minus(s).offset(-1));
        if inside(&subscripts[n]) {
            continue;
        }
        let moves = [-1i64, 1];
        let better = moves
            .into_iter()
            .find(|by| inside(&subscripts[n].plus_times(-by, &extent)));
        if let Some(by) = better {
            subscripts[n] = subscripts[n].plus_times(-by, &extent);
            subscripts[n - 1] = subscripts[n - 1].offset(by);
        } else if is_inferred {
            // Such an array gets rows of another length, so no element may belong to two rows.
            return None;
        }
    }
    let _ = program;
    Some(subscripts)
}

/// The number of steps of one stride within the next larger one.
fn row_length(larger: &Poly, stride: &Poly) -> Option<Affine> {
    let (quotient, remainder) = larger.divided(stride)?;
    (remainder == Poly::default()).then(|| quotient.as_affine())?
}

/// The strides of an array whose extents nobody stated, by the products of parameters that iterators are multiplied with.
fn inferred(program: &Program, raw: &[&Raw]) -> Option<Vec<Poly>> {
    let mut factors: BTreeSet<Vec<Var>> = BTreeSet::from([Vec::new()]);
    for access in raw {
        for product in access.index.products() {
            let (parameters, iterators): (Vec<Var>, Vec<Var>) =
                product.iter().partition(|v| program.is_parameter(**v));
            match iterators.len() {
                0 => {}
                1 => {
                    factors.insert(parameters);
                }
                _ => return None,
            }
        }
    }
    let mut factors: Vec<Vec<Var>> = factors.into_iter().collect();
    factors.sort_by_key(|f| std::cmp::Reverse(f.len()));
    let chain = factors
        .windows(2)
        .all(|pair| pair[0].len() > pair[1].len() && pair[1].iter().all(|v| pair[0].contains(v)));
    let stride = |vars: &Vec<Var>| {
        vars.iter()
            .try_fold(Poly::constant(1), |p, v| p.times(&Poly::var(*v)))
    };
    if !chain {
        return None;
    }
    factors.iter().map(stride).collect()
}

/// The statement that copies one array to another one, element by element, with new iterators.
pub fn copying(
    program: &mut Program,
    raw: &mut Vec<Raw>,
    (to, from): (usize, usize),
    line: usize,
) -> Option<Statement> {
    let shaped = [to, from].into_iter().find(|a| {
        let array = &program.arrays[*a];
        !array.strides.is_empty() && array.extents.iter().all(Option::is_some)
    })?;
    let strides = program.arrays[shaped].strides.clone();
    let extents: Vec<Affine> = program.arrays[shaped]
        .extents
        .iter()
        .flatten()
        .cloned()
        .collect();
    let mut domain = System::new();
    let mut index = Poly::default();
    let mut iterators = Vec::new();
    for (n, (stride, extent)) in strides.iter().zip(&extents).enumerate() {
        let var = program.fresh(&format!("e{n}"));
        domain.at_least_zero(Affine::var(var));
        domain.less(&Affine::var(var), extent);
        index = index.plus(&stride.times(&Poly::var(var))?);
        iterators.push(var);
    }
    let mut access = |array: usize| {
        raw.push(Raw {
            array,
            index: index.clone(),
            line,
        });
        marked(array, raw.len() - 1)
    };
    let (target, source) = (access(to), access(from));
    Some(Statement {
        iterators,
        place: Vec::new(),
        domain,
        target,
        update: None,
        value: Expr::Read(source),
    })
}
