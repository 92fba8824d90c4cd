//! Exit codes with a meaning, and errors that are printed once.

use std::process::ExitCode;

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
    let code = if error.chain().any(|e| e.is::<Usage>()) {
        USAGE
    } else {
        INFRASTRUCTURE
    };
    let mut text = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let words = cause.to_string();
        if depth == 0 {
            text = words;
        } else if !text.ends_with(&words) {
            text.push_str(if depth == 1 {
                "\n  because: "
            } else {
                "\n           "
            });
            text.push_str(&words);
        }
    }
    if json {
        let object = serde_json::json!({ "error": text, "exit_code": code });
        write(std::io::stdout(), &object.to_string());
    }
    write(std::io::stderr(), &format!("error: {text}"));
    ExitCode::from(code)
}

/// Writes a line; a reader that has gone away is no error.
pub fn write(mut to: impl std::io::Write, line: &str) {
    let _ = writeln!(to, "{line}");
}

/// A line of data for stdout.
pub fn data(line: &str) {
    write(std::io::stdout(), line);
}

/// A line for people, on stderr.
pub fn say(line: &str) {
    write(std::io::stderr(), line);
}
