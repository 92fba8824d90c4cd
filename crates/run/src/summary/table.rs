//! The summary of a run as a table for people.

use flopsmith_protocol::WorkloadMeasurement;
use flopsmith_report::clock::Clock;
use flopsmith_report::text::openblas;

use super::{Best, Samples, StartProgram, Summary};
use crate::console::table;
use crate::digits::{between, counted, four, percent, share, significant};
use crate::endpoint::spent;
use crate::roofline;

impl Summary {
    /// The table, line by line.
    pub fn table(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(start) = &self.start {
            lines.extend(start_to_end(
                start,
                self.end.as_ref(),
                self.problems.is_empty(),
            ));
            lines.push(String::new());
        }
        match &self.best {
            Some(best) => lines.extend(self.about(best)),
            None if !self.problems.is_empty() => lines.extend(self.about_problems()),
            None => {
                lines.push("no verified kernel yet".into());
                lines.extend(self.start_program.iter().flat_map(StartProgram::lines));
            }
        }
        lines.push(format!(
            "{} with a verified kernel that was measured again, {} more measured once only",
            counted(self.coverage, "technique set"),
            self.coverage_unconfirmed
        ));
        lines.push(format!(
            "{}, {}",
            counted(self.outcomes.values().sum(), "outcome"),
            counted(self.infrastructure_errors, "infrastructure error")
        ));
        lines.extend(self.endpoint.as_ref().map(spent));
        lines.extend(self.about_refusals());
        lines.extend(self.what_went_wrong());
        if self.steps == 0 && self.end.is_some() {
            lines.push(
                "no training step fitted into the budget: start and end are of the same model, and differ by chance"
                    .into(),
            );
        }
        lines.extend(self.about_stages());
        let mut shares: Vec<_> = self.share_of_time.iter().collect();
        shares.sort_by(|a, b| b.1.total_cmp(a.1));
        let shares: Vec<String> = shares
            .into_iter()
            .map(|(role, share)| format!("{role} {:.0} %", share * 100.0))
            .collect();
        lines.push(format!("time: {}", shares.join(", ")));
        let budget = self.spent_seconds.map_or_else(String::new, |spent| {
            format!(" ({spent:.0} s of them in the budget)")
        });
        lines.push(format!(
            "{} in {:.0} s{budget}, {} GiB of memory",
            counted(self.steps, "step"),
            self.seconds,
            significant(self.peak_memory_bytes as f64 / f64::from(1 << 30), 3)
        ));
        lines
    }

    fn what_went_wrong(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.unreadable_outcomes > 0 {
            lines.push(format!(
                "{} of outcomes.jsonl cannot be read and {} left out: flopsmith.log says why",
                counted(self.unreadable_outcomes, "line"),
                if self.unreadable_outcomes == 1 {
                    "is"
                } else {
                    "are"
                },
            ));
        }
        if self.dead_letters > 0 {
            lines.push(format!(
                "{} that no role could process: dead_letters.jsonl says why",
                counted(self.dead_letters, "message")
            ));
        }
        if self.skipped_updates > 0 {
            lines.push(format!(
                "{} {} skipped, because the gradient was not finite: flopsmith.log says when, and `runs skipped` shows the batches",
                counted(self.skipped_updates, "update"),
                if self.skipped_updates == 1 {
                    "was"
                } else {
                    "were"
                },
            ));
        }
        if self.quarantine_seconds >= 0.5 {
            lines.push(format!(
                "{:.0} s without timing, because the machine was not quiet: flopsmith.log says why",
                self.quarantine_seconds
            ));
        }
        if self.disturbed > 0 {
            lines.push(format!(
                "{} made while others were at work on the timed cores: flopsmith.log says when and how much",
                counted(self.disturbed, "measurement")
            ));
        }
        lines
    }

