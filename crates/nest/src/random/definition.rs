//! `problem.toml` of a nest: arguments, sizes, inputs, bound, cost and prompt.

use std::fmt::Write as _;

use flopsmith_problem::{Element, Role};

use super::accuracy::{Accuracy, of_results};
use super::model::{Array, Nest, Size, Statement, Update};
use super::text::{extent, ordered, prototype, words};

/// Factors of the bound, as the shipped problems have them.
const C_DOUBLE: u32 = 4;
const C_SINGLE: u32 = 2;
/// A result of one operation is rounded, and its reference is.
const FEWEST_OPERATIONS: u32 = 2;

/// The suite of all random nests.
pub(super) const SUITE: &str = "random";

/// `problem.toml`.
pub(super) fn definition(nest: &Nest, entry: &str, seed: u64) -> String {
    let accuracy = of_results(nest);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "title = \"random loop nest {seed}: {}\"\nsuite = \"{SUITE}\"\nlanguage = \"c\"\ntechniques = [{}]\nthreads = [1, 2]\ndeterministic = true\nmax_source_bytes = 16384\nprompt = \"\"\"\n{}\"\"\"\n\n",
        title(nest),
        quoted(&techniques(nest)),
        prompt(nest, &accuracy),
    );
    let _ = write!(
        text,
        "[entry]\nname = \"{entry}\"\nprototype = \"{};\"\nargs = [\n{}]\n",
        prototype(nest, entry),
        arguments(nest),
    );
    for (name, value) in [("even", even as fn(&Size) -> i64), ("odd", odd)] {
        let _ = write!(text, "\n[[timed]]\nname = \"{name}\"\n");
        for size in &nest.sizes {
            let _ = writeln!(text, "{} = {}", size.name, value(size));
        }
    }
    let visible: Vec<String> = nest
        .sizes
        .iter()
        .map(|s| format!("{} = {}", s.name, s.even))
        .collect();
    let _ = write!(
        text,
        "\n[verify]\nvisible = [{{ {} }}]\nhidden = [\n",
        visible.join(", ")
    );
    for size in &nest.sizes {
        let _ = writeln!(
            text,
            "  {{ param = \"{}\", multiple_of = 1, min = 1, max = {} }},",
            size.name, size.most
        );
    }
    let _ = write!(
        text,
        "]\ndistributions = [{}]\n\n[compile]\nincludes = [\"stddef.h\", \"stdint.h\", \"stdlib.h\", \"string.h\", \"math.h\", \"immintrin.h\", \"omp.h\"]\nflags = [\"-O3\", \"-march=native\", \"-fopenmp\", \"-falign-functions=64\", \"-falign-loops=64\"]\n",
        quoted(&distributions(nest)),
    );
    if nest.statements.iter().any(|s| s.sums > 0) {
        text.push_str(
            "# A library's product would be an answer that nobody wrote.\nforbid = [\"matmul\"]\n",
        );
    }
    let _ = write!(
        text,
        "\n[cost]\nwork = \"{}\"\nbytes = \"{}\"\n",
        work(nest),
        bytes(nest)
    );
    text.push_str(&bound(nest, &accuracy));
    text
}

fn even(size: &Size) -> i64 {
    size.even
}

fn odd(size: &Size) -> i64 {
    size.odd
}

fn quoted(words: &[&str]) -> String {
    let each: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    each.join(", ")
}

fn title(nest: &Nest) -> String {
    let loops = nest.statements.iter().map(|s| s.loops.len()).max();
    let counted = |n: usize, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    format!(
        "{} of {}, {}",
        counted(nest.statements.len(), "statement"),
        numbers(nest),
        counted(loops.unwrap_or(0), "loop")
    )
}

/// The numbers of the arrays in words.
fn numbers(nest: &Nest) -> &'static str {
    match nest.element {
        Element::F32 => "floats",
        Element::I32 => "32-bit integers",
        _ => "doubles",
    }
}

/// Techniques that can pay for such loops.
fn techniques(nest: &Nest) -> Vec<&'static str> {
    let deep = nest.statements.iter().any(|s| s.loops.len() > 1);
    let product = nest
        .statements
        .iter()
        .any(|s| s.loops.len() > 2 && s.sums > 0);
    let all = [
        ("loop_reorder", deep),
        ("unroll", true),
        ("cache_blocking", deep),
        ("register_blocking", deep),
        ("packing", product),
        ("simd", true),
        ("openmp", true),
        ("prefetch", true),
    ];
    all.into_iter()
        .filter(|(_, fits)| *fits)
        .map(|(name, _)| name)
        .collect()
}

