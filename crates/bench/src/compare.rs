//! Compares results with a saved one: `--compare NAME`.
//!
//! Both speeds are relative to the same baseline kernel, which ran beside the programs each time. A change of the clock
//! rate between the two commands cancels. A difference in where pages lay does not: a certification covers it by many
//! processes, and the intervals of the other purposes are widened for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_measure::ranking::letters::told_apart;
use flopsmith_measure::ranking::{Compared, LogRatio, placement_log_se};
use flopsmith_measure::{METHOD, Purpose};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::Digest;
use flopsmith_run::console::usage;
use flopsmith_run::digits::{between, counted, four};

use crate::facts::Facts;
use crate::inputs::Program;
use crate::rate::common_unit;
use crate::rows::{Machine, Row, size_words};
use crate::saved::{Circumstances, Saved, SavedProgram};
use crate::table::Grid;

/// A program's speed relative to its saved one.
#[derive(Debug, Clone, PartialEq)]
pub struct ToSaved {
    /// Name of the saved result.
    pub name: String,
    /// How many times as fast it is now.
    pub compared: Compared,
    /// The verdict.
    pub change: Change,
    /// True if its source did not change.
    pub same_source: bool,
}

/// The verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is faster.
    Faster,
    /// It is slower.
    Slower,
    /// It hardly differs.
    NoDifference,
    /// Only further measurements can tell.
    Unclear,
}

impl Change {
    /// The name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Change::Faster => "faster",
            Change::Slower => "slower",
            Change::NoDifference => "no_difference",
            Change::Unclear => "unclear",
        }
    }
}

impl ToSaved {
    /// The change in words, with the largest difference that is possible where there seems to be none.
    fn change_words(&self) -> String {
        let interval = &self.compared.interval;
        let most = 100.0 * (interval.high - 1.0).max(1.0 - interval.low);
        match self.change {
            Change::NoDifference => format!("no difference above {most:.1} %"),
            Change::Unclear => "cannot be told".into(),
            known => known.name().into(),
        }
    }

    /// The comparison as a sentence.
    pub fn words(&self) -> String {
        let same = if self.same_source {
            " (its source is the same)"
        } else {
            ""
        };
        format!(
            "{} times as fast as in `{}`{same}, 95 % interval {}: {}",
            four(self.compared.ratio),
            self.name,
            between(&self.compared.interval),
            self.change_words()
        )
    }
}

/// A saved result, and the programs that are compared with it.
#[derive(Debug)]
pub struct Compare {
    name: String,
    saved: Saved,
    /// The saved file of each measured program, by the program's name.
    files: BTreeMap<String, String>,
    /// Digest of each measured program's source, by its name.
    sources: BTreeMap<String, Digest>,
    purpose: Purpose,
    /// Number of comparisons that share the chance of an error: one for each size.
    looks: usize,
    /// True if a program is not in C.
    others: bool,
}

impl Compare {
    /// A comparison of `programs`, which are measured to the standard of `purpose` at the sizes of `problems`.
    ///
    /// # Errors
    /// Wrong usage: another problem, no size or number of threads in common, or no program in common.
    pub fn new(
        name: &str,
        saved: Saved,
        programs: &[Program],
        problems: &[Arc<Problem>],
        threads: &[u32],
        purpose: Purpose,
    ) -> Result<Self> {
        let refuse = |why: String| Err(usage(format!("--compare {name}: {why}")));
        let files = matched(&saved, programs);
        if files.is_empty() {
            return refuse(format!(
                "it has none of these programs, by path or by file name; it has {}",
                saved.files().join(", ")
            ));
        }
        let mut common = 0;
        for problem in problems {
            for threads in threads {
                let Some(then) = circumstances(&saved, problem, *threads) else {
                    continue;
                };
                common += 1;
                if then.problem_digest != problem.digest {
                    return refuse(format!(
                        "it was measured on another definition of `{}` (digest {} then, {} now), so its times do not compare; save a new result",
                        saved.problem,
                        then.problem_digest.short(),
                        problem.digest.short()
                    ));
                }
            }
        }
        if common == 0 {
            let known = saved.circumstances.iter().map(place);
            return refuse(format!(
                "it was measured with other sizes or numbers of threads: {}",
                known.collect::<Vec<_>>().join("; ")
            ));
        }
        if saved.method != METHOD {
            return refuse(format!(
                "it was measured by method {}, and this Flopsmith measures by {METHOD}; save a new result",
                saved.method
            ));
        }
        let c = |program: &Program| program.language.is_none_or(|l| l == Language::C);
        Ok(Self {
            name: name.to_owned(),
            files,
            sources: programs
                .iter()
                .map(|p| (p.name.clone(), Digest::of(p.source.as_bytes())))
                .collect(),
            purpose,
            looks: problems.len(),
            others: !programs.iter().all(c),
            saved,
        })
    }

