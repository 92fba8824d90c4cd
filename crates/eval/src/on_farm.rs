//! Evaluates programs on the workers of a cluster.
//!
//! First the workers measure the plain reference of each problem: its outcome names a machine, and a problem whose reference
//! fails there is given up. Ratios are relative to the reference, whose one measurement all workers of the class share.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use flopsmith_bench::rows::Machine;
use flopsmith_config::Standard;
use flopsmith_evaluate::Evaluated;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_protocol::{MachineFacts, Outcome as Farmed, TechniqueSet};
use flopsmith_run::console::{say, usage};
use flopsmith_run::farm::{self, Farm, Program, Ways};
use tokio_util::sync::CancellationToken;

use crate::Order;
use crate::evaluation::{Open, Troubles, add, same_machine, words};
use crate::folder::Folder;
use crate::outcome::Outcome;

/// Has the workers evaluate these programs at each number of threads, until `stopped` is cancelled.
///
/// # Errors
/// Wrong usage, files that cannot be written, and a cluster that cannot be used. Failures of a single problem are returned.
pub fn run(
    order: &Order,
    ways: &Ways,
    folder: &mut Folder,
    open: &[(&Arc<Problem>, Vec<Open>)],
    stopped: &CancellationToken,
) -> Result<Troubles> {
    if let Some((problem, _)) = open.iter().find(|(problem, _)| problem.module.is_some()) {
        return Err(usage(format!(
            "{} is a module, and --cluster evaluates kernels; leave --cluster out, or evaluate the modules by themselves",
            problem.id
        )));
    }
    let problems: Vec<Arc<Problem>> = open
        .iter()
        .map(|(problem, _)| Arc::clone(problem))
        .collect();
    let mut troubles = Troubles::new();
    if problems.is_empty() {
        return Ok(troubles);
    }
    for &threads in &order.threads {
        let mut farm = Farm::open(
            ways,
            &farm::Order {
                name: "eval",
                problems: &problems,
                workloads: &order.workloads,
                compiler: &order.compiler,
                standard: standard(order.purpose),
                full: standard(order.purpose),
                threads,
                sanitize: order.sanitize,
            },
        )?;
        let Some(machines) = references(&mut farm, &problems, stopped)? else {
            return Ok(troubles);
        };
        for (problem, why) in &machines.lacking {
            say(&format!("error: {problem}: {why}"));
            troubles.insert(problem.clone(), why.clone());
        }
        let todo = open.iter().flat_map(|(problem, programs)| {
            let machine = machines.of.get(problem.id.as_str())?;
            Some(
                programs
                    .iter()
                    .map(move |program| (*problem, program, machine)),
            )
        });
        let todo: Vec<_> = todo.flatten().collect();
        for (problem, _, machine) in &todo {
            same_machine(folder, problem, threads, machine)?;
        }
        let programs = todo.iter().map(|(problem, program, _)| Program {
            problem: problem.id.clone(),
            permitted: order.permitted(problem),
            full: true,
            language: None,
            source: program.source.clone(),
        });
        let programs: Vec<Program> = programs.collect();
        let mut done = 0;
        farm.evaluate(&programs, stopped, |number, farmed, measured_by| {
            let (problem, program, machine) = &todo[number];
            let own = measured_by.map(attested).transpose()?;
            let machine = own.as_ref().unwrap_or(machine);
            let evaluated = evaluated(farmed);
            let outcome = Outcome::over_reference(
                problem.id.as_str(),
                program.digest.clone(),
                threads,
                false,
                &evaluated,
                &machine.digest,
                order.purpose,
            );
            done += 1;
            say(&format!(
                "[{done}/{}] {} {}: {}",
                todo.len(),
                problem.id,
                program.digest.short(),
                words(&outcome, "the reference")
            ));
            add(folder, outcome, &evaluated, machine, &program.source)
        })?;
    }
    Ok(troubles)
}

/// The machines that measured the references, by problem.
struct Machines {
    of: BTreeMap<String, Machine>,
    /// The problems whose reference has no machine, with the reasons.
    lacking: BTreeMap<String, String>,
}

/// Has the workers measure the plain references. None if a stop was requested.
fn references(
    farm: &mut Farm,
    problems: &[Arc<Problem>],
    stopped: &CancellationToken,
) -> Result<Option<Machines>> {
    say("the workers measure the plain references…");
    let programs = problems.iter().map(|problem| Program {
        problem: problem.id.clone(),
        permitted: TechniqueSet::all(),
        full: true,
        language: problem.reference_language().unless(problem.language),
        source: problem.reference_source.clone(),
    });
    let programs: Vec<Program> = programs.collect();
    let mut machines = Machines {
        of: BTreeMap::new(),
        lacking: BTreeMap::new(),
    };
    let whole = farm.evaluate(&programs, stopped, |number, farmed, machine| {
        let problem = problems[number].id.to_string();
        match machine {
            Some(machine) => {
                machines.of.insert(problem, attested(machine)?);
            }
            None => {
                let why = format!(
                    "the workers cannot measure its plain reference ({})",
                    farmed.verdict.kind()
                );
                machines.lacking.insert(problem, why);
            }
        }
        Ok(())
    })?;
    Ok(whole.then_some(machines))
}

fn attested(facts: &MachineFacts) -> Result<Machine> {
    Machine::new(facts.attestation_json.clone())
        .with_context(|| format!("the attestation of node {} is no JSON", facts.node))
}

/// An outcome of the workers as this machine would have made it.
fn evaluated(farmed: Farmed) -> Evaluated {
    Evaluated {
        verdict: farmed.verdict,
        techniques: farmed.techniques,
        vector_bits: farmed.vector_bits,
        diagnostics: String::new(),
        checked: None,
        // The samples stay in the store of the cluster.
        raw: Vec::new(),
        busy: None,
    }
}

fn standard(purpose: Purpose) -> Standard {
    match purpose {
        Purpose::Screen => Standard::Screen,
        Purpose::Rank => Standard::Rank,
        Purpose::Certify => Standard::Certify,
    }
}
