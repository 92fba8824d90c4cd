//! Programs beside each other. Pure.

use std::sync::Arc;

use flopsmith_measure::ranking::letters::told_apart;
use flopsmith_measure::ranking::{self, Entry, LogRatio};
use flopsmith_run::digits::{between, four};

use super::results::{BesideFirst, Change, Compared, Found, Left, Ranked};
use crate::against::log_ratio;
use crate::roofs::Roofs;
use crate::wire::Answer;

/// Ranks the programs of a call, whose ratios compare them with the program `beside`.
///
/// # Errors
/// A sentence, if the numbers refer to several measurements of the reference.
pub fn compared(
    answers: &[Arc<Answer>],
    roofs: Option<&Roofs>,
    beside: &str,
    budget: Option<Left>,
) -> Result<Compared, String> {
    let mut ids = answers.iter().filter(|answer| answer.measurement.is_some());
    let first_id = ids.next().and_then(|answer| answer.reference.as_ref());
    if ids.any(|answer| answer.reference.as_ref().map(|r| &r.id) != first_id.map(|r| &r.id)) {
        return Err("the plain reference was measured again in between, so these numbers do not compare; call the tool again".into());
    }
    let mut programs: Vec<Ranked> = answers
        .iter()
        .map(|answer| Ranked {
            program: answer.index,
            name: answer.id.clone(),
            rank: None,
            group: None,
            result: Found::of(answer, roofs, beside),
        })
        .collect();
    let measured: Vec<(usize, LogRatio, bool)> = answers
        .iter()
        .enumerate()
        .filter_map(|(index, answer)| {
            let measurement = answer.measurement.as_ref()?;
            let own = log_ratio(measurement, answer.purpose);
            Some((index, own, measurement.converged()))
        })
        .collect();
    let entries: Vec<Entry> = measured
        .iter()
        .map(|(_, own, converged)| Entry {
            own: *own,
            // Its error is in `own` already.
            placement_log_se: 0.0,
            converged: *converged,
        })
        .collect();
    let ranking = ranking::rank(&entries, 1);
    for ((index, ..), place) in measured.iter().zip(&ranking.places) {
        if let (Some(program), Some(place)) = (programs.get_mut(*index), place) {
            program.rank = Some(place.rank);
            program.group = Some(place.group.clone());
        }
    }
    let beside_first = beside_first(&measured);
    let summary = in_words(&programs, &beside_first);
    Ok(Compared {
        summary,
        programs,
        beside_first,
        budget,
    })
}

/// The measured programs, each with its speed and whether that converged, beside program 0.
fn beside_first(measured: &[(usize, LogRatio, bool)]) -> Vec<BesideFirst> {
    let Some(((0, first, first_converged), others)) = measured.split_first() else {
        return Vec::new();
    };
    let pairs: Vec<(LogRatio, LogRatio)> =
        others.iter().map(|(_, own, _)| (*own, *first)).collect();
    let apart = told_apart(&pairs, 1);
    let beside = others.iter().zip(apart);
    beside
        .map(|((program, own, converged), apart)| {
            let over = own.over(*first);
            let verdict = if !(*converged && *first_converged) {
                Change::Unclear
            } else if apart && over.ratio > 1.0 {
                Change::Faster
            } else if apart {
                Change::Slower
            } else if over.is_told() && !over.is_a_difference() {
                Change::NoDifference
            } else {
                Change::Unclear
            };
            BesideFirst {
                program: *program,
                times_as_fast: over.ratio,
                interval: over.interval,
                verdict,
            }
        })
        .collect()
}

