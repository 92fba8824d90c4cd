//! `flopsmith runs skipped`: the batches that gave no finite gradient.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use flopsmith_actors::skipped::{self, Sample, Skipped};
use flopsmith_run::console::{data, say};
use flopsmith_run::folder;
use serde_json::{Value, json};

use crate::args::{Format, Place};

/// Shows the skipped batches of a run in the order of their steps.
pub fn show(place: &Place, name: &str, format: Format) -> Result<ExitCode> {
    let folder = folder::find(place.folder(), name, |_| true)?;
    let files = skipped::files(&folder);
    if files.is_empty() {
        say(&format!(
            "the run in {} skipped no update",
            folder.display()
        ));
    }
    for file in files {
        let bytes =
            std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let batch =
            Skipped::parse(&bytes).with_context(|| format!("{} is damaged", file.display()))?;
        match format {
            Format::Json => data(&whole(&batch).to_string()),
            Format::Text => {
                data(&format!("{}\n  {}", file.display(), about(&batch)));
                for sample in suspects(&batch) {
                    data(&format!("  {}", of_sample(sample)));
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn about(batch: &Skipped) -> String {
    let tokens: usize = batch.samples.iter().map(|s| s.tokens.len()).sum();
    format!(
        "step {}, policy version {}: {}; {} samples, {tokens} tokens, {:.0} % of the budget spent, settings {}",
        batch.step,
        batch.version.0,
        batch.error,
        batch.samples.len(),
        batch.progress * 100.0,
        batch.settings.short()
    )
}

/// Number of samples of a batch that are shown to people.
const SHOWN: usize = 3;

/// The samples that most likely caused the failure: those with the least likely token, or with a log-probability that
/// is NaN.
fn suspects(batch: &Skipped) -> Vec<&Sample> {
    let mut samples: Vec<&Sample> = batch.samples.iter().collect();
    samples.sort_by(|a, b| lowest(a).total_cmp(&lowest(b)));
    samples.truncate(SHOWN);
    samples
}

/// The lowest log-probability of a sample; NaN counts as the lowest.
fn lowest(sample: &Sample) -> f32 {
    let lowest = sample.logprobs.iter().copied();
    lowest.fold(0.0, |least, l| match l.is_nan() {
        true => f32::NEG_INFINITY,
        false => least.min(l),
    })
}

fn of_sample(sample: &Sample) -> String {
    format!(
        "{}: {} tokens, advantage {:.3}, lowest log-probability {:.3}",
        sample.candidate,
        sample.tokens.len(),
        sample.advantage,
        lowest(sample)
    )
}

/// A batch with all of its samples, as JSON.
fn whole(batch: &Skipped) -> Value {
    let samples: Vec<Value> = batch
        .samples
        .iter()
        .map(|s| {
            let logprobs: Vec<Value> = s.logprobs.iter().map(|l| number(f64::from(*l))).collect();
            json!({
                "candidate": s.candidate, "policy": s.policy, "prompt_tokens": s.prompt_tokens, "tokens": s.tokens,
                "logprobs": logprobs, "advantage": number(s.advantage), "temperature": s.temperature,
            })
        })
        .collect();
    json!({
        "format": batch.format, "run": batch.run, "step": batch.step, "version": batch.version, "error": batch.error,
        "settings": batch.settings, "learner": batch.learner, "progress": batch.progress, "samples": samples,
    })
}

/// A number, or text for a number that JSON cannot represent.
fn number(number: f64) -> Value {
    match number.is_finite() {
        true => json!(number),
        false => json!(number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::{Digest, PolicyVersion};
    use flopsmith_test_support::{candidate, run_id};

    fn sample(number: u32, logprobs: &[f32]) -> Sample {
        Sample {
            candidate: candidate(1, 0, number).id,
            policy: Some(PolicyVersion(1)),
            prompt_tokens: vec![1],
            tokens: vec![2; logprobs.len()],
            logprobs: logprobs.to_vec(),
            advantage: f64::NAN,
            temperature: 1.0,
        }
    }

    #[test]
    fn non_finite_values_are_shown_first_and_in_words() {
        let batch = Skipped {
            format: skipped::FORMAT,
            run: run_id(),
            step: 7,
            version: PolicyVersion(6),
            error: "the gradient is not finite".into(),
            settings: Digest::of(b"settings"),
            learner: flopsmith_config::GrpoConfig::default(),
            progress: 0.25,
            samples: vec![
                sample(0, &[-1.0]),
                sample(1, &[-2.0, f32::NAN]),
                sample(2, &[-300.0]),
            ],
        };
        let shown: Vec<_> = suspects(&batch).iter().map(|s| &s.candidate).collect();
        let expected = [1, 2, 0].map(|i: usize| &batch.samples[i].candidate);
        assert_eq!(shown, expected);
        let said = about(&batch);
        assert!(
            said.contains("step 7") && said.contains("3 samples, 4 tokens"),
            "{said}"
        );
        let value = whole(&batch);
        assert_eq!(value["samples"][1]["logprobs"][1], "NaN");
        assert_eq!(value["samples"][0]["advantage"], "NaN");
        assert_eq!(value["samples"][2]["logprobs"][0], -300.0);
    }
}
