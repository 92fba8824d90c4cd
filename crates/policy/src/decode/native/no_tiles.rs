//! The interface of `tiles.rs` for targets without matrix tiles.

use std::ops::Range;

use super::kernels::Start;

pub(super) const DEPTH: usize = 32;

pub(super) fn are_here() -> bool {
    false
}

pub(super) fn packed_len(_rows: usize, _inputs: usize) -> usize {
    0
}

pub(super) unsafe fn pack(
    _row: usize,
    _numbers: &[f32],
    _columns: Range<usize>,
    _inputs: usize,
    _packed: *mut u32,
) {
}

#[expect(clippy::too_many_arguments, reason = "as the one with tiles")]
pub(super) unsafe fn product(
    _rows: usize,
    _packed: *const u32,
    _weights: &[u16],
    _inputs: usize,
    outputs: Range<usize>,
    _start: Start<'_>,
    _out: *mut f32,
    _stride: usize,
) -> Range<usize> {
    outputs
}
