//! Problems with other names, so that a model copies names instead of knowing them.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_problem::{ArgKind, Problem};
use rand::Rng;

/// Names of arrays and scalars besides the capital letters.
const WORDS: [&str; 26] = [
    "alpha", "beta", "gamma", "delta", "omega", "rho", "mass", "data", "grid", "field", "mean",
    "weight", "value", "in", "out", "src", "dst", "old", "new", "left", "right", "row", "col",
    "tmp", "acc", "total",
];
/// Names of sizes.
const SIZES: [&str; 20] = [
    "n", "m", "p", "q", "l", "h", "w", "d", "ni", "nj", "nk", "nl", "nx", "ny", "nz", "rows",
    "cols", "depth", "batch", "length",
];
/// Names of iterators.
const ITERATORS: [&str; 18] = [
    "i", "j", "k", "l", "p", "q", "r", "s", "t", "b", "c", "f", "z", "y", "x", "ii", "jj", "kk",
];
/// Parts of names of functions.
const PARTS: [&str; 16] = [
    "kernel", "nest", "poly", "bench", "mul", "add", "mat", "vec", "stencil", "conv", "sum", "sym",
    "tri", "rank", "d", "s",
];
/// Letters before a digit. Programs number names of their own that begin with other letters.
const NUMBERED: [&str; 10] = ["a", "b", "c", "d", "p", "q", "u", "v", "w", "y"];

/// Draws after which a name gets a number. A free name of a size or an iterator is missed with a chance below 10⁻⁴⁰.
const MOST_DRAWS: usize = 2000;

/// The kinds of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Function,
    Size,
    /// An array, a scalar, or a local number.
    Data,
    Iterator,
}

/// The same problem with other names in its prototype and its reference. Its formulas keep the names of parameters, so
/// only its nest may be read.
pub fn renamed(problem: &Problem, rng: &mut impl Rng) -> Problem {
    let source = &problem.reference_source;
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    for name in declared(source) {
        kinds.insert(name, Kind::Data);
    }
    for name in iterators(source) {
        kinds.insert(name, Kind::Iterator);
    }
    for argument in &problem.entry.args {
        let kind = match argument.kind {
            ArgKind::Int { .. } => Kind::Size,
            ArgKind::Scalar { .. } | ArgKind::Array { .. } => Kind::Data,
        };
        kinds.insert(&argument.name, kind);
    }
    kinds.insert(&problem.entry.name, Kind::Function);
    // A new name must be none that the text has for something else, as a type or a function.
    let mut taken: BTreeSet<String> = words(source)
        .filter(|word| !kinds.contains_key(word))
        .map(str::to_owned)
        .collect();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (name, kind) in kinds {
        let new = free(kind, &taken, rng);
        taken.insert(new.clone());
        names.insert(name.to_owned(), new);
    }
    let of = |name: &str| names.get(name).cloned().unwrap_or_else(|| name.to_owned());
    let mut renamed = problem.clone();
    renamed.reference_source = replaced(source, &names);
    renamed.entry.prototype = replaced(&problem.entry.prototype, &names);
    renamed.entry.name = of(&problem.entry.name);
    for argument in &mut renamed.entry.args {
        argument.name = of(&argument.name);
    }
    renamed
}

/// A name of a kind that is not taken. A nest may have more names of a kind than there are; then a number makes one of them
/// another name.
fn free(kind: Kind, taken: &BTreeSet<String>, rng: &mut impl Rng) -> String {
    let mut new = drawn(kind, rng);
    for _ in 0..MOST_DRAWS {
        if !taken.contains(&new) {
            return new;
        }
        new = drawn(kind, rng);
    }
    let mut numbered = (1u32..).map(|number| format!("{new}_{number}"));
    numbered
        .find(|name| !taken.contains(name))
        .unwrap_or_default()
}

/// A name of a kind.
fn drawn(kind: Kind, rng: &mut impl Rng) -> String {
    match kind {
        Kind::Function => function(rng),
        Kind::Size => one_of(rng, &SIZES).to_owned(),
        Kind::Iterator => one_of(rng, &ITERATORS).to_owned(),
        Kind::Data => match rng.random_range(0..10) {
            0..5 => char::from(b'A' + rng.random_range(0..26u8)).to_string(),
            5..7 => one_of(rng, &WORDS).to_owned(),
            7..9 => one_of(rng, &NUMBERED).to_owned(),
            _ => format!("{}{}", one_of(rng, &NUMBERED), rng.random_range(1..=4)),
        },
    }
}

/// The name of a random nest, or words that may have no meaning, half of them with a digit.
fn function(rng: &mut impl Rng) -> String {
    let mut name = String::new();
    if rng.random_bool(0.4) {
        return "nest".to_owned();
    }
    for n in 0..rng.random_range(1..=2) {
        if n > 0 {
            name.push('_');
        }
        if rng.random_bool(0.5) {
            name.push_str(one_of(rng, &PARTS));
        } else {
            for _ in 0..rng.random_range(2..=6) {
                name.push(char::from(b'a' + rng.random_range(0..26u8)));
            }
        }
    }
    match rng.random_range(0..4) {
        0 | 1 => {}
        2 => name.push_str(&format!("_{}d", rng.random_range(1..=3))),
        _ => name.push(char::from(b'0' + rng.random_range(1..10u8))),
    }
    name
}

fn one_of(rng: &mut impl Rng, from: &[&'static str]) -> &'static str {
    from[rng.random_range(0..from.len())]
}

/// The words of a C text: names, keywords and numbers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// Names after these types and before `=`, `,`, `;` or a bracket: local numbers and arrays.
fn declared(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for line in source.lines() {
        let line = line.trim();
        let kind = [
            "const double",
            "double",
            "const float",
            "float",
            "int",
            "long",
        ]
        .into_iter()
        .find_map(|kind| line.strip_prefix(kind))
        .filter(|rest| rest.starts_with([' ', '*']));
        let Some(rest) = kind.filter(|rest| rest.ends_with(';')) else {
            continue;
        };
        // Each declarator begins with its name; its value may hold other names, which stand after `=`.
        let mut depth = 0i32;
        let mut start = true;
        for (at, c) in rest.char_indices() {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                ',' if depth == 0 => start = true,
                c if start && (c.is_alphabetic() || c == '_') => {
                    names.extend(words(&rest[at..]).next());
                    start = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// The names that loops start.
fn iterators(source: &str) -> Vec<&str> {
    let heads = source.split("for (int ").skip(1);
    heads.filter_map(|head| words(head).next()).collect()
}

/// The text with whole words replaced.
fn replaced(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word);
        new.push_str(names.get(word).map_or(word, String::as_str));
        let other = after.find(is_word).unwrap_or(after.len());
        let (other, after) = after.split_at(other);
        new.push_str(other);
        rest = after;
    }
    new
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn a_nest_may_have_more_names_than_there_are() {
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        for (kind, own) in [(Kind::Size, &SIZES[..]), (Kind::Iterator, &ITERATORS[..])] {
            let mut taken = BTreeSet::new();
            for _ in 0..own.len() + 5 {
                let name = free(kind, &taken, rng);
                assert!(taken.insert(name), "{kind:?}");
            }
            for name in own {
                assert!(taken.contains(*name), "{name} of {kind:?}");
            }
            let numbered = taken.iter().filter(|name| name.contains('_'));
            assert_eq!(numbered.count(), 5, "{kind:?}");
        }
    }
}
