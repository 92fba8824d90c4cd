//! `flopsmith dead` on the messages of a stopped run.

use flopsmith_bus::{Bus, RunSetup, Server, ServerOptions, Worker, WorkerOptions};
use flopsmith_protocol::Candidate;
use flopsmith_protocol::subjects::Queue;
use flopsmith_test_support::{candidate, machine_class};

use super::*;

const QUEUE: &str = "fs.v1.work.compile.local.r";
/// Dead letters of this subject belong to no queue.
const OF_NO_QUEUE: &str = "fs.v1.dead.event.r.policy";

/// Leaves a run without a compiler node for these programs. The first dead letter belongs to no queue.
async fn run_with_dead_letters(folder: &Path, samples: u32) {
    let store = folder.join("nats");
    let server = Server::start(None, &store, ServerOptions::default());
    let server = server.await.unwrap();
    let bus = Bus::connect(&server).await.unwrap();
    bus.ensure_streams(&RunSetup::default()).await.unwrap();
    let options = WorkerOptions::new(Queue::compile(&machine_class()).all(), 1);
    let mut worker: Worker<Candidate> = bus.worker(options).await.unwrap();
    let message = |sample| Candidate {
        candidate: candidate(1, 0, sample),
        source: "void dgemm(void);".into(),
        answer: None,
    };
    bus.publish(OF_NO_QUEUE, &message(samples)).await.unwrap();
    for sample in 0..samples {
        bus.publish(QUEUE, &message(sample)).await.unwrap();
        let delivery = worker.next().await.unwrap();
        delivery.dead("there is no compiler").await.unwrap();
    }
    drop(worker);
    bus.drain().await.unwrap();
    server.stop().await;
}

#[test]
fn dead_letters_are_listed_shown_and_requeued() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("dgemm-1");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "problem = \"dgemm\"\n").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run_with_dead_letters(&folder, 3));
    let runs = place.path().to_str().unwrap();
    let dead = |words: &[&str]| {
        let output = run(&[&["dead"], words, &["--runs", runs]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), last_line(&output), said)
    };

    let (code, listed, said) = dead(&["list", "--format", "json"]);
    assert_eq!(code, Some(0), "{said}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let numbers: Vec<u64> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|letter| letter["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let keys = "number queue id reason attempts died_unix_ms bytes truncated";
    assert_rows(&listed, keys);
    assert_eq!(listed[1]["queue"], QUEUE);
    assert_eq!(listed[1]["reason"], "there is no compiler");

    let (_, shown, _) = dead(&["show", "2", "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["message"]["body"]["source"], "void dgemm(void);");
    assert_keys(&shown, &format!("{keys} message"), "");
    let (code, text, _) = dead(&["list"]);
    assert!(
        code == Some(0) && text.contains("there is no compiler"),
        "{text}"
    );

    let (code, _, said) = dead(&["retry", "2", "9"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no dead letter 9"), "{said}");
    let (code, back, said) = dead(&["retry", "2"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(back, format!("2: back in {QUEUE}"));
    let (_, left, _) = dead(&["list", "--format", "json"]);
    let left: Value = serde_json::from_str(&left).unwrap();
    assert_eq!(left.as_array().unwrap().len(), 3);
    let (code, _, _) = dead(&["retry", "--all", "--queue", "fs.v1.work.verify.local"]);
    assert_eq!(code, Some(0));
    // No program is at fault if a letter cannot go back, and the others do.
    let (code, back, said) = dead(&["retry", "--all"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("dead letter 1 "), "{said}");
    assert_eq!(back, format!("4: back in {QUEUE}"));
    let (_, left, said) = dead(&["list", "--format", "json"]);
    let left: Value = serde_json::from_str(&left).unwrap();
    let left = left.as_array().unwrap();
    assert_eq!(left.len(), 1, "{said}");
    assert_eq!(left[0]["number"], 1);
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap_or_default().to_owned()
}
