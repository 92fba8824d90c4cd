//! The memory of this process and of all processes below it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use flopsmith_actors::Host;
use flopsmith_config::Settings;
use procfs::ProcResult;
use procfs::process::{MemoryMap, Process, all_processes};

/// Peak resident memory of this process, bytes.
pub fn own_peak_bytes() -> u64 {
    peak(Process::myself())
}

/// Peak resident memory of another process of ours, bytes.
pub fn peak_of_process(pid: u32) -> u64 {
    peak(process(pid))
}

fn peak(process: ProcResult<Process>) -> u64 {
    let status = process.and_then(|process| process.status());
    status.ok().and_then(|status| status.vmhwm).unwrap_or(0) * 1024
}

fn process(pid: u32) -> ProcResult<Process> {
    Process::new(i32::try_from(pid).map_err(|_| procfs::ProcError::NotFound(None))?)
}

/// Watches the memory of this process and of all processes below it: broker, compilers, jails and the programs in them.
///
/// The kernel keeps the peak of each process, but not of the sum of several. Therefore a thread samples the sum once in
/// each interval and keeps the largest; a process that starts and ends between two samples is missed. Shared pages
/// count in parts for the processes below (proportional set size, if the kernel lets us read it). For this process they
/// count in full, since the proportional size of a large process takes milliseconds to compute. A sample reads one
/// short file for each process of the machine, which takes a millisecond or two. The timer does not notice that, since
/// it takes the minimum of many samples that are shorter.
pub struct Watch {
    peak: Arc<AtomicU64>,
    /// Dropping the sender ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the sampling thread.
    pub fn start(interval: Duration) -> std::io::Result<Self> {
        let peak = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = channel();
        let seen = Arc::clone(&peak);
        let thread = Builder::new().name("memory".into()).spawn(move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                look(&seen);
            }
        })?;
        Ok(Self {
            peak,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The largest sum so far, bytes, including one more sample taken now.
    pub fn peak_bytes(&self) -> u64 {
        look(&self.peak);
        self.peak.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the sampling thread is ignored.
            let _ = thread.join();
        }
    }
}

fn look(peak: &AtomicU64) {
    peak.fetch_max(tree_bytes(std::process::id()), Ordering::Relaxed);
}

/// Memory of a process and all those below it, bytes.
fn tree_bytes(root: u32) -> u64 {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        if let Ok(stat) = process.stat() {
            children.entry(stat.ppid).or_default().push(stat.pid);
        }
    }
    let Ok(root) = process(root) else { return 0 };
    let mut sum = resident(&root).unwrap_or(0);
    let mut below = children.remove(&root.pid()).unwrap_or_default();
    while let Some(pid) = below.pop() {
        if let Ok(process) = Process::new(pid) {
            sum += share(&process).or_else(|| resident(&process)).unwrap_or(0);
        }
        // Each process is removed when it is visited, so the loop ends even if the kernel reports a cycle.
        below.extend(children.remove(&pid).unwrap_or_default());
    }
    sum
}

/// Resident memory of a process, bytes.
fn resident(process: &Process) -> Option<u64> {
    Some(process.status().ok()?.vmrss? * 1024)
}

/// Memory of a process, bytes; memory that several processes share is divided between them.
fn share(process: &Process) -> Option<u64> {
    let rollup = process.smaps_rollup().ok()?.memory_map_rollup;
    let pss = |map: MemoryMap| map.extension.map.get("Pss").copied();
    rollup.into_iter().find_map(pss)
}

/// The node with its GPU, if libtorch can use one and the node samples or trains policies.
pub fn with_gpu(host: Host, has_policies: bool) -> Host {
    #[cfg(feature = "torch")]
    if has_policies && flopsmith_policy::device::has_gpu() {
        return host.with_gpu();
    }
    let _ = has_policies;
    host
}

/// The node of a run with its GPU, if a role of this process computes on one.
pub fn with_gpu_of(host: Host, settings: &Settings) -> Host {
    #[cfg(feature = "torch")]
    if settings.has_models() && crate::devices::uses_gpu(settings) {
        return host.with_gpu();
    }
    let _ = settings;
    host
}

/// Processor cores this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    #[test]
    fn memory_of_grandchildren_is_counted_while_they_run() {
        const BYTES: u64 = 40_000_000;
        let hold =
            format!("x=$(head -c {BYTES} /dev/zero | tr '\\0' x); echo ready; read line; : \"$x\"");
        let watch = Watch::start(Duration::from_millis(5)).unwrap();
        // The first shell has a command after the second shell, so it cannot replace itself by the second one.
        let mut child = Command::new("sh")
            .args(["-c", "sh -c \"$0\"; exit 0", &hold])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        assert!(tree_bytes(child.id()) >= BYTES);
        let deadline = Instant::now() + Duration::from_secs(60);
        while watch.peak.load(Ordering::Relaxed) < BYTES {
            assert!(Instant::now() < deadline, "the watch does not look");
            std::thread::yield_now();
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(tree_bytes(child.id()) < BYTES, "it is gone");
        assert!(watch.peak_bytes() >= BYTES, "but it was there");
    }
}
