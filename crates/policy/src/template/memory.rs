//! The memory that a template may use.
//!
//! Jinja's operators, filters and blocks make texts and lists without a bound: `x ~ x` doubles a text, `[x, x]` doubles a list as
//! text, and fuel counts each as one instruction. So [`super::limited`] hands every value that a template makes to functions of
//! this module, which weigh it before the template goes on. Filters and methods that make a long text of short values at once are
//! estimated before they run.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, filters};
use minijinja_contrib::pycompat;

use super::{json, shown};
use crate::chat::Message;

/// The function and the filter for a value that was made. No template can write these names.
pub(super) const MADE: &str = "made!";

/// The function for a value that is put into a namespace.
pub(super) const ASSIGNED: &str = "assigned!";

/// The function for the namespace of such a value.
pub(super) const OWNER: &str = "owner!";

/// Bytes of the longest text, beside those for the messages.
const LONGEST: u64 = 1 << 20;

/// Bytes of the longest text for each byte of the messages. A character may become six in JSON.
const OF_MESSAGES: u64 = 8;

/// All texts together are at most so many times the longest one.
const TOGETHER: u64 = 64;

/// A template may write the conversation so often with each message.
const WRITTEN: u64 = 4;

/// Bytes for a place in a list or map as text, beside the value there.
const PLACE: u64 = 4;

/// Bytes of all texts together that it costs to look at a place.
const LOOK: u64 = 8;

/// Lists and maps that another one may have within it. To drop a chain of them recurses.
const MOST_WITHIN: usize = 100_000;

/// The greatest width or precision in a format.
const WIDEST: u64 = 10_000;

/// The limits of a template, and how much is left of them.
pub(super) struct Memory {
    /// Bytes of the longest text, or of a list or map as text.
    longest: u64,
    /// Bytes of the texts that may still be made.
    left: AtomicU64,
}

impl Memory {
    /// The limits of a template for these messages.
    pub fn of(messages: &[Message]) -> Arc<Self> {
        let bytes = |message: &Message| message.role.len() + message.content.len();
        let bytes = messages.iter().map(bytes).sum::<usize>() as u64;
        let count = messages.len() as u64;
        let longest = LONGEST.saturating_add(bytes.saturating_mul(OF_MESSAGES));
        let written = bytes.saturating_mul(count).saturating_mul(WRITTEN);
        let together = longest.saturating_mul(TOGETHER).saturating_add(written);
        Arc::new(Self {
            longest,
            left: together.into(),
        })
    }

    /// Bytes of the longest text.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Checks the length of a text.
    ///
    /// # Errors
    /// If it is longer than the longest one may be.
    pub fn fits(&self, bytes: u64) -> Result<(), Error> {
        match bytes <= self.longest {
            true => Ok(()),
            false => Err(exceeded(&format!(
                "a text or list has more than {} bytes, the most for these messages",
                self.longest
            ))),
        }
    }

    /// Counts the bytes of a text that is new.
    ///
    /// # Errors
    /// If all texts together are longer than they may be.
    pub fn spend(&self, bytes: u64) -> Result<(), Error> {
        let left = self.left.load(Ordering::Relaxed).checked_sub(bytes);
        let left = left.ok_or_else(|| exceeded("its texts and lists are too long together"))?;
        self.left.store(left, Ordering::Relaxed);
        Ok(())
    }

    /// Weighs a value that was made.
    fn made(&self, value: &Value) -> Result<(), Error> {
        match value.as_str() {
            Some(text) => {
                let bytes = text.len() as u64;
                self.fits(bytes)?;
                self.spend(bytes)
            }
            None if is_container(value) => self.weigh(value, true),
            None => Ok(()),
        }
    }

    /// Checks the length of a list or map as text. A value that occurs several times within it counts each time, because it
    /// would be written each time. The texts of one that `is_new` are new, too.
    fn weigh(&self, value: &Value, is_new: bool) -> Result<(), Error> {
        let mut within = Within {
            memory: self,
            bytes: 0,
            open: vec![value.clone()],
            is_new,
        };
        let mut lists = 0;
        while let Some(value) = within.open.pop() {
            lists += 1;
            if lists > MOST_WITHIN {
                return Err(exceeded(&format!(
                    "a list or map has more than {MOST_WITHIN} others within it"
                )));
            }
            let is_map = value.kind() == ValueKind::Map;
            for item in value.try_iter()? {
                if is_map {
                    within.enter(value.get_item(&item)?)?;
                }
                within.enter(item)?;
            }
            // Further in, values are shared with others.
            within.is_new = false;
        }
        Ok(())
    }
}

/// A list or map that is being weighed.
struct Within<'a> {
    memory: &'a Memory,
    bytes: u64,
    /// Lists and maps within it.
    open: Vec<Value>,
    is_new: bool,
}

