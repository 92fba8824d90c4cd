//! Kernels of Triton: compiled as they were launched in verification, for GPUs that need not be in this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use flopsmith_protocol::CandidateFault;
use flopsmith_sandbox::{Exit, Finished, Job, Kind, Sandbox};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::check::{SCRIPTS_AT, Triton, input};
use crate::environment::Environment;
use crate::error::Error;
use crate::gpu::{Architecture, CompiledKernel, Figures};
use crate::outcome::Failure;

/// Longest time of Triton's interpreter for one candidate, unless the caller has another.
pub const INTERPRETATION: Duration = Duration::from_secs(900);

/// Longest time of the compiler for all kernels of a candidate.
const LIMIT: Duration = Duration::from_secs(300);

/// One way in which verification launched a kernel, as the candidate's process noted it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Launch {
    /// The kernel.
    pub kernel: String,
    /// Triton's type of each parameter.
    signature: BTreeMap<String, String>,
    /// Parameters whose values the compiler knows; each value is an object with one field, which names its kind.
    constants: BTreeMap<String, BTreeMap<String, Value>>,
    /// Parameters whose addresses or values are multiples of 16.
    aligned: Vec<String>,
    options: LaunchOptions,
}

/// The options of a launch that the compiler reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LaunchOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    num_warps: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    num_stages: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    num_ctas: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maxnreg: Option<u32>,
}

/// The answer of the compiling program.
#[derive(Deserialize)]
struct Answer {
    compiled: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    launch: usize,
    architecture: u32,
    error: Option<String>,
    #[serde(flatten)]
    figures: Figures,
}

/// Compiles the kernels for each architecture, in a jail. `scripts` is the folder of the compiling program on the host.
///
/// # Errors
/// `Ok(Err(_))` is the candidate's fault.
pub(crate) fn compile(
    sandbox: &Sandbox,
    environment: &Environment,
    scripts: &Path,
    triton: &Triton,
    launches: &[Launch],
    architectures: &[Architecture],
) -> Result<Result<Vec<CompiledKernel>, Failure>, Error> {
    if let Err(failure) = sound(triton, launches) {
        return Ok(Err(failure));
    }
    let numbers: Vec<u32> = architectures.iter().map(|a| a.number()).collect();
    let order = json!({
        "paths": environment.paths(),
        "source": triton.kernel_source,
        "launches": launches,
        "architectures": numbers,
    });
    let finished = run(sandbox, environment, scripts, &order)?;
    let last = last(&finished);
    match finished.exit {
        exit if exit.success() => {}
        // The jail's filter is ours, and so is a program that does not start in it.
        Exit::ForbiddenSyscall => {
            return Err(Error::Process {
                process: "Triton's compiler",
                detail: format!("a system call that the jail forbids ended it\n{last}"),
            });
        }
        exit => {
            if matches!(exit, Exit::Code(_) | Exit::Signal(_)) {
                starts(sandbox, environment, scripts)?;
            }
            let detail = format!("Triton's compiler ended with {exit:?}\n{last}");
            return Ok(Err(Failure::new(CandidateFault::CompileLimit, detail)));
        }
    }
    Ok(read(&finished.stdout).and_then(|answer| kernels(answer, launches)))
}

/// Runs the compiling program with an order.
fn run(
    sandbox: &Sandbox,
    environment: &Environment,
    scripts: &Path,
    order: &Value,
) -> Result<Finished, Error> {
    let file = input(order.to_string().as_bytes())?;
    let mut job = job(environment, scripts);
    job.stdin = Some(file.as_raw_fd());
    Ok(sandbox.run(&job)?)
}

/// Makes sure that the compiling program starts, by an order that holds nothing of a candidate.
///
/// # Errors
/// It does not, for example because a package was removed.
fn starts(sandbox: &Sandbox, environment: &Environment, scripts: &Path) -> Result<(), Error> {
    let nothing = json!({
        "paths": environment.paths(),
        "source": "",
        "launches": [],
        "architectures": [],
    });
    let finished = run(sandbox, environment, scripts, &nothing)?;
    match finished.exit.success() {
        true => Ok(()),
        false => Err(Error::Process {
            process: "Triton's compiler",
            detail: format!("it does not start\n{}", last(&finished)),
        }),
    }
}

