//! Floating-point arguments that are passed by value.
//!
//! The value of a scalar is a function of the seed of a call, as every element of its inputs is. So two processes that
//! have the same seed have the same scalars, a program meets another value in each call and can neither expect one nor
//! use what it computed from the value before, and no value tells whether a call is timed.

use flopsmith_harness::Scalars;
use flopsmith_harness::inputs::Stream;

/// The stream of the generator for scalars; no array uses it.
const STREAM: u64 = u64::MAX - 1;

/// A floating-point argument with certain parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    /// Its name in the problem's definition.
    pub name: String,
    /// True for a `float`, false for a `double`.
    pub single: bool,
    /// Least value, and what all values stay below.
    range: (f64, f64),
    /// Least and greatest number of the type that it may be.
    ends: (f64, f64),
    /// Its value in this call.
    value: f64,
}

impl Scalar {
    /// A scalar in [low, high), which has its middle until it is drawn. None if there is no number of the type between
    /// the two.
    pub fn new(name: &str, single: bool, low: f64, high: f64) -> Option<Self> {
        let ends = if single {
            let (mut least, mut most) = (low as f32, high as f32);
            if f64::from(least) < low {
                least = least.next_up();
            }
            if f64::from(most) >= high {
                most = most.next_down();
            }
            (f64::from(least), f64::from(most))
        } else {
            (low, high.next_down())
        };
        // Of comparisons with NaN none is true.
        let sound = ends.0 <= ends.1 && low.is_finite() && high.is_finite();
        sound.then(|| {
            let mut scalar = Self {
                name: name.to_owned(),
                single,
                range: (low, high),
                ends,
                value: low,
            };
            scalar.value = scalar.at(0.5);
            scalar
        })
    }

    /// The number at a place of the range, from 0 to 1.
    fn at(&self, place: f64) -> f64 {
        let (low, high) = self.range;
        // By two products, since the width of the widest range is infinite.
        let exact = low * (1.0 - place) + high * place;
        let rounded = if self.single {
            f64::from(exact as f32)
        } else {
            exact
        };
        rounded.clamp(self.ends.0, self.ends.1)
    }

    /// The value now.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The bits of its register.
    pub fn register(&self) -> u64 {
        if self.single {
            u64::from((self.value as f32).to_bits())
        } else {
            self.value.to_bits()
        }
    }

    /// Draws the value anew from random bits.
    fn draw(&mut self, bits: u64) {
        // 53 bits, as many as a double in [0, 1) has.
        self.value = self.at((bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0));
    }
}

/// Gives all scalars the values that belong to a seed.
pub fn draw(scalars: &mut [Scalar], seed: u64) {
    for n in 0..scalars.len() {
        draw_one(scalars, n, seed);
    }
}

/// Gives one scalar the value that belongs to a seed.
pub fn draw_one(scalars: &mut [Scalar], n: usize, seed: u64) {
    if let Some(scalar) = scalars.get_mut(n) {
        scalar.draw(Stream::new(seed, STREAM).bits(n as u64));
    }
}

/// The registers of the scalars; none if there is no scalar.
pub fn registers(scalars: &[Scalar]) -> Option<Scalars> {
    let mut registers = Scalars::default();
    for (register, scalar) in registers.iter_mut().zip(scalars) {
        *register = scalar.register();
    }
    (!scalars.is_empty()).then_some(registers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scalar(single: bool, low: f64, high: f64) -> Scalar {
        Scalar::new("alpha", single, low, high).expect("a range")
    }

    #[test]
    fn a_range_without_numbers_is_none() {
        for (single, low, high) in [
            (false, 1.0, 1.0),
            (false, 2.0, 1.0),
            (false, f64::NAN, 1.0),
            (false, 0.0, f64::INFINITY),
            (true, 1.0 + 1e-12, 1.0 + 2e-12),
            (true, 0.0, f64::NAN),
        ] {
            let found = Scalar::new("x", single, low, high);
            assert_eq!(found, None, "{low}, {high}");
        }
    }

    #[test]
    fn values_are_uniform_and_each_seed_has_its_own() {
        let mut all = vec![scalar(false, -2.0, 6.0), scalar(true, 0.0, 1.0)];
        let (mut sums, mut parts) = ([0.0; 2], [[0; 8]; 2]);
        for seed in 0..8000 {
            draw(&mut all, seed);
            for (n, scalar) in all.iter().enumerate() {
                let place = (scalar.value() - scalar.range.0) / (scalar.range.1 - scalar.range.0);
                sums[n] += place / 8000.0;
                parts[n][(place * 8.0) as usize] += 1;
            }
        }
        assert!(
            sums.iter().all(|mean| (mean - 0.5).abs() < 0.02),
            "{sums:?}"
        );
        let even = |count: &i32| (850..1150).contains(count);
        assert!(parts.iter().flatten().all(even), "{parts:?}");
        let before = all.clone();
        draw_one(&mut all, 1, 77);
        assert!(all[0] == before[0] && all[1] != before[1]);
        draw(&mut all, 5);
        let five = all.clone();
        draw(&mut all, 6);
        draw(&mut all, 5);
        assert_eq!(all, five);
    }

    #[test]
    fn a_float_is_the_lower_half_of_its_register() {
        let all = [scalar(true, 1.0, 2.0), scalar(false, 1.0, 2.0)];
        let registers = registers(&all).expect("two scalars");
        assert_eq!(registers[0], u64::from(1.5f32.to_bits()));
        assert_eq!(registers[1], 1.5f64.to_bits());
        assert_eq!(registers[2..], [0; 6]);
        assert_eq!(super::registers(&[]), None);
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_range(single: bool, low in -1e9f64..1e9, width in 1e-3f64..1e9, seed: u64, end in 0usize..3) {
            if let Some(mut scalar) = Scalar::new("x", single, low, low + width) {
                let bits = [seed, 0, u64::MAX][end];
                scalar.draw(bits);
                let value = scalar.value();
                prop_assert!((low..low + width).contains(&value), "{}", value);
                prop_assert!(!single || f64::from(value as f32) == value);
            }
        }
    }
}
