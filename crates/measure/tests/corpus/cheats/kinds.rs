//! The kinds of cheats. Each represents one way of cheating, for any computation.

use flopsmith_problem::Element;
use flopsmith_protocol::CandidateFault as F;

use super::form::{Array, Form, room};

/// A cheat for any problem.
pub struct Cheat {
    pub name: &'static str,
    /// The numbers of its ways of cheating (see the corpus).
    pub ways: &'static [u32],
    /// The faults for which the pipeline must refuse it; empty for an honest program, which must be measured.
    pub faults: &'static [F],
    /// The reason why it does not cheat in a problem, if it does not.
    pub senseless: fn(&Form) -> Option<&'static str>,
    pub source: fn(&Form) -> String,
}

/// The cheats that concern not only sizes (`sizes` has the others), and one right program of the same form.
pub static CHEATS: [Cheat; 16] = [
    Cheat {
        name: "cached_by_pointer",
        ways: &[7],
        faults: &[F::SkippedWork, F::WrongResult],
        senseless: always,
        source: cached_by_pointer,
    },
    Cheat {
        name: "cached_by_two_numbers",
        ways: &[7],
        faults: &[F::SkippedWork, F::WrongResult],
        senseless: always,
        source: cached_by_two_numbers,
    },
    Cheat {
        name: "only_what_seems_to_have_changed",
        ways: &[7],
        faults: &[F::SkippedWork],
        senseless: always,
        source: only_what_seems_to_have_changed,
    },
    Cheat {
        name: "kept_by_all_of_its_content",
        ways: &[],
        faults: &[],
        senseless: always,
        source: kept_by_all_of_its_content,
    },
    Cheat {
        name: "one_call_late",
        ways: &[2, 8],
        faults: &[F::SkippedWork],
        senseless: always,
        source: one_call_late,
    },
    Cheat {
        name: "nothing",
        ways: &[8],
        faults: &[F::WrongResult],
        senseless: always,
        source: |form| form.program("", ""),
    },
    Cheat {
        name: "old_output",
        ways: &[8, 5],
        faults: &[F::SkippedWork],
        senseless: always,
        source: old_output,
    },
    Cheat {
        name: "every_other_call",
        ways: &[5],
        faults: &[F::WrongResult],
        senseless: always,
        source: every_other_call,
    },
    Cheat {
        name: "every_other_call_when_timed",
        ways: &[5],
        faults: &[F::SkippedWork],
        senseless: always,
        source: every_other_call_when_timed,
    },
    Cheat {
        name: "half_from_the_call_before",
        ways: &[8, 13],
        faults: &[F::SkippedWork],
        senseless: |form| {
            let halves = form.outputs.iter().any(|array| array.most > 1);
            (!halves).then_some("a single number has no half")
        },
        source: half_from_the_call_before,
    },
    Cheat {
        name: "fewer_digits",
        ways: &[10],
        faults: &[F::WrongResult],
        senseless: of_integers,
        source: fewer_digits,
    },
    Cheat {
        name: "one_element_is_off",
        ways: &[10, 8],
        faults: &[F::WrongResult],
        senseless: always,
        source: |form| form.program("", &format!("{}{}", form.compute("", "", ""), off(form))),
    },
    Cheat {
        name: "one_element_is_off_when_timed",
        ways: &[10, 8],
        faults: &[F::SkippedWork],
        senseless: always,
        source: |form| {
            let body = format!(
                "{}  if ({}) {{\n{}  }}\n",
                form.compute("", "", ""),
                settled(form),
                off(form)
            );
            form.program(SETTLED, &body)
        },
    },
    Cheat {
        name: "changes_its_input",
        ways: &[14],
        faults: &[F::InputModified],
        senseless: |form| {
            let none = form.inputs.is_empty();
            none.then_some("every array that it reads may be changed")
        },
        source: changes_its_input,
    },
    Cheat {
        name: "behind_the_end",
        ways: &[11],
        faults: &[F::OutOfBounds],
        senseless: always,
        source: |form| {
            let Array { name, count, .. } = form.last_output();
            let body = format!("{}  {name}[{count}] = 0;\n", form.compute("", "", ""));
            form.program("", &body)
        },
    },
    Cheat {
        name: "one_element_is_no_number",
        ways: &[15],
        faults: &[F::WrongResult],
        senseless: of_integers,
        source: |form| {
            let (end, element) = (form.last_output().end(), form.last_output().element);
            let nan = match element {
                Element::Bf16 => "0x7fc0",
                _ => "0.0 / 0.0",
            };
            let body = format!("{}  {end} = {nan};\n", form.compute("", "", ""));
            form.program("", &body)
        },
    },
];

