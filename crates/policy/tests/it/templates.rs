//! Chat templates against transformers' rendering (tools/parity/make_templates.py), and faulty ones.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use flopsmith_policy::chat::Message;
use flopsmith_policy::{Config, Device, Error, Kind, Model, Tokenizer, inspect, train_bpe};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Expected {
    messages: Vec<Said>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Said {
    role: String,
    content: String,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    template: String,
    /// `tokenizer_config.json`, without the template.
    settings: Value,
    /// A file of older folders.
    special_tokens_map: Option<Value>,
    /// The token for padding in `tokenizer.json`.
    padding: Option<String>,
    /// `config.json`.
    config: Option<Value>,
    /// True for a tokenizer of characters in place of bytes.
    #[serde(default)]
    metaspace: bool,
    /// The text that transformers renders; none if it refuses.
    text: Option<String>,
}

fn expected() -> Expected {
    // `make parity` names a folder with new files.
    let path = std::env::var_os("FLOPSMITH_PARITY").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/templates.json"),
        |anew| PathBuf::from(anew).join("templates.json"),
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn write(folder: &Path, name: &str, value: &Value) {
    std::fs::write(folder.join(name), value.to_string()).unwrap();
}

/// A folder with a tokenizer of these settings.
fn folder(settings: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let texts = ["for (;;) {}".to_owned()];
    let tokenizer = train_bpe(&texts, 300, &["<|end|>", "<|task|>"]).unwrap();
    tokenizer.save(folder.path()).unwrap();
    write(folder.path(), "tokenizer_config.json", settings);
    folder
}

/// Changes `tokenizer.json`.
fn change(folder: &Path, change: impl FnOnce(&mut Value)) {
    let path = folder.join("tokenizer.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    change(&mut file);
    std::fs::write(path, file.to_string()).unwrap();
}

fn pad_with(file: &mut Value, token: &str) {
    file["padding"] = json!({
        "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 1, "pad_type_id": 0, "pad_token": token,
    });
}

fn take_characters(file: &mut Value) {
    let metaspace = json!({
        "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true,
    });
    file["pre_tokenizer"] = metaspace.clone();
    file["decoder"] = metaspace;
    file["post_processor"] = Value::Null;
}

#[test]
fn conversations_are_written_as_transformers_writes_them() {
    let expected = expected();
    assert!(expected.cases.len() > 60, "{}", expected.cases.len());
    let messages: Vec<Message> = expected
        .messages
        .into_iter()
        .map(|said| Message {
            role: said.role,
            content: said.content,
        })
        .collect();
    let mut wrong = Vec::new();
    for case in expected.cases {
        let mut settings = case.settings;
        settings["chat_template"] = case.template.as_str().into();
        let folder = folder(&settings);
        if let Some(map) = &case.special_tokens_map {
            write(folder.path(), "special_tokens_map.json", map);
        }
        if let Some(token) = &case.padding {
            change(folder.path(), |file| pad_with(file, token));
        }
        if case.metaspace {
            change(folder.path(), take_characters);
        }
        if let Some(config) = &case.config {
            write(folder.path(), "config.json", config);
        }
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        // And again from the file that it writes itself.
        let again = tempfile::tempdir().unwrap();
        tokenizer.save(again.path()).unwrap();
        for tokenizer in [tokenizer, Tokenizer::load(again.path()).unwrap()] {
            let found = tokenizer.render(&messages);
            if found.as_ref().ok() != case.text.as_ref() {
                wrong.push(format!(
                    "{}: {found:?} where transformers has {:?}",
                    case.name, case.text
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_template_that_cannot_be_used_is_told_by_an_inspection_and_stops_nothing_else() {
    for (template, said) in [
        ("{% if true %}", "syntax error"),
        ("{{ nonesuch() }}", "nonesuch"),
        ("{{ raise_exception('only for tools') }}", "only for tools"),
    ] {
        let folder = folder(&json!({"eos_token": "<|end|>", "chat_template": template}));
        Model::random(
            Config::new(300, 16, 24, 2, 4, 2),
            1,
            Device::Cpu,
            Kind::Float,
        )
        .unwrap()
        .save(folder.path())
        .unwrap();
        let seen = inspect(folder.path()).unwrap();
        assert!(seen.loads.is_ok() && seen.tokenizer.is_ok(), "{seen:?}");
        let written = serde_json::to_value(&seen).unwrap();
        let why = written["chat_template"]["error"].as_str().unwrap();
        assert!(why.contains(said), "{why}");
        let error = seen.chat_template.unwrap_err();
        let raised = template.contains("raise_exception");
        assert_eq!(matches!(error, Error::Messages(_)), raised, "{error:?}");
        assert_eq!(
            matches!(error, Error::ChatTemplate(_)),
            !raised,
            "{error:?}"
        );
        assert!(error.is_of_the_input());
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        tokenizer.encode_prompt("for").unwrap();
    }
    for (settings, there) in [
        (json!({"eos_token": "<|end|>"}), false),
        (
            json!({"eos_token": "<|end|>", "chat_template": "{{ messages }}"}),
            true,
        ),
    ] {
        let folder = folder(&settings);
        Model::random(
            Config::new(300, 16, 24, 2, 4, 2),
            1,
            Device::Cpu,
            Kind::Float,
        )
        .unwrap()
        .save(folder.path())
        .unwrap();
        assert_eq!(
            inspect(folder.path()).unwrap().chat_template.unwrap(),
            there
        );
    }
}

/// Saves a model into a folder, so that the folder can be inspected.
fn add_model(folder: &Path) {
    Model::random(
        Config::new(300, 16, 24, 2, 4, 2),
        1,
        Device::Cpu,
        Kind::Float,
    )
    .unwrap()
    .save(folder)
    .unwrap();
}

/// Checks that a folder has templates of these names, and no default, also after it was saved again.
fn assert_unchosen(folder: &Path, wanted: &[&str]) {
    let tokenizer = Tokenizer::load(folder).unwrap();
    let again = tempfile::tempdir().unwrap();
    tokenizer.save(again.path()).unwrap();
    for tokenizer in [tokenizer, Tokenizer::load(again.path()).unwrap()] {
        assert!(tokenizer.has_chat_template());
        let said = [Message::user("for")];
        let error = tokenizer.encode_messages(&said, true).unwrap_err();
        assert!(error.is_of_the_input());
        let words = error.to_string();
        for name in wanted {
            assert!(words.contains(&format!("`{name}`")), "{words}");
        }
        match error {
            Error::NoDefaultTemplate(names) => assert_eq!(names, wanted),
            other => unreachable!("{other:?}"),
        }
        // Plain text needs none.
        tokenizer.encode_messages(&said, false).unwrap();
    }
    add_model(folder);
    let seen = inspect(folder).unwrap();
    let written = serde_json::to_value(&seen).unwrap();
    let why = written["chat_template"]["error"].as_str().unwrap();
    assert!(why.contains(wanted[0]), "{why}");
}

/// transformers raises an error with the names, too.
#[test]
fn templates_of_which_none_is_the_default_are_an_error_that_names_them() {
    for templates in [
        json!([{"name": "tool_use", "template": "a"}, {"name": "rag", "template": "b"}]),
        json!({"tool_use": "a", "rag": "b"}),
    ] {
        let folder = folder(&json!({"eos_token": "<|end|>", "chat_template": templates}));
        assert_unchosen(folder.path(), &["rag", "tool_use"]);
    }
    // Files outrank the settings.
    let folder = folder(&json!({"eos_token": "<|end|>", "chat_template": "settings"}));
    let more = folder.path().join("additional_chat_templates");
    std::fs::create_dir(&more).unwrap();
    std::fs::write(more.join("rag.jinja"), "\u{feff}rag").unwrap();
    std::fs::write(more.join("notes.txt"), "no template").unwrap();
    assert_unchosen(folder.path(), &["rag"]);
    std::fs::write(folder.path().join("chat_template.jinja"), "file").unwrap();
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    let again = tempfile::tempdir().unwrap();
    tokenizer.save(again.path()).unwrap();
    for tokenizer in [tokenizer, Tokenizer::load(again.path()).unwrap()] {
        assert_eq!(tokenizer.render(&[Message::user("x")]).unwrap(), "file");
    }
}

#[test]
fn the_template_named_default_is_used() {
    for templates in [
        json!([{"name": "rag", "template": "b"}, {"name": "default", "template": "a"}]),
        json!({"default": "a", "rag": "b"}),
    ] {
        let folder = folder(&json!({"eos_token": "<|end|>", "chat_template": templates}));
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        assert_eq!(tokenizer.render(&[Message::user("x")]).unwrap(), "a");
    }
}

/// The text of a template. The caller has a small stack.
fn render(template: &str, said: &[Message]) -> Result<String, Error> {
    let folder = folder(&json!({"eos_token": "<|end|>", "chat_template": template}));
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    let small = std::thread::Builder::new().stack_size(256 << 10);
    std::thread::scope(|scope| {
        let render = || tokenizer.render(said);
        small.spawn_scoped(scope, render).unwrap().join().unwrap()
    })
}

/// Templates that would overflow the stack of a thread, run for hours, or both. The caller has a small stack.
#[test]
fn a_hostile_template_ends_no_process() {
    // Each round of the loop puts the value into sixty lists.
    let nested = format!(
        "{{% set ns = namespace(x=1) %}}{{% for i in range(250) %}}{{% set ns.x = {}ns.x{} %}}{{% endfor %}}",
        "[".repeat(60),
        "]".repeat(60)
    );
    let hours = "{% for i in range(100000) %}".repeat(4) + &"{% endfor %}".repeat(4);
    for (template, words) in [
        (
            format!("{{{{ {}1 }}}}", "-".repeat(200_000)),
            Some("words and signs"),
        ),
        (
            format!("{{{{ {}x }}}}", "not ".repeat(50_000)),
            Some("words and signs"),
        ),
        (
            format!("{{{{ x{} }}}}", " + x".repeat(50_000)),
            Some("words and signs"),
        ),
        (
            format!("{{{{ x{} }}}}", "|list".repeat(50_000)),
            Some("words and signs"),
        ),
        ("x".repeat(300_000), Some("bytes")),
        (hours, Some("OutOfFuel")),
        (format!("{nested}{{{{ ns.x }}}}"), Some("nests too deeply")),
        (
            format!("{nested}{{{{ ns.x | tojson }}}}"),
            Some("nests too deeply"),
        ),
        (
            format!("{nested}{{{{ ns.x | tojson(sort_keys=true) }}}}"),
            Some("nests too deeply"),
        ),
        (nested, None),
        (format!("{{{{ {}1 }}}}", "-".repeat(4900)), None),
        (
            format!(
                "{{% if messages %}}{}{{% endif %}}",
                "{% elif x %}".repeat(20_000)
            ),
            None,
        ),
    ] {
        let found = render(&template, &[Message::user("x")]);
        match (words, found) {
            (None, found) => assert!(found.is_ok(), "{template:.50}: {found:?}"),
            (Some(words), Err(Error::ChatTemplate(why))) => {
                assert!(
                    format!("{why:?}").contains(words),
                    "{template:.50}: {why:?}"
                );
            }
            (Some(_), found) => unreachable!("{template:.50}: {found:?}"),
        }
    }
}

/// Checks that a template ends with an error in these words.
fn assert_fails(template: &str, words: &str) {
    match render(template, &[Message::user("x")]) {
        Err(Error::ChatTemplate(why)) => {
            let why = format!("{why:?}");
            assert!(why.contains(words), "{template:.90}: {why}");
        }
        found => unreachable!("{template:.90}: {found:?}"),
    }
}

/// A text or a list that doubles takes all memory within some dozens of rounds.
#[test]
fn a_template_that_doubles_a_value_ends_with_an_error() {
    for double in [
        "ns.x ~ ns.x",
        "ns.x + ns.x",
        "ns.x * 1000",
        "ns.x | replace('a', 'aa')",
        "ns.x.replace('a', 'aa')",
        "[ns.x, ns.x] | join",
        "''.join([ns.x, ns.x])",
        "'%s%s' | format(ns.x, ns.x)",
        "'{0}{0}'.format(ns.x)",
        "[ns.x, ns.x]",
        "(ns.x, [[ns.x]])",
        "{'a': ns.x, 'b': ns.x}",
        "dict(a=ns.x, b=ns.x)",
        "ns.x | list + ns.x | list",
        "((ns.x if true) or '') ~ ns['x']",
    ] {
        let template = format!(
            "{{% set ns = namespace(x='ab') %}}{{% for i in range(300) %}}{{% set ns.x = {double} %}}{{% endfor %}}"
        );
        assert_fails(&template, "too much memory");
    }
    let text = "x".repeat(100_000);
    for template in [
        "{% set ns = namespace(x='ab') %}{% for i in range(300) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
        "{% macro m(x, n) %}{% if n %}{{ m(x ~ x, n - 1) }}{% endif %}{% endmacro %}{{ m('ab', 100) }}",
        "{% macro m(x) %}{{ caller(x ~ x) }}{% endmacro %}{% macro n(x) %}{% call(y) m(x) %}{{ n(y) }}{% endcall %}{% endmacro %}{{ n('ab') }}",
        &format!(
            "{}b{}",
            "{% filter replace('b', 'bb') %}".repeat(40),
            "{% endfilter %}".repeat(40)
        ),
        &format!("{{% for i in range(5000) %}}{text}{{% endfor %}}"),
        &format!("{{% for i in range(5000) %}}{{% raw %}}{text}{{% endraw %}}{{% endfor %}}"),
    ] {
        assert_fails(template, "too much memory");
    }
}

#[test]
fn a_step_that_takes_all_memory_at_once_ends_with_an_error() {
    for template in [
        "{{ ([1] * 1000000000000) ~ 'x' }}",
        "{{ [1] * 1000000000000 }}",
        "{{ [1] * 1000000000000 | int | abs }}",
        "{{ ([1] * 1000000000000) | list }}",
        "{% for x in ([1] * 1000000000000) | list %}{% endfor %}",
        "{% set x = [1] * 1000000000000 %}",
        "{{ '%99999999d' | format(1) }}",
        "{{ '%.70000f' | format(1.5) }}",
        "{{ '{:>99999999}'.format(1) }}",
        "{{ 'a' | indent(99999999999, true) }}",
        "{{ 'a' | indent(width=99999999999, first=true) }}",
        "{{ [1] | batch(99999999999, 'x') | list }}",
        "{{ [1] | slice(99999999999) | list }}",
        "{{ messages | tojson(indent='x' * 900000) }}",
        "{{ messages | tojson(separators=('x' * 900000, 'x' * 900000), sort_keys=true) }}",
        // minijinja computes products of constants before a template runs.
        &"{{ 'x' * 99999999 }}".repeat(10_000),
    ] {
        assert_fails(template, "too much memory");
    }
    for template in [
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns ~ '' }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns ~ '' }}",
        "{% set ns = namespace() %}{% set ns.x, y = ns, 1 %}{{ ns ~ '' }}",
    ] {
        assert_fails(template, "a namespace within");
    }
    // pycompat counts for ever.
    let counted = render("{{ 'ab'.count('') }}", &[Message::user("x")]);
    assert_eq!(counted.unwrap(), "3");
}

/// The limits grow with the messages.
#[test]
fn a_long_conversation_is_no_hostile_template() {
    let said: Vec<Message> = (0..300)
        .map(|n| Message::user(format!("{n} {}", "für ".repeat(250))))
        .collect();
    let wanted: String = said
        .iter()
        .map(|said| format!("<{}>{}\n", said.role, said.content))
        .collect();
    for template in [
        "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content ~ '\n' }}{% endfor %}",
        "{% set ns = namespace(text='') %}{% for m in messages %}{% set ns.text = ns.text ~ '<' ~ m.role ~ '>' ~ m.content ~ '\n' %}{% endfor %}{{ ns.text }}",
        "{% set ns = namespace(all=[]) %}{% for m in messages %}{% set ns.all = ns.all + [m] %}{% endfor %}{% for m in ns.all %}<{{ m['role'] }}>{{ m.content }}{{ '\n' }}{% endfor %}",
        "{% macro turn(m) %}<{{ m.role }}>{{ m.content }}{{ '\n' }}{% endmacro %}{% for m in messages if m.role != 'x' %}{{ turn(m) if messages | length > loop.index0 }}{% endfor %}",
    ] {
        assert_eq!(render(template, &said).unwrap(), wanted, "{template}");
    }
    let json = render(
        "{{ messages | tojson(ensure_ascii=true, indent=4) }}",
        &said,
    )
    .unwrap();
    let back: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(back.len(), said.len());
    assert_eq!(back[7]["content"], said[7].content);
}

#[test]
fn a_pattern_that_nests_too_deeply_is_refused() {
    for pattern in [
        "(".repeat(3000) + "a" + &")".repeat(3000),
        "a".to_owned() + &"{2}".repeat(3000),
    ] {
        let folder = folder(&json!({"eos_token": "<|end|>"}));
        change(folder.path(), |file| {
            file["normalizer"] =
                json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": "b"});
        });
        let error = Tokenizer::load(folder.path()).unwrap_err();
        assert!(matches!(error, Error::Tokenizer { .. }), "{error:?}");
        assert!(format!("{error:?}").contains("brackets"), "{error:?}");
    }
}

#[test]
fn the_template_in_a_file_of_its_own_outranks_the_settings_after_saving_too() {
    let folder = folder(&json!({"eos_token": "<|end|>", "chat_template": "settings"}));
    std::fs::write(
        folder.path().join("chat_template.jinja"),
        "\u{feff}file\r\n",
    )
    .unwrap();
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    let again = tempfile::tempdir().unwrap();
    tokenizer.save(again.path()).unwrap();
    for tokenizer in [tokenizer, Tokenizer::load(again.path()).unwrap()] {
        assert_eq!(tokenizer.render(&[Message::user("x")]).unwrap(), "file");
    }
}
