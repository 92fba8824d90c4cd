//! `flopsmith align`: the chain from programs to the comparison of four models.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::{assert_keys, assert_rows, flopsmith, last_object, objects, run};

fn align(place: &Path, recipe: &str, more: &[&str]) -> Output {
    let file = place.join("recipe.toml");
    std::fs::write(&file, recipe).unwrap();
    let mut command = flopsmith();
    command.arg("align").arg(&file);
    command.arg("--output").arg(place.join("out")).args(more);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn mistakes_are_found_before_the_first_stage() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let good = "model = \"models/starter\"\nproblems = [\"dgemm\"]\nhold_out = [\"dot\"]\n[rlpf]\nsteps = 1\n";
    let refused = |recipe: &str, more: &[&str]| {
        let output = align(place, recipe, more);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        said(&output)
    };
    for (from, to, words) in [
        ("\"dgemm\"", "\"dgemn\"", "`problems` names `dgemn`"),
        ("\"dot\"", "\"dgemm\"", "on which the recipe trains"),
        ("\"dot\"", "\"dott\"", "`hold_out` names `dott`"),
        ("models/starter", "models/nobody", "models/nobody"),
        ("models/starter", "docs", "cannot be used"),
        ("steps = 1", "steps = 0", "`steps` is 0"),
        ("steps = 1", "stops = 1", "stops"),
        ("[rlpf]", "suite = \"polybench\"\n[rlpf]", "both set"),
        (
            "steps = 1",
            "steps = 1\nmax_tokens = 2000",
            "1024 positions for both together",
        ),
        (
            "[rlpf]",
            "[programs]\nfiles = [\"none.jsonl\"]\n[rlpf]",
            "none.jsonl",
        ),
    ] {
        let text = refused(&good.replace(from, to), &[]);
        assert!(text.contains(words), "{words:?} in {text}");
    }
    assert!(!place.join("out").exists());
    let text = refused(good, &["--resume"]);
    assert!(text.contains("nothing to resume"), "{text}");
    std::fs::write(place.join("out"), "a file").unwrap();
    let text = refused(good, &[]);
    assert!(text.contains("cannot write"), "{text}");
}

/// The stages that a command worked on, as it said on stderr.
fn worked_on(output: &Output) -> Vec<String> {
    let text = said(output);
    let done = text.lines().filter_map(|line| {
        let (stage, words) = line
            .strip_prefix('[')?
            .split_once("] ")?
            .1
            .split_once(": ")?;
        words.starts_with("done in ").then(|| stage.to_owned())
    });
    done.collect()
}

