//! Memory that a library takes in a process that does not use it.
#![expect(
    unsafe_code,
    reason = "there is no safe function for advice about memory"
)]

use std::ffi::c_void;

use procfs::process::{MMPermissions, MMapPath, Process};

/// Gives back the unchanged pages of the libraries whose file names begin with `name`, and returns their size, bytes. A page that is needed
/// comes from the file again. Loading libtorch makes 50 MB of its code resident, which commands without a model never use. Where the
/// kernel does not tell a process about its mappings, nothing is given back.
pub fn release_library(name: &str) -> u64 {
    let maps = Process::myself().and_then(|process| process.smaps());
    let mut released = 0;
    for map in maps.into_iter().flatten() {
        let MMapPath::Path(path) = &map.pathname else {
            continue;
        };
        let of_library = path.file_name().and_then(|file| file.to_str());
        let of_library = of_library.is_some_and(|file| file.starts_with(name));
        let figure = |key: &str| map.extension.map.get(key).copied();
        // A page that was changed, as the loader changes tables of addresses, is in no file.
        let is_unchanged = figure("Anonymous") == Some(0);
        if !of_library || !is_unchanged || map.perms.contains(MMPermissions::WRITE) {
            continue;
        }
        let (begin, end) = map.address;
        let length = usize::try_from(end - begin).unwrap_or(0);
        // SAFETY: the range is a mapping of a file that this process cannot write to and has not changed, so all threads read the same
        // bytes afterwards.
        let code = unsafe { libc::madvise(begin as *mut c_void, length, libc::MADV_DONTNEED) };
        if code == 0 {
            released += figure("Rss").unwrap_or(0);
        }
    }
    released
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A constant on pages of the test program.
    static TABLE: [u8; 1 << 16] = [7; 1 << 16];

    #[test]
    fn released_pages_come_back_with_the_same_bytes() {
        let sum = || TABLE.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        let before = std::hint::black_box(sum());
        let program = std::env::current_exe().unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        assert!(release_library(name) > 0);
        assert_eq!(std::hint::black_box(sum()), before);
        assert_eq!(release_library("there is no such library"), 0);
    }
}
