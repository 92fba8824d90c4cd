//! Checkpoints: saved, damaged, cut off, removed.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use flopsmith_protocol::RunId;
use flopsmith_store::{Checkpoints, Error, Store};
use serde_json::json;

fn run() -> RunId {
    RunId::new("a-run.1").unwrap()
}

fn open(path: &Path) -> Checkpoints {
    Checkpoints::new(Store::open(path.to_str().unwrap()).unwrap(), "learner")
}

/// The files of a step; each step has other contents.
fn files(step: u64) -> Vec<(String, Vec<u8>)> {
    vec![
        ("model.safetensors".to_owned(), vec![step as u8; 5_000]),
        (
            "optimizer.bin".to_owned(),
            format!("moments {step}").into_bytes(),
        ),
        ("empty".to_owned(), vec![]),
    ]
}

async fn save(c: &Checkpoints, step: u64) {
    c.save(&run(), step, files(step), json!({ "step": step, "x": 0.1 }))
        .await
        .unwrap();
}

/// The newest step, with all contents checked.
async fn newest(c: &Checkpoints) -> Option<u64> {
    let found = c.latest(&run()).await.unwrap()?;
    assert_eq!(found.meta["step"], found.step);
    assert_eq!(found.names().count(), 3);
    for (name, bytes) in files(found.step) {
        assert_eq!(found.file(&name).await.unwrap(), bytes);
    }
    Some(found.step)
}

fn folder(root: &Path, step: u64) -> PathBuf {
    root.join(format!("checkpoints/a-run.1/learner/{step:020}"))
}

#[tokio::test]
async fn the_newest_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Checkpoints::new(Store::open("memory:///").unwrap(), "learner");
    for c in [open(dir.path()), memory] {
        assert_eq!(newest(&c).await, None);
        for step in [0, 9, 10, 100, u64::MAX] {
            save(&c, step).await;
            assert_eq!(newest(&c).await, Some(step));
        }
        let other = RunId::new("another").unwrap();
        assert!(c.latest(&other).await.unwrap().is_none());
        assert_eq!(c.keep(&run(), 2).await.unwrap(), [10, 9, 0]);
        assert_eq!(newest(&c).await, Some(u64::MAX));
    }
    let archive = Checkpoints::new(
        Store::open(dir.path().to_str().unwrap()).unwrap(),
        "archive",
    );
    assert!(
        archive.latest(&run()).await.unwrap().is_none(),
        "roles are apart"
    );
}

#[tokio::test]
async fn a_damaged_checkpoint_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let c = open(dir.path());
    save(&c, 1).await;
    save(&c, 2).await;
    let folder = folder(dir.path(), 2);
    let mut tried = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let whole = fs::read(&path).unwrap();
        let mut damages = vec![None, Some([&whole[..], b"x"].concat())];
        if !whole.is_empty() {
            damages.push(Some(whole[..whole.len() / 2].to_vec()));
            damages.push(Some(vec![]));
            // Digits and letters keep the JSON valid, so only the seal can detect the change.
            let at = whole.iter().position(u8::is_ascii_digit).unwrap_or(0);
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            damages.push(Some(flipped));
        }
        for damage in damages {
            match damage {
                Some(bytes) => fs::write(&path, bytes).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            assert_eq!(newest(&c).await, Some(1), "{}", path.display());
            fs::write(&path, &whole).unwrap();
            assert_eq!(newest(&c).await, Some(2));
            tried += 1;
        }
    }
    assert_eq!(tried, 2 + 4 * 5, "five files, one of them empty");
    // Damage between finding and reading.
    let found = c.latest(&run()).await.unwrap().unwrap();
    fs::write(folder.join("optimizer.bin"), "moments 3").unwrap();
    assert!(matches!(
        found.file("optimizer.bin").await,
        Err(Error::Damaged { .. })
    ));
    assert!(matches!(
        found.file("nothing").await,
        Err(Error::Missing { .. })
    ));
    // Without a complete checkpoint there is none, and the next save works.
    fs::remove_file(self::folder(dir.path(), 1).join("manifest.json")).unwrap();
    assert_eq!(newest(&c).await, None);
    save(&c, 1).await;
    assert_eq!(newest(&c).await, Some(1));
}

