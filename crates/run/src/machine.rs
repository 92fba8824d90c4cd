//! The memory of this process and of all processes below it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Peak resident memory of this process, bytes.
pub fn own_peak_bytes() -> u64 {
    kilobytes("self", "status", "VmHWM:").unwrap_or(0) * 1024
}

/// Peak resident memory of another process of ours, bytes.
pub fn peak_of_process(pid: u32) -> u64 {
    kilobytes(&pid.to_string(), "status", "VmHWM:").unwrap_or(0) * 1024
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
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let processes = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in processes {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut sum = kilobytes(&root.to_string(), "status", "VmRSS:").unwrap_or(0);
    let mut below = children.remove(&root).unwrap_or_default();
    while let Some(pid) = below.pop() {
        let process = pid.to_string();
        sum += kilobytes(&process, "smaps_rollup", "Pss:")
            .or_else(|| kilobytes(&process, "status", "VmRSS:"))
            .unwrap_or(0);
        // Each process is removed when it is visited, so the loop ends even if the kernel reports a cycle.
        below.extend(children.remove(&pid).unwrap_or_default());
    }
    sum * 1024
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name before the last bracket may contain anything, also brackets and spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

fn kilobytes(process: &str, file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}")).ok()?;
    let line = text.lines().find(|l| l.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
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
    fn what_a_child_of_a_child_takes_is_counted_while_it_runs() {
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

    #[test]
    fn names_of_processes_do_not_confuse() {
        assert_eq!(
            parent_of(std::process::id()),
            Some(std::os::unix::process::parent_id())
        );
        assert_eq!(parent_of(u32::MAX), None);
    }
}
