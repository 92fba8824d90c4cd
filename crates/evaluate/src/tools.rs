//! The tools and GPUs that decide which programs for modules a machine can time.

use std::path::Path;

use flopsmith_module::Environment;
use flopsmith_protocol::{Digest, Failure};

use crate::modules::ours;

/// The folder of device nodes.
const DEVICES: &str = "/dev";

/// Digest of everything that decides whether the program of a module can be timed on this machine: the version of Flopsmith,
/// Python and its packages, the compilers, and the GPUs. Finding Python and the compilers takes seconds.
///
/// # Errors
/// There is no Python with PyTorch.
pub fn timing_tools() -> Result<Digest, Failure> {
    let environment = Environment::find().map_err(|e| ours(&e))?;
    Ok(with(&Digest::of(environment.versions().as_bytes())))
}

/// The same on this machine with these versions of Python, its packages and the compilers.
pub(crate) fn with(fingerprint: &Digest) -> Digest {
    tools_of(fingerprint, &gpus(Path::new(DEVICES)))
}

fn tools_of(fingerprint: &Digest, gpus: &[String]) -> Digest {
    let version = env!("CARGO_PKG_VERSION");
    Digest::of(format!("{version} {fingerprint} {}", gpus.join(" ")).as_bytes())
}

/// The device nodes of the GPUs that this process sees, such as `nvidia0`.
fn gpus(devices: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(devices).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_gpu = |name: &String| {
        let number = name.strip_prefix("nvidia");
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut found: Vec<String> = names.filter(is_gpu).collect();
    found.sort();
    found
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn another_gpu_or_another_tool_makes_other_tools() {
        let devices = tempfile::tempdir().unwrap();
        assert_eq!(gpus(devices.path()), Vec::<String>::new());
        for name in ["nvidia1", "nvidia0", "nvidiactl", "nvidia", "null"] {
            std::fs::write(devices.path().join(name), "").unwrap();
        }
        let two = gpus(devices.path());
        assert_eq!(two, ["nvidia0", "nvidia1"]);
        assert_eq!(gpus(&devices.path().join("missing")), Vec::<String>::new());
        let (python, other) = (Digest::of(b"torch 2.11"), Digest::of(b"torch 2.12"));
        let known = [
            tools_of(&python, &[]),
            tools_of(&python, &two[..1]),
            tools_of(&python, &two),
            tools_of(&other, &[]),
        ];
        for (place, tools) in known.iter().enumerate() {
            assert!(!known[..place].contains(tools), "{place}");
        }
        assert_eq!(known[0], tools_of(&python, &[]));
    }
}
