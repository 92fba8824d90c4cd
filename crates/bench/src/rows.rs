//! The result of a program at one number of threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use flopsmith_evaluate::Evaluated;
use flopsmith_machine::roofline::Place;
use flopsmith_measure::Resolution;
use flopsmith_measure::ranking::{self, Compared, Entry, LogRatio};
use flopsmith_problem::{Language, Params};
use flopsmith_protocol::{Digest, Verdict};
use flopsmith_run::exit;

use crate::compare::{Change, ToSaved};

/// A program at one number of threads.
pub struct Row {
    /// The program's file.
    pub file: String,
    /// True for the program of `--against`.
    pub against: bool,
    /// The number of threads it was timed with.
    pub threads: u32,
    /// The size it was timed at; of several workloads the size of each.
    pub sizes: Vec<Params>,
    /// Its evaluation.
    pub done: Evaluated,
    /// Its speed relative to the baseline, if it was measured.
    pub own: Option<LogRatio>,
    /// The standard error that the placement of pages adds to `own`, which letters count
    /// ([`ranking::placement_log_se`]).
    pub placement_log_se: f64,
    /// Its speed relative to the program of `--against`.
    pub to_against: Option<Compared>,
    /// Its speed relative to a saved result of it, if there is one.
    pub to_saved: Option<ToSaved>,
    /// Its rank among the programs of its number of threads; `None` if it was not measured or did not converge.
    pub rank: Option<u32>,
    /// The letters that it shares with the programs it cannot be told apart from, if it has a rank.
    pub group: Option<String>,
    /// The measured floating-point peak at this number of threads, 10⁹ operations a second; none before a machine is known.
    pub peak_gflops: Option<f64>,
    /// The plain reference at the timed size and this number of threads, 10⁹ operations a second; none before a machine is
    /// known. The ratio refers to it; GFLOPS are the ratio times this speed.
    pub reference_gflops: Option<f64>,
    /// The same at each of several workloads, in their order; empty where there is one.
    pub reference_of_workloads: Vec<f64>,
    /// Bytes that a call must move at least for each operation, if the problem defines them.
    pub bytes_per_operation: Option<f64>,
    /// The part of a call that the clock and the hand-shake hide.
    pub resolution: Resolution,
    /// The part of the standard error of ln(ratio) that `resolution` causes; no further measurement reduces it.
    pub hidden_log_se: f64,
    /// OpenBLAS with its fastest core type here, 10⁹ operations a second, if it solves the problem and was measured.
    pub openblas_gflops: Option<f64>,
    /// Its version, if it was measured and says it.
    pub openblas_version: Option<String>,
    /// Its place under the roofline, if it was measured.
    pub place: Option<Place>,
    /// Its place at each of several workloads, in their order; empty where there is one.
    pub places: Vec<Option<Place>>,
    /// The machine that times; none if the program was refused and no other program has been timed: such a result needs no
    /// measurement of a machine.
    pub machine: Option<Arc<Machine>>,
}

/// A machine, as a timer attested it.
pub struct Machine {
    /// The attestation.
    pub attestation: serde_json::Value,
    /// The same in the form its digest is made of.
    pub json: String,
    /// The digest.
    pub digest: Digest,
}

impl Machine {
    /// Makes a machine from its attestation.
    pub fn new(json: String) -> serde_json::Result<Self> {
        Ok(Self {
            attestation: serde_json::from_str(&json)?,
            digest: Digest::of(json.as_bytes()),
            json,
        })
    }
}

impl Row {
    /// The row of a program that no timer knows yet.
    pub fn new(file: &str, threads: u32, sizes: &[Params], done: Evaluated) -> Self {
        Self {
            file: file.to_owned(),
            against: false,
            threads,
            sizes: sizes.to_vec(),
            done,
            own: None,
            placement_log_se: 0.0,
            to_against: None,
            to_saved: None,
            rank: None,
            group: None,
            peak_gflops: None,
            reference_gflops: None,
            reference_of_workloads: Vec::new(),
            bytes_per_operation: None,
            resolution: Resolution::default(),
            hidden_log_se: 0.0,
            openblas_gflops: None,
            openblas_version: None,
            place: None,
            places: Vec::new(),
            machine: None,
        }
    }

