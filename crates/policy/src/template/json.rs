//! JSON in a chat template, as Python's `json.dumps` writes it. Jinja's own filter would escape `<`, `>`, `&` and `'`
//! for HTML, and write no space after commas and colons.

use std::io::{self, Write};

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::DEEPEST;
use super::memory::Memory;

/// The arguments of the filter, in the order of their positions.
const ARGUMENTS: [&str; 4] = ["ensure_ascii", "indent", "separators", "sort_keys"];

/// transformers' filter, with positional or named arguments. The text is as long as memory allows.
pub(super) fn tojson(
    memory: &Memory,
    value: &Value,
    places: &[Value],
    named: &Kwargs,
) -> Result<Value, Error> {
    if places.len() > ARGUMENTS.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let argument = |place: usize| -> Result<Option<Value>, Error> {
        let given: Option<Value> = match places.get(place) {
            Some(given) => Some(given.clone()),
            None => named.get(ARGUMENTS[place])?,
        };
        Ok(given.filter(|given| !given.is_none()))
    };
    let ascii = argument(0)?.is_some_and(|given| given.is_true());
    let indent = argument(1)?.map(indentation).transpose()?;
    let separators = argument(2)?;
    let sorted = argument(3)?.is_some_and(|given| given.is_true());
    named.assert_all_used()?;
    let (item, key) = match separators {
        Some(pair) => two(&pair)?,
        None if indent.is_some() => (",".into(), ": ".into()),
        None => (", ".into(), ": ".into()),
    };
    if value.is_undefined() {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "an undefined value cannot be written as JSON",
        ));
    }
    let failed = |e: serde_json::Error| {
        Error::new(
            ErrorKind::InvalidOperation,
            "the value cannot be written as JSON",
        )
        .with_source(e)
    };
    let layout = || Python {
        ascii,
        indent: indent.clone(),
        item: item.clone(),
        key: key.clone(),
        depth: 0,
        filled: false,
    };
    let most = usize::try_from(memory.longest()).unwrap_or(usize::MAX);
    let mut out = Bounded::of(most);
    let mut serializer = Serializer::with_formatter(&mut out, layout());
    if sorted {
        // The layout knows when a value nests too deeply to be copied.
        let mut unseen = Serializer::with_formatter(Bounded::of(most), layout());
        value.serialize(&mut unseen).map_err(failed)?;
        let mut plain = serde_json::to_value(value).map_err(failed)?;
        plain.sort_all_objects();
        plain.serialize(&mut serializer).map_err(failed)?;
    } else {
        value.serialize(&mut serializer).map_err(failed)?;
    }
    let text = String::from_utf8_lossy(&out.text).into_owned();
    Ok(Value::from(text))
}

/// A text of at most so many bytes.
struct Bounded {
    text: Vec<u8>,
    most: usize,
}

impl Bounded {
    fn of(most: usize) -> Self {
        let text = Vec::new();
        Self { text, most }
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most - self.text.len() {
            return Err(io::Error::other("it takes too much memory as text"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The indentation as text: a number of blanks, or the given text.
fn indentation(indent: Value) -> Result<String, Error> {
    match (indent.as_str(), indent.kind()) {
        (Some(text), _) => Ok(text.to_owned()),
        (None, ValueKind::Bool) => Ok(" ".repeat(usize::from(indent.is_true()))),
        _ => {
            let blanks = i64::try_from(indent)?;
            Ok(" ".repeat(usize::try_from(blanks).unwrap_or_default().min(64)))
        }
    }
}

/// The separator of items, and that of a key and its value.
fn two(pair: &Value) -> Result<(String, String), Error> {
    let parts: Vec<String> = pair.try_iter()?.map(|part| part.to_string()).collect();
    <[String; 2]>::try_from(parts).map(Into::into).map_err(|_| {
        Error::new(
            ErrorKind::InvalidOperation,
            "`separators` must hold two texts: one between items, and one after a key",
        )
    })
}

/// The layout of Python's JSON.
struct Python {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    depth: usize,
    /// True if the container that is open, or was closed last, has items.
    filled: bool,
}

impl Python {
    fn open<W: ?Sized + Write>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        if self.depth > DEEPEST {
            return Err(io::Error::other("it nests too deeply"));
        }
        to.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled {
            self.new_line(to)?;
        }
        to.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if !first {
            to.write_all(self.item.as_bytes())?;
        }
        self.new_line(to)
    }

    fn new_line<W: ?Sized + Write>(&self, to: &mut W) -> io::Result<()> {
        let Some(indent) = &self.indent else {
            return Ok(());
        };
        to.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| to.write_all(indent.as_bytes()))
    }
}

impl Formatter for Python {
    fn write_f64<W: ?Sized + Write>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        // Rust and Python write the same number except for the exponent, which in Python has a sign and at least two
        // digits.
        let text = format!("{value:?}");
        match text.split_once('e') {
            Some((digits, exponent)) => {
                let exponent: i32 = exponent.parse().map_err(io::Error::other)?;
                write!(to, "{digits}e{exponent:+03}")
            }
            None => to.write_all(text.as_bytes()),
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        to: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !self.ascii {
            return to.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            match c {
                ' '..='~' => write!(to, "{c}")?,
                c => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(to, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(self.key.as_bytes())
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}
