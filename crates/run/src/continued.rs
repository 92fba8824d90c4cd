//! Output folders of commands that go on where they stopped: the configuration that a folder was begun with, and files to
//! which lines are appended as they come. A line that a killed process left unfinished is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::console::usage;
use crate::output;

/// The file of the configuration.
pub const CONFIG: &str = "config.json";

/// Takes a folder for this process, until the file that it returns is dropped. The folder is made if there is none. `noun`
/// names what it holds, and `check` looks at the path and the text of a configuration that is there.
///
/// # Errors
/// Wrong usage: the folder holds something else, was begun with another configuration, or another process works on it.
pub fn claim<T: Serialize>(
    path: &Path,
    noun: &str,
    config: &T,
    check: impl Fn(&Path, &str) -> Result<()>,
) -> Result<File> {
    let about = path.join(CONFIG);
    let is_empty = std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    if !about.exists() && !is_empty {
        return Err(usage(format!(
            "{} is not empty and holds no {noun}; name another folder with --output",
            path.display()
        )));
    }
    output::folder(path)?;
    let mut locked = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&about)
        .map_err(|e| output::unwritable(&about, e))?;
    if !output::locked(&locked).with_context(|| format!("cannot lock {}", about.display()))? {
        return Err(usage(format!(
            "another process works on the {noun} in {}; wait for it, or name another folder with --output",
            path.display()
        )));
    }
    let mut text = String::new();
    locked
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", about.display()))?;
    let now = serde_json::to_string_pretty(config)? + "\n";
    // A process that was killed at once leaves an empty file.
    if text.is_empty() {
        locked
            .write_all(now.as_bytes())
            .with_context(|| format!("cannot write {}", about.display()))?;
        return Ok(locked);
    }
    check(&about, &text)?;
    let differ = differences(&text, &now)?;
    if !differ.is_empty() {
        return Err(usage(format!(
            "the {noun} in {} has another configuration, which differs in {}; name another folder with --output, or give the same options",
            path.display(),
            differ.join(", ")
        )));
    }
    Ok(locked)
}

/// The lines of a file; none if there is no file. An unfinished last line is left out.
///
/// # Errors
/// Wrong usage: the file cannot be read, or a line is damaged.
pub fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(usage(format!("cannot read {}: {e}", path.display()))),
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let lines = whole.lines().enumerate();
    lines
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|e| {
                usage(format!(
                    "line {} of {} is damaged: {e}; remove the line, or name another folder",
                    number + 1,
                    path.display()
                ))
            })
        })
        .collect()
}

/// Opens a file to append lines, without an unfinished last line.
///
/// # Errors
/// The file cannot be read or written.
pub fn appended(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|e| output::unwritable(path, e))?;
    let cannot = || format!("cannot read {}", path.display());
    let bytes = std::fs::read(path).with_context(cannot)?;
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    if whole < bytes.len() {
        file.set_len(whole as u64).with_context(cannot)?;
    }
    Ok(file)
}

/// The settings that differ between two configurations, with both values where these are short.
fn differences(then: &str, now: &str) -> Result<Vec<String>> {
    let then: BTreeMap<String, Value> = serde_json::from_str(then)?;
    let now: BTreeMap<String, Value> = serde_json::from_str(now)?;
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let differ = names.into_iter().filter_map(|name| {
        let (then, now) = (then.get(name), now.get(name));
        if then == now {
            return None;
        }
        let words = |value: Option<&Value>| value.map_or_else(|| "none".into(), Value::to_string);
        let (then, now) = (words(then), words(now));
        Some(match then.len().max(now.len()) > 40 {
            true => format!("`{name}`"),
            false => format!("`{name}` ({then} there, {now} here)"),
        })
    });
    Ok(differ.collect())
}
