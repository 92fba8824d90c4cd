//! An S3 server over a folder, for tests and for machines without access to an image of a real one. It accepts the
//! arguments that the compose file gives to MinIO: `server FOLDER --address :PORT`, with the credentials in
//! MINIO_ROOT_USER and MINIO_ROOT_PASSWORD.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "a server for tests, whose connections end with it"
)]

use std::path::Path;

use tokio::net::TcpListener;

mod serve;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, folder, flag, address] = &arguments[..] else {
        panic!("server FOLDER --address :PORT");
    };
    assert!(command == "server" && flag == "--address", "{arguments:?}");
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (key, secret) = (variable("MINIO_ROOT_USER"), variable("MINIO_ROOT_PASSWORD"));
    let address = match address.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => address.clone(),
    };
    let listener = TcpListener::bind(&address).await;
    let listener = listener.expect("the address is free");
    let serving = serve::serve(
        listener,
        Path::new(folder),
        (&key, &secret),
        serve::Ways::default(),
    );
    tokio::select! {
        () = serving => {}
        _ = tokio::signal::ctrl_c() => {}
        () = terminated() => {}
    }
}

/// The first process of a container has no default action for signals.
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut told = signal(SignalKind::terminate()).expect("signals can be heard");
    told.recv().await;
}
