//! Connections: how many, for how long, and their orderly end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

/// Number of connections that are served at the same time.
const MOST: usize = 2048;
/// Length of the longest request header, and of what is read ahead of a body, bytes.
const HEADER: usize = 64 << 10;
/// File handles of this process: connections, and files and processes of the evaluation.
const HANDLES: u64 = 8192;

/// Limits on the time of connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A client that does not send a whole request header within this time is disconnected. So is an idle one.
    pub header: Duration,
    /// A client that takes no byte of a response for this time is disconnected.
    pub write: Duration,
    /// Time that responses have to end after a request to stop.
    pub grace: Duration,
}

impl Default for Limits {
    /// 30 s for a header, 30 s for a byte of a response, and 5 s to stop.
    fn default() -> Self {
        Self {
            header: Duration::from_secs(30),
            write: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

/// Allows this process as many file handles as its connections need, if the system permits it.
pub fn allow_connections() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < HANDLES
    {
        // A lower limit only means that some connections wait until others end.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, HANDLES.min(hard), hard);
    }
}

/// Answers requests until `stopping` is cancelled; then lets the responses under way end, for a limited time. Each
/// connection holds what `connected` gives for it until its end.
pub async fn serve<C: Send + 'static>(
    listener: TcpListener,
    router: Router,
    stopping: CancellationToken,
    limits: Limits,
    connected: impl Fn() -> C,
) {
    let places = Arc::new(Semaphore::new(MOST));
    let mut answering = JoinSet::new();
    loop {
        while answering.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = stopping.cancelled() => break,
        };
        let Some((stream, place)) = accepted else {
            continue;
        };
        let connected = connected();
        let (router, stopping) = (router.clone(), stopping.clone());
        answering.spawn(async move {
            answer(stream, router, stopping, limits).await;
            drop((place, connected));
        });
    }
    drop(listener);
    let ended = async { while answering.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.grace, ended).await.is_err() {
        tracing::warn!("some responses did not end in time");
    }
}

type Accepted = (TcpStream, tokio::sync::OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        // The usual cause is a lack of file handles, which other tasks may soon release.
        Err(error) => {
            tracing::warn!(%error, "a connection cannot be accepted; trying again");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn answer(stream: TcpStream, router: Router, stopping: CancellationToken, limits: Limits) {
    // A line of the answers is sent when it is written, and not with the next one.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(HEADER)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            TowerToHyperService::new(router),
        )
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection failed");
    }
}
