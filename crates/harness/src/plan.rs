//! The arguments of an entry function, as a supervisor tells them to a harness.

use crate::content::Content;

/// Arguments an entry function may have.
pub const MAX_ARGUMENTS: usize = 16;
/// Floating-point numbers among them: as many as travel in registers, in the System V convention of x86-64 and in that of
/// AArch64.
pub const MAX_SCALARS: usize = 8;

/// The type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Element {
    /// IEEE double.
    F64 = 0,
    /// IEEE single.
    F32 = 1,
    /// 32-bit signed integer.
    I32 = 2,
    /// 64-bit signed integer.
    I64 = 3,
    /// 8-bit unsigned integer.
    U8 = 4,
    /// IEEE half: binary16.
    F16 = 5,
    /// The upper half of an IEEE single.
    Bf16 = 6,
}

impl Element {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Element::F64 | Element::I64 => 8,
            Element::F32 | Element::I32 => 4,
            Element::F16 | Element::Bf16 => 2,
            Element::U8 => 1,
        }
    }

    /// Is it a floating-point number?
    pub fn is_float(self) -> bool {
        !matches!(self, Element::I32 | Element::I64 | Element::U8)
    }

    /// By its number.
    pub(crate) fn of(number: u64) -> Option<Element> {
        Some(match number {
            0 => Element::F64,
            1 => Element::F32,
            2 => Element::I32,
            3 => Element::I64,
            4 => Element::U8,
            5 => Element::F16,
            6 => Element::Bf16,
            _ => return None,
        })
    }
}

/// Registers of the scalars of a call, in their order. A single-precision number is the lower half of one.
pub type Scalars = [u64; MAX_SCALARS];

/// One argument of the entry function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// A C `int`, passed by value.
    Int(i64),
    /// A floating-point number, passed by value: the bits of its register. Calls may have other ones
    /// ([`Control::set_scalars`](crate::Control::set_scalars)).
    Scalar(u64),
    /// An array that the entry reads, or reads and writes, at a byte offset of the buffers, filled from `stream`.
    Input {
        /// Type of its elements.
        element: Element,
        /// Byte offset in the buffers.
        offset: usize,
        /// Elements.
        count: usize,
        /// Stream of the generator.
        stream: u64,
        /// Its content.
        content: Content,
    },
    /// An output array at a byte offset of the buffers, poisoned before each call.
    Output {
        /// Type of its elements.
        element: Element,
        /// Byte offset in the buffers.
        offset: usize,
        /// Elements.
        count: usize,
    },
}

/// The arguments of the entry function, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// At most [`MAX_ARGUMENTS`], and at most [`MAX_SCALARS`] scalars among them.
    pub arguments: Vec<Argument>,
}

impl Plan {
    /// The registers of its scalars; 0 where there is none.
    pub fn scalars(&self) -> Scalars {
        let mut scalars = Scalars::default();
        let bits = self.arguments.iter().filter_map(|argument| match argument {
            Argument::Scalar(bits) => Some(*bits),
            _ => None,
        });
        for (register, bits) in scalars.iter_mut().zip(bits) {
            *register = bits;
        }
        scalars
    }
}
