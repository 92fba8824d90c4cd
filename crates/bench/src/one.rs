//! Output for one program: a few lines of text, one object, or one row.

use std::sync::Arc;

use anyhow::{Context, Result};
use flopsmith_measure::Purpose;
use flopsmith_protocol::{Measurement, StopReason};
use flopsmith_report::text::openblas;
use flopsmith_run::console::{data, say};
use flopsmith_run::digits::{
    between, counted, four, give_or_take, percent, share, significant, time as span,
};
use flopsmith_run::exit;
use flopsmith_run::output::Output;
use flopsmith_run::{interrupt, record, roofline};

use crate::clock::Clock;
use crate::outputs::{self, AtSize};
use crate::rate::Unit;
use crate::rows::{self, Row};
use crate::stages::{Measured, Stages};
use crate::stream::{End, Stream};
use crate::{Format, Order, lines, markdown, workloads};

/// Evaluates the program and prints its outcome.
pub fn run(mut order: Order) -> Result<u8> {
    let listening = interrupt::Watch::start()?;
    let stopped = listening.asked();
    let interrupted = Ok(exit::INTERRUPTED);
    let mut stages = match Stages::new(&order, &order.problem, stopped.clone()) {
        // Ctrl-c also reaches the measured process, so a failure after a stop request has no meaning.
        Err(_) if stopped.is_cancelled() => return interrupted,
        stages => stages?,
    };
    let program = order
        .programs
        .first()
        .context("the command line names no program")?;
    let measured = stages.measure(program);
    // An interrupted measurement is no result.
    if stopped.is_cancelled() {
        return interrupted;
    }
    let Measured { mut rows, object } = measured?.context("stopped")?;
    rows::arrange(&mut rows, 1);
    if let Some(compare) = &order.compare {
        compare.judge(&mut rows);
    }
    let mut code = rows::code(&rows);
    let result = AtSize::new(Arc::clone(&order.problem), rows);
    let row = result.rows.first().context("nothing was timed")?;
    if let (Some(keep), Some(object)) = (&order.keep, &object)
        && let Err(error) = keep.save(program, object, stages.evaluator())
    {
        say(&format!("error: {error:#}"));
        code = exit::INFRASTRUCTURE;
    }
    let stream = Stream::new(&order, &order.problem);
    if let Some(raw) = order.raw.take() {
        // The result exists in any case, and is printed.
        if let Err(error) = write_raw(raw, &program.source, row) {
            say(&format!("error: {error:#}"));
            code = exit::INFRASTRUCTURE;
        }
    }
    match order.format {
        Format::Json => data(&stream.object(row, None).to_string()),
        Format::Jsonl => {
            let end = End {
                programs: 1,
                interrupted: false,
                code,
            };
            data(&stream.begin(&stages.reference_speeds()).to_string());
            data(&stream.row(row, false).to_string());
            data(&stream.end(&result.rows, &end).to_string());
        }
        Format::Csv => {
            data(&lines::csv_header());
            data(&lines::csv(order.problem_name, row));
        }
        Format::Text => {
            for line in text(row, &order.problem.timed_size(), order.purpose) {
                data(&line);
            }
            let detail = row.detail_for_people();
            if !detail.is_empty() {
                say(&detail);
            }
        }
        Format::Markdown => {
            for line in markdown::of_one_size(&result, &order) {
                data(&line);
            }
        }
    }
    Ok(outputs::write(order, &[result], code))
}

fn write_raw(raw: Output, source: &str, row: &Row) -> Result<()> {
    match (row.done.verdict.measurement(), &row.machine) {
        (Some(measurement), Some(machine)) => {
            let record = record::json(source, measurement, &row.done.raw, &machine.json)?;
            raw.write(record)
        }
        _ => {
            say(&format!(
                "{} is not written: the program was not timed, so it has no samples",
                raw.path().display()
            ));
            Ok(())
        }
    }
}

