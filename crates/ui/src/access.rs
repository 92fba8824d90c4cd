//! Who may see the pages: everybody at loopback without a token, or else whoever has it.
//!
//! Programs send the token as a bearer token. Browsers cannot; they ask the reader for a name and a password (Basic, RFC
//! 7617), and the password is the token.

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
    let admitted = admit(headers, token);
    let (Err(Unadmitted::Token), Some(token)) = (admitted, token) else {
        return admitted;
    };
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| password(value.as_bytes()));
    let given = given.map(|password| [&b"bearer "[..], &password[..]].concat());
    match token.is_in(given.as_deref()) {
        true => Ok(()),
        false => Err(Unadmitted::Token),
    }
}

/// The password in a header with the scheme Basic.
fn password(header: &[u8]) -> Option<Vec<u8>> {
    const SCHEME: &[u8] = b"basic ";
    let (scheme, given) = header.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || given.len() > LONGEST {
        return None;
    }
    let pair = decoded(given.trim_ascii())?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// The bytes that a text in base64 stands for; none if it is no base64.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text = text
        .strip_suffix(b"==")
        .or(text.strip_suffix(b"="))
        .unwrap_or(text);
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for letter in text {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use hyper::header::HOST;

    use super::*;

    #[test]
    fn base64_is_decoded_and_other_text_is_none() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
            ("Zm9vYmE", "fooba"),
        ] {
            assert_eq!(decoded(text.as_bytes()).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decoded(b"Zm9v\n"), None);
        assert_eq!(decoded(b"Zm=v"), None);
    }

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
