//! Two processes that measure on one machine at once spoil each other's times, and neither sees why.
//!
//! So whoever measures holds a lock as long as its process lives, and who finds it taken says whose it is and goes on. The lock
//! forbids nothing. The kernel lets it go when its process ends, however that happens; what stands in the file without a
//! holder means nothing.
//!
//! All processes of a machine have to look at one place, whoever's they are and whatever their environment says. So TMPDIR does
//! not count, and the folder is chosen by what is the same for all: whether everybody may write to it.

use std::fs::{File, Permissions, TryLockError};
use std::io::{ErrorKind, Read, Result, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::Builder;

use crate::console::say;

/// The file's name: one for all users of the machine.
const FILE: &str = "flopsmith-measuring.lock";
/// Folders for what lasts as long as the machine runs, best first.
const FOLDERS: [&str; 4] = ["/run/lock", "/dev/shm", "/tmp", "/var/tmp"];
/// Everybody makes files there, and nobody removes those of others.
const EVERYBODYS: u32 = 0o1777;
/// More of the file is not read: anybody may write into it.
const LONGEST: u64 = 200;

/// Tells others that this process measures from now on, for `what` (e.g. `train dgemm-1`), and the user if another one does.
/// Where there is no place for the lock nothing is said.
pub fn announce(what: &str) {
    if let Some(other) = met(what) {
        say(&format!(
            "warning: {other} measures on this machine as well: each spoils the other's times; wait for it, or stop one of the two"
        ));
    }
}

/// Tells others and says nothing of them: for who measures where nobody else does.
pub fn announce_only(what: &str) {
    let _other = met(what);
}

fn met(what: &str) -> Option<String> {
    // Better one user's than none.
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folders = FOLDERS.map(PathBuf::from);
    let everybodys = folders.into_iter().filter(|folder| is_everybodys(folder));
    everybodys
        .chain(own)
        .find_map(|folder| meet(&folder, what).ok())
        .flatten()
}

fn is_everybodys(folder: &Path) -> bool {
    let found = std::fs::metadata(folder);
    found.is_ok_and(|m| m.is_dir() && m.permissions().mode() & EVERYBODYS == EVERYBODYS)
}

/// Takes the lock, now or as soon as it is free. If another process has it, that one in words.
fn meet(folder: &Path, what: &str) -> Result<Option<String>> {
    let mut file = open(&folder.join(FILE))?;
    match file.try_lock() {
        Ok(()) => {
            hold(file, what);
            Ok(None)
        }
        Err(TryLockError::WouldBlock) => {
            let other = holder(&mut file);
            let what = what.to_owned();
            // Once the other one is gone, a third one shall notice this one.
            Builder::new().name("neighbour".into()).spawn(move || {
                if file.lock().is_ok() {
                    hold(file, &what);
                }
            })?;
            Ok(Some(other))
        }
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// Opens the file, whoever made it. Never through a link: the folder is everybody's.
fn open(path: &Path) -> Result<File> {
    // Not created on the way: in such folders the kernel refuses that for the files of others.
    let there = || {
        File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
    };
    let new = || {
        File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
    };
    let file = match there() {
        Err(e) if e.kind() == ErrorKind::NotFound => match new() {
            Ok(file) => {
                // The user's mask would keep others out.
                file.set_permissions(Permissions::from_mode(0o666))?;
                file
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => there()?,
            Err(e) => return Err(e),
        },
        other => other?,
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(ErrorKind::InvalidInput.into())
    }
}

/// Signs the file and keeps it open until the process ends, and with it the lock.
fn hold(mut file: File, what: &str) {
    let line = format!("{} {what}\n", std::process::id());
    // Unsigned it still keeps the lock.
    let _ = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(line.as_bytes()));
    std::mem::forget(file);
}

/// Who signed the file.
fn holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not known.
    let _ = file.take(LONGEST).read_to_end(&mut bytes);
    let text: String = String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    match text.trim().split_once(' ') {
        Some((pid, what)) if pid.parse::<u32>().is_ok() => format!("process {pid} ({what})"),
        _ => "another process".into(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_second_one_hears_of_the_first_and_takes_its_place_when_it_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        let mut first = open(&path).unwrap();
        first.try_lock().unwrap();
        first.write_all(b"4711 train \x1b[2Jdgemm-1\n").unwrap();
        let met = meet(place.path(), "bench").unwrap();
        // What others wrote does nothing to the terminal.
        assert_eq!(met.unwrap(), "process 4711 (train [2Jdgemm-1)");
        drop(first);
        let own = format!("{} bench\n", std::process::id());
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::fs::read_to_string(&path).unwrap() != own {
            assert!(Instant::now() < deadline, "the lock is not taken over");
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let third = meet(place.path(), "search").unwrap().unwrap();
        assert!(third.ends_with(" (bench)"), "{third}");
    }

    #[test]
    fn who_is_alone_hears_nothing_and_a_dead_ones_signature_means_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        std::fs::write(&path, "4711 train dgemm-1\n").unwrap();
        assert_eq!(meet(place.path(), "search s-1").unwrap(), None);
        let signed = std::fs::read_to_string(&path).unwrap();
        assert_eq!(signed, format!("{} search s-1\n", std::process::id()));
    }

    #[test]
    fn a_folder_counts_only_where_everybody_may_write_and_nobody_removes_what_is_anothers() {
        let place = tempfile::tempdir().unwrap();
        let with = |mode: u32| {
            std::fs::set_permissions(place.path(), Permissions::from_mode(mode)).unwrap();
            is_everybodys(place.path())
        };
        assert!(with(0o1777));
        for mode in [0o700, 0o755, 0o777, 0o1770] {
            assert!(!with(mode), "{mode:o}");
        }
        assert!(!is_everybodys(&place.path().join("none")));
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o1777)).unwrap();
        assert!(!is_everybodys(&file));
    }

    #[test]
    fn the_file_is_everybodys_and_no_link_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(FILE);
        let mode = open(&path).unwrap().metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o666);
        std::fs::remove_file(&path).unwrap();
        let victim = place.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(meet(place.path(), "bench").is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
        assert!(meet(&place.path().join("no/such/folder"), "bench").is_err());
    }
}
