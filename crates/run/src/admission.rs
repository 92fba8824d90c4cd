//! Admits problem definitions: runs their programs on this machine, and says what is wrong or weak.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use flopsmith_compile::Toolchain;
use flopsmith_evaluate::{Evaluator, is_compiler, random};
use flopsmith_measure::Purpose;
use flopsmith_measure::verify::weakness;
use flopsmith_problem::{Finding, Language, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause, Verdict};

use crate::digits::four;
use crate::evaluator;

/// A part of an examination, told at once: the next one may take minutes.
#[derive(Debug)]
pub enum Step<'a> {
    /// This check begins.
    Begins(&'a str),
    /// A check found this.
    Found(&'a Finding),
}

/// Examines a definition: reads it, calls its reference, verifies programs of its own, and times them. Tells each step.
/// The definition is sound if no finding is an error. A definition with errors is not called.
///
/// # Errors
/// Wrong usage, and failures of this machine. Faults of the definition are findings.
pub fn examine(
    problem: Problem,
    compiler: &str,
    allow_weaker_jail: bool,
    tell: &mut dyn FnMut(Step<'_>),
) -> Result<Vec<Finding>> {
    let problem = Arc::new(problem);
    let mut findings = Findings {
        all: Vec::new(),
        tell,
    };
    findings.extend(flopsmith_problem::check(&problem));
    match refused_flags(&problem, compiler)? {
        Some(mistake) => findings.push(mistake),
        None if findings.all.iter().any(Finding::is_error) => {}
        None => {
            let evaluator = evaluator::open(problem, compiler, allow_weaker_jail)?;
            try_out(&evaluator, &mut findings)?;
        }
    }
    Ok(findings.all)
}

/// The findings so far.
struct Findings<'a> {
    all: Vec<Finding>,
    tell: &'a mut dyn FnMut(Step<'_>),
}

impl Findings<'_> {
    fn push(&mut self, finding: Finding) {
        (self.tell)(Step::Found(&finding));
        self.all.push(finding);
    }

    fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|f| self.push(f));
    }

    /// Announces the next check.
    fn next(&mut self, what: &str) {
        (self.tell)(Step::Begins(what));
    }
}

/// A program with the right signature that writes no outputs.
fn idle_program(problem: &Problem) -> String {
    format!(
        "{} {{ }}\n",
        problem.entry.prototype.trim_end().trim_end_matches(';')
    )
}

/// A finding if the compiler refuses the definition's flags; an error if the compiler is missing.
fn refused_flags(problem: &Problem, compiler: &str) -> Result<Option<Finding>> {
    is_compiler(compiler)?;
    let Err(refused) = Toolchain::detect(Some(compiler), problem) else {
        return Ok(None);
    };
    let without = problem.clone().with_flags(Vec::new());
    Toolchain::detect(Some(compiler), &without)?;
    Ok(Some(Finding::Error(format!("`compile.flags`: {refused}"))))
}

/// Runs the definition's programs. Faults of the programs are findings; failures of this machine are errors.
fn try_out(evaluator: &Evaluator, findings: &mut Findings<'_>) -> Result<()> {
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
                Err(anyhow!("{cause} failed: {detail}"))
            }
            Verdict::Unknown { detail, .. } => Err(anyhow!("undecided: {detail}")),
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
    let passed = reference.measurement().cloned();
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
    if let Some(measured) = passed {
        let (chains, resolution) = (timer.chains(), timer.resolution());
        findings.extend(weakness::short_call(&measured, &chains, &resolution));
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
    findings: &mut Findings<'_>,
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
    fn a_step_is_told_at_once_and_a_mistake_of_the_definition_is_no_failure() {
        let mut told = Vec::new();
        let mut tell = |step: Step<'_>| {
            told.push(match step {
                Step::Begins(what) => what.to_owned(),
                Step::Found(finding) => format!("found: {finding}"),
            });
        };
        let mut findings = Findings {
            all: Vec::new(),
            tell: &mut tell,
        };
        findings.push(Finding::Good("inputs matter".into()));
        findings.next("calling");
        assert_eq!(unless_mistaken(Ok(1), &mut findings), Ok(Some(1)));
        let failed = |cause| Err::<i32, _>(Failure::infrastructure(cause, "it hangs"));
        let mistake = failed(InfrastructureCause::Baseline);
        assert_eq!(unless_mistaken(mistake, &mut findings), Ok(None));
        let of_the_machine = failed(InfrastructureCause::Jail);
        let ended = unless_mistaken(of_the_machine.clone(), &mut findings);
        assert_eq!(ended.err(), of_the_machine.err());
        let errors: Vec<bool> = findings.all.iter().map(Finding::is_error).collect();
        assert_eq!(errors, [false, true]);
        assert_eq!(told, ["found: inputs matter", "calling", "found: it hangs"]);
    }
}
