//! The query of an address: bounded, and read by hand, because a name may be given more than once.

use std::str::FromStr;

use url::form_urlencoded;

use crate::refusal::Refusal;

/// Longest query, bytes.
pub const LONGEST: usize = 2000;
/// Number of fields that are read.
const MOST: usize = 64;
/// Longest value, bytes.
const LONGEST_VALUE: usize = 200;

/// The fields of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    fields: Vec<(String, String)>,
}

impl Query {
    /// Reads a query. An empty value counts as none: forms send their empty fields, too.
    ///
    /// # Errors
    /// The query or a value is too long.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        if text.len() > LONGEST {
            return Err(Refusal::malformed(format!(
                "the query has {} bytes, and {LONGEST} are the limit; leave fields out",
                text.len()
            )));
        }
        let fields = form_urlencoded::parse(text.as_bytes()).into_owned();
        let fields: Vec<_> = fields.filter(|(_, value)| !value.is_empty()).collect();
        if fields.len() > MOST {
            return Err(Refusal::malformed(format!(
                "the query has more than {MOST} fields; leave some out"
            )));
        }
        match fields.iter().find(|(_, value)| value.len() > LONGEST_VALUE) {
            Some(_) => Err(Refusal::malformed(format!(
                "a field of the query has more than {LONGEST_VALUE} bytes; use a shorter text"
            ))),
            None => Ok(Self { fields }),
        }
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|field| field.0 == name);
        field.map(|field| field.1.as_str())
    }

    /// Every value of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.fields.iter().filter(move |field| field.0 == name);
        fields.map(|field| field.1.as_str())
    }

    /// The number that a name has, if it has one.
    ///
    /// # Errors
    /// It is no number.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let value = self.get(name);
        let number = value.map(|value| value.trim().parse());
        number.transpose().map_err(|_| {
            Refusal::malformed(format!(
                "`{name}` is no number; write digits, or leave it out"
            ))
        })
    }

    /// The query with another value of a name, for a link; `None` leaves the name out.
    pub fn with(&self, name: &str, value: Option<&str>) -> String {
        let mut out = form_urlencoded::Serializer::new(String::new());
        for (other, value) in self.fields.iter().filter(|field| field.0 != name) {
            out.append_pair(other, value);
        }
        if let Some(value) = value {
            out.append_pair(name, value);
        }
        out.finish()
    }
}

/// A query of one field, for a link.
pub fn of(name: &str, value: &str) -> String {
    Query::default().with(name, Some(value))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn empty_fields_are_none_and_long_ones_are_refused() {
        let query = Query::read("a=1&b=&run=x&run=y%20z&c").unwrap();
        assert_eq!(
            (query.get("a"), query.get("b"), query.get("c")),
            (Some("1"), None, None)
        );
        assert_eq!(query.all("run").collect::<Vec<_>>(), ["x", "y z"]);
        assert_eq!(query.number::<u32>("a"), Ok(Some(1)));
        assert!(query.number::<u32>("run").is_err());
        assert_eq!(query.with("run", Some("&")), "a=1&run=%26");
        assert!(Query::read(&"x".repeat(LONGEST + 1)).is_err());
        assert!(Query::read(&format!("a={}", "x".repeat(LONGEST_VALUE + 1))).is_err());
        assert!(Query::read(&"a=1&".repeat(MOST + 1)).is_err());
    }

    proptest! {
        #[test]
        fn a_link_holds_what_was_put_into_it(value in ".{1,40}") {
            let query = Query::read(&of("text", &value)).unwrap();
            prop_assert_eq!(query.get("text"), Some(value.as_str()));
        }
    }
}
