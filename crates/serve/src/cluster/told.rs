//! The reference of a run on the workers of a cluster, as they tell it.

use anyhow::{Context as _, Result};
use flopsmith_machine::attest::Attestation;
use flopsmith_measure::{Chains, USABLE_LOG_SE};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Digest, MachineFacts, RunId, geometric};
use flopsmith_run::local::unix_ms;

use crate::circumstances::Circumstances;
use crate::reference::Reference;
use crate::roofs::Roofs;
use crate::wire::ReferenceSpeeds;

/// The reference of a run, of which the workers told these `chains` and the `facts` of the first machine. The
/// speeds follow from the chains and the work that the definition states; where it states none, the machine tells them.
///
/// # Errors
/// The attestation of the machine cannot be read.
pub fn told(
    problem: &Problem,
    run: &RunId,
    chains: Chains,
    facts: &MachineFacts,
    sanitize: bool,
) -> Result<Reference> {
    let attestation: Attestation = serde_json::from_str(&facts.attestation_json)
        .with_context(|| format!("the attestation of node {} cannot be read", facts.node))?;
    let speeds: Vec<f64> = if problem.states_work() {
        let each = problem.each();
        let speeds = each.iter().zip(chains.each()).map(|(single, chain)| {
            let flops = single.work_flops(&single.timed);
            flops / chain.reference_seconds / 1e9
        });
        speeds.collect()
    } else if facts.reference_gflops_of_each.is_empty() {
        vec![facts.reference_gflops]
    } else {
        facts.reference_gflops_of_each.clone()
    };
    let gflops = geometric(speeds.iter().copied()).unwrap_or(facts.reference_gflops);
    let now = unix_ms();
    let name = format!("{run} {} {chains:?}", problem.digest);
    Ok(Reference {
        circumstances: Circumstances::attested(problem, &attestation),
        sanitize,
        of_each: match speeds.len() {
            1 => Vec::new(),
            _ => speeds,
        },
        speeds: ReferenceSpeeds {
            id: Digest::of(name.as_bytes()).short().to_owned(),
            gflops,
            peak_gflops: facts.peak_gflops,
            measured_unix_ms: now,
            log_se: chains.whole().log_se,
            converged: chains.converged(USABLE_LOG_SE),
            machine_busy: None,
        },
        roofs: Roofs::of(problem, &attestation, facts.peak_gflops),
        chains,
        // The workers measure it once in a run, so it holds as long as any.
        attempts: u32::MAX,
        tried_unix_ms: now,
    })
}
