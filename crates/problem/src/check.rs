//! Soundness that can be told without running anything.

use std::fmt;

use crate::arguments::no_int;
use crate::{ArgKind, Problem};

/// Something worth knowing about a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It must be mended.
    Error(String),
    /// It is weak.
    Warning(String),
    /// It is as it should be.
    Good(String),
}

impl Finding {
    /// Must it be mended?
    pub fn is_error(&self) -> bool {
        matches!(self, Finding::Error(_))
    }

    /// Is it weak?
    pub fn is_warning(&self) -> bool {
        matches!(self, Finding::Warning(_))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Error(text) | Finding::Warning(text) | Finding::Good(text) => {
                f.write_str(text)
            }
        }
    }
}

/// Shortest timed call worth timing alone, as bytes or operations: below this the clock's own noise shows.
const LITTLE_WORK: f64 = 100_000.0;

/// Largest array of a call, bytes.
const LARGEST_BYTES: usize = 1 << 30;

/// Looks at a definition of a kernel. Reading a module checks what can be told without running its reference.
pub fn check(problem: &Problem) -> Vec<Finding> {
    let mut findings = Vec::new();
    if problem.module.is_some() {
        return findings;
    }
    let several = problem.workloads.len() > 1;
    for at in problem.each() {
        let place = match several {
            true => format!("the timed size {}", crate::workloads::size(&at.timed)),
            false => "the timed size".to_owned(),
        };
        findings.extend(check_at(&at, &place));
    }
    findings.extend(guessable(problem));
    findings.extend(crate::promise::check(problem));
    let mut largest = problem.timed.clone();
    largest.extend(
        problem
            .verify
            .hidden
            .iter()
            .map(|h| (h.param.clone(), h.max)),
    );
    for arg in &problem.entry.args {
        if let ArgKind::Array { element, .. } = &arg.kind
            && let Some(n) = problem.elements(arg, &largest)
            && n.saturating_mul(element.size()) > LARGEST_BYTES
        {
            findings.push(Finding::Error(format!(
                "`{}` is larger than 1 GiB at the largest hidden sizes: lower `max` in `verify.hidden`",
                arg.name
            )));
        }
    }
    let counts = problem.verify.hidden.iter().map(|h| h.count());
    let sizes = counts.fold(1, usize::saturating_mul);
    if sizes < 4 {
        findings.push(Finding::Warning(format!(
            "there are only {sizes} hidden sizes, so a program may be written for these only: widen `verify.hidden`"
        )));
    } else {
        findings.push(Finding::Good(format!(
            "{sizes} hidden sizes, {} distributions",
            problem.verify.distributions.len()
        )));
    }
    if problem.verify.distributions.len() < 3 {
        findings.push(Finding::Warning(
            "the definition names fewer than three input distributions, so algorithms that lose accuracy may pass: name more in `verify.distributions`".into(),
        ));
    }
    if problem.baseline_source.is_none() {
        findings.push(Finding::Warning("there is no baseline.c, so timed calls are interleaved with the reference, and a plain reference is slow: add a faster fixed kernel as baseline.c".into()));
    }
    findings
}

/// Looks at a definition at the size that it is timed at, which is `place` in words.
fn check_at(problem: &Problem, place: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let work = problem.work_flops(&problem.timed);
    let bytes = problem.moved_bytes(&problem.timed);
    if work > 0.0 && work.is_finite() {
        let at = place.strip_prefix("the timed size ");
        findings.push(Finding::Good(format!(
            "{:.1} million operations and {:.2} MB a timed call{}",
            work / 1e6,
            bytes / 1e6,
            at.map(|size| format!(" at {size}")).unwrap_or_default()
        )));
    } else {
        findings.push(Finding::Error(format!(
            "`cost.work` is {work} at {place}: it must be a positive, finite number"
        )));
    }
    if work.max(bytes) < LITTLE_WORK {
        findings.push(Finding::Warning(format!(
            "a call of {place} is too short to be timed alone: enlarge the parameters in `[timed]`"
        )));
    }
    for arg in &problem.entry.args {
        let element = match &arg.kind {
            ArgKind::Array { element, .. } => element,
            ArgKind::Int { value } => {
                let value = value.value(&problem.timed).ok();
                let why = value.and_then(|value| no_int(&arg.name, value));
                findings.extend(why.map(Finding::Error));
                continue;
            }
            ArgKind::Scalar { .. } => continue,
        };
        match problem.elements(arg, &problem.timed) {
            None | Some(0) => findings.push(Finding::Error(format!(
                "`{}` has no whole, positive number of elements at {place}",
                arg.name
            ))),
            Some(n) if n.saturating_mul(element.size()) > LARGEST_BYTES => {
                findings.push(Finding::Error(format!(
                    "`{}` is larger than 1 GiB at {place}",
                    arg.name
                )));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Outputs with so few elements at some timed size that a guess may be right.
fn guessable(problem: &Problem) -> Vec<Finding> {
    let mut findings = Vec::new();
    for arg in &problem.entry.args {
        let ArgKind::Array { role, .. } = &arg.kind else {
            continue;
        };
        let counts = problem.timed_sizes();
        let counts = counts.into_iter().filter_map(|p| problem.elements(arg, p));
        if let Some(n) = counts.filter(|n| *n > 0).min()
            && role.is_written()
            && n < 16
        {
            findings.push(Finding::Warning(format!(
                "`{}` has only {n} element{}, so a guess may be right: make the output larger where the problem allows it",
                arg.name,
                if n == 1 { "" } else { "s" }
            )));
        }
    }
    findings
}
