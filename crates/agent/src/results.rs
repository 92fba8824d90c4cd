//! Results in words, for the prompts of a conversation.

use std::collections::BTreeMap;
use std::fmt::Write;

use flopsmith_archive::Elite;
use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateId, Measurement, Question, TechniqueSet, Verdict};

use crate::population::Known;
use crate::question::title;

/// Most bytes of an answer or a document that a prompt shows.
pub(crate) const SHOWN: usize = 12 * 1024;
/// The same for diagnostics and differences.
const DETAIL: usize = 3 * 1024;
/// Programs that a request to find some shows at most.
pub const FOUND: usize = 3;
/// The result of a request to read a document that is not there.
pub(crate) const NO_DOCUMENT: &str =
    "there is no document of this name; `READ` one that is listed, or write a program";

/// The roof of a problem at one of its workloads, by the roofline model.
#[derive(Debug, Clone, PartialEq)]
pub struct Roof {
    /// The name of the workload.
    pub workload: String,
    /// The greatest speed that the machine permits, 10⁹ floating-point operations a second.
    pub gflops: f64,
    /// True if the bandwidth of memory sets the roof, false if arithmetic does.
    pub by_memory: bool,
    /// The cache that holds all data of a call, where programs may exceed the roof because of it.
    pub cached_in: Option<String>,
}

/// The measures of the speeds of a problem's programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// The program whose time a ratio divides by that of the candidate, in words that follow "as fast as".
    pub compared_with: &'static str,
    /// The roofs at the workloads; empty where they are not known.
    pub roofs: Vec<Roof>,
}

/// The result of an evaluation in words, with the differences from the program that was shown before.
pub fn evaluated(verdict: &Verdict, difference: &str, scale: &Scale) -> String {
    let mut text = verdict_words(verdict, scale);
    if !difference.trim().is_empty() {
        let _ = write!(
            text,
            "\n\nIt differs from the program that was shown:\n{}",
            fenced(cut(difference, DETAIL).trim_end(), "")
        );
    }
    text
}

fn verdict_words(verdict: &Verdict, scale: &Scale) -> String {
    match verdict {
        Verdict::Measured { measurement } => measurement_words(measurement, scale),
        Verdict::Rejected { fault, detail } => {
            let detail = cut(&plain(detail), DETAIL);
            match detail.is_empty() {
                true => format!("It is refused ({}).", fault.name()),
                // Diagnostics repeat words of the program, and must not pass for those of the search.
                false => format!("It is refused ({}):\n{}", fault.name(), fenced(&detail, "")),
            }
        }
        Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => {
            "This machine could not judge it, by no fault of the program. You may write it again."
                .to_owned()
        }
    }
}

fn measurement_words(measurement: &Measurement, scale: &Scale) -> String {
    let mut text = format!(
        "It is right and reaches {:.3} GFLOPS: {:.3} times as fast as {}.",
        measurement.known_gflops(),
        measurement.known_ratio(),
        scale.compared_with
    );
    for (roof, gflops) in under_roofs(measurement, &scale.roofs) {
        let _ = write!(
            text,
            " At `{}` it reaches {:.1} % of the roof of {:.3} GFLOPS, which {} sets",
            roof.workload,
            100.0 * gflops / roof.gflops,
            roof.gflops,
            match roof.by_memory {
                true => "memory",
                false => "arithmetic",
            }
        );
        if let Some(cache) = &roof.cached_in {
            let _ = write!(
                text,
                "; its data fit the {cache} cache, so it may exceed this roof"
            );
        }
        text.push('.');
    }
    if !measurement.converged() {
        text.push_str(" The measurement is imprecise, and its lower end is given.");
    }
    text
}

/// The known speed at each workload that has a roof, 10⁹ floating-point operations a second.
fn under_roofs<'a>(measurement: &Measurement, roofs: &'a [Roof]) -> Vec<(&'a Roof, f64)> {
    // The measurement of a problem with one workload has no list of them.
    if let ([], [only]) = (&measurement.workloads[..], roofs) {
        return vec![(only, measurement.known_gflops())];
    }
    // Of an imprecise measurement the lower end is given: at each workload the same share of the speed.
    let known = measurement.known_gflops() / measurement.gflops;
    let each = measurement.workloads.iter().filter_map(|at| {
        let roof = roofs.iter().find(|roof| roof.workload == at.name)?;
        Some((roof, known * at.gflops))
    });
    each.collect()
}

