//! Techniques of an inline extension of a module: C++ or CUDA that was not preprocessed.
//!
//! Words and pragmas show most of them. Loops are read by their headers alone: an extension has tensors instead of the
//! arguments that the walk through loop nests knows.

use std::ops::Range;

use flopsmith_protocol::Technique;

use super::{Detected, words};
use crate::scan::token::{Kind, Token, tokens};
use crate::scan::{Pragma, UserText, source_lines};

/// Types of numbers whose arrays are scratch memory.
const NUMBERS: [&str; 16] = [
    "float",
    "double",
    "half",
    "__half",
    "bfloat16",
    "__nv_bfloat16",
    "BFloat16",
    "Half",
    "int",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "int64_t",
    "long",
];

/// Words that show a technique of modules.
const WORDS: [(Technique, &[&str]); 7] = [
    (
        Technique::Simd,
        &[
            "Vectorized",
            "float2",
            "float4",
            "double2",
            "int2",
            "int4",
            "uint2",
            "uint4",
            "half2",
            "__half2",
            "__nv_bfloat162",
        ],
    ),
    (Technique::Openmp, &["parallel_for", "parallel_reduce"]),
    (
        Technique::PartialSums,
        &[
            "parallel_reduce",
            "atomicAdd",
            "atomicMax",
            "atomicMin",
            "__shfl_down_sync",
            "__shfl_xor_sync",
            "__reduce_add_sync",
            "BlockReduce",
            "WarpReduce",
        ],
    ),
    (
        Technique::SharedMemory,
        &["__shared__", "memcpy_async", "__pipeline_memcpy_async"],
    ),
    (Technique::Dot, &["wmma", "mma_sync"]),
    (
        Technique::WarpSpecialized,
        &["setmaxnreg", "producer_acquire", "consumer_wait"],
    ),
    (Technique::Prefetch, &["__prefetch_global_l2"]),
];

/// Beginnings of intrinsics that multiply blocks.
const PRODUCTS: [&str; 3] = ["_tile_dp", "_mm512_dp", "_mm256_dp"];

/// Steps of a loop that are numbers below this one are unrolling.
const LEAST_BLOCK: u64 = 8;

/// The most loops with a step that are looked at. Each look reads the loop's body, so the work has a bound.
const MOST_LOOPS: usize = 256;

/// The longest header of a loop that is read, in tokens.
const LONGEST_HEADER: usize = 200;

/// Detects the techniques of an extension's source.
pub fn in_extension(source: &str) -> Detected {
    let mut found = Detected::default();
    let mut user = UserText::default();
    let mut pragmas = Vec::new();
    for line in source_lines(source) {
        let mut code = line.text.as_str();
        if let Some(directive) = line.directive() {
            if let Some(text) = directive.strip_prefix("pragma") {
                let words = tokens(text).iter().map(|t| t.text.to_owned()).collect();
                pragmas.push(Pragma {
                    line: line.number,
                    words,
                });
            }
            // The body of a macro is code.
            code = directive.strip_prefix("define").unwrap_or_default();
        }
        user.text.push_str(code);
        user.text.push('\n');
        user.lines.push(line.number);
    }
    let all = tokens(&user.text);
    words::in_words(&user, &all, &mut found);
    words::in_pragmas(&pragmas, &mut found);
    for pragma in &pragmas {
        if pragma.words.iter().any(|word| word == "reduction") {
            let text = format!("`#pragma {}`", pragma.words.join(" "));
            found.note(Technique::PartialSums, pragma.line, text);
        }
    }
    for token in all.iter().filter(|token| token.kind == Kind::Word) {
        let named = WORDS
            .iter()
            .filter(|(_, names)| names.contains(&token.text));
        let multiplies = PRODUCTS.iter().any(|begin| token.text.starts_with(begin));
        let shown = named.map(|(technique, _)| *technique);
        for technique in shown.chain(multiplies.then_some(Technique::Dot)) {
            // Finding the line of a token takes a while.
            if !found.techniques().contains(technique) {
                let line = user.line_at(token.at);
                found.note(technique, line, format!("`{}`", token.text));
            }
        }
    }
    let code = Code::of(&all);
    if let Some(at) = code.scratch() {
        let what = "an array of the program's own";
        found.note(Technique::SharedMemory, user.line_at(at), what);
    }
    let loops = code.loops();
    if loops.len() == MOST_LOOPS {
        found.note(
            Technique::CacheBlocking,
            0,
            "more loops than the detection looks at",
        );
    }
    for each in loops {
        let line = user.line_at(each.at);
        if each.strides_over_grid() {
            found.note(Technique::Persistent, line, "a loop over the grid");
        } else if code.tiles(&each) {
            found.note(Technique::CacheBlocking, line, "a loop over blocks");
        }
    }
    found
}

/// The tokens of a source.
struct Code<'t, 'a> {
    all: &'t [Token<'a>],
    /// For each opening sign the place of the one that closes it.
    partners: Vec<Option<usize>>,
}

