//! A control group around each compile job, where the machine permits one.
//!
//! The group is a backstop against a compiler that was taken over: it limits the processes and the memory of a job as a
//! whole. Moving a process between groups costs milliseconds. With version 1 of control groups, the thread that starts
//! the jail is therefore a member of the group, and its children start in the group. Version 2 has no thread groups for
//! memory, so the caller moves each job's process.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The way in which a job enters its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The launching thread is a member of the group, and its children inherit the membership.
    ByThread,
    /// The caller moves each job's process.
    ByProcess,
}

/// A control group that this process made; removed on drop.
pub(crate) struct Cgroup {
    folders: Vec<PathBuf>,
    pub entry: Entry,
    /// The group's current limits: bytes and processes.
    limits: (u64, u64),
}

impl Cgroup {
    /// Makes a group or returns the reason why no group can be made.
    pub fn new() -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|e| e.to_string())?;
        let name = format!("flopsmith-jail-{}-{:x}", std::process::id(), serial());
        let mut whys = Vec::new();
        for attempt in [version_2, version_1] {
            match attempt(&own, &mounts, &name) {
                Ok(group) => return Ok(group),
                Err(why) => whys.push(why),
            }
        }
        Err(whys.join("; "))
    }

    /// Puts the calling thread into the group (version 1).
    pub fn enter_thread(folders: &[PathBuf]) {
        let tid = nix::unistd::gettid().to_string();
        for folder in folders {
            if let Err(error) = fs::write(folder.join("tasks"), &tid) {
                tracing::warn!(folder = %folder.display(), %error, "compile jobs start outside their control group");
            }
        }
    }

    /// The folders to enter.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Limits the memory and the number of processes of the group as a whole.
    pub fn limit(&mut self, memory_bytes: u64, processes: u64) -> std::io::Result<()> {
        if self.limits == (memory_bytes, processes) {
            return Ok(());
        }
        for folder in &self.folders {
            for (file, value) in [
                ("memory.max", memory_bytes),
                ("memory.limit_in_bytes", memory_bytes),
                ("pids.max", processes),
            ] {
                let file = folder.join(file);
                if file.exists() {
                    fs::write(file, value.to_string())?;
                }
            }
        }
        self.limits = (memory_bytes, processes);
        Ok(())
    }

    /// Moves a process into the group (version 2).
    pub fn enter_process(&self, pid: i32) -> std::io::Result<()> {
        for folder in &self.folders {
            fs::write(folder.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            // The kernel removes a joined thread from its group a moment after the join, and a group with members
            // cannot be removed.
            let mut removed = fs::remove_dir(folder);
            for _ in 0..50 {
                if removed.is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
                removed = fs::remove_dir(folder);
            }
            if let Err(error) = removed {
                tracing::debug!(folder = %folder.display(), %error, "a control group could not be removed");
            }
        }
    }
}

/// A number that is unique in this process: two sandboxes need different group names.
fn serial() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Removes groups that were left over because their process was killed.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|n| n.strip_prefix("flopsmith-jail-"));
        let owner = owner.and_then(|n| n.split('-').next());
        if let Some(pid) = owner
            && !Path::new("/proc").join(pid).exists()
        {
            let _may_be_busy = fs::remove_dir(entry.path());
        }
    }
}

fn make(parent: &Path, name: &str, needs: &[&str]) -> Result<PathBuf, String> {
    sweep(parent);
    let folder = parent.join(name);
    fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for file in needs {
        if let Err(e) = fs::OpenOptions::new().write(true).open(folder.join(file)) {
            let _removed = fs::remove_dir(&folder);
            return Err(format!("{}: {e}", folder.join(file).display()));
        }
    }
    Ok(folder)
}

fn version_2(own: &str, mounts: &str, name: &str) -> Result<Cgroup, String> {
    let mount = mounts
        .lines()
        .map(|l| l.split(' ').collect::<Vec<_>>())
        .find(|f| f.get(2) == Some(&"cgroup2"))
        .and_then(|f| f.get(1).map(PathBuf::from))
        .ok_or("no version 2 control groups are mounted")?;
    let ours = own
        .lines()
        .find_map(|l| l.strip_prefix("0::/"))
        .unwrap_or("");
    let mut why = String::new();
    // Tries a group below our own if ours delegates the controllers, then one at the top of the hierarchy.
    for parent in [mount.join(ours), mount.clone()] {
        let enabled = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        let has = |c: &str| enabled.split_whitespace().any(|e| e == c);
        if !(has("memory") && has("pids")) {
            why = format!(
                "{} does not delegate the controllers memory and pids",
                parent.display()
            );
            continue;
        }
        match make(&parent, name, &["memory.max", "pids.max", "cgroup.procs"]) {
            Ok(folder) => {
                return Ok(Cgroup {
                    folders: vec![folder],
                    entry: Entry::ByProcess,
                    limits: (0, 0),
                });
            }
            Err(e) => why = e,
        }
    }
    Err(why)
}

fn version_1(own: &str, mounts: &str, name: &str) -> Result<Cgroup, String> {
    let parent = |controller: &str| -> Result<PathBuf, String> {
        let mount = mounts
            .lines()
            .map(|l| l.split(' ').collect::<Vec<_>>())
            .find(|f| {
                f.get(2) == Some(&"cgroup")
                    && f.get(3)
                        .is_some_and(|o| o.split(',').any(|o| o == controller))
            })
            .and_then(|f| f.get(1).map(PathBuf::from))
            .ok_or_else(|| format!("no version 1 controller {controller} is mounted"))?;
        let ours = own
            .lines()
            .filter_map(|l| l.split_once(':').map(|(_, rest)| rest))
            .find_map(|l| {
                let (controllers, path) = l.split_once(":/")?;
                controllers
                    .split(',')
                    .any(|c| c == controller)
                    .then_some(path)
            })
            .unwrap_or("");
        Ok(mount.join(ours))
    };
    let mut group = Cgroup {
        folders: Vec::new(),
        entry: Entry::ByThread,
        limits: (0, 0),
    };
    for (controller, file) in [("memory", "memory.limit_in_bytes"), ("pids", "pids.max")] {
        // Each folder is recorded as soon as it exists, so `drop` also removes a half-made group.
        group
            .folders
            .push(make(&parent(controller)?, name, &[file, "tasks"])?);
    }
    Ok(group)
}
