//! The fastest programs of each problem, in the folder of the service.
//!
//! A problem has one file, `best/PROBLEM.json`, with a list for each of the circumstances in which programs were measured: a
//! speed on another machine or with another compiler is no comparison. Only converged measurements enter a list, ordered by
//! the lower end of their intervals: the largest of many estimates is mostly one that noise made large. A list keeps its
//! programs longer than the jobs that brought them.

use std::cmp::Ordering;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flopsmith_problem::Language;
use flopsmith_protocol::{Digest, Interval, TechniqueSet};
use serde::{Deserialize, Serialize};

use crate::circumstances::Circumstances;
use crate::journal::{make, write};
use crate::program::{Judged, Program};
use crate::wire::Purpose;

/// Number of programs in a list.
const MOST: usize = 16;
/// Number of lists of a problem.
const MOST_LISTS: usize = 8;

/// A program in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its source.
    pub source: String,
    /// Its language.
    pub language: Language,
    /// The standard of its measurement.
    pub purpose: Purpose,
    /// The plain reference's time divided by the program's.
    pub ratio: f64,
    /// The 95 % interval of `ratio`.
    pub interval: Interval,
    /// Lower end of the interval without the part of the plain reference: programs are ordered by it.
    pub reaches: f64,
    /// Speed, 10⁹ operations a second.
    pub gflops: f64,
    /// The techniques that detection found.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in the object, bits.
    pub vector_bits: Option<u32>,
    /// The measurement of the reference that the numbers refer to.
    pub reference: Option<String>,
    /// True if that is provisional: on a busy machine it may be slow, and the ratio large.
    #[serde(default)]
    pub reference_is_provisional: bool,
    /// Time of the measurement, milliseconds since 1970.
    pub measured_unix_ms: u64,
}

/// The programs that were measured in the same circumstances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// The circumstances.
    pub circumstances: Circumstances,
    /// The programs, the fastest first.
    pub programs: Vec<Entry>,
}

/// The lists of a folder.
pub struct Best {
    folder: PathBuf,
    /// Held while a list is replaced.
    writing: Mutex<()>,
}

impl Best {
    /// The lists in the folder of a service.
    pub fn open(folder: &Path) -> Self {
        Self {
            folder: folder.join("best"),
            writing: Mutex::new(()),
        }
    }

