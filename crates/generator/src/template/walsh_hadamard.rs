//! Walsh-Hadamard transforms: several layers at once in registers, and the layers within a block before those between blocks.

use flopsmith_protocol::{Technique, TechniqueSet};

use super::text::{filled, joined, lines};
use super::{Kernel, declare};

declare! {
    /// Bytes of a vector; 0: single numbers.
    vector = [(0, -0.3), (16, 0.0), (32, 0.2), (64, 0.3)];
    /// Numbers, or vectors, whose butterflies are computed in registers: 4 take two layers at once.
    radix = [(2, 0.0), (4, 0.2), (8, 0.3), (16, 0.3)];
    /// Elements of a block, whose layers come first; 0: no blocks.
    block = [(0, 0.0), (512, 0.1), (1024, 0.1), (2048, 0.1), (4096, 0.1), (8192, 0.1), (16384, 0.1)];
    /// 1: where the layers are no multiple of those of the radix, the small rest comes first.
    rest_first = [(0, 0.0), (1, 0.0)];
    /// 1: threads share the blocks, and the butterflies between them.
    openmp = [(0, 0.0), (1, 0.0)];
}

fn is_legal(kernel: &Kernel, values: &[u32]) -> bool {
    let v = Values::of(values);
    let first = kernel.lanes(v.vector) * v.radix;
    // Layers of radix 2 leave no rest. A block holds what the first pass takes at once.
    (v.radix > 2 || v.rest_first == 0)
        && (v.block == 0 || v.block >= first)
        && (v.openmp == 0 || v.block > 0)
}

fn techniques(_: &Kernel, values: &[u32]) -> TechniqueSet {
    let v = Values::of(values);
    let used = [
        (v.vector > 0, Technique::Simd),
        (v.block > 0, Technique::CacheBlocking),
        (v.openmp > 0, Technique::Openmp),
    ];
    used.into_iter().filter(|u| u.0).map(|u| u.1).collect()
}

fn write(kernel: &Kernel, values: &[u32]) -> String {
    let v = Values::of(values);
    let lanes = kernel.lanes(v.vector);
    let number = kernel.element.c_type();
    let vec = match v.vector {
        0 => format!("typedef {number} @e@_vec __attribute__((may_alias));\n"),
        bytes => format!(
            "typedef {number} @e@_vec __attribute__((vector_size({bytes}), aligned({}), may_alias));\n",
            kernel.element.size()
        ),
    };
    let smaller = (1..v.radix.ilog2()).map(|bits| 1 << bits);
    let radices = smaller.chain([v.radix]);
    let passes: Vec<String> = radices.map(|radix| pass(&v, radix)).collect();
    let text = "@vec@
@layered@
/* The first layers, of @first@ neighbours at a time. */
static void @e@_first(long n, const @type@ *x, @type@ *y)
{
@signs@
    for (long i = 0; i < n; i += @first@) {
        @e@_vec t, @loads@;
@within@
@butterflies@
@stores@
    }
}

@passes@
/* The layers of all distances from h on. */
static void @e@_layers(long n, long h, @type@ *y)
{
@layers@
}

static void @e@_small(int n, const @type@ *x, @type@ *y)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i];
    for (int h = 1; h < n; h *= 2)
        for (int base = 0; base < n; base += 2 * h)
            for (int i = base; i < base + h; i++) {
                @type@ a = y[i], b = y[i + h];
                y[i] = a + b;
                y[i + h] = a - b;
            }
}

static void @e@_all(int n, const @type@ *x, @type@ *y)
{
    if (n < @first@) {
        @e@_small(n, x, y);
        return;
    }
@all@
}

