#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use proptest::prelude::*;

fn again(gflops: f64) -> Best {
    Best {
        gflops,
        certainty: "measured again".into(),
    }
}

fn some() -> Live {
    Live {
        step: 12,
        purpose: "training".into(),
        stage: 2,
        stage_name: "pairs".into(),
        permitted: vec![
            "simd+unroll".parse().unwrap(),
            "packing+simd".parse().unwrap(),
            TechniqueSet::EMPTY,
        ],
        outcomes: (40, 64),
        last_step: 11,
        samples: 64,
        so_far: Some(SoFar {
            best: Some(again(38.5)),
            cells: 13,
            solved: None,
        }),
        last_purpose: "training".into(),
        last_stage: 2,
        last_stage_name: "pairs".into(),
        correct_rate: 0.81,
        mean_gflops: 12.4,
        refused: vec![("compile_error".into(), 9), ("wrong_result".into(), 3)],
        refused_example: "x.c:3:1: error: expected `;`\n  3 | }".into(),
        best: Some(again(41.2)),
        best_techniques: Some("register_blocking+simd".parse().unwrap()),
        worst: None,
        solved: None,
        peak_gflops: Some(51.6),
        cells: 14,
        total_outcomes: 1234,
        infrastructure_errors: 0,
        shares: vec![
            ("generator".into(), 0.3),
            ("timer".into(), 0.4),
            ("learner".into(), 0.25),
        ],
        idle: 0.05,
        quarantine_seconds: 0.0,
        disturbed: 0,
        endpoint: String::new(),
        trouble: String::new(),
        elapsed_seconds: 228.0,
        budget_seconds: 600.0,
    }
}

#[test]
fn the_worst_workload_of_the_best_program_is_named() {
    let live = Live {
        worst: Some(("n=1024".into(), 31.25)),
        ..some()
    };
    let text = frame(&live, 140).join("\n");
    let words = "41.20 GFLOPS (measured again) · 79.8 % of peak · register_blocking+simd · mean of workloads, worst n=1024 31.25×";
    assert!(text.contains(words), "{text}");
}

#[test]
fn a_run_over_many_problems_says_how_many_are_solved_and_no_speed() {
    let live = Live {
        solved: Some((4, 8)),
        so_far: Some(SoFar {
            best: None,
            cells: 9,
            solved: Some((3, 8)),
        }),
        best: None,
        stage_name: String::new(),
        ..some()
    };
    let text = frame(&live, 140).join("\n");
    assert!(text.contains("4 of 8 problems solved"), "{text}");
    let said = line(&live);
    assert!(said.contains(" · 3 of 8 problems solved · "), "{said}");
    assert!(
        !text.contains("GFLOPS") && !said.contains("GFLOPS"),
        "{text}\n{said}"
    );
}

