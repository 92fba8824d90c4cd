//! `flopsmith problem`: checks, makes, lists and exports problem definitions, and prints their prompts.

mod nests;
mod new;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_compile::Toolchain;
use flopsmith_evaluate::{Evaluator, random};
use flopsmith_export::harbor;
use flopsmith_measure::Purpose;
use flopsmith_measure::verify::weakness;
use flopsmith_nest::prompt::{self, Style};
use flopsmith_problem::{Finding, Language, Problem as Definition};
use flopsmith_protocol::{Failure, InfrastructureCause, Technique, TechniqueSet, Verdict};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::digits::four;
use flopsmith_run::{evaluator, paths};
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
            image,
        } => {
            harbor::export(folder, problems, image)?;
            Ok(ExitCode::SUCCESS)
        }
        Problem::List { format } => list(*format),
        Problem::Prompt {
            problem,
            workloads,
            permit,
            compact,
            nest,
            format,
        } => {
            let definition = paths::selected(paths::problem(problem)?, &workloads.names)?;
            let permitted = permitted(permit.as_deref(), &definition)?;
            let style = match (*compact, *nest) {
                (true, _) => Style::Compact,
                (_, true) => Style::Nest,
                _ => Style::Full,
            };
            let text = asked(&definition, permitted, style)?;
            data(&match format {
                Format::Text => text,
                Format::Json => json!({
                    "problem": definition.id, "permitted": permitted, "compact": compact, "nest": nest, "prompt": text,
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

/// The technique set that the user named, or all techniques of the problem except OpenMP. Runs that time one thread use
/// the same set, and so do the examples of the starter model.
pub fn permitted(text: Option<&str>, problem: &Definition) -> Result<TechniqueSet> {
    let all = || problem.techniques.without(Technique::Openmp);
    Ok(named(text)?.unwrap_or_else(all))
}

/// The technique set that the user named, if one was named.
pub fn named(text: Option<&str>) -> Result<Option<TechniqueSet>> {
    text.map(|text| {
        text.parse::<TechniqueSet>().map_err(
            |e: flopsmith_protocol::technique::UnknownTechnique| {
                let known = Technique::ALL.into_iter().map(Technique::name);
                let near = flopsmith_problem::nearest(&e.0, known);
                let near = near.map(|near| format!("\n  did you mean `{near}`?"));
                usage(format!("{e}{}", near.unwrap_or_default()))
            },
        )
    })
    .transpose()
}

/// A program with the right signature that writes no outputs.
fn idle_program(problem: &Definition) -> String {
    format!(
        "{} {{ }}\n",
        problem.entry.prototype.trim_end().trim_end_matches(';')
    )
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
    let problem = Arc::new(problem);
    let mut findings = Findings {
        all: Vec::new(),
        aloud: format == Format::Text,
    };
    findings.extend(flopsmith_problem::check(&problem));
    match refused_flags(&problem, compiler)? {
        Some(mistake) => findings.push(mistake),
        // A definition with errors is not called.
        None if findings.all.iter().any(Finding::is_error) => {}
        None => {
            let evaluator = evaluator::open(problem, compiler, allow_weaker_jail)?;
            try_out(&evaluator, &mut findings)?;
        }
    }
    let findings = findings.all;
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

/// The findings so far.
struct Findings {
    all: Vec<Finding>,
    /// True if each finding is printed at once, since the following checks may take minutes.
    aloud: bool,
}

impl Findings {
    fn push(&mut self, finding: Finding) {
        if self.aloud {
            data(&format!("{}  {finding}", mark(&finding)));
        }
        self.all.push(finding);
    }

    fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|f| self.push(f));
    }

    /// Announces the next check.
    fn next(&self, what: &str) {
        if self.aloud {
            say(&format!("{what}…"));
        }
    }
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

/// A finding if the compiler refuses the definition's flags; an error if the compiler is missing.
fn refused_flags(problem: &Definition, compiler: &str) -> Result<Option<Finding>> {
    flopsmith_evaluate::is_compiler(compiler)?;
    let Err(refused) = Toolchain::detect(Some(compiler), problem) else {
        return Ok(None);
    };
    let without = problem.clone().with_flags(Vec::new());
    Toolchain::detect(Some(compiler), &without)?;
    Ok(Some(Finding::Error(format!("`compile.flags`: {refused}"))))
}

/// Runs the definition's programs. Faults of the programs are findings; failures of this machine are errors.
fn try_out(evaluator: &Evaluator, findings: &mut Findings) -> Result<()> {
    let problem = &evaluator.problem;
    findings.next("calling reference.c on random inputs, at most a minute each time");
    let examined = evaluator.examine()?;
    findings.extend(examined.findings);
    if !examined.ran {
        return Ok(());
    }
    findings.next("verifying programs at hidden sizes");
    let Some(mut verifier) = unless_mistaken(evaluator.verifier(1), findings)? else {
        return Ok(());
    };
    let baseline = verifier.baseline(&evaluator.toolchain, random());
    let baseline = unless_mistaken(baseline, findings)?.flatten();
    let disagree =
        baseline.as_ref().is_none_or(Finding::is_error) && problem.baseline_source.is_some();
    findings.extend(baseline);
    if disagree {
        return Ok(());
    }
    findings.next("timing the reference beside the baseline");
    let Some(mut timer) = unless_mistaken(evaluator.timer(1), findings)? else {
        return Ok(());
    };
    let mut evaluate = |source: &str, purpose: Purpose| {
        let done = evaluator.evaluate(Language::C, source, &mut verifier, &mut timer, purpose);
        match &done.verdict {
            Verdict::Infrastructure { cause, detail }
                if *cause != InfrastructureCause::Baseline =>
            {
                Err(anyhow::anyhow!("{cause} failed: {detail}"))
            }
            Verdict::Unknown { detail, .. } => Err(anyhow::anyhow!("undecided: {detail}")),
            _ => Ok(done.verdict),
        }
    };
    findings.push(match evaluate(&idle_program(problem), Purpose::Screen)? {
        Verdict::Rejected { fault, .. } => {
            Finding::Good(format!("a program that does nothing is refused ({fault})"))
        }
        other => Finding::Error(format!(
            "a program that does nothing is not refused: {}",
            other.kind()
        )),
    });
    let reference = evaluate(&problem.reference_source, Purpose::Rank)?;
    let passed = matches!(reference, Verdict::Measured { .. });
    findings.push(match reference {
        Verdict::Measured { measurement } => Finding::Good(format!(
            "the reference passes its own checks at {} GFLOPS",
            four(measurement.gflops)
        )),
        Verdict::Rejected { detail, .. }
        | Verdict::Infrastructure { detail, .. }
        | Verdict::Unknown { detail, .. } => Finding::Error(format!(
            "the reference does not pass its own checks: {detail}"
        )),
    });
    if passed {
        let chains = timer.chains();
        let shortest = chains.each().iter().map(|chain| chain.reference_seconds);
        findings.extend(weakness::short_call(shortest.fold(f64::INFINITY, f64::min)));
        findings.next("looking for work that programs can skip on timed inputs, and for less exact functions that the error bound accepts");
        let weak = verifier.weaknesses(&evaluator.toolchain, random());
        let weak = unless_mistaken(weak, findings)?;
        findings.extend(weak.into_iter().flatten());
    }
    Ok(())
}

/// The stage, or a finding if an error of the definition prevents it.
fn unless_mistaken<T>(
    made: Result<T, Failure>,
    findings: &mut Findings,
) -> Result<Option<T>, Failure> {
    match made {
        Ok(stage) => Ok(Some(stage)),
        Err(Failure::Infrastructure {
            cause: InfrastructureCause::Baseline,
            detail,
        }) => {
            findings.push(Finding::Error(detail));
            Ok(None)
        }
        Err(failure) => Err(failure),
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
