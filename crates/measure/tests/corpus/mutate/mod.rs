//! Mechanical variants of the programs. Variants of attacks: the same cheat under other names, with every word behind a
//! macro, behind further functions, in parts, and only in some calls. They expose a check that looks for words instead
//! of effects. Variants of honest programs (`honest`): the same work in other words, which must stay accepted.
//!
//! The variants consist of words of C, which C++ has too. Fortran has no variants: its names ignore case, have their
//! types in another statement, and stand beside words that are no keywords.

mod entry;
mod helpers;
pub mod honest;
mod names;
mod tokens;
mod triggers;

pub use entry::Entry;
use flopsmith_problem::Language;
use helpers::in_two;
use names::{pasted, renamed};
use triggers::{fall_back, triggers};

/// The calls in which a variant acts like its attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// In every call.
    Always,
    /// In every call, under other names: a name that the variant defines itself no longer belongs to a library.
    Renamed,
    /// In every call of the timed size: verification makes some of these, and timing only these.
    WhenTimed,
    /// In some calls of every verification, at several sizes, and perhaps in no timed one.
    WhenVerified,
    /// Perhaps in no call before the verdict. Then the variant is an honest program.
    Perhaps,
}

/// A variant's name and source.
pub struct Variant {
    pub how: &'static str,
    pub acts: Acts,
    pub source: String,
}

/// All variants of an attack. If the declaration of its entry differs from the problem's, only those without a wrapper.
pub fn variants(source: &str, entry: &Entry) -> Vec<Variant> {
    let kept = entry.kept();
    let mut made = vec![
        Variant {
            how: "renamed",
            acts: Acts::Renamed,
            source: renamed(source, &kept),
        },
        Variant {
            how: "pasted names",
            acts: Acts::Always,
            source: pasted(source, kept.entry),
        },
        Variant {
            how: "renamed and pasted",
            acts: Acts::Renamed,
            source: pasted(&renamed(source, &kept), kept.entry),
        },
    ];
    let plain = honest::joined(source);
    let mut rewritten = vec![
        ("words behind macros", honest::all_behind_macros(source)),
        ("comments and lines between words", honest::spread(&plain)),
        (
            "braces and directives by digraphs",
            honest::by_digraphs(&plain),
        ),
    ];
    if entry.language == Language::C {
        rewritten.push(("helpers in two functions", in_two(&plain)));
    }
    made.extend(rewritten.into_iter().map(|(how, source)| Variant {
        how,
        acts: Acts::Always,
        source,
    }));
    made.extend(behind(source, entry, "attack"));
    made.extend(triggered(source, entry));
    made.retain(|variant| variant.source != source);
    made
}

/// The entry becomes a function `inner` of the program. A new entry calls it, directly and through a table.
fn behind(source: &str, entry: &Entry, inner: &str) -> Vec<Variant> {
    let (parameters, arguments) = (entry.parameters(), entry.arguments());
    let call = format!("{inner}({arguments});");
    let table = format!("static void (*volatile way[2]){parameters} = {{{inner}, {inner}}};\n");
    let size = entry.sizes().next().unwrap();
    let by_table = format!("way[{size} / 64 % 2]({arguments});");
    let mut made = vec![
        ("behind a function", entry.wrapped(source, inner, "", &call)),
        (
            "behind a table of functions",
            entry.wrapped(source, inner, &table, &by_table),
        ),
    ];
    if entry.language == Language::Cxx {
        made.push((
            "behind a function in a namespace without a name",
            entry.in_namespace(source, inner),
        ));
    }
    made.into_iter()
        .filter_map(|(how, source)| {
            Some(Variant {
                how,
                acts: Acts::Always,
                source: source?,
            })
        })
        .collect()
}

