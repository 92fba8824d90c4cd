//! `[timed]` or `[[timed]]`: the workloads at which calls are timed, each with its parameters and the state of the caches.

use std::collections::BTreeMap;
use std::fmt;

use flopsmith_protocol::FIRST_WORKLOAD;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use crate::keys::meant;
use crate::mistakes::Check;
use crate::{Caches, Params, Workload};

/// The keys that are no parameters.
const CACHES: &str = "caches";
const NAME: &str = "name";
/// Longest name of a workload, characters: it stands in tables and on command lines.
const LONGEST_NAME: usize = 60;

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

/// The keys of one workload.
type Table = BTreeMap<String, Spanned<Setting>>;

/// One workload, or several. No untagged enum: those lose the places of their values, which messages name.
pub(crate) enum Timed {
    One(Table),
    Several(Vec<Spanned<Table>>),
}

impl<'de> Deserialize<'de> for Timed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Timed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one table [timed], or several tables [[timed]]")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Timed, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map)).map(Timed::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Timed, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Timed::Several)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// The workloads of a definition. Without a mistake there is at least one.
pub(crate) fn read(check: &mut Check<'_>, raw: &Spanned<Timed>) -> Vec<Workload> {
    match raw.get_ref() {
        Timed::One(table) => {
            let workload = workload(check, table);
            if workload.params.is_empty() {
                check.mistakes.push((
                    0,
                    "[timed] gives no parameter: give the size at which calls are timed, e.g. n = 256"
                        .into(),
                ));
            }
            vec![workload]
        }
        Timed::Several(tables) => {
            if tables.is_empty() {
                check.wrong(
                    raw,
                    "`timed` is empty: give the size at which calls are timed, e.g. [timed] with n = 256",
                );
            }
            several(check, tables)
        }
    }
}

fn several(check: &mut Check<'_>, tables: &[Spanned<Table>]) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Vec::with_capacity(tables.len());
    for table in tables {
        let next = workload(check, table.get_ref());
        if next.params.is_empty() {
            check.wrong(
                table,
                "this [[timed]] gives no parameter: give the size at which calls are timed, e.g. n = 256",
            );
        } else if let Some(first) = workloads.first()
            && first.params.keys().ne(next.params.keys())
        {
            check.wrong(
                table,
                format!(
                    "the workload `{}` has the parameters {}, and the first one has {}: all [[timed]] must have the same parameters",
                    next.name,
                    names(&next.params),
                    names(&first.params)
                ),
            );
        }
        if workloads.iter().any(|other| other.name == next.name) {
            check.wrong(
                table,
                format!(
                    "two workloads are called `{}`: give one of them another `name`",
                    next.name
                ),
            );
        }
        workloads.push(next);
    }
    workloads
}

fn names(params: &Params) -> String {
    let names: Vec<&str> = params.keys().map(String::as_str).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// Takes one table apart.
fn workload(check: &mut Check<'_>, table: &Table) -> Workload {
    let mut params = Params::new();
    let mut caches = Caches::default();
    let mut name = None;
    for (key, value) in table {
        match (key.as_str(), value.get_ref()) {
            (CACHES, Setting::Words(words)) => match Caches::of(words) {
                Some(known) => caches = known,
                None => check.wrong(value, permitted(&format!("`{words}`"))),
            },
            (CACHES, Setting::Number(number)) => check.wrong(value, permitted(&number.to_string())),
            (NAME, Setting::Words(words)) if words == FIRST_WORKLOAD => check.wrong(
                value,
                format!(
                    "`name` in [timed] is `{FIRST_WORKLOAD}`, which stands for the first workload of each problem: choose another name"
                ),
            ),
            (NAME, Setting::Words(words)) if is_name(words) => name = Some(words.clone()),
            (NAME, Setting::Words(words)) => check.wrong(
                value,
                format!(
                    "`name` in [timed] is {words:?}: it must have 1 to {LONGEST_NAME} characters, no control characters, and no space at its ends"
                ),
            ),
            (NAME, Setting::Number(number)) => check.wrong(
                value,
                format!("`name` in [timed] is {number}: it must be text, as it names the workload"),
            ),
            (_, Setting::Number(number)) => {
                params.insert(key.clone(), *number);
            }
            (_, Setting::Words(words)) => {
                let near = meant(key, [CACHES, NAME].into_iter())
                    .map(|near| format!("; did you mean {near}?"))
                    .unwrap_or_default();
                check.wrong(
                    value,
                    format!(
                        "`{key}` in [timed] is `{words}`, and a parameter must be a whole number{near}"
                    ),
                );
            }
        }
    }
    Workload {
        name: name.unwrap_or_else(|| usual_name(&params)),
        params,
        caches,
    }
}

/// The name of a workload that has none of its own: `n=256`.
pub(crate) fn usual_name(params: &Params) -> String {
    let sizes = params.iter().map(|(name, size)| format!("{name}={size}"));
    sizes.collect::<Vec<_>>().join(",")
}

fn is_name(words: &str) -> bool {
    let plain = !words.chars().any(char::is_control);
    plain && words.trim() == words && (1..=LONGEST_NAME).contains(&words.chars().count())
}

fn permitted(found: &str) -> String {
    format!("`caches` in [timed] is {found}; it must be `warm`, `cold` or `both`")
}