    /// Outcome, reason and exit code of its verdict.
    pub fn said(&self) -> (&'static str, Option<&'static str>, u8) {
        match &self.done.verdict {
            // An unconverged measurement states its result with an interval; it is neither a fault nor a failure.
            Verdict::Measured { measurement } if !measurement.converged() => {
                ("unconverged", None, exit::OK)
            }
            Verdict::Measured { .. } => ("measured", None, exit::OK),
            Verdict::Rejected { fault, .. } => ("rejected", Some(fault.name()), exit::CANDIDATE),
            Verdict::Infrastructure { cause, .. } => {
                ("infrastructure", Some(cause.name()), exit::INFRASTRUCTURE)
            }
            Verdict::Unknown { cause, .. } => ("unknown", Some(cause.name()), exit::INFRASTRUCTURE),
        }
    }

    /// The size it was timed at, for people: `n = 256`, or of several workloads `n = 256; n = 512`.
    pub fn size_words(&self) -> String {
        size_words(&self.sizes)
    }

    /// Further text about the result: diagnostics of a failure, or the compiler's warnings.
    pub fn detail(&self) -> &str {
        match &self.done.verdict {
            Verdict::Rejected { detail, .. }
            | Verdict::Infrastructure { detail, .. }
            | Verdict::Unknown { detail, .. } => detail,
            Verdict::Measured { .. } => &self.done.diagnostics,
        }
    }

    /// Like [`Row::detail`], for people: compilers name a file in the jail, which is replaced by the program's own
    /// name.
    pub fn detail_for_people(&self) -> String {
        let mut detail = self.detail().trim().to_owned();
        for end in Language::ALL.into_iter().flat_map(Language::endings) {
            detail = detail.replace(&format!("kernel.{end}:"), &format!("{}:", self.file));
        }
        detail
    }

    /// Bytes that the program moves each second at least, 10⁹.
    pub fn gb_per_second(&self) -> Option<f64> {
        let gflops = self.done.verdict.measurement()?.gflops;
        Some(gflops * self.bytes_per_operation?)
    }

    /// True if a call consists mostly of the hand-shake, at any workload. Its number then says next to nothing about the
    /// program.
    pub fn is_hidden(&self) -> bool {
        let measurement = self.done.verdict.measurement();
        measurement.is_some_and(|m| self.resolution.hides_calls_of(m))
    }

    /// Restates the speed in other measurements of reference and peak, 10⁹ operations a second. The ratio stays, and
    /// all numbers that are computed from it are updated.
    pub fn tell_in(&mut self, reference_gflops: f64, peak_gflops: f64) {
        self.reference_gflops = Some(reference_gflops);
        self.peak_gflops = Some(peak_gflops);
        if let Verdict::Measured { measurement } = &mut self.done.verdict {
            let references = &self.reference_of_workloads;
            measurement.tell_in(reference_gflops, references, peak_gflops);
        }
    }

    /// The reason why the program was not measured, if it was not.
    pub fn refusal(&self) -> Option<String> {
        let (outcome, reason, code) = self.said();
        let whose = match code {
            exit::OK => return None,
            exit::CANDIDATE => "refused",
            _ => "failed",
        };
        Some(format!("{whose}: {}", reason.unwrap_or(outcome)))
    }
}

