//! `flopsmith problem`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_problem::{Problem as Definition, prompt};
use flopsmith_protocol::{TechniqueSet, Verdict};

use crate::args::{Format, Problem};
use crate::evaluator::Evaluator;
use crate::exit::{self, data, usage};
use crate::paths;

/// Looks at problem definitions.
pub fn run(args: &Problem) -> Result<ExitCode> {
    match args {
        Problem::Check { problem, format } => check(problem, *format),
        Problem::List => list(),
        Problem::Prompt {
            problem,
            permit,
            compact,
        } => {
            let definition = paths::problem(problem)?;
            let permitted = permitted(permit.as_deref(), &definition)?;
            let style = if *compact {
                prompt::Style::Compact
            } else {
                prompt::Style::Full
            };
            data(&prompt::render(&definition, permitted, None, style));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The set named by the user, or all that the problem knows.
pub fn permitted(text: Option<&str>, problem: &Definition) -> Result<TechniqueSet> {
    match text {
        Some(text) => text
            .parse()
            .map_err(|e: flopsmith_protocol::technique::UnknownTechnique| usage(e.to_string())),
        None => Ok(problem.techniques),
    }
}

/// A program with the right signature that leaves its outputs alone.
fn idle_program(problem: &Definition) -> String {
    format!(
        "{} {{ }}\n",
        problem.entry.prototype.trim_end().trim_end_matches(';')
    )
}

fn list() -> Result<ExitCode> {
    let mut seen = std::collections::BTreeSet::new();
    for root in paths::problem_roots() {
        for entry in std::fs::read_dir(&root)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            let path = entry.path();
            if path.join("problem.toml").is_file() && seen.insert(entry.file_name()) {
                match Definition::load(&path) {
                    Ok(p) => data(&format!("{:<16}{}", p.id, p.title)),
                    Err(e) => data(&format!(
                        "{:<16}broken: {e}",
                        entry.file_name().to_string_lossy()
                    )),
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(name: &str, format: Format) -> Result<ExitCode> {
    let problem = Arc::new(paths::problem(name)?);
    let mut findings: Vec<(bool, String)> = flopsmith_problem::check(&problem)
        .into_iter()
        .map(|f| (f.is_error(), f.to_string()))
        .collect();
    match Evaluator::new(Arc::clone(&problem), "gcc", true).and_then(|evaluator| {
        let mut verifier = evaluator.verifier()?;
        let mut timer = evaluator.timer(1)?;
        let own = evaluator.evaluate(
            &problem.reference_source,
            &mut verifier,
            &mut timer,
            flopsmith_bench::Purpose::Rank,
        );
        let idle = evaluator.evaluate(
            &idle_program(&problem),
            &mut verifier,
            &mut timer,
            flopsmith_bench::Purpose::Screen,
        );
        Ok((own.verdict, idle.verdict))
    }) {
        Ok((own, idle)) => {
            findings.push(match idle {
                Verdict::Rejected { fault, .. } => (
                    false,
                    format!("a program that does nothing is refused ({fault})"),
                ),
                other => (
                    true,
                    format!(
                        "a program that does nothing is not refused: {}",
                        other.kind()
                    ),
                ),
            });
            match own {
                Verdict::Measured { measurement } => {
                    findings.push((
                        false,
                        format!(
                            "the reference passes its own checks at {:.2} GFLOPS",
                            measurement.gflops
                        ),
                    ));
                }
                other => findings.push((
                    true,
                    format!("the reference does not pass its own checks: {other:?}"),
                )),
            }
        }
        Err(error) => findings.push((true, format!("{error:#}"))),
    }
    let sound = !findings.iter().any(|f| f.0);
    if format == Format::Json {
        let list: Vec<_> = findings
            .iter()
            .map(|(error, text)| serde_json::json!({ "error": error, "text": text }))
            .collect();
        data(&serde_json::json!({ "problem": name, "sound": sound, "findings": list }).to_string());
    } else {
        for (error, text) in &findings {
            data(&format!(
                "{}  {text}",
                if *error { "WRONG" } else { "ok   " }
            ));
        }
        data(if sound {
            "this definition is sound"
        } else {
            "this definition needs mending"
        });
    }
    Ok(ExitCode::from(if sound {
        exit::OK
    } else {
        exit::CANDIDATE
    }))
}
