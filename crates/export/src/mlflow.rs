//! Runs as folders of MLflow's file store.
//!
//! `ROOT/EXPERIMENT/RUN` has `meta.yaml`, a file for each metric with a line `timestamp value step` for each value, a file
//! for each parameter and tag, and the run's report as an artifact.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_protocol::Digest;
use flopsmith_run::console::usage;
use flopsmith_run::folder::{self, Folder};
use flopsmith_run::output::{locked, unwritable};
use flopsmith_run::report;
use flopsmith_run::scalars::{Curves, Point};
use flopsmith_run::summary::Facts;

use crate::{name_of, warn};

/// The name of the experiment, and its id, which has to be made of digits for MLflow's own pages.
const EXPERIMENT: (&str, &str) = ("flopsmith", "351736745019283746");
/// Longest value of a parameter, bytes; MLflow refuses longer ones from 6,000 on.
const LONGEST: usize = 500;
/// Settings that may hold credentials or a whole program.
const LEFT_OUT: [&str; 3] = ["nats", "store", "start"];

/// Adds a run to the store in `root`, and returns the folder of the run there.
///
/// # Errors
/// Wrong usage if the run is there already or the folder cannot be written.
pub fn export(run: &Path, root: &Path) -> Result<PathBuf> {
    let facts = folder::read_facts(run)?;
    let name = name_of(run);
    let mut curves = Curves::of(run, &facts.problems);
    let mut points = curves.next_points()?;
    warn(run, curves.unreadable());
    if let Some((step, at)) = curves.newest() {
        points.push(Point::of_time(&facts, step, at));
    }
    let experiment = root.join(EXPERIMENT.1);
    std::fs::create_dir_all(&experiment).map_err(|error| unwritable(&experiment, error))?;
    // Addresses of artifacts have to be absolute.
    let experiment = experiment
        .canonicalize()
        .with_context(|| format!("cannot find {}", experiment.display()))?;
    let id = id(&name, facts.started_unix_ms);
    let target = experiment.join(&id);
    let lock = experiment.join(format!(".{id}.lock"));
    // Held to the end: another export of the run would empty the part of this one.
    let _held = hold(&lock)?;
    if target.exists() {
        let _ = std::fs::remove_file(&lock);
        return Err(usage(format!(
            "the run {name} is in {} already; name another folder with --output, or remove {}",
            root.display(),
            target.display()
        )));
    }
    // Filled beside its place: an export that is killed leaves no part of a run there, and the next one replaces what it left.
    let part = experiment.join(format!(".{id}.part"));
    match std::fs::remove_dir_all(&part) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(&part, error)),
        _ => {}
    }
    std::fs::create_dir(&part).map_err(|error| unwritable(&part, error))?;
    let written = describe_experiment(&experiment, facts.started_unix_ms)
        .and_then(|()| fill(run, &name, &id, &facts, &points, &part, &target))
        .and_then(|()| std::fs::rename(&part, &target).map_err(|error| unwritable(&target, error)));
    if let Err(error) = written {
        // The first error is reported; this one adds nothing.
        let _ = std::fs::remove_dir_all(&part);
        return Err(error);
    }
    // A process that has opened this file meanwhile finds the run in its place.
    let _ = std::fs::remove_file(&lock);
    Ok(target)
}

/// Locks a file, which is made if it is missing, until the value is dropped.
fn hold(path: &Path) -> Result<File> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|error| unwritable(path, error))?;
    if !locked(&file).map_err(|error| unwritable(path, error))? {
        return Err(usage(format!(
            "another process exports this run and holds {}; wait for it, or name another folder with --output",
            path.display()
        )));
    }
    Ok(file)
}

/// The id of a run: 32 hexadecimal digits, the same for each export of a run.
fn id(name: &str, started_unix_ms: u64) -> String {
    let digest = Digest::of(format!("{name} {started_unix_ms}").as_bytes());
    digest.as_str().chars().take(32).collect()
}

fn describe_experiment(folder: &Path, unix_ms: u64) -> Result<()> {
    let path = folder.join("meta.yaml");
    if path.exists() {
        return Ok(());
    }
    let (name, id) = EXPERIMENT;
    let place = address(folder);
    let text = format!(
        "artifact_location: {place}\ncreation_time: {unix_ms}\nexperiment_id: {}\nlast_update_time: {unix_ms}\nlifecycle_stage: active\nname: {name}\n",
        quoted(id)
    );
    put(&path, &text)
}

