//! Memory for what grows with the number of rows: keys and values, scores, and what goes between products.
//!
//! A vector that finds none ends the process. Here that is an error like libtorch's, which says what did not fit, so that somebody can lower it.
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

/// So many zeros. Pages of them that nobody writes to take no memory.
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
    // SAFETY: the layout is of some bytes. What is allocated is of the layout that a vector of this length and capacity has, and every
    // element is 0.
    unsafe {
        let at = alloc_zeroed(layout).cast::<T>();
        match at.is_null() {
            true => Err(fail()),
            false => Ok(Vec::from_raw_parts(at, count, count)),
        }
    }
}

/// Lets a buffer have `count` numbers at least; what is in it is of no use any more where it has to grow.
///
/// # Errors
/// [`Error::Memory`]; the buffer is empty then.
pub(crate) fn room<T: Plain>(buffer: &mut Vec<T>, count: usize, to: &'static str) -> Result<()> {
    if buffer.len() >= count {
        return Ok(());
    }
    if buffer.capacity() >= count {
        buffer.resize(count, T::ZERO);
        return Ok(());
    }
    // What is there is given back first: it may be the larger part of what there is.
    *buffer = Vec::new();
    *buffer = zeros(count, to)?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_an_error() {
        let mut buffer = zeros::<f32>(5, "hold scores").unwrap();
        assert_eq!(buffer, [0.0; 5]);
        buffer[0] = 2.0;
        room(&mut buffer, 3, "hold scores").unwrap();
        assert_eq!((buffer.len(), buffer[0]), (5, 2.0));
        room(&mut buffer, 9, "hold scores").unwrap();
        assert_eq!(buffer, [0.0; 9]);
        // No machine has an address space of these sizes.
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
