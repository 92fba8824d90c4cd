//! The pragmas of a preprocessed source.

use flopsmith_protocol::{CandidateFault, Failure};

use super::token::tokens;
use super::{UserText, refused};

/// A pragma.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pragma {
    /// The pragma's line in the source.
    pub line: u32,
    /// The pragma's words and signs, without `#pragma`.
    pub words: Vec<String>,
}

impl Pragma {
    /// True if the pragma begins with these words.
    pub fn starts_with(&self, words: &[&str]) -> bool {
        self.words.len() >= words.len() && self.words.iter().zip(words).all(|(a, b)| a == b)
    }
}

/// Takes the pragmas out of the text (their lines become blank) and refuses those that are not known to be harmless.
///
/// The techniques of the task decide which harmless pragmas are *permitted*; a later stage checks that.
pub fn split(user: &UserText) -> Result<(UserText, Vec<Pragma>), Failure> {
    let mut rest = UserText {
        text: String::with_capacity(user.text.len()),
        lines: user.lines.clone(),
    };
    let mut pragmas = Vec::new();
    for (row, line) in user.text.lines().enumerate() {
        if let Some(text) = line.trim_start().strip_prefix("#pragma") {
            let words: Vec<String> = tokens(text).iter().map(|t| t.text.to_owned()).collect();
            let pragma = Pragma {
                line: user.source_line(row),
                words,
            };
            if !is_known(&pragma) {
                let what = format!("`#pragma {}` is not permitted", text.trim());
                return Err(refused(
                    CandidateFault::ForbiddenConstruct,
                    pragma.line,
                    what,
                ));
            }
            pragmas.push(pragma);
        } else {
            rest.text.push_str(line);
        }
        rest.text.push('\n');
    }
    Ok((rest, pragmas))
}

/// First words of pragmas that a compiler may act on. Compilers ignore all others, so those are harmless.
const UNDERSTOOD: &[&str] = &[
    "STDC",
    "acc",
    "weak",
    "redefine_extname",
    "extern_prefix",
    "scalar_storage_order",
    "push_macro",
    "pop_macro",
    "poison",
    "dependency",
    "system_header",
    "include_alias",
    "ident",
    "init",
    "fini",
    "align",
    "options",
    "ms_struct",
    "section",
    "bss_seg",
    "code_seg",
    "const_seg",
    "data_seg",
    "init_seg",
    "alloc_text",
    "optimize",
    "function",
    "intrinsic",
    "float_control",
    "fp_contract",
    "fenv_access",
    "comment",
    "detect_mismatch",
    "vtordisp",
    "pointers_to_members",
    "export",
    "unused",
    "long_calls",
    "long_calls_off",
    "no_long_calls",
    "OPENCL",
    "unroll_and_jam",
    "nounroll_and_jam",
];

/// Second words of the permitted `#pragma GCC`, apart from `visibility`.
const GCC: &[&str] = &[
    "unroll",
    "ivdep",
    "novector",
    "diagnostic",
    "warning",
    "error",
];

/// Words that no `#pragma omp` may have: offloading is not part of a kernel for the CPU.
const OMP: &[&str] = &["target", "requires", "allocate", "interop"];

/// Second words of `#pragma clang` that give all functions an attribute or a section, which is more than a hint.
const CLANG: &[&str] = &["attribute", "section"];

/// True if this pragma may stand in a program.
fn is_known(pragma: &Pragma) -> bool {
    let word = |at: usize| pragma.words.get(at).map_or("", String::as_str);
    match word(0) {
        "GCC" => match word(1) {
            // The linker exports only the entry, so a pragma that requests more visibility is refused.
            "visibility" => {
                word(2) == "pop" || (word(2) == "push" && matches!(word(4), "hidden" | "internal"))
            }
            second => GCC.contains(&second),
        },
        "omp" => !pragma.words.iter().any(|w| OMP.contains(&w.as_str())),
        "clang" => !CLANG.contains(&word(1)),
        first => !UNDERSTOOD.contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw::TRACELESS;
    use super::*;
    use crate::page;

    fn known(text: &str) -> bool {
        let words = tokens(text).iter().map(|t| t.text.to_owned()).collect();
        is_known(&Pragma { line: 1, words })
    }

    #[test]
    fn the_page_names_each_pragma_of_the_lists() {
        let of = |words: &[&'static str]| page::names(words.iter().copied());
        page::compare(
            "Refused pragmas",
            &[
                of(UNDERSTOOD),
                of(TRACELESS),
                page::prefixed("omp ", OMP.iter().copied()),
                page::prefixed("clang ", CLANG.iter().copied()),
                of(&["GCC"]),
            ],
        );
        page::compare(
            "Permitted pragmas of gcc",
            &[
                page::prefixed("GCC ", GCC.iter().copied()),
                of(&[
                    "GCC visibility push(hidden)",
                    "GCC visibility push(internal)",
                    "GCC visibility pop",
                ]),
            ],
        );
    }

    #[test]
    fn hints_and_words_that_compilers_ignore_are_permitted() {
        for text in [
            "GCC unroll 8",
            "GCC ivdep",
            "GCC diagnostic push",
            "GCC visibility push(hidden)",
            "GCC visibility push(internal)",
            "GCC visibility pop",
            "omp parallel for simd collapse(2)",
            "clang loop unroll(full)",
            "pack(push, 1)",
            "pack(pop)",
            "vendor hint",
            "vector always",
            "once",
        ] {
            assert!(known(text), "{text}");
        }
    }

    #[test]
    fn pragmas_that_change_more_than_a_loop_are_refused() {
        for text in [
            "GCC visibility push(default)",
            "GCC visibility push(protected)",
            "GCC visibility push",
            "GCC optimize(\"O0\")",
            "GCC target(\"avx512f\")",
            "GCC push_options",
            "GCC poison n",
            "omp target",
            "omp parallel target map(to: a)",
            "omp requires unified_shared_memory",
            "omp allocate(a)",
            "omp interop init(target: a)",
            "clang attribute push(__attribute__((used)), apply_to = function)",
            "clang section text = \"kernel\"",
            "STDC FENV_ACCESS ON",
            "weak dgemm",
            "redefine_extname dgemm other",
            "scalar_storage_order big-endian",
            "push_macro(\"n\")",
            "section(\"kernel\")",
        ] {
            assert!(!known(text), "{text}");
        }
    }
}
