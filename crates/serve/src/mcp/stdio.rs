//! The protocol over standard input and output: a message a line.
//!
//! One task reads, writes and starts calls; each call is a task of its own. A message that is too long is refused without
//! being kept. At the end of the input the evaluations under way are given up, every call is answered, and the session ends.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::calls::{Progress, Tools};
use super::message::{self, Call, Failure, Step, code};

/// Number of calls at the same time.
const MOST_CALLS: usize = 64;
/// Number of messages that wait until they are written.
const MOST_UNWRITTEN: usize = 256;
/// Time in which calls have to end after the end of the input.
const GRACE: Duration = Duration::from_secs(5);

/// A message of a call for the client.
struct Outgoing {
    /// The id of the request, as JSON.
    of: String,
    message: Value,
    /// True if it is the response.
    last: bool,
}

/// Serves one client until the end of its input, or until the service stops. Messages may have `most` bytes.
///
/// # Errors
/// The input cannot be read. A client that does not read the output ends the session without an error.
pub async fn serve(
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    tools: Tools,
    most: usize,
) -> io::Result<()> {
    let stopping = tools.service().stopping().clone();
    let (send, mut outgoing) = mpsc::channel(MOST_UNWRITTEN);
    let mut session = Session {
        output,
        tools,
        send,
        gone: stopping.child_token(),
        calls: JoinSet::new(),
        running: HashMap::new(),
    };
    let mut lines = Lines::new(input, most);
    let read = loop {
        tokio::select! {
            line = lines.next() => match line {
                Ok(Some(line)) => if session.take(line).await.is_err() { break Ok(()) },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            },
            Some(message) = outgoing.recv() => if session.pass(message).await.is_err() { break Ok(()) },
            Some(ended) = session.calls.join_next(), if !session.calls.is_empty() => {
                if session.reap(ended).await.is_err() { break Ok(()) }
            }
            () = stopping.cancelled() => break Ok(()),
        }
    };
    session.gone.cancel();
    let ended = session.end(&mut outgoing);
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::warn!("some calls did not end in time, or the client does not read their results");
    }
    // The end of this value gives up calls that have not ended.
    drop(session);
    read
}

/// A client, and its calls.
struct Session<W> {
    output: W,
    tools: Tools,
    send: mpsc::Sender<Outgoing>,
    /// Cancelled once the client does not wait for results any more.
    gone: CancellationToken,
    calls: JoinSet<()>,
    /// The calls that have not been answered, by the ids of their requests.
    running: HashMap<String, AbortHandle>,
}

