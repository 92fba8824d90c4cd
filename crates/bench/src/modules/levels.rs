//! KernelBench's figures of many modules: the shares of problems that are right, and right and faster than a baseline
//! (fast_p), by level.

use flopsmith_module::{Outcome, Speed, Verdict};
use flopsmith_protocol::geometric;
use flopsmith_run::console::table;
use flopsmith_run::digits::four;
use serde_json::{Value, json};

/// The values of p.
const THRESHOLDS: [f64; 3] = [1.0, 1.5, 2.0];

/// The baselines: the fastest of each workload, and KernelBench's two. A problem may leave out one of these.
pub const BASELINES: [&str; 3] = ["fastest", "eager", "inductor"];

/// The outcomes of the samples for a problem.
#[derive(Debug, Clone)]
pub struct Samples<'a> {
    /// The level.
    pub level: u8,
    /// The outcomes that are [decided](is_decided); none for a problem that nobody solved or that this machine failed to
    /// evaluate.
    pub outcomes: Vec<&'a Outcome>,
}

/// The figures of a level against a baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    level: u8,
    baseline: &'static str,
    /// Number of problems.
    problems: usize,
    /// Share of problems that are right. A problem with several samples counts by the share of its samples.
    correct: f64,
    /// Shares of problems that are right and more than p times as fast, for each p.
    fast: [f64; THRESHOLDS.len()],
    /// Geometric mean over the problems of the speedups of right samples; none without any.
    speedup: Option<f64>,
}

/// True if the candidate was found right.
pub fn is_correct(outcome: &Outcome) -> bool {
    matches!(
        outcome.verdict,
        Verdict::Measured { .. } | Verdict::Verified { .. }
    )
}

/// True if the candidate was found right or wrong. One that was only compiled is neither: this machine could not verify it.
pub fn is_decided(outcome: &Outcome) -> bool {
    !matches!(outcome.verdict, Verdict::Compiled { .. })
}

/// The speedup relative to a baseline, as the geometric mean over the workloads; none without a time.
pub fn speedup(outcome: &Outcome, baseline: &str) -> Option<f64> {
    let Verdict::Measured {
        speedup, workloads, ..
    } = &outcome.verdict
    else {
        return None;
    };
    if baseline == "fastest" {
        return Some(*speedup);
    }
    let of = |speeds: &[Speed]| {
        let found = speeds.iter().find(|speed| speed.baseline == baseline);
        found.map(|speed| speed.speedup)
    };
    let speedups: Option<Vec<f64>> = workloads.iter().map(|timed| of(&timed.speeds)).collect();
    geometric(speedups?.into_iter())
}

/// The figures of each level of which a problem has an outcome, over all problems of the level.
pub fn figures(problems: &[Samples<'_>]) -> Vec<Figures> {
    let mut all = Vec::new();
    for level in 1..=4 {
        let of: Vec<&Samples> = problems.iter().filter(|p| p.level == level).collect();
        if of.iter().any(|samples| !samples.outcomes.is_empty()) {
            let shown = BASELINES.into_iter();
            let shown = shown.filter(|baseline| all_have(baseline, &of));
            all.extend(shown.map(|baseline| one(level, baseline, &of)));
        }
    }
    all
}

/// True if every program that was timed has a speedup relative to this baseline: another one is neither faster nor slower.
fn all_have(baseline: &str, problems: &[&Samples<'_>]) -> bool {
    let mut outcomes = problems.iter().flat_map(|samples| &samples.outcomes);
    outcomes.all(|outcome| {
        let timed = matches!(outcome.verdict, Verdict::Measured { .. });
        !timed || speedup(outcome, baseline).is_some()
    })
}

fn one(level: u8, baseline: &'static str, problems: &[&Samples<'_>]) -> Figures {
    let share = |holds: &dyn Fn(&Outcome) -> bool| {
        let of = |samples: &&Samples<'_>| {
            let fit = samples.outcomes.iter().filter(|outcome| holds(outcome));
            fit.count() as f64 / samples.outcomes.len().max(1) as f64
        };
        problems.iter().map(of).sum::<f64>() / problems.len().max(1) as f64
    };
    let faster = |p: f64| share(&|outcome| speedup(outcome, baseline).is_some_and(|s| s > p));
    let means: Vec<f64> = problems
        .iter()
        .filter_map(|samples| {
            let outcomes = samples.outcomes.iter();
            let speedups: Vec<f64> = outcomes.filter_map(|o| speedup(o, baseline)).collect();
            geometric(speedups.into_iter())
        })
        .collect();
    Figures {
        level,
        baseline,
        problems: problems.len(),
        correct: share(&is_correct),
        fast: THRESHOLDS.map(faster),
        speedup: geometric(means.into_iter()),
    }
}

/// The figures as a table.
pub fn lines(figures: &[Figures]) -> Vec<String> {
    let fast = THRESHOLDS.map(|p| format!("fast_{p}"));
    let mut columns = vec![
        ("level", true),
        ("baseline", false),
        ("problems", true),
        ("correct", true),
    ];
    columns.extend(fast.iter().map(|name| (name.as_str(), true)));
    columns.push(("mean speedup", true));
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let rows = figures.iter().map(|f| {
        let mut row = vec![
            f.level.to_string(),
            f.baseline.to_owned(),
            f.problems.to_string(),
            percent(f.correct),
        ];
        row.extend(f.fast.map(percent));
        row.push(f.speedup.map_or_else(|| "–".into(), four));
        row
    });
    table(&columns, rows)
}

