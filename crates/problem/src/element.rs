//! The types of numbers in arrays.

use serde::{Deserialize, Serialize};

/// Element types of arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// C `double`.
    F64,
    /// C `float`.
    F32,
    /// C `int32_t`.
    I32,
    /// C `int64_t`.
    I64,
    /// C `uint8_t`.
    U8,
    /// C `float _Complex`: real and imaginary part side by side.
    C64,
    /// C `double _Complex`.
    C128,
    /// C `_Float16`: IEEE 754 binary16.
    F16,
    /// The upper half of a `float` (bfloat16), stored as `uint16_t`.
    Bf16,
}

impl Element {
    /// All of them.
    pub const ALL: [Element; 9] = [
        Self::F64,
        Self::F32,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::C64,
        Self::C128,
        Self::F16,
        Self::Bf16,
    ];

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::C128 => 16,
            Self::F64 | Self::I64 | Self::C64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::U8 => 1,
        }
    }

    /// Is it a real or complex floating-point number?
    pub fn is_float(self) -> bool {
        !self.is_integer()
    }

    /// Is it a whole number?
    pub fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::I64 | Self::U8)
    }

    /// Does it have an imaginary part?
    pub fn is_complex(self) -> bool {
        matches!(self, Self::C64 | Self::C128)
    }

    /// Real numbers in one element: two for complex ones.
    pub fn parts(self) -> usize {
        1 + usize::from(self.is_complex())
    }

    /// Its type in C.
    pub fn c_type(self) -> &'static str {
        match self {
            Self::F64 => "double",
            Self::F32 => "float",
            Self::I32 => "int32_t",
            Self::I64 => "int64_t",
            Self::U8 => "uint8_t",
            Self::C64 => "float _Complex",
            Self::C128 => "double _Complex",
            Self::F16 => "_Float16",
            Self::Bf16 => "uint16_t",
        }
    }

    /// Least and greatest value of a number, or of each part of one.
    pub fn range(self) -> (f64, f64) {
        /// The largest finite bfloat16: the upper half of 0x7f7fffff.
        const BF16: f32 = f32::from_bits(0x7f7f_0000);
        let even = |most: f64| (-most, most);
        match self {
            Self::F64 | Self::C128 => even(f64::MAX),
            Self::F32 | Self::C64 => even(f64::from(f32::MAX)),
            Self::F16 => even(65_504.0),
            Self::Bf16 => even(f64::from(BF16)),
            Self::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
            // The greatest one is 2^63 - 1, which no double holds.
            Self::I64 => (i64::MIN as f64, i64::MAX as f64),
            Self::U8 => (0.0, 255.0),
        }
    }
}

/// The numbers that a program computes with, which say how many a vector holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Floats of eight bytes.
    Double,
    /// Floats of four bytes: twice as many.
    Single,
    /// Floats of two bytes. Many machines only store them, and programs compute in four; others compute with them.
    Half,
    /// Whole numbers. A program may pack them as narrowly as their values permit.
    Integer,
}

impl Arithmetic {
    /// The numbers of a program with arrays of these elements.
    pub(crate) fn of(elements: impl Iterator<Item = Element>) -> Self {
        let floats = elements.filter(|element| element.is_float());
        match floats.map(|float| float.size() / float.parts()).min() {
            Some(8) => Self::Double,
            Some(2) => Self::Half,
            // Products of single precision are exact in double, and a program need not have them so.
            Some(_) => Self::Single,
            None => Self::Integer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_float_says_what_is_computed_with() {
        use Element::*;
        for (elements, expected) in [
            (&[F64, I32][..], Arithmetic::Double),
            (&[C128], Arithmetic::Double),
            (&[F64, C64], Arithmetic::Single),
            (&[F32, I64], Arithmetic::Single),
            (&[F16], Arithmetic::Half),
            (&[Bf16, F32], Arithmetic::Half),
            (&[I64, U8], Arithmetic::Integer),
        ] {
            let found = Arithmetic::of(elements.iter().copied());
            assert_eq!(found, expected, "{elements:?}");
        }
    }

    #[test]
    fn a_name_in_a_definition_is_the_size_in_bits() {
        for element in Element::ALL {
            let name = format!("{element:?}").to_lowercase();
            let bits: usize = name
                .trim_start_matches(char::is_alphabetic)
                .parse()
                .expect("a number");
            assert_eq!(bits, 8 * element.size(), "{name}");
        }
    }
}
