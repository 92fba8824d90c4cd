//! Products of a sparse matrix in compressed rows and a vector. Rows are short and of different lengths, so the time goes
//! into their ends, which no processor foresees.

use flopsmith_protocol::{Technique, TechniqueSet};

use super::text::{filled, joined, lines};
use super::{Kernel, declare};

declare! {
    /// 0: rows in their order; 1: by their lengths, so that all rows of a length end alike.
    by_length = [(0, 0.0), (1, 0.1)];
    /// Elements of a row that are multiplied in one iteration; by length: rows.
    unroll = [(1, 0.0), (2, 0.0), (4, 0.1), (8, 0.2), (16, 0.0)];
    /// Sums of a row that are added up in its end.
    sums = [(1, 0.1), (2, 0.0), (4, 0.0)];
    /// 1: elements behind the end of a row are multiplied as well and left out of the sum, so that most rows take one iteration.
    masked = [(0, 0.0), (1, 0.1)];
    /// 1: `omp simd` over the elements of an iteration, or of a row where an iteration has one.
    simd = [(0, 0.0), (1, 0.2)];
    /// Distance in elements at which those of x are prefetched; 0: not at all.
    prefetch = [(0, 0.0), (16, 0.0), (64, 0.0)];
    /// 1: threads share the rows.
    openmp = [(0, 0.0), (1, 0.0)];
}

fn is_legal(_: &Kernel, values: &[u32]) -> bool {
    let v = Values::of(values);
    if v.by_length > 0 {
        return v.unroll <= 8 && v.sums == 1 && v.masked == 0 && v.simd == 0 && v.prefetch == 0;
    }
    let sums = match (v.masked, v.simd) {
        (0, 0) => v.sums <= v.unroll,
        _ => v.sums == 1,
    };
    // The compiler makes the strips of `omp simd` itself, unless they reach beyond the row.
    let strips = match (v.masked, v.simd) {
        (0, 1) => v.unroll == 1,
        (1, _) => v.unroll >= 4,
        _ => true,
    };
    let ahead = v.prefetch == 0 || v.simd == 0 || v.masked > 0;
    sums && strips && ahead
}

fn techniques(_: &Kernel, values: &[u32]) -> TechniqueSet {
    let v = Values::of(values);
    // Rows of equal length take turns: each has a sum of its own in a register.
    let rows = v.by_length > 0;
    let used = [
        (v.unroll > 1 && rows, Technique::RegisterBlocking),
        (v.unroll > 1 && v.masked == 0 && !rows, Technique::Unroll),
        (v.sums > 1, Technique::PartialSums),
        (v.simd > 0, Technique::Simd),
        (v.prefetch > 0, Technique::Prefetch),
        (v.openmp > 0, Technique::Openmp),
    ];
    used.into_iter().filter(|u| u.0).map(|u| u.1).collect()
}

fn write(kernel: &Kernel, values: &[u32]) -> String {
    let v = Values::of(values);
    let rows = match v.by_length {
        0 => in_order(&v),
        _ => sorted(&v),
    };
    let mut headers = String::new();
    if v.openmp > 0 {
        headers.push_str("#include <omp.h>\n");
    }
    if v.by_length > 0 {
        headers.push_str("#include <stdlib.h>\n");
    }
    let all = match v.openmp {
        0 => "    @e@_rows(0, n@passed@, start, column, value, x, y);",
        _ => {
            "    int parts = omp_get_max_threads();
#pragma omp parallel for schedule(static)
    for (int p = 0; p < parts; p++)
        @e@_rows((long)n * p / parts, (long)n * (p + 1) / parts@passed@, start, column, value, x, y);"
        }
    };
    let (total, passed) = match v.masked > 0 || v.prefetch > 0 {
        true => (", long total", ", start[n]"),
        false => ("", ""),
    };
    let text = "@headers@
/* The rows from `first` to `last`, without the last one. */
@rows@
static void @e@_all(int n, const int *start, const int *column, const @type@ *value, const @type@ *x, @type@ *y)
{
@all@
}

@prototype@
{
    (void)@columns@;
    @e@_all(@arguments@);
}
";
    let columns = kernel.args.get(1).cloned().unwrap_or_default();
    let mut arguments = kernel.args.clone();
    arguments.retain(|name| *name != columns);
    let arguments = arguments.join(", ");
    filled(
        text,
        &[
            ("headers", &headers),
            ("rows", &rows),
            ("all", &all),
            ("e", &kernel.name),
            ("total", &total),
            ("passed", &passed),
            ("type", &kernel.element.c_type()),
            ("unroll", &v.unroll),
            ("last", &(v.unroll - 1)),
            ("columns", &columns),
            ("prototype", &kernel.prototype),
            ("arguments", &arguments),
        ],
    )
}

