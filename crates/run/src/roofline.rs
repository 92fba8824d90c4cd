//! A program's place under the roofline as text and in the report.

use std::path::Path;

use flopsmith_config::Settings;
use flopsmith_machine::roofline::{self, Attested, Bound, Place};
use flopsmith_problem::Problem;
use flopsmith_protocol::MachineFacts;
use flopsmith_report::{Bandwidth, Ceiling, Roofline, WorkloadRoof};

use crate::digits::{four, share, significant};
use crate::folder::CONFIG;
use crate::summary::{Best, Facts};
use crate::{comparability, paths, start};

/// The bytes that operations at this speed need at least, in 10⁹/s, where the bandwidth of memory binds.
pub fn gb_per_second(place: &Place, gflops: f64) -> Option<f64> {
    let intensity = place.intensity.filter(|_| place.bound == Bound::Memory);
    intensity.map(|intensity| gflops / intensity)
}

/// A place as one line.
pub fn words(place: &Place) -> String {
    let at = place.intensity.map_or_else(String::new, |intensity| {
        format!(" at {} FLOP/byte", significant(intensity, 3))
    });
    let bytes = gb_per_second(place, place.roof_gflops);
    let bytes = bytes.map_or_else(String::new, |gb| format!("{} GB/s, ", four(gb)));
    let mut words = format!(
        "{} of its roof by the roofline model ({bytes}{} GFLOPS): {} binds{at}",
        share(place.share),
        four(place.roof_gflops),
        place.bound
    );
    words.push_str(&beyond(place));
    words
}

/// Why shares of roofs may be above 100 %.
pub const CACHED: &str = "data that fit a cache may exceed a memory roof";

/// Why a program may be faster than its roof, to follow what a line says of its place; empty if nothing lets it.
fn beyond(place: &Place) -> String {
    match &place.cached_in {
        Some(cache) if place.may_exceed() => {
            format!("; its data fit the {cache} cache, so it may exceed this roof")
        }
        // The mean over workloads whose data fit no common cache.
        None if place.bound == Bound::Memory && place.share > 1.0 => format!("; {CACHED}"),
        _ => String::new(),
    }
}

/// A place as part of a sentence, where it is above the roof with the reason. `peak_bits` is the width of the vectors of the
/// compute roof, if it is known.
pub fn reached(place: &Place, peak_bits: Option<u32>) -> String {
    let width = peak_bits
        .filter(|_| place.bound == Bound::Compute)
        .map(|bits| format!(", {bits} bit"))
        .unwrap_or_default();
    let reason = match place.share > 1.0 {
        true => beyond(place),
        false => String::new(),
    };
    format!(
        "{} of the roof ({}{width}{reason})",
        share(place.share),
        place.bound
    )
}

/// The owner of a peak that was measured with `threads` threads, as a possessive.
pub fn whose(threads: Option<u32>) -> String {
    match threads {
        Some(1) => "this core's".into(),
        Some(threads) => format!("these {threads} cores'"),
        None => "this machine's".into(),
    }
}

/// The number of threads that a machine's peak was measured with; `None` if the attestation does not name it.
pub fn threads(machine: &MachineFacts) -> Option<u32> {
    let attested: serde_json::Value = serde_json::from_str(&machine.attestation_json).ok()?;
    u32::try_from(attested["threads"].as_u64()?).ok()
}

/// A place in a short form.
pub fn short(place: &Place) -> String {
    format!("{} {}", share(place.share), place.bound)
}