    fn about(&self, best: &Best) -> Vec<String> {
        let mut lines = vec![
            format!(
                "best verified kernel  {} GFLOPS{}  {}",
                four(best.gflops),
                match best.workloads.len() {
                    0 => String::new(),
                    count => format!(" (geometric mean over {count} workloads)"),
                },
                best.techniques.words()
            ),
            format!(
                "  {}× the plain reference {}",
                four(best.ratio_to_reference),
                interval(best)
            ),
            certainty(best),
        ];
        if let Some(call) = &best.call {
            let place = self.roofline.as_ref();
            let bytes = place.and_then(|place| roofline::gb_per_second(place, best.gflops));
            lines.push(format!("  {}", call.words(bytes)));
        }
        if best.unconverged {
            lines.push(
                "  that measurement did not converge, so the kernel may be slower: `flopsmith bench --purpose certify` on a quiet machine measures it anew"
                    .to_owned(),
            );
        }
        lines.extend(best.sizes.map(|sizes| format!("  right at {sizes}")));
        if best.ratio_to_reference < 1.0 {
            lines.push(
                "  the plain reference is faster: keep it, or search longer on a quiet machine"
                    .to_owned(),
            );
        }
        lines.extend(self.start_program.iter().flat_map(StartProgram::lines));
        for workload in &best.workloads {
            lines.push(format!(
                "  {}: {} GFLOPS, {}× the plain reference {}, {}{}",
                workload.name,
                four(workload.gflops),
                four(workload.ratio),
                between(&workload.interval),
                Clock::of_workload(workload).words(workload.gb_per_second),
                if is_worst(workload, best) {
                    " (the worst)"
                } else {
                    ""
                }
            ));
        }
        if let Some(why) = &best.machine_busy {
            lines.push(format!(
                "  measured after the end on a busy machine: {why}; its interval may be wide"
            ));
        }
        if let Some(peak) = self.peak_gflops {
            lines.push(format!(
                "  {} of {} measured peak ({} GFLOPS)",
                share(best.gflops / peak),
                roofline::whose(self.peak_threads),
                four(peak)
            ));
        }
        if let Some(place) = &self.roofline {
            lines.push(format!(
                "  {}",
                roofline::reached(place, self.roof_vector_bits)
            ));
        }
        if let Some(gflops) = self.openblas_gflops {
            lines.push(format!(
                "  {}× {} ({} GFLOPS with core type {})",
                significant(best.gflops / gflops, 3),
                openblas(self.openblas_version.as_deref()),
                four(gflops),
                self.openblas_core.as_deref().unwrap_or("as detected")
            ));
        }
        if let Some(corpus) = self.corpus_best_gflops {
            lines.push(format!(
                "  {}× the fastest program tried of the starter's corpus ({} GFLOPS)",
                significant(best.gflops / corpus, 3),
                four(corpus)
            ));
            let wider = self.corpus_best_wider;
            lines.extend(wider.map(|wider| format!("  {}", wider.words())));
        }
        lines
    }
}

/// True if the program is faster at all other workloads, by its ratio to the plain reference.
fn is_worst(workload: &WorkloadMeasurement, best: &Best) -> bool {
    let mut others = best.workloads.iter().filter(|w| w.name != workload.name);
    others.all(|other| workload.ratio < other.ratio)
}

/// How often the best program was measured, and where its speed differs from the one that the displays of the running run
/// named, that one too.
fn certainty(best: &Best) -> String {
    match (&best.during_run, best.measured_again) {
        (Some(before), _) => format!(
            "  measured once more after the end of the run; the best so far was {} GFLOPS until then ({})",
            four(before.gflops),
            before.certainty.words()
        ),
        (None, true) => "  measured again, and not once more after the end of the run".to_owned(),
        (None, false) => "  measured once, so it may be too high".to_owned(),
    }
}

/// The interval of the best program's ratio, however wide it is.
fn interval(best: &Best) -> String {
    let ends = between(&best.interval);
    if best.interval.is_telling() {
        ends
    } else {
        format!("{ends}, measured too briefly to say more")
    }
}

