//! The check of the preprocessed text, token by token.

use std::collections::BTreeSet;

use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, Failure};

use super::token::{self, Kind, Token, tokens};
use super::{UserText, cleanup, cxx, refused};

/// Attributes that change only layout, inlining or the optimiser's assumptions about the candidate's own code.
/// Attributes that disable a sanitizer's checks in a function (`no_sanitize` and similar ones) must not be added: with
/// them, the sanitizers would find nothing.
pub(super) const ATTRIBUTES: &[&str] = &[
    "aligned",
    "vector_size",
    "may_alias",
    "always_inline",
    "gnu_inline",
    "noinline",
    "noclone",
    "unused",
    "hot",
    "cold",
    "flatten",
    "const",
    "pure",
    "nonnull",
    "returns_nonnull",
    "malloc",
    "assume_aligned",
    "leaf",
    "fallthrough",
    "packed",
    "nothrow",
    "noreturn",
    "warn_unused_result",
    "artificial",
    "ext_vector_type",
    "deprecated",
    "alloc_size",
    "alloc_align",
    "uninitialized",
    "designated_init",
    "transparent_union",
    "noipa",
    "access",
    // The linker exports only the entry, whatever visibility the attribute requests.
    "visibility",
];

/// Words for machine code, for the machine's state, or for the process's internals.
const CONSTRUCTS: &[(&str, &str)] = &[
    ("asm", "inline assembly"),
    ("__asm", "inline assembly"),
    ("__asm__", "inline assembly"),
    ("__declspec", "the attribute list of other compilers"),
    ("__builtin_return_address", "reading the call stack"),
    ("__builtin_frame_address", "reading the call stack"),
    ("__builtin_extract_return_addr", "reading the call stack"),
    ("__builtin_frob_return_addr", "reading the call stack"),
    ("__builtin_dwarf_cfa", "reading the call stack"),
    ("__builtin_unwind_init", "reading the call stack"),
    ("__builtin_eh_return", "reading the call stack"),
    ("__builtin_apply", "building calls by hand"),
    ("__builtin_apply_args", "building calls by hand"),
    ("__builtin_return", "building calls by hand"),
    ("__builtin_setjmp", "jumping between frames"),
    ("__builtin_longjmp", "jumping between frames"),
    ("__builtin_thread_pointer", "reading the thread's own data"),
    (
        "__builtin_set_thread_pointer",
        "changing the thread's own data",
    ),
    ("__tls_get_addr", "reading the thread's own data"),
    ("___tls_get_addr", "reading the thread's own data"),
    ("__seg_fs", "reading the thread's own data"),
    ("__seg_gs", "reading the thread's own data"),
    ("__builtin_init_trampoline", "writing code"),
    ("__builtin___clear_cache", "writing code"),
    ("_DYNAMIC", "reading the loader's tables"),
    ("_GLOBAL_OFFSET_TABLE_", "reading the loader's tables"),
    ("__ehdr_start", "reading the loaded image"),
    ("__executable_start", "reading the loaded image"),
    ("__dso_handle", "reading the loaded image"),
    ("_r_debug", "reading the loader's tables"),
    ("_mm_setcsr", "changing the floating-point state"),
    (
        "_MM_SET_FLUSH_ZERO_MODE",
        "changing the floating-point state",
    ),
    (
        "_MM_SET_DENORMALS_ZERO_MODE",
        "changing the floating-point state",
    ),
    ("_mm_clflush", "flushing caches"),
    ("_mm_clflushopt", "flushing caches"),
    ("_mm_clwb", "flushing caches"),
    ("_mm_monitor", "waiting"),
    ("_mm_mwait", "waiting"),
    ("_xbegin", "transactions"),
    ("_rdtsc", "reading a clock"),
    ("__rdtsc", "reading a clock"),
    ("__rdtscp", "reading a clock"),
    ("_rdpmc", "reading a clock"),
    ("__rdpmc", "reading a clock"),
    ("__builtin_readcyclecounter", "reading a clock"),
    ("__writeeflags", "changing the processor's flags"),
];

