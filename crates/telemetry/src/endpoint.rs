//! The HTTP endpoint of a node: its metrics, whether it is alive, and whether it can work.
//!
//! `/metrics` is in Prometheus' text format; `/live` and `/ready` are for probes. The endpoint changes nothing and
//! shows no secrets, but it does describe the machine. It should therefore listen on loopback or on a private network.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Number of connections that are served at the same time. A probe and a scraper use two.
const MOST: usize = 32;
/// A client that sends no request header within this time is disconnected.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state that the endpoint reports.
pub trait Status: Send + Sync + 'static {
    /// All metrics, in Prometheus' text format.
    fn metrics(&self) -> String;

    /// Succeeds if the node can work.
    ///
    /// # Errors
    /// The reason why the node cannot work, as text for people.
    fn ready(&self) -> Result<(), String>;
}

/// An HTTP endpoint that reports the state of a node.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
}

impl Endpoint {
    /// Listens on `address`; port 0 takes a free port.
    ///
    /// # Errors
    /// The error of the system, for example that the port is taken.
    pub async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener })
    }

    /// The address of the endpoint.
    ///
    /// # Errors
    /// The error of the system.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until the caller drops the future.
    pub async fn serve(self, status: Arc<dyn Status>) {
        let places = Arc::new(Semaphore::new(MOST));
        let mut answering = JoinSet::new();
        loop {
            while answering.try_join_next().is_some() {}
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let status = Arc::clone(&status);
                    answering.spawn(async move {
                        answer(stream, status).await;
                        drop(place);
                    });
                }
                // The usual cause is a lack of file handles, which other tasks may soon release.
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted; trying again");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn answer(stream: TcpStream, status: Arc<dyn Status>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = respond(request.method(), request.uri().path(), &*status);
        async move { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection failed");
    }
}

fn respond(method: &Method, path: &str, status: &dyn Status) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
    }
    match path {
        "/metrics" => {
            let mut response = text(StatusCode::OK, status.metrics());
            let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static(form));
            response
        }
        "/live" => text(StatusCode::OK, "alive\n"),
        "/ready" => match status.ready() {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        _ => text(
            StatusCode::NOT_FOUND,
            "this server answers /metrics, /live and /ready\n",
        ),
    }
}

fn text(code: StatusCode, words: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(words.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Node(AtomicBool);

    impl Status for Node {
        fn metrics(&self) -> String {
            "jobs_total 7\n# EOF\n".into()
        }

        fn ready(&self) -> Result<(), String> {
            match self.0.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err("the bus is unreachable".into()),
            }
        }
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        said
    }

    #[tokio::test]
    async fn a_node_tells_what_it_counted_and_how_it_stands() {
        let endpoint = Endpoint::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = endpoint.address().unwrap();
        let node = Arc::new(Node(AtomicBool::new(false)));
        let questions = async {
            let metrics = ask(address, "GET /metrics").await;
            assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
            assert!(metrics.ends_with("jobs_total 7\n# EOF\n"), "{metrics}");
            assert!(ask(address, "GET /live").await.starts_with("HTTP/1.1 200"));
            let not_yet = ask(address, "GET /ready").await;
            assert!(not_yet.starts_with("HTTP/1.1 503"), "{not_yet}");
            assert!(not_yet.ends_with("the bus is unreachable\n"), "{not_yet}");
            node.0.store(true, Ordering::SeqCst);
            assert!(ask(address, "GET /ready").await.starts_with("HTTP/1.1 200"));
            assert!(ask(address, "GET /").await.starts_with("HTTP/1.1 404"));
            assert!(ask(address, "POST /live").await.starts_with("HTTP/1.1 405"));
            // A malformed request must not stop the endpoint.
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream
                .write_all(b"\x16\x03\x01 hello\r\n\r\n")
                .await
                .unwrap();
            let _ = stream.read_to_string(&mut String::new()).await;
            assert!(ask(address, "GET /live").await.starts_with("HTTP/1.1 200"));
        };
        tokio::select! {
            () = questions => {}
            () = endpoint.serve(Arc::clone(&node) as _) => {}
        }
    }
}