/// The roofs of the machine that a run was timed on, for the report. `None` if the attestation cannot be read.
///
/// Intensities are computed from the problem's definition, and are left out if the problem is gone or was edited after
/// the run. Each of several workloads has a place of its own, where `best` is its best program's speed.
pub fn of_run(
    folder: &Path,
    settings: &Settings,
    machine: &MachineFacts,
    best: Option<&Best>,
) -> Option<Roofline> {
    let problem = of_folder(folder, &settings.problem, &settings.workloads);
    let calls = problem.as_ref().map(calls).unwrap_or_default();
    let roofline = drawn(machine, &calls)?;
    let Some(problem) = problem.filter(|_| calls.len() > 1) else {
        return Some(roofline);
    };
    let best = best.map(|best| &best.workloads[..]).unwrap_or_default();
    let workloads = problem.workloads.iter().zip(&calls);
    let workloads = workloads.map(|(workload, (flops, bytes))| {
        let (place, _) = placed(machine, *flops, *bytes, 0.0)?;
        let here = best.iter().find(|b| b.name == workload.name);
        Some(WorkloadRoof {
            name: workload.name.clone(),
            intensity: place.intensity,
            roof_gflops: place.roof_gflops,
            bound: place.bound.to_string(),
            best_gflops: here.map(|b| b.gflops),
        })
    });
    Some(Roofline {
        workloads: workloads.flatten().collect(),
        ..roofline
    })
}

/// The problem of a run with the run's workloads. `None` if it is gone or was edited after the run.
pub(crate) fn of_folder(folder: &Path, problem: &str, workloads: &[String]) -> Option<Problem> {
    let problem = paths::problem(problem).and_then(|p| paths::selected(p, workloads));
    // A pool that names special techniques gives the problem another digest.
    let problem = match flopsmith_config::load(&folder.join(CONFIG), &[]) {
        Ok(settings) => start::permitting(problem.ok()?, &settings),
        Err(_) => problem.ok()?,
    };
    comparability::is_of(folder, &problem).then_some(problem)
}

/// Operations and bytes of a call at each workload.
fn calls(problem: &Problem) -> Vec<(f64, f64)> {
    let each = problem.each().into_iter();
    each.map(|p| (p.work_flops(&p.timed), p.moved_bytes(&p.timed)))
        .collect()
}

/// The places of a program.
#[derive(Debug, Default)]
pub struct Placed {
    /// At each workload.
    pub places: Vec<Place>,
    /// Width of the vectors of the compute roof.
    pub vector_bits: Option<u32>,
}

/// The places of a run's best program. `None` if the machine's attestation cannot be read, or if the problem is gone or was
/// edited after the run.
pub fn of_best(
    folder: &Path,
    facts: &Facts,
    machine: &MachineFacts,
    best: &Best,
) -> Option<Placed> {
    let problem = of_folder(folder, &facts.problem, &facts.workloads)?;
    let calls = calls(&problem);
    let speeds: Vec<f64> = match &best.workloads[..] {
        [] => vec![best.gflops],
        several => several.iter().map(|workload| workload.gflops).collect(),
    };
    if speeds.len() != calls.len() {
        return None;
    }
    let mut found = Placed::default();
    for ((flops, bytes), gflops) in calls.into_iter().zip(speeds) {
        let (place, bits) = placed(machine, flops, bytes, gflops)?;
        found.places.push(place);
        found.vector_bits = Some(bits);
    }
    Some(found)
}

/// The place of a program that reaches `gflops` on a machine, where a call performs `flops` operations and moves
/// `bytes` bytes.
fn placed(machine: &MachineFacts, flops: f64, bytes: f64, gflops: f64) -> Option<(Place, u32)> {
    let attested = Attested::read(&machine.attestation_json)?;
    let roof = attested.roof(machine.peak_gflops);
    let place = roofline::place(flops, bytes, gflops, roof)?;
    Some((place, attested.peak.vector_bits))
}

/// The ceilings for the element type of a run's problem, and the number of elements that a vector holds for each
/// double. The run's peak equals the attested peak of that element type, or is slightly larger if it was raised later.
/// So the ratio of the two peaks tells floats, doubles and integers apart even if the problem is gone.
fn ceilings_of(attested: &Attested, peak_gflops: f64) -> (&[roofline::Ceiling], f64) {
    let measured = &attested.roofs;
    let lanes = (peak_gflops / attested.peak.gflops).round().max(1.0);
    let floats = lanes.min(2.0);
    let off = |peak: f64| (peak_gflops / peak).ln().abs();
    match measured.fastest_integers(attested.threads) {
        Some(integers) if off(integers.gflops) < off(floats * attested.peak.gflops) => {
            (&measured.integer, 1.0)
        }
        _ => (&measured.compute, lanes),
    }
}

/// A call whose bytes are not known.
const UNKNOWN: &[(f64, f64)] = &[(1.0, f64::NAN)];

