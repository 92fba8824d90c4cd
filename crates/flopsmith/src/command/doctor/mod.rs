//! `flopsmith doctor`: what is here, what is missing, and how good a stopwatch this machine is.

mod roofs;
mod timing;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Result;
use flopsmith_bench::{Purpose, sanitize, toolchain};
use flopsmith_sandbox::{Options, Sandbox};
use serde::Serialize;

use crate::args::{Doctor, Format};
use crate::evaluator::{Evaluator, random};
use crate::exit::{self, data};
use crate::paths;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Good,
    Advice,
    Missing,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    found: String,
    advice: Option<String>,
}

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
}

/// Looks around and prints what it found. Exit code 3 when something needed is missing.
pub fn run(args: &Doctor) -> Result<ExitCode> {
    let wait = args.wait.limit()?;
    let mut findings = Findings::default();
    tools(&mut findings);
    server(&mut findings, args.broker);
    let sandbox = jail(&mut findings);
    match paths::harness() {
        Ok(path) => findings.add("harness", State::Good, path.display().to_string(), None),
        Err(e) => findings.add("harness", State::Missing, e.to_string(), Some("make build")),
    }
    let mut attestation = None;
    if sandbox && !args.quick {
        match machine(&mut findings) {
            Ok(found) => attestation = Some(found),
            Err(e) => findings.add(
                "timing",
                State::Missing,
                format!("{e:#}"),
                Some("see the findings above"),
            ),
        }
    }
    let measured = (!args.quick).then(roofs::measure);
    if let Some(measured) = &measured {
        findings.add("roofs", State::Good, roofs::lines(measured), None);
    }
    let mut calibration = None;
    if sandbox && args.timing {
        match timing::calibrate(wait) {
            Ok((found, path)) => {
                findings.add(
                    "resolution",
                    State::Good,
                    format!("{}\nkept in {}", timing::lines(&found), path.display()),
                    None,
                );
                calibration = Some(found);
            }
            Err(e) => findings.add(
                "resolution",
                State::Missing,
                format!("{e:#}"),
                Some("see the findings above"),
            ),
        }
    }
    let missing = findings.0.iter().any(|f| f.state == State::Missing);
    if args.format == Format::Json {
        let object = serde_json::json!({ "findings": findings.0, "attestation": attestation, "roofs": measured, "timing": calibration, "ready": !missing });
        data(&object.to_string());
    } else {
        for f in &findings.0 {
            let mark = match f.state {
                State::Good => "ok     ",
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

fn first_line(program: &str, argument: &str) -> Option<String> {
    let said = toolchain::answer(Command::new(program).arg(argument)).ok()?;
    let text = if said.stdout.is_empty() {
        said.stderr
    } else {
        said.stdout
    };
    text.lines().next().map(str::to_owned)
}

fn tools(findings: &mut Findings) {
    match first_line("gcc", "--version") {
        Some(found) => findings.add("gcc", State::Good, found, None),
        None => findings.add(
            "gcc",
            State::Missing,
            "not found",
            Some("apt-get install gcc libgomp1, or `make setup`"),
        ),
    }
    sanitizers(findings);
    for (name, needed) in [
        ("g++", "programs in C++; apt-get install g++"),
        ("gfortran", "programs in Fortran; apt-get install gfortran"),
        (
            "clang",
            "--compiler clang; apt-get install clang libomp-dev",
        ),
        (
            "clang++",
            "programs in C++ with --compiler clang; apt-get install clang",
        ),
    ] {
        let found = first_line(name, "--version");
        let found = found.unwrap_or_else(|| format!("not installed (only needed for {needed})"));
        findings.add(name, State::Good, found, None);
    }
    match first_line("ld", "--version") {
        Some(found) => findings.add("ld", State::Good, found, None),
        None => findings.add(
            "ld",
            State::Missing,
            "not found",
            Some("apt-get install binutils"),
        ),
    }
    #[cfg(feature = "torch")]
    {
        let device = match flopsmith_policy::Device::cuda_if_available() {
            flopsmith_policy::Device::Cpu => format!("CPU only: {}", no_cuda(Path::new("/dev"))),
            found => format!("{found:?}"),
        };
        findings.add("libtorch", State::Good, device, None);
    }
    #[cfg(not(feature = "torch"))]
    findings.add(
        "libtorch",
        State::Good,
        "not in this build: no training, everything else works",
        None,
    );
}

/// Why nothing is computed on a GPU here, where libtorch found none.
#[cfg(feature = "torch")]
fn no_cuda(devices: &Path) -> String {
    let hidden = std::env::var_os("CUDA_VISIBLE_DEVICES");
    if !devices.join("nvidia0").exists() {
        return "this machine has no NVIDIA GPU, or no driver for it".into();
    }
    if hidden.is_some_and(|list| list.is_empty() || list == "-1") {
        return "CUDA_VISIBLE_DEVICES hides the GPUs".into();
    }
    // Linked or loaded, it is mapped into this process.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if maps.contains("libtorch_cuda") {
        "libtorch can use CUDA and does not get along with the driver: it is too old, or the GPUs are not permitted here (nvidia-smi says more)".into()
    } else {
        "there is a GPU, and this libtorch is the one for machines without: scripts/setup.sh fetches the other one".into()
    }
}

/// What looks at programs that are about to become elites. Without it runs go on, and miss what shows in no result.
fn sanitizers(findings: &mut Findings) {
    let missing = sanitize::missing_runtimes(Path::new("gcc"));
    let tools: Vec<&str> = ["objcopy", "addr2line"]
        .into_iter()
        .filter(|tool| first_line(tool, "--version").is_none())
        .collect();
    let lacking: Vec<&str> = missing.into_iter().chain(tools).collect();
    match (lacking.is_empty(), sanitize::no_room()) {
        (false, _) => findings.add(
            "sanitizers",
            State::Advice,
            format!("{} not found: programs that are about to become elites are not looked at with all of them", lacking.join(", ")),
            Some("apt-get install gcc binutils; Fedora: dnf install libasan-static libubsan-static libtsan-static binutils"),
        ),
        (true, Some(why)) => findings.add(
            "sanitizers",
            State::Advice,
            format!("address, undefined; not thread, which looks at programs on several threads: {why}"),
            Some("sysctl vm.mmap_rnd_bits=28, if programs are timed on several threads"),
        ),
        (true, None) => findings.add(
            "sanitizers",
            State::Good,
            "address, undefined, thread",
            None,
        ),
    }
}

/// The message broker. Most commands do without one, so that it is missing is no more than advice unless it was asked for.
fn server(findings: &mut Findings, start: bool) {
    let found = if start {
        broker().map(|version| format!("{version}, starts with JetStream"))
    } else {
        installed()
    };
    let (state, text, advice) = match found {
        Ok(text) => (State::Good, text, None),
        Err(e) if start => (State::Missing, format!("{e:#}"), Some("make setup")),
        Err(e) => (
            State::Advice,
            format!("{e:#}"),
            Some("`train` and `search` need it, nothing else does: make setup"),
        ),
    };
    findings.add("nats-server", state, text, advice);
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// The version of the server that a run would start.
fn installed() -> Result<String> {
    let (path, version) = runtime()?.block_on(flopsmith_bus::Server::installed(None))?;
    Ok(format!("{version} in {}", path.display()))
}

/// Starts a private server as a run would, and says its version.
fn broker() -> Result<String> {
    let folder = std::env::temp_dir().join(format!("flopsmith-doctor-{}", std::process::id()));
    let found = runtime()?.block_on(async {
        let server =
            flopsmith_bus::Server::start(None, &folder, flopsmith_bus::ServerOptions::default())
                .await?;
        let version = server.version().to_owned();
        server.stop().await;
        anyhow::Ok(version)
    });
    let _ = std::fs::remove_dir_all(&folder);
    found
}

fn jail(findings: &mut Findings) -> bool {
    match Sandbox::new(Options {
        allow_weaker: false,
        bwrap: None,
    }) {
        Ok(sandbox) => {
            findings.add("jail", State::Good, sandbox.protection().to_string(), None);
            true
        }
        Err(strict) => match Sandbox::new(Options {
            allow_weaker: true,
            bwrap: None,
        }) {
            Ok(sandbox) => {
                findings.add(
                    "jail",
                    State::Advice,
                    sandbox.protection().to_string(),
                    Some("untrusted programs are refused with this protection; to run them all the same, give `bench` and `problem check` --allow-weaker-jail, `train` and `search` --set evaluate.allow_weaker_jail=true"),
                );
                true
            }
            Err(_) => {
                findings.add(
                    "jail",
                    State::Missing,
                    flopsmith_actors::supervisor::words(&strict),
                    Some("apt-get install bubblewrap"),
                );
                false
            }
        },
    }
}

/// Measures the peak, OpenBLAS and how well a kernel agrees with itself.
fn machine(findings: &mut Findings) -> Result<serde_json::Value> {
    let problem = Arc::new(paths::problem("dgemm")?);
    let evaluator = Evaluator::new(Arc::clone(&problem), "gcc", true)?;
    let mut timer = evaluator.timer(1)?;
    findings.add(
        "peak",
        State::Good,
        format!(
            "{:.1} GFLOPS, double precision, one core",
            timer.peak_gflops()
        ),
        None,
    );
    match evaluator.openblas(1) {
        Some(found) => findings.add(
            "openblas",
            State::Good,
            format!(
                "{:.1} GFLOPS with core type {}",
                found.gflops,
                found.core_type.as_deref().unwrap_or("as detected")
            ),
            None,
        ),
        None => findings.add(
            "openblas",
            State::Good,
            "not installed (only used for comparison)",
            None,
        ),
    }
    let source = problem
        .baseline_source
        .clone()
        .unwrap_or_else(|| problem.reference_source.clone());
    let built = evaluator
        .compiler
        .compile(&problem, &source, problem.techniques)?;
    let mut ratios = Vec::new();
    for _ in 0..12 {
        ratios.push(
            timer
                .measure(&built.object, Purpose::Rank, random(), None)?
                .measurement
                .gflops,
        );
    }
    ratios.sort_by(f64::total_cmp);
    let middle = ratios[ratios.len() / 2];
    let worst = ratios
        .iter()
        .map(|r| (r / middle - 1.0).abs())
        .fold(0.0, f64::max);
    let spread = (ratios[ratios.len() - 2] / ratios[1] - 1.0).abs();
    let state = if spread < 0.01 {
        State::Good
    } else {
        State::Advice
    };
    findings.add(
        "timing",
        state,
        format!("12 measurements of one kernel: middle ten within {:.2} %, worst {:.2} % off the median", spread * 100.0, worst * 100.0),
        (state == State::Advice).then_some("something else uses this machine: numbers will need longer to become sharp"),
    );
    let attestation = timer.attestation();
    match timing::known(&attestation.class_key()) {
        Some(found) => findings.add("resolution", State::Good, timing::lines(&found), None),
        None => findings.add(
            "resolution",
            State::Good,
            "not measured yet (`flopsmith doctor --timing` says in two minutes which difference this machine can tell in which time)",
            None,
        ),
    }
    for advice in attestation.advice() {
        findings.add("machine", State::Advice, advice, None);
    }
    Ok(serde_json::from_str(&attestation.to_json())?)
}
