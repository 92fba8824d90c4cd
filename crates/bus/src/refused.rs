//! What a broker does not let this process do.
//!
//! Who may not publish to a subject is not answered, so all that its caller sees is that the time for an answer has passed. The broker says
//! so apart, to the connection and not to the caller. What it said last is kept here, for whoever reports the error.

use std::sync::OnceLock;

use tokio::sync::watch;

static LAST: OnceLock<watch::Sender<Option<String>>> = OnceLock::new();

fn last() -> &'static watch::Sender<Option<String>> {
    LAST.get_or_init(|| watch::channel(None).0)
}

/// The subject that a broker has refused to this process last, and each one that it refuses from now on.
pub fn refusals() -> watch::Receiver<Option<String>> {
    last().subscribe()
}

/// Takes note of what a server reports, where that is a refusal.
pub(crate) fn note(error: &str) {
    if let Some(subject) = subject_of(error) {
        last().send_replace(Some(subject.to_owned()));
    }
}

/// `Permissions Violation for Publish to "subject"`, in whatever frame.
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