/// Rows that compare the policy before and after training, with speeds if they are of one problem.
fn start_to_end(start: &Samples, end: Option<&Samples>, with_speeds: bool) -> Vec<String> {
    let row = |name: &str, of: &dyn Fn(&Samples) -> String| {
        let end = end.map_or_else(|| "–".to_owned(), of);
        vec![name.to_owned(), of(start), end]
    };
    let [correct, build, mean, mean_correct, distinct] = [
        row("correct", &|s| percent(s.correct_rate)),
        row("build", &|s| percent(s.build_rate)),
        row("mean GFLOPS, failures count 0", &|s| four(s.mean_gflops)),
        row("mean GFLOPS of correct programs", &|s| {
            four(s.mean_gflops_correct)
        }),
        row("distinct correct programs", &|s| {
            s.distinct_correct.to_string()
        }),
    ];
    let speeds = with_speeds.then_some([mean, mean_correct]);
    let rows = [correct, build]
        .into_iter()
        .chain(speeds.into_iter().flatten())
        .chain([distinct]);
    table(&[("", false), ("start", true), ("end", true)], rows)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_archive::{BestSoFar, Certainty};
    use flopsmith_machine::roofline::{Bound, Place};
    use flopsmith_protocol::{Measurement, VerifiedSizes};
    use flopsmith_test_support::{Measured, first};

    use super::super::{Facts, summarise};
    use super::*;

    /// The table of a run with this best program.
    fn table(best: Best) -> String {
        let folder = tempfile::tempdir().unwrap();
        let summary = Summary {
            best: Some(best),
            ..summarise("r", folder.path(), &Facts::default()).unwrap()
        };
        summary.table().join("\n")
    }

    fn best(measured: Measured) -> Best {
        let outcome = first(0, "a", "simd", measured.verdict());
        Best::of(&outcome, &measured.measurement(), true)
    }

    #[test]
    fn the_best_speed_is_told_beside_the_one_that_the_running_run_named() {
        let again = best(Measured::at(40.0));
        let said = table(again.clone());
        let line = "\n  measured again, and not once more after the end of the run\n";
        assert!(said.contains(line), "{said}");
        let before = BestSoFar {
            gflops: 43.21,
            certainty: Certainty::Again,
        };
        let said = table(Best {
            during_run: Some(before),
            ..again
        });
        let line = "\n  measured once more after the end of the run; the best so far was 43.21 GFLOPS until then (measured again)\n";
        assert!(said.contains(line), "{said}");
    }

    #[test]
    fn an_interval_that_says_little_is_shown_and_called_so() {
        let said = table(best(Measured::at(40.0).se(0.1)));
        assert!(
            said.contains("× the plain reference [32.88, 48.66]"),
            "{said}"
        );
        let said = table(best(Measured::at(40.0).se(0.4)));
        let words = "40.00× the plain reference [18.26, 87.61], measured too briefly to say more";
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn a_best_speed_that_did_not_converge_says_so() {
        let line = "\n  that measurement did not converge";
        let unsure = table(best(Measured::at(40.0).se(0.2).unconverged()));
        assert!(unsure.contains(line), "{unsure}");
        assert!(!table(best(Measured::at(40.0).se(0.2))).contains(line));
    }

    #[test]
    fn a_best_program_that_is_slower_than_the_reference_says_so() {
        let line = "\n  the plain reference is faster: keep it";
        let slow = table(best(Measured::at(0.7)));
        assert!(slow.contains(line), "{slow}");
        assert!(!table(best(Measured::at(1.2))).contains(line));
    }

    #[test]
    fn the_sizes_of_the_verification_and_its_probability_have_a_line() {
        let measured = Measured::at(40.0);
        let outcome = first(0, "a", "simd", measured.verdict());
        let certified = Measurement {
            sizes: Some(VerifiedSizes::of(97, 400, 90)),
            ..measured.measurement()
        };
        let said = table(Best::of(&outcome, &certified, true));
        let line = "\n  right at 97 of 400 sizes: a program that is wrong at 1 in 20 sizes is found with a probability of 0.99 or more\n";
        assert!(said.contains(line), "{said}");
        assert!(!table(best(measured)).contains("right at"));
    }

    #[test]
    fn a_program_that_memory_binds_has_the_bytes_of_its_calls() {
        let folder = tempfile::tempdir().unwrap();
        let place = |bound| Place {
            intensity: Some(2.0),
            roof_gflops: 50.0,
            share: 0.8,
            bound,
            cached_in: None,
        };
        let said = |bound| {
            let summary = Summary {
                best: Some(best(Measured::at(40.0))),
                roofline: Some(place(bound)),
                ..summarise("r", folder.path(), &Facts::default()).unwrap()
            };
            summary.table().join("\n")
        };
        let bytes = "spread 1.00 %), 20.00 GB/s\n";
        assert!(said(Bound::Memory).contains(bytes));
        assert!(!said(Bound::Compute).contains("GB/s"));
    }

    #[test]
    fn a_share_above_the_roof_has_the_remark_of_bench() {
        let folder = tempfile::tempdir().unwrap();
        let summary = Summary {
            best: Some(best(Measured::at(40.0))),
            roofline: Some(Place {
                intensity: Some(2.0),
                roof_gflops: 20.0,
                share: 2.0,
                bound: Bound::Memory,
                cached_in: Some("L2".into()),
            }),
            ..summarise("r", folder.path(), &Facts::default()).unwrap()
        };
        let said = summary.table().join("\n");
        let line = "\n  200.0 % of the roof (memory; its data fit the L2 cache, so it may exceed this roof)\n";
        assert!(said.contains(line), "{said}");
    }

    #[test]
    fn each_of_several_workloads_has_a_line_and_the_worst_is_named() {
        let measured = Measured::at(40.0);
        let outcome = first(0, "a", "simd", measured.verdict());
        let over = measured.over(&[("n=8", 2.0), ("n=16", 0.5)]);
        let said = table(Best::of(&outcome, &over, true));
        let mean = "best verified kernel  40.00 GFLOPS (geometric mean over 2 workloads)  simd";
        assert!(said.contains(mean), "{said}");
        assert!(
            said.contains("\n  n=8: 80.00 GFLOPS, 80.00× the plain"),
            "{said}"
        );
        let worst = said.lines().find(|l| l.ends_with("(the worst)")).unwrap();
        assert!(worst.starts_with("  n=16: 20.00 GFLOPS"), "{said}");
        assert!(
            worst.contains(", 1.678 ms a call (min 1.661 ms, "),
            "{said}"
        );
        assert_eq!(said.matches(" a call (").count(), 2, "{said}");
        assert!(!table(best(measured)).contains("workloads"));
    }

    #[test]
    fn programs_that_were_timed_on_a_busy_machine_are_counted_where_there_were_any() {
        let folder = tempfile::tempdir().unwrap();
        let said = |disturbed| {
            let facts = Facts {
                disturbed,
                ..Facts::default()
            };
            let summary = summarise("r", folder.path(), &facts).unwrap();
            summary.table().join("\n")
        };
        assert!(!said(0).contains("others"));
        assert!(
            said(1).contains("\n1 measurement made while others"),
            "{}",
            said(1)
        );
        assert!(
            said(3).contains("\n3 measurements made while"),
            "{}",
            said(3)
        );
    }

    #[test]
    fn a_best_that_was_measured_on_a_busy_machine_says_so() {
        let quiet = best(Measured::at(40.0));
        let busy = Best {
            machine_busy: Some("core 1 is used 40 % by others".into()),
            ..quiet.clone()
        };
        assert!(!table(quiet).contains("busy"));
        let said = table(busy);
        let line = "\n  measured after the end on a busy machine: core 1 is used 40 % by others;";
        assert!(said.contains(line), "{said}");
    }
}
