//! Vectors of single-precision numbers, in the widest form that the processor has.
//!
//! The kernels are written once against [`Simd`] and compiled for each width; [`Width::here`] picks one at run time.

/// One processor's vectors.
///
/// # Safety
/// The methods may only run on a processor that has the instructions, and in a function compiled for them, into which
/// they are inlined. Pointers have to be valid for [`Simd::LANES`] numbers; alignment is not needed.
pub(super) trait Simd: Copy {
    type V: Copy;
    /// Numbers in a vector.
    const LANES: usize;
    /// Rows of a block of a matrix product: at two vectors each, these rows fill the registers.
    const ROWS: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    /// Numbers in bfloat16, widened.
    unsafe fn load_half(from: *const u16) -> Self::V;
    /// The sum of each vector's lanes.
    unsafe fn sums(v: [Self::V; 4]) -> [f32; 4];
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// a · b + c.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The nearest integer.
    unsafe fn round(a: Self::V) -> Self::V;
    /// 2^n for integers n in -126..=127.
    unsafe fn exp2_whole(n: Self::V) -> Self::V;
}

/// e^x to within a few units in the last place, from 0 to 3e38; x below -87.3 gives about 1e-38.
///
/// Cody and Waite's reduction to |r| ≤ ln 2 / 2, then Taylor's polynomial of degree 7.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
pub(super) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    const TERMS: [f32; 7] = [
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
    ];
    // SAFETY: the caller's promise.
    unsafe {
        let x = S::min(S::max(x, S::splat(-87.3)), S::splat(88.0));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        // ln 2 in two parts; the product of the first with n is exact.
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let mut p = S::splat(TERMS[0]);
        let mut i = 1;
        while i < TERMS.len() {
            p = S::fma(p, r, S::splat(TERMS[i]));
            i += 1;
        }
        p = S::fma(p, r, S::splat(1.0));
        S::mul(p, S::exp2_whole(n))
    }
}

/// The vector widths that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Width {
    /// The widest one of this processor.
    pub fn here() -> Self {
        Self::all()[0]
    }

    /// All of this processor, the widest first.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            // All the instruction sets that the kernels are compiled for.
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
            {
                all.push(Width::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Width::Avx2);
            }
        }
        all.push(Width::Portable);
        all
    }

    /// Numbers in a vector.
    pub fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => Avx2::LANES,
            Width::Portable => Portable::LANES,
        }
    }
}

/// Scalar arithmetic on eight numbers, which the compiler maps to the target's baseline vectors.
#[derive(Clone, Copy)]
pub(super) struct Portable;

macro_rules! lanewise {
    ($a:expr, $b:expr, $f:expr) => {{
        let (a, b, mut out) = ($a, $b, [0.0; 8]);
        let mut i = 0;
        while i < 8 {
            out[i] = $f(a[i], b[i]);
            i += 1;
        }
        out
    }};
}

impl Simd for Portable {
    type V = [f32; 8];
    const LANES: usize = 8;
    const ROWS: usize = 3;

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 8] {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 8] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[f32; 8]>().read() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: [f32; 8]) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 8]>().write(v) }
    }
    #[inline(always)]
    unsafe fn load_half(from: *const u16) -> [f32; 8] {
        // SAFETY: the caller's promise.
        let halves = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        lanewise!(halves, halves, |h: u16, _| f32::from_bits(
            u32::from(h) << 16
        ))
    }
    #[inline(always)]
    unsafe fn sums(v: [[f32; 8]; 4]) -> [f32; 4] {
        v.map(|lanes| lanes.iter().sum())
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        lanewise!(a, b, |a: f32, b: f32| a + b)
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        lanewise!(a, b, |a: f32, b: f32| a * b)
    }
    #[inline(always)]
    unsafe fn div(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        lanewise!(a, b, |a: f32, b: f32| a / b)
    }
    #[inline(always)]
    unsafe fn min(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        lanewise!(a, b, |a: f32, b: f32| if b < a { b } else { a })
    }
    #[inline(always)]
    unsafe fn max(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        lanewise!(a, b, |a: f32, b: f32| if b > a { b } else { a })
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        // Not `mul_add`, which is a function call on targets without such an instruction.
        let ab = lanewise!(a, b, |a: f32, b: f32| a * b);
        lanewise!(ab, c, |a: f32, b: f32| a + b)
    }
    #[inline(always)]
    unsafe fn round(a: [f32; 8]) -> [f32; 8] {
        // Adding and subtracting 1.5 · 2^23 rounds every number below 2^22 to an integer.
        lanewise!(a, [12_582_912.0f32; 8], |a: f32, big: f32| (a + big) - big)
    }
    #[inline(always)]
    unsafe fn exp2_whole(n: [f32; 8]) -> [f32; 8] {
        lanewise!(n, n, |n: f32, _| f32::from_bits(
            ((n as i32 + 127) as u32) << 23
        ))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Simd;

    /// Eight numbers; sixteen registers.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2;

    // SAFETY of every block below: the caller's promise, as the trait demands it.
    impl Simd for Avx2 {
        type V = __m256;
        const LANES: usize = 8;
        const ROWS: usize = 6;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m256 {
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m256) {
            unsafe { _mm256_storeu_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn load_half(from: *const u16) -> __m256 {
            unsafe {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [__m256; 4]) -> [f32; 4] {
            unsafe {
                let pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
                let upper = _mm256_extractf128_ps::<1>(pairs);
                let mut out = [0.0; 4];
                let sums = _mm_add_ps(_mm256_castps256_ps128(pairs), upper);
                _mm_storeu_ps(out.as_mut_ptr(), sums);
                out
            }
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn min(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_min_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn max(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn round(a: __m256) -> __m256 {
            unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
        }
        #[inline(always)]
        unsafe fn exp2_whole(n: __m256) -> __m256 {
            unsafe {
                let n = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(n))
            }
        }
    }

    /// Sixteen numbers; thirty-two registers.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512;

    // SAFETY of every block below: the caller's promise, as the trait demands it.
    impl Simd for Avx512 {
        type V = __m512;
        const LANES: usize = 16;
        const ROWS: usize = 12;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m512) {
            unsafe { _mm512_storeu_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn load_half(from: *const u16) -> __m512 {
            unsafe {
                let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
            unsafe {
                // Every 128-bit quarter then holds one partial sum of each vector, in their order.
                let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                let quarters = _mm512_add_ps(
                    _mm512_shuffle_ps::<0b01_00_01_00>(ab, cd),
                    _mm512_shuffle_ps::<0b11_10_11_10>(ab, cd),
                );
                let upper = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(quarters));
                let halves =
                    _mm256_add_ps(_mm512_castps512_ps256(quarters), _mm256_castpd_ps(upper));
                let upper = _mm256_extractf128_ps::<1>(halves);
                let mut out = [0.0; 4];
                let sums = _mm_add_ps(_mm256_castps256_ps128(halves), upper);
                _mm_storeu_ps(out.as_mut_ptr(), sums);
                out
            }
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn min(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_min_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn max(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn round(a: __m512) -> __m512 {
            unsafe { _mm512_roundscale_ps::<0>(a) }
        }
        #[inline(always)]
        unsafe fn exp2_whole(n: __m512) -> __m512 {
            unsafe {
                let n = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
                _mm512_castsi512_ps(_mm512_slli_epi32::<23>(n))
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};
