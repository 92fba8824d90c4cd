//! The store against a real S3 server over HTTP.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests, whose server ends with them"
)]

use std::path::PathBuf;

use flopsmith_protocol::{Digest, RunId};
use flopsmith_store::{Checkpoints, Error, Store};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[path = "../examples/s3_server/serve.rs"]
mod serve;

const KEY: &str = "key";
const SECRET: &str = "a secret";

/// A server with one bucket, `artifacts`.
struct World {
    folder: tempfile::TempDir,
    endpoint: String,
    serving: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("artifacts")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let path = folder.path().to_owned();
        let serving = tokio::spawn(async move {
            serve::serve(listener, &path, (KEY, SECRET)).await;
        });
        Self {
            folder,
            endpoint,
            serving,
        }
    }

    fn open(&self, url: &str, secret: &str) -> Store {
        let settings = [
            ("aws_endpoint", self.endpoint.as_str()),
            ("aws_allow_http", "true"),
            ("aws_region", "us-east-1"),
            ("aws_access_key_id", KEY),
            ("aws_secret_access_key", secret),
        ];
        Store::open_with(url, settings.map(|(k, v)| (k.to_owned(), v.to_owned()))).unwrap()
    }

    /// The files below a folder of the bucket.
    fn files(&self, folder: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![self.folder.path().join("artifacts").join(folder)];
        while let Some(next) = left.pop() {
            for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
                match entry.path().is_dir() {
                    true => left.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found
    }
}

#[tokio::test]
async fn artifacts_come_back_and_what_is_damaged_is_refused() {
    let world = World::new().await;
    let store = world.open("s3://artifacts/of/tests", SECRET);
    let honours = store.probe().await.unwrap();
    assert!(honours.listing);
    let small = store.put(&b"a program"[..]).await.unwrap();
    assert_eq!(store.get(&small).await.unwrap(), &b"a program"[..]);
    // In parts, of which the last is shorter.
    let bytes: Vec<u8> = (0..(33usize << 20) + 5).map(|n| (n / 3) as u8).collect();
    let large = store.put(bytes.clone()).await.unwrap();
    assert_eq!(large.digest, Digest::of(&bytes));
    assert!(store.get(&large).await.unwrap() == bytes);
    // Under its prefix, and nowhere else.
    assert!(!world.files("of/tests").is_empty());
    assert_eq!(store.put(&b"a program"[..]).await.unwrap(), small);

    let file = world
        .files("of/tests")
        .into_iter()
        .find(|file| std::fs::read(file).unwrap() == b"a program");
    std::fs::write(file.unwrap(), "another..").unwrap();
    let error = store.get(&small).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    store.remove(&small).await.unwrap();
    store.remove(&small).await.unwrap();
    let error = store.get(&small).await.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
}

#[tokio::test]
async fn checkpoints_are_found_again_and_old_ones_go() {
    let world = World::new().await;
    let store = world.open("s3://artifacts", SECRET);
    let checkpoints = Checkpoints::new(store, "learner");
    let run = RunId::new("run1").unwrap();
    assert!(checkpoints.latest(&run).await.unwrap().is_none());
    for step in [1u64, 2, 3] {
        let files = vec![("state".to_owned(), format!("of step {step}").into_bytes())];
        let meta = serde_json::json!({ "step": step });
        checkpoints.save(&run, step, files, meta).await.unwrap();
    }
    checkpoints.keep(&run, 2).await.unwrap();
    let latest = checkpoints.latest(&run).await.unwrap().unwrap();
    assert_eq!(latest.meta["step"], 3);
    let state = latest.file("state").await.unwrap();
    assert_eq!(state, &b"of step 3"[..]);
}

#[tokio::test]
async fn what_is_wrong_is_said_before_anything_is_begun() {
    let world = World::new().await;
    for (url, secret) in [
        ("s3://no-such-bucket", SECRET),
        ("s3://artifacts", "another secret"),
    ] {
        let refused = world.open(url, secret).probe().await;
        let said = refused.expect_err("it cannot be used").to_string();
        assert!(said.contains(url), "{said}");
    }
}
