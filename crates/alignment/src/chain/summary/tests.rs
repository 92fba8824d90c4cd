use super::*;

fn set(task: &str, problems: &str) -> Set {
    let estimate = |value: f64| {
        Some(Estimate {
            value,
            low: value - 0.25,
            high: value + 0.25,
        })
    };
    let row = |model: &str, speedup: f64| Row {
        model: model.into(),
        answers: 40,
        correct: if speedup > 0.0 { 30 } else { 0 },
        unmeasured: 0,
        build: estimate(0.875),
        pass: estimate(0.75),
        speedup: estimate(speedup),
        fast: estimate(0.5),
        geometric_mean: None,
    };
    let verdict = |a: &str, b: &str, difference: f64, real| Verdict {
        a: a.into(),
        b: b.into(),
        metric: "speedup_n@1".into(),
        threads: 1,
        difference,
        low: difference - 0.25,
        high: difference + 0.25,
        chance: if real { 0.0 } else { 0.75 },
        real,
    };
    Set {
        task: task.into(),
        problems: problems.into(),
        names: vec!["dot".into(), "axpy".into()],
        rows: MODELS
            .iter()
            .zip([0.0, 2.0, 3.0, 4.5])
            .map(|(m, s)| row(m, s))
            .collect(),
        verdicts: vec![
            verdict("base", "sft", 2.0, true),
            verdict("dpa", "rlpf", -0.5, true),
            verdict("sft", "dpa", 0.125, false),
        ],
        troubles: BTreeMap::from([("axpy".to_owned(), "no memory".to_owned())]),
    }
}

fn summary() -> Summary {
    let place = tempfile::tempdir().unwrap();
    let folder = |stage: Stage, report: Value| {
        let path = place.path().join(stage.name());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("training.json"), report.to_string()).unwrap();
        (stage, path)
    };
    let trained = [
        folder(
            Stage::Sft,
            serde_json::json!({ "training": { "perplexity": 1.62 } }),
        ),
        folder(
            Stage::RewardModel,
            serde_json::json!({ "validation": { "accuracy": 0.93 } }),
        ),
        // A training without validation pairs.
        folder(Stage::Dpa, serde_json::json!({ "validation": null })),
        folder(
            Stage::Rlpf,
            serde_json::json!({
                "first_score": 0.25, "last_score": 1.8, "last_kl": 0.29,
                "validation_before": { "mean": -1.0 }, "validation": { "mean": 0.5 },
            }),
        ),
    ];
    let sets = vec![set("write", "training"), set("optimise", "held_out")];
    Summary::of(sets, &trained).unwrap()
}

#[test]
fn the_table_has_every_model_and_says_which_differences_are_real() {
    let text = summary().lines().join("\n");
    for part in [
        "Write from the description, 2 training problems",
        "Optimise the reference, 2 held-out problems",
        "sft is faster than base: speedup@1 2.00 more",
        "rlpf is slower than dpa: speedup@1 0.500 less",
        "dpa and sft are not told apart",
        "base: no answer is correct",
        "axpy: nothing could be evaluated: no memory",
        "sft: perplexity 1.62",
        "reward model: 93.0 % of validation pairs",
        "mean score 0.250 in the first steps, 1.80 in the last",
        "validation exercises -1.00 before, 0.500 after",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    for model in MODELS {
        let rows = text
            .lines()
            .filter(|line| line.trim_start().starts_with(model) && line.contains(" 40 "));
        assert_eq!(rows.count(), 2, "{model} in\n{text}");
    }
    assert_eq!(text.matches("validation pairs").count(), 1, "{text}");
}

#[test]
fn a_summary_is_read_as_it_was_written_and_has_a_page() {
    let place = tempfile::tempdir().unwrap();
    let inside = place.path().join("evaluation");
    std::fs::create_dir(&inside).unwrap();
    let written = summary();
    written.write(&inside, place.path()).unwrap();
    assert_eq!(Summary::read(&inside).unwrap(), written);
    let page = std::fs::read_to_string(place.path().join(HTML)).unwrap();
    assert!(page.contains("rlpf, optimise, held-out: 4.50×"), "{page}");
    let tables = std::fs::read_to_string(place.path().join(MARKDOWN)).unwrap();
    assert!(tables.contains("| rlpf |"), "{tables}");
    assert!(Summary::read(place.path()).is_err());
}
