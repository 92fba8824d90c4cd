//! The raw data of a measurement, which are kept with its numbers.

use flopsmith_machine::environment::Conditions;
use flopsmith_machine::peak::Peak;
use flopsmith_protocol::{Digest, Failure, UnknownCause};
use serde::Serialize;

use super::certify::FurtherProcesses;
use super::decision::Purpose;
use super::reference::Chain;
use super::resolution::Resolution;
use super::session::Trial;
use super::workload::WorkloadTimer;
use crate::stats::Estimate;

/// The JSON object of the raw samples.
#[derive(Serialize)]
struct Raw<'a> {
    purpose: Purpose,
    seed: u64,
    #[serde(flatten)]
    trial: &'a Trial,
    /// The baseline timed by itself, if the candidate slowed it; the measurement's ratio then rests on this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    recheck: Option<&'a Estimate>,
    chain: Chain,
    /// The part of a time that clock and hand-shake hide.
    resolution: Option<Resolution>,
    conditions: Conditions,
    /// The roof with which the measurement was compared. A run raises the roof if its first measurement met a disturbed
    /// machine, so it may lie above the attested one.
    peak: Peak,
    attestation: &'a Digest,
    #[serde(flatten)]
    further: Option<&'a FurtherProcesses>,
}

impl WorkloadTimer {
    /// All samples of a measurement and the data that belong to them, as JSON. `floor` is the baseline's over the whole
    /// measurement, seconds.
    pub(super) fn raw(
        &self,
        purpose: Purpose,
        seed: u64,
        trial: &Trial,
        recheck: Option<&Estimate>,
        floor: f64,
        further: Option<&FurtherProcesses>,
    ) -> Result<Vec<u8>, Failure> {
        let raw = Raw {
            purpose,
            seed,
            trial,
            recheck,
            chain: self.chain,
            resolution: self.resolution,
            conditions: self.conditions(floor),
            peak: self.ceilings.peak,
            attestation: &self.equipment.attestation_digest,
            further,
        };
        serde_json::to_vec(&raw).map_err(|e| {
            Failure::unknown(
                UnknownCause::UnwritableSamples,
                format!("the raw samples cannot be written: {e}"),
            )
        })
    }

    /// The present conditions, and those of the present measurement, in which the baseline had this floor, seconds.
    fn conditions(&self, floor: f64) -> Conditions {
        let first = self.equipment.cores.kernel.first().copied().unwrap_or(0);
        Conditions {
            meanwhile: self.meanwhile.shares(),
            baseline_drift: self.quarantine.drift(floor),
            ..Conditions::now(first)
        }
    }
}
