//! How a problem is asked for, and how the program is found in the answer.

use std::fmt::Write;

use flopsmith_protocol::{EliteHint, Technique, TechniqueSet};

use crate::{
    ArgKind, CXX_HEADERS, Caches, Element, FORTRAN_MODULES, Language, Problem, Role, WORKS, module,
};

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// One line, for small models that were trained on it ([`one_line`]).
    Compact,
    /// The loop nest of the reference, for small models that were trained on nests. `flopsmith-nest` reads the nest and
    /// states it.
    Nest,
    /// The whole task in words, for chat models ([`full`]).
    Full,
}

impl Style {
    /// True if the prompt is a message to a chat model, whose program stands in a fenced block of the answer.
    pub fn is_chat(self) -> bool {
        self == Self::Full
    }
}

/// One line on a technique, for prompts.
pub fn definition(technique: Technique) -> &'static str {
    match technique {
        Technique::LoopReorder => "run the loops in another order than the plain reference",
        Technique::Unroll => "repeat a loop body, by hand or with a pragma",
        Technique::CacheBlocking => "tile loops so that a block of the data stays in a cache",
        Technique::RegisterBlocking => {
            "keep several elements of the result in local variables across a loop that updates them"
        }
        Technique::Packing => "copy elements of an argument into a buffer that the work reads",
        Technique::Simd => "use vector types, vector intrinsics or omp simd",
        Technique::Openmp => "share the work among OpenMP threads",
        Technique::Prefetch => "prefetch data explicitly",
        Technique::PartialSums => "sum the terms of one result in several accumulators",
        Technique::Skewing => {
            "let the elements that a sweep runs over depend on the number of the sweep"
        }
        Technique::Fusion => "run statements of separate loops of the plain reference in one loop",
        Technique::SharedMemory => "keep blocks in memory that the threads of a kernel share",
        Technique::Dot => "multiply blocks by an instruction for whole blocks",
        Technique::Autotuned => {
            "give a kernel several configurations, of which the fastest is used"
        }
        Technique::Persistent => {
            "let a program of the grid work on several blocks, one after the other"
        }
        Technique::WarpSpecialized => "give groups of threads of one kernel different work",
        Technique::Fission => {
            "split a loop of the plain reference into several loops over the same range, each with some of its statements"
        }
        Technique::Recomputation => {
            "compute values again where they are used that the plain reference keeps in an array"
        }
        Technique::LayoutChange => {
            "copy a whole argument once, with its elements in another order or at other distances"
        }
        Technique::BranchRemoval => {
            "run a statement without its condition in the plain reference: choose its value by arithmetic, a minimum or a maximum, or split the loop"
        }
    }
}

/// The prompt that only names a problem, with some techniques permitted.
pub fn one_line(problem: &Problem, permitted: TechniqueSet) -> String {
    compact(&named(problem), permitted)
}

/// The name of a problem in a one-line prompt, with the arguments that are neither sizes nor plain inputs and outputs.
fn named(problem: &Problem) -> String {
    let of = |what: &str, kind: fn(&ArgKind) -> bool| {
        let args = problem.entry.args.iter().filter(|arg| kind(&arg.kind));
        let names: String = args.map(|arg| format!(" {}", arg.name)).collect();
        (!names.is_empty()).then(|| format!("{what}{names}"))
    };
    let parts = [
        of("inout", |kind| {
            matches!(
                kind,
                ArgKind::Array {
                    role: Role::InOut,
                    ..
                }
            )
        }),
        of("scalar", |kind| matches!(kind, ArgKind::Scalar { .. })),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return problem.id.as_str().to_owned();
    }
    format!("{} ({})", problem.id, parts.join(", "))
}

/// The one-line prompt.
pub fn compact(problem: &str, permitted: TechniqueSet) -> String {
    let mut text = format!("// {problem}:");
    if permitted.is_empty() {
        text.push_str(" none");
    }
    for technique in permitted.iter() {
        text.push(' ');
        text.push_str(technique.name());
    }
    text.push('\n');
    text
}

/// A prompt to do better than a program: `prompt` asks for the problem's solution, and `slow` is one. With a `fence` it stands in a block of
/// that language.
pub fn improve(prompt: &str, slow: &str, fence: Option<&str>) -> String {
    let (prompt, slow) = (prompt.trim_end(), slow.trim_end());
    match fence {
        None => format!("{prompt}\n// slow:\n{slow}\n// fast:\n"),
        Some(fence) => format!(
            "{prompt}\n\nThis program is right, and slow. Write a faster one:\n\n```{fence}\n{slow}\n```\n"
        ),
    }
}

