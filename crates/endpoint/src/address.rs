//! Addresses of servers.

use reqwest::Url;

use crate::error::Error;

/// The path of chat completions under a base URL.
const PATH: &str = "chat/completions";
/// The path of completions under a base URL.
pub(crate) const COMPLETIONS: &str = "completions";

/// The address of chat completions under a base URL.
///
/// # Errors
/// It is no HTTP URL, or holds more than host and path.
pub fn address(base: &str) -> Result<Url, Error> {
    route(base, PATH)
}

/// The address of a path under a base URL.
///
/// # Errors
/// As [`address`].
pub(crate) fn route(base: &str, path: &str) -> Result<Url, Error> {
    let url = Url::parse(base.trim()).map_err(|e| Error::Url(e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        let why = "it must begin with http:// or https:// and name a host";
        return Err(Error::Url(why.to_owned()));
    }
    // The message does not repeat them.
    if !url.username().is_empty() || url.password().is_some() {
        let why = "it holds a user name or a password; name the environment variable of a key";
        return Err(Error::Url(why.to_owned()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::Url("it has a query or a fragment".to_owned()));
    }
    let text = url.as_str().trim_end_matches('/');
    let whole = match text.strip_suffix(PATH) {
        Some(before) => format!("{before}{path}"),
        None => format!("{text}/{path}"),
    };
    Url::parse(&whole).map_err(|e| Error::Url(e.to_string()))
}

/// True if requests to this address stay on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let inner = host.trim_start_matches('[').trim_end_matches(']');
    let address = inner.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_route_lies_beside_chat_completions() {
        for base in [
            "http://127.0.0.1:1/v1",
            "http://127.0.0.1:1/v1/",
            "http://127.0.0.1:1/v1/chat/completions",
        ] {
            let chat = address(base).unwrap();
            assert_eq!(chat.as_str(), "http://127.0.0.1:1/v1/chat/completions");
            let plain = route(base, COMPLETIONS).unwrap();
            assert_eq!(plain.as_str(), "http://127.0.0.1:1/v1/completions");
        }
    }
}