impl<W: AsyncWrite + Unpin> Session<W> {
    async fn write(&mut self, message: &Value) -> io::Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        let gone = self.gone.clone();
        let written = async {
            self.output.write_all(line.as_bytes()).await?;
            self.output.flush().await
        };
        tokio::pin!(written);
        // A client that does not read must not keep a stopping service.
        let too_late = async {
            gone.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            done = &mut written => done,
            () = too_late => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Takes a line of the client.
    async fn take(&mut self, line: Line) -> io::Result<()> {
        let step = match line {
            Line::Whole(text) if text.trim_ascii().is_empty() => Step::Nothing,
            Line::Whole(text) => message::step(&text),
            Line::TooLong { most } => {
                let why = format!("the message has more than {most} bytes; send a shorter one");
                Step::Answer(Failure::new(code::INVALID_REQUEST, why).response())
            }
        };
        match step {
            Step::Answer(answer) => self.write(&answer).await,
            Step::Call(call) => match self.begin(call) {
                Ok(()) => Ok(()),
                Err(refused) => self.write(&refused.response()).await,
            },
            Step::Cancel(id) => {
                if let Some(call) = self.running.remove(&id.to_string()) {
                    call.abort();
                }
                Ok(())
            }
            Step::Nothing => Ok(()),
        }
    }

    fn begin(&mut self, call: Call) -> Result<(), Failure> {
        let of = call.id.to_string();
        let refuse = |why: String| Failure::new(code::INVALID_REQUEST, why).of(&call.id);
        if self.running.contains_key(&of) {
            return Err(refuse(
                "another request with this id is under way; use a new id".into(),
            ));
        }
        if self.running.len() >= MOST_CALLS {
            return Err(refuse(format!(
                "{MOST_CALLS} calls are under way; wait for a result, and try again"
            )));
        }
        let progress = call.progress_token.clone().map(|token| {
            let (send, of) = (self.send.clone(), of.clone());
            let tell = move |message| {
                let of = of.clone();
                // The client loses a notification if it does not keep up.
                let _ = send.try_send(Outgoing {
                    of,
                    message,
                    last: false,
                });
            };
            Progress {
                token,
                send: Box::new(tell),
            }
        });
        let (tools, send, gone) = (self.tools.clone(), self.send.clone(), self.gone.clone());
        let id = of.clone();
        let handle = self.calls.spawn(async move {
            let message = tools.call(call, progress, &gone).await;
            let last = true;
            // Without a receiver the session has ended.
            let _ = send.send(Outgoing { of, message, last }).await;
        });
        self.running.insert(id, handle);
        Ok(())
    }

    /// Writes a message of a call, unless the call was cancelled.
    async fn pass(&mut self, outgoing: Outgoing) -> io::Result<()> {
        let is_wanted = match outgoing.last {
            true => self.running.remove(&outgoing.of).is_some(),
            false => self.running.contains_key(&outgoing.of),
        };
        if is_wanted {
            self.write(&outgoing.message).await?;
        }
        Ok(())
    }

    /// A task of a call has ended. One that panicked has sent no response.
    async fn reap(&mut self, ended: Result<(), tokio::task::JoinError>) -> io::Result<()> {
        let Err(error) = ended else {
            return Ok(());
        };
        let mut running = self.running.iter();
        let of = running.find(|(_, call)| call.id() == error.id());
        let Some(of) = of.map(|(of, _)| of.clone()) else {
            return Ok(());
        };
        self.running.remove(&of);
        let id: Value = serde_json::from_str(&of).unwrap_or_default();
        let why = "the service could not handle the call; its log says why";
        let failure = Failure::new(code::INTERNAL, why).of(&id);
        self.write(&failure.response()).await
    }

    /// Waits for the calls, and writes their responses.
    async fn end(&mut self, outgoing: &mut mpsc::Receiver<Outgoing>) {
        while !self.running.is_empty() {
            let written = tokio::select! {
                Some(message) = outgoing.recv() => self.pass(message).await,
                Some(ended) = self.calls.join_next(), if !self.calls.is_empty() => {
                    self.reap(ended).await
                }
                else => return,
            };
            if written.is_err() {
                return;
            }
        }
    }
}

/// A line of the input.
enum Line {
    /// The line, without its end.
    Whole(Vec<u8>),
    /// It had more bytes than this.
    TooLong {
        /// The limit.
        most: usize,
    },
}

/// Reads lines of limited length. [`Lines::next`] may be dropped and called again: no byte is lost.
struct Lines<R> {
    input: R,
    most: usize,
    line: Vec<u8>,
    is_too_long: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    fn new(input: R, most: usize) -> Self {
        Self {
            input,
            most,
            line: Vec::new(),
            is_too_long: false,
        }
    }

    /// The next line; none at the end of the input. The last line need not have an end.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            let is_end = bytes.is_empty();
            let at = bytes.iter().position(|b| *b == b'\n');
            let piece = at.map_or(bytes, |at| bytes.split_at(at).0);
            if self.line.len() + piece.len() > self.most {
                self.is_too_long = true;
                self.line = Vec::new();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(at.is_some());
            self.input.consume(used);
            if at.is_some() || (is_end && (self.is_too_long || !self.line.is_empty())) {
                let line = std::mem::take(&mut self.line);
                let most = self.most;
                return Ok(Some(match std::mem::take(&mut self.is_too_long) {
                    true => Line::TooLong { most },
                    false => Line::Whole(line),
                }));
            }
            if is_end {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    fn lines(text: &[u8], most: usize, buffer: usize) -> Vec<Option<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(BufReader::with_capacity(buffer, text), most);
            let mut found = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                found.push(match line {
                    Line::Whole(line) => Some(String::from_utf8(line).unwrap()),
                    Line::TooLong { .. } => None,
                });
            }
            found
        })
    }

    #[test]
    fn a_long_line_is_refused_and_the_next_one_is_read() {
        let text = b"one\n\n12345678901\ntwo\r\n1234567890\nrest";
        for buffer in [1, 3, 1000] {
            let whole = |line: &str| Some(line.to_owned());
            let expected = [
                whole("one"),
                whole(""),
                None,
                whole("two\r"),
                whole("1234567890"),
                whole("rest"),
            ];
            assert_eq!(lines(text, 10, buffer), expected, "{buffer}");
        }
        assert_eq!(lines(b"12345678901", 10, 4), [None]);
        assert!(lines(b"", 10, 4).is_empty());
    }

    #[test]
    fn a_long_line_is_not_kept_in_memory() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let endless = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 64 << 20);
            let mut lines = Lines::new(BufReader::new(endless), 1000);
            let line = lines.next().await.unwrap();
            assert!(matches!(line, Some(Line::TooLong { most: 1000 })));
            assert!(lines.line.capacity() <= 2000, "{}", lines.line.capacity());
            assert!(lines.next().await.unwrap().is_none());
        });
    }
}