/// A comparison in words: numbers of programs, and no names of the caller.
fn in_words(programs: &[Ranked], beside_first: &[BesideFirst]) -> String {
    let first = programs.iter().find(|program| program.rank == Some(1));
    let Some(first) = first else {
        return "no program was measured precisely enough for a rank; see the results".into();
    };
    let group = first.group.as_deref().unwrap_or_default();
    let equal = programs.iter().filter(|other| {
        let own = other.group.as_deref();
        other.program != first.program && own.is_some_and(|own| ranking::letters::share(own, group))
    });
    let equal: Vec<String> = equal.map(|other| other.program.to_string()).collect();
    let mut words = if equal.is_empty() {
        format!("program {} is the fastest", first.program)
    } else {
        format!(
            "program {} has the first rank, but cannot be told from {}",
            first.program,
            equal.join(", ")
        )
    };
    for beside in beside_first {
        words.push_str(&format!(
            "; program {} is {} times as fast as program 0 (95 % interval {})",
            beside.program,
            four(beside.times_as_fast),
            between(&beside.interval)
        ));
    }
    words
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{CandidateFault, Failure, Verdict};
    use flopsmith_reward::Reward;
    use flopsmith_test_support::{Measured, wrong};

    use super::*;
    use crate::program::{Asked, Judged};
    use crate::roofs::WorkloadRoof;
    use crate::wire::{Purpose, ReferenceSpeeds};

    const BESIDE: &str = "the plain reference";

    fn answer(index: usize, verdict: Verdict, purpose: Purpose, reference: &str) -> Arc<Answer> {
        let judged = Judged {
            verdict,
            reference: Some(ReferenceSpeeds {
                id: reference.into(),
                gflops: 1.0,
                peak_gflops: 80.0,
                measured_unix_ms: 1,
                log_se: 0.004,
                converged: true,
                machine_busy: None,
            }),
            ..Judged::failed(Failure::candidate(CandidateFault::Format, ""))
        };
        let asked = Asked {
            id: format!("name of {index}"),
            problem: "dgemm".into(),
            purpose,
        };
        Arc::new(judged.answer(index, &asked, &Reward::default()))
    }

    /// Roofs at one workload, whose data fit a cache.
    fn roofs(roof_gflops: f64, bound: &str) -> Roofs {
        Roofs {
            threads: 1,
            workloads: vec![WorkloadRoof {
                name: "n=8".into(),
                flops: 2e6,
                bytes: 1e6,
                intensity: Some(2.0),
                roof_gflops,
                bound: bound.into(),
                cached_in: Some("L2".into()),
            }],
            bandwidths: Vec::new(),
            ceilings: Vec::new(),
        }
    }

    fn of(purpose: Purpose, all: &[f64]) -> Compared {
        let verdicts = all
            .iter()
            .map(|gflops| Measured::at(*gflops).se(0.001).verdict());
        let answers: Vec<_> = verdicts
            .enumerate()
            .map(|(n, verdict)| answer(n, verdict, purpose, "r"))
            .collect();
        compared(&answers, Some(&roofs(80.0, "compute")), BESIDE, None).unwrap()
    }

    #[test]
    fn a_small_difference_between_single_processes_is_no_difference() {
        let ranked = of(Purpose::Rank, &[10.0, 10.3, 20.0]);
        let ranks: Vec<_> = ranked.programs.iter().map(|p| p.rank.unwrap()).collect();
        assert_eq!(ranks[2], 1, "{ranked:?}");
        assert_eq!(ranked.programs[0].group, ranked.programs[1].group);
        let verdicts: Vec<Change> = ranked.beside_first.iter().map(|b| b.verdict).collect();
        assert!(
            [Change::Unclear, Change::NoDifference].contains(&verdicts[0]),
            "{verdicts:?}"
        );
        assert_eq!(verdicts[1], Change::Faster);
        assert!(
            ranked.summary.starts_with("program 2 is the fastest"),
            "{}",
            ranked.summary
        );
        assert!((ranked.programs[2].result.share_of_roof.unwrap() - 0.25).abs() < 1e-12);
        // A certification measures many processes.
        let certified = of(Purpose::Certify, &[10.0, 10.3]);
        assert_eq!(certified.beside_first[0].verdict, Change::Faster);
    }

    #[test]
    fn a_share_above_the_roof_is_explained() {
        let told = |roof: f64, bound: &str| {
            let answers: Vec<_> = (0..2)
                .map(|n| answer(n, Measured::at(20.0).verdict(), Purpose::Certify, "r"))
                .collect();
            let ranked = compared(&answers, Some(&roofs(roof, bound)), BESIDE, None).unwrap();
            ranked.programs[0].result.summary.clone()
        };
        let above = told(10.0, "memory");
        assert!(
            above.contains("200.0 % of the roof (data that fit a cache"),
            "{above}"
        );
        // No cache lets a program exceed the peak.
        for unexplained in [told(40.0, "memory"), told(10.0, "compute")] {
            assert!(!unexplained.contains("cache"), "{unexplained}");
        }
    }

    #[test]
    fn equal_programs_share_the_first_rank_in_words() {
        let ranked = of(Purpose::Certify, &[10.0, 10.001]);
        assert!(
            ranked.summary.contains("cannot be told from"),
            "{}",
            ranked.summary
        );
        assert_eq!(ranked.beside_first[0].verdict, Change::NoDifference);
        assert!(!ranked.summary.contains("name of"), "{}", ranked.summary);
    }

    #[test]
    fn a_refused_or_imprecise_program_has_no_rank() {
        let unsure = Measured::at(50.0).unconverged().verdict();
        let answers = [
            answer(0, wrong(), Purpose::Rank, "r"),
            answer(1, Measured::at(10.0).verdict(), Purpose::Rank, "r"),
            answer(2, unsure, Purpose::Rank, "r"),
        ];
        let ranked = compared(&answers, None, BESIDE, None).unwrap();
        let ranks: Vec<_> = ranked.programs.iter().map(|p| p.rank).collect();
        assert_eq!(ranks, [None, Some(1), None]);
        assert!(ranked.beside_first.is_empty());
        assert_eq!(
            ranked.programs[0].result.reason.as_deref(),
            Some("wrong_result")
        );
        let none = compared(&answers[..1], None, BESIDE, None).unwrap();
        assert!(none.summary.starts_with("no program"), "{}", none.summary);
    }

    #[test]
    fn numbers_of_two_references_do_not_compare() {
        let verdict = || Measured::at(10.0).verdict();
        let answers = [
            answer(0, verdict(), Purpose::Rank, "r"),
            answer(1, verdict(), Purpose::Rank, "s"),
        ];
        let error = compared(&answers, None, BESIDE, None).unwrap_err();
        assert!(error.contains("measured again"), "{error}");
    }
}
