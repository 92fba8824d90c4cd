//! Watches the files after the first round, and measures a program again when its file was saved.

use std::collections::BTreeMap;
use std::time::Duration;

use flopsmith_measure::ranking::{Compared, LogRatio};
use flopsmith_run::console::{data, say};
use flopsmith_run::digits::{between, four};
use flopsmith_run::exit;
use flopsmith_run::roofline;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::Format;
use crate::inputs::{Program, Stamp, stamp};
use crate::rows::Row;
use crate::several::{Several, say_why};

/// Interval between two looks at the files.
const LOOK: Duration = Duration::from_millis(300);

/// Measures saved files until a stop is requested.
pub fn run(mut several: Several, programs: &[Program], stopped: &CancellationToken) -> u8 {
    let mut watched: Vec<Watched> = programs
        .iter()
        .map(|program| Watched::new(program, several.of(&program.name)))
        .collect();
    say(&match programs {
        [program] => format!("watching {}; ctrl-c ends it", program.name),
        _ => format!("watching {} files; ctrl-c ends it", programs.len()),
    });
    while !stopped.is_cancelled() {
        std::thread::sleep(LOOK);
        for one in &mut watched {
            let now = stamp(&one.program.file);
            if stopped.is_cancelled() || !one.file.was_saved(now) {
                continue;
            }
            // The file may be gone again already. Then nothing is printed until it is saved the next time.
            let Ok(program) = Program::read(&one.program.file, one.program.stem.clone()) else {
                continue;
            };
            let rows = match several.measure_saved(&program) {
                Ok(Some(rows)) => rows,
                Ok(None) => break,
                Err(error) => {
                    say(&format!("error: {error:#}"));
                    continue;
                }
            };
            // An interrupted measurement is no result.
            if stopped.is_cancelled() {
                break;
            }
            say_why(&rows);
            several.take(rows);
            several.settle(&program.name, stopped);
            several.arrange();
            for row in several.of(&program.name) {
                let change = one.change(row);
                data(&match several.format() {
                    Format::Text => words(row, change),
                    Format::Json | Format::Jsonl => {
                        let mut object = several.object(row);
                        object["change"] = json!(change.map(|c| c.ratio));
                        object["interval_of_change"] = json!(change.map(|c| c.interval));
                        object.to_string()
                    }
                    Format::Csv => several.csv(row),
                    Format::Markdown => format!("- {}", words(row, change)),
                });
            }
        }
    }
    exit::INTERRUPTED
}

/// A program and its last speeds.
struct Watched<'a> {
    program: &'a Program,
    file: File,
    /// The last measured speed, by the number of threads; refused versions do not count.
    last: BTreeMap<u32, LogRatio>,
}

impl<'a> Watched<'a> {
    fn new<'b>(program: &'a Program, rows: impl Iterator<Item = &'b Row>) -> Self {
        Self {
            program,
            file: File::new(program.stamp),
            last: rows.filter_map(|r| Some((r.threads, r.own?))).collect(),
        }
    }

    /// The speed relative to the measurement before.
    fn change(&mut self, row: &Row) -> Option<Compared> {
        let now = row.own?;
        let before = self.last.insert(row.threads, now)?;
        Some(now.over(before))
    }
}

/// A file's time and size when it was measured, and when it was last seen.
struct File {
    measured: Option<Stamp>,
    seen: Option<Stamp>,
}

impl File {
    fn new(measured: Option<Stamp>) -> Self {
        Self {
            measured,
            seen: measured,
        }
    }

    /// True if the file differs from the measured one and has not changed since the last look: editors write in several
    /// steps.
    fn was_saved(&mut self, now: Option<Stamp>) -> bool {
        let rests = now == self.seen;
        self.seen = now;
        let saved = rests && now.is_some() && now != self.measured;
        if saved {
            self.measured = now;
        }
        saved
    }
}

