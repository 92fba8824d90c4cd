//! Recomputation: values that the reference keeps in an array of its own are computed again where they are used.
//!
//! The values are known by the arguments that they are computed from. A program computes them again if a loop that runs
//! over other results moves none of their operands: each of its iterations computes the same values.

use std::collections::BTreeSet;

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{LoopId, Origin, Place, Write};
use super::roles::{Nest, Role};

/// Larger programs are judged by their first writes.
const MOST_WRITES: usize = 400;

/// The values that the reference keeps in arrays of its own: for each array, the arguments that the values are computed
/// from.
#[derive(Debug, Default)]
pub(in super::super) struct Kept {
    operands: BTreeSet<BTreeSet<usize>>,
}

impl Kept {
    pub(super) fn of(nest: &Nest<'_>) -> Self {
        let mut operands = BTreeSet::new();
        for write in &nest.facts.writes {
            let is_kept = nest.facts.origin(&write.target) == Origin::Local
                && nest.is_memory(&write.target)
                && nest.readers(&write.target).next().is_some();
            if is_kept && computes(write) {
                operands.insert(arguments(nest, write));
            }
        }
        // The reference itself may compute values again.
        operands.retain(|of| !of.is_empty() && again(nest, of).is_none());
        Self { operands }
    }
}

pub(super) fn note(nest: &Nest<'_>, reference: &Kept, found: &mut Detected) {
    let mut all = reference.operands.iter();
    if let Some((at, round)) = all.find_map(|operands| again(nest, operands)) {
        found.note(
            Technique::Recomputation,
            nest.write(at).line,
            format!(
                "each iteration of the loop in line {} computes the same values, which the reference keeps in an array",
                nest.facts.loops[round].line
            ),
        );
    }
}

/// A write that computes values from these arguments, and a loop around it whose iterations all compute the same ones.
fn again(nest: &Nest<'_>, operands: &BTreeSet<usize>) -> Option<(usize, LoopId)> {
    let writes = nest.facts.writes.iter().enumerate().take(MOST_WRITES);
    let mut computing =
        writes.filter(|(_, w)| computes(w) && operands.is_subset(&arguments(nest, w)));
    computing.find_map(|(at, write)| {
        let mut loops = write.stack.iter().copied();
        let round = loops.find(|id| repeats(nest, at, *id, operands))?;
        Some((at, round))
    })
}

/// True if a loop over other results moves none of the operands of a value.
fn repeats(nest: &Nest<'_>, at: usize, id: LoopId, operands: &BTreeSet<usize>) -> bool {
    let facts = nest.facts;
    let (write, round) = (nest.write(at), &facts.loops[id]);
    // Values that were computed outside of the loop are not computed again.
    let hoisted: BTreeSet<&Place> = write
        .reads
        .iter()
        .filter_map(|read| match read {
            Place::Scalar(scalar) => Some(&facts.scalars[*scalar]),
            Place::Element(..) => None,
        })
        .filter(|scalar| !scalar.set.contains(&id))
        .flat_map(|scalar| &scalar.reads)
        .collect();
    let mut stay = BTreeSet::new();
    for read in write.reads.iter().filter(|read| !hoisted.contains(read)) {
        let argument = facts.origin(read).argument();
        let Some(argument) = argument.filter(|of| operands.contains(of)) else {
            continue;
        };
        // Without a budget nothing is known to move.
        if !nest.spend(1) {
            return false;
        }
        let first = nest.counted_from_starts(read, &write.stack);
        let place = first.as_ref().unwrap_or(read);
        if nest.movement(place, round.symbol).is_none() {
            stay.insert(argument);
        }
    }
    operands.is_subset(&stay) && matches!(nest.role(at, id), Some(Role::Out(_))) && nest.spend(1)
}

fn computes(write: &Write) -> bool {
    !write.copies && !write.block
}