/// The figures for programs.
pub fn to_json(figures: &[Figures]) -> Value {
    let one = |f: &Figures| {
        let fast = THRESHOLDS.iter().zip(f.fast);
        let fast: serde_json::Map<String, Value> = fast
            .map(|(p, share)| (p.to_string(), json!(share)))
            .collect();
        json!({
            "level": f.level, "baseline": f.baseline, "problems": f.problems, "correct": f.correct,
            "fast_p": fast, "mean_speedup": f.speedup,
        })
    };
    json!({ "levels": figures.iter().map(one).collect::<Vec<Value>>() })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use flopsmith_module::{Failure, NOT_VERIFIED, Samples as Calls, Timed};
    use flopsmith_protocol::{CandidateFault, StopReason};

    use super::*;

    /// The outcome of a candidate that is this many times as fast as the eager module and as TorchInductor.
    pub fn measured(eager: f64, inductor: f64) -> Outcome {
        let speed = |baseline: &'static str, speedup: f64| Speed {
            baseline,
            speedup,
            low: speedup,
            high: speedup,
            log_se: 0.0,
            candidate_seconds: 0.002,
            baseline_seconds: 0.002 * speedup,
            rounds: 10,
            stop: StopReason::Precise,
            samples: Calls::default(),
        };
        let speedup = eager.min(inductor);
        Outcome {
            verdict: Verdict::Measured {
                speedup,
                low: speedup,
                high: speedup,
                workloads: vec![Timed {
                    workload: "w".into(),
                    speeds: vec![speed("eager", eager), speed("inductor", inductor)],
                }],
            },
            techniques: None,
            compile_seconds: 1.0,
            largest_error: Some(0.25),
        }
    }

    /// The outcome of a candidate that was only compiled.
    pub fn compiled() -> Outcome {
        Outcome {
            verdict: Verdict::Compiled {
                detail: NOT_VERIFIED,
                kernels: Vec::new(),
            },
            techniques: None,
            compile_seconds: 1.0,
            largest_error: None,
        }
    }

    /// The outcome of a candidate that was refused.
    pub fn refused(fault: CandidateFault, detail: &str) -> Outcome {
        Outcome {
            verdict: Verdict::Refused(Failure {
                fault,
                rule: None,
                detail: detail.into(),
            }),
            techniques: None,
            compile_seconds: 0.0,
            largest_error: None,
        }
    }

    #[test]
    fn a_baseline_that_a_problem_leaves_out_has_no_row() {
        let (both, mut one) = (measured(4.0, 2.0), measured(4.0, 2.0));
        let Verdict::Measured { workloads, .. } = &mut one.verdict else {
            unreachable!("it was measured")
        };
        workloads[0]
            .speeds
            .retain(|speed| speed.baseline == "eager");
        let of = |level, outcomes| Samples { level, outcomes };
        let figures = figures(&[of(1, vec![&both]), of(1, vec![&one]), of(2, vec![&both])]);
        let rows: Vec<(u8, &str)> = figures.iter().map(|f| (f.level, f.baseline)).collect();
        let first = [(1, "fastest"), (1, "eager")];
        assert_eq!(rows[..2], first);
        assert_eq!(rows[2..], BASELINES.map(|baseline| (2, baseline)));
    }

    #[test]
    fn fast_p_is_strict_and_counts_all_problems_of_a_level() {
        let (twice, even, slow) = (measured(4.0, 2.0), measured(1.0, 1.0), measured(0.5, 0.25));
        let wrong = refused(CandidateFault::WrongResult, "");
        let of = |level, outcomes: &[&'static str]| {
            let outcome = |name: &&str| match *name {
                "twice" => &twice,
                "even" => &even,
                "slow" => &slow,
                _ => &wrong,
            };
            Samples {
                level,
                outcomes: outcomes.iter().map(outcome).collect(),
            }
        };
        let figures = figures(&[
            of(1, &["twice"]),
            of(1, &["even", "wrong"]),
            of(1, &["wrong"]),
            of(1, &[]),
            of(2, &["slow"]),
            of(3, &[]),
        ]);
        let levels: Vec<u8> = figures.iter().map(|f| f.level).collect();
        assert_eq!(levels, [1, 1, 1, 2, 2, 2]);
        let [fastest, eager, inductor] = &figures[..3] else {
            unreachable!("three baselines")
        };
        assert_eq!((fastest.problems, fastest.correct), (4, 1.5 / 4.0));
        // Twice as fast is not more than twice as fast, and as fast is not faster.
        assert_eq!(fastest.fast, [0.25, 0.25, 0.0]);
        assert_eq!(inductor.fast, fastest.fast);
        assert_eq!(eager.fast, [0.25, 0.25, 0.25]);
        assert!((eager.speedup.unwrap() - 2.0).abs() < 1e-12, "{eager:?}");
        assert_eq!(figures[3].fast, [0.0; 3]);
        assert_eq!(figures[3].speedup, Some(0.25));
        let json = to_json(&figures);
        assert_eq!(
            json["levels"][1]["fast_p"],
            json!({ "1": 0.25, "1.5": 0.25, "2": 0.25 })
        );
        assert!(is_decided(&wrong) && !is_correct(&wrong));
        assert!(!is_decided(&compiled()) && !is_correct(&compiled()));
        let lines = lines(&figures);
        assert!(lines[0].contains("fast_1.5"), "{lines:?}");
        assert!(lines[1].contains("37.5 %"), "{lines:?}");
    }
}
