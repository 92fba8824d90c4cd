//! AES-128 in counter mode. It uses the processor's AES instructions where they exist; these take a small part of the
//! time of writing the words. Elsewhere it uses the `aes` crate.

use aes::Aes128;
use aes::cipher::{BlockEncrypt, KeyInit};

/// Words of a batch: eight blocks, which a processor computes at the same time.
pub const BATCH: usize = 16;

/// A key with its expanded rounds.
#[derive(Clone)]
pub struct Cipher(Way);

#[derive(Clone)]
enum Way {
    #[cfg(target_arch = "x86_64")]
    Native(native::Keys),
    Portable(Box<Aes128>),
}

impl Cipher {
    /// The cipher under a key.
    pub fn new(key: [u8; 16]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(keys) = native::Keys::new(key) {
            return Self(Way::Native(keys));
        }
        Self::portable(key)
    }

    fn portable(key: [u8; 16]) -> Self {
        Self(Way::Portable(Box::new(Aes128::new(&key.into()))))
    }

    /// The words of the blocks with these numbers in a domain.
    pub fn blocks(&self, domain: u64, numbers: [u64; BATCH / 2]) -> [u64; BATCH] {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Native(keys) => keys.blocks(domain, numbers),
            Way::Portable(cipher) => portable(cipher, domain, numbers),
        }
    }

    /// Fills `out` from the words of a domain, from the first one on.
    pub fn fill<T>(&self, domain: u64, out: &mut [T], convert: impl FnMut(u64) -> T) {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Native(keys) => keys.fill(domain, out, convert),
            Way::Portable(cipher) => {
                each(out, convert, |numbers| portable(cipher, domain, numbers));
            }
        }
    }
}

fn portable(cipher: &Aes128, domain: u64, numbers: [u64; BATCH / 2]) -> [u64; BATCH] {
    let mut blocks = numbers.map(|number| {
        let both = u128::from(number) | u128::from(domain) << 64;
        aes::Block::from(both.to_le_bytes())
    });
    cipher.encrypt_blocks(&mut blocks);
    let mut words = [0; BATCH];
    for (words, block) in words.chunks_exact_mut(2).zip(blocks) {
        let both = u128::from_le_bytes(block.into());
        words[0] = both as u64;
        words[1] = (both >> 64) as u64;
    }
    words
}

