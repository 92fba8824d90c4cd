//! Counts of keys, in several tables so that equal keys in a row do not wait for each other.

use flopsmith_protocol::{Technique, TechniqueSet};

use super::text::{filled, joined, lines};
use super::{Kernel, declare};

declare! {
    /// Tables of counts, which are added up in the end; 1: the result itself.
    tables = [(1, 0.0), (2, 0.2), (4, 0.4), (8, 0.4), (16, 0.2)];
    /// 1: the counts of a key in all tables lie side by side.
    together = [(0, 0.0), (1, -0.1)];
    /// Keys that are counted in one iteration.
    unroll = [(1, -0.2), (2, 0.0), (4, 0.1), (8, 0.2), (16, 0.2), (32, 0.1)];
    /// Keys that are read at once.
    wide = [(1, 0.0), (2, 0.1)];
    /// Distance in keys at which they are prefetched; 0: not at all.
    prefetch = [(0, 0.0), (128, 0.0), (512, 0.0)];
    /// 1: threads share the keys, each with tables of its own.
    openmp = [(0, 0.0), (1, 0.0)];
}

fn is_legal(_: &Kernel, values: &[u32]) -> bool {
    let v = Values::of(values);
    // Further tables than keys in an iteration would stay empty, and one table lies beside nothing.
    v.tables <= v.unroll && v.wide <= v.unroll && (v.tables > 1 || v.together == 0)
}

fn techniques(_: &Kernel, values: &[u32]) -> TechniqueSet {
    let v = Values::of(values);
    let used = [
        (v.unroll > 1, Technique::Unroll),
        (v.tables > 1, Technique::PartialSums),
        (v.prefetch > 0, Technique::Prefetch),
        (v.openmp > 0, Technique::Openmp),
    ];
    used.into_iter().filter(|u| u.0).map(|u| u.1).collect()
}

/// The count of a key in a table.
fn slot(v: &Values, table: u32, key: &str) -> String {
    match (v.tables, v.together, table) {
        (1, ..) | (_, 0, 0) => format!("own[{key}]"),
        (tables, 1, table) => format!("own[{key} * {tables}L + {table}]"),
        (_, _, table) => format!("own[{table}L * bins + {key}]"),
    }
}

fn write(kernel: &Kernel, values: &[u32]) -> String {
    let v = Values::of(values);
    let (mut loads, mut pair) = (String::new(), "");
    let body = match v.wide {
        1 => lines(v.unroll, 2, |n| {
            let key = format!("key[i + {n}]");
            format!("{}++;", slot(&v, n % v.tables, &key))
        }),
        _ => {
            pair = "typedef unsigned long long @e@_pair __attribute__((aligned(4), may_alias));\n";
            let words = joined(v.unroll / 2, ", ", |n| {
                format!("w{n} = *(const @e@_pair *)&key[i + {}]", 2 * n)
            });
            loads = format!("        unsigned long long {words};");
            lines(v.unroll, 2, |n| {
                let word = n / 2;
                let key = match n % 2 {
                    0 => format!("(unsigned)w{word}"),
                    _ => format!("(w{word} >> 32)"),
                };
                format!("{}++;", slot(&v, n % v.tables, &key))
            })
        }
    };
    let ahead = match v.prefetch {
        0 => String::new(),
        far => format!("        __builtin_prefetch(&key[i + {far} < to ? i + {far} : i]);"),
    };
    let rest = match v.unroll {
        1 => String::new(),
        _ => format!(
            "    for (; i < to; i++)\n        {}++;",
            slot(&v, 0, "key[i]")
        ),
    };
    let (bins, passed) = match strided(&v) {
        true => (", int bins", ", bins"),
        false => ("", ""),
    };
    let text = "@headers@
@pair@
static void @e@_part(long from, long to@bins@, const int *key, int *own)
{
    long i = from;
    for (; i + @last@ < to; i += @unroll@) {
@ahead@
@loads@
@body@
    }
@rest@
}

static void @e@_all(int n, int bins, const int *key, int *count)
{
@whole@
}

@prototype@
{
    @e@_all(@arguments@);
}
";
    let arguments = kernel.args.join(", ");
    filled(
        text,
        &[
            ("headers", &headers(&v)),
            ("pair", &pair),
            ("ahead", &ahead),
            ("loads", &loads),
            ("body", &body),
            ("rest", &rest),
            ("whole", &whole(&v)),
            ("e", &kernel.name),
            ("bins", &bins),
            ("passed", &passed),
            ("last", &(v.unroll - 1)),
            ("unroll", &v.unroll),
            ("tables", &v.tables),
            ("prototype", &kernel.prototype),
            ("arguments", &arguments),
        ],
    )
}

