//! The buffers that supervisor and harness share, and the guard bands around the arrays.

use std::io::Error;
use std::os::fd::RawFd;

use flopsmith_harness::memory::{HUGE_PAGE, Mapping, SharedMemory};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::array::Array;

const PAGE: usize = 4096;
const LINE: usize = 64;
/// Lines of a page.
const LINES: usize = PAGE / LINE;
/// The value of every byte of a slot that no array covers.
const BAND: u8 = 0xa5;

/// Where arrays lie in their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// At the start of a page, each array some lines further than the one before: the same every time.
    Fixed,
    /// In the page of [`Placing::Fixed`], but from other lines on, with no two arrays at the same line. One of
    /// [`PLACES`] such placements.
    OtherLines,
    /// The placement of [`Placing::OtherLines`] with this number, modulo [`PLACES`].
    Numbered(u64),
    /// Between bands, at a random line.
    Between,
    /// Flush with the slot's start: the page before the array is inaccessible.
    AtStart,
    /// Flush with the slot's end: the page behind the array is inaccessible.
    AtEnd,
}

/// Number of placements for certified measurements. They are always the same ones, so that two programs are compared at
/// equal places of their data, which matter more than the places of their code. Verification draws from the same
/// placements, so that a placement does not tell a program the purpose of a call.
pub const PLACES: u64 = 5;

/// Byte offsets of the arrays of one case, in the order of the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// (offset, bytes) of each array.
    pub arrays: Vec<(usize, usize)>,
}

/// The line at which the first array of a placement begins, and the step in lines from each array to the next.
fn lines_of(number: u64) -> (usize, usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(number);
    let first = rng.random_range(0..LINES);
    // Odd steps come back to a line only after all others.
    (first, 2 * rng.random_range(0..LINES / 2) + 1)
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    start: usize,
    bytes: usize,
}

/// One slot for each array argument, in one piece of shared memory.
pub struct Arena {
    memory: SharedMemory,
    slots: Vec<Slot>,
    forbidden: Vec<(usize, usize)>,
}

impl Arena {
    /// Buffers for arrays of at most these sizes in bytes. A `guarded` arena has an inaccessible page on either side of
    /// each slot.
    pub fn new(largest: &[usize], guarded: bool) -> Result<Self, Error> {
        let mut slots = Vec::new();
        let mut forbidden = Vec::new();
        let mut at = 0;
        let mut guard = |at: &mut usize| {
            if guarded {
                forbidden.push((*at, PAGE));
                *at += PAGE;
            }
        };
        for &bytes in largest {
            guard(&mut at);
            // Room for a band on either side and for moving the array about.
            let bytes = bytes.next_multiple_of(PAGE) + 3 * PAGE;
            slots.push(Slot { start: at, bytes });
            at += bytes;
        }
        guard(&mut at);
        // Timed buffers fill whole huge pages, where the machine has them for shared memory.
        let bytes = if guarded {
            at.max(PAGE)
        } else {
            at.next_multiple_of(HUGE_PAGE)
        };
        let memory = SharedMemory::create("flopsmith-buffers", bytes)?;
        let arena = Self {
            memory,
            slots,
            forbidden,
        };
        arena.reset();
        Ok(arena)
    }

    /// Buffers of timed calls with these arrays. The verifier uses the same ones, so that a program cannot tell the two
    /// stages apart by them.
    pub fn timed(arrays: &[Array]) -> Result<Self, Error> {
        let sizes: Vec<usize> = arrays.iter().map(Array::bytes).collect();
        Self::new(&sizes, false)
    }

    /// Fills everything with bands. Processes that used the buffers before must be gone.
    pub fn reset(&self) {
        for slot in &self.slots {
            self.mapping()
                .with_slice(slot.start, slot.bytes, |x: &mut [u8]| x.fill(BAND));
        }
        self.sweep();
    }

    /// Fills the rest of the last huge page, behind all slots, with bands: a process could leave a note there on the
    /// kind of its calls, for the next process to find.
    pub fn sweep(&self) {
        let end = self.slots.last().map_or(0, |slot| slot.start + slot.bytes);
        let rest = self.mapping().len() - end;
        self.mapping()
            .with_slice(end, rest, |x: &mut [u8]| x.fill(BAND));
    }

    /// The mapping of the buffers in this process.
    pub fn mapping(&self) -> &Mapping {
        self.memory.mapping()
    }

    /// The descriptor to pass to a harness.
    pub fn fd(&self) -> RawFd {
        self.memory.fd()
    }

    /// Ranges a harness makes inaccessible.
    pub fn forbidden(&self) -> &[(usize, usize)] {
        &self.forbidden
    }

