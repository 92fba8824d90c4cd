//! `[timed]`: the parameters of timed calls, and where those calls find their arrays.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use toml::Spanned;

use crate::keys::nearest;
use crate::mistakes::Check;
use crate::{Caches, Params};

/// The one key that is no parameter.
const CACHES: &str = "caches";

/// The value of a key of `[timed]`.
pub(crate) enum Setting {
    Number(i64),
    Words(String),
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Setting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Setting, E> {
                Ok(Setting::Number(value))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Setting, E> {
                Ok(Setting::Words(value.to_owned()))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// Takes apart what stands in `[timed]`.
pub(crate) fn read(
    check: &mut Check<'_>,
    raw: BTreeMap<String, Spanned<Setting>>,
) -> (Params, Caches) {
    let mut params = Params::new();
    let mut caches = Caches::default();
    for (key, value) in raw {
        match (key.as_str(), value.get_ref()) {
            (CACHES, Setting::Words(words)) => match Caches::of(words) {
                Some(known) => caches = known,
                None => check.wrong(&value, permitted(&format!("`{words}`"))),
            },
            (CACHES, Setting::Number(number)) => {
                check.wrong(&value, permitted(&number.to_string()))
            }
            (_, Setting::Number(number)) => {
                params.insert(key.clone(), *number);
            }
            (_, Setting::Words(words)) => {
                let near = nearest(&key, std::iter::once(CACHES))
                    .map(|near| format!("; did you mean `{near}`?"))
                    .unwrap_or_default();
                check.wrong(
                    &value,
                    format!(
                        "`{key}` in [timed] is `{words}`, and a parameter must be a whole number{near}"
                    ),
                );
            }
        }
    }
    (params, caches)
}

fn permitted(found: &str) -> String {
    format!("`caches` in [timed] is {found}; it must be `warm`, `cold` or `both`")
}
