//! Fusion: statements that the reference runs in separate loops run in one loop.
//!
//! Statements have the names that [`super::fission`] gives them. A loop of the program around two statements is that of a
//! fusion if it has, at both, the roles that loops around one of them and not the other one have in the reference.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::LoopId;
use super::fission::{Name, Pair, by_name, common, is_like, own, roles, statements};
use super::roles::Nest;

/// The statements of the reference that have loops of their own.
#[derive(Debug, Default)]
pub(in super::super) struct Apart {
    pairs: BTreeSet<Pair>,
}

impl Apart {
    pub(super) fn of(nest: &Nest<'_>) -> Self {
        let all = statements(nest);
        let mut pairs = BTreeSet::new();
        for (number, (first, names)) in all.iter().enumerate() {
            for (second, others) in &all[number + 1..] {
                let (firsts, seconds) = own(nest, *first, *second);
                let loops = firsts
                    .iter()
                    .flat_map(|a| seconds.iter().map(move |b| (*a, *b)));
                for (a, b) in loops {
                    if nest.spend(1)
                        && let Some(roles) = roles(nest, (*first, a), (*second, b))
                    {
                        pairs.extend(Pair::all(names, others, &roles));
                    }
                }
            }
        }
        // The reference itself may run statements of these names in one loop.
        let named = by_name(all);
        pairs.retain(|pair| fused(nest, pair, &named).is_none());
        // Without a budget no statements are known to be apart.
        if !nest.spend(1) {
            pairs.clear();
        }
        Self { pairs }
    }
}

pub(super) fn note(nest: &Nest<'_>, reference: &Apart, found: &mut Detected) {
    if reference.pairs.is_empty() {
        return;
    }
    let named = by_name(statements(nest));
    let mut all = reference.pairs.iter();
    if let Some(id) = all.find_map(|pair| fused(nest, pair, &named)) {
        found.note(
            Technique::Fusion,
            nest.facts.loops[id].line,
            "the reference runs statements of this loop in separate loops",
        );
    }
}

