//! Compares the shipped starter model with its recipe.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use flopsmith_generator::schedule::Index;
use flopsmith_policy::inspect;
use flopsmith_problem::Problem;
use serde_json::Value;

use super::*;

/// The model is part of the repository and is trained on two cores.
const MOST_WEIGHTS: i64 = 5_000_000;
const MOST_BYTES: u64 = 20_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn starter() -> PathBuf {
    root().join("models/starter")
}

fn recipe() -> Recipe {
    let text = std::fs::read_to_string(starter().join("recipe.toml")).unwrap();
    flopsmith_config::read(&text, "recipe.toml").unwrap()
}

fn evaluation() -> Evaluation {
    let text = std::fs::read(starter().join("evaluation.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Number of weights in a file, from the shapes in its header. The header is JSON after eight bytes with its length.
fn weights_in(file: &Path) -> i64 {
    let bytes = std::fs::read(file).unwrap();
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap());
    let header = &rest[..usize::try_from(length).unwrap()];
    let tensors: BTreeMap<String, Value> = serde_json::from_slice(header).unwrap();
    tensors
        .iter()
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(_, tensor)| {
            let shape: Vec<i64> = serde_json::from_value(tensor["shape"].clone()).unwrap();
            shape.iter().product::<i64>()
        })
        .sum()
}

#[test]
fn the_starter_was_made_from_the_recipe_beside_it() {
    let (recipe, evaluation) = (recipe(), evaluation());
    assert!(Space::of(&recipe.problem).is_some());
    assert_eq!(recipe.sft.steps, Some(evaluation.training.steps));
    assert!(!evaluation.training.stopped);
    let examples = recipe.corpus.examples + recipe.validation;
    assert_eq!(evaluation.examples, examples);
    assert_eq!(evaluation.held_out, recipe.corpus.hold_out);
    assert_eq!(evaluation.samples, recipe.evaluate_samples);
    let right = evaluation.correct_rate.unwrap();
    assert!(right > 0.5 && right <= 1.0, "{right}");
    assert!(evaluation.corpus_best_gflops.unwrap() > 0.0);
    let shape = inspect(&starter()).unwrap().config;
    let made = matches!(
        recipe.model,
        Start::Random { hidden_size, intermediate_size, num_hidden_layers, .. }
            if (hidden_size, intermediate_size, num_hidden_layers)
                == (shape.hidden_size, shape.intermediate_size, shape.num_hidden_layers)
    );
    assert!(made, "{:?} gives no {shape:?}", recipe.model);
}

#[test]
fn samples_that_the_machine_failed_to_measure_are_not_wrong() {
    let mut evaluation = evaluation();
    (evaluation.samples, evaluation.unmeasured) = (4, 2);
    evaluation.set_means(1, 3.0);
    assert_eq!(evaluation.correct_rate, Some(0.5));
    assert_eq!(evaluation.mean_gflops, Some(1.5));
    evaluation.unmeasured = 4;
    evaluation.set_means(0, 0.0);
    assert_eq!(evaluation.correct_rate, None);
    assert_eq!(evaluation.mean_gflops, None);
}

#[test]
fn the_starters_evaluation_is_of_the_weights_beside_it() {
    let weights = std::fs::read(starter().join("model.safetensors")).unwrap();
    assert_eq!(evaluation().model, Some(Digest::of(&weights)));
}

#[test]
fn the_starters_recipe_names_all_that_it_holds_out() {
    let text = std::fs::read_to_string(starter().join("recipe.toml")).unwrap();
    let written: toml::Table = text.parse().unwrap();
    let corpus = written["corpus"].as_table().unwrap();
    for key in ["techniques", "hold_out", "largest_tile", "dividing_tiles"] {
        assert!(corpus.contains_key(key), "{key} is left to its default");
    }
}

#[test]
fn shares_of_a_corpus_lie_between_0_and_1() {
    let corpus = recipe().corpus;
    shares(&corpus).unwrap();
    // The weights beside the recipe have read no program to improve.
    assert_eq!(corpus.improve_share, 0.0);
    let improve = CorpusConfig {
        improve_share: 1.5,
        ..corpus.clone()
    };
    let exact = CorpusConfig {
        exact_prompts: -0.5,
        ..corpus
    };
    for (corpus, setting) in [(improve, "`improve_share`"), (exact, "`exact_prompts`")] {
        let error = shares(&corpus).unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        assert!(error.to_string().contains(setting), "{error:#}");
    }
}

#[test]
fn a_corpus_that_comes_out_short_is_wrong_usage() {
    let mut recipe = recipe();
    recipe.corpus.examples = 30;
    recipe.validation = 5;
    enough(35, &recipe).unwrap();
    // If even the program without any technique is held out, no program may be shown.
    recipe.corpus.hold_out = vec![flopsmith_protocol::TechniqueSet::EMPTY];
    let space = Space::of(&recipe.problem).unwrap();
    let examples = corpus::build(&space, recipe.seed, &recipe.corpus);
    assert!(examples.is_empty());
    let error = enough(examples.len(), &recipe).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    let said = error.to_string();
    for words in [
        "30 examples to train on and 5 to validate on",
        "has 0",
        "`hold_out`",
    ] {
        assert!(said.contains(words), "{said}");
    }
    enough(34, &recipe).unwrap_err();
}

#[test]
fn the_starter_is_small_and_loads() {
    let weights = weights_in(&starter().join("model.safetensors"));
    assert!(weights <= MOST_WEIGHTS, "{weights} weights");
    assert_eq!(weights, evaluation().parameters);
    let found = inspect(&starter()).unwrap();
    assert_eq!(found.parameters, weights);
    assert!(found.loads.is_ok() && found.tokenizer.is_ok(), "{found:?}");
    let bytes: u64 = std::fs::read_dir(starter())
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes <= MOST_BYTES, "{bytes} bytes");
}

/// Checked by the schedule, and by the techniques that the detector finds: outcomes of runs are labelled by the
/// detector.
#[test]
fn the_best_program_the_starter_was_shown_uses_nothing_that_was_held_out() {
    let recipe = recipe();
    assert!(!recipe.corpus.hold_out.is_empty());
    let source = std::fs::read_to_string(starter().join("corpus_best.c")).unwrap();
    let space = Space::of(&recipe.problem).unwrap();
    let schedule = Index::new(&space).schedule(&source).unwrap();
    assert!(recipe.corpus.shows_program(&schedule), "{schedule:?}");

    let folder = root().join("problems").join(&recipe.problem);
    let problem = Arc::new(Problem::load(&folder).unwrap());
    let evaluator = flopsmith_run::evaluator::open(Arc::clone(&problem), "gcc", true).unwrap();
    let seen = evaluator.compiler.techniques(&problem, &source).unwrap();
    assert_eq!(seen, schedule.techniques());
    for held_out in &recipe.corpus.hold_out {
        assert!(!held_out.is_subset(seen), "{held_out} is in {seen}");
    }
}