    /// Chooses the places of the arrays. None if the number of slots differs or a slot is too small.
    pub fn place(
        &self,
        arrays: &[Array],
        placing: Placing,
        rng: &mut impl Rng,
    ) -> Option<Placement> {
        if arrays.len() != self.slots.len() {
            return None;
        }
        let number = match placing {
            Placing::Numbered(number) => number % PLACES,
            _ => rng.random_range(0..PLACES),
        };
        let (first, step) = lines_of(number);
        let arrays = arrays
            .iter()
            .zip(&self.slots)
            .enumerate()
            .map(|(n, (array, slot))| {
                let bytes = array.bytes();
                let align = array.align.max(LINE);
                let spare = slot.bytes.checked_sub(bytes)?;
                let shift = match placing {
                    // Arrays at the same place in their pages would make loads wait for unrelated stores.
                    Placing::Fixed => PAGE + (n * 21 * LINE) % PAGE,
                    Placing::OtherLines | Placing::Numbered(_) => {
                        PAGE + (first + n * step) % LINES * LINE
                    }
                    Placing::Between => {
                        let steps = (spare.min(2 * PAGE)).checked_sub(2 * align)? / align;
                        align * rng.random_range(1..=steps.max(1))
                    }
                    Placing::AtStart => 0,
                    Placing::AtEnd => spare / align * align,
                };
                let shift = shift / align * align;
                (shift + bytes <= slot.bytes).then_some((slot.start + shift, bytes))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Placement { arrays })
    }

    /// Fills everything that the arrays of `old` covered with bands.
    pub fn restore(&self, old: &Placement) {
        for &(offset, bytes) in &old.arrays {
            self.mapping()
                .with_slice(offset, bytes, |x: &mut [u8]| x.fill(BAND));
        }
    }

    /// The first array whose band was written to, and how far outside of it (negative: before its start).
    pub fn broken_band(&self, placement: &Placement) -> Option<(usize, isize)> {
        for (n, (&(offset, bytes), slot)) in placement.arrays.iter().zip(&self.slots).enumerate() {
            let end = slot.start + slot.bytes;
            let before = self.first_foreign(slot.start, offset);
            let behind = self.first_foreign(offset + bytes, end);
            let distance = match (before, behind) {
                (Some(at), _) => at as isize - offset as isize,
                (None, Some(at)) => (at - offset - bytes) as isize,
                (None, None) => continue,
            };
            return Some((n, distance));
        }
        None
    }

    /// Repairs the bands around the arrays after a broken one.
    pub fn repair(&self, placement: &Placement) {
        for (&(offset, bytes), slot) in placement.arrays.iter().zip(&self.slots) {
            let end = slot.start + slot.bytes;
            for (from, to) in [(slot.start, offset), (offset + bytes, end)] {
                self.mapping()
                    .with_slice(from, to - from, |x: &mut [u8]| x.fill(BAND));
            }
        }
    }

    fn first_foreign(&self, from: usize, to: usize) -> Option<usize> {
        self.mapping().with_slice(from, to - from, |x: &mut [u8]| {
            x.chunks(PAGE).enumerate().find_map(|(n, chunk)| {
                // No early exit inside a chunk, so that the comparison runs in vectors.
                let differs = chunk.iter().fold(0, |acc, b| acc | (b ^ BAND));
                if differs == 0 {
                    return None;
                }
                chunk
                    .iter()
                    .position(|b| *b != BAND)
                    .map(|at| from + n * PAGE + at)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use flopsmith_harness::control::Element;
    use flopsmith_problem::Role;
    use proptest::prelude::*;

    fn array(count: usize, role: Role) -> Array {
        Array {
            name: "x".into(),
            element: Element::F64,
            role,
            dims: vec![count],
            parts: 1,
            align: 64,
            stream: 0,
            content: flopsmith_harness::Content::Uniform,
        }
    }

    #[test]
    fn nothing_is_left_behind_the_slots_of_timed_buffers() {
        let arrays = [array(100, Role::Input), array(100, Role::Output)];
        let arena = Arena::timed(&arrays).expect("there is memory");
        let last = arena.mapping().len() - 1;
        let ways: [fn(&Arena); 2] = [Arena::sweep, Arena::reset];
        for clear in ways {
            arena.mapping().write(last, &[1u8]);
            clear(&arena);
            let mut found = [0u8];
            arena.mapping().read(last, &mut found);
            assert_eq!(found, [BAND]);
        }
    }

    proptest! {
        #[test]
        fn arrays_lie_inside_their_slots_and_bands_notice_everything(
            count in 1usize..5000, seed: u64, which in 0usize..3, far in 0usize..4000, behind: bool, how in 0usize..6
        ) {
            let arrays = [array(count, Role::Input), array(count, Role::InOut), array(count, Role::Output)];
            let arena = Arena::new(&[5000 * 8; 3], true).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let placings = [Placing::Fixed, Placing::OtherLines, Placing::Between, Placing::AtStart, Placing::AtEnd, Placing::Numbered(seed)];
            let placing = placings[how];
            let placement = arena.place(&arrays, placing, &mut rng).ok_or_else(|| TestCaseError::fail("no place"))?;
            for (&(offset, bytes), slot) in placement.arrays.iter().zip(&arena.slots) {
                prop_assert!(offset >= slot.start && offset + bytes <= slot.start + slot.bytes);
                prop_assert_eq!(offset % 64, 0);
            }
            if matches!(placing, Placing::OtherLines | Placing::Numbered(_)) {
                // Arrays at equal places would make loads wait for unrelated stores to the same place of another page.
                let lines: BTreeSet<usize> = placement.arrays.iter().map(|a| a.0 % PAGE).collect();
                prop_assert_eq!(lines.len(), arrays.len());
            }
            // Arrays may hold anything.
            for &(offset, bytes) in &placement.arrays {
                arena.mapping().write(offset, &vec![0x11u8; bytes]);
            }
            prop_assert_eq!(arena.broken_band(&placement), None);
            let (offset, bytes) = placement.arrays[which];
            let slot = arena.slots[which];
            let hit = if behind { offset + bytes + far } else { offset.wrapping_sub(1 + far) };
            if hit >= slot.start && hit < slot.start + slot.bytes {
                arena.mapping().write(hit, &[0u8]);
                let distance = if behind { far as isize } else { -1 - far as isize };
                prop_assert_eq!(arena.broken_band(&placement), Some((which, distance)));
                arena.repair(&placement);
                prop_assert_eq!(arena.broken_band(&placement), None);
            }
            arena.restore(&placement);
            let other = arena.place(&arrays, Placing::Between, &mut rng).ok_or_else(|| TestCaseError::fail("no place"))?;
            prop_assert_eq!(arena.broken_band(&other), None);
        }
    }
}
