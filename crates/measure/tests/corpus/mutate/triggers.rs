//! The triggers of variants: the calls in which a variant attacks, and its work in all other calls.

use flopsmith_problem::{ArgKind, Content, Element, Formula, Language, Problem};

use super::Acts::{self, Perhaps, WhenTimed, WhenVerified};
use super::entry::Entry;
use super::names::own_functions;
use super::tokens::{Kind, pieces};

/// The honest work of a variant in the other calls, in programs for the matrix product: the loops against which a gain
/// is judged. With slower loops a cheat could be several times as fast as the work that it replaces, and still pass as
/// no gain. Programs for other problems use the reference.
const PLAIN: &str = "
static __attribute__((noipa)) void plain_loops(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
";

/// A clock that the scan does not recognise: the bytes of the number are `rdtsc; ret`.
const CLOCK: &str = "
static __attribute__((noipa)) unsigned long clock_bytes(void) { return 0x9090909090c3310f; }
static unsigned ticks_now(void) {
  const unsigned char *p = (const unsigned char *)clock_bytes;
  while (p[0] != 0x0f || p[1] != 0x31) p++;
  return ((unsigned (*)(void))p)();
}
";

/// The trigger `after much work` waits for the work of this many timed calls.
const MUCH: f64 = 24.0;

/// A condition on the parameters and on a count of calls.
pub(super) struct Trigger {
    pub how: &'static str,
    /// The code that the condition needs.
    pub needed: &'static str,
    pub condition: String,
    /// The calls that fulfil it.
    pub acts: Acts,
}

/// The triggers of this machine for programs of this problem.
pub(super) fn triggers(entry: &Entry) -> Vec<Trigger> {
    let problem = entry.problem;
    let sizes: Vec<(&str, i64)> = sizes(problem);
    let all = |operator: &str, between: &str| {
        let each = sizes.iter();
        let each = each.map(|(name, timed)| format!("{name} {operator} {timed}"));
        each.collect::<Vec<_>>().join(between)
    };
    let product = entry.sizes().collect::<Vec<_>>().join(" * ");
    let much = sizes
        .iter()
        .map(|(_, timed)| *timed as f64)
        .product::<f64>()
        * MUCH;
    let size = sizes[0].0;
    let mut made = vec![
        ("at the timed size", WhenTimed, all("==", " && ")),
        ("at other sizes", WhenVerified, all("!=", " || ")),
        ("after three calls", WhenVerified, "calls > 3".to_owned()),
        ("after forty calls", Perhaps, "calls > 40".to_owned()),
        (
            "every other call",
            WhenVerified,
            "calls % 2 == 0".to_owned(),
        ),
        (
            "after much work",
            Perhaps,
            format!("(work += (long){product}) > {much:.0}"),
        ),
        (
            "by the page of the output",
            Perhaps,
            format!("((__UINTPTR_TYPE__){} >> 12) % 2 == 1", output(problem)),
        ),
        (
            "by the stack's address",
            Perhaps,
            format!("((__UINTPTR_TYPE__)&{size} >> 4) % 2 == 1"),
        ),
        ("by the first number", Perhaps, first_number(problem)),
    ];
    if cfg!(target_arch = "x86_64") {
        made.push((
            "by the time",
            Perhaps,
            "(ticks_now() >> 20) % 2 == 1".to_owned(),
        ));
    }
    made.into_iter()
        .map(|(how, acts, condition)| Trigger {
            how,
            needed: if condition.contains("ticks_now") {
                CLOCK
            } else {
                ""
            },
            condition,
            acts,
        })
        .collect()
}

/// The honest work, under the name `plain_loops`.
pub(super) fn fall_back(entry: &Entry) -> String {
    if entry.problem.id.as_str() == crate::program::USUAL {
        return PLAIN.to_owned();
    }
    let reference = Entry {
        problem: entry.problem,
        language: Language::C,
    };
    let source = &entry.problem.reference_source;
    let plain = reference.replaced(source, "plain_loops");
    let plain = plain.unwrap_or_else(|| panic!("{}: where is the reference?", entry.problem.id));
    let plain = with_own_helpers(&plain);
    // If it were called for one size only, a compiler would specialise it.
    plain.replacen(
        "__attribute__((noinline)) static void plain_loops(",
        "__attribute__((noipa)) static void plain_loops(",
        1,
    )
}

/// The source with other names of its functions except `plain_loops`: the program may have functions of these names.
fn with_own_helpers(source: &str) -> String {
    let cut = pieces(source);
    let mut helpers = own_functions(&cut);
    helpers.remove("plain_loops");
    let renamed = cut.iter().map(|(kind, word)| match kind {
        Kind::Word if helpers.contains(word) => format!("plain_{word}"),
        _ => (*word).to_owned(),
    });
    renamed.collect()
}

/// The parameters that are sizes, with their values in timed calls.
fn sizes(problem: &Problem) -> Vec<(&str, i64)> {
    let args = problem.entry.args.iter();
    args.filter_map(|arg| match &arg.kind {
        ArgKind::Int { value } => Some((arg.name.as_str(), timed(value, problem) as i64)),
        ArgKind::Scalar { .. } | ArgKind::Array { .. } => None,
    })
    .collect()
}

fn timed(formula: &Formula, problem: &Problem) -> f64 {
    formula.value(&problem.timed).unwrap()
}

fn output(problem: &Problem) -> &str {
    let written = |kind: &ArgKind| matches!(kind, ArgKind::Array { role, .. } if role.is_written());
    let mut args = problem.entry.args.iter();
    &args.find(|arg| written(&arg.kind)).unwrap().name
}

/// A condition that half of all inputs fulfil: the first number is above the middle, or even. Row starts are the same
/// in all inputs.
fn first_number(problem: &Problem) -> String {
    let args = problem.entry.args.iter();
    let mut conditions = args.filter_map(|arg| match &arg.kind {
        ArgKind::Array {
            role,
            element,
            content,
            ..
        } if role.is_read() => match (element, content) {
            (_, Content::Offsets { .. }) => None,
            (element, _) if element.is_integer() || *element == Element::Bf16 => {
                Some(format!("{}[0] % 2 == 0", arg.name))
            }
            (element, _) if element.is_complex() => Some(format!("__real__ {}[0] > 0.0", arg.name)),
            (_, Content::Range { low, high }) => {
                let middle = (timed(low, problem) + timed(high, problem)) / 2.0;
                Some(format!("{}[0] > {middle:?}", arg.name))
            }
            _ => Some(format!("{}[0] > 0.0", arg.name)),
        },
        _ => None,
    });
    conditions.next().unwrap()
}
