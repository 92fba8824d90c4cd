//! Exit codes with a meaning, and errors that are printed once.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// It worked.
pub const OK: u8 = 0;
/// The candidate's fault.
pub const CANDIDATE: u8 = 1;
/// Wrong usage: arguments, configuration, files the user named.
pub const USAGE: u8 = 2;
/// Infrastructure: this machine cannot do it.
pub const INFRASTRUCTURE: u8 = 3;
/// Interrupted; the run can be resumed.
pub const INTERRUPTED: u8 = 130;

/// An error of the user's making.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A usage error as `anyhow`.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Usage(text.into()))
}

/// Prints an error with its causes and gives the exit code it stands for.
pub fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let code = if is_usage(error) || is_of_a_model(error) {
        USAGE
    } else {
        INFRASTRUCTURE
    };
    let mut text = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let words = cause.to_string();
        let words = flopsmith_actors::supervisor::untraced(&words);
        if depth == 0 {
            words.clone_into(&mut text);
        } else if !text.ends_with(words) {
            text.push_str(if depth == 1 {
                "\n  because: "
            } else {
                "\n           "
            });
            text.push_str(words);
        }
    }
    if let Some(subject) = flopsmith_bus::refusals().borrow().as_deref() {
        text.push_str(&format!("\n  {}", not_allowed(subject)));
    }
    if json {
        let object = serde_json::json!({ "error": text, "exit_code": code });
        data(&object.to_string());
    }
    say(&format!("error: {text}"));
    ExitCode::from(code)
}

/// Has the user to ask for something else?
fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        let evaluate = e.downcast_ref::<flopsmith_evaluate::Error>();
        e.is::<Usage>() || evaluate.is_some_and(flopsmith_evaluate::Error::is_of_the_input)
    })
}

/// Is it a model's folder, or what was asked of the model, that is at fault? What goes wrong while one is trained is not.
#[cfg(feature = "torch")]
fn is_of_a_model(error: &anyhow::Error) -> bool {
    let trained = |e: &(dyn std::error::Error + 'static)| e.is::<flopsmith_learner::Error>();
    let mut found = error
        .chain()
        .filter_map(|e| e.downcast_ref::<flopsmith_policy::Error>());
    found.any(flopsmith_policy::Error::is_of_the_input) && !error.chain().any(trained)
}

#[cfg(not(feature = "torch"))]
fn is_of_a_model(_: &anyhow::Error) -> bool {
    false
}

/// That the broker refused `subject` to this process, and what to do about it.
pub fn not_allowed(subject: &str) -> String {
    format!(
        "the broker does not let this key use `{subject}`: take the key of another holder, or make one by `flopsmith cluster key --roles ROLE,… --class CLASS` (for a key of the same roles and class also where this Flopsmith is newer than the key)"
    )
}

/// What first kept data from being written.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// The exit code of a command that came to its end: [`INFRASTRUCTURE`] where its data could not be written.
pub fn ended(code: ExitCode) -> ExitCode {
    match UNWRITTEN.get() {
        Some(why) => {
            say(&format!(
                "error: cannot write to stdout: {why}\n  what was printed is not complete"
            ));
            ExitCode::from(INFRASTRUCTURE)
        }
        None => code,
    }
}

/// Writes a line for people; there is nobody to tell where that fails.
pub fn write(mut to: impl io::Write, line: &str) {
    let _ = writeln!(to, "{line}");
}

/// A line of data for stdout. A reader that has gone away is no error; what else goes wrong is told by [`ended`].
pub fn data(line: &str) {
    piece(&format!("{line}\n"));
}

/// Data for stdout that goes on.
pub fn piece(text: &str) {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        UNWRITTEN.get_or_init(|| error.to_string());
    }
}

/// A line for people, on stderr.
pub fn say(line: &str) {
    write(io::stderr(), line);
}
