#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::OpenOptions;
use std::io::Write;

use flopsmith_protocol::{CandidateFault, Outcome};
use flopsmith_test_support::{Measured, again, first, measured, rejected};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A folder with a log.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder };
        std::fs::write(place.log(), "").unwrap();
        place
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("outcomes.jsonl")
    }

    fn append(&self, bytes: &[u8]) {
        let mut log = OpenOptions::new().append(true).open(self.log()).unwrap();
        log.write_all(bytes).unwrap();
    }

    fn open(&self) -> Index {
        let places = Places::new(self.folder.path(), None, "ui");
        Index::open(&self.log(), &places, outcome).unwrap()
    }

    /// An index of the same log that keeps nothing.
    fn rebuilt(&self) -> Index {
        let other = tempfile::tempdir().unwrap();
        let places = Places::new(other.path(), None, "ui");
        let mut index = Index::open(&self.log(), &places, outcome).unwrap();
        extend(&mut index);
        index
    }
}

fn extend(index: &mut Index) {
    while !index.extend(1 << 20, |_, _| ()).unwrap().done {}
}

/// Every record, and the numbers of the view.
fn whole(index: &Index) -> (Vec<Record>, Names, u64, u64) {
    let mut records = Vec::new();
    assert!(
        index
            .replay(|number, record| {
                assert_eq!(number, records.len() as u64);
                records.push(*record);
            })
            .unwrap()
    );
    let view = index.view();
    let names = Names::clone(&view.names);
    (records, names, view.covered, view.unreadable)
}

fn line(outcome: &Outcome) -> Vec<u8> {
    let mut line = serde_json::to_vec(outcome).unwrap();
    line.push(b'\n');
    line
}

/// A line of a log: mostly an outcome, now and then something else.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    (0u32..9, 0u32..40, 0.1f64..90.0).prop_map(|(kind, sample, gflops)| {
        let program = first(sample, "int x;\n", "simd", measured(gflops));
        match kind {
            0 => b"no outcome\n".to_vec(),
            1 => b"\n".to_vec(),
            2 => line(&again(
                &program,
                Measured::at(gflops).unconverged().verdict(),
            )),
            3 => line(&first(
                sample,
                "é\u{0}<b>",
                "unroll",
                rejected(CandidateFault::Timeout),
            )),
            _ => line(&program),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_index_that_grew_equals_one_rebuilt(
        all in prop::collection::vec(lines(), 0..40),
        cuts in prop::collection::vec(0usize..40_000, 0..6),
        restarts in any::<bool>(),
    ) {
        let place = Place::new();
        let bytes: Vec<u8> = all.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let mut index = place.open();
        let mut written = 0;
        for cut in cuts {
            // A cut is mostly within a line.
            place.append(&bytes[written..cut]);
            written = cut;
            prop_assert!(index.fits().unwrap());
            while !index.extend(2000, |_, _| ()).unwrap().done {}
            if restarts {
                drop(index);
                index = place.open();
            }
        }
        prop_assert_eq!(whole(&index), whole(&place.rebuilt()));
        prop_assert_eq!(index.view().covered, bytes.len() as u64);
    }
}

#[test]
fn a_line_that_is_cut_off_comes_into_the_index_once_it_is_whole() {
    let place = Place::new();
    let (early, late) = (
        line(&first(1, "a", "simd", measured(1.0))),
        line(&first(2, "b", "simd", measured(2.0))),
    );
    place.append(&early);
    place.append(&late[..late.len() / 2]);
    let mut index = place.open();
    extend(&mut index);
    let view = index.view();
    assert_eq!(
        (view.count, view.covered, view.unreadable),
        (1, early.len() as u64, 0)
    );
    place.append(&late[late.len() / 2..]);
    extend(&mut index);
    let view = index.view();
    assert_eq!(view.count, 2);
    let record = view.record(1).unwrap().unwrap();
    let read: Outcome = serde_json::from_slice(&view.line(&record).unwrap()).unwrap();
    assert_eq!((read.source.as_str(), record.gflops), ("b", 2.0));
    assert_eq!(view.record(2).unwrap(), None);
}

