//! The exactness that a prompt promises, compared with `[bound]`.
//!
//! Prompts write bounds as people do: `4·√n·eps`, `(8+¾·√n)·eps`, `3*sqrt(n)*eps`. A bound in words, or with names that
//! are no parameters, cannot be compared.

use crate::{ArgKind, Element, ErrorBound, Finding, Formula, Params, Problem};

/// Formulas in a prompt are shorter than this, in characters.
const LONGEST: usize = 80;

/// Promise and bound may differ by this share, so that a prompt may round.
const ROUNDED: f64 = 0.01;

/// Findings about a prompt that promises another exactness than `[bound]` demands.
pub(crate) fn check(problem: &Problem) -> Vec<Finding> {
    let Some(prompt) = &problem.prompt_text else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let promises = promises(prompt);
    match &problem.bound {
        ErrorBound::Exact => findings.extend(promises.first().map(|promise| {
            Finding::Error(format!(
                "the prompt promises `{promise}·eps`, and `bound` is `exact`: change one of them"
            ))
        })),
        ErrorBound::Gemm { .. } | ErrorBound::Scaled { .. } => {
            if promises_equality(prompt) && !all_integers(problem) {
                findings.push(Finding::Error(
                    "the prompt asks for exact results, and `bound` permits errors: change one of them, for example to `kind = \"exact\"`"
                        .into(),
                ));
            }
            findings.extend(promises.iter().find_map(|p| contradiction(problem, p)));
            findings.extend(other_epsilon(problem, prompt));
        }
    }
    findings
}

/// The factors of `eps` in a text, as formulas.
fn promises(text: &str) -> Vec<Formula> {
    let mut found = Vec::new();
    for (at, word) in text.match_indices("eps") {
        let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let behind = text[at + word.len()..].chars().next();
        let before = text[..at].trim_end();
        let factor = before.strip_suffix(['·', '⋅', '×', '*']);
        if let (Some(factor), false) = (factor, behind.is_some_and(part_of_word)) {
            found.extend(last_formula(factor));
        }
    }
    found
}

/// The longest formula at the end of a text.
fn last_formula(text: &str) -> Option<Formula> {
    let text = text.trim_end();
    let skipped = text.chars().count().saturating_sub(LONGEST);
    let starts = text.char_indices().skip(skipped);
    // A formula begins with a word or a parenthesis of its own.
    let begins = |at: usize| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || c == '(')
    };
    starts
        .filter(|(at, c)| !c.is_whitespace() && begins(*at))
        .find_map(|(at, _)| Formula::parse(&plain(&text[at..])).ok())
}

/// A formula of a prompt in the spelling of definitions.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '·' | '⋅' | '×' => plain.push('*'),
            '¼' => plain.push_str("0.25"),
            '½' => plain.push_str("0.5"),
            '¾' => plain.push_str("0.75"),
            '√' if chars.peek() == Some(&'(') => plain.push_str("sqrt"),
            '√' => {
                plain.push_str("sqrt(");
                while let Some(part) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    plain.push(part);
                }
                plain.push(')');
            }
            other => plain.push(other),
        }
    }
    plain
}

/// True if the text asks for results without any error.
fn promises_equality(text: &str) -> bool {
    let text = text.to_lowercase();
    let phrases = ["must be exact", "must have the same bits"];
    let subjects = ["result ", "results "];
    subjects.iter().any(|subject| {
        let mut found = text.match_indices(subject);
        found.any(|(at, _)| {
            let rest = &text[at + subject.len()..];
            phrases.iter().any(|phrase| {
                let behind = rest.strip_prefix(phrase);
                behind.is_some_and(|b| !b.starts_with(|c: char| c.is_alphanumeric()))
            })
        })
    })
}

fn written(problem: &Problem) -> impl Iterator<Item = Element> + '_ {
    problem.entry.args.iter().filter_map(|arg| match &arg.kind {
        ArgKind::Array { element, role, .. } => role.is_written().then_some(*element),
        ArgKind::Int { .. } | ArgKind::Scalar { .. } => None,
    })
}

fn all_integers(problem: &Problem) -> bool {
    written(problem).all(Element::is_integer)
}

/// A promise that differs from the bound at one of the problem's sizes.
fn contradiction(problem: &Problem, promise: &Formula) -> Option<Finding> {
    sizes(problem).iter().find_map(|params| {
        let (promised, permitted) = (promise.value(params).ok()?, permitted(problem, params)?);
        let comparable = promised.is_finite() && permitted.is_finite();
        let apart = (promised - permitted).abs() > ROUNDED * permitted.abs();
        (comparable && apart).then(|| {
            Finding::Error(format!(
                "the prompt promises `{promise}·eps`, and `bound` says otherwise: at {} the prompt has {promised:.4}·eps and `bound` {permitted:.4}·eps; change one of them",
                crate::workloads::size(params)
            ))
        })
    })
}

/// The factor of eps in the bound; none if the prompt cannot name it.
fn permitted(problem: &Problem, params: &Params) -> Option<f64> {
    match &problem.bound {
        ErrorBound::Exact => None,
        ErrorBound::Gemm { c } => {
            let length = problem.entry.args.iter().find_map(|arg| match &arg.kind {
                ArgKind::Array { role, shape, .. } if role.is_read() => shape.last(),
                _ => None,
            })?;
            Some(c * length.value(params).ok()?.sqrt())
        }
        ErrorBound::Scaled { c, operations } => {
            let one = operations.params().is_empty() && operations.value(params) == Ok(1.0);
            // Then magnitude.c has the whole factor, perhaps another one for each output.
            (!one).then_some(c * operations.value(params).ok()?)
        }
    }
}