    /// Refuses to compare times of another machine, compiler or flags than those of `machine`.
    ///
    /// # Errors
    /// Wrong usage; the message says what differs.
    pub fn check(&self, problem: &Problem, threads: u32, machine: &Machine) -> Result<()> {
        let Some(then) = circumstances(&self.saved, problem, threads) else {
            return Ok(());
        };
        let differences = then.facts.differences(&Facts::of(machine), self.others);
        if differences.is_empty() {
            return Ok(());
        }
        Err(usage(format!(
            "--compare {}: its times do not compare with times of this command, because these differ:\n  {}",
            self.name,
            differences.join("\n  ")
        )))
    }

    /// Compares the rows of one size. Holm's correction over all rows, and an equal part of the 5 % for each size, keep
    /// the chance that an unchanged program is called faster or slower at 5 % for the whole command.
    pub fn judge(&self, rows: &mut [Row]) {
        let (mut found, mut pairs) = (Vec::new(), Vec::new());
        for (number, row) in rows.iter_mut().enumerate() {
            row.to_saved = None;
            let (Some(own), Some(then)) = (row.own, self.program(row)) else {
                continue;
            };
            let measurement = row.done.verdict.measurement();
            let sure = then.converged && measurement.is_some_and(|m| m.converged());
            let now = widened(own, self.purpose);
            let before = LogRatio {
                value: then.log_ratio,
                se: then.log_ratio_se,
            };
            let before = widened(before, self.saved.purpose);
            found.push((number, now.over(before), sure.then_some(pairs.len())));
            if sure {
                pairs.push((now, before));
            }
        }
        let apart = told_apart(&pairs, self.looks);
        for (number, compared, pair) in found {
            let apart = pair.map(|pair| apart[pair]);
            let row = &mut rows[number];
            let source = self.sources.get(&row.file);
            let then = self.program(row).map(|then| &then.source_digest);
            row.to_saved = Some(ToSaved {
                name: self.name.clone(),
                change: change(&compared, apart),
                compared,
                same_source: source == then,
            });
        }
    }

    /// The saved program of a row.
    fn program(&self, row: &Row) -> Option<&SavedProgram> {
        let file = self.files.get(&row.file).filter(|_| !row.against)?;
        let mut programs = self.saved.programs.iter();
        programs.find(|p| p.file == *file && p.sizes == row.sizes && p.threads == row.threads)
    }

    /// The heading of the comparison.
    pub fn title(&self) -> String {
        format!("`{}`, saved {}", self.name, self.saved.age())
    }

    /// The comparison as a table, and the sentences below it.
    pub fn grid(&self, rows: &[&Row]) -> (Grid, Vec<String>) {
        let sizes: BTreeSet<_> = rows.iter().map(|row| &row.sizes).collect();
        let (several, threads) = (sizes.len() > 1, rows.iter().any(|row| row.threads != 1));
        let mut columns = vec![("file", false)];
        if several {
            columns.push(("size", false));
        }
        if threads {
            columns.push(("threads", true));
        }
        columns.extend([
            ("now", true),
            ("new/old", true),
            ("95 % interval", false),
            ("change", false),
            ("source", false),
        ]);
        let compared = rows
            .iter()
            .filter_map(|row| Some((*row, row.to_saved.as_ref()?)));
        let cells = compared.map(|(row, to_saved)| {
            let mut cells = vec![row.file.clone()];
            if several {
                cells.push(row.size_words());
            }
            if threads {
                cells.push(row.threads.to_string());
            }
            let unit = common_unit(rows.iter().copied()).unwrap_or(row.unit());
            let now = row.rate_in(unit).unwrap_or(f64::NAN);
            cells.extend([
                format!("{} {unit}", four(now)),
                four(to_saved.compared.ratio),
                between(&to_saved.compared.interval),
                to_saved.change_words(),
                if to_saved.same_source {
                    "same"
                } else {
                    "changed"
                }
                .to_owned(),
            ]);
            cells
        });
        let grid = Grid {
            rows: cells.collect(),
            columns,
        };
        (grid, self.notes(rows))
    }

