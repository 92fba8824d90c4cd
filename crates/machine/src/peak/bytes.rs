//! Additions and minima of bytes, as many as the units take: what whole numbers cost at least. Programs for problems of whole
//! numbers may pack them as narrowly as their values permit, and vectors hold more bytes than anything else.
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
    /// Whatever the compiler makes of it for any processor of this kind.
    Plain,
}

/// Additions and minima on each accumulator in one block; a block lasts some 50 to 200 microseconds.
const STEPS: usize = 20_000;
/// Up to four units, and chains of an addition and a minimum one after the other.
const CHAINS: usize = 12;

impl ByteKernel {
    /// The one with the widest vectors that this processor can run.
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

    /// Bits of its vectors.
    pub fn vector_bits(self) -> u32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 512,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 256,
            Self::Plain => 128,
        }
    }

    /// Runs one block; the operations it did.
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