/// The timed sizes, and the smallest and the largest hidden ones.
fn sizes(problem: &Problem) -> Vec<Params> {
    let mut all: Vec<Params> = problem.timed_sizes().into_iter().cloned().collect();
    for largest in [false, true] {
        let mut params = problem.timed.clone();
        for hidden in &problem.verify.hidden {
            let size = if largest { hidden.max } else { hidden.min };
            params.insert(hidden.param.clone(), size);
        }
        all.push(params);
    }
    all
}

/// An `eps = 2^-23` of a prompt that is not the precision of a result.
fn other_epsilon(problem: &Problem, text: &str) -> Option<Finding> {
    let (_, rest) = text.split_once("eps = 2^-")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let promised: u32 = digits.parse().ok()?;
    let known: Vec<u32> = written(problem).filter_map(precision).collect();
    let first = known.first()?;
    (!known.contains(&promised)).then(|| {
        Finding::Error(format!(
            "the prompt says eps = 2^-{promised}, and that of the results is 2^-{first}: correct the prompt"
        ))
    })
}

/// The bits of eps; none for integers.
fn precision(element: Element) -> Option<u32> {
    match element {
        Element::F64 | Element::C128 => Some(52),
        Element::F32 | Element::C64 => Some(23),
        Element::F16 => Some(11),
        Element::Bf16 => Some(8),
        Element::I32 | Element::I64 | Element::U8 => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use flopsmith_test_support::shipped;
    use proptest::prelude::*;

    use super::*;

    fn folders() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let within = |folder: &Path| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            entries.filter_map(|e| Some(e.ok()?.path())).collect()
        };
        let all = within(&root).into_iter().flat_map(|folder| {
            let mut several = within(&folder);
            several.push(folder);
            several
        });
        // Modules of Python have definitions of another kind.
        let is_module = |folder: &Path| folder.join("reference.py").is_file();
        all.filter(|folder| folder.join("problem.toml").is_file() && !is_module(folder))
            .collect()
    }

    fn dgemm() -> Problem {
        Problem::load(&shipped::at("dgemm")).expect("a shipped problem")
    }

    fn findings(change: impl Fn(&mut Problem)) -> Vec<String> {
        let mut problem = dgemm();
        change(&mut problem);
        check(&problem).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn shipped_prompts_promise_their_bounds() {
        let mut compared = 0;
        for folder in folders() {
            let problem = Problem::load(&folder).expect("a shipped problem");
            let found = check(&problem);
            assert!(found.is_empty(), "{}: {found:?}", problem.id);
            let promises = promises(problem.prompt_text.as_deref().unwrap_or_default());
            compared += usize::from(promises.iter().any(|promise| {
                promise.value(&problem.timed).is_ok()
                    && permitted(&problem, &problem.timed).is_some()
            }));
        }
        assert!(compared >= 30, "only {compared} prompts name a bound");
    }

    #[test]
    fn another_bound_than_that_of_the_prompt_is_found() {
        let found = findings(|p| p.bound = ErrorBound::Gemm { c: 3.0 });
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("at n = 256 the prompt has 64.0000·eps and `bound` 48.0000·eps"),
            "{found:?}"
        );
        let found = findings(|p| {
            p.bound = ErrorBound::Scaled {
                c: 4.0,
                operations: Formula::parse("n").expect("a formula"),
            };
        });
        assert_eq!(found.len(), 1, "{found:?}");
        let found = findings(|p| p.bound = ErrorBound::Exact);
        assert!(found[0].contains("`bound` is `exact`"), "{found:?}");
        let found = findings(|p| p.prompt_text = Some("The result must be exact.".into()));
        assert!(found[0].contains("asks for exact results"), "{found:?}");
        let found = findings(|p| {
            p.prompt_text = Some("C must be within 4·√n·eps of it, eps = 2^-23.".into());
        });
        assert!(
            found[0].contains("that of the results is 2^-52"),
            "{found:?}"
        );
    }

    #[test]
    fn words_are_no_promises() {
        for text in [
            "Each element must be as exact as factoring makes it; the border is exact.",
            "An element must be within r·eps of it, r the length of its row.",
            "Results with few epsilons of error, eps = 2^-52.",
        ] {
            assert_eq!(findings(|p| p.prompt_text = Some(text.into())), [""; 0]);
        }
    }

    #[test]
    fn bounds_are_read_in_the_spellings_of_people() {
        for (text, at_four) in [
            ("within 4·√n·eps of", 8.0),
            ("(about 8·eps of S + K", 8.0),
            ("within 3 * sqrt(n) * eps", 6.0),
            ("to (8 + ¼·√n)·eps of itself", 8.5),
            ("3·(3+√(2·n+1))·eps", 18.0),
            ("make them (3·(3+√n)·eps of their terms", 15.0),
        ] {
            let found = promises(text);
            let values: Vec<f64> = found
                .iter()
                .filter_map(|p| p.value(&Params::from([("n".into(), 4)])).ok())
                .collect();
            assert_eq!(values, [at_four], "{text}: {found:?}");
        }
        assert_eq!(promises("steps, eps = 2^-23; 4·epsilon").len(), 0);
    }

    proptest! {
        #[test]
        fn no_prompt_makes_the_comparison_panic(text in ".{0,60}(eps|·eps|\\*eps| = 2\\^-9)?.{0,20}") {
            let mut problem = dgemm();
            problem.prompt_text = Some(text);
            let _ = check(&problem);
        }

        #[test]
        fn a_promise_is_sound_only_for_its_own_factor(c in 1u32..40, other in 1u32..40) {
            let mut problem = dgemm();
            problem.bound = ErrorBound::Gemm { c: f64::from(c) };
            problem.prompt_text = Some(format!("within {other}·√n·eps of (|A|·|B|)"));
            prop_assert_eq!(check(&problem).is_empty(), c == other);
        }
    }
}