/// `calls`: operations and bytes of a call at each workload, if they are known.
fn drawn(machine: &MachineFacts, calls: &[(f64, f64)]) -> Option<Roofline> {
    let attested = Attested::read(&machine.attestation_json)?;
    let measured = &attested.roofs;
    let (computed, lanes) = ceilings_of(&attested, machine.peak_gflops);
    let roof = attested.roof(machine.peak_gflops);
    let calls = match calls {
        [] => UNKNOWN,
        known => known,
    };
    let places: Option<Vec<Place>> = calls
        .iter()
        .map(|(flops, bytes)| roofline::place(*flops, *bytes, 0.0, roof))
        .collect();
    let place = Place::over(&places?)?;
    let mut ceilings: Vec<Ceiling> = computed
        .iter()
        .map(|ceiling| Ceiling {
            name: ceiling.name(),
            threads: ceiling.threads,
            gflops: ceiling.gflops_for(lanes),
        })
        .collect();
    // The highest ceiling is the same quantity as the peak that all shares refer to, but was measured once instead of
    // several times. It is drawn at the peak: otherwise a program below the peak could lie above the ceiling.
    let of_run = ceilings
        .iter_mut()
        .filter(|c| c.threads == attested.threads);
    if let Some(highest) = of_run.max_by(|a, b| a.gflops.total_cmp(&b.gflops)) {
        highest.gflops = machine.peak_gflops;
    }
    Some(Roofline {
        threads: attested.threads,
        intensity: place.intensity,
        roof_gflops: place.roof_gflops,
        bound: place.bound.to_string(),
        cached_in: place.cached_in,
        ceilings,
        bandwidths: measured
            .bandwidth
            .iter()
            .map(|bandwidth| Bandwidth {
                name: bandwidth.level.clone(),
                threads: bandwidth.threads,
                gb_s: bandwidth.gb_s,
            })
            .collect(),
        workloads: Vec::new(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::Technique;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_says_what_binds_and_when_its_roof_may_be_exceeded() {
        let dot = Place {
            intensity: Some(0.125),
            roof_gflops: 2.5,
            share: 3.2,
            bound: Bound::Memory,
            cached_in: Some("L3".into()),
        };
        assert_eq!(
            words(&dot),
            "320.0 % of its roof by the roofline model (20.00 GB/s, 2.500 GFLOPS): memory binds at 0.125 FLOP/byte; its data fit the L3 cache, so it may exceed this roof"
        );
        assert_eq!(short(&dot), "320.0 % memory");
        assert_eq!(
            reached(&dot, Some(512)),
            "320.0 % of the roof (memory; its data fit the L3 cache, so it may exceed this roof)"
        );
        let below = Place {
            share: 0.9,
            ..dot.clone()
        };
        assert_eq!(reached(&below, Some(512)), "90.0 % of the roof (memory)");
        let in_the_mean = Place {
            cached_in: None,
            ..dot.clone()
        };
        assert_eq!(
            reached(&in_the_mean, None),
            "320.0 % of the roof (memory; data that fit a cache may exceed a memory roof)"
        );
        let peak = Place {
            intensity: None,
            roof_gflops: 50.0,
            share: 0.8,
            bound: Bound::Compute,
            ..dot
        };
        assert_eq!(
            words(&peak),
            "80.0 % of its roof by the roofline model (50.00 GFLOPS): compute binds"
        );
        assert_eq!(
            reached(&peak, Some(512)),
            "80.0 % of the roof (compute, 512 bit)"
        );
        assert_eq!(reached(&peak, None), "80.0 % of the roof (compute)");
    }

    #[test]
    fn a_run_that_names_special_techniques_has_its_problem() {
        let folder = tempfile::tempdir().unwrap();
        let dot = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dot");
        let mut settings = Settings {
            problem: dot.display().to_string(),
            ..Settings::default()
        };
        settings.sqd.techniques = settings.sqd.techniques.with(Technique::PartialSums);
        let config = folder.path().join(CONFIG);
        std::fs::write(&config, toml::to_string(&settings).unwrap()).unwrap();
        let problem = paths::problem_of(&settings).unwrap();
        comparability::keep_for_workers(folder.path(), std::slice::from_ref(&problem)).unwrap();
        let found = || of_folder(folder.path(), &settings.problem, &[]);
        assert_eq!(found(), Some(problem));
        std::fs::remove_file(config).unwrap();
        assert_eq!(found(), None, "its usual definition has another digest");
    }

    fn machine(attestation: &serde_json::Value) -> MachineFacts {
        flopsmith_test_support::machine(&attestation.to_string())
    }

    #[test]
    fn a_report_gets_the_roofs_for_the_elements_of_its_problem() {
        // Single precision: the peak of the machine's facts is twice the attested one, but not that of scalar code.
        let facts = machine(&json!({
            "threads": 1,
            "peak": {"gflops": 25.0, "bandwidth_gb_s": 10.0, "vector_bits": 256, "threads": 1},
            "roofs": {
                "compute": [
                    {"vector_bits": 64, "threads": 1, "gflops": 6.0},
                    // One measurement among several: the peak is the highest of all.
                    {"vector_bits": 256, "threads": 1, "gflops": 24.0},
                    {"vector_bits": 256, "threads": 2, "gflops": 47.0},
                ],
                "bandwidth": [
                    {"level": "L2", "threads": 1, "gb_s": 90.0, "buffer_bytes": 1024, "holds_bytes": 2048},
                    {"level": "memory", "threads": 1, "gb_s": 10.0, "buffer_bytes": 65536, "holds_bytes": null},
                ],
                "integer": [],
            },
        }));
        let found = drawn(&facts, &[(4000.0, 2000.0)]).unwrap();
        assert_eq!(found.intensity, Some(2.0));
        assert_eq!((found.roof_gflops, found.bound.as_str()), (20.0, "memory"));
        assert_eq!(found.cached_in.as_deref(), Some("L2"));
        let heights: Vec<f64> = found.ceilings.iter().map(|c| c.gflops).collect();
        assert_eq!(heights, [6.0, 50.0, 94.0]);
        assert_eq!(found.bandwidths.len(), 2);
        let (place, bits) = placed(&facts, 4000.0, 2000.0, 10.0).unwrap();
        assert_eq!((place.share, place.bound, bits), (0.5, Bound::Memory, 256));
        assert_eq!(place.cached_in.as_deref(), Some("L2"));
        let several = drawn(&facts, &[(4000.0, 2000.0), (4000.0, 500.0)]).unwrap();
        assert_eq!(several.intensity, Some(4.0));
        assert!((several.roof_gflops - (20.0f64 * 50.0).sqrt()).abs() < 1e-9);
        let unknown = drawn(&facts, &[]).unwrap();
        assert_eq!((unknown.intensity, unknown.roof_gflops), (None, 50.0));
    }

    #[test]
    fn the_roofs_of_whole_numbers_are_theirs() {
        let attestation = json!({
            "threads": 1,
            "peak": {"gflops": 10.0, "bandwidth_gb_s": 10.0, "vector_bits": 256, "threads": 1},
            "roofs": {
                "compute": [{"vector_bits": 256, "threads": 1, "gflops": 10.0}],
                "integer": [{"vector_bits": 256, "threads": 1, "gflops": 60.0}],
                "bandwidth": [],
            },
        });
        let heights = |peak_gflops: f64| -> Vec<f64> {
            let facts = MachineFacts {
                peak_gflops,
                ..machine(&attestation)
            };
            let found = drawn(&facts, &[]).unwrap();
            found.ceilings.iter().map(|c| c.gflops).collect()
        };
        assert_eq!(heights(10.0), [10.0]);
        assert_eq!(heights(20.4), [20.4]);
        assert_eq!(heights(61.0), [61.0]);
    }

    #[test]
    fn an_attestation_without_roofs_and_words_have_nothing() {
        let facts = machine(&json!({
            "threads": 2,
            "peak": {"gflops": 50.0, "bandwidth_gb_s": 10.0, "vector_bits": 512, "threads": 2},
        }));
        assert_eq!(drawn(&facts, &[(2000.0, 1000.0)]), None);
        assert_eq!(drawn(&flopsmith_test_support::machine("words"), &[]), None);
    }
}
