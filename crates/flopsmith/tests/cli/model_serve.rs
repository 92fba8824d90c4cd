//! `model serve`: the real program with the starter model, from its start to a signal.

use std::io::Read;

use serde_json::{Value, json};

use crate::service::Service;
use crate::{flopsmith, run};

const STARTER: &str = "models/starter";
const COMPLETIONS: &str = "POST /v1/completions";

fn start(more: &[&str]) -> Service {
    let mut command = flopsmith();
    command.args(["model", "serve", STARTER, "--port", "0"]);
    Service::start(command.args(more))
}

fn ask(service: &Service, body: &Value) -> Value {
    let answer = service.ask(COMPLETIONS, &body.to_string());
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn a_seed_gives_the_text_that_model_sample_prints() {
    let prompt = "// dgemm: unroll simd\n";
    let draws = ["--seed", "7", "--temperature", "0.8", "--max-tokens", "60"];
    let sample = ["model", "sample", STARTER, "--prompt", prompt];
    let printed = run(&[&sample[..], &draws[..]].concat());
    assert_eq!(printed.status.code(), Some(0));
    let printed = String::from_utf8(printed.stdout).unwrap();
    let service = start(&["--name", "mine"]);
    let body = json!({ "model": "mine", "prompt": prompt, "seed": 7, "temperature": 0.8, "max_tokens": 60 });
    let answer = ask(&service, &body);
    let text = answer["choices"][0]["text"].as_str().unwrap();
    assert_eq!(text.trim_end(), printed.trim_end(), "{answer}");
    let unknown = ask(&service, &json!({ "model": "starter", "prompt": "a" }));
    assert_eq!(unknown["error"]["code"], "model_not_found");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_answer_under_way_ends_after_a_signal() {
    let service = start(&[]);
    let body = json!({ "model": "starter", "prompt": "// dgemm: unroll simd\n", "max_tokens": 200, "stream": true });
    let mut stream = service.send(COMPLETIONS, &body.to_string());
    let mut first = [0; 16];
    stream.read_exact(&mut first).unwrap();
    service.signal();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert!(!rest.contains("\"error\""), "{rest}");
    assert_eq!(service.exit_code(), Some(0));
}

#[test]
fn wrong_usage_is_one_clear_error() {
    let cases: [(&[&str], &str); 7] = [
        (&["there/is/none"], "there/is/none"),
        (&[STARTER, "--host", "0.0.0.0"], "--token-file"),
        (&[STARTER, "--adapter", "tuned"], "NAME=FOLDER"),
        (&[STARTER, "--adapter", "tuned=there/is/none"], "tuned"),
        (&[STARTER, "--name", "a b"], "cannot name"),
        (
            &[STARTER, "--adapter-folder", "there/is/none"],
            "--adapter-folder",
        ),
        (&[STARTER, "--grace", "soon"], "--grace"),
    ];
    for (arguments, part) in cases {
        let words = [&["model", "serve", "--port", "0"][..], arguments].concat();
        let mut command = flopsmith();
        let output = command.args(words).env_remove("FLOPSMITH_SERVE_TOKEN");
        let output = output.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
