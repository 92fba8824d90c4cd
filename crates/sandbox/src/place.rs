//! Folders from which programs can be executed.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

/// True if a file lies on a file system that is mounted with `noexec`; false where the file system cannot be examined.
pub fn forbids_programs(path: &Path) -> bool {
    statvfs(path).is_ok_and(|found| found.flags().contains(FsFlags::ST_NOEXEC))
}

/// A folder that is suitable for temporary files.
pub(crate) fn usable() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home = named("HOME").map(|home| home.join(".cache"));
    let all = ["/tmp", "/var/tmp"].map(PathBuf::from);
    all.into_iter()
        .chain(named("XDG_RUNTIME_DIR"))
        .chain(home)
        .find(|folder| folder.is_absolute() && will_do(folder))
}

fn will_do(folder: &Path) -> bool {
    folder.is_dir() && !forbids_programs(folder) && tempfile::tempfile_in(folder).is_ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_files_and_runs_them_will_do() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(will_do(place.path()), !forbids_programs(place.path()));
        assert!(!will_do(&place.path().join("none")));
        // `/proc/self` takes no new files.
        assert!(!will_do(Path::new("/proc/self")));
        assert!(!forbids_programs(Path::new("/no/such/folder")));
    }
}