/// Sizes for people.
pub fn size_words(sizes: &[Params]) -> String {
    let one = |params: &Params| {
        let params = params.iter().map(|(name, size)| format!("{name} = {size}"));
        params.collect::<Vec<_>>().join(", ")
    };
    sizes.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Sorts the rows by threads and then by speed, and gives ranks and letters to the rows of each number of threads
/// ([`ranking::rank`]). Each number of threads is ranked on its own: different timers have no common error that could
/// be cancelled. Programs that did not converge follow without a rank, and then those that were not measured. `looks`
/// is the number of times that the rows are ranked in all, each time with more measurements.
pub fn arrange(rows: &mut [Row], looks: usize) {
    let counts: BTreeSet<u32> = rows.iter().map(|r| r.threads).collect();
    for count in counts {
        let timed: Vec<&mut Row> = rows.iter_mut().filter(|r| r.threads == count).collect();
        place(timed, looks);
    }
    let low = |row: &Row| row.own.map_or(f64::NEG_INFINITY, LogRatio::low);
    rows.sort_by(|a, b| {
        let order = |row: &Row| (row.threads, row.own.is_none(), row.rank.unwrap_or(u32::MAX));
        let places = order(a).cmp(&order(b));
        let known = places.then_with(|| low(b).total_cmp(&low(a)));
        known.then_with(|| a.file.cmp(&b.file))
    });
}

/// Ranks the rows of one number of threads.
fn place(rows: Vec<&mut Row>, looks: usize) {
    let mut measured = Vec::new();
    let mut entries = Vec::new();
    for row in rows {
        (row.rank, row.group) = (None, None);
        if let (Some(own), Some(m)) = (row.own, row.done.verdict.measurement()) {
            entries.push(Entry {
                own,
                placement_log_se: row.placement_log_se,
                converged: m.converged(),
            });
            measured.push(row);
        }
    }
    let places = ranking::rank(&entries, looks).places;
    for (row, place) in measured.into_iter().zip(places) {
        if let Some(ranking::Place { rank, group }) = place {
            (row.rank, row.group) = (Some(rank), Some(group));
        }
    }
}

/// Replaces the rows of a program by new ones. The rows of the program that all others are compared with stay, even if
/// that program is also one of those compared.
pub fn take(rows: &mut Vec<Row>, new: Vec<Row>) {
    rows.retain(|old| old.against || !new.iter().any(|new| new.file == old.file));
    rows.extend(new);
}

/// The exit code of several programs: a failure of this machine outranks a fault of a program, and that outranks a
/// program that is slower than its saved result.
pub fn code(rows: &[Row]) -> u8 {
    let of = |row: &Row| match &row.to_saved {
        Some(to_saved) if to_saved.change == Change::Slower => exit::SLOWER,
        _ => exit::OK,
    };
    let codes = rows.iter().map(|row| worse(row.said().2, of(row)));
    codes.fold(exit::OK, worse)
}

/// The exit code that outranks the other one.
pub fn worse(one: u8, other: u8) -> u8 {
    let weight = |code: u8| match code {
        exit::OK => 0,
        exit::SLOWER => 1,
        exit::CANDIDATE => 2,
        exit::USAGE => 3,
        _ => 4,
    };
    if weight(one) < weight(other) {
        other
    } else {
        one
    }
}

#[cfg(test)]
pub(super) mod tests {
    use flopsmith_machine::roofline::Bound;
    use flopsmith_protocol::{
        Certificate, InfrastructureCause, Interval, StopReason, TechniqueSet, UnknownCause,
        VerifiedSizes,
    };
    use flopsmith_test_support::{Measured, infrastructure, unknown, wrong};

    use super::*;

    /// A row of this program and verdict.
    pub fn row(file: &str, threads: u32, verdict: Verdict) -> Row {
        let own = verdict.measurement().map(|m| LogRatio {
            value: m.ratio.ln(),
            se: m.log_ratio_se,
        });
        let done = Evaluated {
            techniques: verdict
                .measurement()
                .and_then(|_| "simd+unroll".parse::<TechniqueSet>().ok()),
            verdict,
            vector_bits: Some(256),
            diagnostics: String::new(),
            checked: None,
            raw: Vec::new(),
            busy: None,
        };
        let machine = Machine::new("{\"cpu_model\":\"m\"}".into()).expect("an attestation");
        Row {
            own,
            peak_gflops: Some(50.0),
            reference_gflops: Some(1.0),
            bytes_per_operation: Some(0.125),
            resolution: Resolution {
                hand_shake_seconds: 4e-7,
                taken_off_seconds: 0.0,
                error_seconds: 4e-8,
            },
            machine: Some(Arc::new(machine)),
            ..Row::new(file, threads, &[[("n".to_owned(), 8)].into()], done)
        }
    }

    /// A row of a program that was refused before any machine was measured.
    pub fn unmeasured(file: &str) -> Row {
        let Row { done, sizes, .. } = row(file, 1, wrong());
        Row::new(file, 1, &sizes, done)
    }

    /// A place at half of the memory roof, of data in a cache.
    pub fn by_memory() -> Place {
        Place {
            intensity: Some(0.125),
            roof_gflops: 2.5,
            share: 0.5,
            bound: Bound::Memory,
            cached_in: Some("L3".into()),
        }
    }

    /// A place at four fifths of the peak.
    pub fn by_compute() -> Place {
        Place {
            intensity: Some(8.0),
            roof_gflops: 50.0,
            share: 0.8,
            bound: Bound::Compute,
            cached_in: Some("L2".into()),
        }
    }

    /// Certifies a measured program after the fact, perhaps with a ratio of cold calls.
    pub fn certify(row: &mut Row, cold_ratio: Option<f64>) {
        if let Verdict::Measured { measurement } = &mut row.done.verdict {
            measurement.sizes = Some(VerifiedSizes::of(97, 400, 90));
            measurement.certificate = Some(Certificate {
                layout_ratios: vec![measurement.ratio; 5],
                layout_spread: 0.004,
                cold_seconds_per_call: Some(2.0 * measurement.seconds_per_call),
                cold_ratio,
                cold_interval: cold_ratio.map(|ratio| Interval {
                    low: ratio - 0.5,
                    high: ratio + 0.5,
                    confidence: 0.95,
                }),
                cold_stop: Some(StopReason::Precise),
            });
        }
    }

    /// Gives a certified program cold calls that did not converge.
    pub fn unsure_when_cold(row: &mut Row) {
        if let Verdict::Measured { measurement } = &mut row.done.verdict
            && let Some(certificate) = &mut measurement.certificate
        {
            certificate.cold_stop = Some(StopReason::Unconverged);
        }
    }

    /// A measured program that did not converge.
    pub fn unsure(file: &str, gflops: f64) -> Row {
        let measured = Measured::at(gflops).se(0.1).unconverged();
        row(file, 1, measured.verdict())
    }

    /// A measured program.
    pub fn fast(file: &str, threads: u32, gflops: f64) -> Row {
        row(file, threads, Measured::at(gflops).se(0.002).verdict())
    }

    /// A measured program whose calls consist mostly of the hand-shake.
    pub fn hidden(file: &str, ratio: f64) -> Row {
        let mut hidden = row(file, 1, Measured::at(ratio).se(0.2).unconverged().verdict());
        if let Verdict::Measured { measurement } = &mut hidden.done.verdict {
            measurement.seconds_per_call = 4.3e-7;
            measurement.minimum_seconds = Some(4.2e-7);
            measurement.median_seconds = Some(4.3e-7);
        }
        hidden.hidden_log_se = 0.14;
        hidden
    }

    #[test]
    fn unconverged_rows_follow_without_a_rank() {
        // 208 GFLOPS with a large error, 128 GFLOPS with a small one.
        let mut rows = [
            unsure("wild.c", 208.0),
            fast("good.c", 1, 128.0),
            row("w.c", 1, wrong()),
            fast("slow.c", 1, 8.0),
        ];
        arrange(&mut rows, 1);
        let order: Vec<(&str, Option<u32>, bool)> = rows
            .iter()
            .map(|r| (r.file.as_str(), r.rank, r.group.is_some()))
            .collect();
        assert_eq!(
            order,
            [
                ("good.c", Some(1), true),
                ("slow.c", Some(2), true),
                ("wild.c", None, false),
                ("w.c", None, false),
            ]
        );
    }

    #[test]
    fn the_numbers_of_a_row_agree_with_each_other_whatever_they_are_told_in() {
        let mut rows = [fast("a.c", 1, 40.0)];
        certify(&mut rows[0], Some(12.5));
        // The reference was measured while the machine was slow.
        rows[0].tell_in(3.7, 50.0);
        let m = rows[0].done.verdict.measurement().expect("measured");
        let reference = rows[0].reference_gflops.expect("it was told");
        assert!((m.gflops - m.ratio * reference).abs() < 1e-9);
        assert!((m.gflops - 148.0).abs() < 1e-9 && (m.share_of_peak - 2.96).abs() < 1e-9);
        assert!((m.seconds_per_call * m.gflops - 0.033_554_432).abs() < 1e-9);
        let cold = m.certificate.as_ref().and_then(|c| c.cold_seconds_per_call);
        assert!(cold.is_some_and(|cold| (cold / m.seconds_per_call - 2.0).abs() < 1e-9));
        assert!(
            rows[0]
                .gb_per_second()
                .is_some_and(|gb| (gb - 18.5).abs() < 1e-9)
        );
        let mut refused = row("w.c", 1, wrong());
        refused.tell_in(3.7, 50.0);
        assert_eq!(refused.gb_per_second(), None);
    }

    #[test]
    fn calls_that_are_mostly_hand_shake_are_known_by_their_median() {
        assert!(hidden("t.c", 1.1).is_hidden());
        // Other processes used the core: half of the calls took longer.
        let mut disturbed = hidden("t.c", 1.1);
        if let Verdict::Measured { measurement } = &mut disturbed.done.verdict {
            measurement.median_seconds = Some(3e-3);
        }
        assert!(disturbed.is_hidden());
        assert!(!fast("a.c", 1, 40.0).is_hidden());
        assert!(!row("w.c", 1, wrong()).is_hidden());
    }

    #[test]
    fn rows_are_sorted_by_threads_and_speed_and_grouped_apart() {
        let mut rows = [
            row("x.c", 1, wrong()),
            fast("a.c", 2, 60.0),
            fast("b.c", 1, 40.0),
            fast("c.c", 1, 40.1),
            fast("d.c", 1, 20.0),
            row("w.c", 1, wrong()),
        ];
        arrange(&mut rows, 1);
        let order: Vec<(&str, Option<&str>)> = rows
            .iter()
            .map(|r| (r.file.as_str(), r.group.as_deref()))
            .collect();
        assert_eq!(
            order,
            [
                ("c.c", Some("a")),
                ("b.c", Some("a")),
                ("d.c", Some("b")),
                ("w.c", None),
                ("x.c", None),
                ("a.c", Some("a")),
            ]
        );
    }

    #[test]
    fn a_new_measurement_takes_the_place_of_the_old_one_but_not_of_what_all_are_compared_with() {
        let mut rows = vec![fast("a.c", 1, 40.0), fast("a.c", 1, 41.0)];
        rows[0].against = true;
        rows.push(fast("b.c", 1, 30.0));
        take(&mut rows, vec![fast("a.c", 1, 50.0)]);
        let found: Vec<(&str, bool, u32)> = rows
            .iter()
            .map(|r| {
                let gflops = r.done.verdict.measurement().map_or(0.0, |m| m.gflops);
                (r.file.as_str(), r.against, gflops.round() as u32)
            })
            .collect();
        assert_eq!(
            found,
            [("a.c", true, 40), ("b.c", false, 30), ("a.c", false, 50)]
        );
    }

    #[test]
    fn infrastructure_failures_outrank_rejections_in_the_exit_code() {
        let good = || fast("a.c", 1, 40.0);
        let bad = || row("b.c", 1, wrong());
        let broken = || row("c.c", 1, infrastructure(InfrastructureCause::Jail));
        assert_eq!(code(&[good(), good()]), 0);
        assert_eq!(code(&[good(), bad()]), 1);
        assert_eq!(code(&[broken(), bad(), good()]), 3);
        assert_eq!(code(&[good(), row("d.c", 1, unknown())]), 3);
        assert_eq!(worse(exit::INFRASTRUCTURE, exit::SLOWER), 3);
        assert_eq!(worse(exit::SLOWER, exit::CANDIDATE), 1);
        assert_eq!(worse(exit::OK, exit::SLOWER), 4);
        assert_eq!(good().refusal(), None);
        let unsure = unsure("u.c", 40.0);
        assert_eq!(unsure.said(), ("unconverged", None, exit::OK));
        assert_eq!(unsure.refusal(), None);
        assert_eq!(bad().refusal().as_deref(), Some("refused: wrong_result"));
        assert_eq!(broken().refusal().as_deref(), Some("failed: jail"));
        let undecided = |cause| {
            let detail = String::new();
            row("d.c", 1, Verdict::Unknown { cause, detail })
        };
        assert_eq!(
            undecided(UnknownCause::Panicked).said(),
            ("unknown", Some("panicked"), exit::INFRASTRUCTURE)
        );
    }
}