#[test]
fn says_what_is_asked_of_it() {
    let text = frame(&some(), 120).join("\n");
    for part in [
        "12 · training · stage 2 pairs · 40/64 outcomes",
        "unroll+simd, packing+simd, none",
        "correct 81 % · mean 12.40 GFLOPS",
        "41.20 GFLOPS (measured again) · 79.8 % of peak · register_blocking+simd",
        "14 technique sets confirmed",
        "timer 40 %, generator 30 %, learner 25 %, idle 5.0 %",
        "6:12 (3:48 of 10:00)",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    // The line is about the moment when the step was over.
    let expected = "step 11 · training · stage 2 pairs · correct 81 % of 64 programs · mean 12.40 GFLOPS · best so far 38.50 GFLOPS (measured again) · 13 technique sets confirmed · 3:48 of the 10:00 budget";
    assert_eq!(line(&some()), expected);
    let without_state = Live {
        so_far: None,
        budget_seconds: 0.0,
        ..some()
    };
    let said = line(&without_state);
    assert!(said.ends_with(" · mean 12.40 GFLOPS"), "{said}");
}

#[test]
fn a_line_is_about_the_last_step_also_where_the_newest_is_for_something_else() {
    let resumed = Live {
        last_step: 0,
        last_purpose: "evaluation before".into(),
        last_stage: 0,
        last_stage_name: "none".into(),
        ..some()
    };
    let said = line(&resumed);
    assert!(
        said.starts_with("step 0 · evaluation before · stage 0 none · correct"),
        "{said}"
    );
}

#[test]
fn a_run_over_budget_shows_its_remaining_work() {
    let over = |purpose: &str, outcomes| {
        let live = Live {
            purpose: purpose.into(),
            outcomes,
            elapsed_seconds: 612.0,
            ..some()
        };
        frame(&live, 80).pop().unwrap()
    };
    for (purpose, outcomes, words) in [
        ("training", (40, 64), "finishing: the last training step"),
        (
            "evaluation after",
            (3, 64),
            "finishing: evaluating the trained model",
        ),
        (
            "search",
            (64, 64),
            "finishing: measuring the best once more",
        ),
    ] {
        let line = over(purpose, outcomes);
        assert!(line.contains(words), "{line}");
        assert!(line.ends_with("(10:12 of 10:00)"), "{line}");
    }
}

#[test]
fn reasons_of_refusals_are_shown_without_control_characters() {
    let text = frame(&some(), 120).join("\n");
    let said =
        "refused   compile_error 9, wrong_result 3 · e.g. x.c:3:1: error: expected `;` 3 | }";
    assert!(text.contains(said), "{text}");
    // A run with mostly correct programs needs no explanation in a log.
    assert!(!line(&some()).contains("refused"));
    assert_eq!(refusal(&some()), None);
    let poor = Live {
        correct_rate: 0.0,
        refused: vec![("format".into(), 64)],
        refused_example: "no program was found (12 bytes):\n\x1b[2J\u{202e}I am\r\nsorry".into(),
        ..some()
    };
    assert!(
        line(&poor).ends_with(" · refused: format 64"),
        "{}",
        line(&poor)
    );
    let said = refusal(&poor).unwrap();
    assert_eq!(
        said,
        "  format, for example: no program was found (12 bytes): [2J\u{fffd}I am sorry"
    );
    for text in frame(&poor, 100).into_iter().chain([said]) {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn waiting_for_quiet_is_said_where_there_was_any() {
    assert!(!archive(&some()).contains("quiet"));
    let live = Live {
        quarantine_seconds: 42.0,
        ..some()
    };
    let said = archive(&live);
    assert!(said.ends_with(" · waited 0:42 for quiet"), "{said}");
}

#[test]
fn one_is_no_plural() {
    let live = Live {
        cells: 1,
        total_outcomes: 1,
        infrastructure_errors: 1,
        ..some()
    };
    assert_eq!(
        archive(&live),
        "1 technique set confirmed · 1 outcome · 1 infrastructure error"
    );
    let so_far = SoFar {
        cells: 1,
        ..SoFar::default()
    };
    let said = line(&Live {
        so_far: Some(so_far),
        ..live
    });
    assert!(
        said.contains("· no verified program so far · 1 technique set confirmed ·"),
        "{said}"
    );
}

#[test]
fn programs_that_were_timed_on_a_busy_machine_are_counted_where_there_were_any() {
    assert!(!archive(&some()).contains("busy"));
    let live = Live {
        disturbed: 3,
        ..some()
    };
    let said = archive(&live);
    assert!(
        said.ends_with(" · 3 timed on a busy machine (flopsmith.log)"),
        "{said}"
    );
}

#[test]
fn the_bar_shows_each_share() {
    let text = shares(&some(), 123);
    let bar = text.split(['[', ']']).nth(1).unwrap();
    let letters = |c: char| bar.chars().filter(|b| *b == c).count();
    assert_eq!(
        (letters('t'), letters('g'), letters('l'), letters('.')),
        (16, 12, 10, 2),
        "{bar}"
    );
}

#[test]
fn a_narrow_terminal_has_shorter_lines_and_not_cut_ones() {
    for width in 38..90 {
        let frame = frame(&some(), width);
        let time = &frame[6];
        assert!(time.contains("timer 40 %"), "{width}: {time}");
        assert!(!time.contains('…'), "{width}: {time}");
        let left = &frame[7];
        assert!(left.ends_with("6:12 (3:48 of 10:00)"), "{width}: {left}");
    }
    let of = |width| frame(&some(), width).swap_remove(6);
    assert_eq!(of(38), "  time      timer 40 % and 3 more");
    assert_eq!(
        of(66),
        "  time      timer 40 %, generator 30 %, learner 25 %, idle 5.0 %"
    );
    assert!(of(79).contains("[t"), "{}", of(79));
}

#[test]
fn names_how_many_sets_did_not_fit() {
    let sets: Vec<TechniqueSet> = TechniqueSet::all().subsets_of_size(2);
    let text = permitted(&sets, 70);
    assert!(text.chars().count() <= 70, "{text}");
    let shown = text.split(" and ").next().unwrap().split(", ").count();
    assert!(
        text.ends_with(&format!("and {} more", sets.len() - shown)),
        "{text}"
    );
}

#[test]
fn a_run_with_an_endpoint_has_a_line_for_its_requests() {
    let mut live = Live {
        endpoint: "7 requests, cost 0.12".into(),
        ..some()
    };
    let shown = frame(&live, 120);
    assert_eq!(shown.len(), 9);
    assert_eq!(shown[8], "  endpoint  7 requests, cost 0.12");
    assert!(line(&live).ends_with(" · 7 requests, cost 0.12"));
    live.trouble = "the server cannot be reached".into();
    let last = frame(&live, 120).pop().unwrap();
    assert_eq!(
        last,
        "  endpoint  the server cannot be reached · 7 requests, cost 0.12"
    );
}

proptest! {
    #[test]
    fn any_state_fits_any_terminal(
        numbers in prop::collection::vec(prop::num::f64::ANY, 6),
        sets in prop::collection::vec(any::<u32>(), 0..40),
        outcomes in any::<(u32, u32)>(),
        width in 0usize..200,
    ) {
        let live = Live {
            correct_rate: numbers[0],
            mean_gflops: numbers[1],
            best: Some(again(numbers[2])),
            worst: Some(("é".into(), numbers[1])),
            peak_gflops: Some(numbers[3]),
            shares: vec![("timer".into(), numbers[4]), ("é".into(), numbers[5])],
            quarantine_seconds: numbers[5],
            elapsed_seconds: numbers[4],
            budget_seconds: numbers[5],
            permitted: sets.iter().map(|bits| TechniqueSet::of_bits(*bits)).collect(),
            outcomes,
            ..some()
        };
        let frame = frame(&live, width);
        prop_assert_eq!(frame.len(), 8);
        for text in frame {
            prop_assert!(text.chars().count() <= width.saturating_sub(1).max(1));
            prop_assert!(!text.contains('\n'));
        }
    }
}
