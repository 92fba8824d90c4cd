//! `model serve`: the real program with the starter model, from its start to a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{flopsmith, run};

/// Every event that a test waits for comes long before this, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const STARTER: &str = "models/starter";

struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(more: &[&str]) -> Self {
        let mut child = flopsmith()
            .args(["model", "serve", STARTER, "--port", "0"])
            .args(more)
            .env_remove("FLOPSMITH_SERVE_TOKEN")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_default();
        assert!(!address.is_empty(), "no address: {line:?}");
        Self {
            address: address.to_owned(),
            child,
        }
    }

    /// Sends a request. With HTTP/1.0 the service closes the connection at the end of its response.
    fn send(&self, path: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        let mut text = String::new();
        self.send(path, body).read_to_string(&mut text).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    fn signal(&self) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(done.unwrap().success());
    }

    fn exit_code(mut self) -> Option<i32> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

#[test]
fn a_seed_gives_the_text_that_model_sample_prints() {
    let prompt = "// dgemm: unroll simd\n";
    let draws = ["--seed", "7", "--temperature", "0.8", "--max-tokens", "60"];
    let sample = ["model", "sample", STARTER, "--prompt", prompt];
    let printed = run(&[&sample[..], &draws[..]].concat());
    assert_eq!(printed.status.code(), Some(0));
    let printed = String::from_utf8(printed.stdout).unwrap();
    let service = Service::start(&["--name", "mine"]);
    let body = json!({ "model": "mine", "prompt": prompt, "seed": 7, "temperature": 0.8, "max_tokens": 60 });
    let answer = service.ask("/v1/completions", &body);
    let text = answer["choices"][0]["text"].as_str().unwrap();
    assert_eq!(text.trim_end(), printed.trim_end(), "{answer}");
    let unknown = service.ask(
        "/v1/completions",
        &json!({ "model": "starter", "prompt": "a" }),
    );
    assert_eq!(unknown["error"]["code"], "model_not_found");
    service.signal();
    assert_eq!(service.exit_code(), Some(0));
}

#[test]
fn an_answer_under_way_ends_after_a_signal() {
    let service = Service::start(&[]);
    let body = json!({ "model": "starter", "prompt": "// dgemm: unroll simd\n", "max_tokens": 200, "stream": true });
    let mut stream = service.send("/v1/completions", &body);
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
    let cases: [(&[&str], &str); 6] = [
        (&["there/is/none"], "there/is/none"),
        (&[STARTER, "--host", "0.0.0.0"], "--token-file"),
        (&[STARTER, "--adapter", "tuned"], "NAME=FOLDER"),
        (&[STARTER, "--adapter", "tuned=there/is/none"], "tuned"),
        (&[STARTER, "--name", "a b"], "cannot name"),
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
