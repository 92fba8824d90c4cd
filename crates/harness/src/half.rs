//! Numbers of sixteen bits: IEEE 754 binary16 and bfloat16, as the bits that programs find in memory.
//!
//! Rust has no stable type for either. Conversions from a float round to the nearest number, and to the one with an even
//! last digit if two are equally near.

/// 2^-14, the smallest normal binary16, as bits of a float.
const SMALLEST_NORMAL: u32 = 0x3880_0000;
/// 2^16: everything from here on is infinite in binary16, and rounding takes care of the numbers just below.
const TOO_LARGE: u32 = 0x4780_0000;
const INFINITY: u32 = 0x7f80_0000;
/// The difference of the exponents' biases, 127 - 15.
const BIAS: u32 = 112;
/// Half of 2^-23 of this is the smallest binary16 above 0, so that adding it rounds to a multiple of that.
const ALIGNING: f32 = 0.5;

/// The binary16 nearest to a float.
pub fn to_f16(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let size = x.to_bits() & 0x7fff_ffff;
    let rounded = if size > INFINITY {
        0x7e00
    } else if size >= TOO_LARGE {
        0x7c00
    } else if size < SMALLEST_NORMAL {
        (f32::from_bits(size) + ALIGNING).to_bits() - ALIGNING.to_bits()
    } else {
        let odd = (size >> 13) & 1;
        ((size + 0xfff + odd) >> 13) - (BIAS << 10)
    };
    sign | rounded as u16
}

/// The float that equals a binary16.
pub fn from_f16(bits: u16) -> f32 {
    /// 2^-24, the smallest binary16 above 0.
    const SMALLEST: f32 = f32::from_bits((127 - 24) << 23);
    let sign = u32::from(bits & 0x8000) << 16;
    let size = u32::from(bits & 0x7fff);
    let magnitude = match size {
        0x7c00.. => INFINITY | (size & 0x3ff) << 13,
        0x400.. => (size << 13) + (BIAS << 23),
        _ => (size as f32 * SMALLEST).to_bits(),
    };
    f32::from_bits(magnitude | sign)
}

/// The bfloat16 nearest to a float.
pub fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        // Quiet, lest a payload in the lower half alone become an infinity.
        return (bits >> 16) as u16 | 0x40;
    }
    let odd = (bits >> 16) & 1;
    ((bits + 0x7fff + odd) >> 16) as u16
}

/// The float that equals a bfloat16.
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The nearest of all numbers of a kind, found by looking at its neighbours.
    fn is_nearest(x: f32, found: u16, from: fn(u16) -> f32) -> bool {
        let off = |bits: u16| (f64::from(from(bits)) - f64::from(x)).abs();
        let neighbours = [found.wrapping_sub(1), found.wrapping_add(1)];
        let finite = neighbours
            .into_iter()
            .filter(|bits| from(*bits).is_finite() && (bits ^ found) & 0x8000 == 0);
        finite.into_iter().all(|bits| {
            off(found) < off(bits) || (off(found) == off(bits) && found.is_multiple_of(2))
        })
    }

    type Conversions = (fn(f32) -> u16, fn(u16) -> f32);
    const KINDS: [Conversions; 2] = [(to_f16, from_f16), (to_bf16, from_bf16)];

    #[test]
    fn every_number_is_found_again() {
        for bits in 0..=u16::MAX {
            for (to, from) in KINDS {
                let x = from(bits);
                if x.is_nan() {
                    assert!(from(to(x)).is_nan(), "{bits:#x}");
                } else {
                    assert_eq!(to(x), bits, "{x}");
                }
            }
        }
    }

    #[test]
    fn known_numbers_are_what_they_should_be() {
        for (x, f16, bf16) in [
            (0.0, 0x0000, 0x0000),
            (-0.0, 0x8000, 0x8000),
            (1.0, 0x3c00, 0x3f80),
            (-2.0, 0xc000, 0xc000),
            (65_504.0, 0x7bff, 0x4780),
            (65_519.0, 0x7bff, 0x4780),
            (65_520.0, 0x7c00, 0x4780),
            (f32::INFINITY, 0x7c00, 0x7f80),
            (2f32.powi(-24), 0x0001, 0x3380),
            // Half of the smallest number, and a little more.
            (2f32.powi(-25), 0x0000, 0x3300),
            (1.5 * 2f32.powi(-25), 0x0001, 0x3340),
            // Half-way between two numbers: to the even one.
            (1.0 + 2f32.powi(-11), 0x3c00, 0x3f80),
            (1.0 + 3.0 * 2f32.powi(-11), 0x3c02, 0x3f80),
            (1.0 + 2f32.powi(-8), 0x3c04, 0x3f80),
            (1.0 + 3.0 * 2f32.powi(-8), 0x3c0c, 0x3f82),
        ] {
            assert_eq!(to_f16(x), f16, "{x} in binary16");
            assert_eq!(to_bf16(x), bf16, "{x} in bfloat16");
        }
        assert!(from_f16(to_f16(f32::NAN)).is_nan() && from_bf16(to_bf16(f32::NAN)).is_nan());
    }

    proptest! {
        #[test]
        fn floats_are_rounded_to_the_nearest(x in -70_000f32..70_000.0, small in -1e-4f32..1e-4) {
            for x in [x, small] {
                if x.abs() < 65_520.0 {
                    prop_assert!(is_nearest(x, to_f16(x), from_f16), "{x}");
                }
                prop_assert!(is_nearest(x, to_bf16(x), from_bf16), "{x}");
            }
        }
    }
}
