//! Cheats that are right for some sizes only. The commit chooses one half of them; `make verify` tries all.
//!
//! Benchmarks that check a program at one size and time it at another, such as ParEval, have a hole: a program that is
//! right at the checked size may do nothing at the timed size, and be the fastest of all.

use flopsmith_protocol::CandidateFault as F;

use super::form::{Form, room};
use super::kinds::{Cheat, always};

pub static SIZES: [Cheat; 5] = [
    Cheat {
        name: "returns_at_once_above_the_visible_sizes",
        ways: &[9, 12],
        faults: &[F::WrongResult],
        senseless: always,
        source: |form| nothing_where(form, &form.above_visible()),
    },
    Cheat {
        name: "returns_at_once_at_the_timed_size",
        ways: &[5, 12],
        faults: &[F::WrongResult],
        senseless: always,
        source: |form| nothing_where(form, &form.timed()),
    },
    Cheat {
        name: "half_left_out_from_the_timed_size_on",
        ways: &[12],
        faults: &[F::WrongResult],
        senseless: always,
        source: |form| half_where(form, &form.taken_from_timed()),
    },
    Cheat {
        name: "half_left_out_above_the_timed_size",
        ways: &[12],
        faults: &[F::WrongResult],
        senseless: always,
        source: |form| half_where(form, &form.above_timed()),
    },
    Cheat {
        name: "right_at_the_timed_size_only",
        ways: &[9, 12],
        faults: &[F::WrongResult],
        senseless: always,
        source: |form| half_where(form, &format!("!({})", form.timed())),
    },
];

/// Does nothing if a condition holds.
fn nothing_where(form: &Form, condition: &str) -> String {
    let body = format!("  if ({condition}) return;\n{}", form.compute("", "", ""));
    form.program("", &body)
}

/// Leaves the second half of the outputs unchanged if a condition holds.
fn half_where(form: &Form, condition: &str) -> String {
    let body = format!(
        "  if (!({condition})) {{\n{}  return;\n  }}\n{}{}",
        form.compute("", "", ""),
        form.compute("", "fresh_", ""),
        form.put("fresh_", "", " / 2")
    );
    form.program(&room(&form.outputs, "fresh_", ""), &body)
}