/// Kinds of inputs that stay within the range of the type and leave the bound its meaning.
fn distributions(nest: &Nest) -> Vec<&'static str> {
    if !nest.floats() {
        return vec!["uniform", "zero_one", "zero_rows", "negated", "few"];
    }
    let inputs = || nest.arrays.iter().filter(|a| a.role != Role::Output);
    let matrix = inputs().any(|a| a.extents.len() > 1);
    let sums = nest.statements.iter().any(|s| s.sums > 0);
    // Tiny and huge numbers of single precision are no further from 1 than those of scaled rows.
    let wide = nest.element == Element::F64;
    let all = [
        ("uniform", true),
        ("scaled_rows", true),
        ("scaled_columns", true),
        ("checkered", matrix && sums),
        ("zero_one", true),
        ("zero_rows", true),
        ("negated", true),
        ("tiny", wide),
        ("huge", wide),
    ];
    all.into_iter()
        .filter(|(_, fits)| *fits)
        .map(|(name, _)| name)
        .collect()
}

fn arguments(nest: &Nest) -> String {
    let element = element(nest);
    let mut text = String::new();
    for size in &nest.sizes {
        let _ = writeln!(text, "  {{ name = \"{0}\", int = \"{0}\" }},", size.name);
    }
    for name in &nest.scalars {
        let _ = writeln!(
            text,
            "  {{ name = \"{name}\", scalar = \"{element}\", low = \"0.5\", high = \"2.0\" }},"
        );
    }
    for array in ordered(nest) {
        let role = match array.role {
            Role::Input => "input",
            Role::Output => "output",
            Role::InOut => "inout",
        };
        let shape: Vec<String> = array.extents.iter().map(|e| extent(nest, *e)).collect();
        let shape: Vec<&str> = shape.iter().map(String::as_str).collect();
        let graded = match array.graded {
            true => ", graded = true",
            false => "",
        };
        let _ = writeln!(
            text,
            "  {{ name = \"{}\", element = \"{element}\", role = \"{role}\", shape = [{}], align = 64{graded} }},",
            array.name,
            quoted(&shape),
        );
    }
    text
}

fn element(nest: &Nest) -> &'static str {
    match nest.element {
        Element::F32 => "f32",
        Element::I32 => "i32",
        _ => "f64",
    }
}

/// Operations of one call.
fn work(nest: &Nest) -> String {
    let mut terms = Vec::new();
    for statement in &nest.statements {
        let whole = u32::from(statement.whole.is_some());
        let old = match statement.update {
            Update::Set => 0,
            Update::Add => 1,
            Update::Scale(_) => 2,
        };
        let each = statement.value.operations();
        if statement.sums == 0 {
            terms.push((each + old, product(nest, statement, statement.loops.len())));
            continue;
        }
        // The first term of a sum needs no addition, and the old value is one more term.
        let scale = whole + u32::from(matches!(statement.update, Update::Scale(_)));
        terms.push((each + 1, product(nest, statement, statement.loops.len())));
        terms.push((scale, product(nest, statement, statement.outer())));
    }
    let terms: Vec<String> = terms
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, product)| match count {
            1 => product,
            count => format!("{count}*{product}"),
        })
        .collect();
    terms.join("+")
}

/// The number of iterations of the outermost loops.
fn product(nest: &Nest, statement: &Statement, loops: usize) -> String {
    let all = statement.loops.iter().take(loops);
    let ended: Vec<usize> = all.clone().filter_map(|l| l.up_to).collect();
    let mut factors = Vec::new();
    for (number, one) in all.enumerate() {
        let name = nest.sizes[one.size].name;
        match (one.up_to, ended.contains(&number)) {
            // It is counted together with the loop that ends at its iterator.
            (None, true) => {}
            (None, false) => factors.push(name.to_owned()),
            (Some(_), _) => factors.push(format!("{name}*({name}+1)/2")),
        }
    }
    factors.join("*")
}

/// Bytes that one call must move.
fn bytes(nest: &Nest) -> String {
    let of = |array: &Array| {
        let factors = array.extents.iter().map(|e| {
            let text = extent(nest, *e);
            match text.contains('+') {
                true => format!("({text})"),
                false => text,
            }
        });
        let factors: Vec<String> = factors.collect();
        let twice = match array.role {
            Role::InOut => "2*",
            Role::Input | Role::Output => "",
        };
        format!("{twice}{}", factors.join("*"))
    };
    let all: Vec<String> = ordered(nest).map(of).collect();
    format!("{}*({})", nest.element.size(), all.join("+"))
}

