//! The load of a node's GPUs, as NVIDIA's own tool reports it.
//!
//! The tool takes a good part of a second. Therefore a thread runs the tool at intervals, and callers get the last
//! report.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Pause between two runs of the tool.
const PAUSE: Duration = Duration::from_secs(5);

/// One GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// Its number, as the tool counts.
    pub index: u32,
    /// Share of the last moments in which a kernel ran, 0 to 1.
    pub utilization: f64,
    /// Memory in use.
    pub memory_bytes: u64,
}

/// The GPUs of this machine; empty if there are none.
#[derive(Debug, Clone, Default)]
pub struct Gpus(Arc<Mutex<Vec<Gpu>>>);

impl Gpus {
    /// Runs `tool` (`nvidia-smi`) at intervals from now on. Stops when the tool is missing or fails.
    pub fn watch(&self, tool: &str) {
        let (known, tool) = (Arc::downgrade(&self.0), tool.to_owned());
        let spawned = std::thread::Builder::new()
            .name("gpus".into())
            .spawn(move || ask(&known, &tool));
        if let Err(error) = spawned {
            tracing::warn!(%error, "GPUs are not watched");
        }
    }

    /// The last report.
    pub fn now(&self) -> Vec<Gpu> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }
}

/// Runs the tool until it fails, or until no handle is left.
fn ask(known: &Weak<Mutex<Vec<Gpu>>>, tool: &str) {
    loop {
        let said = Command::new(tool)
            .args([
                "--query-gpu=index,utilization.gpu,memory.used",
                "--format=csv,noheader,nounits",
            ])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let said = said.ok().filter(|said| said.status.success());
        let Some(known) = known.upgrade() else { return };
        let gpus = said
            .as_ref()
            .map(|said| parse(&String::from_utf8_lossy(&said.stdout)));
        let over = gpus.is_none();
        *known.lock().unwrap_or_else(PoisonError::into_inner) = gpus.unwrap_or_default();
        drop(known);
        if over {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Lines like `0, 37, 1024`: number, per cent, MiB. A GPU without one of these values (`[N/A]`) is left out.
fn parse(said: &str) -> Vec<Gpu> {
    let line = |line: &str| {
        let mut fields = line.split(',').map(str::trim);
        Some(Gpu {
            index: fields.next()?.parse().ok()?,
            utilization: fields.next()?.parse::<f64>().ok()? / 100.0,
            memory_bytes: fields.next()?.parse::<u64>().ok()?.checked_mul(1 << 20)?,
        })
    };
    said.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_nvidia_smi_is_parsed() {
        let gpus = parse("0, 37, 1024\n1, 0, 3\n2, [N/A], 10\nan error\n");
        let gpu = |index, utilization, mib: u64| Gpu {
            index,
            utilization,
            memory_bytes: mib << 20,
        };
        assert_eq!(gpus, [gpu(0, 0.37, 1024), gpu(1, 0.0, 3)]);
    }

    #[test]
    fn a_tool_that_is_not_there_or_fails_leaves_nothing_known() {
        for tool in ["/nonexistent/nvidia-smi", "false"] {
            let gpus = Gpus::default();
            *gpus.0.lock().expect("nobody panics") = parse("0, 1, 1");
            ask(&Arc::downgrade(&gpus.0), tool);
            assert!(gpus.now().is_empty(), "{tool}");
        }
    }
}
