//! Token ids against those of transformers (tools/parity/make_tokens.py): tokens around a text, how classes split it, and
//! tokens that only the settings name.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flopsmith_policy::{Config, Device, Kind, Model, Tokenizer, fitting_tokenizer};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct Expected {
    /// Contents of `tokenizer.json` by their names.
    files: BTreeMap<String, Map<String, Value>>,
    texts: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    file: String,
    /// Parts of `tokenizer.json` that replace those of the file.
    #[serde(default)]
    change: Map<String, Value>,
    /// `tokenizer_config.json`.
    settings: Value,
    /// `special_tokens_map.json`, a file of older folders.
    older: Option<Value>,
    /// `config.json`.
    config: Value,
    /// How transformers reads each text.
    read: Vec<Read>,
}

/// The ids of a text that begins a sequence, those without tokens around it, and the text of the latter.
#[derive(Debug, Deserialize, PartialEq)]
struct Read(Vec<u32>, Vec<u32>, String);

fn expected() -> Expected {
    // `make parity` names a folder with new files.
    let path = std::env::var_os("FLOPSMITH_PARITY").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokens.json"),
        |anew| PathBuf::from(anew).join("tokens.json"),
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn write(folder: &Path, name: &str, value: &Value) {
    std::fs::write(folder.join(name), value.to_string()).unwrap();
}

/// The folder of a case.
fn folder(files: &BTreeMap<String, Map<String, Value>>, case: &Case) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut file = files[&case.file].clone();
    file.extend(case.change.clone());
    write(folder.path(), "tokenizer.json", &Value::Object(file));
    write(folder.path(), "tokenizer_config.json", &case.settings);
    write(folder.path(), "config.json", &case.config);
    if let Some(map) = &case.older {
        write(folder.path(), "special_tokens_map.json", map);
    }
    folder
}

fn read(tokenizer: &Tokenizer, text: &str) -> Read {
    let plain = tokenizer.encode(text).unwrap();
    let back = tokenizer.decode(&plain).unwrap();
    Read(tokenizer.encode_prompt(text).unwrap(), plain, back)
}

#[test]
fn texts_become_the_ids_that_transformers_gives_them() {
    let expected = expected();
    assert!(expected.cases.len() > 270, "{}", expected.cases.len());
    let mut wrong = Vec::new();
    for case in &expected.cases {
        let folder = folder(&expected.files, case);
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        // And again from the files that it writes itself.
        let again = tempfile::tempdir().unwrap();
        tokenizer.save(again.path()).unwrap();
        write(again.path(), "config.json", &case.config);
        for tokenizer in [tokenizer, Tokenizer::load(again.path()).unwrap()] {
            assert_eq!(case.read.len(), expected.texts.len());
            for (text, wanted) in expected.texts.iter().zip(&case.read) {
                let found = read(&tokenizer, text);
                if found != *wanted {
                    wrong.push(format!(
                        "{}, {text:?}: {found:?} where transformers has {wanted:?}",
                        case.name
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// transformers gives such a token an id that the model's embedding does not have.
#[test]
fn a_token_that_the_model_has_no_place_for_stays_text() {
    let expected = expected();
    let name = "a class of bytes, a pad token of its own";
    let case = expected.cases.into_iter().find(|case| case.name == name);
    let case = case.unwrap();
    let folder = folder(&expected.files, &case);
    let text = "for<|more|>";
    let with = Tokenizer::load(folder.path()).unwrap();
    let more = with.token_to_id("<|more|>").unwrap();
    assert_eq!(with.encode(text).unwrap().last(), Some(&more));
    let mut config = Config::new(i64::from(more), 16, 24, 2, 4, 2);
    config.model_type = "llama".into();
    Model::random(config, 1, Device::Cpu, Kind::Float)
        .unwrap()
        .save(folder.path())
        .unwrap();
    let config = Config::load(folder.path()).unwrap();
    let without = fitting_tokenizer(folder.path(), &config).unwrap();
    assert_eq!(without.token_to_id("<|more|>"), None);
    let ids = without.encode(text).unwrap();
    assert!(ids.len() > 2, "{ids:?}");
    assert_eq!(without.decode(&ids).unwrap(), text);
}

/// Where transformers puts the part of a text after a gap before the other one.
#[test]
fn a_gap_in_a_text_moves_no_part_of_the_text() {
    let expected = expected();
    let name = "Code Llama's class";
    let case = expected.cases.into_iter().find(|case| case.name == name);
    let mut case = case.unwrap();
    let size = expected.files["characters"]["model"]["vocab"]
        .as_object()
        .unwrap()
        .len();
    // As a folder that transformers saved.
    let gaps = [
        "\u{2581}<PRE>",
        "\u{2581}<MID>",
        "\u{2581}<SUF>",
        "\u{2581}<EOT>",
    ];
    let tokens = ["<unk>", "<s>", "</s>", "<|task|>"].into_iter().zip(0..);
    let added = gaps.into_iter().chain(["<FILL_ME>"]).zip(size..);
    let added: Vec<Value> = tokens
        .chain(added)
        .map(|(content, id)| {
            json!({
                "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })
        })
        .collect();
    case.change.insert("added_tokens".into(), added.into());
    let folder = folder(&expected.files, &case);
    let text = "for(<FILL_ME>)[1];";
    let with = Tokenizer::load(folder.path()).unwrap();
    let fill = with.token_to_id("<FILL_ME>").unwrap();
    let ids = with.encode_prompt(text).unwrap();
    assert!(ids.contains(&fill), "{ids:?}");
    let read = with.decode_with_specials(&ids).unwrap();
    assert!(read.starts_with("<s>") && read.ends_with(text), "{read}");
    // The models that fill gaps have no place for this token.
    let mut config = Config::new(i64::from(fill), 16, 24, 2, 4, 2);
    config.model_type = "llama".into();
    Model::random(config, 1, Device::Cpu, Kind::Float)
        .unwrap()
        .save(folder.path())
        .unwrap();
    let config = Config::load(folder.path()).unwrap();
    let without = fitting_tokenizer(folder.path(), &config).unwrap();
    assert_eq!(without.token_to_id("<FILL_ME>"), None);
    for gap in gaps {
        assert_eq!(without.token_to_id(gap), with.token_to_id(gap), "{gap}");
    }
    let ids = without.encode(text).unwrap();
    assert_eq!(without.decode(&ids).unwrap(), text);
}

#[test]
fn a_tokenizer_that_a_class_cannot_rebuild_is_read_as_it_is() {
    let expected = expected();
    let name = "Llama's class";
    let case = expected.cases.into_iter().find(|case| case.name == name);
    let mut case = case.unwrap();
    let vocab = json!({"<unk>": 0, "for": 1});
    case.change = Map::from_iter([
        (
            "model".to_owned(),
            json!({"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}),
        ),
        ("normalizer".to_owned(), json!({"type": "Lowercase"})),
        ("added_tokens".to_owned(), json!([])),
    ]);
    let folder = folder(&expected.files, &case);
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    assert_eq!(tokenizer.encode("FOR").unwrap(), [1]);
}

#[test]
fn number_tokens_are_digits_that_make_no_zero() {
    let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/starter");
    let tokenizer = Tokenizer::load(&starter).unwrap();
    let is_number = tokenizer.number_tokens();
    let ids = tokenizer.encode("for(int i=0;i<64;i+=10)").unwrap();
    let numbers = ids.into_iter().filter(|id| is_number[*id as usize]);
    let texts: Vec<String> = numbers.map(|id| tokenizer.decode(&[id]).unwrap()).collect();
    assert_eq!(texts, ["6", "4", "1"]);
}
