//! Byte-order marks, and tokenizers that were made for batches.

use super::*;

#[test]
fn a_byte_order_mark_is_no_part_of_any_file() {
    let folder = folder();
    let mut model = load(folder.path()).unwrap();
    let wanted = Tokenizer::load(folder.path()).unwrap();
    model.adapt(LoraConfig::default(), 1).unwrap();
    model.adapter().unwrap().save(folder.path(), "").unwrap();
    let shard = "model-00001-of-00001.safetensors";
    std::fs::rename(folder.path().join(WEIGHTS), folder.path().join(shard)).unwrap();
    let index = json!({"weight_map": {EMBEDDING: shard}}).to_string();
    std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    std::fs::write(folder.path().join("special_tokens_map.json"), "{}").unwrap();
    let mut marked = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|e| e == "json" || e == "jinja")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
            marked += 1;
        }
    }
    assert_eq!(marked, 8);
    check(folder.path()).unwrap();
    load(folder.path()).unwrap();
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    assert_eq!(tokenizer.eos(), wanted.eos());
    let said = [Message::user("for")];
    assert_eq!(
        tokenizer.encode_chat(&said).unwrap(),
        wanted.encode_chat(&said).unwrap()
    );
    // An adapter names the model below it.
    let place = tempfile::tempdir().unwrap();
    let settings = folder.path().join("adapter_config.json");
    let text = std::fs::read_to_string(&settings).unwrap();
    let base = folder.path().display().to_string();
    let text = text.replace(
        "\"base_model_name_or_path\": \"\"",
        &format!("\"base_model_name_or_path\": \"{base}\""),
    );
    assert!(
        text.starts_with('\u{feff}') && text.contains(&base),
        "{text}"
    );
    std::fs::write(place.path().join("adapter_config.json"), text).unwrap();
    std::fs::rename(
        folder.path().join("adapter_model.safetensors"),
        place.path().join("adapter_model.safetensors"),
    )
    .unwrap();
    std::fs::remove_file(settings).unwrap();
    check(place.path()).unwrap();
}

#[test]
fn a_text_is_encoded_as_it_is_whatever_the_tokenizer_was_made_for() {
    let folder = folder();
    let plain = Tokenizer::load(folder.path()).unwrap();
    let long = "for (int i = 0; i < n; i++) { a[i] += b[i]; }\n".repeat(20);
    let texts = [long.as_str(), "n", ""];
    let ids = |tokenizer: &Tokenizer| {
        texts.map(|text| {
            let chat = tokenizer.encode_chat(&[Message::user(text)]).unwrap();
            [
                tokenizer.encode(text).unwrap(),
                tokenizer.encode_prompt(text).unwrap(),
                chat,
            ]
        })
    };
    let wanted = ids(&plain);
    assert!(wanted[0][0].len() > 100);
    edit(folder.path(), "tokenizer.json", |file| {
        file["truncation"] = json!({
            "direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0,
        });
        file["padding"] = json!({
            "strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 1, "pad_type_id": 0, "pad_token": "<|task|>",
        });
    });
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    assert_eq!(ids(&tokenizer), wanted);
    // Other readers accept the saved form, too.
    let again = tempfile::tempdir().unwrap();
    tokenizer.save(again.path()).unwrap();
    let text = std::fs::read_to_string(again.path().join("tokenizer.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&file["truncation"], &file["padding"]),
        (&Value::Null, &Value::Null)
    );
}
