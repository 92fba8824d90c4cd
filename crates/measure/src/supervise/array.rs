//! One array argument: its elements as bytes and as numbers.

use flopsmith_harness::Content;
use flopsmith_harness::control::Element;
use flopsmith_harness::half::{from_bf16, from_f16, to_bf16, to_f16};
use flopsmith_harness::inputs::{
    POISON_BF16, POISON_F16, POISON_F32, POISON_F64, POISON_I32, POISON_I64, POISON_U8, Stream,
};
use flopsmith_problem::Role;

/// One array argument with certain parameters.
///
/// A complex array is an array of real numbers whose last extent is twice as long, the real part of each element before
/// the imaginary one.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Its name in the problem's definition.
    pub name: String,
    /// Type of its elements.
    pub element: Element,
    /// The use that a call makes of it.
    pub role: Role,
    /// Extents, in elements.
    pub dims: Vec<usize>,
    /// Elements of each number: two where they are the parts of complex numbers.
    pub parts: usize,
    /// Alignment of its first byte, in bytes.
    pub align: usize,
    /// Stream of the generator.
    pub stream: u64,
    /// Content before a call, if a call reads it.
    pub content: Content,
}

impl Array {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.count() * self.element.bytes()
    }

    /// Length of the last extent: the array is treated as a matrix with such rows.
    pub fn columns(&self) -> usize {
        self.dims.last().copied().unwrap_or(1).max(1)
    }

    /// The bytes of this array before a call: what the harness fills it with for a seed, or poison where no call reads
    /// it.
    pub fn before(&self, seed: u64) -> Vec<u8> {
        if self.role.is_read() {
            self.filled(seed)
        } else {
            poison(self.element).repeat(self.count())
        }
    }

    /// The bytes with which the harness fills this array for a seed.
    pub fn filled(&self, seed: u64) -> Vec<u8> {
        fn made<T: Copy + Default, const N: usize>(
            count: usize,
            fill: impl FnOnce(&mut [T]),
            bytes: impl Fn(&T) -> [u8; N],
        ) -> Vec<u8> {
            let mut all = vec![T::default(); count];
            fill(&mut all);
            in_memory(&all, bytes)
        }
        let stream = Stream::new(seed, self.stream);
        let (count, content) = (self.count(), self.content);
        match self.element {
            Element::F64 => made(
                count,
                |x| content.fill_f64(&stream, x),
                |x: &f64| x.to_ne_bytes(),
            ),
            Element::F32 => made(
                count,
                |x| content.fill_f32(&stream, x),
                |x: &f32| x.to_ne_bytes(),
            ),
            Element::I32 => made(
                count,
                |x| content.fill_i32(&stream, x),
                |x: &i32| x.to_ne_bytes(),
            ),
            Element::I64 => made(
                count,
                |x| content.fill_i64(&stream, x),
                |x: &i64| x.to_ne_bytes(),
            ),
            Element::U8 => {
                let mut all = vec![0; count];
                content.fill_u8(&stream, &mut all);
                all
            }
            Element::F16 => made(
                count,
                |x| content.fill_f16(&stream, x),
                |x: &u16| x.to_ne_bytes(),
            ),
            Element::Bf16 => made(
                count,
                |x| content.fill_bf16(&stream, x),
                |x: &u16| x.to_ne_bytes(),
            ),
        }
    }

    /// Elements as doubles, which hold all values of the other types but 64-bit integers ([`Array::integers`]). Poison
    /// of a float becomes the poison of a double.
    pub fn values(&self, bytes: &[u8]) -> Vec<f64> {
        fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|x| value(*x)).collect()
        }
        fn unless(poisoned: bool, x: f32) -> f64 {
            if poisoned {
                f64::from_bits(POISON_F64)
            } else {
                f64::from(x)
            }
        }
        match self.element {
            Element::F64 => each(bytes, f64::from_ne_bytes),
            Element::F32 => each(bytes, |x: [u8; 4]| {
                unless(u32::from_ne_bytes(x) == POISON_F32, f32::from_ne_bytes(x))
            }),
            Element::I32 => each(bytes, |x: [u8; 4]| f64::from(i32::from_ne_bytes(x))),
            Element::I64 => each(bytes, |x: [u8; 8]| i64::from_ne_bytes(x) as f64),
            Element::U8 => each(bytes, |[x]: [u8; 1]| f64::from(x)),
            Element::F16 => each(bytes, |x: [u8; 2]| {
                let bits = u16::from_ne_bytes(x);
                unless(bits == POISON_F16, from_f16(bits))
            }),
            Element::Bf16 => each(bytes, |x: [u8; 2]| {
                let bits = u16::from_ne_bytes(x);
                unless(bits == POISON_BF16, from_bf16(bits))
            }),
        }
    }

    /// Elements as 64-bit integers, if that is what they are: doubles do not hold all of them.
    pub fn integers(&self, bytes: &[u8]) -> Option<Vec<i64>> {
        let each = |x: &[u8; 8]| i64::from_ne_bytes(*x);
        (self.element == Element::I64).then(|| bytes.as_chunks::<8>().0.iter().map(each).collect())
    }

    /// Values as the bytes of this array's elements.
    pub fn bytes_of(&self, values: &[f64]) -> Vec<u8> {
        match self.element {
            Element::F64 => in_memory(values, |x| x.to_ne_bytes()),
            Element::F32 => in_memory(values, |x| (*x as f32).to_ne_bytes()),
            Element::I32 => in_memory(values, |x| (*x as i32).to_ne_bytes()),
            Element::I64 => in_memory(values, |x| (*x as i64).to_ne_bytes()),
            Element::U8 => in_memory(values, |x| [*x as u8]),
            Element::F16 => in_memory(values, |x| to_f16(*x as f32).to_ne_bytes()),
            Element::Bf16 => in_memory(values, |x| to_bf16(*x as f32).to_ne_bytes()),
        }
    }
}

