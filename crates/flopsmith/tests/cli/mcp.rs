//! `mcp`: an agent's whole session with the real program, real measurements included.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use flopsmith_compile::toolchain::find;
use serde_json::{Value, json};

use crate::bench::GOOD;
use crate::flopsmith;

/// Every event that a test waits for comes long before this, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// It does nothing.
const IDLE: &str = "void dgemm(int n,const double*A,const double*B,double*C){}";

/// An agent that has started the program.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Agent {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let mut child = flopsmith()
            .args(["mcp", "--folder"])
            .arg(folder)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            number: 0,
        }
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
    }

    /// The next message. Every line of the output has to be one.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// The answer to a request, and the number of notifications before it.
    fn ask(&mut self, method: &str, params: &Value) -> (Value, usize) {
        self.number += 1;
        let id = self.number;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message.to_string());
        let mut notifications = 0;
        loop {
            let message = self.receive();
            if message["id"] == id {
                return (message, notifications);
            }
            assert_eq!(message["method"], "notifications/progress", "{message}");
            notifications += 1;
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> (Value, usize) {
        let params = json!({
            "name": tool, "arguments": arguments, "_meta": { "progressToken": self.number },
        });
        let (answer, notifications) = self.ask("tools/call", &params);
        assert!(answer["result"].is_object(), "{answer}");
        (answer["result"].clone(), notifications)
    }

    fn result(&mut self, tool: &str, arguments: &Value) -> Value {
        let (result, _) = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Ends the input, and returns the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::park_timeout(Duration::from_millis(20));
        };
        let mut rest = String::new();
        self.output.read_line(&mut rest).unwrap();
        assert_eq!(rest, "", "the output has more than the answers");
        status.code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_agent_evaluates_programs_and_learns_what_to_do_next() {
    let place = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(place.path(), &["--max-evaluations", "4"]);
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    let (answer, _) = agent.ask("initialize", &hello);
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
    let (list, _) = agent.ask("tools/list", &json!({}));
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 8);

    let problem = agent.result("problem", &json!({ "problem": "dgemm" }));
    assert_eq!(problem["entry"], "dgemm");
    let good = json!({ "problem": "dgemm", "source": GOOD, "purpose": "screen" });
    let (found, notifications) = agent.call("evaluate", &good);
    // The first program waits for the measurement of the reference.
    assert!(notifications > 0, "{found}");
    let found = found["structuredContent"].clone();
    // Other tests keep the machine busy, so a screening need not converge.
    let outcome = found["outcome"].as_str().unwrap();
    assert!(["measured", "unconverged"].contains(&outcome), "{found}");
    assert_eq!(found["correct"], true);
    assert!(found["ratio"].as_f64().unwrap() > 0.0, "{found}");
    assert!(found["share_of_roof"].as_f64().unwrap() > 0.0, "{found}");
    assert_eq!(found["budget"]["evaluations"], 3);

    let idle = json!({ "problem": "dgemm", "source": IDLE, "purpose": "screen" });
    let refused = agent.result("evaluate", &idle);
    assert_eq!(
        (&refused["outcome"], &refused["reason"]),
        (&json!("rejected"), &json!("wrong_result"))
    );
    let why = agent.result("explain_refusal", &json!({ "reason": refused["reason"] }));
    assert_eq!(why["fault_of"], "program");
    let roofs = agent.result(
        "roofline",
        &json!({ "problem": "dgemm", "gflops": found["gflops"] }),
    );
    let share = |value: &Value| value["share_of_roof"].as_f64().unwrap();
    assert!(
        (share(&roofs) / share(&found) - 1.0).abs() < 1e-9,
        "{roofs}"
    );
    assert_eq!(
        roofs["workloads"][0]["flops"],
        2.0 * 64.0 * 64.0 * 64.0,
        "{roofs}"
    );

    let (wrong, _) = agent.call(
        "evaluate",
        &json!({ "problem": "../dgemm", "source": GOOD }),
    );
    assert_eq!(wrong["isError"], true, "{wrong}");
    agent.send("{\"jsonrpc\": \"2.0\", ");
    assert_eq!(agent.receive()["error"]["code"], -32_700);
    let programs = json!([{ "source": "int x;" }, { "source": "int y;" }, { "source": "int z;" }]);
    let compare = json!({ "problem": "dgemm", "purpose": "screen", "programs": programs });
    let (wrong, _) = agent.call("compare", &compare);
    let words = wrong["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("2 of 4 evaluations"), "{words}");
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn an_agent_asks_how_its_program_was_built() {
    let place = tempfile::tempdir().unwrap();
    // Each question counts as an evaluation.
    let mut agent = Agent::start(place.path(), &["--max-evaluations", "5"]);
    let ask =
        |source: &str, what: &str| json!({ "problem": "dgemm", "source": source, "what": what });
    for (what, part, left) in [
        ("remarks", "kernel.c:3:", 4),
        ("assembly", "The innermost loop with the most arithmetic", 3),
    ] {
        let explained = agent.result("explain_build", &ask(GOOD, what));
        let text = explained["text"].as_str().unwrap();
        assert!(text.contains(part) && text.len() < 9000, "{text}");
        assert_eq!(explained["budget"]["evaluations"], left);
    }
    let (analysed, _) = agent.call("explain_build", &ask(GOOD, "throughput"));
    let numbered = (14..=30).map(|number| format!("llvm-mca-{number}"));
    let mut names = numbered.chain(["llvm-mca".to_owned()]);
    let (is_error, wanted) = match names.any(|name| find(&name).is_some()) {
        true => (false, "Block RThroughput"),
        false => (true, "no llvm-mca"),
    };
    assert_eq!(analysed["isError"], is_error, "{analysed}");
    let words = analysed["content"][0]["text"].as_str().unwrap();
    assert!(words.contains(wanted), "{words}");

    let undeclared = "void dgemm(int n,const double*A,const double*B,double*C){C[0]=m;}";
    for (source, reason, part) in [
        (undeclared, "compile_error", "'m' undeclared"),
        ("#include \"/etc/passwd\"\n", "forbidden_include", "passwd"),
    ] {
        let (refused, _) = agent.call("explain_build", &ask(source, "assembly"));
        assert_eq!(refused["isError"], true, "{refused}");
        let refused = &refused["structuredContent"];
        assert_eq!(refused["reason"], reason, "{refused}");
        let diagnostics = refused["diagnostics"].as_str().unwrap();
        assert!(diagnostics.contains(part), "{diagnostics}");
    }
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn a_folder_in_use_is_wrong_usage_that_names_the_other_way() {
    let place = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(place.path(), &[]);
    let (answer, _) = agent.ask("ping", &json!({}));
    assert_eq!(answer["result"], json!({}));
    let output = flopsmith()
        .args(["mcp", "--folder"])
        .arg(place.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("/mcp"), "{stderr}");
    assert!(output.stdout.is_empty());
    for (more, said) in [
        (["--max-seconds", "soon"], "--max-seconds"),
        (["--max-message", "1"], "--max-message"),
        (["--compiler", "ls"], "name gcc, clang"),
    ] {
        let output = flopsmith().arg("mcp").args(more).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(stderr.contains(said), "{more:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{more:?}");
    }
    assert_eq!(agent.end(), Some(0));
}
