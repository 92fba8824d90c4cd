//! `flopsmith doctor`: reports the tools that are installed or missing, and the timing precision of this machine.

mod jails;
mod roofs;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_bench::calibration::{self, Kernel, REPEATS};
use flopsmith_machine::openblas::unusable;
use flopsmith_report::text::openblas;
use flopsmith_run::console::data;
use flopsmith_run::digits::four;
use flopsmith_run::paths;
use serde::Serialize;

use crate::args::{Doctor, Format};
use crate::exit;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The part exists and works.
    Good,
    /// The part is missing, and only some commands need it.
    Absent,
    /// The part works, and a change would improve it.
    Advice,
    /// The part is missing or broken, and Flopsmith needs it.
    Missing,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    found: String,
    advice: Option<String>,
}

/// The finding for an optional tool that is not installed.
const OPTIONAL: &str = "not installed, optional";

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(
        &mut self,
        what: &'static str,
        state: State,
        found: impl Into<String>,
        advice: Option<&str>,
    ) {
        self.0.push(Finding {
            what,
            state,
            found: found.into(),
            advice: advice.map(str::to_owned),
        });
    }

    /// Advice for a check that fails because something that it needs is missing.
    fn lacking(&self) -> Option<&'static str> {
        let missing = self.0.iter().any(|f| f.state == State::Missing);
        missing.then_some("see the findings above")
    }
}

/// Runs all checks and prints the findings. Exit code 3 if something needed is missing.
pub fn run(args: &Doctor) -> Result<ExitCode> {
    let wait = args.wait.limit()?;
    let mut findings = Findings::default();
    tools::look(&mut findings);
    tools::server(&mut findings, args.broker);
    tools::counters(&mut findings);
    let mut sandbox = jails::look(&mut findings);
    match paths::harness() {
        Ok(path) => findings.add("harness", State::Good, path.display().to_string(), None),
        Err(e) => {
            // The error names the remedy.
            findings.add("harness", State::Missing, e.to_string(), None);
            sandbox = false;
        }
    }
    let mut attestation = None;
    if sandbox && !args.quick {
        match machine(&mut findings) {
            Ok(found) => attestation = Some(found),
            Err(e) => findings.add(
                "timing",
                State::Missing,
                format!("{e:#}"),
                findings.lacking(),
            ),
        }
    }
    let measured = (!args.quick).then(roofs::measure);
    if let Some(measured) = &measured {
        findings.add("roofs", State::Good, roofs::lines(measured), None);
    }
    let mut figures = None;
    if sandbox && args.timing {
        match calibration::calibrate(wait) {
            Ok((found, path)) => {
                findings.add(
                    "resolution",
                    State::Good,
                    format!("{}\nkept in {}", calibration::lines(&found), path.display()),
                    None,
                );
                figures = Some(found);
            }
            Err(e) => findings.add(
                "resolution",
                State::Missing,
                format!("{e:#}"),
                findings.lacking(),
            ),
        }
    }
    let missing = findings.0.iter().any(|f| f.state == State::Missing);
    if args.format == Format::Json {
        let object = serde_json::json!({ "findings": findings.0, "attestation": attestation, "roofs": measured, "timing": figures, "ready": !missing });
        data(&object.to_string());
    } else {
        for f in &findings.0 {
            let mark = match f.state {
                State::Good => "ok     ",
                State::Absent => "absent ",
                State::Advice => "advice ",
                State::Missing => "MISSING",
            };
            let mut lines = f.found.lines();
            data(&format!(
                "{mark}  {:<12} {}",
                f.what,
                lines.next().unwrap_or_default()
            ));
            for line in lines {
                data(&format!("                      {line}"));
            }
            if let Some(advice) = &f.advice {
                data(&format!("                      → {advice}"));
            }
        }
    }
    Ok(ExitCode::from(if missing {
        exit::INFRASTRUCTURE
    } else {
        exit::OK
    }))
}

/// Measures the peak, OpenBLAS, and the difference between two measurements of one kernel.
fn machine(findings: &mut Findings) -> Result<serde_json::Value> {
    let mut kernel = Kernel::open()?;
    findings.add(
        "peak",
        State::Good,
        format!(
            "{} GFLOPS, double precision, one core",
            four(kernel.peak_gflops())
        ),
        None,
    );
    match kernel.openblas() {
        Some(found) => findings.add(
            "openblas",
            State::Good,
            format!(
                "{}: {} GFLOPS with core type {} ({})",
                openblas(found.version.as_deref()),
                four(found.gflops),
                found.core_type.as_deref().unwrap_or("as detected"),
                found.library.display()
            ),
            None,
        ),
        None => match unusable() {
            Some(why) => findings.add("openblas", State::Advice, why, None),
            None => findings.add(
                "openblas",
                State::Absent,
                format!("{OPTIONAL} (only used for comparison)"),
                None,
            ),
        },
    }
    let repeats = kernel.repeat()?;
    let state = match repeats.are_steady() {
        true => State::Good,
        false => State::Advice,
    };
    findings.add(
        "timing",
        state,
        format!(
            "{REPEATS} measurements of one kernel: middle ten within {:.2} %, worst {:.2} % off the median",
            repeats.spread * 100.0,
            repeats.worst * 100.0
        ),
        (state == State::Advice).then_some("other work uses this machine, so a measurement needs more time to become precise"),
    );
    let attestation = kernel.attestation();
    match calibration::known(&attestation.class_key()) {
        Some(found) => findings.add("resolution", State::Good, calibration::lines(&found), None),
        None => findings.add(
            "resolution",
            State::Absent,
            "not measured yet (`flopsmith doctor --timing` takes two minutes and measures which differences this machine can resolve, and in which time)",
            None,
        ),
    }
    for advice in attestation.advice() {
        findings.add("machine", State::Advice, advice, None);
    }
    Ok(serde_json::from_str(&attestation.to_json())?)
}