/// `[bound]`.
fn bound(nest: &Nest, accuracy: &Accuracy) -> String {
    if !nest.floats() {
        return "\n# Whole numbers have one right result.\n[bound]\nkind = \"exact\"\n".to_owned();
    }
    let sums = under_root(nest, accuracy, "*");
    let root = sums
        .map(|sums| format!("+sqrt({sums})"))
        .unwrap_or_default();
    format!(
        "\n# Componentwise: magnitude.c has the terms of each element. Errors of a sum have either sign, so those of n terms add up to some of\n# √n roundings.\n[bound]\nkind = \"scaled\"\nc = {}.0\noperations = \"{}{root}\"\n",
        constant(nest),
        fixed(accuracy),
    )
}

fn constant(nest: &Nest) -> u32 {
    match nest.element {
        Element::F32 => C_SINGLE,
        _ => C_DOUBLE,
    }
}

fn fixed(accuracy: &Accuracy) -> u32 {
    accuracy.fixed.max(FEWEST_OPERATIONS)
}

/// The lengths of all sums on the way to an element, added up.
fn under_root(nest: &Nest, accuracy: &Accuracy, times: &str) -> Option<String> {
    let terms = accuracy.sums.iter().map(|(sizes, count)| {
        let mut factors: Vec<String> = Vec::new();
        if *count > 1 {
            factors.push(count.to_string());
        }
        factors.extend(sizes.iter().map(|n| nest.sizes[*n].name.to_owned()));
        factors.join(times)
    });
    let terms: Vec<String> = terms.collect();
    (!terms.is_empty()).then(|| terms.join("+"))
}

/// The text of the full prompt.
fn prompt(nest: &Nest, accuracy: &Accuracy) -> String {
    let mut text = format!(
        "Compute as fast as this machine can, with row-major arrays of {}",
        numbers(nest)
    );
    let statements: Vec<String> = nest.statements.iter().map(|s| words(nest, s)).collect();
    text.push_str(match statements.len() {
        1 => ":\n",
        _ => " and in this order:\n",
    });
    let _ = writeln!(text, "{}.", statements.join(";\n"));
    let shapes: Vec<String> = ordered(nest)
        .map(|array| {
            let extents: Vec<String> = array.extents.iter().map(|e| extent(nest, *e)).collect();
            match extents.as_slice() {
                [only] => format!("{} has {only} elements", array.name),
                several => format!("{} is {}", array.name, several.join(" × ")),
            }
        })
        .collect();
    let sizes: Vec<&str> = nest.sizes.iter().map(|s| s.name).collect();
    let _ = writeln!(
        text,
        "{}; any {} from 1.",
        shapes.join(", "),
        listed(&sizes)
    );
    let of = |role: Role| -> Vec<&str> {
        let all = nest.arrays.iter().filter(|a| a.role == role);
        all.map(|a| a.name).collect()
    };
    let outputs = of(Role::Output);
    text.push_str("The buffers are 64-byte aligned and do not overlap");
    if !outputs.is_empty() {
        let _ = write!(
            text,
            "; the old content of {} is undefined",
            listed(&outputs)
        );
    }
    if !nest.scalars.is_empty() {
        let lie = if nest.scalars.len() == 1 {
            "lies"
        } else {
            "lie"
        };
        let _ = write!(text, "; {} {lie} between 0.5 and 2", listed(&nest.scalars));
    }
    text.push_str(". Scratch memory may come from malloc.\n");
    if !nest.floats() {
        text.push_str("The results must be exact; no sum overflows.");
        return text;
    }
    let factor = match under_root(nest, accuracy, "·") {
        Some(sums) => format!("{}·({}+√({sums}))", constant(nest), fixed(accuracy)),
        None => format!("{}", constant(nest) * fixed(accuracy)),
    };
    let eps = match nest.element {
        Element::F32 => ", eps = 2^-23",
        _ => "",
    };
    let results: Vec<&str> = ordered(nest)
        .filter(|a| a.role != Role::Input)
        .map(|a| a.name)
        .collect();
    let _ = write!(
        text,
        "Each element of {} must be within {factor}·eps of the same terms without signs: absolute values of all numbers, and sums in the place of differences{eps}.",
        listed(&results)
    );
    text
}

/// Names for a sentence.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}
