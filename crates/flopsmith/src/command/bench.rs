//! `flopsmith bench`: one program, compiled, verified and timed.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_bench::Purpose;
use flopsmith_protocol::Verdict;

use crate::args::{Bench, BenchPurpose, Format};
use crate::evaluator::Evaluator;
use crate::exit::{self, data, say, usage};
use crate::output::Output;
use crate::{paths, record};

/// Evaluates a file and prints its outcome.
pub fn run(args: &Bench) -> Result<ExitCode> {
    let problem = Arc::new(paths::problem(&args.problem)?);
    let bytes = std::fs::read(&args.file)
        .map_err(|e| usage(format!("cannot read {}: {e}", args.file.display())))?;
    let raw = args.raw.as_deref().map(Output::claim).transpose()?;
    let evaluator = Evaluator::new(problem, &args.compiler, args.allow_weaker_jail)?;
    let purpose = match args.purpose {
        BenchPurpose::Screen => Purpose::Screen,
        BenchPurpose::Rank => Purpose::Rank,
        BenchPurpose::Certify => Purpose::Certify,
    };
    let mut verifier = evaluator.verifier()?;
    let mut timer = evaluator.timer(args.threads)?;
    if purpose == Purpose::Certify {
        timer.refine_reference()?;
    }
    // What is no text is the candidate's fault, and the compile stage says so.
    let source = String::from_utf8(bytes).unwrap_or_else(|e| {
        let mut text = String::from_utf8_lossy(e.as_bytes()).into_owned();
        text.push('\0');
        text
    });
    let done = evaluator.evaluate(&source, &mut verifier, &mut timer, purpose);
    let attestation_json = timer.attestation().to_json();
    let attestation: serde_json::Value = serde_json::from_str(&attestation_json)?;
    let (outcome, reason, mut code) = match &done.verdict {
        Verdict::Measured { .. } => ("measured", None, exit::OK),
        Verdict::Rejected { fault, .. } => ("rejected", Some(fault.name()), exit::CANDIDATE),
        Verdict::Infrastructure { cause, .. } => {
            ("infrastructure", Some(cause.name()), exit::INFRASTRUCTURE)
        }
        Verdict::Unknown { .. } => ("unknown", Some("unknown"), exit::INFRASTRUCTURE),
    };
    let detail = match &done.verdict {
        Verdict::Rejected { detail, .. }
        | Verdict::Infrastructure { detail, .. }
        | Verdict::Unknown { detail } => detail.clone(),
        Verdict::Measured { .. } => done.diagnostics.clone(),
    };
    let measurement = done.verdict.measurement();
    match (raw, measurement) {
        (Some(raw), Some(measurement)) => {
            let kept = record::json(&source, measurement, &done.raw, &attestation_json)
                .and_then(|record| raw.write(record));
            // The result is there all the same, and it is printed.
            if let Err(error) = kept {
                say(&format!("error: {error:#}"));
                code = exit::INFRASTRUCTURE;
            }
        }
        (Some(raw), None) => say(&format!(
            "{} is not written: there are no samples of a program that was not timed",
            raw.path().display()
        )),
        (None, _) => {}
    }
    if args.format == Format::Json {
        let object = serde_json::json!({
            "file": args.file,
            "problem": args.problem,
            "outcome": outcome,
            "reason": reason,
            "techniques": done.techniques,
            "vector_bits": done.vector_bits,
            "gflops": measurement.map(|m| m.gflops),
            "ratio": measurement.map(|m| m.ratio),
            "interval": measurement.map(|m| m.interval),
            "blocks": measurement.map(|m| m.blocks),
            "calls": measurement.map(|m| m.calls),
            "share_of_peak": measurement.map(|m| m.share_of_peak),
            "stop": measurement.map(|m| m.stop),
            "diagnostics": detail,
            "attestation": attestation,
        });
        data(&object.to_string());
        return Ok(ExitCode::from(code));
    }
    match measurement {
        Some(m) => {
            data(&format!("{}: {:.2} GFLOPS", args.file.display(), m.gflops));
            data(&format!(
                "  {:.3}× the plain reference, 95 % interval [{:.3}, {:.3}] ({} calls in {} blocks, {})",
                m.ratio, m.interval.low, m.interval.high, m.calls, m.blocks, m.stop
            ));
            data(&format!(
                "  {:.1} % of this core's measured peak ({:.1} GFLOPS)",
                m.share_of_peak * 100.0,
                timer.peak_gflops()
            ));
        }
        None => data(&format!(
            "{}: {outcome}: {}",
            args.file.display(),
            reason.unwrap_or_default()
        )),
    }
    if let Some(techniques) = done.techniques {
        data(&format!("  techniques: {techniques}"));
    }
    if let Some(bits) = done.vector_bits {
        data(&format!("  vector registers: {bits} bits"));
    }
    if !detail.trim().is_empty() {
        say(detail.trim_end());
    }
    Ok(ExitCode::from(code))
}
