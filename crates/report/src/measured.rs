//! How a run measured: the machine and its noise, and the sizes at which programs were timed and verified.

use serde_json::Value;

use crate::model::{Noise, RunReport};
use crate::text::{counted, duration, escape, percent};

/// Waits shorter than this are no news, seconds.
const SHORT: f64 = 0.5;

/// A table of facts; nothing without any.
pub fn html(report: &RunReport) -> String {
    let mut rows = Vec::new();
    let mut row = |name: &'static str, value: Option<String>| {
        rows.extend(value.map(|value| (name, value)));
    };
    row("machine", machine(&report.attestation));
    row("timed at", report.sizes.as_ref().map(|s| s.timed.clone()));
    row("verified at", verified(report));
    row("the best program", call(report));
    if let Some(noise) = &report.noise {
        row("other work on it", Some(busy(noise)));
        row(
            "disturbance of the last measurement of the best program",
            noise.best_disturbed.clone(),
        );
        row("measurements", Some(measurements(noise)));
        row("spread of calls", noise.deviation.map(spread));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"scroll\"><table class=\"text facts\"><tbody>");
    for (name, value) in rows {
        out.push_str(&format!(
            "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>",
            escape(&value)
        ));
    }
    out.push_str("</tbody></table></div>");
    out
}

/// The processor and the timed threads; none if the attestation does not name the processor.
fn machine(attestation: &Value) -> Option<String> {
    let model = attestation.get("cpu_model")?.as_str()?;
    let threads = attestation.get("threads").and_then(Value::as_u64);
    let threads = threads.map(|threads| format!(", timed on {}", counted(threads, "thread")));
    Some(format!("{model}{}", threads.unwrap_or_default()))
}

/// The seconds of a call of the best program; none over several workloads, which have a table.
fn call(report: &RunReport) -> Option<String> {
    let best = report.best.as_ref()?;
    Some(best.call?.words(best.gb_per_second))
}

/// The sizes of the best program's verification with the probability of finding a wrong program, and the sizes that there
/// are.
fn verified(report: &RunReport) -> Option<String> {
    let met = report.best.as_ref().map(|best| match &best.sizes {
        Some(sizes) => sizes.to_string(),
        None => "a few secret sizes, as in every screening".to_owned(),
    });
    let there_are = report.sizes.as_ref().map(|sizes| {
        format!(
            "secret sizes are {}, and every program is verified at the timed sizes too",
            sizes.hidden
        )
    });
    match (met, there_are) {
        (Some(met), Some(there_are)) => Some(format!("{met}; {there_are}")),
        (met, there_are) => met.or(there_are),
    }
}

/// Whether other processes were at work.
fn busy(noise: &Noise) -> String {
    let Some(disturbed) = noise.disturbed else {
        return "unknown: programs were not timed by the process of the run".into();
    };
    let mut parts = Vec::new();
    if disturbed > 0 {
        parts.push(format!(
            "{} made while others were at work on the timed cores",
            counted(disturbed, "measurement")
        ));
    }
    if noise.waited_seconds >= SHORT {
        parts.push(format!(
            "{} without timing, because the machine was not quiet",
            duration(noise.waited_seconds)
        ));
    }
    match parts.is_empty() {
        true => "none was seen while programs were timed".into(),
        false => format!("{} (flopsmith.log says when)", parts.join("; ")),
    }
}

fn measurements(noise: &Noise) -> String {
    let part = |part: u64, all: u64| percent(part as f64 / all.max(1) as f64);
    format!(
        "{}, of which {} did not converge ({}); {} of their rounds were outliers without weight",
        counted(noise.measurements, "measurement"),
        noise.unconverged,
        part(noise.unconverged, noise.measurements),
        part(noise.outlying, noise.rounds)
    )
}

fn spread(deviation: f64) -> String {
    format!(
        "{}: the median over all measurements of the deviation of a program's calls from their median",
        percent(deviation)
    )
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::{Interval, TechniqueSet, VerifiedSizes};
    use serde_json::json;

    use super::*;
    use crate::clock::Clock;
    use crate::model::{Best, Sizes};

    fn report() -> RunReport {
        RunReport {
            attestation: json!({"cpu_model": "EPYC <9B14>", "threads": 2}),
            sizes: Some(Sizes {
                timed: "n = 256".into(),
                hidden: "n from 64 to 512, multiples of 64".into(),
            }),
            noise: Some(Noise {
                measurements: 200,
                unconverged: 3,
                deviation: Some(0.0121),
                rounds: 400,
                outlying: 8,
                disturbed: Some(0),
                waited_seconds: 0.2,
                best_disturbed: None,
            }),
            best: Some(Best {
                gflops: 40.0,
                ratio: 20.0,
                interval: Interval {
                    low: 19.0,
                    high: 21.0,
                    confidence: 0.95,
                },
                techniques: TechniqueSet::EMPTY,
                vector_bits: None,
                step: None,
                measured_again: true,
                samples: None,
                source: String::new(),
                workloads: Vec::new(),
                sizes: Some(VerifiedSizes::of(97, 400, 90)),
                call: Some(Clock {
                    call: 1e-3,
                    minimum: Some(0.99e-3),
                    median: None,
                    spread: 0.0123,
                }),
                gb_per_second: Some(12.5),
            }),
            ..RunReport::default()
        }
    }

    #[test]
    fn machine_noise_and_sizes_are_named() {
        let page = html(&report());
        for part in [
            "<td>EPYC &lt;9B14&gt;, timed on 2 threads</td>",
            "<td>1.000 ms a call (min 990.0 µs, median —, spread 1.23 %), 12.50 GB/s</td>",
            "<th scope=\"row\">timed at</th><td>n = 256</td>",
            "97 of 400 sizes: a program that is wrong at 1 in 20 sizes is found with a probability of 0.99 or more; secret \
             sizes are n from 64 to 512, multiples of 64, and every program is verified at the timed sizes too",
            "<td>none was seen while programs were timed</td>",
            "200 measurements, of which 3 did not converge (1.5 %); 2.0 % of their rounds were outliers without weight",
            "<td>1.2 %: the median over all",
        ] {
            assert!(page.contains(part), "`{part}` is missing in {page}");
        }
        assert!(!page.contains("last measurement"), "{page}");
        assert_eq!(html(&RunReport::default()), "");
    }

    #[test]
    fn a_busy_machine_is_called_so() {
        let mut report = report();
        if let Some(noise) = &mut report.noise {
            noise.disturbed = Some(3);
            noise.waited_seconds = 95.0;
            noise.best_disturbed = Some("core 1 is used 40 % by others".into());
        }
        let page = html(&report);
        let words = "3 measurements made while others were at work on the timed cores; 1:35 without timing, because the machine \
                     was not quiet (flopsmith.log says when)";
        assert!(page.contains(words), "{page}");
        assert!(page.contains("<td>core 1 is used 40 % by others</td>"));
        // Workers tell the run's process nothing about their machines.
        if let Some(noise) = &mut report.noise {
            noise.disturbed = None;
        }
        let page = html(&report);
        assert!(page.contains("<td>unknown: programs were not"), "{page}");
        assert!(!page.contains("1:35"), "{page}");
    }

    #[test]
    fn a_screening_is_no_claim_about_all_sizes() {
        let mut report = report();
        if let Some(best) = &mut report.best {
            best.sizes = None;
        }
        let page = html(&report);
        assert!(
            page.contains("<td>a few secret sizes, as in every"),
            "{page}"
        );
        assert!(!page.contains("probability"), "{page}");
    }
}
