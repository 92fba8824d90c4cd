//! A lock that tells processes of each other if they measure on one machine at the same time. Such processes spoil each
//! other's times, and none of them can see why.
//!
//! A process that measures holds the lock until it ends. A process that finds the lock taken reports the holder and
//! goes on, so the lock forbids nothing. The kernel releases the lock when its process ends, however the process ends;
//! the text of a file without a holder has no meaning.
//!
//! All processes of a machine have to use the same file, for all users and in all environments. Therefore TMPDIR is
//! ignored, and the folder is chosen by a property that is the same for all users: everybody may write to it.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read, Result, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::Builder;

use crate::console::say;
use crate::output::locked;

/// The file's name, the same for all users of the machine.
const FILE: &str = "flopsmith-measuring.lock";
/// Folders whose content lasts until the machine restarts, best first.
const FOLDERS: [&str; 4] = ["/run/lock", "/dev/shm", "/tmp", "/var/tmp"];
/// Mode of a folder in which all users can make files, and no user can remove the files of another.
const EVERYBODYS: u32 = 0o1777;
/// Number of bytes that are read of the file: all users may write to it.
const LONGEST: u64 = 200;

/// Announces that this process measures from now on, for `what` (e.g. `train dgemm-1`), and warns the user if another
/// process does. Without any folder for the lock, nothing is reported.
pub fn announce(what: &str) {
    if let Some(other) = met(what) {
        say(&format!(
            "warning: {other} measures on this machine as well, so each disturbs the other's times; wait for it, or stop one of the two"
        ));
    }
}

/// Announces this process without a warning, for callers whose cores no other process measures on.
pub fn announce_only(what: &str) {
    let _other = met(what);
}

fn met(what: &str) -> Option<String> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    folders(own)
        .find_map(|folder| meet(&folder, what).ok())
        .flatten()
}

/// The folders for the lock, best first: those of all users, and then `own`, a folder of this user, which is better than
/// none. The file never lies in the folder that this process was started in, so an empty or relative `own` is left out.
fn folders(own: Option<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let all = FOLDERS.map(PathBuf::from).into_iter();
    all.filter(|folder| is_everybodys(folder))
        .chain(own.filter(|folder| folder.is_absolute()))
}

fn is_everybodys(folder: &Path) -> bool {
    let found = std::fs::metadata(folder);
    found.is_ok_and(|m| m.is_dir() && m.permissions().mode() & EVERYBODYS == EVERYBODYS)
}

/// Takes the lock, now or as soon as it is free. If another process holds the lock, returns a description of that
/// process.
fn meet(folder: &Path, what: &str) -> Result<Option<String>> {
    let mut file = open(&folder.join(FILE))?;
    if locked(&file)? {
        hold(file, what);
        return Ok(None);
    }
    let other = holder(&mut file);
    let what = what.to_owned();
    // The thread takes the lock once the other process has ended, so that a third process notices this one.
    Builder::new()
        .name("measuring-lock".into())
        .spawn(move || {
            if file.lock().is_ok() {
                hold(file, &what);
            }
        })?;
    Ok(Some(other))
}

/// Opens the file of any owner. Links are not followed, since all users can write to the folder.
fn open(path: &Path) -> Result<File> {
    // Without O_CREAT: in such folders the kernel refuses O_CREAT for files of other users.
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
                // The umask would keep other users out.
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

/// Writes this process's name into the file, and keeps the file open, and the lock held, until the process ends.
fn hold(mut file: File, what: &str) {
    let line = format!("{} {what}\n", std::process::id());
    // If the write fails, the lock still holds.
    let _ = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(line.as_bytes()));
    std::mem::forget(file);
}

/// The process that is named in the file.
fn holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // A read error leaves the holder unknown.
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
        // Control characters that another user wrote do not reach the terminal.
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
    fn a_lone_process_meets_nobody_and_signatures_of_dead_ones_do_not_count() {
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
    fn only_a_folder_with_its_whole_path_is_the_users_own() {
        let all = |own: &str| -> Vec<PathBuf> { folders(Some(own.into())).collect() };
        let everybodys: Vec<PathBuf> = folders(None).collect();
        for own in ["", ".", "run", "./run", "../run"] {
            assert_eq!(all(own), everybodys, "`{own}`");
        }
        assert_eq!(all("/run/user/7").last().unwrap(), Path::new("/run/user/7"));
        assert_eq!(all("/run/user/7").len(), everybodys.len() + 1);
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
