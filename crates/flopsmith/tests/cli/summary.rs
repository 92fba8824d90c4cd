//! The final object of `train` and `search`, by the names of its keys.

use std::path::Path;

use flopsmith_protocol::Technique;
use serde_json::Value;

use crate::{assert_keys, outcomes};

/// The keys of every summary, in the order of [`flopsmith_run::summary::Summary`], and the run's folder.
const KEYS: &str = "run steps seconds spent_seconds start end search_correct_rate best roofline roof_vector_bits peak_gflops \
    peak_threads reference_gflops openblas_gflops openblas_core openblas_version corpus_best_gflops coverage coverage_unconfirmed qd_score outcomes \
    judged_programs correct_programs refusals fruitless_steps unreadable_outcomes infrastructure_errors dead_letters \
    skipped_updates share_of_time quarantine_seconds disturbed peak_memory_bytes finished folder";

/// The keys of every best program.
const BEST: &str = "gflops ratio_to_reference interval techniques vector_bits source measured_again step attestation \
    samples machine_busy";

fn number(object: &Value, key: &str) -> f64 {
    let value = object[key].as_f64();
    value.unwrap_or_else(|| panic!("`{key}` is no number in {object}"))
}

fn count(object: &Value, key: &str) -> u64 {
    let value = object[key].as_u64();
    value.unwrap_or_else(|| panic!("`{key}` counts nothing in {object}"))
}

/// A key that is always there, with a speed or null.
fn speed_or_none(object: &Value, key: &str) {
    let value = object.get(key);
    let value = value.unwrap_or_else(|| panic!("there is no `{key}` in {object}"));
    assert!(
        value.is_null() || value.as_f64().is_some_and(|speed| speed > 0.0),
        "{key}: {value}"
    );
}

/// A run that reached its end has every key, with a possible value.
pub fn is_whole(summary: &Value, folder: &Path) {
    assert_keys(summary, KEYS, "rooflines corpus_best_wider early_stage");
    for refusal in summary["refusals"].as_array().unwrap() {
        assert_keys(refusal, "kind count candidate example", "");
    }
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert_eq!(summary["run"], name);
    let named = Path::new(summary["folder"].as_str().unwrap());
    let own = folder.canonicalize().unwrap();
    assert_eq!(named.canonicalize().unwrap(), own);
    assert!(count(summary, "steps") >= 1);
    let seconds = number(summary, "seconds");
    assert!(seconds > 0.1 && seconds < 86_400.0, "{seconds}");
    assert_eq!(summary["finished"], true);

    for key in ["start", "end"] {
        let samples = summary.get(key).unwrap();
        if !samples.is_null() {
            are_samples(samples);
        }
    }
    is_best(&summary["best"]);
    let peak = number(summary, "peak_gflops");
    let gflops = number(&summary["best"], "gflops");
    assert!(gflops < 2.0 * peak, "{gflops} GFLOPS of {peak}");
    speed_or_none(summary, "openblas_gflops");
    speed_or_none(summary, "corpus_best_gflops");

    let sets = 1u64 << Technique::ALL.len();
    assert!(count(summary, "coverage") <= sets, "{summary}");
    assert_eq!(
        number(summary, "qd_score") > 0.0,
        count(summary, "coverage") > 0
    );
    let kinds = summary["outcomes"].as_object().unwrap();
    assert!(kinds["measured"].as_u64().unwrap() >= 1, "{kinds:?}");
    let all: u64 = kinds.values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(all, outcomes(folder).len() as u64, "{kinds:?}");
    assert!(count(summary, "infrastructure_errors") <= all);

    let shares = summary["share_of_time"].as_object().unwrap();
    for role in ["generate", "compile", "verify", "time", "idle"] {
        assert!(shares.contains_key(role), "{role} in {shares:?}");
    }
    let shares: Vec<f64> = shares.values().map(|s| s.as_f64().unwrap()).collect();
    assert!(shares.iter().all(|s| (0.0..=1.0).contains(s)), "{shares:?}");
    let sum: f64 = shares.iter().sum();
    assert!((sum - 1.0).abs() < 1e-3, "{shares:?}");
    let bytes = count(summary, "peak_memory_bytes");
    assert!(bytes > 4_000_000 && bytes < 1_000_000_000_000, "{bytes}");
}

fn are_samples(samples: &Value) {
    let rates = "correct_rate build_rate mean_gflops mean_gflops_correct mean_ratio";
    assert_keys(samples, &format!("samples {rates} distinct_correct"), "");
    let n = count(samples, "samples");
    assert!(n >= 1 && count(samples, "distinct_correct") <= n);
    let (correct, built) = (
        number(samples, "correct_rate"),
        number(samples, "build_rate"),
    );
    assert!(0.0 <= correct && correct <= built && built <= 1.0);
    let (all, right) = (
        number(samples, "mean_gflops"),
        number(samples, "mean_gflops_correct"),
    );
    // Failures count 0 in the one and are left out of the other.
    assert!(
        (all - correct * right).abs() <= 1e-9 * (1.0 + right),
        "{samples}"
    );
    assert_eq!(correct > 0.0, right > 0.0, "{samples}");
    assert_eq!(correct > 0.0, number(samples, "mean_ratio") > 0.0);
}

fn is_best(best: &Value) {
    assert_keys(best, BEST, "workloads sizes during_run unconverged call");
    assert_keys(&best["interval"], "low high confidence", "");
    assert!(number(best, "gflops") > 0.0, "{best}");
    let ratio = number(best, "ratio_to_reference");
    let end = |which: &str| number(&best["interval"], which);
    assert!(0.0 < end("low") && end("low") <= ratio && ratio <= end("high"));
    let confidence = end("confidence");
    assert!(0.5 < confidence && confidence < 1.0, "{best}");
    for technique in best["techniques"].as_array().unwrap() {
        technique.as_str().unwrap().parse::<Technique>().unwrap();
    }
    assert!(best["source"].as_str().unwrap().contains("dgemm("));
}
