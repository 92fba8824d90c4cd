//! Running sums: sums within vectors by shifted additions, and the sums of whole vectors carried from one to the next.

use flopsmith_protocol::{Technique, TechniqueSet};

use super::text::{filled, joined, lines};
use super::{Kernel, declare};

declare! {
    /// Bytes of a vector; 0: one number after the other.
    vector = [(0, 0.0), (16, 0.2), (32, 0.4), (64, 0.5)];
    /// Vectors, or numbers, of one iteration.
    unroll = [(1, 0.0), (2, 0.1), (4, 0.2), (8, 0.1), (16, 0.0)];
    /// 1: the vectors of an iteration are summed together before the sum of those before is added.
    tree = [(0, 0.0), (1, 0.0)];
    /// Distance in elements at which they are prefetched; 0: not at all.
    prefetch = [(0, 0.0), (256, 0.0), (1024, 0.0)];
    /// 1: each thread sums a part, and then adds the sums of the parts before it.
    openmp = [(0, 0.0), (1, -0.2)];
}

fn is_legal(_: &Kernel, values: &[u32]) -> bool {
    let v = Values::of(values);
    (v.tree == 0 || v.unroll > 1) && (v.vector == 0 || v.unroll <= 8)
}

fn techniques(_: &Kernel, values: &[u32]) -> TechniqueSet {
    let v = Values::of(values);
    let used = [
        (v.vector > 0, Technique::Simd),
        (v.unroll > 1, Technique::Unroll),
        (v.prefetch > 0, Technique::Prefetch),
        (v.openmp > 0, Technique::Openmp),
    ];
    used.into_iter().filter(|u| u.0).map(|u| u.1).collect()
}

fn write(kernel: &Kernel, values: &[u32]) -> String {
    let v = Values::of(values);
    let lanes = kernel.lanes(v.vector);
    let bytes = kernel.element.size();
    let (number, whole) = match bytes {
        8 => ("long", "unsigned long"),
        _ => ("int", "unsigned"),
    };
    let vec = match v.vector {
        0 => String::new(),
        wide => format!(
            "typedef @whole@ @e@_vec __attribute__((vector_size({wide}), aligned({bytes}), may_alias));\n"
        ),
    };
    let (headers, total, all) = match v.openmp {
        0 => ("", "", "    @e@_part(0, n, 0, in, out);"),
        _ => (
            "#include <omp.h>\n#include <stdlib.h>\n",
            "static @whole@ @e@_total(long from, long to, const @number@ *in)
{
    @whole@ sum = 0;
    for (long i = from; i < to; i++)
        sum += (@whole@)in[i];
    return sum;
}
",
            "    int parts = omp_get_max_threads();
    @whole@ *sums = malloc(sizeof *sums * parts), before = 0;
    if (!sums)
        abort();
#pragma omp parallel for schedule(static)
    for (int p = 0; p < parts; p++)
        sums[p] = @e@_total((long)n * p / parts, (long)n * (p + 1) / parts, in);
    for (int p = 0; p < parts; p++) {
        @whole@ own = sums[p];
        sums[p] = before;
        before += own;
    }
#pragma omp parallel for schedule(static)
    for (int p = 0; p < parts; p++)
        @e@_part((long)n * p / parts, (long)n * (p + 1) / parts, sums[p], in, out);
    free(sums);",
        ),
    };
    let ahead = match v.prefetch {
        0 => String::new(),
        far => format!("        __builtin_prefetch(&in[i + {far} < to ? i + {far} : i]);"),
    };
    let text = "@headers@
@vec@
/* The sums of a part behind numbers whose sum is `sum`. Sums of parts may not fit the type, and unsigned ones wrap around. */
static void @e@_part(long from, long to, @whole@ sum, const @number@ *in, @number@ *out)
{
    long i = from;
@begin@
    for (; i + @last@ < to; i += @step@) {
@ahead@
@body@
    }
@end@
    for (; i < to; i++) {
        sum += (@whole@)in[i];
        out[i] = (@number@)sum;
    }
}

@total@
static void @e@_all(int n, const @number@ *in, @number@ *out)
{
@all@
}

@prototype@
{
    @e@_all(@arguments@);
}
";
    let (begin, body, end) = match v.vector {
        0 => ("", numbers(&v), ""),
        _ => (
            "    const @e@_vec zero = {0};
    @e@_vec carry = zero + sum;",
            vectors(&v, lanes),
            "    sum = carry[0];",
        ),
    };
    let arguments = kernel.args.join(", ");
    filled(
        text,
        &[
            ("headers", &headers),
            ("vec", &vec),
            ("begin", &begin),
            ("ahead", &ahead),
            ("body", &body),
            ("end", &end),
            ("total", &total),
            ("all", &all),
            ("e", &kernel.name),
            ("whole", &whole),
            ("number", &number),
            ("last", &(v.unroll * lanes - 1)),
            ("step", &(v.unroll * lanes)),
            ("prototype", &kernel.prototype),
            ("arguments", &arguments),
        ],
    )
}