#[test]
fn a_log_that_was_replaced_or_shortened_does_not_fit() {
    let place = Place::new();
    let lines = [1.0, 2.0, 3.0].map(|gflops| line(&first(1, "a", "simd", measured(gflops))));
    place.append(&lines.concat());
    let mut index = place.open();
    extend(&mut index);
    assert!(index.fits().unwrap());
    // Shortened.
    let log = OpenOptions::new().write(true).open(place.log()).unwrap();
    log.set_len(lines[0].len() as u64).unwrap();
    assert!(!index.fits().unwrap());
    // As long as before, with another end.
    let other = [&lines[0][..], &lines[1], &lines[1]].concat();
    std::fs::write(place.log(), &other).unwrap();
    assert!(!index.fits().unwrap());
    // Another file with the same name.
    std::fs::write(place.log(), lines.concat()).unwrap();
    assert!(index.fits().unwrap());
    std::fs::remove_file(place.log()).unwrap();
    std::fs::write(place.log(), &other).unwrap();
    assert!(!index.fits().unwrap());
    drop(index);
    // The index of an earlier process is made anew.
    let mut index = place.open();
    assert_eq!(index.view().count, 0);
    extend(&mut index);
    assert_eq!(whole(&index), whole(&place.rebuilt()));
}

#[test]
fn a_damaged_index_is_noticed() {
    let place = Place::new();
    place.append(&line(&first(1, "a", "simd", measured(1.0))));
    let mut index = place.open();
    extend(&mut index);
    drop(index);
    let records = place.folder.path().join("ui.index");
    let bytes = std::fs::read(&records).unwrap();
    // A record is missing.
    std::fs::write(&records, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(place.open().view().count, 0);
    // A record was never written.
    let mut zeros = bytes.clone();
    zeros[header::LENGTH..].fill(0);
    std::fs::write(&records, &zeros).unwrap();
    let index = place.open();
    assert_eq!(index.view().count, 1);
    assert!(!index.replay(|_, _| ()).unwrap());
    drop(index);
    // The head counts more records than there can be.
    let mut many = bytes.clone();
    many[16..24].fill(0xff);
    std::fs::write(&records, &many).unwrap();
    assert_eq!(place.open().view().count, 0);
    // Of another format.
    std::fs::write(&records, b"something else").unwrap();
    assert_eq!(place.open().view().count, 0);
}

#[test]
fn two_processes_and_folders_that_take_no_files_do_no_harm() {
    let place = Place::new();
    place.append(&line(&first(1, "a", "simd", measured(1.0))));
    let (mut one, mut other) = (place.open(), place.open());
    extend(&mut one);
    extend(&mut other);
    assert_eq!(whole(&one), whole(&other));
    assert!(one.names_path.is_some() && other.names_path.is_none());
    // Not even root can make files in this folder.
    let nowhere = Places::new(Path::new("/proc/self"), Some(place.folder.path()), "ui");
    let (_, names) = nowhere.open().unwrap();
    assert!(names.unwrap().starts_with(place.folder.path()));
}

#[test]
fn an_index_that_a_page_still_reads_can_be_opened_again() {
    let place = Place::new();
    place.append(&line(&first(1, "a", "simd", measured(1.0))));
    let mut index = place.open();
    extend(&mut index);
    let view = index.view();
    drop(index);
    let index = place.open();
    assert!(index.names_path.is_some());
    assert_eq!((index.view().count, view.count), (1, 1));
    assert_eq!(view.record(0).unwrap(), index.view().record(0).unwrap());
}

#[test]
fn records_are_read_in_both_directions_over_the_ends_of_chunks() {
    let place = Place::new();
    place.append(&line(&first(1, "a", "simd", measured(1.0))));
    let mut index = place.open();
    extend(&mut index);
    let record = index.view().record(0).unwrap().unwrap();
    let count = 2 * CHUNK + 3;
    let bytes: Vec<u8> = (0..count)
        .flat_map(|n| Record { id: n, ..record }.encode())
        .collect();
    index.records.write_all_at(&bytes, at(0)).unwrap();
    index.header.count = count;
    let view = index.view();
    let mut seen = Vec::new();
    view.forward(5, |number, bytes| {
        assert_eq!(Raw(bytes).id(), number);
        seen.push(number);
        true
    })
    .unwrap();
    assert!(seen.into_iter().eq(5..count));
    let mut seen = Vec::new();
    view.backward(count - 1, |number, bytes| {
        assert_eq!(Raw(bytes).id(), number);
        seen.push(number);
        number > 7
    })
    .unwrap();
    assert!(seen.into_iter().eq((7..count - 1).rev()));
}
