//! A running service of the program, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Every event that a test waits for comes long before this, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A running service. It ends with its value.
pub struct Service {
    child: Child,
    /// Host and port.
    pub address: String,
}

impl Service {
    /// Starts a command that prints its address as its first line.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .env_remove("FLOPSMITH_SERVE_TOKEN")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_default();
        assert!(!address.is_empty(), "no address: {line:?}");
        Self {
            address: address.to_owned(),
            child,
        }
    }

    /// Sends a request; `head` is its method and its path. With HTTP/1.0 the service closes the connection at the end of
    /// its response.
    pub fn send(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let request = format!(
            "{head} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// The body of the response.
    pub fn ask(&self, head: &str, body: &str) -> String {
        let mut text = String::new();
        self.send(head, body).read_to_string(&mut text).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        body.to_owned()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop.
    pub fn signal(&self) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(done.unwrap().success());
    }

    /// Waits for its end, and returns its exit code.
    pub fn exit_code(mut self) -> Option<i32> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Asks it to stop, and returns its exit code.
    pub fn stop(self) -> Option<i32> {
        self.signal();
        self.exit_code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
    }
}