/// A loop with a step: its header `for (…; …; VARIABLE += STEP)` and its body, as places of tokens.
struct Loop<'t, 'a> {
    /// Offset of its first byte.
    at: usize,
    variable: &'a str,
    step: &'t [Token<'a>],
    body: Range<usize>,
}

impl<'t, 'a> Code<'t, 'a> {
    fn of(all: &'t [Token<'a>]) -> Self {
        let mut partners = vec![None; all.len()];
        let mut open: [Vec<usize>; 3] = Default::default();
        for (at, token) in all.iter().enumerate() {
            let kind = |signs: [&str; 3]| signs.iter().position(|sign| *sign == token.text);
            if let Some(kind) = kind(["(", "[", "{"]) {
                open[kind].push(at);
            } else if let Some(kind) = kind([")", "]", "}"])
                && let Some(begin) = open[kind].pop()
            {
                partners[begin] = Some(at);
            }
        }
        Self { all, partners }
    }

    fn text(&self, at: usize) -> &'a str {
        self.all.get(at).map_or("", |token| token.text)
    }

    fn is_word(&self, at: usize) -> bool {
        self.all
            .get(at)
            .is_some_and(|token| token.kind == Kind::Word)
    }

    /// The place of the sign that closes the one here.
    fn close(&self, at: usize) -> Option<usize> {
        self.partners.get(at).copied().flatten()
    }

    /// The offset of a local array or vector of numbers, such as `float tile[64];` or `std::vector<float> row(n)`.
    fn scratch(&self) -> Option<usize> {
        let found = (0..self.all.len()).find(|at| match self.text(*at) {
            "vector" => self.is_vector(*at),
            name if NUMBERS.contains(&name) => self.is_array(*at + 1),
            _ => false,
        });
        found.and_then(|at| self.all.get(at)).map(|token| token.at)
    }

    /// True for a vector of numbers with a name and a size behind its type.
    fn is_vector(&self, at: usize) -> bool {
        // A namespace may stand before the type of the elements.
        let close = (at + 2..at + 7).find(|next| self.text(*next) == ">");
        close.is_some_and(|close| {
            self.text(at + 1) == "<"
                && NUMBERS.contains(&self.text(close - 1))
                && self.is_word(close + 1)
                && matches!(self.text(close + 2), "(" | "{")
        })
    }

    /// True for a name with extents in brackets that no parenthesis follows, as it would a parameter.
    fn is_array(&self, name: usize) -> bool {
        let mut end = name + 1;
        while self.text(end) == "[" {
            match self.close(end) {
                Some(close) => end = close + 1,
                None => return false,
            }
        }
        end > name + 1 && self.is_word(name) && matches!(self.text(end), ";" | "=" | "{")
    }

    /// The loops that advance by a step.
    fn loops(&self) -> Vec<Loop<'t, 'a>> {
        let of = |at: usize| {
            let close = self.header(at)?;
            let header: &'t [Token<'a>] = self.all.get(at + 2..close)?;
            let plus = header.iter().position(|token| token.text == "+=")?;
            Some(Loop {
                at: self.all.get(at)?.at,
                variable: header.get(plus.checked_sub(1)?)?.text,
                step: header.get(plus + 1..)?,
                body: self.body(close + 1),
            })
        };
        (0..self.all.len())
            .filter_map(of)
            .take(MOST_LOOPS)
            .collect()
    }

    /// The place of the parenthesis that closes the header of the `for` here.
    fn header(&self, at: usize) -> Option<usize> {
        let is_for = self.text(at) == "for" && self.text(at + 1) == "(";
        let close = self.close(at + 1).filter(|_| is_for)?;
        (close - at <= LONGEST_HEADER).then_some(close)
    }

    /// The statement that begins here: a block, or the tokens up to the next semicolon outside of signs that open.
    fn body(&self, begin: usize) -> Range<usize> {
        let mut at = begin;
        while at < self.all.len() {
            match (self.text(at), self.close(at)) {
                ("{", Some(close)) => return begin..close,
                (";", _) => return begin..at,
                (_, Some(close)) => at = close + 1,
                (_, None) => at += 1,
            }
        }
        begin..self.all.len()
    }

    /// True if a loop inside runs over the elements of the block that this loop has advanced to.
    fn tiles(&self, outer: &Loop<'_, '_>) -> bool {
        let is_block = match outer.step {
            [one] if one.kind == Kind::Number => {
                one.text.parse::<u64>().is_ok_and(|n| n >= LEAST_BLOCK)
            }
            [] => false,
            _ => !outer.has_in_step("blockDim"),
        };
        if !is_block {
            return false;
        }
        let runs_over = |token: &Token<'_>| {
            let is_step = match outer.step {
                [one] => token.text == one.text,
                _ => false,
            };
            is_step || token.text == outer.variable
        };
        outer.body.clone().any(|at| {
            // The threads of a block of a GPU stand for the loop inside.
            if self.text(at) == "threadIdx" {
                return true;
            }
            let header = self
                .header(at)
                .and_then(|close| self.all.get(at + 2..close));
            header.is_some_and(|header| header.iter().any(runs_over))
        })
    }
}

