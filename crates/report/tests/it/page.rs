//! The page as a whole: all data give a well-formed file in which text stays text.
#![expect(clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use flopsmith_protocol::{
    Interval, PpoMetrics, StopReason, Technique, TechniqueSet, VerifiedSizes, WorkloadMeasurement,
};
use flopsmith_report::clock::Clock;
use flopsmith_report::{
    ArchiveStats, Bandwidth, Best, Ceiling, CellRow, Command, Moment, Noise, OfProblem, OpenBlas,
    ProblemStep, Roofline, RunReport, Sizes, StageChange, StepMetrics, Summary, WorkloadRoof, html,
};
use proptest::prelude::*;
use serde_json::json;

use crate::well_formed::well_formed;

/// Workloads of this name and these numbers.
fn workloads(name: &str, numbers: &[f64], interval: Interval) -> Vec<WorkloadMeasurement> {
    let each = numbers.iter().map(|number| WorkloadMeasurement {
        name: name.into(),
        gflops: *number,
        seconds_per_call: *number,
        minimum_seconds: None,
        median_seconds: None,
        ratio: *number,
        interval,
        log_ratio_se: *number,
        share_of_peak: *number,
        gb_per_second: Some(*number),
        stop: StopReason::Budget,
        calls: 1,
        mdape: *number,
        certificate: None,
    });
    each.collect()
}

/// Numbers that decimal and binary write alike, so that a file holds them exactly.
fn example() -> RunReport {
    let interval = Interval {
        low: 36.0,
        high: 38.5,
        confidence: 0.95,
    };
    let steps = (0..20)
        .map(|i| StepMetrics {
            step: i,
            stage: (i / 7) as u32,
            stage_name: ["none", "singles", "pairs"][i as usize / 7].into(),
            seconds: 20.0 * (i + 1) as f64,
            samples: 64,
            correct_rate: 0.25 + i as f64 / 32.0,
            mean_gflops: 2.0 + i as f64,
            best_gflops: 10.0 + 1.5 * i as f64,
            mean_reward: Some(-0.5 + i as f64 / 16.0),
            kl: Some(0.01),
            entropy: Some(1.0 - i as f64 / 64.0),
            ppo: None,
            distinct_correct: Some(30),
            outcomes: [
                ("measured".to_owned(), 26 + i),
                ("wrong_result".to_owned(), 38 - i),
            ]
            .into(),
        })
        .collect();
    RunReport {
        title: "dgemm 256³".into(),
        run: "dgemm-1".into(),
        started: "2026-11-21 09:00 UTC".into(),
        summary: Summary {
            steps: 20,
            seconds: 401.0,
            spent_seconds: Some(362.0),
            start: Some(Moment {
                samples: 128,
                correct_rate: 0.38,
                mean_gflops: 4.0,
                ..Moment::default()
            }),
            end: Some(Moment {
                samples: 128,
                correct_rate: 0.96,
                mean_gflops: 28.0,
                ..Moment::default()
            }),
            coverage: 3,
            coverage_unconfirmed: 1,
            outcomes: [
                ("measured".to_owned(), 710),
                ("wrong_result".to_owned(), 500),
                ("out_of_bounds".to_owned(), 70),
            ]
            .into(),
            share_of_time: [("timer".to_owned(), 0.6), ("idle".to_owned(), 0.4)].into(),
            finished: true,
            ..Summary::default()
        },
        steps,
        problems: Vec::new(),
        stage_changes: vec![StageChange {
            step: 6,
            from: "none".into(),
            to: "singles".into(),
            reason: "7 steps".into(),
        }],
        techniques: TechniqueSet::all(),
        cells: vec![
            CellRow {
                techniques: TechniqueSet::EMPTY.with(Technique::Simd),
                tried: 90,
                correct: 70,
                best_gflops: Some(41.0),
                interval: Some(interval),
                vector_bits: Some(512),
                source: Some("void dgemm(void){}\n".into()),
                ..CellRow::default()
            },
            CellRow {
                techniques: TechniqueSet::EMPTY.with(Technique::Packing),
                tried: 5,
                correct: 2,
                unconfirmed_gflops: Some(44.0),
                ..CellRow::default()
            },
            CellRow {
                techniques: TechniqueSet::EMPTY,
                tried: 3,
                ..CellRow::default()
            },
        ],
        archive: Some(ArchiveStats {
            filled: 3,
            cells: 256,
            coverage: 0.01171875,
            qd_score: 96.0,
            norm_qd_score: 0.375,
            objective_max: Some(41.0),
            objective_mean: Some(32.0),
            tried: 98,
            correct: 72,
        }),
        best: Some(Best {
            gflops: 41.0,
            ratio: 37.2,
            interval,
            techniques: TechniqueSet::EMPTY.with(Technique::Simd),
            vector_bits: Some(512),
            step: Some(17),
            measured_again: true,
            samples: Some("certified/dgemm-1-s17-g0-c3-m1.json".into()),
            source: "#include <stddef.h>\nvoid dgemm(int n){ if (n < 4 && n > 2) return; }\n"
                .into(),
            workloads: Vec::new(),
            sizes: Some(VerifiedSizes::of(97, 400, 90)),
            call: None,
            gb_per_second: None,
        }),
        peak_gflops: Some(51.6),
        reference_gflops: Some(1.1),
        openblas: Some(OpenBlas {
            gflops: 38.0,
            core: Some("Haswell".into()),
            version: Some("0.3.34".into()),
        }),
        corpus_best_gflops: Some(19.0),
        corpus_best_note: Some("That program was written for vectors of 512 bits.".into()),
        start_gflops: Some(12.5),
        roofline: Some(Roofline {
            threads: 1,
            intensity: Some(21.25),
            roof_gflops: 51.5,
            bound: "compute".into(),
            cached_in: Some("L3".into()),
            ceilings: vec![
                Ceiling {
                    name: "scalar".into(),
                    threads: 1,
                    gflops: 6.5,
                },
                Ceiling {
                    name: "512 bits".into(),
                    threads: 1,
                    gflops: 51.5,
                },
            ],
            bandwidths: vec![Bandwidth {
                name: "memory".into(),
                threads: 1,
                gb_s: 12.5,
            }],
            workloads: Vec::new(),
        }),
        sizes: Some(Sizes {
            timed: "n = 256".into(),
            hidden: "n from 64 to 512, multiples of 64".into(),
        }),
        noise: Some(Noise {
            measurements: 710,
            unconverged: 5,
            deviation: Some(0.0125),
            rounds: 7000,
            outlying: 70,
            disturbed: Some(3),
            waited_seconds: 12.0,
            best_disturbed: Some("core 1 is used 40 % by others".into()),
        }),
        attestation: json!({"cpu": {"model": "EPYC"}, "advice": ["set the governor to performance"]}),
        config_toml: "seed = 1\n".into(),
        commands: vec![Command {
            what: "The same run".into(),
            line: "flopsmith train examples/dgemm.toml".into(),
        }],
    }
}

