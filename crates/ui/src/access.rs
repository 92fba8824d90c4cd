//! Admission to the pages: everybody at loopback without a token, or else those who have it.
//!
//! Programs send the token as a bearer token. Browsers cannot; they ask the reader for a name and a password (Basic, RFC
//! 7617), and the password is the token.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flopsmith_serve::Token;
use flopsmith_serve::intake::{Unadmitted, admit};
use hyper::header::{AUTHORIZATION, HeaderMap};

/// Longest header that is decoded, bytes.
const LONGEST: usize = 4096;

/// Admits a request with the right token or, without one, to loopback only.
///
/// # Errors
/// Why the request is not admitted.
pub fn check(headers: &HeaderMap, token: Option<&Token>) -> Result<(), Unadmitted> {
    let (refusal, token) = match (admit(headers, token), token) {
        (Ok(_), _) => return Ok(()),
        (Err(refusal), Some(token)) if refusal == Unadmitted::Token => (refusal, token),
        (Err(refusal), _) => return Err(refusal),
    };
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| password(value.as_bytes()));
    let given = given.map(|password| [&b"bearer "[..], &password[..]].concat());
    match token.holder(given.as_deref()) {
        Some(_) => Ok(()),
        None => Err(refusal),
    }
}

/// The password in a header with the scheme Basic.
fn password(header: &[u8]) -> Option<Vec<u8>> {
    const SCHEME: &[u8] = b"basic ";
    let (scheme, given) = header.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || given.len() > LONGEST {
        return None;
    }
    let pair = STANDARD.decode(given.trim_ascii()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use hyper::header::HOST;

    use super::*;

    #[test]
    fn the_token_is_a_bearer_token_or_a_password() {
        let token = Token::new("0123456789abcdef").unwrap();
        let is_admitted = |authorization: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, authorization.parse().unwrap());
            check(&headers, Some(&token)).is_ok()
        };
        assert!(is_admitted("Bearer 0123456789abcdef"));
        // `me:0123456789abcdef` and `:0123456789abcdef`.
        assert!(is_admitted("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg=="));
        assert!(is_admitted("basic OjAxMjM0NTY3ODlhYmNkZWY="));
        // `me:0123456789abcdeg`, `0123456789abcdef`, and no base64.
        assert!(!is_admitted("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZw=="));
        assert!(!is_admitted("Basic MDEyMzQ1Njc4OWFiY2RlZg=="));
        assert!(!is_admitted("Basic !"));
        assert!(!is_admitted(&format!("Basic {}", "A".repeat(LONGEST + 4))));
        assert!(check(&HeaderMap::new(), Some(&token)).is_err());
    }

    #[test]
    fn without_a_token_only_loopback_is_admitted() {
        let check_host = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            check(&headers, None)
        };
        assert_eq!(check_host("localhost:8766"), Ok(()));
        assert_eq!(check_host("example.org"), Err(Unadmitted::Host));
    }
}
