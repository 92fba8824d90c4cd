//! Saved results: `--save NAME` writes one, `--compare NAME` reads it later.
//!
//! A saved result is a JSON file. It has the speeds of programs relative to the baseline kernel, not relative to the
//! plain reference: the reference's speed depends on where its pages happen to lie, and differs between two commands by
//! more than most changes of a program.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_measure::{METHOD, Purpose};
use flopsmith_problem::Params;
use flopsmith_protocol::{Digest, Interval, WorkloadMeasurement, text};
use flopsmith_run::console::usage;
use flopsmith_run::digits::counted;
use flopsmith_run::local::unix_ms;
use flopsmith_run::{output, paths};
use serde::{Deserialize, Serialize};

use crate::facts::{self, Facts};
use crate::inputs::Program;
use crate::outputs::AtSize;
use crate::rows::Row;

/// The mark of these files.
const FORMAT: &str = "flopsmith bench result";
/// The version of the format. It changes when an earlier Flopsmith could no longer read a file.
const VERSION: u32 = 1;
/// Longest name of a result.
const LONGEST_NAME: usize = 100;

/// A result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    format: String,
    version: u32,
    /// Version of the Flopsmith that measured it.
    flopsmith: String,
    /// The method of measuring ([`METHOD`]).
    pub method: String,
    /// When it was saved, in seconds since 1970.
    unix_seconds: u64,
    /// The problem.
    pub problem: String,
    /// The purpose of its measurements.
    pub purpose: Purpose,
    /// The circumstances at each size and number of threads.
    pub circumstances: Vec<Circumstances>,
    /// The programs that were measured.
    pub programs: Vec<SavedProgram>,
}

/// Problem and machine at one size and number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// The timed size, or that of each workload.
    pub sizes: Vec<Params>,
    /// The number of threads.
    pub threads: u32,
    /// Digest of the problem at this size.
    pub problem_digest: Digest,
    /// Key of the hardware and the toolchain.
    pub machine_class: String,
    /// The facts that must be the same for a comparison.
    pub facts: Facts,
    /// Digest of the whole attestation.
    pub attestation_digest: Digest,
}

/// A measured program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedProgram {
    /// Its file, as it was named.
    pub file: String,
    /// Digest of its source.
    pub source_digest: Digest,
    /// The timed size, or that of each workload. All numbers are means over them.
    pub sizes: Vec<Params>,
    /// The number of threads.
    pub threads: u32,
    /// True if the measurement converged.
    pub converged: bool,
    /// ln(seconds of the baseline / seconds of the program).
    pub log_ratio: f64,
    /// Its standard error.
    pub log_ratio_se: f64,
    /// The ratio to the plain reference.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// 10⁹ operations a second.
    pub gflops: f64,
    /// 10⁹ bytes a second that a call must move at least.
    pub gb_per_second: Option<f64>,
    /// Seconds of an undisturbed call.
    pub seconds_per_call: f64,
    /// Seconds of the fastest timed call.
    pub minimum_seconds: Option<f64>,
    /// Median seconds of the timed calls.
    pub median_seconds: Option<f64>,
    /// Median deviation of the calls from their median, as a share of it.
    pub mdape: f64,
    /// The disturbance of the measurement.
    pub machine_busy: Option<String>,
    /// The numbers of each of several workloads; empty where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadMeasurement>,
}