/// True if the tables lie one behind the other, so that their places follow from the number of bins.
fn strided(v: &Values) -> bool {
    v.tables > 1 && v.together == 0
}

/// True if keys are counted in the result itself.
fn direct(v: &Values) -> bool {
    v.tables == 1 && v.openmp == 0
}

fn headers(v: &Values) -> &'static str {
    match (direct(v), v.openmp) {
        (true, _) => "",
        (_, 0) => "#include <stdlib.h>\n",
        _ => "#include <omp.h>\n#include <stdlib.h>\n",
    }
}

/// The tables, the counting in parts of the keys, and the sums of the tables.
fn whole(v: &Values) -> &'static str {
    if direct(v) {
        return "    for (int k = 0; k < bins; k++)
        count[k] = 0;
    @e@_part(0, n@passed@, key, count);";
    }
    match (v.openmp, v.together) {
        (0, 0) => {
            "    int *own = calloc((size_t)bins * @tables@, sizeof *own);
    if (!own)
        abort();
    @e@_part(0, n@passed@, key, own);
    for (int k = 0; k < bins; k++)
        count[k] = own[k];
    for (int t = 1; t < @tables@; t++)
        for (int k = 0; k < bins; k++)
            count[k] += own[(long)t * bins + k];
    free(own);"
        }
        (0, _) => {
            "    int *own = calloc((size_t)bins * @tables@, sizeof *own);
    if (!own)
        abort();
    @e@_part(0, n@passed@, key, own);
    for (int k = 0; k < bins; k++) {
        int sum = 0;
        for (int t = 0; t < @tables@; t++)
            sum += own[k * @tables@L + t];
        count[k] = sum;
    }
    free(own);"
        }
        (_, 0) => {
            "    int parts = omp_get_max_threads();
    int *own = calloc((size_t)bins * @tables@ * parts, sizeof *own);
    if (!own)
        abort();
#pragma omp parallel for schedule(static)
    for (int p = 0; p < parts; p++)
        @e@_part((long)n * p / parts, (long)n * (p + 1) / parts@passed@, key, &own[(long)bins * @tables@ * p]);
    for (int k = 0; k < bins; k++)
        count[k] = own[k];
    for (int t = 1; t < @tables@ * parts; t++)
        for (int k = 0; k < bins; k++)
            count[k] += own[(long)t * bins + k];
    free(own);"
        }
        _ => {
            "    int parts = omp_get_max_threads();
    int *own = calloc((size_t)bins * @tables@ * parts, sizeof *own);
    if (!own)
        abort();
#pragma omp parallel for schedule(static)
    for (int p = 0; p < parts; p++)
        @e@_part((long)n * p / parts, (long)n * (p + 1) / parts@passed@, key, &own[(long)bins * @tables@ * p]);
    for (int k = 0; k < bins; k++) {
        int sum = 0;
        for (int p = 0; p < parts; p++)
            for (int t = 0; t < @tables@; t++)
                sum += own[((long)bins * p + k) * @tables@ + t];
        count[k] = sum;
    }
    free(own);"
        }
    }
}
