//! Bearer tokens: which address needs one, and whether a request has it.

use std::net::IpAddr;

use flopsmith_run::console::usage;

/// The least length of a token, bytes.
const SHORTEST: usize = 16;
/// The greatest length of a token, bytes.
const LONGEST: usize = 1024;

/// A bearer token. It has no text form, so that no log can show it.
pub struct Token(blake3::Hash);

impl Token {
    /// Takes the token from the text of a file or variable, whose surrounding white space does not count.
    ///
    /// # Errors
    /// Wrong usage, if the token is too short, too long or has other characters than visible ASCII.
    pub fn new(text: &str) -> anyhow::Result<Self> {
        let token = text.trim();
        if !(SHORTEST..=LONGEST).contains(&token.len()) {
            return Err(usage(format!(
                "the token of the service has {} characters; use {SHORTEST} to {LONGEST}, e.g. from `openssl rand -hex 32`",
                token.len()
            )));
        }
        if !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(usage(
                "the token of the service has white space or characters outside ASCII; use letters and digits, e.g. from `openssl rand -hex 32`",
            ));
        }
        Ok(Self(blake3::hash(token.as_bytes())))
    }

    /// True if an `Authorization` header has this token. The time of the comparison does not depend on the token.
    pub fn is_in(&self, header: Option<&[u8]>) -> bool {
        const SCHEME: &[u8] = b"bearer ";
        let Some(header) = header else {
            return false;
        };
        let Some((scheme, given)) = header.split_at_checked(SCHEME.len()) else {
            return false;
        };
        // Equality of two `blake3::Hash` takes constant time.
        scheme.eq_ignore_ascii_case(SCHEME) && blake3::hash(given.trim_ascii()) == self.0
    }
}

/// True if a `Host` header names loopback. Without a token a service answers no other requests: a page in a browser could
/// let the name of its own host point to loopback (DNS rebinding).
pub fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_right() {
        let token = Token::new(" 0123456789abcdef\n").unwrap();
        let is_right = |header: &str| token.is_in(Some(header.as_bytes()));
        assert!(is_right("Bearer 0123456789abcdef"));
        assert!(is_right("bearer  0123456789abcdef "));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789ABCDEF",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(!is_right(wrong), "{wrong:?}");
        }
        assert!(!token.is_in(None));
    }

    #[test]
    fn a_token_that_can_be_guessed_or_not_be_sent_is_wrong_usage() {
        for text in ["", "short", "0123456789 abcdef", "0123456789abcdeé"] {
            let error = Token::new(text).err().unwrap();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            let said = error.to_string();
            assert!(text.is_empty() || !said.contains(text), "{said}");
        }
        assert!(Token::new(&"x".repeat(LONGEST + 1)).is_err());
    }

    #[test]
    fn loopback_has_these_names() {
        for host in [
            "localhost",
            "LocalHost:80",
            "127.0.0.1:8765",
            "127.8.0.1",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org",
            "10.0.0.1:80",
            "[::2]",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