/// The lines about a program, for people.
fn text(row: &Row, size: &str, purpose: Purpose) -> Vec<String> {
    let mut lines = Vec::new();
    match row.done.verdict.measurement() {
        Some(m) => {
            let unit = row.unit();
            let told = |gflops: f64| {
                let rate = row.told_in(unit, gflops).unwrap_or(f64::NAN);
                format!("{} {unit}", four(rate))
            };
            let several = !m.workloads.is_empty();
            let mean = if several { " in the mean" } else { "" };
            lines.push(match several {
                true => format!(
                    "{}: {}, the geometric mean over {}: {size}",
                    row.file,
                    told(m.gflops),
                    counted(m.workloads.len() as u64, "workload")
                ),
                false => format!("{}: {} at {size}", row.file, told(m.gflops)),
            });
            lines.extend(workloads::lines(row));
            lines.push(format!(
                "  {}× the plain reference ({}), 95 % interval {}",
                four(m.ratio),
                row.reference_gflops.map_or_else(String::new, &told),
                between(&m.interval)
            ));
            lines.extend(row.to_saved.as_ref().map(|s| format!("  {}", s.words())));
            if let Some(gflops) = row.openblas_gflops {
                lines.push(format!(
                    "  about {}× {} ({} GFLOPS, timed by itself)",
                    significant(m.gflops / gflops, 2),
                    openblas(row.openblas_version.as_deref()),
                    four(gflops)
                ));
            }
            let other = match unit {
                Unit::Gflops => Unit::GbPerSecond,
                Unit::GbPerSecond => Unit::Gflops,
            };
            let other = row
                .rate_in(other)
                .map_or_else(String::new, |rate| format!("; {} {other}", four(rate)));
            lines.push(format!(
                "  an undisturbed call takes {}{mean}{other}",
                span(m.seconds_per_call)
            ));
            lines.extend(by_clock(Clock::of(m)).map(|times| format!("{times}{mean}")));
            if row.is_hidden() {
                lines.push(format!(
                    "  most of a call is the hand-shake with its process ({}): enlarge [timed] in problem.toml, or pass a larger --size",
                    span(row.resolution.hand_shake_seconds)
                ));
            }
            lines.push(format!(
                "  {} in {}; {}",
                counted(m.calls.into(), "call"),
                counted(m.blocks.into(), "block"),
                ended(m, purpose)
            ));
            lines.push(format!("  {}", scatter(m)));
            if let Some(why) = &row.done.busy {
                lines.push(format!("  the machine was busy: {why}"));
            }
            lines.push(match &row.place {
                Some(place) => format!("  {}", roofline::words(place)),
                None => format!(
                    "  {} of {} measured peak ({} GFLOPS)",
                    share(m.share_of_peak),
                    roofline::whose(Some(row.threads)),
                    row.peak_gflops.map_or_else(String::new, four)
                ),
            });
            lines.extend(m.sizes.map(|sizes| format!("  right at {sizes}")));
            if let Some(certificate) = &m.certificate {
                let unsure = if certificate.cold_converged() {
                    ""
                } else {
                    ", which did not converge"
                };
                let cold = certificate
                    .cold_seconds_per_call
                    .map(|cold| {
                        let times = significant(cold / m.seconds_per_call, 3);
                        format!("; {times} times as long with cold caches{unsure}")
                    })
                    .unwrap_or_default();
                lines.push(format!(
                    "  {} layouts of its code: {} apart{cold}",
                    certificate.layout_ratios.len(),
                    percent(certificate.layout_spread)
                ));
                if let (Some(ratio), Some(interval)) =
                    (certificate.cold_ratio, &certificate.cold_interval)
                {
                    lines.push(format!(
                        "  with cold caches {}× the plain reference, 95 % interval {}{unsure}",
                        four(ratio),
                        between(interval)
                    ));
                }
            }
        }
        None => {
            lines.push(format!(
                "{}: {}",
                row.file,
                row.refusal().unwrap_or_default()
            ));
        }
    }
    if let Some(techniques) = row.done.techniques {
        lines.push(format!("  techniques: {}", techniques.words()));
    }
    if let Some(bits) = row.done.vector_bits {
        lines.push(format!("  vector registers: {bits} bits"));
    }
    let checked = row.done.checked.as_ref().filter(|c| !c.by.is_empty());
    if let Some(checked) = checked {
        lines.push(format!(
            "  sanitizers found nothing: {}",
            checked.by.join(", ")
        ));
    }
    lines
}

/// The fastest and the median call by the clock; none if both contradict the speed.
fn by_clock(clock: Clock) -> Option<String> {
    let times = match (clock.minimum, clock.median) {
        (Some(least), Some(median)) => {
            format!(
                "the fastest took {}, the median {}",
                span(least),
                span(median)
            )
        }
        (Some(least), None) => format!("the fastest took {}", span(least)),
        (None, Some(median)) => format!("the median took {}", span(median)),
        (None, None) => return None,
    };
    Some(format!("  of the timed calls {times}"))
}