/// The last lines of what a process said.
fn last(finished: &Finished) -> String {
    let said = String::from_utf8_lossy(&finished.stderr);
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(6)..].join("\n")
}

/// Reads the compiler's answer. The candidate's texts appear in it, so an unreadable one is the candidate's fault.
fn read(answer: &[u8]) -> Result<Answer, Failure> {
    serde_json::from_slice(answer).map_err(|e| {
        let detail = format!("the answer of Triton's compiler cannot be read: {e}");
        Failure::new(CandidateFault::CompileError, detail)
    })
}

/// Refuses notes of launches that no honest process makes.
fn sound(triton: &Triton, launches: &[Launch]) -> Result<(), Failure> {
    if launches.is_empty() {
        let detail = "verification launched no kernel";
        return Err(Failure::new(CandidateFault::SkippedWork, detail));
    }
    let defined = |launch: &&Launch| triton.kernels.iter().any(|k| k.name == launch.kernel);
    match launches.iter().find(|launch| !defined(launch)) {
        None => Ok(()),
        Some(launch) => Err(Failure::new(
            CandidateFault::Crash,
            format!("it launched `{}`, which it does not define", launch.kernel),
        )),
    }
}

/// The compiled kernels, or the first failure in the compiler's words.
fn kernels(answer: Answer, launches: &[Launch]) -> Result<Vec<CompiledKernel>, Failure> {
    let mut all = Vec::new();
    for one in answer.compiled {
        let Some(launch) = launches.get(one.launch) else {
            continue;
        };
        let architecture = Architecture::of(one.architecture);
        if let Some(error) = one.error {
            return Err(Failure::new(
                CandidateFault::CompileError,
                format!("`{}` for {architecture}: {error}", launch.kernel),
            ));
        }
        let value = |kinds: &BTreeMap<String, Value>| kinds.values().next().cloned();
        all.push(CompiledKernel {
            kernel: launch.kernel.clone(),
            symbol: None,
            architecture,
            constants: launch
                .constants
                .iter()
                .map(|(name, kinds)| (name.clone(), value(kinds).unwrap_or_default()))
                .collect(),
            figures: one.figures,
        });
    }
    Ok(all)
}