impl Saved {
    /// The result of these rows. `programs` have the sources. Rows without a usable number are left out.
    pub fn of(problem: &str, purpose: Purpose, results: &[AtSize], programs: &[Program]) -> Self {
        let mut circumstances: Vec<Circumstances> = Vec::new();
        let mut saved = Vec::new();
        for AtSize { problem, rows } in results {
            for row in rows.iter().filter(|row| !row.against) {
                let source = programs.iter().find(|program| program.name == row.file);
                let program = source.and_then(|program| SavedProgram::of(row, program));
                let (Some(program), Some(machine)) = (program, &row.machine) else {
                    continue;
                };
                saved.push(program);
                let known = |at: &Circumstances| at.sizes == row.sizes && at.threads == row.threads;
                if !circumstances.iter().any(known) {
                    circumstances.push(Circumstances {
                        sizes: row.sizes.clone(),
                        threads: row.threads,
                        problem_digest: problem.digest.clone(),
                        machine_class: facts::class(machine),
                        facts: Facts::of(machine),
                        attestation_digest: machine.digest.clone(),
                    });
                }
            }
        }
        Self {
            format: FORMAT.into(),
            version: VERSION,
            flopsmith: env!("CARGO_PKG_VERSION").into(),
            method: METHOD.into(),
            unix_seconds: unix_ms() / 1000,
            problem: problem.to_owned(),
            purpose,
            circumstances,
            programs: saved,
        }
    }

    /// The names of its programs, without duplicates.
    pub fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = self.programs.iter().map(|p| p.file.as_str()).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    /// Its age, for people.
    pub fn age(&self) -> String {
        age((unix_ms() / 1000).saturating_sub(self.unix_seconds))
    }
}

impl SavedProgram {
    fn of(row: &Row, program: &Program) -> Option<Self> {
        let (own, m) = (row.own?, row.done.verdict.measurement()?);
        let of_workloads = m.workloads.iter();
        let of_workloads =
            of_workloads.flat_map(|w| [w.ratio, w.interval.low, w.interval.high, w.gflops]);
        let of_all = [
            own.value,
            own.se,
            m.ratio,
            m.interval.low,
            m.interval.high,
            m.gflops,
        ];
        // A number without an interval cannot be compared.
        if !of_all.into_iter().chain(of_workloads).all(f64::is_finite) {
            return None;
        }
        Some(Self {
            file: row.file.clone(),
            source_digest: Digest::of(program.source.as_bytes()),
            sizes: row.sizes.clone(),
            threads: row.threads,
            converged: m.converged(),
            log_ratio: own.value,
            log_ratio_se: own.se,
            ratio: m.ratio,
            interval: m.interval,
            gflops: m.gflops,
            gb_per_second: row.gb_per_second(),
            seconds_per_call: m.seconds_per_call,
            minimum_seconds: m.minimum_seconds,
            median_seconds: m.median_seconds,
            mdape: m.mdape,
            machine_busy: row.done.busy.clone(),
            workloads: m.workloads.clone(),
        })
    }
}

/// A place for a result, whose folder is known to be writable.
#[derive(Debug)]
pub struct Slot {
    folder: PathBuf,
    name: String,
}

impl Slot {
    /// Makes the folder if it is missing.
    ///
    /// # Errors
    /// Wrong usage: a name that is no plain word, and a folder that takes no files.
    pub fn claim(folder: Option<&Path>, name: &str) -> Result<Self> {
        checked("--save", name)?;
        let folder = folder_of(folder)?;
        output::folder(&folder)?;
        Ok(Self {
            folder,
            name: name.to_owned(),
        })
    }

    /// Writes the result in place of an earlier one of this name: a reader finds one of them in full, whenever this
    /// process ends. Returns a line about it.
    pub fn write(&self, saved: &Saved) -> Result<String> {
        let path = file(&self.folder, &self.name);
        let earlier = read(&path).ok().map(|earlier| earlier.age());
        let part = self
            .folder
            .join(format!(".{}-{}", self.name, std::process::id()));
        let text = serde_json::to_string_pretty(saved)? + "\n";
        let written = File::create(&part)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&part, &path));
        if written.is_err() {
            // The error of the write is the one to report.
            let _ = std::fs::remove_file(&part);
        }
        written.with_context(|| format!("cannot write {}", path.display()))?;
        let replaced = earlier.map_or_else(String::new, |age| {
            format!(", in place of the result saved {age}")
        });
        Ok(format!(
            "saved {} as `{}` in {}{replaced}",
            counted(saved.files().len() as u64, "program"),
            self.name,
            path.display()
        ))
    }
}

