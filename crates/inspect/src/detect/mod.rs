//! Detects the techniques of a source.
//!
//! Words and pragmas show vectors, threads, prefetching and unrolling. A walk through the syntax tree shows the loop
//! nest. The walk is a heuristic over arbitrary programs: it covers the code that people and models write, and does not
//! resist code that is written to deceive it. A wrong result puts a program into the wrong cell of the archive and has
//! no effect on safety.
//!
//! A detection runs on a thread of its own, whose stack is large enough for the deepest source.

mod assign;
mod branch;
mod call;
mod cxx;
mod declare;
mod eval;
mod extension;
mod facts;
mod fortran;
mod hidden;
mod judge;
mod loops;
mod names;
mod poly;
mod record;
mod reference;
mod shapes;
mod tidy;
mod walk;
mod words;
mod wrap;

use std::time::Duration;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, Technique, TechniqueSet};
use nix::time::{ClockId, clock_gettime};

use crate::scan::token::{self, tokens};
use crate::scan::{Looked, Pragma, UserText};
use crate::stack::on_a_deep_stack;
pub use extension::in_extension;
use facts::Facts;
use shapes::Shapes;

/// The parser may make a hundred steps for each byte of a text, and so many hundreds besides. A correct program takes a
/// few for each byte.
const STEPS: usize = 20_000;

/// The parser may take so much time of the processor, and as much again for each megabyte: a step after a mistake takes time in
/// proportion to all text before it. A correct program of a megabyte takes a fifth of a second.
const LONGEST: Duration = Duration::from_secs(3);

/// The reason to refuse a program that the parser gave up.
const UNREAD: &str =
    "the source is so far from C that the grammar does not recognise it in reasonable time";

/// A program beyond a limit of the walk or of the rewriting.
const CUT: &str = "the program has more statements or nests deeper than the analysis follows";

/// A technique, with the place and the text that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The technique.
    pub technique: Technique,
    /// Line of the source; 0 if the source does not show the technique.
    pub line: u32,
    /// A description of the text that shows the technique.
    pub what: String,
}

/// All findings in a source; each technique occurs once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detected {
    /// The techniques, in the order in which they were seen.
    pub seen: Vec<Seen>,
    /// A warning that the walk did not understand part of the program, so techniques may be missing.
    pub unsure: Option<&'static str>,
    /// A loop that the walk did not follow, with its line. The loop may use any technique of loops.
    pub hidden: Option<(u32, String)>,
}

impl Detected {
    /// Notes a technique, unless it was noted before.
    pub fn note(&mut self, technique: Technique, line: u32, what: impl Into<String>) {
        if self.seen.iter().all(|s| s.technique != technique) {
            self.seen.push(Seen {
                technique,
                line,
                what: what.into(),
            });
        }
    }

    /// The techniques.
    pub fn techniques(&self) -> TechniqueSet {
        self.seen.iter().map(|s| s.technique).collect()
    }
}

/// Detects techniques in a preprocessed source without its pragmas, and in the `pragmas`.
///
/// # Errors
/// The candidate's fault if the source nests deeper than the walk goes; an infrastructure failure if the parser or the
/// thread cannot be made.
pub fn detect(
    user: &UserText,
    pragmas: &[Pragma],
    problem: &Problem,
    language: Language,
) -> Result<Detected, Failure> {
    on_a_deep_stack(|| detect_here(user, pragmas, problem, language))
}