/// An answer that is this program and nothing else, which [`extract`] finds again. With a `fence` it stands in a block of that language.
pub fn answer(source: &str, fence: Option<&str>) -> String {
    match fence {
        None => source.to_owned(),
        Some(fence) => format!("```{fence}\n{}\n```\n", source.trim_end()),
    }
}

/// The whole task in words, with some techniques permitted, perhaps with a program to build on.
pub fn full(problem: &Problem, permitted: TechniqueSet, elite: Option<&EliteHint>) -> String {
    format!(
        "{}Answer with the whole program, at most {} bytes, in one ```{} block.\n",
        stated(problem, permitted, elite),
        problem.max_source_bytes,
        problem.language.fence()
    )
}

/// The prompt of [`full`] without the form of the answer.
pub fn stated(problem: &Problem, permitted: TechniqueSet, elite: Option<&EliteHint>) -> String {
    let mut text = String::new();
    let out = &mut text;
    let task = problem.prompt_text.as_deref().unwrap_or(&problem.title);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}\n", task.trim());
    let language = problem.language;
    let _ = writeln!(out, "{}\n", wanted(problem));
    let _ = writeln!(out, "{}\n", judged(problem, permitted));
    let pool = problem.techniques;
    let define: fn(Technique) -> &'static str = match problem.module {
        None => definition,
        Some(_) => module::definition,
    };
    let list = |set: TechniqueSet| {
        set.iter()
            .map(|t| format!("- {}: {}\n", t.name(), define(t)))
            .collect::<String>()
    };
    let allowed = permitted.intersection(pool);
    if allowed.is_empty() {
        let _ = writeln!(
            out,
            "No optimization technique is permitted: write the plain loops.\n"
        );
    } else {
        let _ = writeln!(out, "Permitted techniques:\n{}", list(allowed));
    }
    let forbidden = pool.difference(permitted);
    if !forbidden.is_empty() {
        let _ = writeln!(
            out,
            "Forbidden techniques (a program that uses one is refused):\n{}",
            list(forbidden)
        );
    }
    if let Some(elite) = elite {
        let _ = writeln!(
            out,
            "This program uses {} and reaches {:.1} GFLOPS. Build on it:\n\n```{}\n{}\n```\n",
            elite.techniques,
            elite.gflops,
            language.fence(),
            elite.source.trim()
        );
    }
    text
}

/// The part of a prompt on the arguments, on compiling, verifying and timing, and on what is permitted.
fn judged(problem: &Problem, permitted: TechniqueSet) -> String {
    if let Some(module) = &problem.module {
        return format!(
            "{}\n{}",
            module::facts(problem, module),
            module::permitted(module, permitted)
        );
    }
    let mut text = arguments(problem);
    if !text.is_empty() {
        text.push('\n');
    }
    let bits = match problem.deterministic {
        true => " The same inputs must give the same bits each time.",
        false => "",
    };
    text.push_str(&format!(
        "It is compiled with `{}`, verified on secret inputs and sizes ({}), and timed at {}.{bits}\n",
        problem.flags_for(problem.language).join(" "),
        hidden(problem),
        timed(problem),
    ));
    text + &permitted_libraries(problem, permitted)
}

/// The sizes that count, and where calls find their arrays there, e.g. `n = 256`.
pub fn timed(problem: &Problem) -> String {
    const COLD: &str = "in calls that find none of their arrays in a cache";
    let is_cold = |caches: Caches| match caches {
        Caches::Cold => true,
        Caches::Warm | Caches::Both => false,
    };
    if problem.workloads.len() < 2 {
        let cold = is_cold(problem.caches).then(|| format!(", {COLD}"));
        return format!("{}{}", problem.timed_size(), cold.unwrap_or_default());
    }
    let all_cold = problem.workloads.iter().all(|w| is_cold(w.caches));
    let sizes = problem.workloads.iter().map(|workload| {
        let cold = (is_cold(workload.caches) && !all_cold).then(|| format!(" ({COLD})"));
        format!("{}{}", workload.size(), cold.unwrap_or_default())
    });
    let sizes = sizes.collect::<Vec<_>>().join("; ");
    let cold = match all_cold {
        true => format!(", {COLD}"),
        false => String::new(),
    };
    format!("{sizes}{cold}: the geometric mean of the speeds at these sizes counts")
}