/// The bytes of values one after the other. An iterator over single bytes would take ten times as long.
fn in_memory<T, const N: usize>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    let mut all = vec![0; N * values.len()];
    for (place, value) in all.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *place = bytes(value);
    }
    all
}

/// The bytes of an element that no program has written to.
pub fn poison(element: Element) -> Vec<u8> {
    match element {
        Element::F64 => POISON_F64.to_ne_bytes().to_vec(),
        Element::F32 => POISON_F32.to_ne_bytes().to_vec(),
        Element::I32 => POISON_I32.to_ne_bytes().to_vec(),
        Element::I64 => POISON_I64.to_ne_bytes().to_vec(),
        Element::U8 => vec![POISON_U8],
        Element::F16 => POISON_F16.to_ne_bytes().to_vec(),
        Element::Bf16 => POISON_BF16.to_ne_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ELEMENTS: [Element; 7] = [
        Element::F64,
        Element::F32,
        Element::I32,
        Element::I64,
        Element::U8,
        Element::F16,
        Element::Bf16,
    ];

    fn array(element: Element, content: Content, count: usize) -> Array {
        Array {
            name: "x".into(),
            element,
            role: Role::InOut,
            dims: vec![count],
            parts: 1,
            align: 64,
            stream: 0,
            content,
        }
    }

    #[test]
    fn poison_has_the_size_of_an_element_and_is_no_float() {
        for element in ELEMENTS {
            let bytes = poison(element);
            assert_eq!(bytes.len(), element.bytes());
            let value = array(element, Content::Uniform, 1).values(&bytes)[0];
            assert_eq!(
                value.to_bits() == POISON_F64,
                element.is_float(),
                "{element:?}"
            );
        }
        let output = Array {
            role: Role::Output,
            ..array(Element::F16, Content::Uniform, 3)
        };
        assert_eq!(output.before(1), poison(Element::F16).repeat(3));
        let both = array(Element::F16, Content::Uniform, 3);
        assert_eq!(both.before(1), both.filled(1));
    }

    #[test]
    fn numbers_that_no_double_holds_are_kept() {
        let all = array(
            Element::I64,
            Content::Range {
                low: i64::MIN as f64,
                high: i64::MAX as f64,
            },
            1000,
        );
        let bytes = all.filled(3);
        let integers = all.integers(&bytes).expect("64-bit integers");
        let values = all.values(&bytes);
        assert!(integers.iter().zip(&values).any(|(x, y)| *y as i64 != *x));
        assert!(
            integers.iter().any(|x| *x < i64::MIN / 2)
                && integers.iter().any(|x| *x > i64::MAX / 2)
        );
        assert_eq!(
            array(Element::I32, Content::Uniform, 1).integers(&[0; 4]),
            None
        );
    }

    proptest! {
        #[test]
        fn values_become_the_same_bytes_again(seed: u64, which in 0usize..ELEMENTS.len(), count in 0usize..100) {
            let array = array(ELEMENTS[which], Content::Uniform, count);
            let bytes = array.filled(seed);
            prop_assert_eq!(bytes.len(), array.bytes());
            prop_assert_eq!(array.bytes_of(&array.values(&bytes)), bytes);
        }

        #[test]
        fn ranges_are_kept(seed: u64, which in 0usize..ELEMENTS.len(), low in 0i32..100, more in 1i32..100) {
            let (low, high) = (f64::from(low), f64::from(low + more));
            let array = array(ELEMENTS[which], Content::Range { low, high }, 200);
            let values = array.values(&array.filled(seed));
            prop_assert!(values.iter().all(|x| (low..=high).contains(x)), "{:?}", values);
        }
    }
}
