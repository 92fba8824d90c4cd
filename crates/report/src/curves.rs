//! The learning curves: changes from step to step.

use crate::curve::{Chart, Level, Series};
use crate::model::{RunReport, StepMetrics};
use crate::text::{duration, number, percent, tick};
use crate::timeline;

/// A number of a step, if the step has it.
type Shown = fn(&StepMetrics) -> Option<f64>;

/// The charts, next to each other.
pub fn html(report: &RunReport) -> String {
    let steps = &report.steps;
    let bands = timeline::bands(steps);
    let of = |f: &dyn Fn(&StepMetrics) -> Option<f64>| -> Vec<(f64, f64)> {
        steps
            .iter()
            .map(|s| (s.step as f64, f(s).unwrap_or(f64::NAN)))
            .collect()
    };
    let note = |f: &dyn Fn(&StepMetrics) -> String| -> Vec<(f64, String)> {
        steps
            .iter()
            .map(|s| {
                let stage = if s.stage_name.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", s.stage_name)
                };
                (
                    s.step as f64,
                    format!("step {}{stage}, {}: {}", s.step, duration(s.seconds), f(s)),
                )
            })
            .collect()
    };
    let line = |name, class, points| Series {
        name,
        class,
        points,
        dots: false,
    };
    let mut levels = Vec::new();
    let mut level = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|v| v.is_finite() && *v > 0.0) {
            levels.push(Level {
                name: name.into(),
                value,
            });
        }
    };
    level("peak", report.peak_gflops);
    level("OpenBLAS", report.openblas.as_ref().map(|o| o.gflops));
    level("corpus", report.corpus_best_gflops);
    // A step without a converged measurement is a gap.
    let best_of = |s: &StepMetrics| Some(s.best_gflops).filter(|best| *best > 0.0);
    let mut best = f64::NAN;
    let so_far: Vec<(f64, f64)> = steps
        .iter()
        .map(|s| {
            best = f64::max(best, best_of(s).unwrap_or(f64::NAN));
            (s.step as f64, best)
        })
        .collect();
    let chart = |title, description: &str, series, levels, floor, ceiling, format, notes| {
        Chart {
            title,
            description: description.into(),
            series,
            levels,
            bands: &bands,
            floor,
            ceiling,
            format,
            notes,
        }
        .html()
    };
    // Speeds of different problems have no mean.
    let mut out = String::new();
    if report.problems.is_empty() {
        out.push_str(&chart(
            "Speed by first measurements, GFLOPS",
            "Mean and best GFLOPS by step, each program with its first measurement",
            vec![
                line("best so far", "s2", so_far),
                Series {
                    name: "",
                    class: "s2",
                    points: of(&best_of),
                    dots: true,
                },
                line("mean", "s1", of(&|s| Some(s.mean_gflops))),
            ],
            levels,
            Some(0.0),
            None,
            tick,
            note(&|s| {
                format!(
                    "mean {}, best of the step {}",
                    number(s.mean_gflops),
                    best_of(s).map_or_else(|| "–".to_owned(), number)
                )
            }),
        ));
    }
    out.push_str(&chart(
        "Correct programs",
        "Share of correct programs by step",
        vec![line("", "s1", of(&|s| Some(s.correct_rate)))],
        vec![],
        Some(0.0),
        Some(1.0),
        percent,
        note(&|s| format!("{} of {} samples", percent(s.correct_rate), s.samples)),
    ));
    let optional: [(&str, Shown, Option<f64>); 6] = [
        ("Mean reward", |s| s.mean_reward, None),
        (
            "Distinct correct programs of a step",
            |s| s.distinct_correct.map(|d| d as f64),
            Some(0.0),
        ),
        ("Entropy, nats per token", |s| s.entropy, Some(0.0)),
        ("KL divergence, nats per token", |s| s.kl, Some(0.0)),
        (
            "Divergence from the first policy, nats per answer",
            |s| s.ppo.map(|ppo| ppo.divergence),
            None,
        ),
        (
            "Variance of the returns that the values explain",
            |s| s.ppo.map(|ppo| ppo.explained),
            None,
        ),
    ];
    for (title, value, floor) in optional {
        out.push_str(&chart(
            title,
            title,
            vec![line("", "s3", of(&value))],
            vec![],
            floor,
            None,
            tick,
            note(&|s| value(s).map_or_else(|| "–".to_owned(), number)),
        ));
    }
    out
}
