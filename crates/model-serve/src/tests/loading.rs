//! Adapters that come and go while the service runs.

use std::io::Read;
use std::path::Path;

use super::*;
use crate::refusal::Refusal;

const LOAD: &str = "/v1/load_lora_adapter";
const UNLOAD: &str = "/v1/unload_lora_adapter";

/// Writes an adapter into a folder below `place`, and gives the model with it.
fn write(place: &Path, name: &str, much: f64) -> Model {
    let adapted = adapted_by(much);
    let adapter = adapted.adapter().unwrap();
    adapter.save(&place.join(name), "tiny").unwrap();
    adapted
}

fn load(name: &str, path: &str, replaces: bool) -> Value {
    json!({ "lora_name": name, "lora_path": path, "load_inplace": replaces })
}

fn serving(place: &Path) -> Server {
    Server::start(Options {
        adapter_folder: Some(place.to_owned()),
        ..Options::default()
    })
}

/// The tokens that the model of this name writes.
fn written(server: &Server, name: &str) -> Value {
    let body = json!({
        "model": name, "prompt": [40, 41, 42], "max_tokens": 20, "temperature": 0, "return_token_ids": true,
    });
    server.answer(COMPLETIONS, &body)["choices"][0]["token_ids"].clone()
}

fn own(model: &Model) -> Value {
    json!(sampled(model, &request(&[40, 41, 42], 0, greedy(20))).tokens)
}

fn names(server: &Server) -> Vec<String> {
    let listed = server.get("/v1/models").json();
    let rows = listed["data"].as_array().unwrap();
    rows.iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_adapter_is_loaded_replaced_and_forgotten() {
    let place = tempfile::tempdir().unwrap();
    let [one, other] =
        [("one", 0.05), ("other", -0.2)].map(|(name, much)| write(place.path(), name, much));
    assert_ne!(own(&one), own(&other));
    let server = serving(place.path());
    assert_eq!(written(&server, "tiny"), own(&model()));
    server.answer(LOAD, &load("run-v1", "one", false));
    assert_eq!(names(&server), ["tiny", "run-v1"]);
    assert_eq!(written(&server, "run-v1"), own(&one));
    // Under another name, and then in the place of the first.
    server.answer(LOAD, &load("run-v2", "other", true));
    assert_eq!(written(&server, "run-v2"), own(&other));
    let refused = server.post(LOAD, &load("run-v1", "other", false));
    assert_eq!(refused.refused(400)["param"], "lora_name");
    server.answer(LOAD, &load("run-v1", "other", true));
    assert_eq!(written(&server, "run-v1"), own(&other));
    server.answer(UNLOAD, &json!({ "lora_name": "run-v1" }));
    assert_eq!(names(&server), ["tiny", "run-v2"]);
    let gone = json!({ "model": "run-v1", "prompt": [1] });
    server.post(COMPLETIONS, &gone).refused(404);
    server
        .post(UNLOAD, &json!({ "lora_name": "run-v1" }))
        .refused(404);
    assert_eq!(written(&server, "tiny"), own(&model()));
}

#[test]
fn an_answer_under_way_ends_before_the_adapters_change() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "one", 0.05);
    let server = Server::start(Options {
        adapter_folder: Some(place.path().to_owned()),
        endless: true,
        ..Options::default()
    });
    let body = json!({
        "model": "tiny", "prompt": [40, 41, 42], "max_tokens": 300, "temperature": 0, "stream": true, "return_token_ids": true,
    });
    // The first bytes of the response come once the answer is being written.
    let mut stream = server.send(&format!("POST {COMPLETIONS}"), &[], &body.to_string());
    let mut first = [0; 16];
    stream.read_exact(&mut first).unwrap();
    server.answer(LOAD, &load("run-v1", "one", false));
    assert_eq!(names(&server), ["tiny", "run-v1"]);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert!(!rest.contains("\"error\""), "{rest}");
    assert_eq!(rest.matches("\"finish_reason\":\"length\"").count(), 1);
}

#[tokio::test]
async fn a_request_behind_the_end_of_its_adapter_finds_no_model() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "one", 0.05);
    let models = Models {
        load: Box::new(|| Ok((model(), tokenizer(true, TEMPLATE)))),
        name: "tiny".into(),
        adapters: vec![Named {
            name: "one".into(),
            folder: place.path().join("one"),
        }],
        longest: Some(100_000),
        rows: 64,
        cache_bytes: None,
    };
    let ended = CancellationToken::new();
    let (engine, served) =
        Engine::start(models, 1000, Arc::new(Metrics::default()), &ended).unwrap();
    let number = served.names.number("one").unwrap();
    let long = vec![(0, request(&[40, 41], 0, greedy(90_000)))];
    let mut pieces = engine.write(0, Pieces::Token, long).unwrap();
    assert!(matches!(pieces.recv().await, Some(Piece::Tokens { .. })));
    // The end of the adapter waits for that answer, and what follows waits behind it.
    let mut unloading = std::pin::pin!(engine.unload("one".into()));
    assert!(futures::poll!(unloading.as_mut()).is_pending());
    let asked = vec![(0, request(&[40, 41], 0, greedy(4)))];
    let mut late = engine.write(number, Pieces::Whole, asked).unwrap();
    let mut scored = std::pin::pin!(engine.score(number, vec![vec![40, 41]], 1));
    assert!(futures::poll!(scored.as_mut()).is_pending());
    drop(pieces);
    unloading.await.unwrap();
    assert_eq!(late.recv().await, Some(Piece::Failed(Refusal::unloaded())));
    assert_eq!(scored.await.err(), Some(Refusal::unloaded()));
    assert_eq!(
        Refusal::unloaded().body()["error"]["code"],
        "model_not_found"
    );
}

#[test]
fn what_is_no_adapter_here_is_refused_and_the_service_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let allowed = place.path().join("adapters");
    write(&allowed, "one", 0.05);
    write(place.path(), "elsewhere", 0.05);
    std::fs::create_dir(allowed.join("broken")).unwrap();
    for name in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::write(allowed.join("broken").join(name), "{}").unwrap();
    }
    let closed = Server::start(Options::default());
    for (path, body) in [
        (LOAD, load("a", "one", false)),
        (UNLOAD, json!({ "lora_name": "a" })),
    ] {
        closed.post(path, &body).refused(403);
    }
    let server = serving(&allowed);
    let elsewhere = place.path().join("elsewhere");
    for (name, path, param) in [
        ("a", "../elsewhere", "lora_path"),
        ("a", elsewhere.to_str().unwrap(), "lora_path"),
        ("a", "broken", "lora_path"),
        ("a", "none", "lora_path"),
        ("a b", "one", "lora_name"),
        ("tiny", "one", "lora_name"),
    ] {
        let refused = server.post(LOAD, &load(name, path, true)).refused(400);
        assert_eq!(refused["param"], param, "{name} {path}: {refused}");
    }
    let refused = server.post(UNLOAD, &json!({ "lora_name": "tiny" }));
    assert_eq!(refused.refused(400)["param"], "lora_name");
    assert_eq!(names(&server), ["tiny"]);
    assert_eq!(written(&server, "tiny"), own(&model()));
}
