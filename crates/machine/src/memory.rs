//! The machine's memory, as the kernel states it in `/proc/meminfo`.

use std::path::Path;

use crate::attest::read;

const FILE: &str = "proc/meminfo";

/// Bytes that processes can still get; pages that are set aside as huge ones belong to them. None where the kernel does not
/// say.
pub fn available() -> Option<u64> {
    available_of(&read(Path::new("/"), FILE)?)
}

/// Bytes that the line `name` of the kernel below `root` states.
pub(crate) fn stated(root: &Path, name: &str) -> Option<u64> {
    bytes(&read(root, FILE)?, name)
}

fn bytes(meminfo: &str, name: &str) -> Option<u64> {
    number(meminfo, name)?.checked_mul(1024)
}

fn number(meminfo: &str, name: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

fn available_of(meminfo: &str) -> Option<u64> {
    let huge = number(meminfo, "HugePages_Free")
        .zip(bytes(meminfo, "Hugepagesize"))
        .map_or(0, |(pages, size)| pages * size);
    Some(bytes(meminfo, "MemAvailable")? + huge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_with_the_pages_that_are_set_aside() {
        let text = "MemTotal: 9 kB\nMemAvailable:    1000 kB\nHugePages_Free:    2\nHugepagesize:    2048 kB\n";
        assert_eq!(available_of(text), Some((1000 + 4096) * 1024));
        assert_eq!(available_of("MemAvailable: 3 kB\n"), Some(3 * 1024));
        assert_eq!(available_of("MemTotal: 3 kB\n"), None);
        assert_eq!(bytes(text, "MemTotal"), Some(9 * 1024));
        assert_eq!(bytes(text, "Mem"), None);
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