pub fn always(_: &Form) -> Option<&'static str> {
    None
}

fn of_integers(form: &Form) -> Option<&'static str> {
    let integers = form.is_of_integers();
    integers.then_some("an integer has no digits to lose and is always a number")
}

/// Verified calls of the timed size get their arrays at other addresses than the previous call.
const SETTLED: &str = "static int settled(const void *from, const void *to, int timed) {
  static const void *last_from, *last_to;
  int same = timed && from == last_from && to == last_to;
  last_from = timed ? from : 0;
  last_to = to;
  return same;
}
";

fn settled(form: &Form) -> String {
    let (from, to) = (&form.first().name, &form.last_output().name);
    format!("settled({from}, {to}, {})", form.timed())
}

fn cached_by_pointer(form: &Form) -> String {
    let before = format!(
        "static const void *known;\n{}{}",
        form.room_for_sizes(""),
        room(&form.outputs, "kept_", "")
    );
    let input = &form.first().name;
    let body = format!(
        "  if (known != {input} || !({})) {{\n{}  known = {input};\n{}  }}\n{}",
        form.same_sizes(""),
        form.compute("", "kept_", ""),
        form.keep_sizes(""),
        form.put("kept_", "", "")
    );
    form.program(&before, &body)
}

fn cached_by_two_numbers(form: &Form) -> String {
    let before = format!(
        "{}{}",
        form.room_for_sizes("[2]"),
        room(&form.outputs, "kept_", "[2]")
    );
    let input = form.varied();
    let (name, byte) = (&input.name, input.odd_byte());
    let slot = "[print]";
    let body = format!(
        "  int first = ((const unsigned char *){name})[{byte}], last = ((const unsigned char *)&{})[{byte}];
  int print = (first ^ last) & 1;\n  if (!({})) {{\n{}{}  }}\n{}",
        input.end(),
        form.same_sizes(slot),
        form.compute("", "kept_", slot),
        form.keep_sizes(slot),
        form.put("kept_", slot, "")
    );
    form.program(&before, &body)
}

/// If the changed bit of an input already had this value, the result stays the same as well.
fn only_what_seems_to_have_changed(form: &Form) -> String {
    let input = form.varied();
    let before = format!(
        "{SETTLED}static int changed(const void *now, const void *then) {{
  return (((const unsigned char *)now)[{byte}] ^ ((const unsigned char *)then)[{byte}]) & 1;
}}\n{}{}{}",
        room([input], "seen_", ""),
        room(&form.outputs, "fresh_", ""),
        room(&form.outputs, "kept_", ""),
        byte = input.odd_byte()
    );
    let Array { name, count, .. } = input;
    let mut body = format!(
        "  int again = {};\n{}",
        settled(form),
        form.compute("", "fresh_", "")
    );
    for output in &form.outputs {
        body += &format!(
            "  for (size_t at = 0; at < {}; at++)
    if (!again || changed(&{name}[at % ({count})], &seen_{name}[at % ({count})])) kept_{to}[at] = fresh_{to}[at];\n",
            output.count,
            to = output.name
        );
    }
    // Results may replace what was read.
    body += &format!("  memcpy(seen_{name}, {name}, sizeof *{name} * ({count}));\n");
    body += &form.put("kept_", "", "");
    form.program(&before, &body)
}

/// An honest program: it uses a kept result only for equal inputs. Timed inputs never repeat, so it gains nothing. It
/// shows that the pipeline refuses the other programs of this form for their cheats.
fn kept_by_all_of_its_content(form: &Form) -> String {
    let before = format!(
        "{}{}{}{}",
        form.room_for_sizes(""),
        form.room_for_scalars(),
        room(form.read(), "seen_", ""),
        room(&form.outputs, "kept_", "")
    );
    let copy = |to: &str, from: &str, Array { name, count, .. }: &Array| {
        format!("  memcpy({to}{name}, {from}{name}, sizeof *{name} * ({count}));\n")
    };
    let same: Vec<String> = form
        .read()
        .map(|Array { name, count, .. }| {
            format!("!memcmp(seen_{name}, {name}, sizeof *{name} * ({count}))")
        })
        .collect();
    let seen: String = form.read().map(|a| copy("seen_", "", a)).collect();
    let kept: String = form.outputs.iter().map(|a| copy("kept_", "", a)).collect();
    let body = format!(
        "  if ({}{} && {}) {{\n{}  return;\n  }}\n{seen}{}{}{}{kept}",
        form.same_scalars(),
        form.same_sizes(""),
        same.join(" && "),
        form.put("kept_", "", ""),
        form.compute("", "", ""),
        form.keep_sizes(""),
        form.keep_scalars()
    );
    form.program(&before, &body)
}

