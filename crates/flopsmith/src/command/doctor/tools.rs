//! Checks the programs and libraries that Flopsmith needs.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use flopsmith_bus::server::Error as ServerError;
use flopsmith_compile::toolchain;
use flopsmith_machine::counters::{Counter, Counters};
use flopsmith_measure::sanitize;

use super::{Findings, OPTIONAL, State};

/// Advice for a tool that is installed and does not work.
const BROKEN: &str = "it is installed and does not work; run it by hand, or reinstall it";

/// A tool on the PATH.
enum Tool {
    /// The first line of its version message.
    Answers(String),
    /// The tool is not installed.
    Absent,
    /// The tool is installed and prints no version; holds the reason.
    Broken(String),
}

fn ask(program: &str) -> Tool {
    match toolchain::answer(Command::new(program).arg("--version")) {
        Ok(said) => {
            let text = if said.stdout.is_empty() {
                &said.stderr
            } else {
                &said.stdout
            };
            let first = text.lines().next().unwrap_or_default().to_owned();
            if said.status.success() {
                return Tool::Answers(first);
            }
            Tool::Broken(format!(
                "`{program} --version` failed ({}): {first}",
                said.status
            ))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Tool::Absent,
        Err(e) => Tool::Broken(format!("`{program} --version` cannot be run: {e}")),
    }
}

/// Checks the Python that modules need.
fn python(findings: &mut Findings) {
    let name = "python with torch";
    match flopsmith_module::Environment::find() {
        Ok(found) => {
            let at = found.executable.display();
            let found = format!("torch {} with Python {} ({at})", found.torch, found.python);
            findings.add(name, State::Good, found, None);
        }
        Err(_) => findings.add(
            name,
            State::Absent,
            format!("{OPTIONAL} (only needed for modules; scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6)"),
            None,
        ),
    }
}

/// Checks a tool that every command needs.
fn needed(findings: &mut Findings, name: &'static str, install: &str) {
    match ask(name) {
        Tool::Answers(found) => findings.add(name, State::Good, found, None),
        Tool::Absent => findings.add(name, State::Missing, "not found", Some(install)),
        Tool::Broken(why) => findings.add(name, State::Missing, why, Some(BROKEN)),
    }
}

/// Checks a tool that only some commands need.
fn optional(findings: &mut Findings, name: &'static str, needed_for: &str) {
    match ask(name) {
        Tool::Answers(found) => findings.add(name, State::Good, found, None),
        Tool::Absent => findings.add(
            name,
            State::Absent,
            format!("{OPTIONAL} (only needed for {needed_for})"),
            None,
        ),
        Tool::Broken(why) => findings.add(name, State::Advice, why, Some(BROKEN)),
    }
}

/// Checks compilers, linker and libraries.
pub(super) fn look(findings: &mut Findings) {
    needed(
        findings,
        "gcc",
        "apt-get install gcc libgomp1, or `make setup`",
    );
    sanitizers(findings);
    for (name, needed_for) in [
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
        optional(findings, name, needed_for);
    }
    python(findings);
    needed(findings, "ld", "apt-get install binutils");
    #[cfg(feature = "torch")]
    {
        let (state, device) = match flopsmith_policy::Device::cuda_if_available() {
            flopsmith_policy::Device::Cpu => {
                let devices = Path::new("/dev");
                // A GPU that is present and not used is worth advice.
                let state = if has_gpu(devices) {
                    State::Advice
                } else {
                    State::Good
                };
                (state, format!("CPU only: {}", no_cuda(devices)))
            }
            found => (State::Good, format!("{found:?}")),
        };
        findings.add("libtorch", state, device, None);
    }
    #[cfg(not(feature = "torch"))]
    findings.add(
        "libtorch",
        State::Absent,
        "not in this build, optional: no training, everything else works",
        None,
    );
}

#[cfg(feature = "torch")]
fn has_gpu(devices: &Path) -> bool {
    devices.join("nvidia0").exists()
}

/// The reason why libtorch finds no GPU here.
#[cfg(feature = "torch")]
fn no_cuda(devices: &Path) -> String {
    let hidden = std::env::var_os("CUDA_VISIBLE_DEVICES");
    if !has_gpu(devices) {
        return "this machine has no NVIDIA GPU, or no driver for it".into();
    }
    if hidden.is_some_and(|list| list.is_empty() || list == "-1") {
        return "CUDA_VISIBLE_DEVICES hides the GPUs".into();
    }
    // A linked or loaded library is mapped into this process.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if maps.contains("libtorch_cuda") {
        "this libtorch supports CUDA and cannot use the GPUs: the driver is too old, or this process is not permitted to use the GPUs (nvidia-smi shows more)".into()
    } else {
        "this machine has a GPU, and this libtorch is the build without CUDA; scripts/setup.sh downloads the build with CUDA".into()
    }
}