fn job(environment: &Environment, scripts: &Path) -> Job {
    let script = format!("{SCRIPTS_AT}/triton_compile.py");
    let mut program = vec![environment.executable.clone().into_os_string()];
    program.extend(["-I", "-S", "-B", script.as_str()].map(OsString::from));
    let mut job = Job::new(Kind::Compile, program);
    job.read_only = environment
        .mounts()
        .into_iter()
        .map(|path| (path.clone(), path))
        .collect();
    job.read_only.push((scripts.to_owned(), SCRIPTS_AT.into()));
    job.tmpfs_bytes = 1 << 30;
    job.env = [
        ("PATH", "/usr/bin:/bin"),
        ("LC_ALL", "C.UTF-8"),
        ("HOME", "/tmp"),
        ("TMPDIR", "/tmp"),
        ("TRITON_CACHE_DIR", "/tmp/triton"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    job.limits.wall = LIMIT;
    job.limits.cpu = LIMIT;
    job.limits.memory_bytes = 12 << 30;
    job.limits.file_bytes = 1 << 30;
    job.limits.open_files = 128;
    job.limits.output_bytes = 4 << 20;
    job
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::skipped;

    use super::*;
    use crate::check::Kernel;

    fn launch() -> Launch {
        serde_json::from_value(json!({
            "kernel": "twice",
            "signature": {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
            "constants": {"BLOCK": {"value": 128}},
            "aligned": ["x_ptr"],
            "options": {"num_warps": 4},
        }))
        .unwrap()
    }

    #[test]
    fn a_launch_has_only_options_that_the_compiler_should_read() {
        let mut noted = serde_json::to_value(launch()).unwrap();
        assert_eq!(noted["options"], json!({"num_warps": 4}));
        noted["options"] = json!({"ptx_options": "--help"});
        assert!(serde_json::from_value::<Launch>(noted).is_err());
    }

    #[test]
    fn notes_of_launches_are_not_believed() {
        let triton = Triton {
            kernels: vec![Kernel {
                name: "other".into(),
                configurations: 1,
            }],
            source: String::new(),
            kernel_source: String::new(),
        };
        let fault = |launches: &[Launch]| sound(&triton, launches).unwrap_err().fault;
        assert_eq!(fault(&[]), CandidateFault::SkippedWork);
        assert_eq!(fault(&[launch()]), CandidateFault::Crash);
    }

    /// An interpreter without packages; none where there is no Python.
    fn python() -> Option<Environment> {
        let places = ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter();
        let mut found = places.filter_map(|path| std::fs::canonicalize(path).ok());
        let Some(executable) = found.next() else {
            skipped("python3 is not installed");
            return None;
        };
        let environment = json!({
            "executable": executable, "python": "3", "torch": "2", "standard": [], "site": [],
            "include": "", "torch_include": "", "torch_lib": "", "libraries": [], "capability": "",
        });
        Some(serde_json::from_value(environment).unwrap())
    }

    #[test]
    fn a_compiler_that_does_not_start_is_no_fault_of_the_candidate() {
        let Some(environment) = python() else {
            return;
        };
        let options = flopsmith_sandbox::Options {
            allow_weaker: true,
            ..Default::default()
        };
        let sandbox = Sandbox::new(options).unwrap();
        let triton = Triton {
            kernels: vec![Kernel {
                name: "twice".into(),
                configurations: 1,
            }],
            source: String::new(),
            kernel_source: String::new(),
        };
        let compiled = |script: &str| {
            let scripts = tempfile::tempdir().unwrap();
            std::fs::write(scripts.path().join("triton_compile.py"), script).unwrap();
            compile(
                &sandbox,
                &environment,
                scripts.path(),
                &triton,
                &[launch()],
                &Architecture::DEFAULT,
            )
        };
        let gone = compiled("import no_such_package\n").unwrap_err();
        let said = gone.to_string();
        assert!(said.contains("it does not start"), "{said}");
        assert!(said.contains("no_such_package"), "{said}");
        // It starts, and ends early with the launches of the candidate only.
        let early = "import json, sys\nsys.exit(len(json.load(sys.stdin)['launches']))\n";
        let failure = compiled(early).unwrap().unwrap_err();
        assert_eq!(failure.fault, CandidateFault::CompileLimit);
    }

    #[test]
    fn the_first_error_of_the_compiler_is_the_failure() {
        let answer = |text: &str| read(text.as_bytes()).unwrap();
        let good = r#"{"compiled": [{"launch": 0, "architecture": 80, "registers": 29, "shared_bytes": 16}]}"#;
        let all = kernels(answer(good), &[launch()]).unwrap();
        assert_eq!(
            (all[0].figures.registers, all[0].figures.shared_bytes),
            (29, 16)
        );
        let shown = serde_json::to_value(&all[0]).unwrap();
        assert_eq!(shown["constants"], json!({"BLOCK": 128}));
        assert_eq!(shown["registers"], 29);
        let bad = r#"{"compiled": [{"launch": 0, "architecture": 90, "error": "ptxas failed"}]}"#;
        let failure = kernels(answer(bad), &[launch()]).unwrap_err();
        assert_eq!(failure.fault, CandidateFault::CompileError);
        assert_eq!(failure.detail, "`twice` for sm_90: ptxas failed");
        let half = r#"{"compiled": [{"launch": 0, "architecture": 90, "error": "\ud800"}]}"#;
        let unreadable = read(half.as_bytes()).err().unwrap();
        assert_eq!(unreadable.fault, CandidateFault::CompileError);
    }
}
