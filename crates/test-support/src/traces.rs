//! Counts the resources that a process and its machine hold: leftovers of jobs increase them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Depth to which control groups are counted.
const DEPTH: u32 = 8;

/// The name of each resource, and its count.
pub type Traces = Vec<(&'static str, u64)>;

/// Counts all resources now. Some of them belong to the whole machine, so the counts include other work there.
pub fn take() -> Traces {
    vec![
        ("open files of this process", count("/proc/self/fd")),
        ("threads of this process", count("/proc/self/task")),
        ("children of this process", children()),
        ("entries in the folder for temporary files", temporary()),
        ("control groups", control_groups()),
        ("mounts", lines("/proc/self/mountinfo")),
        ("namespaces with a process", namespaces()),
        ("entries in /dev/shm", count("/dev/shm")),
        // The first line is a heading.
        (
            "System V segments",
            lines("/proc/sysvipc/shm").saturating_sub(1),
        ),
        (
            "shared memory of the machine, kB",
            kilobytes("/proc/meminfo", "Shmem:"),
        ),
        (
            "resident memory of this process, kB",
            kilobytes("/proc/self/status", "VmRSS:"),
        ),
    ]
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    found.flatten().map(|entry| entry.path()).collect()
}

fn count(folder: &str) -> u64 {
    entries(Path::new(folder)).len() as u64
}

fn temporary() -> u64 {
    entries(&std::env::temp_dir()).len() as u64
}

fn lines(file: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().count() as u64
}

fn kilobytes(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Child processes of this process, also ended ones.
fn children() -> u64 {
    let ours = std::process::id().to_string();
    let is_ours = |process: &PathBuf| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        // The name before may contain blanks and brackets.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1));
        parent == Some(ours.as_str())
    };
    // Besides its number a process is in there as `self`.
    let numbered = |process: &PathBuf| {
        let name = process.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.parse::<u32>().is_ok())
    };
    entries(Path::new("/proc"))
        .into_iter()
        .filter(|process| numbered(process) && is_ours(process))
        .count() as u64
}

/// The namespaces that have a process, like `lsns` lists them.
fn namespaces() -> u64 {
    let found: BTreeSet<PathBuf> = entries(Path::new("/proc"))
        .iter()
        .flat_map(|process| entries(&process.join("ns")))
        .filter_map(|namespace| fs::read_link(namespace).ok())
        .collect();
    found.len() as u64
}

fn control_groups() -> u64 {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let below = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup")
            .then(|| folders(Path::new(at), DEPTH))
    };
    mounts.lines().filter_map(below).sum()
}

fn folders(at: &Path, depth: u32) -> u64 {
    let Some(deeper) = depth.checked_sub(1) else {
        return 0;
    };
    let found = fs::read_dir(at).into_iter().flatten().flatten();
    found
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| 1 + folders(&entry.path(), deeper))
        .sum()
}
