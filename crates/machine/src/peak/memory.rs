//! The peak rate of reading from memory and from the caches.
#![expect(
    unsafe_code,
    reason = "calls a function compiled for processor features that were checked, and reads bytes as words"
)]

use std::collections::BTreeMap;

use memmap2::MmapMut;

use super::rate::Crew;
use crate::roofline::MEMORY;

/// The buffer is this many times as large as the last cache, so the part of the buffer that stays in the cache between
/// passes is small.
const BEYOND: u64 = 4;
/// Least size of the buffer, where caches are small or unknown.
const LEAST: u64 = 64 << 20;
/// Largest part of a thread, in bytes: the first access to more memory would take longer than the rest of the start. A
/// cache larger than half of the buffer (see [`crate::roofline::Roofs::beyond_caches`]) keeps some of the buffer.
const MOST: u64 = 256 << 20;
/// At most this many threads get parts of that size.
const MOST_PARTS: u64 = 4;
/// Least number of bytes that a block reads; from a fast cache, that takes some 50 microseconds.
const BLOCK: usize = 8 << 20;

/// The level of the memory hierarchy that one measurement reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// `L2`, `L3` or [`MEMORY`].
    pub name: String,
    /// Bytes that one cache of this level holds; none for memory.
    pub holds_bytes: Option<u64>,
    /// Bytes that each thread reads repeatedly.
    pub bytes_each: u64,
}

impl Level {
    /// The level of memory behind these data caches (level → bytes), for all `threads` together.
    pub fn memory(caches: &BTreeMap<String, u64>, threads: u32) -> Self {
        let last = caches.values().copied().max().unwrap_or(0);
        let threads = u64::from(threads.max(1));
        let most = MOST * threads.min(MOST_PARTS);
        Self {
            name: MEMORY.into(),
            holds_bytes: None,
            bytes_each: last.saturating_mul(BEYOND).clamp(LEAST, most) / threads,
        }
    }

    /// The levels of the caches beyond the first. Data of half the size of a cache stay in it. The last cache is shared
    /// by all threads and, on virtual machines, with other guests; a measurement therefore uses at most four times the
    /// size of the cache before, which certainly does not fit there.
    pub fn caches(caches: &BTreeMap<String, u64>, threads: u32) -> Vec<Self> {
        let levels: Vec<(&String, u64)> = caches.iter().map(|(name, held)| (name, *held)).collect();
        let last = levels.len().saturating_sub(1);
        levels
            .windows(2)
            .enumerate()
            .filter_map(|(n, pair)| {
                let ((_, below), (name, held)) = (pair[0], pair[1]);
                let bytes_each = if n + 1 == last {
                    (held / 2 / u64::from(threads.max(1))).min(below.saturating_mul(4))
                } else {
                    held / 2
                };
                // With less data, most of it would come from the cache before.
                (bytes_each >= below.saturating_mul(2)).then(|| Self {
                    name: name.clone(),
                    holds_bytes: Some(held),
                    bytes_each,
                })
            })
            .collect()
    }

    /// Bytes a second that all threads read together; 0 where the buffers cannot be allocated.
    pub fn rate(&self, crew: &Crew) -> f64 {
        let bytes = usize::try_from(self.bytes_each).unwrap_or(usize::MAX);
        let passes = (BLOCK / bytes.max(1)).max(1);
        let sum = Sum::fastest();
        crew.best_rate(
            || Buffer::new(bytes),
            |buffer| {
                let mut read = 0;
                for _ in 0..passes {
                    let words = std::hint::black_box(buffer.words());
                    std::hint::black_box(sum.of(words));
                    read += size_of_val(words);
                }
                read as f64
            },
        )
    }
}

/// Memory of one thread, in huge pages where the kernel grants them: address translation of small pages costs as much
/// as reading.
struct Buffer(Option<MmapMut>);

impl Buffer {
    fn new(bytes: usize) -> Self {
        let mut memory = MmapMut::map_anon(bytes.max(1)).ok();
        if let Some(memory) = &mut memory {
            // If the kernel refuses huge pages, the measurement uses small pages and is a little slower.
            #[cfg(target_os = "linux")]
            let _ = memory.advise(memmap2::Advice::HugePage);
            // The kernel maps all pages that were never written to a single page of zeros.
            memory.fill(1);
        }
        Self(memory)
    }

    fn words(&self) -> &[u64] {
        let bytes = self.0.as_deref().unwrap_or_default();
        // SAFETY: any eight bytes are a valid word.
        let (_, words, _) = unsafe { bytes.align_to::<u64>() };
        words
    }
}

/// The implementation that adds up words.
#[derive(Debug, Clone, Copy)]
enum Sum {
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Plain,
}

impl Sum {
    fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    fn of(self, words: &[u64]) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `fastest` saw the feature.
            Self::Avx2 => unsafe { add_up_avx2(words) },
            Self::Plain => add_up::<16>(words),
        }
    }
}

/// The sum of all words in full groups of `LANES`. The lanes are independent sums; there are enough of them that no
/// addition waits for another.
#[inline(always)]
fn add_up<const LANES: usize>(words: &[u64]) -> u64 {
    let mut sums = [0u64; LANES];
    for chunk in words.chunks_exact(LANES) {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(0, |all: u64, sum| all.wrapping_add(*sum))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_up_avx2(words: &[u64]) -> u64 {
    add_up::<32>(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn three() -> BTreeMap<String, u64> {
        BTreeMap::from([
            ("L1".into(), 48 * KIB),
            ("L2".into(), 2 * MIB),
            ("L3".into(), 32 * MIB),
        ])
    }

    #[test]
    fn every_level_is_too_large_for_the_one_before_and_fits_its_own() {
        let levels = Level::caches(&three(), 1);
        let sizes: Vec<(&str, u64)> = levels
            .iter()
            .map(|l| (l.name.as_str(), l.bytes_each))
            .collect();
        assert_eq!(sizes, [("L2", MIB), ("L3", 8 * MIB)]);
        // Four threads can share the last cache; eight get parts that are too small.
        assert_eq!(Level::caches(&three(), 4)[1].bytes_each, 4 * MIB);
        assert_eq!(Level::caches(&three(), 8).len(), 1);
        assert!(Level::caches(&BTreeMap::new(), 1).is_empty());
        assert!(Level::caches(&BTreeMap::from([("L1".into(), 32 * KIB)]), 1).is_empty());
    }

    #[test]
    fn the_buffer_is_larger_than_the_last_cache_and_bounded() {
        assert_eq!(Level::memory(&three(), 1).bytes_each, 128 * MIB);
        assert_eq!(Level::memory(&three(), 2).bytes_each, 64 * MIB);
        assert_eq!(Level::memory(&BTreeMap::new(), 1).bytes_each, LEAST);
        let huge = BTreeMap::from([("L3".into(), u64::MAX)]);
        let parts = [1, 4, 16].map(|threads| Level::memory(&huge, threads).bytes_each);
        assert_eq!(parts, [MOST, MOST, MOST / 4]);
    }

    #[test]
    fn words_are_added_up_alike_whichever_way() {
        let words: Vec<u64> = (0..32 * 9).map(|n| n * n).collect();
        let expected: u64 = words.iter().sum();
        assert_eq!(Sum::fastest().of(&words), expected);
        assert_eq!(Sum::Plain.of(&words), expected);
        let buffer = Buffer::new(64 * 9);
        assert_eq!(buffer.words().len(), 8 * 9);
        assert!(buffer.words().iter().all(|w| *w == 0x0101_0101_0101_0101));
        assert!(Buffer(None).words().is_empty());
    }
}
