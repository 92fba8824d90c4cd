//! Lines to and from a worker, with a limit on every wait.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;

/// A reply longer than this comes from no worker of ours.
const LONGEST: usize = 4 << 20;

/// The reason why no line came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The time was over.
    Timeout,
    /// The other side closed its end or sent too much.
    Closed,
}

/// Both directions of a worker's lines.
pub(crate) struct Lines {
    to: File,
    from: File,
    seen: Vec<u8>,
}

impl Lines {
    /// Lines over the ends of two pipes.
    pub fn new(to: OwnedFd, from: OwnedFd) -> Self {
        // Without this setting, which cannot fail for a pipe, a worker that reads nothing would hold up this process.
        let _set = fcntl(&to, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        Lines {
            to: to.into(),
            from: from.into(),
            seen: Vec::new(),
        }
    }

    /// Sends one line.
    pub fn send(&mut self, line: &[u8]) -> Result<(), Silence> {
        self.send_within(line, PATIENT)
    }

    /// Sends one line; the other side must read it within the limit, unless the pipe has room for it.
    fn send_within(&mut self, mut line: &[u8], limit: Duration) -> Result<(), Silence> {
        let end = Instant::now() + limit;
        while !line.is_empty() {
            match self.to.write(line) {
                Ok(n) => line = &line[n..],
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    let left = end.saturating_duration_since(Instant::now());
                    if !ready(self.to.as_fd(), PollFlags::POLLOUT, left) {
                        return Err(Silence::Timeout);
                    }
                }
                Err(_) => return Err(Silence::Closed),
            }
        }
        Ok(())
    }

    /// Sends a command.
    pub fn order(&mut self, order: &Value) -> Result<(), Silence> {
        self.send(format!("{order}\n").as_bytes())
    }

    /// True if the other side has sent something that was not asked for.
    pub fn has_more(&mut self) -> bool {
        !self.seen.is_empty() || ready(self.from.as_fd(), PollFlags::POLLIN, Duration::ZERO)
    }

    /// The next line, without its end.
    pub fn receive(&mut self, limit: Duration) -> Result<Vec<u8>, Silence> {
        let end = Instant::now() + limit;
        loop {
            if let Some(at) = self.seen.iter().position(|b| *b == b'\n') {
                let mut line: Vec<u8> = self.seen.drain(..=at).collect();
                line.pop();
                return Ok(line);
            }
            if self.seen.len() > LONGEST {
                return Err(Silence::Closed);
            }
            let left = end.saturating_duration_since(Instant::now());
            if !ready(self.from.as_fd(), PollFlags::POLLIN, left) {
                return Err(Silence::Timeout);
            }
            let mut block = [0; 16 << 10];
            match self.from.read(&mut block) {
                Ok(0) => return Err(Silence::Closed),
                Ok(n) => self.seen.extend_from_slice(&block[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Silence::Closed),
            }
        }
    }
}

/// Waits until a pipe can be read or written.
fn ready(pipe: BorrowedFd, events: PollFlags, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // Rounded up, so that the last fraction of a millisecond is no busy loop.
        let left = left.as_micros().div_ceil(1000).min(60_000);
        let wait = PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX));
        let mut polled = [PollFd::new(pipe, events)];
        match poll(&mut polled, wait) {
            Ok(n) if n > 0 => return true,
            Ok(_) | Err(nix::errno::Errno::EINTR) if Instant::now() < end => {}
            _ => return false,
        }
    }
}

/// The limit of a wait that no worker should ever reach.
pub(crate) const PATIENT: Duration = Duration::from_secs(120);

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    fn pair() -> (Lines, Lines) {
        // A process that another test starts meanwhile must not keep an end open.
        let pipe = || nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let ((a_out, a_in), (b_out, b_in)) = (pipe(), pipe());
        (Lines::new(a_in, b_out), Lines::new(b_in, a_out))
    }

    #[test]
    fn a_line_that_no_one_reads_is_given_up() {
        let (mut ours, theirs) = pair();
        let long = vec![b'x'; 1 << 20];
        let limit = Duration::from_millis(20);
        assert_eq!(ours.send_within(&long, limit), Err(Silence::Timeout));
        drop(theirs);
        assert_eq!(ours.send_within(&long, limit), Err(Silence::Closed));
    }

    #[test]
    fn lines_arrive_one_by_one_and_surplus_is_seen() {
        let (mut ours, mut theirs) = pair();
        ours.order(&json!({"do": "fork"})).unwrap();
        let line = theirs.receive(PATIENT).unwrap();
        assert_eq!(line, br#"{"do":"fork"}"#);
        assert!(!ours.has_more());
        theirs.send(b"d\nd\n").unwrap();
        assert_eq!(ours.receive(PATIENT).unwrap(), b"d");
        assert!(ours.has_more());
        assert_eq!(ours.receive(PATIENT).unwrap(), b"d");
        assert_eq!(ours.receive(Duration::ZERO), Err(Silence::Timeout));
        drop(theirs);
        assert_eq!(ours.receive(PATIENT), Err(Silence::Closed));
    }
}
