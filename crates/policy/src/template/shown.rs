//! Prints lists and maps in chat templates as Python does: texts within them stand in single quotes.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, escape_formatter};

use super::DEEPEST;
use super::memory::Memory;

/// Writes the value of a template's expression within the limits of memory.
pub(super) fn show(
    memory: &Memory,
    out: &mut Output<'_>,
    state: &State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let mut text = String::new();
            represent(memory, &mut text, value, 0)?;
            memory.spend(text.len() as u64)?;
            out.write_str(&text).map_err(Error::from)
        }
        _ => {
            let bytes = value.as_str().map_or(0, str::len);
            memory.spend(bytes as u64)?;
            escape_formatter(out, state, value)
        }
    }
}

/// Writes a value that lies within `depth` others.
fn represent(memory: &Memory, text: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > DEEPEST {
        let what = "the value nests too deeply to be written";
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    memory.fits(text.len() as u64)?;
    let depth = depth + 1;
    match (value.kind(), value.as_str()) {
        (_, Some(inner)) => quote(text, inner),
        (ValueKind::Map, _) => {
            text.push('{');
            for (place, key) in value.try_iter()?.enumerate() {
                text.push_str(if place > 0 { ", " } else { "" });
                represent(memory, text, &key, depth)?;
                text.push_str(": ");
                represent(memory, text, &value.get_item(&key)?, depth)?;
            }
            text.push('}');
        }
        (ValueKind::Seq | ValueKind::Iterable, _) => {
            text.push('[');
            for (place, item) in value.try_iter()?.enumerate() {
                text.push_str(if place > 0 { ", " } else { "" });
                represent(memory, text, &item, depth)?;
            }
            text.push(']');
        }
        _ => text.push_str(&value.to_string()),
    }
    Ok(())
}

fn quote(text: &mut String, inner: &str) {
    let mark = match inner.contains('\'') && !inner.contains('"') {
        true => '"',
        false => '\'',
    };
    text.push(mark);
    for c in inner.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\\' => text.push_str("\\\\"),
            c if c == mark => text.extend(['\\', c]),
            c if c.is_control() || c.is_whitespace() && c != ' ' => {
                text.push_str(&match u32::from(c) {
                    code @ ..0x100 => format!("\\x{code:02x}"),
                    code => format!("\\u{code:04x}"),
                });
            }
            c => text.push(c),
        }
    }
    text.push(mark);
}