#[test]
fn a_whole_run_shows_every_part() {
    let page = html(&example());
    let texts = well_formed(&page)
        .unwrap_or_else(|e| panic!("{e}"))
        .join(" ");
    for part in [
        "dgemm 256³",
        "20 steps in 6:41 (6:02 of them in the budget)",
        "37.2×",
        "79.5 %",     // of peak
        "1.08×",      // of OpenBLAS
        "+58 points", // correct rate
        "×7.00",      // mean speed
        "the fastest program tried of the starter model's corpus. That program was written for vectors of 512 bits.",
        "3.28× your program",
        "OpenBLAS 0.3.34 (Haswell)",
        "OpenBLAS 0.3.34: 38.0 GFLOPS",
        "best so far",
        "Speed by first measurements, GFLOPS",
        "step 3 (none), 1:20: mean 5.00, best of the step 14.5",
        "singles: 7 steps, 2:20 to 4:40",
        "7 steps", // why the stage changed
        "simd: 41.0 GFLOPS, 70 of 90 correct",
        "packing: 44.0 GFLOPS, measured once, not confirmed, 2 of 5 correct",
        "no technique: tried 3, none correct",
        "1 more measured once only",
        "3 of 256 (1.2 %)",
        "96.0 GFLOPS", // QD score
        "compiled to vectors of 512 bits",
        "certified/dgemm-1-s17-g0-c3-m1.json",
        "measured once more after the end of the run. Right at 97 of 400 sizes: a program that is wrong at 1 in 20 sizes \
         is found with a probability of 0.99 or more.",
        "its number there differs from the one here",
        "3 measurements made while others were at work on the timed cores; 0:12 without timing",
        "measurements on a busy machine",
        "core 1 is used 40 % by others",
        "n from 64 to 512, multiples of 64, and every program is verified at the timed sizes too",
        "wrong result 500, out of bounds 70",
        "timer: 60 %",
        "set the governor to performance",
        "at most 51.5 GFLOPS, and compute binds",
        "The best program reaches 79.6 % of that",
        "memory 12.5 GB/s",
        "reference 1.10",
        "cpu · model",
        "flopsmith train examples/dgemm.toml",
        "seed = 1",
        "n &lt; ",
    ] {
        assert!(
            texts.contains(part) || page.contains(&format!("title=\"{part}")),
            "`{part}` is missing"
        );
    }
    for id in [
        "result", "speed", "measured", "roofline", "curves", "stages", "archive", "outcomes",
        "time", "best", "machine", "again",
    ] {
        assert_eq!(
            page.matches(&format!("<section id=\"{id}\">")).count(),
            1,
            "{id}"
        );
    }
}