/// [`detect`] on the stack of the caller.
pub(crate) fn detect_here(
    user: &UserText,
    pragmas: &[Pragma],
    problem: &Problem,
    language: Language,
) -> Result<Detected, Failure> {
    let refused = |what: String| Failure::candidate(CandidateFault::ForbiddenConstruct, what);
    let mut found = Detected::default();
    let all = tokens(&user.text);
    if let Some(at) = token::too_deep(&all) {
        let (line, most) = (user.line_at(at), token::DEEPEST);
        return Err(refused(format!(
            "line {line}: the brackets nest deeper than {most} levels"
        )));
    }
    words::in_words(user, &all, &mut found);
    words::in_pragmas(pragmas, &mut found);

    let is_cxx = language == Language::Cxx;
    let lines = |row: usize| user.source_line(row);
    let Walked {
        facts,
        broken,
        unread,
    } = walked(&user.text, &lines, problem, language)?;
    let jumps = hidden::find(&all, language).map(|h| (user.line_at(h.at), h.what));
    found.hidden = jumps.or(wrapped(&facts)).or(cut(&facts));
    if found.hidden.is_some() {
        found.unsure = Some(
            "the analysis follows only separate loops that are written as `for`, `while` or `do`: it may miss techniques of the loop nest",
        );
    }
    if is_cxx && broken {
        found.unsure = Some(
            "the analysis reads loops as C, and parts of this program are not C: it may miss techniques of the loop nest",
        );
    }
    if unread && !is_cxx {
        return Err(refused(UNREAD.into()));
    }
    if unread && found.hidden.is_none() {
        found.hidden = Some((1, UNREAD.into()));
    }
    judge_loops(&facts, problem, &mut found);
    Ok(found)
}

/// Detects the techniques of a Fortran program in its directives and loops. The object audit detects OpenMP, vectors
/// and prefetching in the compiled code.
///
/// # Errors
/// An infrastructure failure if the parser or the thread cannot be made.
pub fn in_fortran(looked: &Looked, problem: &Problem) -> Result<Detected, Failure> {
    on_a_deep_stack(|| in_fortran_here(looked, problem))
}

/// [`in_fortran`] on the stack of the caller.
pub(crate) fn in_fortran_here(looked: &Looked, problem: &Problem) -> Result<Detected, Failure> {
    let mut found = Detected {
        hidden: looked.jump.clone(),
        ..Detected::default()
    };
    let in_c = |word: &String| match word.as_str() {
        "do" => "for".to_owned(),
        word => word.to_owned(),
    };
    let as_in_c = looked.directives.iter().map(|directive| Pragma {
        line: directive.line,
        words: directive.words.iter().map(in_c).collect(),
    });
    words::in_pragmas(&as_in_c.collect::<Vec<_>>(), &mut found);
    let loops = fortran::as_c(looked.statements(), problem);
    let lines = |row: usize| loops.lines.get(row).copied().unwrap_or(1);
    let Walked {
        facts,
        broken,
        unread,
    } = walked(&loops.text, &lines, problem, Language::C)?;
    found.hidden = found
        .hidden
        .take()
        .or(loops.hidden)
        .or_else(|| wrapped(&facts))
        .or_else(|| cut(&facts))
        .or_else(|| unread.then(|| (1, UNREAD.into())));
    if found.hidden.is_some() || loops.unsure || broken {
        found.unsure = Some(
            "the analysis follows `do` loops and assignments: it does not understand parts of this program and may miss techniques of the loop nest",
        );
    }
    judge_loops(&facts, problem, &mut found);
    Ok(found)
}

/// A loop that the walk did not reach before its limits.
fn cut(facts: &Facts) -> Option<(u32, String)> {
    (facts.cut || facts.too_deep).then(|| (1, CUT.into()))
}

/// The facts of a program.
struct Walked {
    facts: Facts,
    /// True if the grammar did not understand parts of the text.
    broken: bool,
    /// True if the parser reached its limit, so there are no facts.
    unread: bool,
}

/// Walks through a program in C, or in C++ that is rewritten as C.
fn walked(
    text: &str,
    lines: &dyn Fn(usize) -> u32,
    problem: &Problem,
    language: Language,
) -> Result<Walked, Failure> {
    let all = tokens(text);
    let types = tidy::vector_types(&all);
    let mut plain = tidy::without_attributes(text, &all);
    if language == Language::Cxx {
        let Some(as_c) = cxx::as_c(&plain) else {
            return Ok(Walked {
                facts: Facts {
                    cut: true,
                    ..Facts::default()
                },
                broken: true,
                unread: false,
            });
        };
        plain = as_c;
    }
    let mut parser = tree_sitter::Parser::new();
    if parser
        .set_language(&tree_sitter_c::LANGUAGE.into())
        .is_err()
    {
        return Err(Failure::infrastructure(
            InfrastructureCause::Compiler,
            "the parser cannot load the C grammar",
        ));
    }
    let Some(tree) = parsed(&mut parser, &plain) else {
        return Ok(Walked {
            facts: Facts::default(),
            broken: true,
            unread: true,
        });
    };
    Ok(Walked {
        facts: walk::facts(tree.root_node(), &plain, lines, types, problem, language),
        broken: tree.root_node().has_error(),
        unread: false,
    })
}