/// Prefixes of compiler built-ins with the same effects.
const CONSTRUCT_PREFIXES: &[(&str, &str)] = &[
    ("__builtin_ia32_rdtsc", "reading a clock"),
    ("__builtin_ia32_rdpmc", "reading a clock"),
    ("__builtin_ia32_rdpid", "reading the core's number"),
    (
        "__builtin_ia32_ldmxcsr",
        "changing the floating-point state",
    ),
    (
        "__builtin_ia32_writeeflags",
        "changing the processor's flags",
    ),
    ("__builtin_ia32_rdfsbase", "reading the thread's own data"),
    ("__builtin_ia32_rdgsbase", "reading the thread's own data"),
    ("__builtin_ia32_wrfsbase", "changing the thread's own data"),
    ("__builtin_ia32_wrgsbase", "changing the thread's own data"),
    ("__builtin_ia32_clflush", "flushing caches"),
    ("__builtin_ia32_clwb", "flushing caches"),
    ("__builtin_ia32_xsave", "reading the processor's state"),
    ("__builtin_ia32_xrstor", "changing the processor's state"),
    ("__builtin_ia32_fxrstor", "changing the processor's state"),
    ("__builtin_ia32_xbegin", "transactions"),
    ("__builtin_ia32_mwait", "waiting"),
    ("__builtin_ia32_monitor", "waiting"),
    ("__builtin_ia32_umwait", "waiting"),
    ("__builtin_ia32_tpause", "waiting"),
    ("__asan_", "calling a sanitizer's interface"),
    ("__ubsan_", "calling a sanitizer's interface"),
    ("__tsan_", "calling a sanitizer's interface"),
    ("__lsan_", "calling a sanitizer's interface"),
    ("__hwasan_", "calling a sanitizer's interface"),
    ("__sanitizer_", "calling a sanitizer's interface"),
    ("_readfsbase", "reading the thread's own data"),
    ("_readgsbase", "reading the thread's own data"),
    ("_writefsbase", "changing the thread's own data"),
    ("_writegsbase", "changing the thread's own data"),
];

/// Functions that no kernel needs. The object audit has the complete list of permitted functions; this list only yields
/// an early refusal with a line number.
const SYMBOLS: &[&str] = &[
    "dlopen",
    "dlsym",
    "dlvsym",
    "dl_iterate_phdr",
    "dladdr",
    "syscall",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "fork",
    "vfork",
    "clone",
    "execve",
    "execv",
    "execvp",
    "execl",
    "system",
    "popen",
    "posix_spawn",
    "pthread_create",
    "ptrace",
    "socket",
    "signal",
    "sigaction",
    "setjmp",
    "longjmp",
    "sigsetjmp",
    "siglongjmp",
    "clock_gettime",
    "gettimeofday",
    "sched_setaffinity",
    "sched_getcpu",
    "prctl",
    "getenv",
    "atexit",
    "environ",
    "fesetround",
    "fesetenv",
    "feenableexcept",
    "feupdateenv",
    "omp_set_num_threads",
    "omp_get_wtime",
];

const SYMBOL_PREFIXES: &[&str] = &[
    "cblas_",
    "mkl_",
    "MKL_",
    "LAPACKE_",
    "openblas_",
    "blis_",
    "bli_",
    "libxsmm_",
    "gsl_",
    "GOMP_",
    "gomp_",
    "__kmpc_",
    "kmp_",
    "acc_",
];

/// Names of BLAS, without the letter of their type and the underscore of Fortran.
const BLAS: &[&str] = &[
    "gemm", "gemv", "axpy", "symm", "syrk", "trsm", "trmm", "ger",
];

/// Refuses constructs that are not permitted; `entry` is the candidate's own function.
pub fn check(user: &UserText, entry: &str, language: Language) -> Result<(), Failure> {
    let tokens = tokens(&user.text);
    if let Some(at) = token::too_deep(&tokens) {
        let what = format!("the brackets nest deeper than {} levels", token::DEEPEST);
        let line = user.line_at(at);
        return Err(refused(CandidateFault::ForbiddenConstruct, line, what));
    }
    let is_cxx = language == Language::Cxx;
    if is_cxx {
        cxx::check(user, &tokens)?;
    }
    let own = if is_cxx {
        cxx::defined_functions(&tokens)
    } else {
        defined_functions(&tokens)
    };
    let mut functions = None;
    for (at, token) in tokens.iter().enumerate() {
        let refuse = |fault, what: String| Err(refused(fault, user.line_at(token.at), what));
        let construct = |what: String| refuse(CandidateFault::ForbiddenConstruct, what);
        match token.kind {
            Kind::Word if matches!(token.text, "__attribute__" | "__attribute") => {
                attributes(user, &tokens, at, &mut functions)?;
            }
            Kind::Word => {
                let exact = CONSTRUCTS.iter().find(|(word, _)| *word == token.text);
                let starts = || {
                    CONSTRUCT_PREFIXES
                        .iter()
                        .find(|(p, _)| token.text.starts_with(p))
                };
                if let Some((word, what)) = exact.or_else(starts) {
                    let name = if *word == token.text {
                        word
                    } else {
                        token.text
                    };
                    return construct(format!("{what} is not permitted (`{name}`)"));
                }
                let foreign = SYMBOLS.contains(&token.text)
                    || SYMBOL_PREFIXES.iter().any(|p| token.text.starts_with(p))
                    || is_blas(token.text);
                let called = tokens.get(at + 1).is_some_and(|next| next.text == "(");
                let called = called && !(is_cxx && cxx::is_of_its_own(&tokens, at));
                if foreign && called && token.text != entry && !own.contains(token.text) {
                    return refuse(
                        CandidateFault::ForbiddenSymbol,
                        format!("`{}` may not be used here", token.text),
                    );
                }
            }
            Kind::Sign
                if token.text == "[" && tokens.get(at + 1).is_some_and(|t| t.text == "[") =>
            {
                cxx::attributes(user, &tokens[at..])?;
            }
            // Also covers the digraph `%:`, and a directive that only a macro's expansion produced.
            Kind::Sign if token.text == "#" || (token.text == "%" && follows(&tokens, at, ":")) => {
                return construct("a `#` that begins no directive is not permitted".into());
            }
            Kind::Sign
                if token.text == "<"
                    && follows(&tokens, at, ":")
                    && !(is_cxx && cxx::is_scope(&tokens, at)) =>
            {
                return construct("digraphs are not permitted".into());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Names of the static functions that the source defines. These functions belong to the source, whatever their names,
/// and no other code can be made to call them.
fn defined_functions<'a>(tokens: &[Token<'a>]) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<usize> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" => open.push(at),
            ")" => {
                let name = open.pop().and_then(|start| start.checked_sub(1));
                let body = tokens.get(at + 1).is_some_and(|next| next.text == "{");
                let is_definition =
                    |n: &usize| body && open.is_empty() && tokens[*n].kind == Kind::Word;
                let Some(name) = name.filter(is_definition) else {
                    continue;
                };
                let mut before = tokens[..name]
                    .iter()
                    .rev()
                    .take_while(|t| !matches!(t.text, ";" | "{" | "}"));
                if before.any(|t| t.text == "static") {
                    found.insert(tokens[name].text);
                }
            }
            _ => {}
        }
    }
    found
}