impl Within<'_> {
    /// Adds the value at a place.
    fn enter(&mut self, value: Value) -> Result<(), Error> {
        self.memory.spend(LOOK)?;
        let bytes = value.as_str().map_or(0, |text| text.len() as u64);
        if self.is_new {
            self.memory.spend(bytes)?;
        }
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(PLACE);
        self.memory.fits(self.bytes)?;
        if is_namespace(&value) {
            return Err(hidden());
        }
        if is_container(&value) {
            self.open.push(value);
        }
        Ok(())
    }
}

fn is_container(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map
    )
}

/// True for the only values that change. A list that holds one might become a part of itself, or longer than when it was weighed.
fn is_namespace(value: &Value) -> bool {
    let object = value.as_object();
    object.is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

fn exceeded(what: &str) -> Error {
    let text = format!("the template takes too much memory: {what}");
    Error::new(ErrorKind::InvalidOperation, text)
}

fn hidden() -> Error {
    let text = "a namespace within a list, a map or another namespace is not supported";
    Error::new(ErrorKind::InvalidOperation, text)
}

/// Limits the templates of an environment. They have to be made by [`super::limited`].
pub(super) fn limit(environment: &mut Environment<'_>, memory: &Arc<Memory>) {
    // It writes all variables.
    environment.remove_global("debug");
    let of = Arc::clone(memory);
    environment.add_function(MADE, move |value: Value| -> Result<Value, Error> {
        of.made(&value)?;
        Ok(value)
    });
    let of = Arc::clone(memory);
    environment.add_filter(MADE, move |value: Value| -> Result<Value, Error> {
        of.made(&value)?;
        Ok(value)
    });
    let of = Arc::clone(memory);
    environment.add_function(OWNER, move |value: Value| -> Result<Value, Error> {
        if is_container(&value) {
            of.weigh(&value, false)?;
        }
        Ok(value)
    });
    environment.add_function(ASSIGNED, |value: Value| -> Result<Value, Error> {
        match is_namespace(&value) {
            true => Err(hidden()),
            false => Ok(value),
        }
    });
    let of = Arc::clone(memory);
    environment.set_formatter(move |out, state, value| shown::show(&of, out, state, value));
    estimate(environment, memory);
}

/// The length of a text, estimated by the arguments of the filter that would make it.
type Estimate = fn(&[Value]) -> u64;

/// Estimates filters and methods before they run.
fn estimate(environment: &mut Environment<'_>, memory: &Arc<Memory>) {
    environment.add_filter("replace!", filters::replace);
    environment.add_filter("join!", filters::join);
    environment.add_filter("indent!", filters::indent);
    environment.add_filter("batch!", filters::batch);
    environment.add_filter("slice!", filters::slice);
    environment.add_filter("format!", filters::format);
    let filters: [(&str, &str, Estimate); 6] = [
        ("replace", "replace!", replaced),
        ("join", "join!", joined),
        ("indent", "indent!", indented),
        ("batch", "batch!", in_parts),
        ("slice", "slice!", in_parts),
        ("format", "format!", |given| formatted(given, '%')),
    ];
    for (name, own, estimate) in filters {
        let of = Arc::clone(memory);
        environment.add_filter(
            name,
            move |state: &State<'_, '_>, given: Rest<Value>| -> Result<Value, Error> {
                of.fits(estimate(&given))?;
                state.apply_filter(own, &given)
            },
        );
    }
    let of = Arc::clone(memory);
    environment.add_filter(
        "tojson",
        move |value: Value, places: Rest<Value>, named: Kwargs| -> Result<Value, Error> {
            json::tojson(&of, &value, &places, &named)
        },
    );
    let of = Arc::clone(memory);
    environment.set_unknown_method_callback(move |state, value, method, given| {
        let all = || [std::slice::from_ref(value), given].concat();
        let first = given.first().cloned().unwrap_or_default();
        let bytes = match (value.kind(), method) {
            // pycompat would count for ever.
            (ValueKind::String, "count") if first.as_str() == Some("") => {
                return Ok(Value::from(text(Some(value)).chars().count() + 1));
            }
            (ValueKind::String, "replace") => replaced(&all()),
            (ValueKind::String, "join") => joined(&[first, value.clone()]),
            (ValueKind::String, "format") => formatted(&all(), '{'),
            _ => 0,
        };
        of.fits(bytes)?;
        pycompat::unknown_method_callback(state, value, method, given)
    });
}

/// A value as text; an empty text for none.
fn text(value: Option<&Value>) -> Cow<'_, str> {
    match value.map(|value| (value, value.as_str())) {
        Some((_, Some(text))) => Cow::Borrowed(text),
        Some((value, None)) => Cow::Owned(value.to_string()),
        None => Cow::default(),
    }
}

