#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::*;
use crate::REPORT;

/// The model is trained on two cores.
const MOST_WEIGHTS: i64 = 6_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text() -> String {
    std::fs::read_to_string(root().join("models/nests/recipe.toml")).unwrap()
}

fn recipe() -> Recipe {
    assert!(crate::has(&text(), "nests"));
    flopsmith_config::read(&text(), "recipe.toml").unwrap()
}

/// A corpus as the recipe's, of fewer examples.
fn corpus(examples: usize) -> Corpus {
    let recipe = recipe();
    let config = Config {
        examples,
        ..recipe.nests
    };
    let shown = problems(&config.problems).unwrap();
    let held_out = problems(&config.hold_out).unwrap();
    Corpus::new(config, recipe.seed, shown, &held_out).unwrap()
}

#[test]
fn the_recipe_gives_a_small_model_and_holds_out_eight_problems() {
    let recipe = recipe();
    let Start::Random {
        vocab_size,
        hidden_size,
        intermediate_size,
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads,
    } = recipe.model
    else {
        unreachable!("it begins with random weights");
    };
    let head = hidden_size / num_attention_heads;
    let attention = 2 * hidden_size * (hidden_size + head * num_key_value_heads);
    let block = attention + 3 * hidden_size * intermediate_size;
    let weights = i64::try_from(vocab_size).unwrap() * hidden_size + num_hidden_layers * block;
    assert!(weights < MOST_WEIGHTS, "{weights}");
    let of = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
    let (held_out, shown) = (of(&recipe.nests.hold_out), of(&recipe.nests.problems));
    assert!(held_out.len() >= 8 && held_out.is_disjoint(&shown));
    assert!(recipe.evaluate_nests > 0 && recipe.evaluate_samples > 0);
    // The run that trains the model further holds out the same problems, and trains on twelve others or more.
    let example = root().join("examples/train-suite.toml");
    let settings = flopsmith_config::load(&example, &[]).unwrap();
    assert_eq!(of(&settings.hold_out), held_out);
    assert!(settings.problems.len() >= 12 && of(&settings.problems).is_disjoint(&held_out));
    assert!(settings.random > 0);
    // The largest of three sizes of dgemm would take most of the time.
    assert_eq!(settings.workloads, ["first"]);
}

/// The examples are those of the nests in the order of their numbers, whatever the number of threads.
#[test]
fn all_cores_make_the_corpus_that_one_core_makes() {
    let corpus = corpus(40);
    let nests = (0..).map(|n| corpus.of_nest(n).unwrap_or_default());
    let one: Vec<Example> = nests.flatten().take(40).collect();
    assert_eq!(made(&corpus, 40).unwrap().examples, one);
}

/// The finished model answers nests whose forms it has never read, under no names and at no sizes.
#[test]
fn evaluated_nests_are_left_out_of_the_corpus() {
    let recipe = recipe();
    let nests = fresh(&recipe, &[]).unwrap();
    let form = |problem: &Problem| canonical(&program_of(problem).unwrap());
    // A nest that the corpus shows by a problem's name is not evaluated.
    let others = fresh(&recipe, &nests[..1]).unwrap();
    assert_eq!(others.len(), nests.len());
    assert_eq!(nests.len(), recipe.evaluate_nests as usize);
    assert!(others.iter().all(|nest| form(nest) != form(&nests[0])));
    let config = Config {
        problems: Vec::new(),
        ..recipe.nests
    };
    let of = |held_out: &[Problem]| {
        let corpus = Corpus::new(config.clone(), recipe.seed, Vec::new(), held_out).unwrap();
        made(&corpus, 120).unwrap()
    };
    let (free, without) = (of(&[]), of(&nests));
    assert_eq!((free.held_out, free.examples.len()), (0, 120));
    assert!(without.held_out > 0, "of {}", without.nests);
    assert_eq!(without.examples.len(), 120);
    assert!(without.nests > without.held_out);
}

/// Tokens of the recipe's programs: names, operators and brackets never share one, so prompt and program fit together.
#[test]
fn examples_fit_the_model_and_their_texts_survive_the_tokenizer() {
    let examples = made(&corpus(60), 60).unwrap().examples;
    let texts: Vec<String> = examples
        .iter()
        .map(|e| format!("{}{}", e.prompt, e.program))
        .collect();
    let tokenizer = train_words(&texts, 1024, &[END]).unwrap();
    let mut longest = 0;
    for text in &texts {
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), *text);
        longest = longest.max(ids.len());
    }
    assert!(longest < 1024, "{longest}");
}

#[test]
fn a_training_ends_with_a_model_and_contradictions_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("recipe.toml");
    let train = |text: &str, resume: bool| {
        std::fs::write(&file, text).unwrap();
        crate::starter::run(&Order {
            recipe: &file,
            output: None,
            resume,
            allow_weaker_jail: false,
            farm: None,
            json: false,
            stopped: None,
        })
    };
    let small = "seed = 1\nvalidation = 2\n\
        [model]\nstart = \"random\"\nvocab_size = 400\nhidden_size = 16\nintermediate_size = 32\nnum_hidden_layers = 1\nnum_attention_heads = 2\nnum_key_value_heads = 1\n\
        [nests]\nexamples = 12\nhold_out = [\"dgemv\"]\ntechniques = [\"unroll\"]\nlargest_bytes = 600\n\
        [sft]\nlearning_rate = 1e-3\nsteps = 2\nbatch_tokens = 512\n";
    assert_eq!(train(small, false).unwrap(), OK);
    let report = std::fs::read(place.path().join(REPORT)).unwrap();
    let report: Report = serde_json::from_slice(&report).unwrap();
    assert_eq!(report.training.steps, 2);
    assert_eq!(report.examples, 12);
    assert!(report.training.val_loss.is_some() && report.held_out.is_empty());
    assert!(
        flopsmith_policy::inspect(place.path())
            .unwrap()
            .loads
            .is_ok()
    );
    for (from, to, words) in [
        ("hold_out = [\"dgemv\"]", "hold_out = [\"dgemx\"]", "dgemx"),
        (
            "hold_out = [\"dgemv\"]",
            "hold_out = [\"sort64\"]",
            "no affine loop nest",
        ),
        (
            "examples = 12",
            "examples = 12\nproblems = [\"dgemv\"]",
            "`hold_out` names",
        ),
        (
            "largest_bytes = 600",
            "largest_bytes = 10",
            "`largest_bytes`",
        ),
        (
            "examples = 12",
            "examples = 12\nrenamed = 2.0",
            "`renamed` must be between 0 and 1",
        ),
        ("examples = 12", "example = 12", "example"),
    ] {
        let text = small.replace(from, to);
        assert_ne!(text, small);
        let error = train(&text, false).unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        assert!(format!("{error:#}").contains(words), "{words}: {error:#}");
    }
    let error = train(small, true).unwrap_err().to_string();
    assert!(error.contains("no checkpoint"), "{error}");
}