/// Single numbers: each sum from the one before it, or all from the sum before the iteration.
fn numbers(v: &Values) -> String {
    if v.tree == 0 {
        return lines(v.unroll, 2, |n| {
            format!("sum += (@whole@)in[i + {n}], out[i + {n}] = (@number@)sum;")
        });
    }
    let loads = joined(v.unroll, ", ", |n| format!("v{n} = (@whole@)in[i + {n}]"));
    let mut body = vec![format!("        @whole@ {loads};")];
    body.extend(steps(v.unroll));
    body.push(lines(v.unroll, 2, |n| {
        format!("out[i + {n}] = (@number@)(sum + v{n});")
    }));
    body.push(format!("        sum += v{};", v.unroll - 1));
    body.join("\n")
}

/// Running sums of `count` variables in logarithmic depth (Kogge and Stone, 1973): in each round a variable gets the one
/// before it at a doubled distance. From the last one to the first, so that each is read before it changes.
fn steps(count: u32) -> Vec<String> {
    let mut rounds = Vec::new();
    let mut distance = 1;
    while distance < count {
        let sums: Vec<String> = (distance..count)
            .rev()
            .map(|n| format!("v{n} += v{}", n - distance))
            .collect();
        rounds.push(format!("        {};", sums.join(", ")));
        distance *= 2;
    }
    rounds
}

/// Vectors: sums within each, then over those before it.
fn vectors(v: &Values, lanes: u32) -> String {
    let loads = joined(v.unroll, ", ", |n| {
        format!("v{n} = *(const @e@_vec *)&in[i + {}]", n * lanes)
    });
    let mut body = vec![format!("        @e@_vec {loads};")];
    for bit in 0..lanes.ilog2() {
        let distance = 1 << bit;
        // Places before the first one are zeros.
        let shifted = joined(lanes, ", ", |lane| match lane < distance {
            true => "0".to_owned(),
            false => (lanes + lane - distance).to_string(),
        });
        body.push(lines(v.unroll, 2, |n| {
            format!("v{n} += __builtin_shufflevector(zero, v{n}, {shifted});")
        }));
    }
    let last = joined(lanes, ", ", |_| (lanes - 1).to_string());
    let spread = |n: u32| format!("__builtin_shufflevector(v{n}, v{n}, {last})");
    if v.tree == 0 {
        let totals = joined(v.unroll, ", ", |n| format!("t{n} = {}", spread(n)));
        body.push(format!("        @e@_vec {totals};"));
        body.push(lines(v.unroll, 2, |n| {
            format!(
                "*(@e@_vec *)&out[i + {}] = v{n} + carry, carry += t{n};",
                n * lanes
            )
        }));
        return body.join("\n");
    }
    for n in 1..v.unroll {
        body.push(format!("        v{n} += {};", spread(n - 1)));
    }
    let all = spread(v.unroll - 1);
    body.push(format!("        @e@_vec all = {all};"));
    body.push(lines(v.unroll, 2, |n| {
        format!("*(@e@_vec *)&out[i + {}] = v{n} + carry;", n * lanes)
    }));
    body.push("        carry += all;".to_owned());
    body.join("\n")
}