/// Reads a result.
///
/// # Errors
/// Wrong usage: there is no such result, or the file is none.
pub fn load(folder: Option<&Path>, name: &str) -> Result<Saved> {
    checked("--compare", name)?;
    let folder = folder_of(folder)?;
    let path = file(&folder, name);
    read(&path).map_err(|why| match why {
        Unread::Missing => {
            let known = names(&folder);
            let known = match known.is_empty() {
                true => "there is none yet; `--save NAME` saves one".to_owned(),
                false => format!("there are {}", known.join(", ")),
            };
            usage(format!(
                "--compare {name}: {} has no saved result of this name: {known}",
                folder.display()
            ))
        }
        Unread::Because(why) => usage(format!("--compare {name}: {}: {why}", path.display())),
    })
}

/// Why there is no result.
enum Unread {
    Missing,
    Because(String),
}

/// The part of a file that every version has.
#[derive(Deserialize)]
struct Mark {
    format: String,
    version: u32,
}

fn read(path: &Path) -> Result<Saved, Unread> {
    let text = std::fs::read(path).and_then(text::decode);
    let text = text.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Unread::Missing,
        _ => Unread::Because(error.to_string()),
    })?;
    let no_result = |error: serde_json::Error| Unread::Because(format!("no saved result: {error}"));
    let mark: Mark = serde_json::from_str(&text).map_err(no_result)?;
    if mark.format != FORMAT || mark.version > VERSION {
        return Err(Unread::Because(format!(
            "`{}` of version {} is not what this Flopsmith reads: `{FORMAT}` up to version {VERSION}",
            mark.format, mark.version
        )));
    }
    serde_json::from_str(&text).map_err(no_result)
}

/// The names of all results in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

