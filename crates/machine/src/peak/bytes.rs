//! The rate of additions and minima of bytes: an upper bound for whole-number arithmetic. A program for a whole-number
//! problem may pack its values as narrowly as their range permits, and a vector holds more bytes than elements of any
//! other type.
#![expect(
    unsafe_code,
    reason = "calls functions compiled for processor features that were checked"
)]

/// Operations on vectors of bytes of one width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteKernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The code that the compiler generates for any processor of this architecture.
    Plain,
}

/// Additions and minima on each accumulator in one block; a block lasts some 50 to 200 microseconds.
const STEPS: usize = 20_000;
/// Enough independent chains for up to four units, where each step is an addition followed by a minimum.
const CHAINS: usize = 12;

impl ByteKernel {
    /// The kernel with the widest vectors that this processor can run.
    pub fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512bw") {
                return Self::Avx512;
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// Width of the kernel's vectors, in bits.
    pub fn vector_bits(self) -> u32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 512,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 256,
            Self::Plain => 128,
        }
    }

    /// Runs one block and returns its number of operations.
    pub fn block(self) -> f64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `widest` saw the feature.
            Self::Avx512 => unsafe { x86::avx512() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `widest` saw the feature.
            Self::Avx2 => unsafe { x86::avx2() },
            Self::Plain => plain(),
        }
    }
}

fn plain() -> f64 {
    const LANES: usize = CHAINS * 16;
    let (a, b) = (std::hint::black_box(3u8), std::hint::black_box(200u8));
    let mut x = [a; LANES];
    for _ in 0..STEPS {
        for v in &mut x {
            *v = v.wrapping_add(a).min(b);
        }
    }
    std::hint::black_box(x);
    (STEPS * LANES * 2) as f64
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CHAINS, STEPS};
    use std::arch::x86_64::{
        _mm256_add_epi8, _mm256_min_epu8, _mm256_set1_epi8, _mm512_add_epi8, _mm512_min_epu8,
        _mm512_set1_epi8,
    };

    #[target_feature(enable = "avx2")]
    pub fn avx2() -> f64 {
        let a = _mm256_set1_epi8(std::hint::black_box(3));
        let b = _mm256_set1_epi8(std::hint::black_box(100));
        let mut x = [a; CHAINS];
        for _ in 0..STEPS {
            for v in &mut x {
                *v = _mm256_min_epu8(_mm256_add_epi8(*v, a), b);
            }
        }
        std::hint::black_box(x);
        (STEPS * CHAINS * 32 * 2) as f64
    }

    #[target_feature(enable = "avx512bw")]
    pub fn avx512() -> f64 {
        let a = _mm512_set1_epi8(std::hint::black_box(3));
        let b = _mm512_set1_epi8(std::hint::black_box(100));
        let mut x = [a; CHAINS];
        for _ in 0..STEPS {
            for v in &mut x {
                *v = _mm512_min_epu8(_mm512_add_epi8(*v, a), b);
            }
        }
        std::hint::black_box(x);
        (STEPS * CHAINS * 64 * 2) as f64
    }
}
