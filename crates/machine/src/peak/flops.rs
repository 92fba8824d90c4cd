//! The peak rate of double-precision multiply-adds with vectors of one width.
#![expect(
    unsafe_code,
    reason = "calls functions compiled for processor features that were checked"
)]

/// Multiply-adds on vectors of one width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlopKernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Fma128,
    #[cfg(target_arch = "x86_64")]
    Scalar,
    /// The code that the compiler generates from separate multiplications and additions.
    Plain,
}

/// Multiply-adds on each accumulator in one block; a block lasts some 50 to 200 microseconds.
const STEPS: usize = 20_000;

impl FlopKernel {
    /// The kernels that this processor can run, the narrowest first; at least one.
    pub fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma")
            {
                let mut all = vec![Self::Scalar, Self::Fma128, Self::Avx2];
                if std::arch::is_x86_feature_detected!("avx512f") {
                    all.push(Self::Avx512);
                }
                return all;
            }
        }
        vec![Self::Plain]
    }

    /// The kernel with the widest vectors.
    pub fn widest() -> Self {
        Self::all().pop().unwrap_or(Self::Plain)
    }

    /// Width of the kernel's vectors, in bits.
    pub fn vector_bits(self) -> u32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 512,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 256,
            #[cfg(target_arch = "x86_64")]
            Self::Fma128 => 128,
            #[cfg(target_arch = "x86_64")]
            Self::Scalar => crate::roofline::SCALAR_BITS,
            Self::Plain => 128,
        }
    }

    /// Runs one block and returns its number of operations.
    pub fn block(self) -> f64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `all` saw the feature.
            Self::Avx512 => unsafe { x86::avx512() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `all` saw the features.
            Self::Avx2 => unsafe { x86::avx2() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `all` saw the feature.
            Self::Fma128 => unsafe { x86::fma128() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `all` saw the feature.
            Self::Scalar => unsafe { x86::scalar() },
            Self::Plain => plain(),
        }
    }
}

fn plain() -> f64 {
    const LANES: usize = 16;
    let (a, b) = (std::hint::black_box(0.999_999), std::hint::black_box(1e-6));
    let mut x = [1.0f64; LANES];
    for _ in 0..STEPS {
        for v in &mut x {
            *v = *v * a + b;
        }
    }
    std::hint::black_box(x);
    (STEPS * LANES * 2) as f64
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::STEPS;
    use std::arch::asm;
    use std::arch::x86_64::{
        _mm_fmadd_pd, _mm_set1_pd, _mm256_fmadd_pd, _mm256_set1_pd, _mm512_fmadd_pd, _mm512_set1_pd,
    };

    // Two units times a latency of four or five cycles need at least ten chains.
    const CHAINS: usize = 12;

    #[target_feature(enable = "fma")]
    pub fn scalar() -> f64 {
        let a = std::hint::black_box(0.999_999_f64);
        let b = std::hint::black_box(1e-6_f64);
        let mut x = [b; CHAINS];
        for _ in 0..STEPS {
            for v in &mut x {
                // Written as an instruction, because the compiler would combine twelve equal chains into vectors.
                // SAFETY: it works on these three registers only, and the caller saw the feature.
                unsafe {
                    asm!(
                        "vfmadd213sd {x}, {a}, {b}",
                        x = inout(xmm_reg) *v,
                        a = in(xmm_reg) a,
                        b = in(xmm_reg) b,
                        options(pure, nomem, nostack)
                    );
                }
            }
        }
        std::hint::black_box(x);
        (STEPS * CHAINS * 2) as f64
    }

    #[target_feature(enable = "fma")]
    pub fn fma128() -> f64 {
        let a = _mm_set1_pd(std::hint::black_box(0.999_999));
        let b = _mm_set1_pd(std::hint::black_box(1e-6));
        let mut x = [b; CHAINS];
        for _ in 0..STEPS {
            for v in &mut x {
                *v = _mm_fmadd_pd(*v, a, b);
            }
        }
        std::hint::black_box(x);
        (STEPS * CHAINS * 2 * 2) as f64
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn avx2() -> f64 {
        let a = _mm256_set1_pd(std::hint::black_box(0.999_999));
        let b = _mm256_set1_pd(std::hint::black_box(1e-6));
        let mut x = [b; CHAINS];
        for _ in 0..STEPS {
            for v in &mut x {
                *v = _mm256_fmadd_pd(*v, a, b);
            }
        }
        std::hint::black_box(x);
        (STEPS * CHAINS * 4 * 2) as f64
    }

    #[target_feature(enable = "avx512f")]
    pub fn avx512() -> f64 {
        let a = _mm512_set1_pd(std::hint::black_box(0.999_999));
        let b = _mm512_set1_pd(std::hint::black_box(1e-6));
        let mut x = [b; CHAINS];
        for _ in 0..STEPS {
            for v in &mut x {
                *v = _mm512_fmadd_pd(*v, a, b);
            }
        }
        std::hint::black_box(x);
        (STEPS * CHAINS * 8 * 2) as f64
    }
}
