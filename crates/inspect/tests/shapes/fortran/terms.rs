//! Sums with collected constants, and sections of arrays.

use super::super::ast::{E, n};

/// One less than an exclusive bound.
pub(super) fn less(to: &E) -> E {
    match to {
        E::Call("min", bounds) => E::Call("min", bounds.iter().map(less).collect()),
        other => simpler(&(other.clone() - n(1))),
    }
}

/// Collects the constants of a sum.
pub(super) fn simpler(e: &E) -> E {
    let each = |list: &[E]| list.iter().map(simpler).collect::<Vec<_>>();
    match e {
        E::Bin("+" | "-", ..) => {
            let (mut terms, mut constant) = (Vec::new(), 0);
            collect(e, 1, &mut terms, &mut constant);
            let mut sum: Option<E> = None;
            for (sign, term) in terms {
                sum = Some(match (sum, sign) {
                    (None, 1) => term,
                    (None, _) => n(0) - term,
                    (Some(sum), 1) => sum + term,
                    (Some(sum), _) => sum - term,
                });
            }
            match sum {
                None => n(constant),
                Some(sum) if constant < 0 => sum - n(-constant),
                Some(sum) => sum + n(constant),
            }
        }
        E::Bin(sign, a, b) => match (*sign, simpler(a), simpler(b)) {
            ("*", a, b) => a * b,
            (sign, a, b) => E::Bin(sign, Box::new(a), Box::new(b)),
        },
        E::At(name, list) => E::At(name.clone(), each(list)),
        E::Call(name, list) => E::Call(name, each(list)),
        E::If(c, a, b) => E::If(
            Box::new(simpler(c)),
            Box::new(simpler(a)),
            Box::new(simpler(b)),
        ),
        other => other.clone(),
    }
}

fn collect(e: &E, sign: i64, terms: &mut Vec<(i64, E)>, constant: &mut i64) {
    match e {
        E::N(value) => *constant += sign * value,
        E::Bin("+", a, b) => {
            collect(a, sign, terms, constant);
            collect(b, sign, terms, constant);
        }
        E::Bin("-", a, b) => {
            collect(a, sign, terms, constant);
            collect(b, -sign, terms, constant);
        }
        other => terms.push((sign, simpler(other))),
    }
}

/// True if the loop's variable stands only in subscripts, alone or with an offset, so that a section can replace it.
pub(super) fn is_section(name: &str, e: &E) -> bool {
    match e {
        E::At(_, subscripts) => subscripts.iter().all(|s| match s {
            E::V(_) => true,
            E::Bin("+" | "-", a, b) if s.mentions(name) => {
                matches!(&**a, E::V(own) if own == name) && !b.mentions(name)
            }
            other => !other.mentions(name),
        }),
        E::V(own) => own != name,
        E::Bin(_, a, b) => is_section(name, a) && is_section(name, b),
        E::Call(_, list) => list.iter().all(|e| is_section(name, e)),
        E::If(c, a, b) => [c, a, b].into_iter().all(|e| is_section(name, e)),
        E::N(_) | E::R(_) => true,
    }
}

pub(super) fn sections(e: &E, name: &str, from: &E, to: &E) -> E {
    let each =
        |list: &[E]| -> Vec<E> { list.iter().map(|e| sections(e, name, from, to)).collect() };
    match e {
        E::At(array, subscripts) => {
            let subscripts = subscripts.iter().map(|s| {
                if s.mentions(name) {
                    E::Call("section", vec![s.with(name, from), s.with(name, &less(to))])
                } else {
                    s.clone()
                }
            });
            E::At(array.clone(), subscripts.collect())
        }
        E::Bin(sign, a, b) => E::Bin(
            sign,
            Box::new(sections(a, name, from, to)),
            Box::new(sections(b, name, from, to)),
        ),
        E::Call(call, list) => E::Call(call, each(list)),
        E::If(c, a, b) => E::If(
            Box::new(sections(c, name, from, to)),
            Box::new(sections(a, name, from, to)),
            Box::new(sections(b, name, from, to)),
        ),
        other => other.clone(),
    }
}
