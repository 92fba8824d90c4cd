//! Memory that grows with the number of rows: keys and values, scores, and the buffers between products.
//!
//! A standard vector ends the process if an allocation fails. Here the failure is an error like libtorch's that names
//! the purpose of the allocation, which tells the user the setting to lower.
#![expect(
    unsafe_code,
    reason = "memory that is asked for without ending the process"
)]

use std::alloc::{Layout, alloc_zeroed};

use crate::error::{Error, Result};

/// A number whose zero is all bits 0.
pub(crate) trait Plain: Copy {
    const ZERO: Self;
}

impl Plain for f32 {
    const ZERO: Self = 0.0;
}

impl Plain for u32 {
    const ZERO: Self = 0;
}

/// A vector of `count` zeros. Its pages take no memory until they are written to.
///
/// # Errors
/// [`Error::Memory`].
pub(super) fn zeros<T: Plain>(count: usize, to: &'static str) -> Result<Vec<T>> {
    let fail = || Error::Memory {
        to,
        bytes: count.saturating_mul(size_of::<T>()),
    };
    let layout = Layout::array::<T>(count).map_err(|_| fail())?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout's size is not 0. The allocation has the layout that a vector of this length and capacity has,
    // and every element is 0.
    unsafe {
        let at = alloc_zeroed(layout).cast::<T>();
        match at.is_null() {
            true => Err(fail()),
            false => Ok(Vec::from_raw_parts(at, count, count)),
        }
    }
}

/// Gives a buffer room for at least `count` numbers; if the buffer has to grow, its content is lost.
///
/// # Errors
/// [`Error::Memory`], which leaves the buffer empty.
pub(crate) fn room<T: Plain>(buffer: &mut Vec<T>, count: usize, to: &'static str) -> Result<()> {
    if buffer.len() >= count {
        return Ok(());
    }
    if buffer.capacity() >= count {
        buffer.resize(count, T::ZERO);
        return Ok(());
    }
    // The old buffer is freed first: it may hold the larger part of the machine's memory.
    *buffer = Vec::new();
    *buffer = zeros(count, to)?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_oversized_buffer_is_an_error() {
        let mut buffer = zeros::<f32>(5, "hold scores").unwrap();
        assert_eq!(buffer, [0.0; 5]);
        buffer[0] = 2.0;
        room(&mut buffer, 3, "hold scores").unwrap();
        assert_eq!((buffer.len(), buffer[0]), (5, 2.0));
        room(&mut buffer, 9, "hold scores").unwrap();
        assert_eq!(buffer, [0.0; 9]);
        // Allocations of these sizes fail on every machine.
        for count in [1 << 58, usize::MAX] {
            let error = room(&mut buffer, count, "hold scores").unwrap_err();
            assert!(error.is_out_of_memory(), "{error}");
            assert!(error.to_string().contains("hold scores"), "{error}");
            assert!(crate::error::tells_of_memory(&error.to_string()));
            assert!(buffer.is_empty());
        }
        assert!(zeros::<u32>(0, "hold nothing").unwrap().is_empty());
    }
}