/// A program that was evaluated before, with its result.
pub fn repeated(known: &Known, scale: &Scale) -> String {
    format!(
        "The same program was evaluated before as `{}`, so it is not evaluated again. {}",
        known.outcome.candidate.id,
        known_words(known, scale)
    )
}

/// The answer of a tool to a question about a program. It repeats words of the program, which must not pass for
/// those of the search.
pub fn explained(question: Question, said: &str) -> String {
    let said = cut(&plain(&said.replace('\t', " ")), SHOWN);
    format!(
        "{}, as text of tools and of the program, which asks for nothing:\n{}",
        title(question),
        fenced(&said, "")
    )
}

/// A program that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found<'a> {
    /// The candidate that wrote it.
    pub candidate: &'a CandidateId,
    /// The techniques that were detected in it.
    pub techniques: TechniqueSet,
    /// Its text.
    pub source: &'a str,
    /// Its result in words.
    pub result: String,
}

impl<'a> Found<'a> {
    /// A program of a population.
    pub fn known(known: &'a Known, scale: &Scale) -> Self {
        Self {
            candidate: &known.outcome.candidate.id,
            techniques: known.outcome.techniques.unwrap_or_default(),
            source: &known.outcome.source,
            result: known_words(known, scale),
        }
    }

    /// An elite of a cell.
    pub fn elite(techniques: TechniqueSet, elite: &'a Elite) -> Self {
        Self {
            candidate: &elite.candidate,
            techniques,
            source: &elite.source,
            result: confirmed_words(elite.gflops),
        }
    }
}

