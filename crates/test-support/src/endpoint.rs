//! An HTTP server on this machine that answers chat completions by a script: right, late, in halves, wrong, or never. It answers
//! `HEAD` at once, and neither counts it nor asks the script.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Every client of a test leaves long before this.
const LIMIT: Duration = Duration::from_secs(120);
/// The end of a stream.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A request that the server read.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its first line and headers.
    pub head: String,
    /// Its body.
    pub body: String,
    /// Its number, from 0.
    pub number: usize,
}

/// The reaction of the server to a request.
#[derive(Debug, Clone)]
pub enum Act {
    /// It answers with this status, these further header lines and this body.
    Answer(u16, &'static str, String),
    /// It sends these events as a stream, and ends it.
    Stream(Vec<String>),
    /// It sends these events, and closes the connection in the middle of the stream.
    Cut(Vec<String>),
    /// It sends these events, and no more, until the client leaves.
    Hang(Vec<String>),
    /// It sends these events as a stream, each so long after what came before, and ends it.
    Slow(Duration, Vec<String>),
    /// It sends half of an answer with this status and body, and closes the connection.
    Half(u16, String),
    /// It does this so much later, unless the client has left.
    Late(Duration, Box<Act>),
    /// It sends nothing until the client leaves.
    Never,
    /// It closes the connection.
    Close,
}

impl Act {
    /// A whole answer with this text, and the numbers of tokens of prompt and answer.
    pub fn whole(text: &str, tokens: (u64, u64)) -> Self {
        Self::Answer(200, "", Self::body(text, tokens))
    }

    /// The same as a stream.
    pub fn streamed(text: &str, tokens: (u64, u64)) -> Self {
        Self::Stream(Self::events(text, tokens))
    }

    /// The body of a whole answer.
    pub fn body(text: &str, (input, output): (u64, u64)) -> String {
        let text = quoted(text);
        format!(
            r#"{{"model":"served","choices":[{{"message":{{"role":"assistant","content":{text}}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":{input},"completion_tokens":{output}}}}}"#
        )
    }

    /// The events of an answer.
    pub fn events(text: &str, (input, output): (u64, u64)) -> Vec<String> {
        let mut events = Self::pieces(text);
        events.extend([
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.to_owned(),
            format!(
                r#"{{"choices":[],"usage":{{"prompt_tokens":{input},"completion_tokens":{output}}}}}"#
            ),
            "[DONE]".to_owned(),
        ]);
        events
    }

    /// The events of a text, in two pieces, without an end.
    pub fn pieces(text: &str) -> Vec<String> {
        let middle = (0..=text.len() / 2)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        let (first, second) = text.split_at(middle);
        [first, second]
            .map(|part| {
                let part = quoted(part);
                format!(r#"{{"model":"served","choices":[{{"delta":{{"content":{part}}}}}]}}"#)
            })
            .into()
    }

    /// An error.
    pub fn error(status: u16, headers: &'static str, message: &str) -> Self {
        let message = quoted(message);
        let body = format!(r#"{{"error":{{"message":{message}}}}}"#);
        Self::Answer(status, headers, body)
    }
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

type Script = dyn Fn(&Asked) -> Act + Send + Sync;

struct Shared {
    script: Box<Script>,
    asked: Mutex<Vec<Asked>>,
    busy: AtomicUsize,
    busiest: AtomicUsize,
    stopping: AtomicBool,
}

/// The server. It ends when it is dropped.
pub struct ScriptedEndpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl ScriptedEndpoint {
    /// Starts a server that does what `script` says.
    ///
    /// # Errors
    /// This machine has no free port.
    pub fn start(script: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Box::new(script),
            asked: Mutex::new(Vec::new()),
            busy: AtomicUsize::new(0),
            busiest: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        });
        let served = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if served.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let served = Arc::clone(&served);
                if let Ok(stream) = stream {
                    // A thread ends when its client leaves.
                    std::thread::spawn(move || {
                        let _ = serve(&stream, &served);
                    });
                }
            }
        });
        Ok(Self {
            address,
            shared,
            accepting: Some(accepting),
        })
    }

    /// Starts a server that does these things one after the other, and the last one again and again.
    ///
    /// # Errors
    /// This machine has no free port.
    pub fn acts(acts: Vec<Act>) -> std::io::Result<Self> {
        Self::start(move |asked| {
            let act = acts.get(asked.number).or(acts.last());
            act.cloned().unwrap_or(Act::Close)
        })
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        let asked = self.shared.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The largest number of requests at the same time.
    pub fn busiest(&self) -> usize {
        self.shared.busiest.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedEndpoint {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Ends the wait for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    // Otherwise the system holds back small pieces for about as long as tests wait for one.
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    // A client asks so to know only whether the server is there.
    if head.starts_with("HEAD ") {
        return perform(stream, Act::Answer(200, "", String::new()));
    }
    let lower = head.to_ascii_lowercase();
    let length = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .and_then(|length| length.trim().parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let busy = shared.busy.fetch_add(1, Ordering::SeqCst) + 1;
    shared.busiest.fetch_max(busy, Ordering::SeqCst);
    let asked = {
        let all = shared.asked.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        let asked = Asked {
            head,
            body: String::from_utf8_lossy(&body).into_owned(),
            number: all.len(),
        };
        all.push(asked.clone());
        asked
    };
    let act = (shared.script)(&asked);
    shared.busy.fetch_sub(1, Ordering::SeqCst);
    perform(stream, act)
}

fn perform(mut stream: &TcpStream, act: Act) -> std::io::Result<()> {
    match act {
        Act::Close => Ok(()),
        Act::Never => wait_for_end(stream),
        Act::Answer(status, headers, body) => {
            let answer = head(status, headers, body.len()) + &body;
            stream.write_all(answer.as_bytes())
        }
        Act::Half(status, body) => {
            stream.write_all(head(status, "", body.len()).as_bytes())?;
            stream.write_all(&body.as_bytes()[..body.len() / 2])
        }
        Act::Stream(events) => {
            send_all(stream, &events)?;
            stream.write_all(LAST_CHUNK)
        }
        Act::Cut(events) => send_all(stream, &events),
        Act::Hang(events) => {
            send_all(stream, &events)?;
            wait_for_end(stream)
        }
        Act::Slow(pause, events) => {
            begin(stream)?;
            for event in &events {
                if !stays(stream, pause)? {
                    return Ok(());
                }
                send(stream, event)?;
            }
            stream.write_all(LAST_CHUNK)
        }
        Act::Late(delay, act) => match stays(stream, delay)? {
            true => perform(stream, *act),
            false => Ok(()),
        },
    }
}

/// The head of an answer that is no stream.
fn head(status: u16, headers: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    )
}

/// Sends the head of a stream, and events.
fn send_all(stream: &TcpStream, events: &[String]) -> std::io::Result<()> {
    begin(stream)?;
    events.iter().try_for_each(|event| send(stream, event))
}

/// Sends the head of a stream.
fn begin(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
}

/// Sends an event.
fn send(mut stream: &TcpStream, event: &str) -> std::io::Result<()> {
    let event = format!("data: {event}\n\n");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    stream.write_all(chunk.as_bytes())
}

/// Waits so long, or until the client leaves. True if it is still there.
fn stays(mut stream: &TcpStream, time: Duration) -> std::io::Result<bool> {
    stream.set_read_timeout(Some(time))?;
    let read = stream.read(&mut [0]);
    stream.set_read_timeout(Some(LIMIT))?;
    match read {
        Ok(read) => Ok(read > 0),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(true),
            _ => Err(error),
        },
    }
}

fn wait_for_end(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {}
    Ok(())
}