    fn file(&self, problem: &Digest) -> PathBuf {
        self.folder.join(format!("{problem}.json"))
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lists of a problem; the one that a program was measured for last is the first.
    pub fn of(&self, problem: &Digest) -> Vec<List> {
        let text = std::fs::read(self.file(problem)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Enters a program that was measured, if it is fast enough.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn enter(&self, program: &Program, judged: &Judged, now_unix_ms: u64) -> Result<()> {
        let measurement = judged.verdict.measurement().filter(|m| m.converged());
        let (Some(measurement), Some(circumstances)) = (measurement, &judged.circumstances) else {
            return Ok(());
        };
        let entry = Entry {
            source: program.source.clone(),
            language: program.language,
            purpose: program.purpose,
            ratio: measurement.ratio,
            interval: measurement.interval,
            reaches: measurement.reaches(),
            gflops: measurement.gflops,
            techniques: judged.techniques,
            vector_bits: judged.vector_bits,
            reference: judged.reference.as_ref().map(|r| r.id.clone()),
            reference_is_provisional: judged.reference.as_ref().is_some_and(|r| r.defects() > 0),
            measured_unix_ms: now_unix_ms,
        };
        let problem = &program.problem.digest;
        let _one = self.writing();
        let before = self.of(problem);
        let after = entered(before.clone(), circumstances, entry);
        if after == before {
            return Ok(());
        }
        make(&self.folder)?;
        write(&self.file(problem), &after)
    }
}

/// The lists with one program more. If there are too many, the one that no program was measured for the longest ends.
fn entered(mut lists: Vec<List>, circumstances: &Circumstances, entry: Entry) -> Vec<List> {
    let is_it = |list: &List| list.circumstances == *circumstances;
    let before = lists
        .iter()
        .position(is_it)
        .map(|place| lists.remove(place));
    let programs = before.map(|list| list.programs).unwrap_or_default();
    let list = List {
        circumstances: circumstances.clone(),
        programs: with(programs, entry),
    };
    lists.insert(0, list);
    lists.truncate(MOST_LISTS);
    lists
}

/// A list with one program more. Of two measurements of one program the stricter one counts, and of equally strict ones the
/// later one: a lucky number does not stay.
fn with(mut list: Vec<Entry>, entry: Entry) -> Vec<Entry> {
    let is_same = |e: &Entry| e.source == entry.source && e.language == entry.language;
    if let Some(place) = list.iter().position(is_same) {
        let known = list.get(place).map_or(0, |e| e.purpose as u8);
        if known > entry.purpose as u8 {
            return list;
        }
        list.remove(place);
    }
    list.push(entry);
    list.sort_by(faster_first);
    list.truncate(MOST);
    list
}

/// Ratios to a provisional reference come last.
fn faster_first(a: &Entry, b: &Entry) -> Ordering {
    let provisional = a.reference_is_provisional.cmp(&b.reference_is_provisional);
    provisional.then_with(|| b.reaches.total_cmp(&a.reaches))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use flopsmith_problem::Problem;
    use flopsmith_protocol::Verdict;
    use flopsmith_test_support::{Measured, measured, shipped, wrong};

    use super::*;

    fn problem() -> Arc<Problem> {
        Arc::new(Problem::load(&shipped::at("dgemm")).unwrap())
    }

    fn enter(best: &Best, source: &str, purpose: Purpose, verdict: Verdict) {
        enter_at(best, "this", source, purpose, verdict);
    }

    fn enter_at(best: &Best, machine: &str, source: &str, purpose: Purpose, verdict: Verdict) {
        let program = Program::new(problem(), Language::C, source.into(), purpose);
        let failure =
            flopsmith_protocol::Failure::candidate(flopsmith_protocol::CandidateFault::Format, "");
        let judged = Judged {
            verdict,
            circumstances: Some(Circumstances::of_machine(machine)),
            ..Judged::failed(failure)
        };
        best.enter(&program, &judged, 5).unwrap();
    }

    fn sources(best: &Best) -> Vec<String> {
        only_list(best)
            .into_iter()
            .map(|entry| entry.source)
            .collect()
    }

    /// The only list.
    fn only_list(best: &Best) -> Vec<Entry> {
        let mut lists = best.of(&problem().digest);
        let list = lists.pop().map(|list| list.programs);
        assert_eq!(lists, []);
        list.unwrap_or_default()
    }

    #[test]
    fn the_lower_end_of_the_interval_decides() {
        let place = tempfile::tempdir().unwrap();
        let best = Best::open(place.path());
        assert_eq!(sources(&best), Vec::<String>::new());
        enter(&best, "sure", Purpose::Rank, measured(40.0));
        let lucky = Measured::at(41.0).se(0.1).verdict();
        enter(&best, "lucky", Purpose::Rank, lucky);
        enter(&best, "wrong", Purpose::Rank, wrong());
        let unsure = Measured::at(90.0).unconverged().verdict();
        enter(&best, "unsure", Purpose::Rank, unsure);
        assert_eq!(sources(&best), ["sure", "lucky"]);
        // Another process reads what this one wrote.
        assert_eq!(sources(&Best::open(place.path())), ["sure", "lucky"]);
    }

    #[test]
    fn a_program_has_one_place_by_its_strictest_measurement() {
        let place = tempfile::tempdir().unwrap();
        let best = Best::open(place.path());
        enter(&best, "a", Purpose::Rank, measured(40.0));
        enter(&best, "a", Purpose::Certify, measured(30.0));
        enter(&best, "a", Purpose::Screen, measured(50.0));
        let list = only_list(&best);
        assert_eq!(list.len(), 1);
        assert_eq!((list[0].gflops, list[0].purpose), (30.0, Purpose::Certify));
        enter(&best, "a", Purpose::Certify, measured(29.0));
        assert_eq!(only_list(&best)[0].gflops, 29.0);
    }

    #[test]
    fn speeds_of_different_machines_are_in_different_lists() {
        let place = tempfile::tempdir().unwrap();
        let best = Best::open(place.path());
        enter_at(&best, "slow", "a", Purpose::Certify, measured(10.0));
        enter_at(&best, "fast", "a", Purpose::Rank, measured(40.0));
        enter_at(&best, "slow", "b", Purpose::Rank, measured(12.0));
        let lists = best.of(&problem().digest);
        let found: Vec<(&str, Vec<f64>)> = lists
            .iter()
            .map(|list| {
                let speeds = list.programs.iter().map(|entry| entry.gflops);
                (list.circumstances.machine.as_str(), speeds.collect())
            })
            .collect();
        assert_eq!(found, [("slow", vec![12.0, 10.0]), ("fast", vec![40.0])]);
        for n in 0..2 * MOST_LISTS {
            enter_at(&best, &n.to_string(), "a", Purpose::Rank, measured(1.0));
        }
        let lists = best.of(&problem().digest);
        assert_eq!(lists.len(), MOST_LISTS);
        assert_eq!(
            lists[0].circumstances.machine,
            (2 * MOST_LISTS - 1).to_string()
        );
    }

    #[test]
    fn a_ratio_to_a_provisional_reference_comes_last_until_it_is_measured_again() {
        let place = tempfile::tempdir().unwrap();
        let best = Best::open(place.path());
        let enter_under = |source: &str, reference: crate::reference::Reference, gflops: f64| {
            let program = Program::new(problem(), Language::C, source.into(), Purpose::Rank);
            let judged = Judged {
                verdict: measured(gflops),
                reference: Some(reference.speeds),
                circumstances: Some(reference.circumstances),
                ..Judged::without_program(Language::C)
            };
            best.enter(&program, &judged, 5).unwrap();
        };
        let known = crate::reference::tests::reference("known", 1);
        let mut busy = crate::reference::tests::reference("busy", 0);
        busy.speeds.machine_busy = Some("core 1 is used".into());
        enter_under("a", busy, 90.0);
        enter_under("b", known.clone(), 40.0);
        assert_eq!(sources(&best), ["b", "a"]);
        enter_under("a", known, 50.0);
        assert_eq!(sources(&best), ["a", "b"]);
    }

    #[test]
    fn a_list_has_a_limit() {
        let place = tempfile::tempdir().unwrap();
        let best = Best::open(place.path());
        for n in 0..2 * MOST {
            let gflops = 1.0 + n as f64;
            enter(&best, &format!("{n}"), Purpose::Rank, measured(gflops));
        }
        let list = sources(&best);
        assert_eq!(list.len(), MOST);
        assert_eq!(list[0], (2 * MOST - 1).to_string());
    }
}