fn folder_of(named: Option<&Path>) -> Result<PathBuf> {
    match named {
        Some(folder) => Ok(folder.to_owned()),
        None => Ok(paths::data_folder()?.join("baselines")),
    }
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

/// Refuses names that could lead to another folder, or that a shell would read in its own way.
fn checked(option: &str, name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(plain);
    if fits && !name.starts_with(['.', '-']) {
        return Ok(());
    }
    Err(usage(format!(
        "{option} '{name}': a name has letters, digits, `-`, `_` and `.`, {LONGEST_NAME} at most, and begins with a letter, a digit or `_`"
    )))
}

fn age(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..60 => return "a moment ago".into(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", counted(number, unit))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use std::sync::Arc;

    use flopsmith_problem::Problem;
    use flopsmith_test_support::{shipped, wrong};

    use super::*;
    use crate::rows::tests::{fast, row, unsure};
    use crate::workloads::tests::over_two;

    /// A program with this name, and its name as the source.
    pub fn program(name: &str) -> Program {
        Program {
            file: name.into(),
            name: name.into(),
            language: None,
            stem: name.into(),
            source: name.into(),
            stamp: None,
        }
    }

    /// dgemm at the size of the rows of tests.
    pub fn problem() -> Arc<Problem> {
        let problem = Problem::load(&shipped::at("dgemm")).unwrap();
        Arc::new(problem.timed_at([("n".to_owned(), 8)].into()))
    }

    /// The saved result of rows, with the programs of this name.
    pub fn saved(rows: Vec<Row>) -> Saved {
        let programs: Vec<Program> = rows.iter().map(|row| program(&row.file)).collect();
        let results = [AtSize::new(problem(), rows)];
        Saved::of("dgemm", Purpose::Certify, &results, &programs)
    }

    #[test]
    fn a_result_is_read_as_it_was_written_and_a_new_one_replaces_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("made/here");
        let first = saved(vec![
            fast("a.c", 1, 40.0),
            row("w.c", 1, wrong()),
            unsure("u.c", 9.0),
        ]);
        assert_eq!(first.files(), ["a.c", "u.c"]);
        let converged: Vec<bool> = first.programs.iter().map(|p| p.converged).collect();
        assert_eq!(converged, [true, false]);
        assert_eq!(first.circumstances.len(), 1);
        let claimed = Slot::claim(Some(&folder), "main").unwrap();
        let said = claimed.write(&first).unwrap();
        assert!(said.starts_with("saved 2 programs as `main` in "), "{said}");
        assert!(said.ends_with("main.json"), "{said}");
        assert_eq!(load(Some(&folder), "main").unwrap(), first);
        // An editor may have marked it as UTF-8.
        let file = folder.join("main.json");
        let marked = ["\u{feff}".as_bytes(), &std::fs::read(&file).unwrap()[..]].concat();
        std::fs::write(&file, marked).unwrap();
        assert_eq!(load(Some(&folder), "main").unwrap(), first);
        let second = saved(vec![fast("a.c", 1, 50.0)]);
        let said = claimed.write(&second).unwrap();
        assert!(
            said.ends_with("in place of the result saved a moment ago"),
            "{said}"
        );
        assert_eq!(load(Some(&folder), "main").unwrap(), second);
        let files = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(files, 1, "nothing else is left behind");
    }

    #[test]
    fn a_result_that_is_missing_or_none_is_wrong_usage() {
        let place = tempfile::tempdir().unwrap();
        let refused = |name: &str| {
            let error = load(Some(place.path()), name).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            error.to_string()
        };
        assert!(refused("main").contains("`--save NAME` saves one"));
        for name in ["before", "after"] {
            let claimed = Slot::claim(Some(place.path()), name).unwrap();
            claimed.write(&saved(vec![fast("a.c", 1, 40.0)])).unwrap();
        }
        assert!(refused("main").ends_with("there are after, before"));
        for (text, says) in [
            ("{", "no saved result"),
            ("{\"format\":\"x\",\"version\":1}", "`x` of version 1"),
            (
                "{\"format\":\"flopsmith bench result\",\"version\":2}",
                "version 2",
            ),
            (
                "{\"format\":\"flopsmith bench result\",\"version\":1}",
                "missing field",
            ),
        ] {
            std::fs::write(place.path().join("odd.json"), text).unwrap();
            let error = refused("odd");
            assert!(
                error.contains(says) && error.contains("odd.json"),
                "{error}"
            );
        }
        for name in ["", ".", "../a", "a/b", "a b", "-x", &"a".repeat(101)] {
            assert!(refused(name).contains("letters, digits"), "{name}");
        }
        assert!(checked("--save", "v1.2_main-x").is_ok());
        let file = place.path().join("odd.json");
        let error = Slot::claim(Some(&file), "main").unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    }

    #[test]
    fn programs_without_an_interval_are_not_saved() {
        let mut vague = fast("a.c", 1, 40.0);
        vague.own = vague.own.map(|own| flopsmith_measure::ranking::LogRatio {
            se: f64::INFINITY,
            ..own
        });
        assert!(saved(vec![vague]).programs.is_empty());
    }

    #[test]
    fn several_workloads_are_saved_with_their_mean() {
        let place = tempfile::tempdir().unwrap();
        let both = saved(vec![over_two("a.c")]);
        let names: Vec<&str> = both.programs[0]
            .workloads
            .iter()
            .map(|workload| workload.name.as_str())
            .collect();
        assert_eq!(names, ["n=8", "n=16"]);
        assert_eq!(both.circumstances[0].sizes.len(), 2);
        let claimed = Slot::claim(Some(place.path()), "main").unwrap();
        claimed.write(&both).unwrap();
        assert_eq!(load(Some(place.path()), "main").unwrap(), both);
        let one = saved(vec![fast("a.c", 1, 40.0)]);
        let text = serde_json::to_string(&one).unwrap();
        assert!(!text.contains("workloads"), "{text}");
    }

    #[test]
    fn ages_have_the_largest_unit_that_fits() {
        for (seconds, words) in [
            (0, "a moment ago"),
            (61, "1 minute ago"),
            (7200, "2 hours ago"),
            (90_000, "1 day ago"),
        ] {
            assert_eq!(age(seconds), words);
        }
    }
}
