//! The measured programs of a run, from its outcomes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use flopsmith_generator::measured::Program;
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::{MachineClass, Outcome, ProblemId};
use flopsmith_run::console::usage;
use flopsmith_run::{paths, summary};

use crate::label::{self, runtime_s};

/// The measured programs of the run in a folder, and the number of outcomes that are left out: those of another machine
/// class than most, without a program, or without a verdict on it.
///
/// # Errors
/// Wrong usage: the folder has no run, or no outcome with a verdict on a program yet.
pub fn programs(run: &Path) -> Result<(Vec<Program>, usize)> {
    let settings = flopsmith_config::load(&run.join("config.toml"), &[])?;
    let mut problems = paths::problems_of(&settings)?;
    let style = settings.generator.prompt.style();
    let outcomes = summary::by_problem(summary::outcomes(run)?);
    if settings.has_fresh() {
        let evaluated: Vec<ProblemId> = problems.iter().map(|of| of.id.clone()).collect();
        for id in outcomes.keys().filter(|id| !evaluated.contains(id)) {
            problems.push(paths::nest(id, &settings)?);
        }
    }
    let (mut programs, mut left_out) = (Vec::new(), 0);
    for problem in &problems {
        let outcomes = outcomes
            .get(&problem.id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let timed = (problem, &settings.workloads[..]);
        let (found, others) = of_problem(outcomes, timed, style, &origin(run))?;
        programs.extend(found);
        left_out += others;
    }
    if programs.is_empty() {
        return Err(usage(format!(
            "the run in {} has no outcome with a verdict on a program yet",
            run.display()
        )));
    }
    Ok((programs, left_out))
}

/// The run's name.
fn origin(path: &Path) -> String {
    let name = path.file_name().and_then(|n| n.to_str());
    format!("run {}", name.unwrap_or_default())
}

/// The programs of some outcomes, and the number of outcomes that are left out. Times of different machine classes
/// cannot be compared, so only outcomes of the commonest class are used. The prompt is that of the task without the
/// earlier program that the task may have built on, since outcomes do not contain that program. `workloads` are the names
/// that the run's settings give.
fn of_problem(
    outcomes: &[Outcome],
    (problem, workloads): (&Problem, &[String]),
    style: Style,
    origin: &str,
) -> Result<(Vec<Program>, usize)> {
    let mut classes: BTreeMap<&MachineClass, usize> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|o| o.verdict.counts()) {
        *classes.entry(&outcome.machine_class).or_default() += 1;
    }
    let commonest = classes.iter().max_by_key(|(_, count)| **count);
    let class = commonest.map(|(class, _)| *class);
    let mut programs = Vec::new();
    for outcome in outcomes.iter().filter(|o| Some(&o.machine_class) == class) {
        let Some(runtime_s) = runtime_s(&outcome.verdict) else {
            continue;
        };
        let program = Program {
            problem: outcome.candidate.problem.to_string(),
            workloads: workloads.to_vec(),
            prompt: label::prompt(problem, outcome.candidate.permitted, style)?,
            source: outcome.source.clone(),
            runtime_s,
            correct: runtime_s.is_some(),
            origin: origin.to_owned(),
            rank: None,
        };
        // An answer without a program is left out.
        if program.check().is_ok() {
            programs.push(program);
        }
    }
    let left_out = outcomes.len() - programs.len();
    Ok((programs, left_out))
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::{CandidateFault, InfrastructureCause};
    use flopsmith_test_support::{Measured, candidate, infrastructure, outcome, rejected, wrong};

    use super::*;

    #[test]
    fn outcomes_that_judge_a_program_become_lines() {
        let problem = paths::problem("dgemm").unwrap_or_else(|e| unreachable!("{e:#}"));
        let mut outcomes: Vec<Outcome> = (0..3u32)
            .map(|i| Measured::at(f64::from(i + 1)).outcome(candidate(0, 0, i)))
            .collect();
        outcomes.push(outcome(candidate(0, 0, 3), wrong()));
        let nothing_said = outcomes.len();
        outcomes.push(outcome(
            candidate(0, 0, 4),
            infrastructure(InfrastructureCause::Jail),
        ));
        outcomes.push(outcome(
            candidate(0, 0, 5),
            rejected(CandidateFault::Format),
        ));
        outcomes[nothing_said + 1].source.clear();
        // The time of this outcome was measured on another machine class.
        let mut elsewhere = Measured::at(9.0).outcome(candidate(0, 0, 6));
        elsewhere.machine_class =
            MachineClass::new("another").unwrap_or_else(|e| unreachable!("{e}"));
        outcomes.push(elsewhere);

        let workloads = ["n=256".to_owned()];
        let timed = (&problem, &workloads[..]);
        let found = of_problem(&outcomes, timed, Style::Compact, "run a");
        let (programs, left_out) = found.unwrap_or_else(|e| unreachable!("{e:#}"));
        assert_eq!((programs.len(), left_out), (4, 3));
        let first = &outcomes[0].candidate;
        let prompt = flopsmith_problem::prompt::compact("dgemm", first.permitted);
        for (program, outcome) in programs.iter().zip(&outcomes) {
            assert_eq!(
                (&program.prompt, program.problem.as_str()),
                (&prompt, "dgemm")
            );
            assert_eq!(program.source, outcome.source);
            let seconds = outcome.verdict.measurement().map(|m| m.seconds_per_call);
            assert_eq!(
                (program.runtime_s, program.correct),
                (seconds, seconds.is_some())
            );
            assert_eq!(program.origin, "run a");
            assert_eq!(program.workloads, workloads);
        }
    }
}