/// Checks the sanitizers, which examine programs that are about to become elites. Without them runs still work, but
/// miss faults that do not change a result.
fn sanitizers(findings: &mut Findings) {
    let missing = sanitize::missing_runtimes(Path::new("gcc"));
    let tools: Vec<&str> = ["objcopy", "addr2line"]
        .into_iter()
        .filter(|tool| !matches!(ask(tool), Tool::Answers(_)))
        .collect();
    let lacking: Vec<&str> = missing.into_iter().chain(tools).collect();
    match (lacking.is_empty(), sanitize::no_room()) {
        (false, _) => findings.add(
            "sanitizers",
            State::Advice,
            format!("{} not found, so not all sanitizers check programs that are about to become elites", lacking.join(", ")),
            Some("apt-get install gcc binutils; Fedora: dnf install libasan-static libubsan-static libtsan-static binutils"),
        ),
        (true, Some(why)) => findings.add(
            "sanitizers",
            State::Advice,
            format!("address, undefined; not thread, which checks programs on several threads: {why}"),
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

/// Checks the hardware counters of a process of this user.
pub(super) fn counters(findings: &mut Findings) {
    let missing = match Counters::of(0) {
        Ok(counters) => counters.missing(),
        Err(why) => Some(why),
    };
    match missing {
        None => {
            let names = Counter::ALL.map(Counter::name).join(", ");
            findings.add("counters", State::Good, names, None);
        }
        Some(why) => findings.add(
            "counters",
            State::Absent,
            why,
            Some("optional: only the models of `search --agent --endpoint` ask for them"),
        ),
    }
}

/// Checks the message broker. Most commands do not need one, so a missing broker is only a failure if the user asked
/// for the check (`start`).
pub(super) fn server(findings: &mut Findings, start: bool) {
    let found = if start {
        broker().map(|version| format!("{version}, starts with JetStream"))
    } else {
        installed()
    };
    // The errors name the remedy.
    match found {
        Ok(text) => findings.add("nats-server", State::Good, text, None),
        Err(e) if start => findings.add("nats-server", State::Missing, format!("{e:#}"), None),
        Err(e) => {
            let absent = matches!(e.downcast_ref(), Some(ServerError::Missing));
            let state = if absent { State::Absent } else { State::Advice };
            let needed_for = "only `train` and `search` need it";
            findings.add("nats-server", state, format!("{e:#}"), Some(needed_for));
        }
    }
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

/// Starts a private server as a run would, and returns its version.
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn absent_and_broken_tools_are_told_apart() {
        assert!(matches!(ask("/no/such/tool"), Tool::Absent));
        assert!(matches!(ask("/bin/false"), Tool::Broken(_)));
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("tool");
        std::fs::write(&file, "").unwrap();
        // The file exists and is no program.
        let found = ask(file.to_str().unwrap());
        assert!(matches!(&found, Tool::Broken(why) if why.contains("tool --version")));
    }

    #[test]
    fn optional_tools_are_reported_as_absent_and_needed_ones_as_missing() {
        let mut findings = Findings::default();
        needed(&mut findings, "no-such-tool", "install it so");
        optional(&mut findings, "no-such-tool", "what nobody does");
        let [missing, absent] = &findings.0[..] else {
            unreachable!("{:?}", findings.0);
        };
        assert_eq!(missing.state, State::Missing);
        assert_eq!(missing.advice.as_deref(), Some("install it so"));
        assert_eq!(absent.state, State::Absent);
        let said = &absent.found;
        assert!(said.starts_with("not installed, optional"), "{said}");
        assert!(said.contains("what nobody does"), "{said}");
    }
}
