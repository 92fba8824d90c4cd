//! Key-value buckets and their fence.

use flopsmith_bus::{Bus, Error};

use crate::World;

#[tokio::test(flavor = "multi_thread")]
async fn only_the_newest_revision_may_be_replaced() {
    let world = World::new().await;
    let kv = world.bus.kv("pointers").await.unwrap();
    assert_eq!(kv.get("latest").await.unwrap(), None);
    let first = kv.create("latest", "v1").await.unwrap();
    let error = kv.create("latest", "other").await.unwrap_err();
    assert!(
        matches!(error, Error::Conflict { expected: 0, .. }),
        "{error}"
    );

    // Two learners, each believing that it is the only one.
    let other = Bus::connect(&world.server)
        .await
        .unwrap()
        .kv("pointers")
        .await
        .unwrap();
    let second = other.update("latest", "v2", first).await.unwrap();
    let error = kv
        .update("latest", "v2 of another", first)
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Conflict { expected, .. } if expected == first),
        "{error}"
    );
    let entry = kv.get("latest").await.unwrap().unwrap();
    assert_eq!((&entry.value[..], entry.revision), (&b"v2"[..], second));

    let third = kv.put("latest", "v3").await.unwrap();
    assert!(third > second);
    kv.delete("latest").await.unwrap();
    assert_eq!(kv.get("latest").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_names_are_refused() {
    let world = World::new().await;
    assert!(matches!(
        world.bus.kv("a bucket").await.err().unwrap(),
        Error::Kv { .. }
    ));
    let kv = world.bus.kv("pointers").await.unwrap();
    let error = kv.put("a key", "").await.unwrap_err();
    assert!(
        error.to_string().contains("`a key` of bucket `pointers`"),
        "{error}"
    );
}