/// The numbers among arguments, by places and by names.
fn numbers(given: &[Value]) -> u64 {
    let number = |value: &Value| value.as_usize().map_or(0, |number| number as u64);
    let numbers = given.iter().map(|value| match value.is_kwargs() {
        true => {
            let names = value.try_iter().into_iter().flatten();
            let named = names.filter_map(|name| value.get_item(&name).ok());
            named
                .map(|value| number(&value))
                .fold(0, u64::saturating_add)
        }
        false => number(value),
    });
    numbers.fold(0, u64::saturating_add)
}

fn replaced(given: &[Value]) -> u64 {
    let (whole, from, to) = (text(given.first()), text(given.get(1)), text(given.get(2)));
    let count = whole.matches(from.as_ref()).count() as u64;
    let new = count.saturating_mul(to.len() as u64);
    new.saturating_add(whole.len() as u64)
}

fn joined(given: &[Value]) -> u64 {
    let between = text(given.get(1)).len() as u64;
    let items = given.first().map(Value::try_iter);
    let items = items.into_iter().flatten().flatten();
    let bytes = items.map(|item| item.as_str().map_or(0, |text| text.len() as u64));
    bytes.fold(0_u64, |sum, bytes| {
        sum.saturating_add(bytes).saturating_add(between)
    })
}

fn indented(given: &[Value]) -> u64 {
    let whole = text(given.first());
    let lines = whole.matches('\n').count() as u64 + 2;
    let width = numbers(given.get(1..).unwrap_or_default());
    let blanks = lines.saturating_mul(width);
    blanks.saturating_add(whole.len() as u64)
}

fn in_parts(given: &[Value]) -> u64 {
    let places = numbers(given.get(1..).unwrap_or_default());
    places.saturating_mul(size_of::<Value>() as u64)
}

/// The length of a text whose fields begin with `mark`, if each field had all arguments.
fn formatted(given: &[Value], mark: char) -> u64 {
    let given: Vec<Cow<'_, str>> = given.iter().map(|value| text(Some(value))).collect();
    let Some((format, given)) = given.split_first() else {
        return 0;
    };
    let all: u64 = given.iter().map(|text| text.len() as u64).sum();
    let mut bytes = format.len() as u64;
    // The number that is being read, within a field.
    let mut number: Option<u64> = None;
    for c in format.chars() {
        let Some(digits) = number else {
            if c == mark {
                number = Some(0);
                bytes = bytes.saturating_add(all);
            }
            continue;
        };
        let ends = match mark {
            '%' => c.is_ascii_alphabetic() || c == mark,
            _ => c == '}' || c == mark,
        };
        number = match c.to_digit(10) {
            Some(digit) => Some(digits * 10 + u64::from(digit)),
            None => {
                bytes = bytes.saturating_add(digits);
                (!ends).then_some(0)
            }
        };
        if number > Some(WIDEST) {
            return u64::MAX;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_at_least_the_lengths_of_the_results() {
        let text = |text: &str| Value::from(text);
        let list = Value::from(vec![text("a"), text("bcd"), text("")]);
        let cases: [(Estimate, Vec<Value>, u64); 7] = [
            (replaced, vec![text("abab"), text("b"), text("xyz")], 8),
            (replaced, vec![text("ab"), text(""), text("-")], 5),
            (joined, vec![list.clone(), text(", ")], 8),
            (joined, vec![list], 4),
            (indented, vec![text("a\nb\n\nc"), Value::from(4)], 14),
            (
                |given| formatted(given, '%'),
                vec![text("%5d|%s"), Value::from(1), text("ab")],
                8,
            ),
            (
                |given| formatted(given, '{'),
                vec![text("{:>7}{{"), text("a")],
                8,
            ),
        ];
        for (estimate, given, length) in cases {
            let estimated = estimate(&given);
            let is_near = (length..10 * length + 20).contains(&estimated);
            assert!(is_near, "{given:?}: {estimated}");
        }
        for wide in ["%999999d", "%.70000f", "%-100000s"] {
            assert_eq!(
                formatted(&[text(wide), Value::from(1)], '%'),
                u64::MAX,
                "{wide}"
            );
        }
        for wide in ["{:999999}", "{0:>100000}", "{:.70000f}"] {
            assert_eq!(
                formatted(&[text(wide), Value::from(1)], '{'),
                u64::MAX,
                "{wide}"
            );
        }
        // Numbers in the text around the fields are no widths.
        assert!(formatted(&[text("{}% of 20240706"), Value::from(1)], '{') < 40);
        assert!(formatted(&[text("20240706 %s 20240706"), Value::from(1)], '%') < 40);
    }
}
