//! Key-value buckets and their fence.

use flopsmith_bus::{Auth, Bus, Error, RunSetup, ServerOptions};

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

    // Two learners, each of which assumes that it is the only one.
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

/// Holders of leases and the outcome cache write only to buckets; so their errors must name a full server as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_named_by_every_way_to_write_a_key() {
    let options = ServerOptions {
        max_store_bytes: Some(1 << 20),
        ..ServerOptions::default()
    };
    let world = World::with(&RunSetup::default(), options).await;
    let kv = world.bus.kv("leases").await.unwrap();
    let revision = kv.put("archive", "held").await.unwrap();
    let mut filled = 0;
    while kv.put(&format!("k{filled}"), vec![0; 60_000]).await.is_ok() {
        filled += 1;
        assert!(filled < 100, "the limit does not hold");
    }
    let large = || vec![1u8; 60_000];
    let refused = [
        kv.put("archive", large()).await.unwrap_err(),
        kv.create("other", large()).await.unwrap_err(),
        kv.update("archive", large(), revision).await.unwrap_err(),
        kv.replace("archive", large(), revision).await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::StoreFull { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("$KV.leases."), "{said}");
        assert!(said.contains("max_file_store"), "{said}");
    }
}

/// The server counts what streams reserve when it makes or changes one, not what they keep.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_named_where_buckets_and_streams_are_set_up() {
    let room = 1 << 20;
    let options = ServerOptions {
        max_store_bytes: Some(room),
        ..ServerOptions::default()
    };
    let world = World::with(&RunSetup::default(), options).await;
    let options = world.server.connect_options();
    let Auth::Token(token) = options.auth else {
        panic!("a server of one's own has a token");
    };
    let client = async_nats::ConnectOptions::with_token(token);
    let admin = async_nats::jetstream::new(client.connect(options.url).await.unwrap());
    admin.delete_stream("DEAD").await.unwrap();
    let reserving = async_nats::jetstream::stream::Config {
        name: "OTHER".into(),
        max_bytes: room as i64,
        ..Default::default()
    };
    admin.create_stream(reserving).await.unwrap();
    let bus = &world.bus;
    for (error, of) in [
        (bus.kv("another").await.err().unwrap(), "$KV.another.>"),
        (
            bus.set_up_bucket("another", 1).await.unwrap_err(),
            "$KV.another.>",
        ),
        (
            bus.set_up_streams(&RunSetup::default()).await.unwrap_err(),
            "stream ",
        ),
    ] {
        assert!(matches!(error, Error::StoreFull { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains(&format!("no room for {of}")), "{said}");
    }
}