/// Fills the folder `part` with a run that `target` will be.
fn fill(
    run: &Path,
    name: &str,
    id: &str,
    facts: &Facts,
    points: &[Point],
    part: &Path,
    target: &Path,
) -> Result<()> {
    for folder in ["metrics", "params", "tags", "artifacts"] {
        let folder = part.join(folder);
        std::fs::create_dir(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut metrics: BTreeMap<&str, String> = BTreeMap::new();
    for point in points {
        // The names of roles come from a file: a damaged one must not lead out of this folder.
        let values = point.values.iter().filter(|(tag, _)| is_path(tag));
        for (tag, value) in values {
            let line = format!("{} {value} {}\n", point.unix_ms, point.step);
            metrics.entry(tag).or_default().push_str(&line);
        }
    }
    for (tag, lines) in &metrics {
        let path = part.join("metrics").join(tag);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        put(&path, lines)?;
    }
    for (name, value) in parameters(run, facts)? {
        put(&part.join("params").join(name), &value)?;
    }
    for (tag, value) in [
        ("mlflow.runName", name),
        ("mlflow.user", "flopsmith"),
        ("mlflow.source.name", "flopsmith"),
        ("mlflow.source.type", "LOCAL"),
    ] {
        put(&part.join("tags").join(tag), value)?;
    }
    let page = run.join(report::FILE);
    if page.is_file() {
        std::fs::copy(&page, part.join("artifacts").join(report::FILE))
            .with_context(|| format!("cannot copy {}", page.display()))?;
    }
    // MLflow's numbers for a run that goes on, that came to its end, and that was stopped.
    let status = match (facts.finished, Folder::is_at_work(run)) {
        (true, _) => 3,
        (false, true) => 1,
        (false, false) => 5,
    };
    let started = facts.started_unix_ms;
    let end = match status {
        1 => "null".to_owned(),
        _ => (started + (facts.seconds.max(0.0) * 1000.0) as u64).to_string(),
    };
    let text = format!(
        "artifact_uri: {artifacts}\nend_time: {end}\nentry_point_name: ''\nexperiment_id: {experiment}\nlifecycle_stage: active\nrun_id: {id}\nrun_name: {name}\nrun_uuid: {id}\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {started}\nstatus: {status}\ntags: []\nuser_id: flopsmith\n",
        artifacts = address(&target.join("artifacts")),
        experiment = quoted(EXPERIMENT.1),
        id = quoted(id),
        name = quoted(name),
    );
    put(&part.join("meta.yaml"), &text)
}

fn put(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The settings of a run by dotted name, and its job.
fn parameters(run: &Path, facts: &Facts) -> Result<BTreeMap<String, String>> {
    let path = run.join("config.toml");
    let text = flopsmith_config::read_text(&path)?;
    let table = text
        .parse::<toml::Table>()
        .with_context(|| format!("cannot read {}", path.display()))?;
    let mut found = BTreeMap::from([("job".to_owned(), facts.job.clone())]);
    for (name, value) in &table {
        if !LEFT_OUT.contains(&name.as_str()) {
            flatten(name, value, &mut found);
        }
    }
    Ok(found)
}

fn flatten(name: &str, value: &toml::Value, found: &mut BTreeMap<String, String>) {
    let text = match value {
        toml::Value::Table(table) => {
            for (part, value) in table {
                flatten(&format!("{name}.{part}"), value, found);
            }
            return;
        }
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // The characters that MLflow permits and that are safe in a file's name.
    let name = name.replace(
        |c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c),
        "_",
    );
    let end = text.floor_char_boundary(LONGEST);
    found.insert(name, text[..end].to_owned());
}

/// True if a tag is a path below its folder.
fn is_path(tag: &str) -> bool {
    let mut parts = tag.split('/');
    parts.all(|part| !matches!(part, "" | "." | "..") && !part.contains(char::is_control))
}

/// A local address in YAML, with other bytes than those of plain names in hexadecimal digits.
fn address(path: &Path) -> String {
    let mut address = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => address.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => address.push(char::from(*byte)),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    quoted(&address)
}

/// Text in YAML.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stay_in_their_folder_and_addresses_have_plain_bytes() {
        for tag in ["best/gflops", "problem/a.b/cells", "share_of_time/idle"] {
            assert!(is_path(tag), "{tag}");
        }
        for tag in [
            "",
            "/etc/x",
            "a/../../x",
            "a/./b",
            "a//b",
            "a/",
            "a\0",
            "..",
        ] {
            assert!(!is_path(tag), "{tag:?}");
        }
        assert_eq!(
            address(Path::new("/a b/c#%é'/d-1.x")),
            "'file:///a%20b/c%23%25%C3%A9%27/d-1.x'"
        );
    }
}