/// The syntax tree of a text; none if the parser makes too many steps or takes too long. It tries many readings of a text that is broken
/// in many places.
fn parsed(parser: &mut tree_sitter::Parser, text: &str) -> Option<tree_sitter::Tree> {
    let bytes = text.as_bytes();
    // The parser asks after every hundred steps whether to stop.
    let mut left = STEPS + bytes.len();
    let end = spent() + LONGEST + LONGEST.mul_f64(text.len() as f64 / f64::from(1 << 20));
    let mut stops = |_: &tree_sitter::ParseState| {
        left = left.saturating_sub(1);
        left == 0 || spent() > end
    };
    let options = tree_sitter::ParseOptions::new().progress_callback(&mut stops);
    let mut read = |at: usize, _: tree_sitter::Point| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut read, None, Some(options))
}

/// The processor time of this thread: on a busy machine a source gets as much as on a quiet one.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

/// Notes the techniques of the loop nest that the problem lists. A task of the problem cannot permit the others, and
/// the archive has no cells for them.
fn judge_loops(facts: &Facts, problem: &Problem, found: &mut Detected) {
    let shapes = Shapes::of(problem);
    let reference = reference::of(problem, &shapes);
    let mut loops = Detected::default();
    judge::judge(facts, &shapes, &reference, &mut loops);
    for seen in loops.seen {
        if problem.techniques.contains(seen.technique) {
            found.note(seen.technique, seen.line, seen.what);
        }
    }
}

