//! Keys of servers.

use std::fmt;

use flopsmith_config::Endpoint;
use reqwest::header::HeaderValue;

use crate::error::Error;

/// The text in place of a key.
const HIDDEN: &str = "[key]";

/// A key. Nothing prints it.
#[derive(Clone)]
pub struct Key {
    text: String,
    header: HeaderValue,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Key {
    /// A key; none if the text is empty or cannot stand in a header.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let mut header = HeaderValue::from_str(&format!("Bearer {text}")).ok()?;
        header.set_sensitive(true);
        Some(Self {
            text: text.to_owned(),
            header,
        })
    }

    /// The key that the endpoint names, from the environment; none if it names none.
    ///
    /// # Errors
    /// The variable is not set, or holds no key.
    pub fn of(endpoint: &Endpoint) -> Result<Option<Self>, Error> {
        let Some(variable) = &endpoint.key else {
            return Ok(None);
        };
        let name = || shown(variable).to_owned();
        match std::env::var(variable) {
            Ok(text) if text.trim().is_empty() => Err(Error::NoKey(name())),
            Ok(text) => match Key::new(&text) {
                Some(key) => Ok(Some(key)),
                None => Err(Error::BadKey(name())),
            },
            Err(std::env::VarError::NotPresent) => Err(Error::NoKey(name())),
            Err(std::env::VarError::NotUnicode(_)) => Err(Error::BadKey(name())),
        }
    }

    /// The value of the header `Authorization`. Its `Debug` does not show it.
    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// A text without the key: servers repeat it in errors.
    pub fn hidden(&self, text: &str) -> String {
        text.replace(&self.text, HIDDEN)
    }
}

/// The name of a variable, as a message may show it: people write the key itself in its place, and some keys have the form of
/// a name, such as `hf_` with letters.
fn shown(variable: &str) -> &str {
    match variable.chars().any(|c| c.is_ascii_lowercase()) {
        true => "(not shown, because it may be the key itself)",
        false => variable,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_a_key() {
        let key = Key::new(" sk-secret\n").unwrap();
        assert_eq!(
            key.hidden("the key sk-secret is wrong"),
            "the key [key] is wrong"
        );
        assert!(!format!("{key:?} {:?}", key.header()).contains("secret"));
        assert_eq!(key.header().to_str().unwrap(), "Bearer sk-secret");
        for wrong in ["", " \n", "a\nb", "a\u{7f}b"] {
            assert!(Key::new(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_key_in_place_of_the_name_of_its_variable_is_not_shown() {
        let mut endpoint = Endpoint::new("http://127.0.0.1:1/v1", "m");
        for (written, is_shown) in [("hf_abcDEF123", false), ("FLOPSMITH_NO_KEY", true)] {
            endpoint.key = Some(written.into());
            endpoint.check().unwrap();
            let error = Key::of(&endpoint).unwrap_err();
            assert!(matches!(error, Error::NoKey(_)), "{error:?}");
            let words = format!("{error} {error:?}");
            assert_eq!(words.contains(written), is_shown, "{words}");
        }
    }
}
