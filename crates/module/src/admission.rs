//! Filters for problems: a module whose results hardly depend on its inputs teaches a model to skip work.
//!
//! The filters follow robust-kbench (Lange et al., 2025) and KernelBench's contract.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::error::Error;
use crate::problem::Problem;
use crate::verify::Bench;

/// Outputs whose elements all lie within this distance of zero say too little.
const SMALL: f64 = 0.01;
/// The least standard deviation of an output, in all and along each axis.
const SPREAD: f64 = 0.01;
/// The shortest and the longest call that can be compared well.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1);
/// Calls whose fastest counts.
const CALLS: usize = 5;

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The problem must not be used.
    Error,
    /// The problem can be used, with less certainty.
    Warning,
    /// The check found nothing.
    Good,
}

/// A finding about a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its weight.
    pub severity: Severity,
    /// The finding in words.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Checks one workload of a problem.
pub(crate) fn admit(
    problem: &Problem,
    bench: &mut Bench,
    rng: &mut ChaCha8Rng,
) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let name = bench.workload.name.clone();
    let mut say = |severity, text: String| {
        findings.push(Finding {
            severity,
            text: format!("{name}: {text}"),
        });
    };
    let layout = bench.loaded.layout.clone();
    let of_gradients = layout.gradients.iter().map(|gradient| &gradient.place);
    let mut missing = BTreeSet::new();
    for output in layout.outputs.iter().chain(of_gradients) {
        let covered = problem.tolerance.contains_key(&output.dtype);
        if output.dtype.contains("float") && !covered && missing.insert(&output.dtype) {
            say(
                Severity::Error,
                format!("problem.toml gives no tolerance for {}", output.dtype),
            );
        }
    }

    bench.fresh(rng, "plain", true)?;
    for finding in spread(&bench.eager.statistics()?) {
        say(finding.severity, finding.text);
    }
    let (first, _) = call(bench)?;
    let (again, _) = call(bench)?;
    if first != again {
        say(
            Severity::Error,
            "two calls with the same inputs give different results".into(),
        );
    }
    bench.fresh(rng, "plain", false)?;
    let (other, _) = call(bench)?;
    if first == other {
        say(Severity::Error, "other inputs give the same result".into());
    }
    if layout.upstream_at > layout.parameters_at {
        bench.fresh(rng, "plain", false)?;
        let (before, _) = call(bench)?;
        // The inputs stay; only the parameters change.
        let seed = rng.random::<u64>() >> 1;
        bench.eager.make_parameters(seed, true)?;
        let (after, _) = call(bench)?;
        if before == after {
            say(
                Severity::Error,
                "other parameters give the same result".into(),
            );
        }
    }

    let expected = bench.eager.expect()?;
    if !expected.finite {
        say(
            Severity::Error,
            "the float64 results are not all finite".into(),
        );
    }
    for distribution in &problem.distributions {
        bench.fresh(rng, distribution, true)?;
        let expected = bench.eager.expect()?;
        if !expected.finite || expected.overflows {
            let why = match expected.finite {
                true => "that are too large for the data type of the module",
                false => "that are not finite",
            };
            say(
                Severity::Error,
                format!(
                    "inputs of the distribution `{distribution}` give results {why}; leave it out of `distributions`"
                ),
            );
        }
        for text in gradients(problem, bench, distribution)? {
            say(Severity::Error, text);
        }
    }

    let mut fastest = Duration::MAX;
    for _ in 0..CALLS {
        fastest = fastest.min(call(bench)?.1);
    }
    let milliseconds = 1e3 * fastest.as_secs_f64();
    if fastest < SHORTEST || fastest > LONGEST {
        say(
            Severity::Warning,
            format!(
                "a call lasts {milliseconds:.3} ms; between 1 and 1000 ms can be compared well"
            ),
        );
    } else {
        say(
            Severity::Good,
            format!("an eager call lasts {milliseconds:.2} ms"),
        );
    }
    Ok(findings)
}

/// Mistakes of the gradients for the present inputs, which have this distribution.
fn gradients(
    problem: &Problem,
    bench: &mut Bench,
    distribution: &str,
) -> Result<Vec<String>, Error> {
    if !problem.gradients.any() {
        return Ok(Vec::new());
    }
    let expected = bench.eager.expect_gradients()?;
    let names = bench.loaded.layout.gradients.iter().map(|g| &g.name);
    let mut found: Vec<String> = names
        .zip(&expected.scale)
        .filter(|(_, scale)| **scale == 0.0)
        .map(|(name, _)| {
            format!(
                "the gradient of `{name}` is zero for inputs of the distribution `{distribution}`: leave it out of `gradients`, or the distribution out of `distributions`"
            )
        })
        .collect();
    if !expected.finite || expected.overflows {
        found.push(format!(
            "inputs of the distribution `{distribution}` give gradients that are not finite; leave it out of `distributions`"
        ));
    }
    Ok(found)
}

/// Calls the eager module; returns the bytes of its results and the time.
fn call(bench: &mut Bench) -> Result<(Vec<u8>, Duration), Error> {
    let took = bench.eager.call()?;
    let layout = &bench.loaded.layout;
    let results = bench
        .eager
        .arena
        .read(layout.outputs_at, layout.expected_at)?;
    Ok((results, took))
}

/// Findings about the spread of outputs, from the figures of the reference's process.
fn spread(figures: &serde_json::Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |severity, text: String| findings.push(Finding { severity, text });
    let outputs = figures["outputs"].as_array().cloned().unwrap_or_default();
    for (position, output) in outputs.iter().enumerate() {
        let figure = |name: &str| output[name].as_f64().unwrap_or(0.0);
        if figure("largest") <= SMALL {
            say(
                Severity::Error,
                format!("all elements of output {position} lie within ±{SMALL}"),
            );
        }
        if figure("elements") <= 1.0 {
            continue;
        }
        let relative = |deviation: f64| deviation / figure("largest").max(f64::MIN_POSITIVE);
        if relative(figure("deviation")) <= 1e-6 {
            say(Severity::Error, format!("output {position} is constant"));
        } else if figure("deviation") <= SPREAD {
            say(
                Severity::Warning,
                format!(
                    "the elements of output {position} differ by {:.2e} only",
                    figure("deviation")
                ),
            );
        }
        let axes = output["axes"].as_array().cloned().unwrap_or_default();
        for (axis, deviation) in axes.iter().enumerate() {
            // An axis of one element has no deviation.
            if deviation.as_f64().is_some_and(|d| relative(d) <= 1e-6) {
                say(
                    Severity::Error,
                    format!("output {position} is constant along axis {axis}"),
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(output: serde_json::Value) -> usize {
        let found = spread(&json!({"outputs": [output]}));
        let errors = found.iter().filter(|f| f.severity == Severity::Error);
        errors.count()
    }

    #[test]
    fn constant_outputs_are_refused_and_spread_ones_are_not() {
        let output = |largest: f64, deviation: f64, axis: f64| json!({"largest": largest, "deviation": deviation, "axes": [axis, null], "elements": 8});
        assert_eq!(errors(output(3.0, 1.0, 1.0)), 0);
        assert_eq!(errors(output(0.001, 0.0005, 0.0005)), 1);
        assert_eq!(errors(output(3.0, 0.0, 0.0)), 2);
        assert_eq!(errors(output(3.0, 1.0, 0.0)), 1);
        // A single number has no spread.
        let one = json!({"largest": 2.0, "deviation": 0.0, "axes": [], "elements": 1});
        assert_eq!(errors(one), 0);
    }
}