/// The example as a run over a problem with a best program and one without any correct program.
fn many() -> RunReport {
    let best = example().best;
    let step = |step, correct_rate, best_ratio| ProblemStep {
        step,
        correct_rate,
        best_ratio,
    };
    let problems = vec![
        OfProblem {
            problem: "dgemm".into(),
            judged: 64,
            correct: 32,
            coverage: 2,
            best,
            lacks: String::new(),
            page: "problems/dgemm.html".into(),
            steps: vec![step(1, 0.25, Some(3.0)), step(3, 0.5, Some(37.2))],
        },
        OfProblem {
            problem: "dot".into(),
            judged: 64,
            lacks: "none of 64 programs is correct: 60 × <compile_error>".into(),
            page: "problems/dot.html".into(),
            steps: vec![step(2, 0.0, None)],
            ..OfProblem::default()
        },
    ];
    RunReport {
        problems,
        best: None,
        ..example()
    }
}

#[test]
fn a_run_over_many_problems_shows_each_with_the_same_scales() {
    let page = html(&many());
    let texts = well_formed(&page)
        .unwrap_or_else(|e| panic!("{e}"))
        .join(" ");
    for part in [
        "1 of 2",
        "37.2× the plain reference; 32 of 64 correct",
        "none of 64 programs is correct: 60 × &lt;compile_error&gt;",
        "problems/dgemm.html",
        "problems/dot.html",
    ] {
        assert!(texts.contains(part), "`{part}` is missing");
    }
    let section = page.split("<section id=\"problems\">").nth(1);
    let section = section.unwrap_or_default().split("</section>").next();
    let section = section.unwrap_or_default();
    assert_eq!(section.matches("<figure").count(), 2);
    // Both ends of the common scale of ratios.
    assert_eq!(section.matches(">37.2×</text>").count(), 2, "{section}");
    assert_eq!(section.matches(">1.00×</text>").count(), 2, "{section}");
    // One point of each measure, and a line where there are two.
    assert_eq!(section.matches("<path").count(), 2);
    assert!(
        !page.contains("Speed by first measurements"),
        "speeds of different problems"
    );
    assert!(!html(&example()).contains("<section id=\"problems\">"));
}

#[test]
fn numbers_of_problems_that_are_not_finite_break_no_page() {
    let mut report = many();
    report.problems[0].steps = [f64::NAN, f64::INFINITY, -1.0]
        .map(|value| ProblemStep {
            step: u64::MAX,
            correct_rate: value,
            best_ratio: Some(value),
        })
        .to_vec();
    let page = html(&report);
    well_formed(&page).unwrap_or_else(|e| panic!("{e}"));
    assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
}

#[test]
fn an_archive_that_has_the_bests_own_number_explains_no_other() {
    let mut report = example();
    if let Some(best) = &mut report.best {
        // The digest of an artifact: the second measurement, which the archive shows too.
        best.samples = Some("5f".repeat(32));
    }
    let page = html(&report);
    assert!(page.contains("measured again before it counted"));
    assert!(!page.contains("differs from the one here"));
}

#[test]
fn a_run_without_a_step_claims_no_progress() {
    let chance = "differ by chance";
    let mut report = example();
    assert!(!html(&report).contains(chance));
    report.summary.steps = 0;
    assert!(html(&report).contains(chance));
}

#[test]
fn a_run_of_one_step_shows_it() {
    let mut report = example();
    report.steps.truncate(1);
    let page = html(&report);
    well_formed(&page).unwrap_or_else(|e| panic!("{e}"));
    assert!(page.contains("one step only"));
}

