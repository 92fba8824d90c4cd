//! A client of services on this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Everything that a test waits for comes long before this.
const LIMIT: Duration = Duration::from_secs(60);

/// A connection to a service.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the service listens");
    let limited = stream.set_read_timeout(Some(LIMIT));
    limited.expect("the limit is above 0");
    stream
}

/// Sends a request with a body of JSON; `head` is its method and path. With HTTP/1.0 the server closes the connection at the end of its
/// response.
pub fn send(address: SocketAddr, head: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = connect(address);
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let request = format!(
        "{head} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    let sent = stream.write_all(request.as_bytes());
    sent.expect("the service reads");
    stream
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its first line and headers in lower case.
    pub head: String,
    /// Its body.
    pub body: String,
}

impl Reply {
    /// Reads a response to its end.
    pub fn read(mut stream: TcpStream) -> Self {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("a response");
        let (head, body) = text.split_once("\r\n\r\n").expect("an end of the headers");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Self {
            status: status.expect("a status"),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    /// Its body as JSON.
    #[expect(clippy::panic, reason = "only tests call this")]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// Waits until something is so.
pub fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