fn one_call_late(form: &Form) -> String {
    let before = format!("{SETTLED}{}", room(&form.outputs, "due_", ""));
    let put = form.put("due_", "", "");
    let body = format!(
        "  int late = {};\n  if (late) {{\n{put}  }}\n{}  if (!late) {{\n{put}  }}\n",
        settled(form),
        form.compute("", "due_", "")
    );
    form.program(&before, &body)
}

fn old_output(form: &Form) -> String {
    let body = format!(
        "  if ({}) return;\n{}",
        settled(form),
        form.compute("", "", "")
    );
    form.program(SETTLED, &body)
}

fn every_other_call(form: &Form) -> String {
    // Every verification makes at least six calls.
    let body = format!(
        "  static int calls;\n  if (++calls > 4 && calls % 2) return;\n{}",
        form.compute("", "", "")
    );
    form.program("", &body)
}

fn every_other_call_when_timed(form: &Form) -> String {
    let body = format!(
        "  static int calls;\n  if ({} && ++calls % 2) return;\n{}",
        settled(form),
        form.compute("", "", "")
    );
    form.program(SETTLED, &body)
}

fn half_from_the_call_before(form: &Form) -> String {
    let before = format!(
        "{SETTLED}{}{}",
        room(&form.outputs, "kept_", ""),
        room(&form.outputs, "fresh_", "")
    );
    let keep = |Array { name, count, .. }: &Array| {
        format!("  memcpy(kept_{name}, fresh_{name}, sizeof *{name} * ({count}));\n")
    };
    let kept: String = form.outputs.iter().map(keep).collect();
    let body = format!(
        "  int again = {};\n{}  if (again) {{\n{}{}  }} else {{\n{}  }}\n{kept}",
        settled(form),
        form.compute("", "fresh_", ""),
        form.put("kept_", "", ""),
        form.put("fresh_", "", " / 2"),
        form.put("fresh_", "", "")
    );
    form.program(&before, &body)
}

/// All that is read has half of its bytes: doubles those of a float, floats the upper two, and shorter ones half of their
/// digits.
fn fewer_digits(form: &Form) -> String {
    let floats = || form.read().filter(|a| a.element.is_float());
    let shorter = |array: &Array| {
        let (name, real) = (&array.name, array.real_type());
        let to = if array.in_place {
            name.clone()
        } else {
            format!("low_{name}")
        };
        let masked = |word: &str, mask: &str| {
            format!(
                "{{\n    {word} word;\n    memcpy(&word, (const {real} *){name} + at, sizeof word);\n    word &= {mask};\n    memcpy(({real} *){to} + at, &word, sizeof word);\n  }}"
            )
        };
        let each = match array.element {
            Element::F64 | Element::C128 => {
                format!("((double *){to})[at] = (float)((const double *){name})[at];")
            }
            Element::F16 => masked("unsigned short", "0xffe0u"),
            Element::Bf16 => masked("unsigned short", "0xfff8u"),
            _ => masked("unsigned", "0xffff0000u"),
        };
        format!(
            "  for (size_t at = 0; at < {}; at++) {each}\n",
            array.reals()
        )
    };
    let body = floats().map(shorter).collect::<String>() + &form.compute("low_", "", "");
    let copies = floats().filter(|array| !array.in_place);
    form.program(&room(copies, "low_", ""), &body)
}

/// Changes the last number of the last output by a small part of the largest one; an integer by one.
fn off(form: &Form) -> String {
    let output = form.last_output();
    let (name, end, real) = (&output.name, output.end(), output.real_type());
    let part = match output.element {
        Element::F64 | Element::C128 => "0x1p-16",
        Element::F32 | Element::C64 => "0x1p-6f",
        Element::F16 => "0x1p-3f",
        // The fourth digit.
        Element::Bf16 => return format!("  {end} ^= 8;\n"),
        Element::I32 | Element::I64 | Element::U8 => return format!("  {end} += 1;\n"),
    };
    let reals = output.reals();
    format!(
        "  {real} most = 0, *all = ({real} *){name};
  for (size_t at = 0; at < {reals}; at++) {{
    {real} size = all[at] < 0 ? -all[at] : all[at];
    if (size > most) most = size;
  }}\n  all[{reals} - 1] += most * {part};\n"
    )
}

fn changes_its_input(form: &Form) -> String {
    let input = form.inputs.last().unwrap();
    let (c_type, end) = (input.c_type(), input.end());
    let change = match input.element {
        Element::I32 | Element::I64 | Element::U8 | Element::Bf16 => "^= 1",
        _ => "= 0",
    };
    let body = format!(
        "{}  *({c_type} *)&{end} {change};\n",
        form.compute("", "", "")
    );
    form.program("", &body)
}
