//! Programs that differ from another one in numbers: block sizes, unroll factors and numbers of warps are numbers, so a program
//! with another number is mostly a program.
//!
//! Text in, text out: it takes C, C++ and Python as well as C++ in a text of Python. Only whole numbers from 1 on are
//! exchanged; a 0 is where a loop or a sum begins. The parts of a name, of a number with a point and of an exponent stay.

use std::collections::BTreeSet;

use rand::Rng;

/// Largest number that is exchanged or put in.
const LARGEST: u64 = 1 << 20;
/// One in this many programs differs in two numbers.
const TWO: u32 = 4;

/// A number in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Its first byte.
    start: usize,
    /// The byte behind it.
    end: usize,
    value: u64,
}

/// The program with one of its numbers, or sometimes two, exchanged. Half of the new numbers occur in the program already:
/// numbers of one program are of one sort, such as powers of two. The others are twice or half the old number, or next to
/// it. None for a program without a number to exchange.
pub fn mutate(program: &str, rng: &mut impl Rng) -> Option<String> {
    let once = exchanged(program, rng)?;
    match rng.random_range(0..TWO) {
        0 => exchanged(&once, rng),
        _ => Some(once),
    }
}

fn exchanged(program: &str, rng: &mut impl Rng) -> Option<String> {
    let places = places(program);
    let place = one_of(&places, rng)?;
    let own: BTreeSet<u64> = places.iter().map(|p| p.value).collect();
    let own: Vec<u64> = own.into_iter().filter(|v| *v != place.value).collect();
    let near = near(place.value);
    let others = match own.is_empty() || rng.random_range(0..2) == 0 {
        true => &near,
        false => &own,
    };
    let other = one_of(others, rng)?;
    let (before, rest) = program.split_at(place.start);
    let behind = &rest[place.end - place.start..];
    Some(format!("{before}{other}{behind}"))
}

fn one_of<T: Copy>(all: &[T], rng: &mut impl Rng) -> Option<T> {
    match all.len() {
        0 => None,
        count => all.get(rng.random_range(0..count)).copied(),
    }
}

/// Twice and half a number, and the numbers next to it.
fn near(value: u64) -> Vec<u64> {
    let all = [2 * value, value / 2, value + 1, value.saturating_sub(1)];
    let fits = |other: &u64| *other != value && (1..=LARGEST).contains(other);
    let all: BTreeSet<u64> = all.into_iter().filter(fits).collect();
    all.into_iter().collect()
}

/// The numbers of a program that can be exchanged. Those in lines of comments and imports say nothing.
fn places(program: &str) -> Vec<Place> {
    let mut found = Vec::new();
    let mut from = 0;
    for line in program.split_inclusive('\n') {
        if !is_silent(line) {
            found.extend(in_line(line, from));
        }
        from += line.len();
    }
    found
}

fn is_silent(line: &str) -> bool {
    let line = line.trim();
    let starts = ["# ", "//", "import ", "from ", "#include"];
    line == "#" || starts.iter().any(|start| line.starts_with(start))
}

fn in_line(line: &str, from: usize) -> Vec<Place> {
    let bytes = line.as_bytes();
    let is_word = |at: usize| {
        let byte = bytes.get(at);
        byte.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'))
    };
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_word(at) {
            at += 1;
            continue;
        }
        let start = at;
        while is_word(at) {
            at += 1;
        }
        let word = &line[start..at];
        let begins = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        // The sign of an exponent, as in 1e-5, is no operator.
        let is_decimal = !word.starts_with("0x") && !word.starts_with("0X");
        if begins
            && is_decimal
            && word.ends_with(['e', 'E'])
            && matches!(bytes.get(at), Some(b'+' | b'-'))
        {
            at += 1;
            while is_word(at) {
                at += 1;
            }
            continue;
        }
        let digits = word.bytes().all(|b| b.is_ascii_digit());
        let value = word.parse::<u64>().ok();
        let value = value.filter(|value| (1..=LARGEST).contains(value));
        if let (true, Some(value)) = (digits, value) {
            found.push(Place {
                start: from + start,
                end: from + at,
                value,
            });
        }
    }
    found
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const MODULE: &str = "import torch, triton  # 3.6\n# 128 rows\nBLOCK = 64\nsource = '''\n#include <torch/extension.h>\n#pragma unroll 8\nfor (int i = 0; i < n; i += 16) acc4 += x[i] * 0.5f + 1e-5 + 2.0;\n// 512 bits\n__m256 v = _mm256_setzero_ps();\n'''\nrows[grid](x, num_warps=4, eps=1.e-6, mask=0xff)\n";

    fn values(program: &str) -> Vec<u64> {
        places(program).iter().map(|p| p.value).collect()
    }

    #[test]
    fn block_sizes_are_numbers_and_parts_of_names_and_fractions_are_not() {
        assert_eq!(values(MODULE), [64, 8, 16, 4]);
        assert_eq!(values("a<16>(b[3], 7) // 9\nx = -2"), [16, 3, 7, 9, 2]);
        assert_eq!(values("x0 0 1u 007 99999999999999999999 1_000"), [7]);
        assert_eq!(near(64), [32, 63, 65, 128]);
        assert_eq!(near(1), [2]);
        assert_eq!(near(LARGEST), [LARGEST / 2, LARGEST - 1]);
    }

    #[test]
    fn all_numbers_are_exchanged_by_and_by_and_nothing_else() {
        let (mut changed, mut put_in) = (BTreeSet::new(), BTreeSet::new());
        let before = values(MODULE);
        for seed in 0..400 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let program = mutate(MODULE, &mut rng).unwrap();
            assert_eq!(
                program,
                mutate(MODULE, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap()
            );
            let after = values(&program);
            assert_eq!(after.len(), before.len());
            for (place, (old, new)) in before.iter().zip(&after).enumerate() {
                if old != new {
                    changed.insert(place);
                    put_in.insert(*new);
                }
            }
            let text = |program: &str| program.replace(|c: char| c.is_ascii_digit(), "");
            assert_eq!(text(&program), text(MODULE));
        }
        assert_eq!(changed.len(), before.len(), "{changed:?}");
        // Twice and half a number, and numbers of the program in other places.
        for wanted in [128, 32, 16, 8, 2] {
            assert!(put_in.contains(&wanted), "{wanted} in {put_in:?}");
        }
        assert_eq!(
            mutate("x = y0 + 0", &mut ChaCha8Rng::seed_from_u64(1)),
            None
        );
    }

    proptest! {
        #[test]
        fn any_text_is_taken(program in any::<String>(), seed in any::<u64>()) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            if let Some(other) = mutate(&program, &mut rng) {
                prop_assert_eq!(values(&other).len(), values(&program).len());
            }
        }
    }
}
