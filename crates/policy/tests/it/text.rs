//! Tokenizers: trained, saved, opened; chat templates.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_policy::chat::Message;
use flopsmith_policy::{Error, Tokenizer, train_bpe, train_words};
use proptest::prelude::*;
use serde_json::json;

fn corpus() -> Vec<String> {
    (0..40)
        .map(|i| {
            format!("void dgemm(int n, const double *A) {{\n    for (int k{i} = 0; k{i} < n; k{i}++) {{\n        C[{i}] += A[k{i}];\n    }}\n}}\n")
        })
        .collect()
}

fn trained() -> Tokenizer {
    train_bpe(&corpus(), 400, &["<|end|>", "<|task|>"]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_text_survives(text in "[ -~\\n\\t]{0,200}|[à-ÿ一-三😀 {}]{0,40}") {
        let tokenizer = trained();
        prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&text).unwrap()).unwrap(), text);
    }
}

#[test]
fn training_is_deterministic_and_compresses() {
    let folders = [(); 3].map(|()| {
        let folder = tempfile::tempdir().unwrap();
        trained().save(folder.path()).unwrap();
        std::fs::read_to_string(folder.path().join("tokenizer.json")).unwrap()
    });
    assert_eq!(folders[0], folders[1]);
    assert_eq!(folders[0], folders[2]);
    let text = &corpus()[7];
    let tokens = trained().encode(text).unwrap().len();
    assert!(
        tokens * 2 < text.len(),
        "{tokens} tokens for {} bytes",
        text.len()
    );
}

