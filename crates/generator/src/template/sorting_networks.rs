//! Rows sorted by networks: each row of a group stands in a column of its own, and all columns are compared together.

use std::fmt::Write as _;

use flopsmith_protocol::{Technique, TechniqueSet};

use super::network::{Part, bitonic, odd_even, parts};
use super::text::{filled, joined, lines};
use super::{Kernel, declare};

declare! {
    /// 0: bitonic merges; 1: odd-even merges, with fewer comparisons.
    network = [(0, 0.0), (1, 0.1)];
    /// Rows that are sorted together.
    columns = [(8, 0.0), (16, 0.3), (32, 0.1)];
    /// Numbers of a row that are compared without memory in between.
    registers = [(4, 0.0), (8, 0.2), (16, 0.2)];
    /// Side of the square blocks that shuffles of vectors transpose; 0: element by element.
    turn = [(0, -0.3), (4, 0.0), (8, 0.2), (16, 0.2)];
    /// 1: the comparisons are compiled into every place that uses them.
    inlined = [(0, 0.0), (1, 0.1)];
    /// 1: threads share the groups of rows.
    openmp = [(0, 0.0), (1, 0.0)];
}

fn is_legal(kernel: &Kernel, values: &[u32]) -> bool {
    let v = Values::of(values);
    v.turn <= v.columns.min(kernel.row) && v.registers <= kernel.row
}

fn techniques(_: &Kernel, values: &[u32]) -> TechniqueSet {
    let v = Values::of(values);
    let mut set = TechniqueSet::EMPTY
        .with(Technique::Simd)
        .with(Technique::Packing);
    if v.openmp > 0 {
        set = set.with(Technique::Openmp);
    }
    set
}

fn write(kernel: &Kernel, values: &[u32]) -> String {
    let v = Values::of(values);
    let layers = match v.network {
        0 => bitonic(kernel.row),
        _ => odd_even(kernel.row),
    };
    let (orders, calls) = comparisons(&v, &parts(&layers, kernel.row, v.registers as usize));
    let text = "@turn@
@orders@
/* Sorts @columns@ rows: in columns, all together. `out` may be `in`. */
static void @e@_rows(const int *in, int *out)
{
    int x[@row@][@columns@] __attribute__((aligned(64)));
@there@
@calls@
@back@
}

static void @e@_all(int batch, const int *in, int *out)
{
    int whole = batch / @columns@, left = batch % @columns@;
@parallel@
    for (int g = 0; g < whole; g++)
        @e@_rows(&in[g * @group@L], &out[g * @group@L]);
    if (left > 0) {
        /* Rows that are not there are copies of the last one and not stored. */
        int rest[@columns@ * @row@];
        const int *from = &in[whole * @group@L];
        int *to = &out[whole * @group@L];
        for (int c = 0; c < @columns@; c++)
            for (int i = 0; i < @row@; i++)
                rest[c * @row@ + i] = from[(c < left ? c : left - 1) * @row@ + i];
        @e@_rows(rest, rest);
        for (int i = 0; i < left * @row@; i++)
            to[i] = rest[i];
    }
}

@prototype@
{
    @e@_all(@arguments@);
}
";
    let (there, back) = transposition(&v);
    let turn = match v.turn {
        0 => String::new(),
        side => turning(side),
    };
    let parallel = match v.openmp {
        0 => "",
        _ => "#pragma omp parallel for schedule(static)",
    };
    let arguments = kernel.args.join(", ");
    filled(
        text,
        &[
            ("turn", &turn),
            ("orders", &orders),
            ("there", &there),
            ("calls", &calls),
            ("back", &back),
            ("e", &kernel.name),
            ("row", &kernel.row),
            ("columns", &v.columns),
            ("group", &(v.columns * kernel.row)),
            ("side", &v.turn),
            ("parallel", &parallel),
            ("prototype", &kernel.prototype),
            ("arguments", &arguments),
        ],
    )
}