/// The attack in some calls only, and honest work in the others.
fn triggered(source: &str, entry: &Entry) -> Vec<Variant> {
    let arguments = entry.arguments();
    let plain = fall_back(entry);
    triggers(entry)
        .into_iter()
        .filter_map(|trigger| {
            let body = format!(
                "static long calls, work; calls++; (void)work; if ({}) attack({arguments}); else plain_loops({arguments});",
                trigger.condition
            );
            let before = format!("{plain}{}", trigger.needed);
            let made = entry.wrapped(source, "attack", &before, &body)?;
            Some(Variant {
                how: trigger.how,
                acts: trigger.acts,
                source: renamed(&made, &entry.kept()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use flopsmith_problem::Problem;

    use super::*;
    use crate::fixtures::shipped;

    const DGEMM: &str = "void dgemm(int n, const double *A, const double *B, double *C) {";

    fn of<'v>(made: &'v [Variant], how: &str) -> &'v str {
        &made.iter().find(|v| v.how == how).unwrap().source
    }

    fn entry(problem: &Problem, language: Language) -> Entry<'_> {
        Entry { problem, language }
    }

    #[test]
    fn variants_say_the_same_in_other_words() {
        let source = format!(
            "// attack: 8\n#include <string.h>\nstatic double kept[4];\nstatic void step(double *to) {{ memcpy(to, kept, 8); }}\n{DGEMM}\n  for (int i = 0; i < n; i++) step(C + i);\n}}\n"
        );
        let problem = shipped("dgemm");
        let entry = entry(&problem, Language::C);
        let made = variants(&source, &entry);
        assert_eq!(made.len(), 9 + triggers(&entry).len());
        let acting = |acts: Acts| made.iter().filter(|v| v.acts == acts).count();
        assert_eq!([Acts::Always, Acts::Renamed].map(acting), [7, 2]);
        assert_eq!([Acts::WhenTimed, Acts::WhenVerified].map(acting), [1, 3]);
        let renamed = of(&made, "renamed");
        assert!(!renamed.contains("kept") && renamed.contains("memcpy"));
        let pasted = of(&made, "pasted names");
        assert!(pasted.contains("PASTED(mem, cpy)(to, kept, 8)"));
        assert!(pasted.starts_with("// attack: 8\n#define PASTED_"));
        let hidden = of(&made, "words behind macros");
        assert!(
            hidden.contains("HIDDEN_memcpy(HIDDEN_to, HIDDEN_kept, 8)"),
            "{hidden}"
        );
        assert!(
            hidden.contains("#define HIDDEN_memcpy memcpy\n"),
            "{hidden}"
        );
        assert!(of(&made, "helpers in two functions").contains("step_itself"));
        assert!(of(&made, "behind a function").contains("{ attack(n, A, B, C); }"));
        assert!(of(&made, "at other sizes").contains("!= 256"));
    }

    #[test]
    fn names_in_directives_are_the_same_ones() {
        let source = "#define AT(r) rows[r]\n#ifdef rows\n#undef rows\n#endif\nvoid f(int rows) {\n#pragma omp parallel rows shared(rows)\n}\n";
        let problem = shipped("dgemm");
        let made = renamed(source, &entry(&problem, Language::C).kept());
        assert!(
            made.contains("AT(r) q1z[r]\n#ifdef q1z\n#undef q1z"),
            "{made}"
        );
        assert!(made.contains("parallel rows shared(q1z)"), "{made}");
    }

    #[test]
    fn members_of_cxx_keep_their_names_and_entries_lose_their_linkage() {
        let source = format!(
            "static int size;\nstatic int mine;\nextern \"C\" {DGEMM}\n  use(size + v.size() + mine);\n  if (n) {{ }}\n}}\nint last;\n"
        );
        let problem = shipped("dgemm");
        let made = variants(&source, &entry(&problem, Language::Cxx));
        let renamed = of(&made, "renamed");
        assert!(renamed.contains("use(size + v.size() + q0z)"), "{renamed}");
        let inner = of(&made, "behind a function");
        assert!(inner.contains("\n__attribute__((noinline)) static void attack(int n,"));
        assert!(inner.ends_with(
            "extern \"C\" void dgemm(int n, const double *A, const double *B, double *C) { attack(n, A, B, C); }\n"
        ));
        let namespace = of(&made, "behind a function in a namespace without a name");
        assert!(
            namespace.contains("if (n) { }\n}\n}\n\nint last;"),
            "{namespace}"
        );
    }

    /// The tests can wrap the entry of every problem, and its reference does the work of the other calls.
    #[test]
    fn every_problem_has_triggers() {
        for folder in flopsmith_test_support::shipped::problems() {
            let problem = Problem::load(&folder).unwrap();
            let entry = entry(&problem, Language::C);
            let made = variants(&problem.reference_source, &entry);
            let acting = |acts: Acts| made.iter().filter(|v| v.acts == acts).count();
            let counts = [Acts::WhenTimed, Acts::WhenVerified, Acts::Perhaps].map(acting);
            assert_eq!(counts, [1, 3, triggers(&entry).len() - 4], "{}", problem.id);
        }
    }

    #[test]
    fn conditions_are_made_of_the_problems_own_parameters() {
        let conditions = |name: &str| {
            let problem = shipped(name);
            let made = triggers(&entry(&problem, Language::C));
            made.into_iter().map(|t| t.condition).collect::<Vec<_>>()
        };
        let dgemm = conditions("dgemm");
        assert_eq!(dgemm[0], "n == 256");
        assert_eq!(dgemm[8], "A[0] > 0.0");
        let spmv = conditions("spmv");
        assert_eq!(spmv[0], "n == 16384 && m == 16384");
        assert_eq!(spmv[1], "n != 16384 || m != 16384");
        assert_eq!(spmv[6], "((__UINTPTR_TYPE__)y >> 12) % 2 == 1");
        assert_eq!(spmv[8], "column[0] % 2 == 0");
        let softmax = conditions("softmax");
        assert_eq!(softmax[5], "(work += (long)m * n) > 2359296");
        assert_eq!(softmax[8], "in[0] > 0.0");
        let options = conditions("black_scholes");
        assert_eq!(options[8], "spot[0] > 255.0");
    }

    #[test]
    fn other_calls_do_what_the_reference_does() {
        let problem = shipped("stencil2d");
        let made = fall_back(&entry(&problem, Language::C));
        assert!(made.contains("static void plain_loops(int h, int w, int sweeps,"));
        assert!(made.contains("free(old);") && !made.contains("stencil2d"));
        let problem = shipped("dgemm");
        let made = fall_back(&entry(&problem, Language::C));
        assert!(made.contains("C[i * n + j] += A[i * n + k]"));
        // A program for this problem may have a function `step` of its own.
        let problem = shipped("polybench_jacobi_2d");
        let made = fall_back(&entry(&problem, Language::C));
        assert!(made.contains("static void plain_step(int n, const double *from"));
        assert!(made.contains(" plain_step(n, A, B);") && !made.contains(" step("));
        assert!(made.contains("static void plain_loops(int tsteps, int n, double *A"));
    }
}
