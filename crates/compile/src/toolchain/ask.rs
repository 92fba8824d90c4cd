//! Runs programs of this machine for a short answer, with a time limit.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Longest wait for an answer, which normally takes milliseconds.
const LIMIT: Duration = Duration::from_secs(10);
/// Most bytes that are kept of an answer; all macros of a compiler take some ten kilobytes.
const MOST_BYTES: u64 = 4 << 20;
/// Interval between two checks whether the program has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Longest wait for the rest of the output after the program has ended. Children that the program left running may keep
/// the pipe open for ever.
const REST: Duration = Duration::from_secs(1);

/// The answer of a program.
pub struct Answer {
    /// The program's exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

/// Runs a program and returns its answer. After ten seconds, the program and all its children are killed.
///
/// # Errors
/// If the program cannot be started, or if it does not answer in time ([`io::ErrorKind::TimedOut`]).
pub fn ask(command: &mut Command) -> io::Result<Answer> {
    within(command, LIMIT)
}

fn within(command: &mut Command, limit: Duration) -> io::Result<Answer> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let started = Instant::now();
    let stdout = child.stdout.take().map(said);
    let stderr = child.stderr.take().map(said);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            let group = i32::try_from(child.id()).map(Pid::from_raw);
            // A failure is ignored, because the program may have ended just now.
            let _gone = group.map(|group| killpg(group, Signal::SIGKILL));
            child.wait()?;
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it gave no answer in {} s", limit.as_secs_f64()),
            ));
        }
        std::thread::sleep(LOOK);
    };
    let all = |from: Option<Receiver<Vec<u8>>>| {
        let bytes = from.and_then(|from| from.recv_timeout(REST).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    };
    Ok(Answer {
        status,
        stdout: all(stdout),
        stderr: all(stderr),
    })
}

/// Reads on a separate thread, so that neither pipe fills up while the other is read.
fn said(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // After a read error, the bytes before it still count.
        let _end = pipe.by_ref().take(MOST_BYTES).read_to_end(&mut bytes);
        let _nobody_listens = sender.send(bytes);
        // Reads and discards further output, so that the program does not block on a full pipe.
        let _end = io::copy(&mut pipe, &mut io::sink());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn both_pipes_and_the_end_are_told() {
        let answer = ask(&mut shell("echo one; echo two >&2; exit 3")).expect("an answer");
        assert_eq!(
            (answer.stdout.as_str(), answer.stderr.as_str()),
            ("one\n", "two\n")
        );
        assert_eq!(answer.status.code(), Some(3));
    }

    #[test]
    fn long_output_of_a_tool_is_truncated_without_blocking_it() {
        let text = "head -c 9000000 /dev/zero; head -c 9000000 /dev/zero >&2";
        let answer = ask(&mut shell(text)).expect("an answer");
        assert!(answer.status.success());
        assert_eq!(answer.stdout.len() as u64, MOST_BYTES);
    }

    #[test]
    fn a_tool_that_never_answers_is_killed_with_its_children() {
        let started = Instant::now();
        let text = "sleep 1000 & sleep 1000";
        let error = within(&mut shell(text), Duration::from_millis(100)).err();
        let error = error.expect("no answer");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