fn words(row: &Row, change: Option<Compared>) -> String {
    let mut words = row.file.clone();
    if row.threads != 1 {
        words.push_str(&format!(" on {} threads", row.threads));
    }
    let Some(m) = row.done.verdict.measurement() else {
        return format!("{words}: {}", row.refusal().unwrap_or_default());
    };
    words.push_str(&format!(
        ": {} {}, {}× the plain reference {}",
        four(row.rate().unwrap_or(m.gflops)),
        row.unit(),
        four(m.ratio),
        between(&m.interval)
    ));
    if let Some(place) = &row.place {
        let machine = row.machine.as_ref();
        let bits = machine.and_then(|m| m.attestation["peak"]["vector_bits"].as_u64());
        let bits = bits.and_then(|bits| u32::try_from(bits).ok());
        words.push_str(&format!(", {}", roofline::reached(place, bits)));
    }
    if !m.converged() {
        words.push_str(", which did not converge");
    }
    if row.is_hidden() {
        words.push_str(", and a call is mostly hand-shake");
    }
    if row.done.busy.is_some() {
        words.push_str(", on a busy machine");
    }
    if let Some(c) = row.to_against {
        let interval = between(&c.interval);
        words.push_str(&format!(", vs {} {interval}", four(c.ratio)));
    }
    if let Some(change) = change {
        words.push_str(&format!(
            "; since the previous measurement: {}",
            change.words()
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use flopsmith_test_support::{Measured, wrong};

    use super::*;
    use crate::rows::tests::{by_memory, fast, row, unsure};

    #[test]
    fn a_file_is_measured_once_for_each_time_it_was_saved_and_not_while_it_is_written() {
        let at = |second: u64, bytes: u64| {
            Some((SystemTime::UNIX_EPOCH + Duration::from_secs(second), bytes))
        };
        let mut file = File::new(at(1, 10));
        let looks = [
            (at(1, 10), false),
            // The file is truncated, then written, then unchanged.
            (at(2, 0), false),
            (at(2, 12), false),
            (at(2, 12), true),
            (at(2, 12), false),
            // The file is gone for a while, as with editors that rename.
            (None, false),
            (None, false),
            (at(3, 12), false),
            (at(3, 12), true),
        ];
        for (n, (look, expected)) in looks.into_iter().enumerate() {
            assert_eq!(file.was_saved(look), expected, "look {n}");
        }
    }

    #[test]
    fn a_change_is_counted_from_the_last_time_it_could_be_measured() {
        let program = Program {
            file: "a.c".into(),
            name: "a.c".into(),
            language: None,
            stem: "a".into(),
            source: String::new(),
            stamp: None,
        };
        let before = fast("a.c", 1, 40.0);
        let mut watched = Watched::new(&program, std::iter::once(&before));
        let broken = row("a.c", 1, wrong());
        assert_eq!(watched.change(&broken), None);
        assert_eq!(words(&broken, None), "a.c: refused: wrong_result");
        let now = fast("a.c", 1, 50.0);
        let change = watched.change(&now);
        let said = words(&now, change);
        assert!(said.starts_with("a.c: 50.00 GFLOPS, 50.00× the plain reference ["));
        assert!(
            said.contains("]; since the previous measurement: +25.0 % ["),
            "{said}"
        );
        let mut placed = fast("a.c", 1, 50.0);
        placed.place = Some(by_memory());
        let said = words(&placed, None);
        assert!(said.starts_with("a.c: 6.250 GB/s, 50.00× "), "{said}");
        assert!(said.ends_with("], 50.0 % of the roof (memory)"), "{said}");
        let said = words(&unsure("a.c", 50.0), None);
        assert!(said.ends_with("], which did not converge"), "{said}");
        let mut disturbed = fast("a.c", 1, 50.0);
        disturbed.done.busy = Some("core 1 is used 40 % by others".into());
        let said = words(&disturbed, None);
        assert!(said.ends_with("], on a busy machine"), "{said}");
        let same = watched.change(&fast("a.c", 1, 50.0));
        assert!(words(&now, same).ends_with("no difference of more than 0.6 %"));
        // From 41.6 to 122.5 GFLOPS, the first of which has a large error.
        let vague = row("a.c", 1, Measured::at(41.6).se(0.6).unconverged().verdict());
        watched.change(&vague);
        let gain = watched.change(&fast("a.c", 1, 122.5));
        let said = words(&fast("a.c", 1, 122.5), gain);
        assert!(
            said.contains("cannot be told yet: +194 % by the estimate"),
            "{said}"
        );
        // Another number of threads has a history of its own.
        assert_eq!(watched.change(&fast("a.c", 2, 60.0)), None);
    }
}