    fn notes(&self, rows: &[&Row]) -> Vec<String> {
        let count = rows.iter().filter(|row| row.to_saved.is_some()).count();
        let mut notes = vec![format!(
            "new/old: how many times as fast as in `{}`, both beside the same baseline kernel; change: at 5 % over {}",
            self.name,
            counted(count as u64, "comparison")
        )];
        if self.purpose != Purpose::Certify || self.saved.purpose != Purpose::Certify {
            notes.push(
                "intervals are widened for the placement of pages, which only --purpose certify measures: save and compare with it to see changes below 5 %"
                    .to_owned(),
            );
        }
        let names = |files: BTreeSet<&str>| files.into_iter().collect::<Vec<_>>().join(", ");
        let known: BTreeSet<&str> = self.files.values().map(String::as_str).collect();
        let new = rows
            .iter()
            .filter(|row| !row.against && !self.files.contains_key(&row.file));
        let new: BTreeSet<&str> = new.map(|row| row.file.as_str()).collect();
        if !new.is_empty() {
            notes.push(format!("not in `{}`: {}", self.name, names(new)));
        }
        let gone = self
            .saved
            .files()
            .into_iter()
            .filter(|file| !known.contains(file));
        let gone: BTreeSet<&str> = gone.collect();
        if !gone.is_empty() {
            notes.push(format!("only in `{}`: {}", self.name, names(gone)));
        }
        notes
    }

    /// The comparison as lines of a text, beginning with an empty one.
    pub fn lines(&self, rows: &[&Row]) -> Vec<String> {
        let (grid, notes) = self.grid(rows);
        let mut lines = vec![String::new(), format!("compared with {}", self.title())];
        lines.extend(grid.lines());
        lines.extend(notes);
        lines
    }
}

/// The verdict of a comparison. `apart` says whether the two measurements differ significantly; none if one of them did not
/// converge.
fn change(compared: &Compared, apart: Option<bool>) -> Change {
    match apart {
        Some(true) if compared.ratio > 1.0 => Change::Faster,
        Some(true) => Change::Slower,
        Some(false) if compared.is_narrow() && !compared.is_a_difference() => Change::NoDifference,
        _ => Change::Unclear,
    }
}

/// A measurement with the error that another command would not have in common with it.
pub fn widened(own: LogRatio, purpose: Purpose) -> LogRatio {
    own.widened(placement_log_se(purpose))
}

fn circumstances<'a>(
    saved: &'a Saved,
    problem: &Problem,
    threads: u32,
) -> Option<&'a Circumstances> {
    let sizes = problem.params_of_each();
    let mut all = saved.circumstances.iter();
    all.find(|at| at.sizes == sizes && at.threads == threads)
}

/// Size and number of threads of a saved measurement, for messages.
fn place(at: &Circumstances) -> String {
    format!(
        "{} on {}",
        size_words(&at.sizes),
        counted(at.threads.into(), "thread")
    )
}

/// The saved file of each program: the file of the same path, or else the only one of the same file name, if no other
/// program has that name.
fn matched(saved: &Saved, programs: &[Program]) -> BTreeMap<String, String> {
    let files = saved.files();
    let mut matched: BTreeMap<String, String> = BTreeMap::new();
    for program in programs {
        if files.contains(&program.name.as_str()) {
            matched.insert(program.name.clone(), program.name.clone());
        }
    }
    let base = |name: &str| Path::new(name).file_name().map(|name| name.to_owned());
    let free: Vec<&str> = files
        .into_iter()
        .filter(|file| !matched.contains_key(*file))
        .collect();
    let open: Vec<&Program> = programs
        .iter()
        .filter(|program| !matched.contains_key(&program.name))
        .collect();
    for program in &open {
        let name = base(&program.name);
        let alone = open
            .iter()
            .filter(|other| base(&other.name) == name)
            .count()
            == 1;
        let mut same = free.iter().filter(|file| base(file) == name);
        if let (true, Some(file), None) = (alone, same.next(), same.next()) {
            matched.insert(program.name.clone(), (*file).to_owned());
        }
    }
    matched
}

#[cfg(test)]
pub(super) mod tests;