#[test]
#[ignore = "takes a minute or more: make long"]
fn one_recipe_leads_from_programs_to_four_compared_models() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let second = place.join("second");
    let made = run(&["problem", "new", second.to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let recipe = format!(
        "model = \"models/starter\"\nproblems = [\"dgemm\"]\nhold_out = [\"{}\"]\nseed = 3\n\
         [programs]\ndraw = 30\n[split]\nimprove = 1\n\
         [sft]\nlearning_rate = 1e-5\nsteps = 1\nbatch_tokens = 1024\n\
         [reward_model]\nlearning_rate = 1e-3\nsteps = 3\nbatch = 4\n\
         [dpa]\nlearning_rate = 1e-5\nsteps = 2\n\
         [rlpf]\nsteps = 1\nprompts = 1\nsamples = 4\nturns = 2\nmax_tokens = 300\n[rlpf.ppo]\nlearning_rate = 1e-5\nepochs = 1\n\
         [evaluate]\nsamples = 2\nmax_tokens = 300\ntasks = [\"write\"]\n",
        second.display()
    );
    let output = align(place, &recipe, &["--format", "json"]);
    // Of four answers of the reinforcement perhaps none is correct.
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(1), "{}", said(&output));
    let stages = [
        "programs",
        "split",
        "sft",
        "reward_model",
        "dpa",
        "rlpf",
        "evaluation",
    ];
    assert_eq!(worked_on(&output), stages, "{}", said(&output));
    let out = place.join("out");
    let programs = objects(&out.join("programs/programs.jsonl"));
    assert!(programs.len() > 25, "{}", programs.len());
    let references = programs.iter().filter(|p| p["origin"] == "reference");
    assert_eq!(references.count(), 1);
    let asked = objects(&out.join("split/rl.jsonl"));
    let kinds: Vec<&Value> = asked.iter().map(|exercise| &exercise["kind"]).collect();
    assert_eq!(kinds, ["solve", "improve"]);
    // Exercises that were kept out of the reinforcement are answered before and after it.
    let kept = objects(&out.join("split/rl_evaluation.jsonl")).len() as u64;
    let trained = std::fs::read(out.join("rlpf/training.json")).unwrap();
    let trained: Value = serde_json::from_slice(&trained).unwrap();
    for when in ["validation_before", "validation"] {
        let answers = trained[when]["answers"].as_u64().unwrap_or(0);
        // Four answers to each.
        assert!(answers <= 4 * kept, "{when}: {trained}");
        assert_eq!(answers > 0, kept > 0, "{when}: {trained}");
    }
    let compared = last_object(&output);
    let sets = compared["sets"].as_array().unwrap();
    let names: Vec<&Value> = sets.iter().map(|set| &set["problems"]).collect();
    assert_eq!(names, ["training", "held_out"]);
    assert_keys(&compared, "sets trainings", "");
    assert_rows(
        &compared["sets"],
        "task problems names rows verdicts troubles",
    );
    for set in sets {
        assert_rows(
            &set["rows"],
            "model answers correct unmeasured build pass speedup fast geometric_mean",
        );
        let rows = set["rows"].as_array().unwrap();
        let models: Vec<&Value> = rows.iter().map(|row| &row["model"]).collect();
        assert_eq!(models, ["base", "sft", "dpa", "rlpf"]);
        assert!(rows.iter().all(|row| row["answers"] == 2), "{set}");
    }
    for file in [
        "comparison.html",
        "comparison.md",
        "rlpf/recipe.toml",
        "evaluation/write-training/figures/speedup.svg",
        "evaluation/write-held_out/eval.html",
    ] {
        assert!(out.join(file).is_file(), "{file}");
    }

    // Nothing is left to do, and a changed setting repeats its stage and the evaluation.
    let again = align(place, &recipe, &["--resume"]);
    assert_eq!(again.status.code(), code, "{}", said(&again));
    assert!(worked_on(&again).is_empty(), "{}", said(&again));
    let table = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(
        table.contains("held-out") && table.contains("rlpf"),
        "{table}"
    );
    let refused = align(place, &recipe, &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let other = recipe.replace("[dpa]\n", "[dpa]\nbeta = 0.5\n");
    let changed = align(place, &other, &["--resume"]);
    assert_eq!(changed.status.code(), code, "{}", said(&changed));
    assert_eq!(worked_on(&changed), ["dpa", "evaluation"]);
}

#[test]
#[ignore = "takes half a minute or more: make long"]
fn programs_of_several_problems_are_measured_by_one_command() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("programs.jsonl");
    let drawn = run(&[
        "dataset",
        "schedules",
        "--problem",
        "dsyrk",
        "--examples",
        "2",
    ]);
    assert_eq!(drawn.status.code(), Some(0), "{}", said(&drawn));
    let corpus = run(&["dataset", "schedules", "--examples", "2"]);
    std::fs::write(&file, [drawn.stdout, corpus.stdout].concat()).unwrap();
    let measured = run(&[
        "dataset",
        "measure",
        file.to_str().unwrap(),
        "--permit",
        "all",
        "--references",
    ]);
    assert_eq!(measured.status.code(), Some(0), "{}", said(&measured));
    let lines: Vec<Value> = String::from_utf8_lossy(&measured.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for problem in ["dgemm", "dsyrk"] {
        let own: Vec<&Value> = lines.iter().filter(|l| l["problem"] == problem).collect();
        assert!(own.len() >= 2, "{problem}: {lines:?}");
        assert!(own.iter().all(|l| l["prompt"] == own[0]["prompt"]));
        let reference = own.iter().find(|l| l["origin"] == "reference").unwrap();
        assert_eq!(reference["correct"], true, "{reference}");
    }
    // Without a prompt there must be a permission that makes one.
    std::fs::write(&file, "{\"program\": \"int x;\"}\n").unwrap();
    let refused = run(&["dataset", "measure", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("--permit"), "{}", said(&refused));
}

#[test]
fn a_recipe_is_checked_without_a_chain() {
    let check = ["config", "check", "examples/performance-alignment.toml"];
    let output = run(&check);
    let words = said(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(
        words.contains("is a recipe of `flopsmith align`"),
        "{words}"
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("draw = 150"), "{printed}");
    let again: flopsmith_config::Alignment = toml::from_str(&printed).unwrap();
    assert_eq!(again.hold_out, ["stencil3d", "conv2d"]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("recipe.toml");
    let wrong = "model = \"models/starter\"\nproblems = [\"dgemn\"]\n[rlpf]\nsteps = 1\n";
    std::fs::write(&file, wrong).unwrap();
    let output = run(&["config", "check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("dgemn"), "{}", said(&output));
}
