//! Checks the jail that protects this machine from untrusted programs, and the limits of programs here.

use flopsmith_measure::needs;
use flopsmith_problem::Problem;
use flopsmith_run::{jail, paths};
use flopsmith_sandbox::{Error, Sandbox};

use super::{Findings, State};

/// The remedy besides that of the jail, if the jail gives less than its full protection.
const WEAKER: &str = "Flopsmith refuses to run untrusted programs with this protection; to run them anyway, give `bench` and `problem check` --allow-weaker-jail, `train` and `search` --set evaluate.allow_weaker_jail=true";

/// Opens the jail. True if programs of our own can be measured in it, also where it is too weak for untrusted ones.
pub(super) fn look(findings: &mut Findings) -> bool {
    let mut weaker = None;
    let mut sandbox = jail::look(false);
    if let Err(strict @ Error::Weak { .. }) = &sandbox {
        let advice = strict.advice().unwrap_or_default();
        weaker = Some(format!("{advice}; {WEAKER}"));
        sandbox = jail::look(true);
    }
    let sandbox = match sandbox {
        Ok(sandbox) => sandbox,
        Err(error) => {
            let what = match &error {
                Error::Limit { .. } => "limits",
                _ => "jail",
            };
            let advice = error.advice();
            findings.add(what, State::Missing, jail::fact(&error), advice.as_deref());
            return false;
        }
    };
    // Commands that run untrusted programs end with an error here, unless a flag allows this jail.
    let state = match weaker {
        Some(_) => State::Missing,
        None => State::Good,
    };
    let protection = sandbox.protection().to_string();
    findings.add("jail", state, protection, weaker.as_deref());
    for less in sandbox.reduced() {
        let advice = less.advice();
        findings.add("limits", State::Advice, less.to_string(), Some(&advice));
    }
    // Problems with fewer timed sizes still work.
    if let Some((problem, error)) = unverifiable(&sandbox) {
        let found = format!(
            "programs for {}, which is timed at {} sizes, cannot be verified: {}",
            problem.id,
            problem.timed_sizes().len(),
            jail::fact(&error)
        );
        let advice = error.advice();
        findings.add("limits", State::Advice, found, advice.as_deref());
    }
    // Without sanitizers runs still work, but miss faults that do not change a result.
    if let Err(error) = needs::sanitizers(&sandbox, 1) {
        let found = format!("no sanitizer can be used: {}", jail::fact(&error));
        let advice = error.advice();
        findings.add("limits", State::Advice, found, advice.as_deref());
    }
    true
}

/// The problem here with the most timed sizes, and the error if its programs cannot have the processor time of a
/// verification.
fn unverifiable(sandbox: &Sandbox) -> Option<(Problem, Error)> {
    let found = paths::problems().ok()?.into_iter();
    let problems = found.filter_map(|found| found.definition.ok());
    let most = problems.max_by_key(|problem| problem.timed_sizes().len())?;
    let error = needs::verification(sandbox, &most).err()?;
    Some((most, error))
}
