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

#[path = "../../examples/s3_server/serve.rs"]
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
        Self::with(serve::Ways::default()).await
    }

    async fn with(ways: serve::Ways) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("artifacts")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let path = folder.path().to_owned();
        let serving = tokio::spawn(async move {
            serve::serve(listener, &path, (KEY, SECRET), ways).await;
        });
        Self {
            folder,
            endpoint,
            serving,
        }
    }

    fn open(&self, url: &str, secret: &str) -> Store {
        self.open_at(url, secret, &[("aws_endpoint", &self.endpoint)])
    }

    fn open_at(&self, url: &str, secret: &str, more: &[(&str, &str)]) -> Store {
        let settings = [
            ("aws_allow_http", "true"),
            ("aws_region", "us-east-1"),
            ("aws_access_key_id", KEY),
            ("aws_secret_access_key", secret),
        ];
        let settings = settings.iter().chain(more);
        Store::open_with(
            url,
            settings.map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
        )
        .unwrap()
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
async fn artifacts_come_back_and_damaged_ones_are_refused() {
    let world = World::new().await;
    let store = world.open("s3://artifacts/of/tests", SECRET);
    let honours = store.probe().await.unwrap();
    assert!(honours.listing && honours.conditional_create);
    let small = store.put(&b"a program"[..]).await.unwrap();
    assert_eq!(store.get(&small).await.unwrap(), &b"a program"[..]);
    // In parts, the last of which is shorter.
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

/// As Garage does.
#[tokio::test]
async fn a_store_that_writes_over_what_is_there_loses_nothing() {
    let world = World::with(serve::Ways {
        ignores_conditions: true,
        ..serve::Ways::default()
    })
    .await;
    let store = world.open("s3://artifacts", SECRET);
    let honours = store.probe().await.unwrap();
    assert!(honours.listing && !honours.conditional_create);
    let identity = store.identity().await.unwrap();
    assert_eq!(store.identity().await.unwrap(), identity);

    let artifact = store.put(&b"a program"[..]).await.unwrap();
    let others = (0..8).map(|_| store.put(&b"a program"[..]));
    for written in futures::future::join_all(others).await {
        assert_eq!(written.unwrap(), artifact);
    }
    assert_eq!(store.get(&artifact).await.unwrap(), &b"a program"[..]);

    let checkpoints = Checkpoints::new(store, "learner");
    let run = RunId::new("run1").unwrap();
    for meta in ["first", "again"] {
        let files = vec![("state".to_owned(), meta.as_bytes().to_vec())];
        let meta = serde_json::json!({ "from": meta });
        checkpoints.save(&run, 1, files, meta).await.unwrap();
    }
    let latest = checkpoints.latest(&run).await.unwrap().unwrap();
    let state = latest.file("state").await.unwrap();
    assert_eq!(latest.meta["from"], String::from_utf8_lossy(&state)[..]);
}

/// The bucket is a name in the server's domain. Names are the proxy's affair here, which is the server itself.
#[tokio::test]
async fn buckets_can_be_names_of_hosts() {
    let world = World::with(serve::Ways {
        domain: Some("s3.test"),
        ..serve::Ways::default()
    })
    .await;
    let store = world.open_at(
        "s3://artifacts/of/tests",
        SECRET,
        &[
            ("aws_virtual_hosted_style_request", "true"),
            ("aws_endpoint", "http://artifacts.s3.test"),
            ("proxy_url", &world.endpoint),
        ],
    );
    store.probe().await.unwrap();
    let bytes: Vec<u8> = (0..(9usize << 20)).map(|n| (n / 3) as u8).collect();
    let artifact = store.put(bytes.clone()).await.unwrap();
    assert!(store.get(&artifact).await.unwrap() == bytes);
    assert!(!world.files("of/tests").is_empty());
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
async fn bad_buckets_and_secrets_are_reported_before_a_run_begins() {
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

#[tokio::test]
async fn a_store_that_should_encrypt_and_does_not_is_an_error() {
    let world = World::new().await;
    let endpoint = world.endpoint.replace("http://", "https://");
    let store = world.open_at("s3://artifacts", SECRET, &[("aws_endpoint", &endpoint)]);
    let refused = store.probe().await;
    let said = refused.expect_err("nobody encrypts there").to_string();
    assert!(said.contains("s3://artifacts"), "{said}");
}
