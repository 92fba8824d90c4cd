//! What is known of a program at one number of threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use flopsmith_bench::roofline::Place;
use flopsmith_problem::Language;
use flopsmith_protocol::{UnknownCause, Verdict};

use super::groups;
use super::ratio::{Compared, LogRatio};
use crate::evaluator::Evaluated;
use crate::exit;

/// A program at one number of threads.
pub struct Row {
    /// The program's file.
    pub file: String,
    /// Is it the program of `--against`?
    pub against: bool,
    /// How many threads it was timed with.
    pub threads: u32,
    /// What became of it.
    pub done: Evaluated,
    /// Its speed beside the baseline, if it was measured.
    pub own: Option<LogRatio>,
    /// Its speed beside the program of `--against`.
    pub to_against: Option<Compared>,
    /// The letters it shares with those it cannot be told from.
    pub group: Option<String>,
    /// The measured floating-point peak at this number of threads, 10⁹ operations a second.
    pub peak_gflops: f64,
    /// The plain reference at the timed size and this number of threads, 10⁹ operations a second: the ratio is to it.
    pub reference_gflops: f64,
    /// OpenBLAS with its fastest core type here, 10⁹ operations a second, where it solves the problem and was measured.
    pub openblas_gflops: Option<f64>,
    /// Its place under the roofline, if it was measured.
    pub place: Option<Place>,
    /// Where it was timed.
    pub machine: Arc<Machine>,
}

/// A machine, as a timer attested it.
pub struct Machine {
    /// The attestation.
    pub attestation: serde_json::Value,
    /// The same in the form its digest is made of.
    pub json: String,
}

impl Row {
    /// Outcome, reason and exit code of its verdict.
    pub fn said(&self) -> (&'static str, Option<&'static str>, u8) {
        match &self.done.verdict {
            // It says what it says, with an interval: nobody's fault, and no failure.
            Verdict::Measured { measurement } if !measurement.converged() => {
                ("unconverged", None, exit::OK)
            }
            Verdict::Measured { .. } => ("measured", None, exit::OK),
            Verdict::Rejected { fault, .. } => ("rejected", Some(fault.name()), exit::CANDIDATE),
            Verdict::Infrastructure { cause, .. } => {
                ("infrastructure", Some(cause.name()), exit::INFRASTRUCTURE)
            }
            Verdict::Unknown { cause, .. } => {
                let reason = cause.map_or("unknown", UnknownCause::name);
                ("unknown", Some(reason), exit::INFRASTRUCTURE)
            }
        }
    }

    /// What there is to say beside that: diagnostics of a failure, or the compiler's warnings.
    pub fn detail(&self) -> &str {
        match &self.done.verdict {
            Verdict::Rejected { detail, .. }
            | Verdict::Infrastructure { detail, .. }
            | Verdict::Unknown { detail, .. } => detail,
            Verdict::Measured { .. } => &self.done.diagnostics,
        }
    }

    /// The same for people: compilers speak of a file in the jail, and who reads it knows the program by its own name.
    pub fn detail_for_people(&self) -> String {
        let mut detail = self.detail().trim().to_owned();
        for end in Language::ALL.into_iter().flat_map(Language::endings) {
            detail = detail.replace(&format!("kernel.{end}:"), &format!("{}:", self.file));
        }
        detail
    }