/// True if `sign` follows without a blank.
pub(super) fn follows(tokens: &[Token<'_>], at: usize, sign: &str) -> bool {
    tokens
        .get(at + 1)
        .is_some_and(|next| next.text == sign && next.at == tokens[at].at + tokens[at].text.len())
}

/// True for BLAS names in Fortran's form: `dgemm_`, `sgemv_` and so on.
fn is_blas(word: &str) -> bool {
    word.strip_suffix('_')
        .and_then(|w| w.strip_prefix(['s', 'd', 'c', 'z']))
        .is_some_and(|w| BLAS.contains(&w))
}

/// Checks one `__attribute__((…))`, whose first word stands at `start`. `functions` are those of the source, once they
/// were looked for.
fn attributes<'a, 't>(
    user: &UserText,
    all: &'a [Token<'t>],
    start: usize,
    functions: &mut Option<cleanup::Functions<'a, 't>>,
) -> Result<(), Failure> {
    let tokens = &all[start..];
    let refuse = |at: usize, what: String| {
        Err(refused(
            CandidateFault::ForbiddenConstruct,
            user.line_at(at),
            what,
        ))
    };
    if !(tokens.get(1).is_some_and(|t| t.text == "(")
        && tokens.get(2).is_some_and(|t| t.text == "("))
    {
        return refuse(tokens[0].at, "`__attribute__` without its list".into());
    }
    let mut depth = 2;
    let mut expected = true;
    for (at, token) in tokens.iter().enumerate().skip(3) {
        match token.text {
            "(" => depth += 1,
            ")" => {
                depth -= 1;
                if depth == 0 {
                    return Ok(());
                }
            }
            "," if depth == 2 => expected = true,
            word if depth == 2 && expected => {
                let name = word.trim_matches('_');
                if name == "cleanup" {
                    let function = tokens.get(at + 2).map_or("", |t| t.text);
                    let functions = functions.get_or_insert_with(|| cleanup::Functions::of(all));
                    if let Err(why) = functions.check(function) {
                        return refuse(token.at, why);
                    }
                } else if !ATTRIBUTES.contains(&name) {
                    return refuse(token.at, format!("the attribute `{word}` is not permitted"));
                }
                expected = false;
            }
            // A second word would be an attribute that the grammar of attributes does not allow.
            word if depth == 2 => {
                return refuse(
                    token.at,
                    format!("`{word}` is not permitted in an attribute list"),
                );
            }
            _ => {}
        }
    }
    refuse(tokens[0].at, "`__attribute__` without its end".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    #[test]
    fn the_page_names_each_word_and_function_of_the_lists() {
        page::compare(
            "Words of C and C++",
            &[
                page::with_reasons(CONSTRUCTS),
                page::beginnings_with_reasons(CONSTRUCT_PREFIXES),
            ],
        );
        let blas = BLAS.iter().map(|name| format!("?{name}_"));
        page::compare(
            "Functions of C and C++",
            &[
                page::names(SYMBOLS.iter().copied()),
                page::beginnings(SYMBOL_PREFIXES.iter().copied()),
                page::names(blas.collect::<Vec<_>>().iter().map(String::as_str)),
            ],
        );
        page::compare(
            "Permitted attributes",
            &[
                page::names(ATTRIBUTES.iter().copied()),
                page::prefixed("[[", cxx::STANDARD.iter().copied()),
                page::names(["cleanup"]),
            ],
        );
    }
}
