//! Branch removal: a statement that the reference runs under a condition runs without one.
//!
//! A condition counts if it stands inside of a loop that has no other loop in it. The value may be chosen by an expression,
//! a minimum or a maximum instead, or each side of the condition may have a loop of its own.

use std::collections::BTreeSet;

use flopsmith_protocol::Technique;

use super::super::Detected;
use super::super::facts::{LoopId, Place, Write};
use super::roles::Nest;

/// The branches of the reference, by the outputs that the values of their statements reach.
#[derive(Debug, Default)]
pub(in super::super) struct Branches {
    outputs: BTreeSet<usize>,
}

impl Branches {
    pub(super) fn of(nest: &Nest<'_>) -> Self {
        let outer = outer_loops(nest);
        let all = 0..nest.facts.writes.len();
        let taken = all.filter(|at| {
            let write = nest.write(*at);
            is_branch(write, &outer) && has_elements(write)
        });
        Self {
            outputs: taken.flat_map(|at| nest.outputs(at)).collect(),
        }
    }
}

pub(super) fn note(nest: &Nest<'_>, reference: &Branches, found: &mut Detected) {
    if reference.outputs.is_empty() {
        return;
    }
    let outer = outer_loops(nest);
    for output in &reference.outputs {
        let all = 0..nest.facts.writes.len();
        let reaching = all.filter(|at| nest.spend(1) && nest.outputs(*at).contains(output));
        let writes: Vec<&Write> = reaching.map(|at| nest.write(at)).collect();
        // Without a budget no branch is known to be gone.
        if writes.iter().any(|write| is_branch(write, &outer)) || !nest.spend(1) {
            continue;
        }
        let work = writes.into_iter().filter(|write| has_elements(write));
        if let Some(write) = work.max_by_key(|write| write.stack.len()) {
            found.note(
                Technique::BranchRemoval,
                write.line,
                "the reference has a condition in the innermost loop around a statement for this result, and the program has none",
            );
            return;
        }
    }
}

/// The loops with loops in them.
fn outer_loops(nest: &Nest<'_>) -> BTreeSet<LoopId> {
    let stacks = nest.facts.writes.iter().map(|write| &write.stack);
    let outer = stacks.filter_map(|stack| stack.split_last());
    outer.flat_map(|(_, outer)| outer.iter().copied()).collect()
}

/// True if a condition inside of an innermost loop is around a statement.
fn is_branch(write: &Write, outer: &BTreeSet<LoopId>) -> bool {
    let innermost = write.stack.last();
    write.conditional && innermost.is_some_and(|id| !outer.contains(id))
}

/// True if a statement in a loop takes elements of arrays.
fn has_elements(write: &Write) -> bool {
    let is_element = |place: &Place| matches!(place, Place::Element(..));
    !write.stack.is_empty() && write.reads.iter().any(is_element)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_problem::{Language, Problem};
    use flopsmith_protocol::{Technique, TechniqueSet};

    use crate::detect::detect;
    use crate::scan::UserText;

    fn is_removed(name: &str, functions: &str, body: &str) -> bool {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let mut problem = Problem::load(&root.join(name)).unwrap();
        let prototype = problem.entry.prototype.trim_end_matches(';');
        let text = format!("{functions}\n{prototype} {{\n{body}\n}}\n");
        let user = UserText {
            lines: (1..).take(text.lines().count() + 1).collect(),
            text,
        };
        let found = |problem: &Problem| {
            let found = detect(&user, &[], problem, Language::C).unwrap();
            found.techniques().contains(Technique::BranchRemoval)
        };
        // A problem that does not list the technique has no programs with it.
        assert!(!found(&problem));
        problem.techniques = TechniqueSet::all();
        found(&problem)
    }

    /// All shortest paths with this statement for the path through `k`.
    fn in_paths(functions: &str, relax: &str) -> bool {
        is_removed(
            "floyd_warshall",
            functions,
            &format!(
                "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) length[i * n + j] = i == j ? 0 : weight[i * n + j];\n\
                 for (int k = 0; k < n; k++) for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {{\n\
                 int way = length[i * n + k] + length[k * n + j];\n{relax}\n}}"
            ),
        )
    }

    #[test]
    fn a_value_that_an_expression_chooses_has_no_branch() {
        assert!(in_paths(
            "",
            "length[i * n + j] = way < length[i * n + j] ? way : length[i * n + j];"
        ));
        assert!(in_paths(
            "static int lower(int a, int b) { if (a < b) return a; return b; }",
            "length[i * n + j] = lower(way, length[i * n + j]);"
        ));
        assert!(in_paths(
            "",
            "int less = -(way < length[i * n + j]);\nlength[i * n + j] = (way & less) | (length[i * n + j] & ~less);"
        ));
    }

    #[test]
    fn a_jump_in_a_function_ends_with_its_call() {
        assert!(in_paths(
            "static void look(int way) { if (way < 0) return; }",
            "look(way);\nlength[i * n + j] = way < length[i * n + j] ? way : length[i * n + j];"
        ));
    }

    #[test]
    fn a_condition_in_the_innermost_loop_is_a_branch() {
        assert!(!in_paths(
            "",
            "if (way < length[i * n + j]) length[i * n + j] = way;"
        ));
        assert!(!in_paths(
            "static void relax(int *x, int way) { if (way < *x) *x = way; }",
            "relax(&length[i * n + j], way);"
        ));
        // Statements behind a jump run under its condition.
        assert!(!in_paths(
            "",
            "if (way >= length[i * n + j]) continue;\nlength[i * n + j] = way;"
        ));
        assert!(!in_paths(
            "static void relax(int *x, int way) { if (way >= *x) return; *x = way; }",
            "relax(&length[i * n + j], way);"
        ));
    }

    #[test]
    fn a_condition_around_the_innermost_loop_is_no_branch_within() {
        let inner = "out[o] = 0.25 * in[o] + 0.125 * (in[o - 1] + in[o + 1] + in[o - w] + in[o + w] + in[o - h * w] + in[o + h * w]);";
        let nest = |condition: &str, inner: &str| {
            is_removed(
                "stencil3d",
                "",
                &format!(
                    "memcpy(out, in, sizeof *out * d * h * w);\n\
                     for (int z = 1; z < d - 1; z++) for (int y = 0; y < h; y++) {condition}\n\
                     for (int x = 1; x < w - 1; x++) {{ int o = (z * h + y) * w + x;\n{inner} }}"
                ),
            )
        };
        assert!(nest("if (y > 0 && y < h - 1)", inner));
        let guarded = format!("if (y > 0 && y < h - 1) {inner}");
        assert!(!nest("", &guarded));
    }
}