/// The part of a prompt that asks for the program.
fn wanted(problem: &Problem) -> String {
    let (prototype, name) = (&problem.entry.prototype, &problem.entry.name);
    match problem.language {
        Language::C => format!("Write one C file that defines\n\n    {prototype}"),
        Language::Cxx => {
            format!("Write one C++ file that defines\n\n    extern \"C\" {prototype}")
        }
        Language::Fortran | Language::Fortran77 => format!(
            "Write one {} file with a subroutine that is bound by bind(C, name=\"{name}\") and that C calls as\n\n    {prototype}",
            problem.language.name()
        ),
        Language::Python => format!(
            "Write one Python file with a class `{name}`, which computes the same as the module below, faster."
        ),
    }
}

/// A line for each argument that the prototype does not explain.
fn arguments(problem: &Problem) -> String {
    let mut text = String::new();
    for arg in &problem.entry.args {
        let name = &arg.name;
        let line = match &arg.kind {
            ArgKind::Int { .. } => continue,
            ArgKind::Scalar { element, low, high } => format!(
                "`{name}` is a {} from {low} (included) to {high} (excluded), drawn in secret and anew for each call.",
                element.c_type()
            ),
            ArgKind::Array { element, role, .. } => {
                let role = match role {
                    Role::InOut => {
                        " is read and written: it holds its old values before a call and results after it."
                    }
                    Role::Input | Role::Output => "",
                };
                let stored = stored(*element, problem.language);
                if role.is_empty() && stored.is_empty() {
                    continue;
                }
                let role = if role.is_empty() { ":" } else { role };
                format!("`{name}`{role}{stored}")
            }
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// How elements are stored, where the type in the prototype does not say so or the language has another name for it.
fn stored(element: Element, language: Language) -> &'static str {
    match (element, language) {
        (Element::Bf16, Language::C | Language::Cxx) => {
            " each element is a bfloat16 number, the upper half of a float."
        }
        (Element::Bf16, _) => {
            " each element is a bfloat16 number, the upper half of a float, in an integer(c_int16_t)."
        }
        (Element::U8, Language::Fortran | Language::Fortran77) => {
            " each element is a number from 0 to 255 in an integer(c_int8_t)."
        }
        (Element::C64, Language::Cxx) => " each element has the layout of std::complex<float>.",
        (Element::C128, Language::Cxx) => " each element has the layout of std::complex<double>.",
        _ => "",
    }
}

/// The header of OpenMP's functions.
pub(crate) const OPENMP_HEADER: &str = "omp.h";

/// True if a prompt may name a header that the problem permits: OpenMP's is for programs that may use OpenMP.
pub(crate) fn is_offered(header: &str, permitted: TechniqueSet) -> bool {
    header != OPENMP_HEADER || permitted.contains(Technique::Openmp)
}

fn permitted_libraries(problem: &Problem, permitted: TechniqueSet) -> String {
    let includes: Vec<&str> = problem
        .includes
        .iter()
        .map(String::as_str)
        .filter(|header| is_offered(header, permitted))
        .collect();
    let includes = includes.join(", ");
    let in_language = |name: &String| match WORKS.iter().find(|work| work.name == name) {
        // Work that the language's library does not do need not be forbidden.
        Some(work) => {
            let names = work.names(problem.language).iter();
            // Fortran's is forbidden everywhere: its library is not linked.
            let names = names.filter(|name| **name != "matmul");
            names.map(|name| format!(", no `{name}`")).collect()
        }
        None => format!(", no `{name}`"),
    };
    let forbidden: String = problem.forbidden.iter().map(in_language).collect();
    match problem.language {
        Language::C => {
            format!("It may include: {includes}. No other library, no inline assembly{forbidden}.")
        }
        Language::Cxx => format!(
            "It may include: {includes}, {}. No other library, no inline assembly, no exceptions{forbidden}.",
            CXX_HEADERS.join(", ")
        ),
        Language::Fortran | Language::Fortran77 => format!(
            "It may use the modules {}. No input or output, no `stop`, no functions of other languages, no `matmul`{forbidden}.",
            FORTRAN_MODULES.join(", ")
        ),
        // No kernel is written in it.
        Language::Python => String::new(),
    }
}

/// Where the secret sizes lie, e.g. `n from 64 to 512, multiples of 64`.
pub fn hidden(problem: &Problem) -> String {
    let hidden = problem.verify.hidden.iter().map(|sizes| {
        let kind = match (sizes.power_of_two, sizes.multiple_of) {
            (true, _) => ", powers of two".to_owned(),
            (false, 1) => String::new(),
            (false, step) => format!(", multiples of {step}"),
        };
        format!("{} from {} to {}{kind}", sizes.param, sizes.min, sizes.max)
    });
    hidden.collect::<Vec<_>>().join("; ")
}

/// The program in an answer, which is in `language`; none when there is none.
pub fn extract(answer: &str, style: Style, language: Language) -> Option<String> {
    match style {
        Style::Compact | Style::Nest => (!answer.trim().is_empty()).then(|| answer.to_owned()),
        Style::Full => last_block(answer, language),
    }
}

/// The last complete fenced block that is of the language or names none; reasoning before it may hold drafts.
fn last_block(answer: &str, wanted: Language) -> Option<String> {
    let mut found = None;
    let mut open: Option<(bool, String)> = None;
    for line in answer.lines() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(language)) => {
                let language = language.trim().to_ascii_lowercase();
                let is_wanted = wanted.fences().contains(&language.as_str());
                open = Some((is_wanted, String::new()));
            }
            (Some(_), Some(_)) => {
                if let Some((true, block)) = open.take()
                    && !block.trim().is_empty()
                {
                    found = Some(block);
                }
            }
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn compact_prompts_name_what_is_permitted() {
        assert_eq!(compact("dgemm", TechniqueSet::EMPTY), "// dgemm: none\n");
        assert_eq!(
            compact("dgemm", "simd+unroll".parse().expect("a set")),
            "// dgemm: unroll simd\n"
        );
    }

    #[test]
    fn techniques_are_described_for_any_loop_nest() {
        for technique in Technique::ALL {
            let words = definition(technique);
            for of_a_product in ["row", "column", "matri", "product"] {
                assert!(!words.contains(of_a_product), "{technique}: {words}");
            }
        }
    }

    #[test]
    fn the_last_c_block_is_the_program() {
        let answer =
            "draft\n```c\nint a;\n```\nthen\n```python\nx\n```\n```c\nint b;\n```\n```\n```";
        assert_eq!(
            extract(answer, Style::Full, Language::C).as_deref(),
            Some("int b;\n")
        );
        assert_eq!(extract("no program", Style::Full, Language::C), None);
        assert_eq!(
            extract("```c\nint cut;", Style::Full, Language::C),
            None,
            "a block that was cut off is no program"
        );
        assert_eq!(extract(" \n", Style::Compact, Language::C), None);
    }

    #[test]
    fn blocks_of_other_languages_are_no_programs() {
        let answer = "```cpp\nint a;\n```\n```fortran\nend\n```\n```python\nx\n```\n";
        let found = |language| extract(answer, Style::Full, language);
        assert_eq!(found(Language::C), None);
        assert_eq!(found(Language::Cxx).as_deref(), Some("int a;\n"));
        assert_eq!(found(Language::Fortran).as_deref(), Some("end\n"));
    }

    #[test]
    fn prompts_to_improve_show_the_slow_program_and_end_where_the_fast_one_begins() {
        let short = improve("// dgemm: simd\n", "int slow;\n", None);
        assert_eq!(short, "// dgemm: simd\n// slow:\nint slow;\n// fast:\n");
        let long = improve("Multiply.\n", "int slow;\n", Some("c"));
        assert!(long.starts_with("Multiply.\n\n") && long.contains("```c\nint slow;\n```\n"));
    }

    #[test]
    fn an_answer_is_found_again() {
        let source = "int fast;\n";
        let fenced = answer(source, Some("c"));
        assert_eq!(
            extract(&fenced, Style::Full, Language::C).as_deref(),
            Some(source)
        );
        let plain = answer(source, None);
        assert_eq!(
            extract(&plain, Style::Compact, Language::C).as_deref(),
            Some(source)
        );
    }

    proptest! {
        #[test]
        fn a_fenced_program_is_found_whatever_is_around_it(before in "[a-z \n]{0,40}", body in "[a-z;{}]{1,40}") {
            let answer = format!("{before}\n```c\n{body}\n```\n");
            prop_assert_eq!(extract(&answer, Style::Full, Language::C), Some(format!("{body}\n")));
        }
    }
}
