//! Changes of layout: a whole argument is copied once, with its elements in another order or at other distances.
//!
//! Each of them is packing as well. Packing in a loop, of a part of an argument for the work that follows, is none.

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{Meaning, Place, Write};
use super::super::poly::Poly;
use super::packing;
use super::roles::Nest;

pub(super) fn note(nest: &Nest<'_>, found: &mut Detected) {
    let changes = |(at, id): &(usize, usize)| {
        let fill = nest.write(*at);
        let apart = |worker: usize| fill.stack.first() != nest.write(worker).stack.first();
        let mut operands = fill.reads.iter();
        !fill.block
            && packing::workers(nest, *at, *id).all(apart)
            && operands.any(|read| is_whole(nest, fill, read) && moves_elements(nest, fill, read))
    };
    if let Some((at, id)) = packing::copies(nest).find(changes) {
        found.note(
            Technique::LayoutChange,
            nest.write(at).line,
            format!(
                "all of an argument is copied into `{}` in another layout",
                nest.facts.arrays[id].name
            ),
        );
    }
}

/// True if the loops around a copy move an element along all dimensions of its argument, of which there are several.
fn is_whole(nest: &Nest<'_>, fill: &Write, read: &Place) -> bool {
    let Some(argument) = nest.facts.origin(read).argument() else {
        return false;
    };
    let first = nest.counted_from_starts(read, &fill.stack);
    let place = first.as_ref().unwrap_or(read);
    let moves = |dim: usize| {
        let mut all = fill.stack.iter();
        all.any(|id| {
            let symbol = nest.facts.loops[*id].symbol;
            nest.movement(place, symbol).along(dim).is_some()
        })
    };
    let rank = nest.shapes.rank(argument);
    rank >= 2 && (0..rank).all(moves)
}

/// True if a copy puts its elements into another order, or at other distances from each other.
fn moves_elements(nest: &Nest<'_>, fill: &Write, read: &Place) -> bool {
    let known = |poly: &Poly| {
        let mut symbols = poly.symbols();
        symbols.all(|s| matches!(nest.facts.meanings[s as usize], Meaning::Argument(_)))
    };
    let is_farther = || {
        let (Place::Element(_, from), Place::Element(_, to)) = (read, &fill.target) else {
            return false;
        };
        let ([from], [to]) = (&from[..], &to[..]) else {
            return false;
        };
        fill.stack.iter().any(|id| {
            let symbol = nest.facts.loops[*id].symbol;
            let factors = from.factor_of(symbol).zip(to.factor_of(symbol));
            factors.is_some_and(|(from, to)| {
                let moves = !from.is_zero() && !to.is_zero();
                moves && known(&from) && known(&to) && from != to
            })
        })
    };
    packing::turns(nest, fill) || is_farther()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_problem::{Language, Problem};
    use flopsmith_protocol::TechniqueSet;

    use crate::detect::detect;
    use crate::scan::UserText;

    fn techniques(body: &str) -> String {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let mut problem = Problem::load(&root).unwrap();
        let text = format!(
            "void dgemm(int n, const double *A, const double *B, double *C) {{\ndouble *T = malloc(sizeof *T * n * (n + 8));\n{body}\n}}\n"
        );
        let user = UserText {
            lines: (1..).take(text.lines().count() + 1).collect(),
            text,
        };
        let found = |problem: &Problem| {
            let found = detect(&user, &[], problem, Language::C).unwrap();
            found.techniques().to_string()
        };
        // The problem does not list the technique.
        assert!(!found(&problem).contains("layout_change"));
        problem.techniques = TechniqueSet::all();
        found(&problem)
    }

    fn product(factor: &str) -> String {
        format!(
            "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {{\ndouble sum = 0;\nfor (int k = 0; k < n; k++) sum += A[i * n + k] * {factor};\nC[i * n + j] = sum;\n}}"
        )
    }

    fn copy(to: &str) -> String {
        format!("for (int k = 0; k < n; k++) for (int j = 0; j < n; j++) T[{to}] = B[k * n + j];\n")
    }

    #[test]
    fn a_whole_argument_in_another_order_has_another_layout() {
        let turned = copy("j * n + k") + &product("T[j * n + k]");
        assert_eq!(techniques(&turned), "packing+layout_change");
        let padded = copy("k * (n + 8) + j") + &product("T[k * (n + 8) + j]");
        assert_eq!(techniques(&padded), "packing+layout_change");
    }

    #[test]
    fn a_flat_pointer_into_an_array_moves_from_row_to_row() {
        let copied = |to: &str, factor: &str| {
            let filled = format!(
                "double P[n][n];\ndouble *flat = &P[0][0];\nfor (int k = 0; k < n; k++) for (int j = 0; j < n; j++) flat[{to}] = B[k * n + j];\n"
            );
            techniques(&(filled + &product(factor)))
        };
        assert_eq!(copied("j * n + k", "P[j][k]"), "packing+layout_change");
        assert_eq!(copied("k * n + j", "P[k][j]"), "packing");
    }

    #[test]
    fn other_copies_are_packing_alone() {
        let same = copy("k * n + j") + &product("T[k * n + j]");
        assert_eq!(techniques(&same), "packing");
        let column = "for (int j = 0; j < n; j++) {\nfor (int k = 0; k < n; k++) T[k] = B[k * n + j];\n\
                      for (int i = 0; i < n; i++) {\ndouble sum = 0;\nfor (int k = 0; k < n; k++) sum += A[i * n + k] * T[k];\nC[i * n + j] = sum;\n}\n}";
        assert_eq!(techniques(column), "loop_reorder+packing");
        assert_eq!(techniques(&product("B[k * n + j]")), "{}");
    }
}