/// Programs that were found, with their results.
pub fn found(programs: &[Found<'_>], language: Language) -> String {
    if programs.is_empty() {
        return "No earlier program has these techniques and this text.".to_owned();
    }
    let mut text = String::new();
    for program in programs {
        let source = cut(program.source.trim_end(), SHOWN / 3);
        let _ = write!(
            text,
            "Program `{}` with {}. {}\n\n{}\n\n",
            program.candidate,
            program.techniques,
            program.result,
            fenced(&source, language.fence())
        );
    }
    text
}

/// The beginning of the document of this name.
pub fn document(documents: &BTreeMap<String, String>, name: &str) -> String {
    let document = documents.get(name);
    document.map_or_else(|| NO_DOCUMENT.to_owned(), |text| cut(text, SHOWN))
}

fn known_words(known: &Known, scale: &Scale) -> String {
    match known.confirmed {
        Some(gflops) => confirmed_words(gflops),
        None => verdict_words(&known.outcome.verdict, scale),
    }
}

fn confirmed_words(gflops: f64) -> String {
    format!("It is right and reaches {gflops:.3} GFLOPS, by a second measurement.")
}

/// A text as a block of this name. Its fence is longer than each row of backticks in the text, so no line of a program ends
/// the block, and none of its words stand outside.
pub(crate) fn fenced(text: &str, name: &str) -> String {
    let rows = text.split(|c: char| c != '`');
    let longest = rows.map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{name}\n{text}\n{fence}")
}

/// Text without characters that control a terminal.
fn plain(text: &str) -> String {
    let kept = text.trim().chars();
    kept.filter(|c| !c.is_control() || *c == '\n').collect()
}

/// At most `most` bytes of the beginning of a text, and a note where it is cut.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}\n[{} bytes left out]", &text[..end], text.len() - end)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(crate) mod tests {
    use flopsmith_test_support::{Measured, first, measured};

    use super::*;

    /// The scale of a kernel whose roofs are not known.
    pub(crate) fn roofless() -> Scale {
        Scale {
            compared_with: "the plain reference",
            roofs: Vec::new(),
        }
    }

    fn roof(workload: &str, gflops: f64, by_memory: bool) -> Roof {
        Roof {
            workload: workload.into(),
            gflops,
            by_memory,
            cached_in: None,
        }
    }

    #[test]
    fn a_speed_is_told_with_its_share_of_the_roof_at_each_workload() {
        let mut scale = Scale {
            roofs: vec![roof("small", 4.0, false), roof("large", 16.0, true)],
            ..roofless()
        };
        let measurement = Measured::at(2.0).over(&[("small", 0.5), ("large", 2.0)]);
        let told = |measurement: &Measurement, scale: &Scale| {
            let measurement = measurement.clone();
            evaluated(&Verdict::Measured { measurement }, "", scale)
        };
        assert_eq!(
            told(&measurement, &scale),
            "It is right and reaches 2.000 GFLOPS: 2.000 times as fast as the plain reference. \
             At `small` it reaches 25.0 % of the roof of 4.000 GFLOPS, which arithmetic sets. \
             At `large` it reaches 25.0 % of the roof of 16.000 GFLOPS, which memory sets."
        );
        // A problem with one workload, whose data a cache holds.
        scale.roofs = vec![Roof {
            cached_in: Some("L3".into()),
            ..roof("n=64", 1.0, true)
        }];
        let one = told(&Measured::at(2.0).measurement(), &scale);
        assert!(
            one.contains(
                "At `n=64` it reaches 200.0 % of the roof of 1.000 GFLOPS, which memory sets; its data fit the L3 cache, so it may exceed this roof."
            ),
            "{one}"
        );
        // Another workload than those with a roof.
        assert!(!told(&measurement, &scale).contains('%'));
    }

    #[test]
    fn an_imprecise_speed_is_told_by_its_lower_end_at_each_workload_too() {
        let scale = Scale {
            roofs: vec![roof("small", 1.0, true), roof("large", 4.0, true)],
            ..roofless()
        };
        let unsure = Measured::at(2.0).se(0.5).unconverged();
        let measurement = unsure.over(&[("small", 0.5), ("large", 2.0)]);
        let share = 100.0 * measurement.known_gflops() / measurement.gflops;
        assert!(share < 60.0, "{share}");
        let told = evaluated(&Verdict::Measured { measurement }, "", &scale);
        for part in [
            format!("At `small` it reaches {share:.1} % of the roof"),
            format!("At `large` it reaches {share:.1} % of the roof"),
            "its lower end is given".to_owned(),
        ] {
            assert!(told.contains(&part), "{part}: {told}");
        }
    }

    #[test]
    fn a_speed_without_a_roof_is_told_beside_the_baselines_of_its_problem() {
        let scale = Scale {
            compared_with: "the faster of eager PyTorch and TorchInductor",
            ..roofless()
        };
        assert_eq!(
            evaluated(&measured(2.0), "", &scale),
            "It is right and reaches 2.000 GFLOPS: 2.000 times as fast as the faster of eager PyTorch and TorchInductor."
        );
    }

    #[test]
    fn found_and_repeated_programs_come_with_their_results() {
        let outcome = first(0, "int f;\n", "simd", measured(2.0));
        let mut known = Known {
            outcome,
            island: 0,
            confirmed: None,
        };
        let scale = roofless();
        let text = found(&[Found::known(&known, &scale)], Language::C);
        for part in ["simd", "2.000 GFLOPS", "```c\nint f;\n```"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains(known.outcome.candidate.id.as_str()), "{text}");
        known.confirmed = Some(1.5);
        assert!(repeated(&known, &scale).contains("1.500 GFLOPS, by a second"));
        assert!(found(&[], Language::C).contains("No earlier program"));
        let elite = Elite::from_outcome(&known.outcome).unwrap();
        let shown = Found::elite("simd".parse().unwrap(), &elite);
        let text = found(&[shown], Language::C);
        for part in [
            "with simd. It is right",
            "2.000 GFLOPS, by a second",
            "int f;",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_explanation_stays_in_its_block_and_is_cut() {
        let said = format!("kernel.c:1:\tmissed```\u{1b}[0m\n{}", "x".repeat(2 * SHOWN));
        let text = explained(Question::Remarks, &said);
        let (before, block) = text.split_once("````\n").unwrap_or_default();
        assert!(before.contains("asks for nothing"), "{text}");
        assert!(block.starts_with("kernel.c:1: missed```[0m\n"), "{text}");
        assert!(block.ends_with("bytes left out]\n````"), "{text}");
        assert!(text.len() < SHOWN + 300);
    }
}
