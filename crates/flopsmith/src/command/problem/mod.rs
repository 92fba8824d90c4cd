//! `flopsmith problem`: checks, makes, lists and exports problem definitions, and prints their prompts.

mod nests;
mod new;

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_export::harbor;
use flopsmith_nest::prompt::{self, Style};
use flopsmith_problem::{Finding, Problem as Definition};
use flopsmith_protocol::{Technique, TechniqueSet};
use flopsmith_run::admission::{self, Step};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::paths;
use serde_json::json;

use super::module;
use crate::args::{ExportFormat, Format, Problem};
use crate::exit;

/// Executes a subcommand.
pub fn run(args: &Problem) -> Result<ExitCode> {
    match args {
        Problem::Check {
            problem,
            workloads,
            compiler,
            allow_weaker_jail,
            format,
        } => {
            if let Some(folder) = paths::module(problem) {
                let names = &workloads.names;
                return module::check(problem, &folder, names, *allow_weaker_jail, *format);
            }
            let definition = paths::selected(paths::problem(problem)?, &workloads.names)?;
            check(problem, definition, compiler, *allow_weaker_jail, *format)
        }
        Problem::New { folder } => {
            new::new(folder)?;
            Ok(ExitCode::SUCCESS)
        }
        Problem::Random(args) => {
            nests::write(args)?;
            Ok(ExitCode::SUCCESS)
        }
        Problem::Import(order) => Ok(ExitCode::from(order.run()?)),
        Problem::Export {
            format: ExportFormat::Harbor,
            folder,
            problems,
            suites,
            image,
        } => {
            harbor::export(folder, problems, suites, image)?;
            Ok(ExitCode::SUCCESS)
        }
        Problem::List { format } => list(*format),
        Problem::Prompt {
            problem,
            workloads,
            permit,
            threads,
            compact,
            nest,
            format,
        } => {
            let definition = paths::selected(paths::any(problem)?, &workloads.names)?;
            let definition = paths::timed_here(definition);
            let permitted = permitted(permit.as_deref(), &definition, *threads)?;
            let definition = definition.in_pool(permitted);
            let style = match (*compact, *nest) {
                (true, _) => Style::Compact,
                (_, true) => Style::Nest,
                _ => Style::Full,
            };
            let text = asked(&definition, permitted, style)?;
            data(&match format {
                Format::Text => text,
                Format::Json => json!({
                    "problem": definition.id, "permitted": permitted, "threads": threads, "compact": compact, "nest": nest, "prompt": text,
                })
                .to_string(),
            });
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The prompt for a problem.
///
/// # Errors
/// Wrong usage: the style states nests, and the problem has none.
pub fn asked(problem: &Definition, permitted: TechniqueSet, style: Style) -> Result<String> {
    let text = prompt::render(problem, permitted, None, style);
    text.map_err(|e| usage(e.to_string()))
}

/// The technique set that the user named, or the set that runs use which time programs with so many threads. The examples of
/// the starter model have the set of one thread.
pub fn permitted(text: Option<&str>, problem: &Definition, threads: u32) -> Result<TechniqueSet> {
    Ok(named(text)?.unwrap_or_else(|| problem.techniques_with(threads)))
}

/// The technique set that the user named, if one was named.
pub fn named(text: Option<&str>) -> Result<Option<TechniqueSet>> {
    text.map(|text| {
        text.parse::<TechniqueSet>().map_err(
            |e: flopsmith_protocol::technique::UnknownTechnique| {
                let known = Technique::ALL.into_iter().map(Technique::name);
                let near = flopsmith_problem::meant(&e.0, known);
                let near = near.map(|near| format!("\n  did you mean {near}?"));
                usage(format!("{e}{}", near.unwrap_or_default()))
            },
        )
    })
    .transpose()
}

fn list(format: Format) -> Result<ExitCode> {
    let found = paths::problems()?;
    if format == Format::Json {
        let list: Vec<_> = found
            .iter()
            .map(|found| {
                let definition = &found.definition;
                json!({
                    "problem": found.name,
                    "folder": found.folder.display().to_string(),
                    "title": definition.as_ref().ok().map(|d| &d.title),
                    "timed": definition.as_ref().ok().map(|d| &d.timed),
                    "workloads": definition.as_ref().ok().map(workloads),
                    "error": definition.as_ref().err().map(ToString::to_string),
                })
            })
            .collect();
        data(&serde_json::Value::Array(list).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for found in found {
        let name = found.name;
        data(&match found.definition {
            Ok(p) => format!("{name:<16} {} (timed at {})", p.title, p.timed_size()),
            Err(e) => format!("{name:<16} broken: {e}"),
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// Name and size of each workload.
fn workloads(definition: &Definition) -> serde_json::Value {
    let each = definition.workloads.iter();
    let each = each.map(|w| json!({ "name": w.name, "timed": w.params }));
    each.collect()
}

fn check(
    name: &str,
    problem: Definition,
    compiler: &str,
    allow_weaker_jail: bool,
    format: Format,
) -> Result<ExitCode> {
    let mut tell = |step: Step<'_>| match step {
        // A program reads all findings in one object.
        _ if format == Format::Json => {}
        Step::Begins(check) => say(&format!("{check}…")),
        Step::Found(finding) => data(&format!("{}  {finding}", mark(finding))),
    };
    let findings = admission::examine(problem, compiler, allow_weaker_jail, &mut tell)?;
    let sound = !findings.iter().any(Finding::is_error);
    if format == Format::Json {
        let list: Vec<_> = findings
            .iter()
            .map(|f| json!({ "error": f.is_error(), "warning": f.is_warning(), "text": f.to_string() }))
            .collect();
        let weaknesses: Vec<String> = findings
            .iter()
            .filter(|f| f.is_warning())
            .map(ToString::to_string)
            .collect();
        let object =
            json!({ "problem": name, "sound": sound, "weaknesses": weaknesses, "findings": list });
        data(&object.to_string());
    } else {
        data(&conclusion(&findings));
    }
    Ok(ExitCode::from(if sound {
        exit::OK
    } else {
        exit::CANDIDATE
    }))
}

fn mark(finding: &Finding) -> &'static str {
    match finding {
        Finding::Error(_) => "WRONG",
        Finding::Warning(_) => "weak ",
        Finding::Good(_) => "ok   ",
    }
}

/// The conclusion from all findings.
fn conclusion(findings: &[Finding]) -> String {
    if findings.iter().any(Finding::is_error) {
        return "this definition has errors".into();
    }
    match findings.iter().filter(|f| f.is_warning()).count() {
        0 => "this definition is sound".into(),
        1 => "this definition is sound, with one weakness".into(),
        several => format!("this definition is sound, with {several} weaknesses"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_marked_and_counted_but_are_no_errors() {
        let good = Finding::Good("inputs matter".into());
        let weak = Finding::Warning("calls are short".into());
        let wrong = Finding::Error("outputs never vary".into());
        assert_eq!(
            [&good, &weak, &wrong].map(mark),
            ["ok   ", "weak ", "WRONG"]
        );
        assert_eq!(weak.to_string(), "calls are short");
        let of = |findings: &[&Finding]| {
            let findings: Vec<Finding> = findings.iter().copied().cloned().collect();
            conclusion(&findings)
        };
        assert_eq!(of(&[&good]), "this definition is sound");
        assert_eq!(
            of(&[&good, &weak]),
            "this definition is sound, with one weakness"
        );
        assert_eq!(
            of(&[&weak, &good, &weak]),
            "this definition is sound, with 2 weaknesses"
        );
        assert_eq!(of(&[&weak, &wrong]), "this definition has errors");
    }
}
