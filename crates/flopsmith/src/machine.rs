//! The memory this process and its children took.

/// Peak resident memory of this process, bytes.
pub fn own_peak_bytes() -> u64 {
    peak_of("self").unwrap_or(0)
}

/// Peak resident memory of another process of ours, bytes.
pub fn peak_of_process(pid: u32) -> u64 {
    peak_of(&pid.to_string()).unwrap_or(0)
}

fn peak_of(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Processor cores this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}
