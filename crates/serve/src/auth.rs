//! Bearer tokens: which address needs one, and whose token a request has.

use std::collections::HashSet;
use std::net::IpAddr;

use flopsmith_run::console::usage;
use serde::{Deserialize, Serialize};

use crate::quota::Quota;

/// The least length of a token, bytes.
const SHORTEST: usize = 16;
/// The greatest length of a token, bytes.
const LONGEST: usize = 1024;

/// The most tokens of a service.
const MOST: usize = 1000;

/// The bearer tokens of a service. They have no text form, so that no log can show them.
pub struct Token(Vec<(blake3::Hash, Option<Quota>)>);

/// The client of a request: the token that it sent, or nobody in particular at a service without tokens. A holder can neither
/// read nor change the sessions of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Holder {
    fingerprint: Option<Fingerprint>,
    /// It is not kept with a job: the next process may have another token file.
    #[serde(skip)]
    quota: Option<Quota>,
}

/// The beginning of a digest of a token, which tells nothing about the token.
type Fingerprint = [u8; 16];

impl Token {
    /// Takes the tokens from the text of a file or variable, one a line. A token may have a quota beside it: `TOKEN
    /// N/hour` or `TOKEN N/day`. Empty lines, and white space around a token, do not count.
    ///
    /// # Errors
    /// Wrong usage, if there is no token or too many, or if one stands on two lines, is too short, too long or has other characters than visible
    /// ASCII; or if a quota cannot be read.
    pub fn new(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().map(str::trim);
        let tokens: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        if tokens.is_empty() {
            return Err(usage(format!(
                "the token of the service has 0 characters; use {SHORTEST} to {LONGEST}, e.g. from `openssl rand -hex 32`"
            )));
        }
        let count = tokens.len();
        let hashes = tokens.into_iter().map(read);
        let hashes = hashes.collect::<anyhow::Result<Vec<_>>>()?;
        let mut seen = HashSet::new();
        if !hashes.iter().all(|(hash, _)| seen.insert(*hash)) {
            return Err(usage(
                "a token of the service stands on two lines; give each client one line with a token of its own",
            ));
        }
        if count > MOST {
            return Err(usage(format!(
                "there are {count} tokens, one a line; use {MOST} at most"
            )));
        }
        Ok(Self(hashes))
    }

    /// The holder of the token in an `Authorization` header; none if it has no token of the service. The time of the
    /// comparison does not depend on the token.
    pub fn holder(&self, header: Option<&[u8]>) -> Option<Holder> {
        const SCHEME: &[u8] = b"bearer ";
        let (scheme, given) = header?.split_at_checked(SCHEME.len())?;
        let given = blake3::hash(given.trim_ascii());
        // Equality of two `blake3::Hash` takes constant time, and every token is compared.
        let known = self.0.iter().fold(
            None,
            |found, (hash, quota)| {
                if *hash == given { Some(*quota) } else { found }
            },
        );
        let quota = known.filter(|_| scheme.eq_ignore_ascii_case(SCHEME))?;
        let digest = blake3::hash(given.as_bytes());
        let mut fingerprint = Fingerprint::default();
        let length = fingerprint.len();
        fingerprint.copy_from_slice(&digest.as_bytes()[..length]);
        Some(Holder {
            fingerprint: Some(fingerprint),
            quota,
        })
    }

    /// The number of tokens.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// True if a token has a quota.
    pub fn has_quotas(&self) -> bool {
        self.0.iter().any(|(_, quota)| quota.is_some())
    }
}

impl Holder {
    /// Bytes that tell this holder from others; none for nobody in particular.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.fingerprint {
            Some(fingerprint) => fingerprint,
            None => &[],
        }
    }

    /// True if both are the same client. Its quota may have changed since.
    pub fn is(self, other: Self) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// The most candidates that it may send in a time, if there is a limit.
    pub fn quota(self) -> Option<Quota> {
        self.quota
    }
}

/// The hash of one token, with the quota beside it.
fn read(line: &str) -> anyhow::Result<(blake3::Hash, Option<Quota>)> {
    let (token, quota) = match line.split_once(char::is_whitespace) {
        Some((token, quota)) => (token, Some(quota.trim())),
        None => (line, None),
    };
    let hash = hash_of(token)?;
    let quota = quota.map(str::parse::<Quota>).transpose().map_err(|()| {
        usage("the text beside a token of the service is no quota; write a line as `TOKEN 500/hour` or `TOKEN 500/day`")
    })?;
    Ok((hash, quota))
}

/// The hash of one token.
fn hash_of(token: &str) -> anyhow::Result<blake3::Hash> {
    if !(SHORTEST..=LONGEST).contains(&token.len()) {
        return Err(usage(format!(
            "a token of the service has {} characters; use {SHORTEST} to {LONGEST}, e.g. from `openssl rand -hex 32`",
            token.len()
        )));
    }
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(usage(format!(
            "a token of the service has white space or characters outside ASCII; use {SHORTEST} to {LONGEST} letters and digits, e.g. from `openssl rand -hex 32`"
        )));
    }
    Ok(blake3::hash(token.as_bytes()))
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
        let is_right = |header: &str| token.holder(Some(header.as_bytes())).is_some();
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
        assert_eq!(token.holder(None), None);
    }

    #[test]
    fn each_token_has_a_holder_of_its_own() {
        let tokens = Token::new("0123456789abcdef\r\n\n fedcba9876543210 \n").unwrap();
        let holder = |header: &str| tokens.holder(Some(header.as_bytes()));
        let first = holder("Bearer 0123456789abcdef").unwrap();
        let second = holder("bearer fedcba9876543210").unwrap();
        assert_eq!(holder("BEARER 0123456789abcdef"), Some(first));
        assert_ne!(first, second);
        assert_ne!(first, Holder::default());
        assert_eq!(holder("Bearer 0123456789abcdef\nfedcba9876543210"), None);
        let alone = Token::new("fedcba9876543210").unwrap();
        let again = alone.holder(Some(b"Bearer fedcba9876543210"));
        assert_eq!(again, Some(second), "other tokens do not matter");
        let many = |count: usize| -> String {
            let lines = (0..count).map(|number| format!("0123456789abcdef{number}\n"));
            lines.collect()
        };
        assert!(Token::new(&many(MOST)).is_ok());
        assert!(Token::new(&many(MOST + 1)).is_err());
        for second in ["", " 5/day", " 6/day"] {
            let twice = format!("0123456789abcdef 5/day\n0123456789abcdef{second}\n");
            let error = Token::new(&twice).err().unwrap();
            assert!(error.to_string().contains("two lines"), "{error:#}");
        }
        assert!(Token::new("0123456789abcdef\nshort").is_err());
    }

    #[test]
    fn a_token_that_can_be_guessed_or_not_be_sent_is_wrong_usage() {
        for text in [
            "",
            "short",
            "0123456789 abcdef",
            "0123456789abcdeé",
            "0123456789abcdef 0123456789",
            "0123456789abcdef 5/week",
        ] {
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