#[inline(always)]
fn each<T>(
    out: &mut [T],
    mut convert: impl FnMut(u64) -> T,
    blocks: impl Fn([u64; BATCH / 2]) -> [u64; BATCH],
) {
    let mut first = 0u64;
    let (whole, rest) = out.as_chunks_mut::<BATCH>();
    let mut words = || {
        let words = blocks(std::array::from_fn(|n| first + n as u64));
        first += BATCH as u64 / 2;
        words
    };
    for out in whole {
        for (x, word) in out.iter_mut().zip(words()) {
            *x = convert(word);
        }
    }
    if !rest.is_empty() {
        for (x, word) in rest.iter_mut().zip(words()) {
            *x = convert(word);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "functions compiled for features checked at run time"
)]
mod native {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_aeskeygenassist_si128,
        _mm_set_epi64x, _mm_shuffle_epi32, _mm_slli_si128, _mm_xor_si128, _mm256_aesenc_epi128,
        _mm256_aesenclast_epi128, _mm256_broadcastsi128_si256, _mm256_set_epi64x, _mm256_xor_si256,
    };

    use super::BATCH;

    /// The keys of all rounds. They exist only if the processor has the instructions.
    #[derive(Clone)]
    pub struct Keys {
        rounds: [__m128i; 11],
        /// True if one instruction takes two blocks.
        wide: bool,
    }

    impl Keys {
        pub fn new(key: [u8; 16]) -> Option<Self> {
            let known = std::arch::is_x86_feature_detected!("aes")
                && std::arch::is_x86_feature_detected!("avx2");
            // SAFETY: the processor has the features.
            known.then(|| Self {
                rounds: unsafe { schedule(key) },
                wide: std::arch::is_x86_feature_detected!("vaes"),
            })
        }

        pub fn blocks(&self, domain: u64, numbers: [u64; BATCH / 2]) -> [u64; BATCH] {
            // SAFETY: there are keys only where the processor has the features.
            unsafe { encrypt(&self.rounds, domain, numbers) }
        }

        pub fn fill<T>(&self, domain: u64, out: &mut [T], convert: impl FnMut(u64) -> T) {
            // SAFETY: there are keys only where the processor has the features.
            unsafe {
                if self.wide {
                    fill_wide(&self.rounds, domain, out, convert);
                } else {
                    fill(&self.rounds, domain, out, convert);
                }
            }
        }
    }

    /// FIPS 197, 5.2.
    #[target_feature(enable = "aes,avx2")]
    fn schedule(key: [u8; 16]) -> [__m128i; 11] {
        let both = u128::from_le_bytes(key);
        let mut keys = [_mm_set_epi64x((both >> 64) as i64, both as i64); 11];
        macro_rules! round {
            ($n:literal, $constant:literal) => {
                let last = keys[$n - 1];
                let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$constant>(last));
                let mut key = _mm_xor_si128(last, _mm_slli_si128::<4>(last));
                key = _mm_xor_si128(key, _mm_slli_si128::<8>(key));
                keys[$n] = _mm_xor_si128(key, word);
            };
        }
        round!(1, 0x01);
        round!(2, 0x02);
        round!(3, 0x04);
        round!(4, 0x08);
        round!(5, 0x10);
        round!(6, 0x20);
        round!(7, 0x40);
        round!(8, 0x80);
        round!(9, 0x1b);
        round!(10, 0x36);
        keys
    }

    #[target_feature(enable = "aes,avx2")]
    #[inline]
    fn encrypt(keys: &[__m128i; 11], domain: u64, numbers: [u64; BATCH / 2]) -> [u64; BATCH] {
        let mut blocks = numbers
            .map(|number| _mm_xor_si128(_mm_set_epi64x(domain as i64, number as i64), keys[0]));
        for key in &keys[1..10] {
            for block in &mut blocks {
                *block = _mm_aesenc_si128(*block, *key);
            }
        }
        for block in &mut blocks {
            *block = _mm_aesenclast_si128(*block, keys[10]);
        }
        // SAFETY: eight vectors of two words each.
        unsafe { std::mem::transmute::<[__m128i; BATCH / 2], [u64; BATCH]>(blocks) }
    }

    #[target_feature(enable = "aes,avx2,vaes")]
    #[inline]
    fn encrypt_wide(keys: &[__m256i; 11], domain: u64, first: u64) -> [u64; BATCH] {
        let (domain, first) = (domain as i64, first as i64);
        let mut blocks = [0, 2, 4, 6].map(|n| {
            let pair = _mm256_set_epi64x(domain, first + n + 1, domain, first + n);
            _mm256_xor_si256(pair, keys[0])
        });
        for key in &keys[1..10] {
            for block in &mut blocks {
                *block = _mm256_aesenc_epi128(*block, *key);
            }
        }
        for block in &mut blocks {
            *block = _mm256_aesenclast_epi128(*block, keys[10]);
        }
        // SAFETY: four vectors of four words each.
        unsafe { std::mem::transmute::<[__m256i; BATCH / 4], [u64; BATCH]>(blocks) }
    }

    #[target_feature(enable = "aes,avx2,vaes")]
    fn fill_wide<T>(
        keys: &[__m128i; 11],
        domain: u64,
        out: &mut [T],
        convert: impl FnMut(u64) -> T,
    ) {
        let keys = keys.map(|key| _mm256_broadcastsi128_si256(key));
        super::each(out, convert, |numbers| {
            encrypt_wide(&keys, domain, numbers[0])
        });
    }

    #[target_feature(enable = "aes,avx2")]
    fn fill<T>(keys: &[__m128i; 11], domain: u64, out: &mut [T], convert: impl FnMut(u64) -> T) {
        super::each(out, convert, |numbers| encrypt(keys, domain, numbers));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ways_give_the_same_words(key: [u8; 16], domain: u64, numbers: [u64; BATCH / 2], count in 0usize..70) {
            let (one, other) = (Cipher::new(key), Cipher::portable(key));
            prop_assert_eq!(one.blocks(domain, numbers), other.blocks(domain, numbers));
            let filled = |cipher: &Cipher| {
                let mut out = vec![0u64; count];
                cipher.fill(domain, &mut out, |word| word);
                out
            };
            prop_assert_eq!(filled(&one), filled(&other));
        }
    }

    /// FIPS 197, appendix C.1.
    #[test]
    fn the_published_example_comes_out() {
        let key = std::array::from_fn(|n| n as u8);
        let text = u128::from_le_bytes(std::array::from_fn(|n| 0x11 * n as u8));
        let words = Cipher::new(key).blocks((text >> 64) as u64, [text as u64; BATCH / 2]);
        let found = u128::from(words[0]) | u128::from(words[1]) << 64;
        let expected = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128;
        assert_eq!(found.to_le_bytes(), expected.to_be_bytes());
    }
}