/// A subscript has the same tokens after a bracket, after an operator and after a blank, whatever stands around it.
#[test]
fn tokens_of_words_end_where_words_of_c_end() {
    let texts: Vec<String> = (0..40)
        .map(|i| {
            format!(
                "void kernel(int rows,const double*A,double*B)\nfor(long i=0;i<=rows-1;i++){{\nB[i*rows+{i}]+=A[(i+{i})*rows+j]*A[i*rows+j];\n}}\n"
            )
        })
        .collect();
    let tokenizer = train_words(&texts, 600, &["<|end|>"]).unwrap();
    let tokens = |text: &str| -> Vec<String> {
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        ids.iter()
            .map(|id| tokenizer.decode(&[*id]).unwrap())
            .collect()
    };
    let subscript = ["i", "*", "rows", "+", "j"];
    for (before, after) in [
        ("A[", "]"),
        ("B[(", ")*2]"),
        ("long ", ";"),
        ("=", ";\n"),
        ("-(", "))++"),
    ] {
        let around = tokens(&format!("{before}{}{after}", subscript.concat()));
        let found = around
            .windows(subscript.len())
            .any(|window| window == subscript);
        assert!(found, "{around:?}");
    }
    // Words and operators that occurred are one token, and others are made of smaller ones.
    assert_eq!(tokens("for(long i=0;i<=rows-1;i++){").len(), 18);
    let kind = |c: char| match c {
        c if c.is_alphabetic() => 0,
        c if c.is_numeric() => 1,
        c if c.is_whitespace() => 2,
        _ => 3,
    };
    for token in tokens(&texts.concat())
        .iter()
        .chain(&tokens("void other_name2(float *x1)"))
    {
        let mut kinds: Vec<i32> = token.chars().map(kind).collect();
        kinds.dedup();
        assert_eq!(kinds.len(), 1, "{token:?}");
    }
    // The rule of a folder is the one that other programs apply to it.
    let rule = |tokenizer: &Tokenizer| -> serde_json::Value {
        let folder = tempfile::tempdir().unwrap();
        tokenizer.save(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join("tokenizer.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["pre_tokenizer"].clone()
    };
    assert_eq!(rule(&tokenizer), rule(&trained()));
}

#[test]
fn special_tokens_come_first_and_do_not_show() {
    let tokenizer = trained();
    assert_eq!(tokenizer.eos(), [0]);
    assert_eq!(tokenizer.pad(), Some(0));
    assert_eq!(tokenizer.token_to_id("<|task|>"), Some(1));
    let ids = tokenizer.encode("<|task|>for<|end|>").unwrap();
    assert_eq!((ids[0], ids.last()), (1, Some(&0)));
    assert_eq!(tokenizer.decode(&ids).unwrap(), "for");
    assert_eq!(
        tokenizer.decode_with_specials(&ids).unwrap(),
        "<|task|>for<|end|>"
    );
}

#[test]
fn impossible_tokenizers_are_refused() {
    assert!(matches!(
        train_bpe(&corpus(), 400, &[]),
        Err(Error::Input(_))
    ));
    assert!(matches!(
        train_bpe(&corpus(), 256, &["<|end|>"]),
        Err(Error::Input(_))
    ));
}

#[test]
fn a_saved_tokenizer_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = trained();
    tokenizer.save(folder.path()).unwrap();
    let again = Tokenizer::load(folder.path()).unwrap();
    for text in corpus() {
        assert_eq!(
            again.encode(&text).unwrap(),
            tokenizer.encode(&text).unwrap()
        );
    }
    assert_eq!(again.eos(), tokenizer.eos());
    assert_eq!(again.pad(), tokenizer.pad());
    assert_eq!(again.vocab_size(), tokenizer.vocab_size());
    assert!(!again.has_chat_template());
    let said = [system("fast"), Message::user("code")];
    assert_eq!(again.render(&said).unwrap(), "fast\ncode");
}

fn system(content: &str) -> Message {
    Message {
        role: "system".into(),
        content: content.into(),
    }
}

/// A folder with the trained tokenizer and other settings.
fn folder_with(settings: &serde_json::Value, others: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    trained().save(folder.path()).unwrap();
    std::fs::remove_file(folder.path().join("generation_config.json")).unwrap();
    std::fs::write(
        folder.path().join("tokenizer_config.json"),
        settings.to_string(),
    )
    .unwrap();
    for (name, text) in others {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

const TEMPLATE: &str = "{%- if messages[0]['role'] == 'system' %}\n    {{- '[' + messages[0]['content'].strip() + ']\\n' }}\n{%- endif %}\n{%- for m in messages %}\n    {%- if m.role == 'user' %}\n        {{- eos_token + m.content }}\n    {%- elif m.role == 'tool' %}\n        {{- raise_exception('no tools') }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}{{ '\\n>' }}{% endif %}";

#[test]
fn chat_templates_are_applied_wherever_they_stand() {
    let said = [system(" be fast "), Message::user("go & run")];
    let wanted = "[be fast]\n<|end|>go & run\n>";
    let plain = json!({"chat_template": TEMPLATE, "eos_token": {"content": "<|end|>"}});
    let several = json!({"eos_token": "<|end|>", "chat_template": [
        {"name": "tool_use", "template": "no"}, {"name": "default", "template": TEMPLATE}]});
    let beside = json!({"eos_token": "<|end|>"});
    let file = [("chat_template.jinja", TEMPLATE.to_owned())];
    for folder in [
        folder_with(&plain, &[]),
        folder_with(&several, &[]),
        folder_with(&beside, &file),
    ] {
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        assert_eq!(tokenizer.eos(), [0]);
        assert_eq!(tokenizer.render(&said).unwrap(), wanted);
        let target = tempfile::tempdir().unwrap();
        tokenizer.save(target.path()).unwrap();
        let again = Tokenizer::load(target.path()).unwrap();
        assert_eq!(again.render(&said).unwrap(), wanted);
        let tool = Message {
            role: "tool".into(),
            content: String::new(),
        };
        let error = again.render(&[tool]).unwrap_err();
        assert!(format!("{error:?}").contains("no tools"));
    }
}

#[test]
fn end_tokens_come_from_where_they_are_said() {
    let generation = (
        "generation_config.json",
        json!({"eos_token_id": [5, 6]}).to_string(),
    );
    let config = ("config.json", json!({"eos_token_id": 7}).to_string());
    let settings = json!({"eos_token": "<|task|>"});
    let eos = |others: &[(&str, String)]| {
        Tokenizer::load(folder_with(&settings, others).path())
            .unwrap()
            .eos()
            .to_vec()
    };
    assert_eq!(eos(&[generation, config.clone()]), [5, 6]);
    assert_eq!(eos(&[config]), [7]);
    assert_eq!(eos(&[]), [1]);
}

#[test]
fn broken_files_are_named() {
    let folder = folder_with(&json!({}), &[("tokenizer_config.json", "{".into())]);
    let error = Tokenizer::load(folder.path()).unwrap_err();
    assert!(
        error.to_string().contains("tokenizer_config.json"),
        "{error}"
    );
    let folder = folder_with(&json!({}), &[("tokenizer.json", "{}".into())]);
    assert!(matches!(
        Tokenizer::load(folder.path()),
        Err(Error::Tokenizer { .. })
    ));
    let nowhere = tempfile::tempdir().unwrap();
    let error = Tokenizer::load(nowhere.path()).unwrap_err();
    assert!(error.to_string().contains("tokenizer.json"), "{error}");
}

#[test]
fn a_prompt_begins_with_the_token_that_the_tokenizer_puts_there() {
    let folder = tempfile::tempdir().unwrap();
    let texts = ["for (;;) {}".to_owned()];
    let plain = train_bpe(&texts, 262, &["<|end|>", "<|begin|>"]).unwrap();
    assert_eq!(
        plain.encode_prompt("for").unwrap(),
        plain.encode("for").unwrap()
    );
    plain.save(folder.path()).unwrap();
    // As Llama's.
    let path = folder.path().join("tokenizer.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let begin = plain.token_to_id("<|begin|>").unwrap();
    json["post_processor"] = serde_json::json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [begin], "tokens": ["<|begin|>"]}}
    });
    std::fs::write(&path, json.to_string()).unwrap();
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    let text = tokenizer.encode("for").unwrap();
    assert_eq!(text, plain.encode("for").unwrap());
    let prompt = tokenizer.encode_prompt("for").unwrap();
    assert_eq!(prompt, [&[begin], &text[..]].concat());
}