/// The arguments whose elements enter the value of a write.
fn arguments(nest: &Nest<'_>, write: &Write) -> BTreeSet<usize> {
    let own = nest.facts.origin(&write.target).argument();
    let read = write.reads.iter();
    let all = read.filter_map(|place| nest.facts.origin(place).argument());
    all.filter(|argument| Some(*argument) != own).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_problem::{Language, Problem};
    use flopsmith_protocol::{Technique, TechniqueSet};

    use crate::detect::detect;
    use crate::scan::UserText;

    fn is_again(problem: &str, prototype: &str, body: &str) -> bool {
        let root =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/polybench");
        let mut problem = Problem::load(&root.join(problem)).unwrap();
        let text = format!("{prototype} {{\n{body}\n}}\n");
        let user = UserText {
            lines: (1..).take(text.lines().count() + 1).collect(),
            text,
        };
        let found = |problem: &Problem| {
            let found = detect(&user, &[], problem, Language::C).unwrap();
            found.techniques().contains(Technique::Recomputation)
        };
        // A problem that does not list the technique has no programs with it.
        assert!(!found(&problem));
        problem.techniques = TechniqueSet::all();
        found(&problem)
    }

    fn in_covariance(body: &str) -> bool {
        is_again(
            "polybench_covariance",
            "void polybench_covariance(int m, int n, const double *data, double *mean, double *cov)",
            &format!(
                "for (int j = 0; j < m; j++) {{ mean[j] = 0; for (int i = 0; i < n; i++) mean[j] += data[i * m + j]; mean[j] /= n; }}\n{body}"
            ),
        )
    }

    #[test]
    fn values_of_an_array_that_are_computed_for_each_result_are_computed_again() {
        assert!(in_covariance(
            "for (int i = 0; i < m; i++) for (int j = i; j < m; j++) {\ndouble sum = 0;\n\
             for (int k = 0; k < n; k++) sum += (data[k * m + i] - mean[i]) * (data[k * m + j] - mean[j]);\n\
             cov[i * m + j] = sum / (n - 1); cov[j * m + i] = cov[i * m + j];\n}"
        ));
        // One factor is computed once for all columns, the other one again for each row.
        assert!(in_covariance(
            "for (int i = 0; i < m; i++) for (int j = 0; j < m; j++) cov[i * m + j] = 0;\n\
             for (int k = 0; k < n; k++) for (int i = 0; i < m; i++) {\ndouble left = data[k * m + i] - mean[i];\n\
             for (int j = 0; j < m; j++) cov[i * m + j] += left * (data[k * m + j] - mean[j]) / (n - 1);\n}"
        ));
    }

    #[test]
    fn values_that_are_computed_once_are_not_computed_again() {
        // The array has a row instead of all of them.
        assert!(!in_covariance(
            "double *row = malloc(sizeof *row * m);\n\
             for (int i = 0; i < m; i++) for (int j = 0; j < m; j++) cov[i * m + j] = 0;\n\
             for (int k = 0; k < n; k++) {\nfor (int j = 0; j < m; j++) row[j] = data[k * m + j] - mean[j];\n\
             for (int i = 0; i < m; i++) for (int j = 0; j < m; j++) cov[i * m + j] += row[i] * row[j] / (n - 1);\n}"
        ));
        // Another formula.
        assert!(!in_covariance(
            "for (int i = 0; i < m; i++) for (int j = 0; j < m; j++) {\ndouble sum = 0;\n\
             for (int k = 0; k < n; k++) sum += data[k * m + i] * data[k * m + j];\n\
             cov[i * m + j] = (sum - n * mean[i] * mean[j]) / (n - 1);\n}"
        ));
    }

    #[test]
    fn loops_over_blocks_move_operands() {
        let product = |inner: &str| {
            is_again(
                "polybench_2mm",
                "void polybench_2mm(int ni, int nj, int nk, int nl, double alpha, double beta, const double *A, const double *B, const double *C, double *D)",
                inner,
            )
        };
        // Fused: each element of the first product is computed once, and used for a row of the second one.
        assert!(!product(
            "for (int i = 0; i < ni; i++) {\nfor (int l = 0; l < nl; l++) D[i * nl + l] *= beta;\n\
             for (int j = 0; j < nj; j++) {\ndouble t = 0;\nfor (int k = 0; k < nk; k++) t += alpha * A[i * nk + k] * B[k * nj + j];\n\
             for (int l = 0; l < nl; l++) D[i * nl + l] += t * C[j * nl + l];\n}\n}"
        ));
        assert!(product(
            "for (int i = 0; i < ni; i++) for (int l = 0; l < nl; l++) {\ndouble sum = beta * D[i * nl + l];\n\
             for (int j = 0; j < nj; j++) {\ndouble t = 0;\nfor (int k = 0; k < nk; k++) t += alpha * A[i * nk + k] * B[k * nj + j];\n\
             sum += t * C[j * nl + l];\n}\nD[i * nl + l] = sum;\n}"
        ));
        assert!(!product(
            "double *tmp = malloc(sizeof *tmp * ni * nj);\n\
             for (int i = 0; i < ni * nj; i++) tmp[i] = 0;\n\
             for (int ii = 0; ii < ni; ii += 64) for (int jj = 0; jj < nj; jj += 64) for (int k = 0; k < nk; k++)\n\
             for (int i = ii; i < (ii + 64 < ni ? ii + 64 : ni); i++) for (int j = jj; j < (jj + 64 < nj ? jj + 64 : nj); j++)\n\
             tmp[i * nj + j] += alpha * A[i * nk + k] * B[k * nj + j];\n\
             for (int i = 0; i < ni; i++) for (int l = 0; l < nl; l++) {\nD[i * nl + l] *= beta;\n\
             for (int j = 0; j < nj; j++) D[i * nl + l] += tmp[i * nj + j] * C[j * nl + l];\n}"
        ));
    }
}