/// The reason why a measurement ended, and its precision at that moment.
fn ended(measurement: &Measurement, purpose: Purpose) -> String {
    let sure = give_or_take(measurement.ratio, &measurement.interval);
    match measurement.stop {
        StopReason::Precise => format!("stopped when it was precise enough, at {sure}"),
        StopReason::Decided => {
            format!("stopped when it was clearly slower than the best, at {sure}")
        }
        StopReason::Budget => format!("stopped after {}, at {sure}", time(purpose)),
        StopReason::Unconverged => {
            format!("did not converge: still {sure} after {}", time(purpose))
        }
    }
}

/// The time of a measurement that used all of its budget, in words.
fn time(purpose: Purpose) -> String {
    if purpose == Purpose::Certify {
        return "its time limit for each layout".into();
    }
    format!("{} s, its time limit", purpose.limits().max.as_secs_f64())
}

/// The scatter of calls and rounds.
fn scatter(measurement: &Measurement) -> String {
    format!(
        "{} of {} rounds had no weight; spread of the calls {}",
        measurement.outlying,
        measurement.rounds,
        percent(measurement.mdape)
    )
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::{TechniqueSet, Verdict};

    use super::*;
    use crate::clock::tests::disturbed;
    use crate::compare::tests::slower;
    use crate::rows::tests::{by_memory, certify, fast, hidden, row, unsure_when_cold};
    use crate::workloads::tests::over_two;

    #[test]
    fn a_measurement_is_shown_with_few_digits_and_why_it_ended() {
        let mut measured = fast("a.c", 1, 117.961);
        let lines = text(&measured, "n = 8", Purpose::Rank);
        assert_eq!(lines[0], "a.c: 118.0 GFLOPS at n = 8");
        assert!(
            lines[1].contains("118.0× the plain reference (1.000 GFLOPS), 95 % interval ["),
            "{lines:?}"
        );
        assert_eq!(lines[2], "  an undisturbed call takes 284.5 µs; 14.75 GB/s");
        assert_eq!(
            lines[3],
            "  of the timed calls the fastest took 281.6 µs, the median 287.3 µs"
        );
        assert!(
            lines[4].ends_with("stopped when it was precise enough, at ±0.39 %"),
            "{lines:?}"
        );
        assert_eq!(
            lines[5],
            "  0 of 12 rounds had no weight; spread of the calls 1.00 %"
        );
        assert_eq!(
            lines[6],
            "  235.9 % of this core's measured peak (50.00 GFLOPS)"
        );
        assert_eq!(
            text(&fast("a.c", 2, 117.961), "n = 8", Purpose::Rank)[6],
            "  235.9 % of these 2 cores' measured peak (50.00 GFLOPS)"
        );
        if let Verdict::Measured { measurement } = &mut measured.done.verdict {
            measurement.stop = StopReason::Budget;
        }
        assert!(
            text(&measured, "n = 8", Purpose::Rank)[4]
                .ends_with("stopped after 0.6 s, its time limit, at ±0.39 %")
        );
        if let Verdict::Measured { measurement } = &mut measured.done.verdict {
            measurement.stop = StopReason::Unconverged;
        }
        assert!(
            text(&measured, "n = 8", Purpose::Rank)[3]
                .ends_with("did not converge: still ±0.39 % after 0.6 s, its time limit")
        );
        assert!(
            text(&measured, "n = 8", Purpose::Certify)[3]
                .ends_with("after its time limit for each layout"),
            "{:?}",
            text(&measured, "n = 8", Purpose::Certify)
        );
    }

    #[test]
    fn calls_that_contradict_the_speed_are_left_out() {
        let line = |fastest: f64, median: f64| {
            let row = disturbed("a.c", fastest, median);
            let mut lines = text(&row, "n = 8", Purpose::Rank).into_iter();
            lines.find(|line| line.contains("of the timed calls"))
        };
        let fastest = "  of the timed calls the fastest took 838.9 µs";
        let median = "  of the timed calls the median took 838.9 µs";
        assert_eq!(line(1.0, 1.1).as_deref(), Some(fastest));
        assert_eq!(line(0.9, 1.0).as_deref(), Some(median));
        assert_eq!(line(1.1, 1.2), None);
    }

    #[test]
    fn each_of_several_workloads_has_a_line() {
        let lines = text(&over_two("a.c"), "n = 8; n = 16", Purpose::Rank);
        let first = "a.c: 40.00 GFLOPS, the geometric mean over 2 workloads: n = 8; n = 16";
        assert_eq!(lines[0], first);
        assert!(lines[1].starts_with("  n=8: 20.00 GFLOPS"), "{lines:?}");
        assert!(lines[2].starts_with("  n=16: 80.00 GFLOPS"), "{lines:?}");
        assert!(lines[4].contains(" in the mean"), "{lines:?}");
    }

    #[test]
    fn a_result_from_a_busy_machine_has_a_note() {
        let mut measured = fast("a.c", 1, 40.0);
        let without = text(&measured, "n = 8", Purpose::Certify).len();
        measured.done.busy = Some("core 1 is used 40 % by others".into());
        let lines = text(&measured, "n = 8", Purpose::Certify);
        assert_eq!(lines.len(), without + 1);
        let expected = "  the machine was busy: core 1 is used 40 % by others";
        assert!(lines.iter().any(|l| l == expected), "{lines:?}");
    }

    #[test]
    fn a_ratio_of_cold_calls_has_a_line() {
        let mut measured = fast("a.c", 1, 40.0);
        certify(&mut measured, None);
        let without = text(&measured, "n = 8", Purpose::Certify);
        certify(&mut measured, Some(12.5));
        let lines = text(&measured, "n = 8", Purpose::Certify);
        assert_eq!(lines.len(), without.len() + 1);
        let expected =
            "  with cold caches 12.50× the plain reference, 95 % interval [12.00, 13.00]";
        assert!(lines.iter().any(|l| l == expected), "{lines:?}");
        unsure_when_cold(&mut measured);
        let lines = text(&measured, "n = 8", Purpose::Certify);
        let marked = format!("{expected}, which did not converge");
        assert!(lines.contains(&marked), "{lines:?}");
        let seconds = "2.00 times as long with cold caches, which did not converge";
        assert!(lines.iter().any(|l| l.ends_with(seconds)), "{lines:?}");
    }

    #[test]
    fn a_library_has_a_line_where_it_was_measured() {
        let mut measured = fast("a.c", 1, 40.0);
        let without = text(&measured, "n = 8", Purpose::Certify).len();
        measured.openblas_gflops = Some(50.0);
        measured.openblas_version = Some("0.3.34".into());
        let lines = text(&measured, "n = 8", Purpose::Certify);
        assert_eq!(lines.len(), without + 1);
        assert_eq!(
            lines[2],
            "  about 0.80× OpenBLAS 0.3.34 (50.00 GFLOPS, timed by itself)"
        );
    }

    #[test]
    fn calls_that_the_clock_hides_are_said_to_be_so() {
        let lines = text(&hidden("t.c", 1.1), "m = 1", Purpose::Rank);
        let note = "  most of a call is the hand-shake with its process (400.0 ns): enlarge [timed] in problem.toml, or pass a larger --size";
        assert!(lines.iter().any(|l| l == note), "{lines:?}");
    }

    #[test]
    fn a_refused_program_is_reported_as_refused() {
        let lines = text(
            &row("a.c", 1, flopsmith_test_support::wrong()),
            "n = 8",
            Purpose::Certify,
        );
        assert_eq!(lines[0], "a.c: refused: wrong_result");
    }

    #[test]
    fn the_binding_roof_decides_the_unit_and_the_share() {
        let mut measured = fast("a.c", 1, 1.25);
        let without = text(&measured, "n = 8", Purpose::Rank).len();
        measured.place = Some(by_memory());
        let lines = text(&measured, "n = 8", Purpose::Rank);
        assert_eq!(lines.len(), without);
        assert!(lines[0].starts_with("a.c: 0.156"), "{lines:?}");
        assert!(lines[0].ends_with(" GB/s at n = 8"), "{lines:?}");
        assert!(
            lines[1].contains("plain reference (0.1250 GB/s)"),
            "{lines:?}"
        );
        assert!(lines[2].ends_with("; 1.250 GFLOPS"), "{lines:?}");
        assert!(lines[6].contains("memory binds"), "{lines:?}");
        assert!(!lines.iter().any(|l| l.contains("peak")), "{lines:?}");
    }

    #[test]
    fn a_saved_result_has_a_line() {
        let mut measured = fast("a.c", 1, 40.0);
        measured.to_saved = Some(slower());
        let lines = text(&measured, "n = 8", Purpose::Rank);
        assert!(
            lines[2].starts_with("  0.5000 times as fast as in `main`"),
            "{lines:?}"
        );
        assert!(lines[2].ends_with(": slower"), "{lines:?}");
    }

    #[test]
    fn a_program_without_techniques_has_none() {
        let mut plain = row("a.c", 1, flopsmith_test_support::wrong());
        plain.done.techniques = Some(TechniqueSet::EMPTY);
        let lines = text(&plain, "n = 8", Purpose::Screen);
        assert!(
            lines.contains(&"  techniques: none".to_owned()),
            "{lines:?}"
        );
    }
}