@prototype@
{
    @e@_all(@arguments@);
}
";
    let signs = lines(lanes.ilog2(), 1, |bit| {
        let sign = |lane: u32| match (lane >> bit) & 1 {
            0 => "1",
            _ => "-1",
        };
        let signs = joined(lanes, ", ", |lane| sign(lane).to_owned());
        format!("const @e@_vec sign{bit} = {{{signs}}};")
    });
    // The sum of both in the lower place and their difference in the upper one.
    let layered = lines(lanes.ilog2(), 0, |bit| {
        let swapped = joined(lanes, ", ", |lane| (lane ^ (1 << bit)).to_string());
        format!(
            "#define @e@_layer{bit}(v) (__builtin_shufflevector(v, v, {swapped}) + (v) * sign{bit})"
        )
    });
    let rounds = (0..lanes.ilog2())
        .map(|bit| lines(v.radix, 2, |n| format!("v{n} = @e@_layer{bit}(v{n});")));
    let within = rounds.collect::<Vec<_>>().join("\n");
    let loads = joined(v.radix, ", ", |n| {
        format!("v{n} = *(const @e@_vec *)&x[i + {}]", n * lanes)
    });
    let stores = lines(v.radix, 2, |n| {
        format!("*(@e@_vec *)&y[i + {}] = v{n};", n * lanes)
    });
    let arguments = kernel.args.join(", ");
    filled(
        text,
        &[
            ("vec", &vec),
            ("layered", &layered),
            ("signs", &signs),
            ("loads", &loads),
            ("within", &within),
            ("butterflies", &butterflies(v.radix, 2)),
            ("stores", &stores),
            ("passes", &passes.join("\n")),
            ("layers", &layers(&v)),
            ("all", &all(&v)),
            ("e", &kernel.name),
            ("type", &number),
            ("first", &(lanes * v.radix)),
            ("lanes", &lanes),
            ("block", &v.block),
            ("radix", &v.radix),
            ("prototype", &kernel.prototype),
            ("arguments", &arguments),
        ],
    )
}

/// The butterflies between `radix` vectors, layer by layer.
fn butterflies(radix: u32, depth: usize) -> String {
    let mut all = Vec::new();
    for bit in 0..radix.ilog2() {
        for low in (0..radix).filter(|n| (n >> bit) & 1 == 0) {
            let high = low + (1 << bit);
            all.push(format!(
                "{}t = v{low} - v{high}, v{low} += v{high}, v{high} = t;",
                "    ".repeat(depth)
            ));
        }
    }
    all.join("\n")
}

/// The function for some layers at once, between elements with distances from h on.
fn pass(v: &Values, radix: u32) -> String {
    let pragma = match v.openmp {
        0 => String::new(),
        _ => "#pragma omp parallel for collapse(2) schedule(static) if (n > @block@)\n".to_owned(),
    };
    let loads = joined(radix, ", ", |n| {
        format!("v{n} = *(const @e@_vec *)&y[base + i + {n} * h]")
    });
    let stores = lines(radix, 3, |n| {
        format!("*(@e@_vec *)&y[base + i + {n} * h] = v{n};")
    });
    format!(
        "static void @e@_pass{radix}(long n, long h, @type@ *y)
{{
{pragma}    for (long base = 0; base < n; base += {radix} * h)
        for (long i = 0; i < h; i += @lanes@) {{
            @e@_vec t, {loads};
{}
{stores}
        }}
}}
",
        butterflies(radix, 3)
    )
}

/// The calls of the passes.
fn layers(v: &Values) -> String {
    let whole = format!(
        "    for (; @radix@ * h <= n; h *= @radix@)
        @e@_pass{}(n, h, y);",
        v.radix
    );
    let whole_bits = v.radix.ilog2();
    let rest: Vec<String> = (1..whole_bits)
        .rev()
        .map(|bits| {
            let radix = 1 << bits;
            let test = match v.rest_first {
                0 => format!("{radix} * h <= n"),
                _ => format!("layers % {whole_bits} == {bits}"),
            };
            format!(
                "    if ({test}) {{
        @e@_pass{radix}(n, h, y);
        h *= {radix};
    }}"
            )
        })
        .collect();
    let rest = rest.join("\n");
    let count = "    int layers = 0;
    for (long all = h; all < n; all *= 2)
        layers++;";
    match (whole_bits, v.rest_first) {
        (1, _) => whole,
        (_, 0) => [whole, rest].join("\n"),
        _ => [count, &rest, &whole].join("\n"),
    }
}

/// The blocks, and the layers between them.
fn all(v: &Values) -> String {
    if v.block == 0 {
        return "    @e@_first(n, x, y);
    @e@_layers(n, @first@, y);"
            .to_owned();
    }
    let pragma = match v.openmp {
        0 => "",
        _ => "#pragma omp parallel for schedule(static)\n",
    };
    format!(
        "    int block = n < @block@ ? n : @block@;
{pragma}    for (int from = 0; from < n; from += block) {{
        @e@_first(block, &x[from], &y[from]);
        @e@_layers(block, @first@, &y[from]);
    }}
    @e@_layers(n, block, y);"
    )
}
