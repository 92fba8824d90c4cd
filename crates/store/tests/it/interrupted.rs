//! Faults that need a separate process: it is killed, its disk is full, its disk is read-only.
//!
//! Each test runs this same test program as a child that does the writing.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use flopsmith_protocol::RunId;
use flopsmith_store::{Checkpoints, Error, Store};
use serde_json::json;

const ROOT: &str = "FLOPSMITH_TEST_STORE_ROOT";

/// Runs one `#[ignore]`d test of this program on a folder.
fn child(mut command: Command, name: &str, root: &Path) -> Command {
    command
        .args([
            "--exact",
            &format!("interrupted::{name}"),
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROOT, root);
    command
}

fn this_program() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

fn root() -> String {
    std::env::var(ROOT).expect("only run by the other tests")
}

fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

fn files(step: u64) -> Vec<(String, Vec<u8>)> {
    (0..4)
        .map(|i| (format!("part{i}"), vec![step as u8 ^ i; 200_000]))
        .collect()
}

#[tokio::test]
#[ignore = "the child of `killed_while_saving`"]
async fn save_for_ever() {
    let c = Checkpoints::new(Store::open(&root()).unwrap(), "learner");
    let run = RunId::new("run").unwrap();
    let first = c.latest(&run).await.unwrap().map_or(0, |c| c.step + 1);
    for step in first.. {
        // The same step once more, as after a resume.
        for _ in 0..2 {
            c.save(&run, step, files(step), json!({ "step": step }))
                .await
                .unwrap();
            say(format_args!("saved {step}"));
        }
        c.keep(&run, 2).await.unwrap();
    }
}

#[tokio::test]
async fn killed_while_saving() {
    let dir = tempfile::tempdir().unwrap();
    let c = Checkpoints::new(
        Store::open(dir.path().to_str().unwrap()).unwrap(),
        "learner",
    );
    let run = RunId::new("run").unwrap();
    let mut saved = None;
    for round in 0..12_u32 {
        let mut child = child(Command::new(this_program()), "save_for_ever", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = 1 + round % 4;
        for line in lines {
            let line = line.unwrap();
            if let Some(step) = line.split("saved ").nth(1) {
                saved = Some(step.parse::<u64>().unwrap());
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
        // Other moments of the next save in each round.
        let started = std::time::Instant::now();
        while started.elapsed().as_micros() < u128::from(round) * 700 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = c
            .latest(&run)
            .await
            .unwrap()
            .expect("what was reported as saved is there");
        assert!(Some(found.step) >= saved, "{} after {saved:?}", found.step);
        assert_eq!(found.meta["step"], found.step);
        for (name, bytes) in files(found.step) {
            assert_eq!(found.file(&name).await.unwrap(), bytes);
        }
    }
    // The leftovers of the killed processes do not pile up.
    let step = saved.unwrap() + 10;
    c.save(&run, step, files(step), json!({})).await.unwrap();
    c.keep(&run, 1).await.unwrap();
    let parent = dir.path().join("checkpoints/run/learner");
    assert_eq!(std::fs::read_dir(parent).unwrap().count(), 1);
}

#[tokio::test]
#[ignore = "the child of `full_disk`"]
async fn fill() {
    let store = Store::open(&root()).unwrap();
    let artifact = store.put(vec![1; 50_000]).await.unwrap();
    let c = Checkpoints::new(store.clone(), "learner");
    let run = RunId::new("run").unwrap();
    c.save(&run, 1, [("small".to_owned(), vec![1; 10])], json!({}))
        .await
        .unwrap();
    for e in [
        store.put(vec![2; 1 << 20]).await.unwrap_err(),
        c.save(&run, 2, files(2), json!({})).await.unwrap_err(),
    ] {
        assert!(matches!(e, Error::Full { .. }), "{e:?}");
        assert!(e.to_string().contains(&root()), "{e}");
    }
    // The earlier artifact and checkpoint are still there.
    assert_eq!(store.get(&artifact).await.unwrap(), vec![1; 50_000]);
    assert_eq!(c.latest(&run).await.unwrap().unwrap().step, 1);
    say("as expected");
}

#[tokio::test]
#[ignore = "the child of `read_only_disk`"]
async fn refused() {
    let e = Store::open(&root()).unwrap_err();
    assert!(matches!(e, Error::Folder { .. }), "{e:?}");
    assert!(e.to_string().contains(&root()), "{e}");
    say("as expected");
}

/// Runs a child in its own mount namespace.
fn in_bubblewrap(mounts: &[&str], name: &str, root: &Path) {
    let mut bwrap = Command::new("bwrap");
    bwrap
        .args(["--dev-bind", "/", "/"])
        .args(mounts)
        .arg(root)
        .arg("--")
        .arg(this_program());
    let output = child(bwrap, name, root)
        .output()
        .expect("bubblewrap is needed: apt-get install bubblewrap");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("as expected"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn full_disk() {
    let dir = tempfile::tempdir().unwrap();
    in_bubblewrap(&["--size", "400000", "--tmpfs"], "fill", dir.path());
}

#[test]
fn read_only_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    in_bubblewrap(&["--ro-bind", path], "refused", dir.path());
}