/// A loop around statements of both names that has the roles of their loops.
fn fused(nest: &Nest<'_>, pair: &Pair, named: &BTreeMap<Name, Vec<usize>>) -> Option<LoopId> {
    let (firsts, seconds) = (named.get(&pair.names.0)?, named.get(&pair.names.1)?);
    let mut both = firsts
        .iter()
        .flat_map(|a| seconds.iter().map(move |b| (*a, *b)));
    both.find_map(|(first, second)| {
        if !nest.spend(1) {
            return None;
        }
        let mut loops = common(nest, first, second).into_iter();
        loops.find(|id| is_like(nest, pair, (first, *id), (second, *id)))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_problem::{Language, Problem};
    use flopsmith_protocol::{Technique, TechniqueSet};

    use crate::detect::detect;
    use crate::scan::UserText;

    /// True if a body of PolyBench's `name` is fused.
    fn is_fused(name: &str, body: &str) -> bool {
        let root =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/polybench");
        let mut problem = Problem::load(&root.join(name)).unwrap();
        let prototype = problem.entry.prototype.trim_end_matches(';');
        let text = format!("{prototype} {{\n{body}\n}}\n");
        let user = UserText {
            lines: (1..).take(text.lines().count() + 1).collect(),
            text,
        };
        let found = |problem: &Problem| {
            let found = detect(&user, &[], problem, Language::C).unwrap();
            found.techniques().contains(Technique::Fusion)
        };
        // A problem that does not list the technique has no programs with it.
        assert!(!found(&problem));
        problem.techniques = TechniqueSet::all();
        found(&problem)
    }

    #[test]
    fn products_of_two_results_in_one_loop_are_fused() {
        let fused = |body: &str| is_fused("polybench_mvt", body);
        // Both go along rows: a loop over the rows of the one is the loop over the terms of the other.
        assert!(fused(
            "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {\n\
             x1[i] += A[i * n + j] * y1[j];\nx2[j] += A[i * n + j] * y2[i];\n}"
        ));
        // Only the outer loop.
        assert!(fused(
            "for (int i = 0; i < n; i++) {\nfor (int j = 0; j < n; j++) x1[i] += A[i * n + j] * y1[j];\n\
             for (int j = 0; j < n; j++) x2[i] += A[j * n + i] * y2[j];\n}"
        ));
        assert!(!fused(
            "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x2[i] += A[j * n + i] * y2[j];\n\
             for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x1[i] += A[i * n + j] * y1[j];"
        ));
    }

    #[test]
    fn a_product_that_takes_rows_of_another_one_is_fused() {
        let scaled = "for (int l = 0; l < nl; l++) D[i * nl + l] *= beta;";
        let first = "for (int k = 0; k < nk; k++) t += alpha * A[i * nk + k] * B[k * nj + j];";
        let second =
            |t: &str| format!("for (int l = 0; l < nl; l++) D[i * nl + l] += {t} * C[j * nl + l];");
        assert!(is_fused(
            "polybench_2mm",
            &format!(
                "for (int i = 0; i < ni; i++) {{ {scaled}\nfor (int j = 0; j < nj; j++) {{ double t = 0;\n{first}\n{} }} }}",
                second("t")
            )
        ));
        // The scaling reads its own result alone, so it is no statement that a loop is fused with.
        assert!(!is_fused(
            "polybench_2mm",
            &format!(
                "double *tmp = malloc(sizeof *tmp * ni * nj);\n\
                 for (int i = 0; i < ni; i++) for (int j = 0; j < nj; j++) {{ double t = 0;\n{first}\ntmp[i * nj + j] = t; }}\n\
                 for (int i = 0; i < ni; i++) {{ {scaled}\nfor (int j = 0; j < nj; j++) {{ {} }} }}",
                second("tmp[i * nj + j]")
            )
        ));
    }

    #[test]
    fn a_product_of_sums_that_computes_one_of_them_again_is_fused() {
        assert!(is_fused(
            "polybench_3mm",
            "double *F = malloc(sizeof *F * nj * nl);\n\
             for (int j = 0; j < nj; j++) for (int l = 0; l < nl; l++) { double sum = 0;\n\
             for (int h = 0; h < nm; h++) sum += C[j * nm + h] * D[h * nl + l];\nF[j * nl + l] = sum; }\n\
             for (int i = 0; i < ni; i++) for (int l = 0; l < nl; l++) { double sum = 0;\n\
             for (int j = 0; j < nj; j++) { double left = 0;\n\
             for (int k = 0; k < nk; k++) left += A[i * nk + k] * B[k * nj + j];\nsum += left * F[j * nl + l]; }\n\
             G[i * nl + l] = sum; }\nfree(F);"
        ));
    }

    #[test]
    fn a_product_that_takes_a_row_of_a_buffer_is_fused() {
        assert!(is_fused(
            "polybench_2mm",
            "double *row = malloc(sizeof *row * nj);\n\
             for (int i = 0; i < ni; i++) { for (int j = 0; j < nj; j++) { double first = 0;\n\
             for (int k = 0; k < nk; k++) first += alpha * A[i * nk + k] * B[k * nj + j];\nrow[j] = first; }\n\
             for (int l = 0; l < nl; l++) { double total = beta * D[i * nl + l];\n\
             for (int j = 0; j < nj; j++) total += row[j] * C[j * nl + l];\nD[i * nl + l] = total; } }\nfree(row);"
        ));
    }

    #[test]
    fn sums_that_are_written_out_are_fused_like_others() {
        assert!(is_fused(
            "polybench_2mm",
            "for (int i = 0; i < ni; i++) for (int l = 0; l < nl; l++) { double total = beta * D[i * nl + l];\n\
             for (int j = 0; j < nj; j++) { double first = 0;\n\
             for (int k = 0; k < nk; k++) first = first + alpha * A[i * nk + k] * B[k * nj + j];\n total = total + first * C[j * nl + l]; }\nD[i * nl + l] = total; }"
        ));
    }

    #[test]
    fn statements_that_share_loops_in_the_reference_are_not_fused() {
        assert!(!is_fused(
            "polybench_bicg",
            "for (int j = 0; j < m; j++) s[j] = 0;\n\
             for (int i = 0; i < n; i++) { q[i] = 0; for (int j = 0; j < m; j++) {\n\
             s[j] += r[i] * A[i * m + j]; q[i] += A[i * m + j] * p[j]; } }"
        ));
    }
}