#[tokio::test]
async fn a_manifest_of_another_step_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let c = open(dir.path());
    save(&c, 1).await;
    fs::rename(folder(dir.path(), 1), folder(dir.path(), 2)).unwrap();
    assert_eq!(newest(&c).await, None);
}

#[tokio::test]
async fn saving_a_step_again_never_leaves_less() {
    let dir = tempfile::tempdir().unwrap();
    let c = open(dir.path());
    save(&c, 1).await;
    save(&c, 1).await;
    save(&c, 1).await;
    assert_eq!(newest(&c).await, Some(1));
    let parent = folder(dir.path(), 1).parent().unwrap().to_owned();
    assert_eq!(
        fs::read_dir(&parent).unwrap().count(),
        1,
        "the older attempts are gone"
    );
    // A new attempt that is cut off does not hide the complete one.
    let cut = parent.join(format!("{:020}.9", 1));
    fs::create_dir(&cut).unwrap();
    fs::write(cut.join("model.safetensors"), "half").unwrap();
    assert_eq!(newest(&c).await, Some(1));
    assert_eq!(
        c.keep(&run(), 5).await.unwrap(),
        [] as [u64; 0],
        "it may be in the making"
    );
    save(&c, 1).await;
    assert!(!cut.exists());
    assert_eq!(newest(&c).await, Some(1));
}

#[tokio::test]
async fn keeping_removes_old_and_cut_off_ones() {
    let dir = tempfile::tempdir().unwrap();
    let c = open(dir.path());
    for step in 1..=6 {
        save(&c, step).await;
    }
    fs::remove_file(folder(dir.path(), 6).join("manifest.json")).unwrap();
    fs::write(folder(dir.path(), 4).join("model.safetensors"), "short").unwrap();
    // Incomplete files have such names.
    fs::write(folder(dir.path(), 1).join("model.safetensors#1"), "half").unwrap();
    fs::create_dir_all(folder(dir.path(), 1).parent().unwrap().join("notes")).unwrap();
    assert_eq!(c.keep(&run(), 2).await.unwrap(), [4, 2, 1]);
    let left: Vec<bool> = (1..=6).map(|s| folder(dir.path(), s).exists()).collect();
    assert_eq!(left, [false, false, true, false, true, true]);
    assert_eq!(newest(&c).await, Some(5));
    assert_eq!(c.keep(&run(), 0).await.unwrap(), [3], "one always stays");
    assert_eq!(newest(&c).await, Some(5));
}

#[tokio::test]
async fn names_that_are_no_plain_file_names() {
    let dir = tempfile::tempdir().unwrap();
    let c = open(dir.path());
    for name in [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a b",
        ".hidden",
        "ä",
        "manifest.json",
        "meta.json",
    ] {
        let e = c
            .save(&run(), 1, [(name.to_owned(), vec![1])], json!({}))
            .await
            .unwrap_err();
        assert!(matches!(e, Error::Name(_)), "{name}: {e:?}");
    }
    let twice = [("a".to_owned(), vec![1]), ("a".to_owned(), vec![2])];
    assert!(matches!(
        c.save(&run(), 1, twice, json!({})).await,
        Err(Error::Name(_))
    ));
    assert!(c.latest(&run()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_save_that_fails_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let c = open(dir.path());
    save(&c, 1).await;
    let blocked = folder(dir.path(), 2);
    fs::write(&blocked, "a file in the place of the folder").unwrap();
    let e = c.save(&run(), 2, files(2), json!({})).await.unwrap_err();
    assert!(matches!(e, Error::Write { .. }), "{e:?}");
    assert!(e.to_string().contains(blocked.to_str().unwrap()), "{e}");
    assert_eq!(newest(&c).await, Some(1));
}