impl Loop<'_, '_> {
    fn has_in_step(&self, name: &str) -> bool {
        self.step.iter().any(|token| token.text == name)
    }

    /// True for a loop of a kernel over the blocks of a grid, each program taking every nth one.
    fn strides_over_grid(&self) -> bool {
        self.has_in_step("gridDim")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> String {
        in_extension(source).techniques().to_string()
    }

    #[test]
    fn each_technique_has_a_spelling_and_a_near_miss() {
        for (with, technique, without) in [
            (
                "#pragma omp simd\nfor (int i = 0; i < n; ++i) b[i] = a[i];",
                "simd",
                "// #pragma omp simd\nfor (int i = 0; i < n; ++i) b[i] = a[i];",
            ),
            (
                "auto v = at::vec::Vectorized<float>::loadu(a);",
                "simd",
                "const char* s = \"Vectorized\";",
            ),
            (
                "float4 v = *reinterpret_cast<const float4*>(a);",
                "simd",
                "float v4 = a[4];",
            ),
            (
                "at::parallel_for(0, n, 1, f);",
                "openmp",
                "at::empty({n}, options);",
            ),
            (
                "for (int s = 0; s < n; s += block) for (int i = s; i < s + block; ++i) b[i] = a[i];",
                "cache_blocking",
                "for (int i = 0; i < n; i += step) b[i] = a[i];",
            ),
            (
                "for (int s = 0; s < n; s += 64) { for (int i = 0; i < 64; ++i) b[s + i] = a[s + i]; }",
                "cache_blocking",
                // Four copies of a statement are unrolled.
                "for (int s = 0; s < n; s += 4) { for (int i = 0; i < 4; ++i) b[s + i] = a[s + i]; }",
            ),
            (
                "for (int k = 0; k < n; k += TILE) { sum += a[k + threadIdx.x]; }",
                "cache_blocking",
                "for (int k = threadIdx.x; k < n; k += blockDim.x) { b[k] = a[k]; f(threadIdx.x); }",
            ),
            ("float tile[8][16];", "shared_memory", "void f(float a[8]);"),
            (
                "std::vector<std::int64_t> row(n);",
                "shared_memory",
                "std::vector<torch::Tensor> f(torch::Tensor x);",
            ),
            (
                "__shared__ float tile[32];",
                "shared_memory",
                "float* tile = new float[32];",
            ),
            (
                "c = _mm512_dpbf16_ps(c, a, b);",
                "simd+dot",
                "c = _mm512_mul_ps(a, b);",
            ),
            ("wmma::mma_sync(c, a, b, c);", "dot", "c += a * b;"),
            (
                "#pragma omp parallel for reduction(+:sum)\nfor (int i = 0; i < n; ++i) sum += a[i];",
                "openmp+partial_sums",
                "for (int i = 0; i < n; ++i) sum += a[i];",
            ),
            ("atomicAdd(out, sum);", "partial_sums", "out[0] += sum;"),
            (
                "for (int i = blockIdx.x; i < n; i += gridDim.x) f(i);",
                "persistent",
                "if (blockIdx.x < gridDim.x) f(blockIdx.x);",
            ),
            (
                "asm volatile(\"\"); setmaxnreg(40);",
                "warp_specialized",
                "if (threadIdx.x < 32) f();",
            ),
            (
                "#pragma GCC unroll 8\nfor (;;) {}",
                "unroll",
                "#pragma GCC ivdep\nfor (;;) {}",
            ),
            ("__builtin_prefetch(a);", "prefetch", "prefetched(a);"),
        ] {
            let all = found(with);
            let names: Vec<&str> = all.split('+').collect();
            for name in technique.split('+') {
                assert!(names.contains(&name), "{name} in {all}: {with}");
            }
            let other = found(without);
            let last = technique.split('+').next_back().unwrap_or_default();
            assert!(
                !other.split('+').any(|name| name == last),
                "{last} in {other}: {without}"
            );
        }
    }

    #[test]
    fn a_plain_extension_has_none() {
        let plain = "#include <torch/extension.h>\ntorch::Tensor twice(torch::Tensor x) {\n  auto y = torch::empty_like(x);\n  for (std::int64_t i = 0; i < x.numel(); ++i) y.data_ptr<float>()[i] = 2.0f * x.data_ptr<float>()[i];\n  return y;\n}\n";
        assert_eq!(found(plain), "{}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z0-9{}()\\[\\];+=<>#\n ]{0,80}", words in "(for \\(|float a\\[|vector<|\\+= |#define ){0,6}") {
            let _ = in_extension(&text);
            let _ = in_extension(&(words.clone() + &text));
            let _ = in_extension(&(text + &words));
        }
    }
}