/// A loop that combines several loops, with its line.
fn wrapped(facts: &Facts) -> Option<(u32, String)> {
    facts.wraps.clone().map(|(line, name)| {
        let what = format!(
            "a loop sets `{name}` back where another variable moves: a loop that combines several loops"
        );
        (line, what)
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_generator::schedule::Space;
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    fn problem() -> Problem {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        Problem::load(&root).unwrap()
    }

    #[test]
    fn directives_of_fortran_tell_of_techniques() {
        let directive = |text: &str| Pragma {
            line: 1,
            words: text.split(' ').map(str::to_owned).collect(),
        };
        let of = |texts: &[&str]| {
            let looked = Looked {
                directives: texts.iter().map(|t| directive(t)).collect(),
                ..Looked::default()
            };
            let found = in_fortran(&looked, &problem()).unwrap();
            found.techniques().to_string()
        };
        assert_eq!(of(&["omp parallel do", "omp end parallel do"]), "openmp");
        assert_eq!(of(&["omp do"]), "openmp");
        assert_eq!(of(&["omp simd", "GCC unroll 4"]), "unroll+simd");
        assert_eq!(of(&["GCC ivdep"]), "{}");
    }

    #[test]
    fn attributes_in_brackets_hide_no_loop() {
        let of = |attribute: &str| {
            let text = format!(
                "void dgemm(int n, const double *A, const double *B, double *C) {{\nfor (int i = 0; i < n; i++) {attribute} for (int k = 0; k < n; k++) {attribute} {{\nfor (int j = 0; j < n; j++) {attribute} C[i * n + j] += A[i * n + k] * B[k * n + j];\n}}\n}}\n"
            );
            let user = UserText {
                lines: (1..6).collect(),
                text,
            };
            [Language::C, Language::Cxx].map(|language| {
                let found = detect(&user, &[], &problem(), language).unwrap();
                (found.techniques().to_string(), found.unsure)
            })
        };
        assert_eq!(of("[[gnu::hot]]"), of(""));
        assert_eq!(of("[[deprecated(\"]]\"), nodiscard]]")[0].0, "loop_reorder");
    }

    #[test]
    fn a_branch_that_sets_a_counter_back_combines_loops() {
        let hidden = |branch: &str| {
            let text = format!(
                "void dgemm(int n, const double *A, const double *B, double *C) {{\nint i = 0, k = 0, j = 0;\nwhile (i < n) {{\nC[i * n + j] += A[i * n + k] * B[k * n + j];\nj++;\nint last = j == n;\n{branch}\n}}\n}}\n"
            );
            let user = UserText {
                lines: (1..10).collect(),
                text,
            };
            let found = detect(&user, &[], &problem(), Language::C).unwrap();
            found.hidden.map(|(_, what)| what)
        };
        for branch in [
            "if (last) { j = 0; k++; }",
            "switch (last) { case 1: j = 0; k++; }",
            "switch (last) { case 0: break; default: j = 0, k++; }",
        ] {
            let what = hidden(branch);
            assert!(
                what.as_ref()
                    .is_some_and(|what| what.contains("combines several loops")),
                "{branch}: {what:?}"
            );
        }
        assert_eq!(hidden("switch (last) { case 1: k++; }"), None);
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let nested = |open: &str, inside: &str, close: &str| {
            let levels = 10_000;
            format!("{}{inside}{}", open.repeat(levels), close.repeat(levels))
        };
        for text in [
            nested("extern \"C\" {\n", "int x;\n", "}\n"),
            format!("void dgemm({}) {{}}\n", nested("int a(", "int b", ")")),
            format!("void dgemm(int n) {{\n{}}}\n", nested("{\n", "n;\n", "}\n")),
            format!("void dgemm(int n) {{ n = {}; }}\n", nested("(", "1", ")")),
        ] {
            let user = UserText {
                lines: vec![1; text.lines().count()],
                text,
            };
            let found = detect(&user, &[], &problem(), Language::C);
            assert!(
                matches!(found, Ok(_) | Err(Failure::Candidate { .. })),
                "{found:?}"
            );
        }
    }

    /// Many statements in deep loops, each of which reads many elements, and values that pass through many variables.
    #[test]
    fn a_judgement_of_many_places_ends() {
        let loops: String = (0..24)
            .map(|d| format!("for (int i{d} = 0; i{d} < n; i{d} += 2)\n"))
            .collect();
        let sum: String = (0..24).map(|d| format!(" + i{d} * (n + {d})")).collect();
        let reads: String = (0..20).map(|r| format!(" + A[{r}{sum}] * t{r}")).collect();
        let declared: String = (0..20).map(|r| format!("double t{r} = 0;\n")).collect();
        let statements: String = (0..40)
            .map(|s| {
                format!(
                    "t{} = t{}{reads};\nC[{s}{sum}] += t{};\n",
                    s % 20,
                    (s + 1) % 20,
                    s % 20
                )
            })
            .collect();
        let text = format!(
            "void dgemm(int n, const double *A, const double *B, double *C) {{\n{declared}{loops}{{\n{statements}}}\n}}\n"
        );
        let user = UserText {
            lines: vec![1; text.lines().count()],
            text,
        };
        assert!(detect(&user, &[], &problem(), Language::C).is_ok());
    }

    proptest! {
        /// Programs as a half-trained model writes them, with missing, repeated and misplaced pieces.
        #[test]
        fn broken_programs_are_looked_at_without_panic(
            seed: u64,
            cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..3), 1..6),
        ) {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let program = Space::dgemm().sample(&mut rng, TechniqueSet::all()).render();
            let mut words: Vec<&str> = tokens(&program).iter().map(|t| t.text).collect();
            for (from, to, what) in &cuts {
                let (a, b) = (from.index(words.len()), to.index(words.len()));
                match what {
                    0 => words.swap(a, b),
                    1 => { words.remove(a); }
                    _ => words.insert(b, words[a]),
                }
            }
            let text = words.join(" ");
            let user = UserText { lines: vec![1; text.lines().count()], text };
            let found = detect(&user, &[], &problem(), Language::C);
            prop_assert!(found.is_ok());
            let found = detect(&user, &[], &problem(), Language::Cxx);
            prop_assert!(found.is_ok());
        }
    }
}