/// Functions for the kinds of parts, and their calls.
fn comparisons(v: &Values, parts: &[Part]) -> (String, String) {
    let mut kinds: Vec<&Part> = Vec::new();
    let (mut functions, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        let alike = |kind: &&Part| {
            kind.elements.len() == part.elements.len() && kind.comparators == part.comparators
        };
        let number = match kinds.iter().position(alike) {
            Some(number) => number,
            None => {
                kinds.push(part);
                functions.push(order(v, kinds.len() - 1, part));
                kinds.len() - 1
            }
        };
        let places: Vec<String> = part.elements.iter().map(u32::to_string).collect();
        calls.push(format!("    @e@_order{number}(x, {});", places.join(", ")));
    }
    (functions.join("\n"), calls.join("\n"))
}

/// The function that compares and exchanges the elements of a part in all columns.
fn order(v: &Values, number: usize, part: &Part) -> String {
    let count = part.elements.len() as u32;
    let how = match v.inlined {
        0 => "__attribute__((noinline))",
        _ => "inline __attribute__((always_inline))",
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "static {how} void @e@_order{number}(int (*x)[@columns@], {})\n{{\n#pragma omp simd\n    for (int c = 0; c < @columns@; c++) {{\n        int t, {};",
        joined(count, ", ", |n| format!("int e{n}")),
        joined(count, ", ", |n| format!("v{n} = x[e{n}][c]"))
    );
    for (a, b) in &part.comparators {
        let _ = writeln!(
            text,
            "        t = v{a}, v{a} = t < v{b} ? t : v{b}, v{b} = t < v{b} ? v{b} : t;"
        );
    }
    let _ = writeln!(
        text,
        "{}\n    }}\n}}",
        lines(count, 2, |n| format!("x[e{n}][c] = v{n};"))
    );
    text
}

/// The copies of rows to columns and back.
fn transposition(v: &Values) -> (&'static str, &'static str) {
    if v.turn == 0 {
        return (
            "    for (int c = 0; c < @columns@; c++)
        for (int i = 0; i < @row@; i++)
            x[i][c] = in[c * @row@ + i];",
            "    for (int c = 0; c < @columns@; c++)
        for (int i = 0; i < @row@; i++)
            out[c * @row@ + i] = x[i][c];",
        );
    }
    (
        "    for (int c = 0; c < @columns@; c += @side@)
        for (int i = 0; i < @row@; i += @side@)
            @e@_turn(&in[c * @row@ + i], @row@, &x[i][c], @columns@);",
        "    for (int c = 0; c < @columns@; c += @side@)
        for (int i = 0; i < @row@; i += @side@)
            @e@_turn(&x[i][c], @columns@, &out[c * @row@ + i], @row@);",
    )
}

/// The transposition of a square block. Interleaving the first half of the rows with the second half moves the highest
/// bit of the row's number to the lowest bit of the column's; after as many rounds as there are bits, the two have
/// changed places.
fn turning(side: u32) -> String {
    let half = side / 2;
    let zip = |from: u32| joined(half, ", ", |n| format!("{}, {}", from + n, from + n + side));
    let mut text = format!(
        "typedef int @e@_vec __attribute__((vector_size({}), aligned(4), may_alias));

#define @e@_low(a, b) __builtin_shufflevector(a, b, {})
#define @e@_high(a, b) __builtin_shufflevector(a, b, {})

/* Transposes a square block; `apart` and `away` are the distances of its rows. */
static inline void @e@_turn(const int *from, int apart, int *to, int away)
{{
    @e@_vec {};
",
        4 * side,
        zip(0),
        zip(half),
        joined(side, ", ", |n| format!(
            "a{n} = *(const @e@_vec *)&from[{n} * apart]"
        )),
    );
    let names = ["a", "b"];
    let rounds = side.ilog2();
    for round in 0..rounds {
        let (a, b) = (names[round as usize % 2], names[(round as usize + 1) % 2]);
        let declared = if round == 0 { "@e@_vec " } else { "" };
        let assigned = joined(half, ", ", |n| {
            format!(
                "{b}{} = @e@_low({a}{n}, {a}{2}), {b}{} = @e@_high({a}{n}, {a}{2})",
                2 * n,
                2 * n + 1,
                n + half,
            )
        });
        let _ = writeln!(text, "    {declared}{assigned};");
    }
    let last = names[rounds as usize % 2];
    let _ = writeln!(
        text,
        "{}\n}}",
        lines(side, 1, |n| format!(
            "*(@e@_vec *)&to[{n} * away] = {last}{n};"
        ))
    );
    text
}
