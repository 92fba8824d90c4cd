//! The operations that a broker refuses to this process.
//!
//! A broker does not answer a client that may not publish to a subject, so the caller sees only a timeout. The broker
//! reports the refusal to the connection instead. This module keeps the last such report for error messages.

use std::sync::OnceLock;

use tokio::sync::watch;

static LAST: OnceLock<watch::Sender<Option<String>>> = OnceLock::new();

fn last() -> &'static watch::Sender<Option<String>> {
    LAST.get_or_init(|| watch::channel(None).0)
}

/// The subject that a broker refused to this process last, followed by each one that it refuses from now on.
pub fn refusals() -> watch::Receiver<Option<String>> {
    last().subscribe()
}

/// Records an error of the server if it is a refusal.
pub(crate) fn note(error: &str) {
    if let Some(subject) = subject_of(error) {
        last().send_replace(Some(subject.to_owned()));
    }
}

/// The subject in `Permissions Violation for Publish to "subject"`, with any text around it.
fn subject_of(error: &str) -> Option<&str> {
    let said = error.to_ascii_lowercase();
    let at = said.find("permissions violation for")?;
    error.get(at..)?.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_a_refusal_is_found_and_of_nothing_else() {
        for (said, subject) in [
            (
                r#"Permissions Violation for Publish to "$JS.API.INFO""#,
                Some("$JS.API.INFO"),
            ),
            (
                r#"nats: permissions violation for subscription to "fs.v1.>""#,
                Some("fs.v1.>"),
            ),
            ("authorization violation", None),
            ("permissions violation for publish to nothing", None),
        ] {
            assert_eq!(subject_of(said), subject);
        }
    }
}