#[test]
fn a_step_without_a_converged_measurement_has_no_best_speed() {
    let mut report = example();
    assert!(!html(&report).contains(", best of the step –"));
    report.steps[1].best_gflops = 0.0;
    assert!(html(&report).contains(", best of the step –"));
}

#[test]
fn errors_are_counted_if_there_are_any() {
    let wrong = [
        "infrastructure errors",
        "unreadable lines",
        "no role could process",
    ];
    let mut report = example();
    let page = html(&report);
    assert!(wrong.iter().all(|words| !page.contains(words)));
    report.summary.infrastructure_errors = 4711;
    report.summary.unreadable_outcomes = 4712;
    report.summary.dead_letters = 4713;
    let page = html(&report);
    assert!(wrong.iter().all(|words| page.contains(words)));
    for number in ["4\u{202f}711", "4\u{202f}712", "4\u{202f}713"] {
        assert!(page.contains(number), "{number}");
    }
}

#[test]
fn a_training_by_ppo_shows_how_far_the_policy_has_gone_and_how_well_values_predict() {
    let charts = [
        "Divergence from the first policy",
        "that the values explain",
    ];
    let mut report = example();
    let page = html(&report);
    assert!(charts.iter().all(|chart| !page.contains(chart)));
    for step in &mut report.steps {
        step.ppo = Some(PpoMetrics {
            divergence: 0.5 * step.step as f64,
            divergence_weight: 0.05,
            value_loss: 0.1,
            explained: 0.25,
        });
    }
    let page = html(&report);
    well_formed(&page).unwrap_or_else(|e| panic!("{e}"));
    assert!(charts.iter().all(|chart| page.contains(chart)), "{page}");
}

#[test]
fn a_run_that_did_nothing_yet_still_has_a_page() {
    let page = html(&RunReport {
        title: "empty".into(),
        ..RunReport::default()
    });
    let texts = well_formed(&page)
        .unwrap_or_else(|e| panic!("{e}"))
        .join(" ");
    assert!(texts.contains("not finished"));
    assert!(
        !page.contains("<section"),
        "a part without data is left out"
    );
}

#[test]
fn a_program_cannot_write_into_the_page() {
    let evil = "</code></pre><script>alert(1)</script><img src=x onerror=alert(1)>\" onload=\"x";
    let mut report = example();
    report.title = evil.into();
    report.run = evil.into();
    report.config_toml = evil.into();
    report.stage_changes[0].reason = evil.into();
    report.commands[0].line = evil.into();
    report.attestation = json!({ evil: [evil], "advice": [evil] });
    report.summary.outcomes.insert(evil.into(), 3);
    report.summary.share_of_time.insert(evil.into(), 0.2);
    for step in &mut report.steps {
        step.stage_name = evil.into();
        step.outcomes.insert(evil.into(), 2);
    }
    report.cells[0].source = Some(evil.into());
    if let Some(best) = &mut report.best {
        best.source = evil.into();
        best.samples = Some(evil.into());
    }
    if let Some(noise) = &mut report.noise {
        noise.best_disturbed = Some(evil.into());
    }
    report.sizes = Some(Sizes {
        timed: evil.into(),
        hidden: evil.into(),
    });
    if let Some(openblas) = &mut report.openblas {
        openblas.core = Some(evil.into());
        openblas.version = Some(evil.into());
    }
    if let Some(roofline) = &mut report.roofline {
        roofline.bound = evil.into();
        roofline.cached_in = Some(evil.into());
        roofline.ceilings[0].name = evil.into();
        roofline.bandwidths[0].name = evil.into();
    }
    let page = html(&report);
    well_formed(&page).unwrap_or_else(|e| panic!("{e}"));
    assert!(!page.contains("<script") && !page.contains("<img"));
}