/// The rows one after the other.
fn in_order(v: &Values) -> String {
    let names = joined(v.sums, ", ", |n| format!("s{n} = 0"));
    let ahead = match v.prefetch {
        0 => String::new(),
        far => {
            format!("__builtin_prefetch(&x[column[k + {far} < total ? k + {far} : total - 1]]);")
        }
    };
    let one = "s0 += value[k] * x[column[k]];";
    let body = match (v.masked, v.simd) {
        (0, 0) if v.unroll == 1 => format!(
            "        for (; k < end; k++) {{
            {ahead}
            {one}
        }}"
        ),
        (0, 0) => {
            let terms = lines(v.unroll, 3, |n| {
                let sum = n % v.sums;
                format!("s{sum} += value[k + {n}] * x[column[k + {n}]];")
            });
            format!(
                "        for (; k + @last@ < end; k += @unroll@) {{
            {ahead}
{terms}
        }}
        for (; k < end; k++)
            {one}"
            )
        }
        (0, _) => "#pragma omp simd reduction(+ : s0)
        for (long l = k; l < end; l++)
            s0 += value[l] * x[column[l]];"
            .to_owned(),
        (_, simd) => {
            let pragma = match simd {
                0 => "",
                _ => "#pragma omp simd reduction(+ : s0)",
            };
            format!(
                "        /* What lies behind the end of the row is read, and its terms are left out. */
        if (end + @unroll@ <= total)
            for (; k < end; k += @unroll@) {{
                {ahead}
{pragma}
                for (int l = 0; l < @unroll@; l++) {{
                    @type@ term = value[k + l] * x[column[k + l]];
                    s0 += k + l < end ? term : 0;
                }}
            }}
        for (; k < end; k++)
            {one}"
            )
        }
    };
    let body: Vec<&str> = body
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let sum = match v.sums {
        1 => "s0",
        2 => "s0 + s1",
        _ => "(s0 + s1) + (s2 + s3)",
    };
    format!(
        "static void @e@_rows(int first, int last@total@, const int *start, const int *column, const @type@ *value, const @type@ *x, @type@ *y)
{{
    for (int i = first; i < last; i++) {{
        long k = start[i], end = start[i + 1];
        @type@ {names};
{}
        y[i] = {sum};
    }}
}}
",
        body.join("\n")
    )
}

/// The rows by their lengths: their numbers are sorted by counting, and then several rows of a length are multiplied at once.
fn sorted(v: &Values) -> String {
    let some = |depth: usize, line: &dyn Fn(u32) -> String| lines(v.unroll, depth, line);
    let several = match v.unroll {
        1 => String::new(),
        _ => format!(
            "        for (; r + @last@ < first_of[length]; r += @unroll@) {{
{}
{}
            @type@ {};
            for (long l = 0; l < length; l++) {{
{}
            }}
{}
        }}
",
            some(3, &|n| format!(
                "const int *c{n} = &column[start[rows[r + {n}]]];"
            )),
            some(3, &|n| format!(
                "const @type@ *v{n} = &value[start[rows[r + {n}]]];"
            )),
            joined(v.unroll, ", ", |n| format!("s{n} = 0")),
            some(4, &|n| format!("s{n} += v{n}[l] * x[c{n}[l]];")),
            some(3, &|n| format!("y[rows[r + {n}]] = s{n};")),
        ),
    };
    format!(
        "static void @e@_rows(int first, int last, const int *start, const int *column, const @type@ *value, const @type@ *x, @type@ *y)
{{
    if (first >= last)
        return;
    long longest = 0;
    for (int i = first; i < last; i++)
        if (start[i + 1] - start[i] > longest)
            longest = start[i + 1] - start[i];
    int *first_of = calloc(longest + 2, sizeof *first_of), *rows = malloc((size_t)(last - first) * sizeof *rows);
    if (!first_of || !rows)
        abort();
    for (int i = first; i < last; i++)
        first_of[start[i + 1] - start[i] + 1]++;
    for (long length = 0; length <= longest; length++)
        first_of[length + 1] += first_of[length];
    /* Afterwards the rows of a length end where those of the next one began. */
    for (int i = first; i < last; i++)
        rows[first_of[start[i + 1] - start[i]]++] = i;
    int r = 0;
    for (long length = 0; length <= longest; length++) {{
{several}        for (; r < first_of[length]; r++) {{
            int i = rows[r];
            @type@ s0 = 0;
            for (long l = 0; l < length; l++)
                s0 += value[start[i] + l] * x[column[start[i] + l]];
            y[i] = s0;
        }}
    }}
    free(first_of);
    free(rows);
}}
"
    )
}
