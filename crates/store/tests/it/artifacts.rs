//! Artifacts in a folder, and in an invalid store.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_protocol::{ArtifactRef, Digest};
use flopsmith_store::{Error, Store};

fn open(path: &std::path::Path) -> Store {
    Store::open(path.to_str().unwrap()).unwrap()
}

/// The whole chain of causes, as the binary prints it.
fn words(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(e) = next {
        text += &format!(": {e}");
        next = e.source();
    }
    text
}

#[tokio::test]
async fn stored_artifacts_can_be_fetched() {
    let dir = tempfile::tempdir().unwrap();
    for store in [
        open(&dir.path().join("new/folder")),
        Store::open("memory:///").unwrap(),
    ] {
        // An artifact longer than the in-memory limit of hashing.
        for bytes in [vec![], b"binary".to_vec(), vec![7; 3 << 20]] {
            let artifact = store.put(bytes.clone()).await.unwrap();
            assert_eq!(artifact.digest, Digest::of(&bytes));
            assert_eq!(artifact.size, bytes.len() as u64);
            assert_eq!(store.get(&artifact).await.unwrap(), bytes);
            assert_eq!(store.put(bytes).await.unwrap(), artifact, "twice is once");
        }
    }
}

#[tokio::test]
async fn an_artifact_lies_under_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let artifact = store.put("x").await.unwrap();
    let digest = artifact.digest.as_str();
    let path = store.path(&artifact).unwrap();
    assert!(path.ends_with(format!("artifacts/{}/{}", &digest[..2], &digest[2..])));
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
    assert_eq!(
        std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "no other file is left"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(Store::open("memory:///").unwrap().path(&artifact), None);
}

#[tokio::test]
async fn removing_an_artifact_leaves_all_others() {
    let dir = tempfile::tempdir().unwrap();
    for store in [open(dir.path()), Store::open("memory:///").unwrap()] {
        let old = store.put("old weights").await.unwrap();
        let other = store.put("other weights").await.unwrap();
        for _ in 0..2 {
            store.remove(&old).await.unwrap();
            assert!(matches!(
                store.get(&old).await.unwrap_err(),
                Error::Missing { .. }
            ));
            assert_eq!(store.get(&other).await.unwrap(), "other weights");
        }
        assert_eq!(store.put("old weights").await.unwrap(), old);
        assert_eq!(store.get(&old).await.unwrap(), "old weights");
    }
    // An artifact that cannot be removed is an error.
    let store = open(dir.path());
    let artifact = store.put("in the way").await.unwrap();
    let path = store.path(&artifact).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let e = store.remove(&artifact).await.unwrap_err();
    assert!(matches!(e, Error::Remove { .. }), "{e:?}");
    assert!(e.to_string().contains(path.to_str().unwrap()), "{e}");
}

#[tokio::test]
async fn many_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..64_u8 {
        let store = store.clone();
        // Every content is put by several tasks.
        tasks.spawn(async move {
            let bytes = vec![i % 8; 10_000];
            let artifact = store.put(bytes.clone()).await.unwrap();
            assert_eq!(store.get(&artifact).await.unwrap(), bytes);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn damage_is_noticed_and_mended_by_putting_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let artifact = store.put("some content").await.unwrap();
    let path = store.path(&artifact).unwrap();
    for damaged in ["some contenT", "some", "", "some content and more"] {
        std::fs::write(&path, damaged).unwrap();
        let e = store.get(&artifact).await.unwrap_err();
        assert!(matches!(e, Error::Damaged { .. }), "{e:?}");
        assert!(e.to_string().contains(path.to_str().unwrap()), "{e}");
        store.put("some content").await.unwrap();
        assert_eq!(store.get(&artifact).await.unwrap(), "some content");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(
        store.get(&artifact).await.unwrap_err(),
        Error::Missing { .. }
    ));
    let lie = ArtifactRef {
        size: 3,
        ..store.put("some content").await.unwrap()
    };
    assert!(matches!(
        store.get(&lie).await.unwrap_err(),
        Error::Damaged { .. }
    ));
}

#[tokio::test]
async fn folders_that_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    // Root may write anywhere except in the kernel's own tree.
    for path in [
        file.clone(),
        file.join("below"),
        "/proc".into(),
        "/proc/none".into(),
    ] {
        let e = Store::open(path.to_str().unwrap()).unwrap_err();
        assert!(matches!(e, Error::Folder { .. }), "{e:?}");
        assert!(e.to_string().contains(path.to_str().unwrap()), "{e}");
    }
    // An obstacle appears later.
    let store = open(dir.path());
    std::fs::write(dir.path().join("artifacts"), "").unwrap();
    let e = store.put("x").await.unwrap_err();
    assert!(matches!(e, Error::Write { .. }), "{e:?}");
    assert!(
        words(&e).contains(dir.path().to_str().unwrap()),
        "{}",
        words(&e)
    );
}

#[tokio::test]
async fn addresses() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let store = Store::open(&url).unwrap();
    store.put("x").await.unwrap();
    assert!(dir.path().join("artifacts").is_dir());
    for wrong in ["nowhere://x/y", "s3://", "file://relative/path"] {
        let e = Store::open(wrong).unwrap_err();
        assert!(matches!(e, Error::Url { .. }), "{wrong}: {e:?}");
        assert!(e.to_string().contains(wrong), "{e}");
    }
    // Without two slashes an address would be the name of a folder here.
    for (wrong, meant) in [
        ("s3:/bad", "s3://bad"),
        ("s3:bucket/prefix", "s3://bucket/prefix"),
        ("S3:/bad", "S3://bad"),
        ("file:/tmp/x", "file:///tmp/x"),
    ] {
        let e = Store::open(wrong).unwrap_err();
        assert!(e.to_string().contains(meant), "{wrong}: {e}");
        let folder = wrong.split('/').next().unwrap();
        assert!(!std::path::Path::new(folder).exists(), "{folder}");
    }
    let e = Store::open("s3://bad bucket/x").unwrap_err();
    assert!(matches!(e, Error::Url { .. }), "{e:?}");
    // A folder may have a colon in its name.
    let colon = dir.path().join("runs:old");
    Store::open(colon.to_str().unwrap()).unwrap();
    assert!(colon.is_dir());
    // Opening a bucket needs no network.
    let account = ("azure_storage_account_name", "account");
    let key = ("azure_storage_account_key", "a2V5");
    let known = [account, key].map(|(name, value)| (name.to_owned(), value.to_owned()));
    for right in [
        "s3://bucket/prefix",
        "gs://bucket",
        "azure://container/prefix",
    ] {
        let store = Store::open_with(right, known.clone()).unwrap();
        assert_eq!(store.name(), right);
    }
}

#[tokio::test]
async fn a_store_is_the_same_by_whatever_way_and_no_other_one_is() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path());
    let first = store.identity().await.unwrap();
    assert_eq!(first.len(), 32);
    let url = format!("file://{}", dir.path().display());
    let again = Store::open(&url).unwrap();
    assert_eq!(again.identity().await.unwrap(), first);
    assert_ne!(open(other.path()).identity().await.unwrap(), first);
    // Concurrent requests get the same answer.
    let memory = Store::open("memory:///").unwrap();
    let all = futures::future::join_all((0..16).map(|_| memory.identity())).await;
    let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
}

#[tokio::test]
async fn a_store_that_can_be_used_says_so_and_keeps_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    for store in [open(dir.path()), Store::open("memory:///").unwrap()] {
        let honours = store.probe().await.unwrap();
        assert!(honours.conditional_create && honours.listing, "{honours:?}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path().join(".flopsmith-probe"))
        .into_iter()
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
