//! A client of services on this machine.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
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

/// The answers to two bodies that a service should not read: one of a gigabyte by its header, and one of unknown length that sends
/// twice `length` bytes. `head` is method and path.
pub fn large_bodies(address: SocketAddr, head: &str, length: usize) -> [Reply; 2] {
    let chunk = format!("{length:x}\r\n{}\r\n", " ".repeat(length));
    let bodies = [
        "Content-Length: 1073741824\r\n\r\n".to_owned(),
        format!("Transfer-Encoding: chunked\r\n\r\n{chunk}{chunk}"),
    ];
    bodies.map(|body| {
        let mut stream = connect(address);
        let request = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{body}"
        );
        let sent = stream.write_all(request.as_bytes());
        sent.expect("the service reads");
        Reply::read(stream)
    })
}

/// Sends `begin`, and then one byte after the other until the service ends the connection. Returns what the service said.
pub fn drip(address: SocketAddr, begin: &str, byte: u8) -> String {
    let mut stream = connect(address);
    let sent = stream.write_all(begin.as_bytes());
    sent.expect("the service reads");
    // Reading is the pause between two bytes.
    let limited = stream.set_read_timeout(Some(Duration::from_millis(20)));
    limited.expect("the limit is above 0");
    let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < deadline, "the service still waits");
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => said.extend_from_slice(&bytes[..count]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                // The connection may have ended since.
                let _ = stream.write_all(&[byte]);
            }
            // Bytes that came after the answer end the connection.
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// The answers of a service to clients that have the token and send no whole request. It may log that their connections failed.
pub fn broken_requests(address: SocketAddr, path: &str, token: &str) -> String {
    let bearer = format!("Authorization: Bearer {token}");
    let mut said = Vec::new();
    for broken in [
        format!("GET {path} HTTP/1.1\r\n{bearer}\r\nbroken header\r\n\r\n"),
        format!("{bearer} {token}\r\n\r\n"),
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{token}\r\n"
        ),
    ] {
        let mut stream = connect(address);
        let sent = stream.write_all(broken.as_bytes());
        sent.expect("the service reads");
        // A connection that the service resets says as much as it does.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut said);
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// Waits until something is so.
pub fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
