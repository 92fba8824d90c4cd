//! Heads beside the embedding to which the configuration ties them.

use super::*;

#[test]
fn a_head_that_was_trained_is_used_whatever_the_configuration_says() {
    let folder = folder();
    let tied = load(folder.path()).unwrap();
    rewrite(folder.path(), |tensors| {
        let (dtype, shape, mut bytes) = tensors[EMBEDDING].clone();
        // Another row scores another token.
        bytes.rotate_left(16 * 4);
        tensors.insert(HEAD.into(), (dtype, shape, bytes));
    });
    let untied = load(folder.path()).unwrap();
    assert!(!untied.config().tie_word_embeddings);
    assert!(
        !check(folder.path()).unwrap().tie_word_embeddings,
        "a look says the same"
    );
    assert_eq!(
        untied.parameter_count(),
        tied.parameter_count() + 300 * 16,
        "the head is a matrix of its own"
    );
    let scores = |model: &Model| model.logits_all(&[1, 2]).unwrap().concat();
    let (before, after) = (scores(&tied), scores(&untied));
    let moved: Vec<f32> = before.iter().skip(1).copied().collect();
    let close = |a: &f32, b: &f32| (a - b).abs() < 1e-4;
    assert!(
        after.iter().zip(&moved).take(299).all(|(a, b)| close(a, b)),
        "token n is scored as n + 1 was"
    );
    let seen = inspect(folder.path()).unwrap();
    assert!(seen.untied && seen.loads.is_ok());
    assert_eq!(seen.parameters, untied.parameter_count());

    let saved = tempfile::tempdir().unwrap();
    untied.save(saved.path()).unwrap();
    let text = std::fs::read_to_string(saved.path().join("config.json")).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["tie_word_embeddings"], false);
    assert_eq!(scores(&load(saved.path()).unwrap()), after);
    // The trained weights are passed on with their head, and not to a model without one.
    let weights = untied.weights_bytes().unwrap();
    load(folder.path()).unwrap().set_weights(&weights).unwrap();
    let mut tied = tied;
    let error = tied.set_weights(&weights).unwrap_err();
    assert!(
        matches!(&error, Error::Input(said) if said.contains(HEAD)),
        "{error:?}"
    );
    assert_eq!(scores(&tied), before, "nothing was changed");
}

#[test]
fn a_head_that_repeats_the_embedding_is_tied() {
    let whole = folder();
    let scores = |folder: &Path| {
        let model = load(folder).unwrap();
        assert!(model.config().tie_word_embeddings);
        assert!(!inspect(folder).unwrap().untied);
        model.logits_all(&[1, 2]).unwrap().concat()
    };
    let wanted = scores(whole.path());
    let repeated = folder();
    rewrite(repeated.path(), |tensors| {
        tensors.insert(HEAD.into(), tensors[EMBEDDING].clone());
    });
    assert_eq!(scores(repeated.path()), wanted);
    let renamed = folder();
    rewrite(renamed.path(), |tensors| {
        let embedding = tensors.remove(EMBEDDING).unwrap();
        tensors.insert(HEAD.into(), embedding);
    });
    assert_eq!(scores(renamed.path()), wanted);
    check(renamed.path()).unwrap();
    // In another number format: a head whose bytes differ from the embedding's after rounding is another head.
    let [equal, rounded] = [true, false].map(|equal| {
        let folder = folder();
        rewrite(folder.path(), |tensors| {
            let (_, shape, bytes) = tensors[EMBEDDING].clone();
            let half = halved(&bytes);
            if equal {
                let wide = half.chunks(2).flat_map(|b| [0, 0, b[0], b[1]]).collect();
                tensors.insert(EMBEDDING.into(), (Dtype::F32, shape.clone(), wide));
            }
            tensors.insert(HEAD.into(), (Dtype::BF16, shape, half));
        });
        folder
    });
    assert!(load(equal.path()).unwrap().config().tie_word_embeddings);
    assert!(!load(rounded.path()).unwrap().config().tie_word_embeddings);
    // A tensor of another shape is not a head.
    let narrow = folder();
    rewrite(narrow.path(), |tensors| {
        tensors.insert(HEAD.into(), (Dtype::F32, vec![299, 16], vec![0; 299 * 64]));
    });
    let error = load(narrow.path()).unwrap_err().to_string();
    assert!(
        error.contains("lm_head.weight has shape [299, 16]"),
        "{error}"
    );
}