    /// Why it was not measured, if it was not.
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

/// Puts the rows in order, by threads and then by speed, and gives letters to those of each number of threads: programs of
/// different timers have no error in common that could be taken out. `looks` is how often that may be done in all with more
/// measurements each time.
pub fn arrange(rows: &mut [Row], looks: usize) {
    rows.sort_by(|a, b| {
        let speed = match (a.own, b.own) {
            (Some(a), Some(b)) => b.value.total_cmp(&a.value),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        let threads = a.threads.cmp(&b.threads);
        threads.then(speed).then_with(|| a.file.cmp(&b.file))
    });
    let counts: BTreeSet<u32> = rows.iter().map(|r| r.threads).collect();
    for count in counts {
        let measured: Vec<&mut Row> = rows
            .iter_mut()
            .filter(|row| row.threads == count && row.own.is_some())
            .collect();
        let ratios: Vec<LogRatio> = measured.iter().filter_map(|row| row.own).collect();
        for (row, group) in measured.into_iter().zip(groups::letters(&ratios, looks)) {
            row.group = Some(group);
        }
    }
}

/// Takes up what a program came to, in the place of what it came to before. The program that all are compared with stays,
/// also where it is among those that are compared.
pub fn take(rows: &mut Vec<Row>, new: Vec<Row>) {
    rows.retain(|old| old.against || !new.iter().any(|new| new.file == old.file));
    rows.extend(new);
}

/// The exit code of several programs: what this machine could not do outranks what programs did wrong.
pub fn code(rows: &[Row]) -> u8 {
    let codes = rows.iter().map(|row| row.said().2);
    codes.max().unwrap_or(exit::OK)
}

#[cfg(test)]
pub(super) mod tests {
    use flopsmith_bench::roofline::Bound;
    use flopsmith_protocol::{
        Certificate, InfrastructureCause, Interval, StopReason, TechniqueSet, VerifiedSizes,
    };
    use flopsmith_test_support::{Measured, infrastructure, unknown, wrong};

    use super::*;

    /// A row of this program and verdict.
    pub fn row(file: &str, threads: u32, verdict: Verdict) -> Row {
        let own = verdict.measurement().map(|m| LogRatio {
            value: m.ratio.ln(),
            se: m.log_ratio_se,
        });
        Row {
            file: file.into(),
            against: false,
            threads,
            done: Evaluated {
                techniques: verdict
                    .measurement()
                    .and_then(|_| "simd+unroll".parse::<TechniqueSet>().ok()),
                verdict,
                vector_bits: Some(256),
                diagnostics: String::new(),
                checked: None,
                raw: Vec::new(),
                busy: None,
            },
            own,
            to_against: None,
            group: None,
            peak_gflops: 50.0,
            reference_gflops: 1.0,
            openblas_gflops: None,
            place: None,
            machine: Arc::new(Machine {
                attestation: serde_json::json!({"cpu_model": "m"}),
                json: "{\"cpu_model\":\"m\"}".into(),
            }),
        }
    }

    /// Half of what memory permits it, from a cache.
    pub fn by_memory() -> Place {
        Place {
            intensity: Some(0.125),
            roof_gflops: 2.5,
            share: 0.5,
            bound: Bound::Memory,
            cached_in: Some("L3".into()),
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

    /// Lets the cold calls of a certified program be hardly known.
    pub fn unsure_when_cold(row: &mut Row) {
        if let Verdict::Measured { measurement } = &mut row.done.verdict
            && let Some(certificate) = &mut measurement.certificate
        {
            certificate.cold_stop = Some(StopReason::Unconverged);
        }
    }

    /// A measured program whose number is hardly one.
    pub fn unsure(file: &str, gflops: f64) -> Row {
        let measured = Measured::at(gflops).se(0.1).unconverged();
        row(file, 1, measured.verdict())
    }

    /// A measured program.
    pub fn fast(file: &str, threads: u32, gflops: f64) -> Row {
        row(file, threads, Measured::at(gflops).se(0.002).verdict())
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
    fn what_the_machine_could_not_do_outranks_what_a_program_did() {
        let good = || fast("a.c", 1, 40.0);
        let bad = || row("b.c", 1, wrong());
        let broken = || row("c.c", 1, infrastructure(InfrastructureCause::Jail));
        assert_eq!(code(&[good(), good()]), 0);
        assert_eq!(code(&[good(), bad()]), 1);
        assert_eq!(code(&[broken(), bad(), good()]), 3);
        assert_eq!(code(&[good(), row("d.c", 1, unknown())]), 3);
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
            undecided(Some(UnknownCause::NoSamples)).said(),
            ("unknown", Some("no_samples"), exit::INFRASTRUCTURE)
        );
        assert_eq!(undecided(None).said().1, Some("unknown"));
    }
}