prop_compose! {
    fn any_step()(
        step in prop_oneof![0u64..50, Just(u64::MAX)],
        name in ".{0,12}",
        numbers in prop::collection::vec(prop::num::f64::ANY, 7),
        outcomes in prop::collection::btree_map("(measured|crash|.{0,6})", any::<u64>(), 0..4),
    ) -> StepMetrics {
        StepMetrics {
            step,
            stage_name: name,
            seconds: numbers[0],
            correct_rate: numbers[1],
            mean_gflops: numbers[2],
            best_gflops: numbers[3],
            mean_reward: Some(numbers[4]),
            kl: Some(numbers[5]),
            entropy: Some(numbers[6]),
            ppo: Some(PpoMetrics {
                divergence: numbers[5],
                divergence_weight: numbers[6],
                value_loss: numbers[0],
                explained: numbers[4],
            }),
            outcomes,
            ..StepMetrics::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_data_gives_a_well_formed_page(
        steps in prop::collection::vec(any_step(), 0..12),
        numbers in prop::collection::vec(prop::num::f64::ANY, 10),
        text in any::<String>(),
        bits in prop::collection::vec((any::<u32>(), any::<u64>(), prop::option::of(prop::num::f64::ANY)), 0..12),
    ) {
        let interval = Interval { low: numbers[0], high: numbers[1], confidence: numbers[2] };
        let report = RunReport {
            title: text.clone(),
            steps,
            cells: bits.iter().map(|(b, n, g)| CellRow {
                techniques: TechniqueSet::of_bits(*b),
                tried: *n,
                correct: *n,
                best_gflops: *g,
                unconfirmed_gflops: g.map(|g| -g),
                interval: Some(interval),
                vector_bits: Some(*b),
                source: Some(text.clone()),
            }).collect(),
            archive: Some(ArchiveStats {
                coverage: numbers[0],
                qd_score: numbers[1],
                norm_qd_score: numbers[2],
                objective_max: Some(numbers[3]),
                objective_mean: Some(numbers[4]),
                ..ArchiveStats::default()
            }),
            best: Some(Best {
                gflops: numbers[3],
                ratio: numbers[4],
                interval,
                techniques: TechniqueSet::EMPTY,
                vector_bits: Some(1),
                step: None,
                measured_again: false,
                samples: Some(text.clone()),
                source: text.clone(),
                workloads: workloads(&text, &numbers, interval),
                sizes: Some(VerifiedSizes { probability: Some(numbers[0]), ..VerifiedSizes::of(1, 2, 1) }),
                call: Some(Clock { call: numbers[0], minimum: Some(numbers[1]), median: None, spread: numbers[2] }),
                gb_per_second: Some(numbers[3]),
            }),
            peak_gflops: Some(numbers[5]),
            reference_gflops: Some(numbers[6]),
            openblas: Some(OpenBlas { gflops: numbers[7], core: Some(text.clone()), version: Some(text.clone()) }),
            corpus_best_gflops: Some(numbers[8]),
            corpus_best_note: Some(text.clone()),
            start_gflops: Some(numbers[8]),
            roofline: Some(Roofline {
                threads: 1,
                intensity: Some(numbers[0]),
                roof_gflops: numbers[1],
                bound: text.clone(),
                cached_in: Some(text.clone()),
                ceilings: numbers.iter().map(|n| Ceiling { name: text.clone(), threads: 1, gflops: *n }).collect(),
                bandwidths: numbers.iter().map(|n| Bandwidth { name: text.clone(), threads: 1, gb_s: n.abs() }).collect(),
                workloads: numbers.iter().map(|n| WorkloadRoof {
                    name: text.clone(),
                    intensity: Some(*n),
                    roof_gflops: *n,
                    bound: text.clone(),
                    best_gflops: Some(*n),
                }).collect(),
            }),
            sizes: Some(Sizes { timed: text.clone(), hidden: text.clone() }),
            noise: Some(Noise {
                deviation: Some(numbers[2]),
                disturbed: Some(3),
                waited_seconds: numbers[3],
                best_disturbed: Some(text.clone()),
                ..Noise::default()
            }),
            attestation: json!({ "cpu_model": text.clone() }),
            summary: Summary {
                seconds: numbers[9],
                start: Some(Moment { correct_rate: numbers[0], mean_gflops: numbers[1], ..Moment::default() }),
                end: Some(Moment { correct_rate: numbers[2], mean_gflops: numbers[3], ..Moment::default() }),
                share_of_time: BTreeMap::from([(text.clone(), numbers[4]), ("idle".to_owned(), numbers[5])]),
                ..Summary::default()
            },
            ..RunReport::default()
        };
        if let Err(problem) = well_formed(&html(&report)) {
            return Err(TestCaseError::fail(problem));
        }
    }
}

#[test]
fn an_interval_that_says_little_is_called_so() {
    let mut report = example();
    let said = "to 100, measured too briefly to say more";
    assert!(!html(&report).contains(said));
    if let Some(best) = &mut report.best {
        best.interval.high = 100.0;
    }
    assert!(html(&report).contains(said));
}
