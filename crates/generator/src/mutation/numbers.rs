//! Numbers that act as sizes: of tiles, of steps of loops, of unrolling and of vectors.
//!
//! A number is a size if it stands in the head of a loop, in the dimension of an array that is declared, in a hint to unroll, or in
//! `vector_size`, or if it defines a macro or a constant whose name stands there, directly or over other such names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use rand::Rng;

use super::lex::{Kind, Tokens};

/// The largest number that is a size.
const LARGEST: u64 = 1 << 20;
/// The largest number of repetitions of a body.
const LARGEST_UNROLL: u64 = 64;
/// Numbers of elements of the vectors that machines have.
const LANES: [u64; 3] = [4, 8, 16];
/// Words of integer types before the name of a constant.
const INTEGERS: [&str; 13] = [
    "int",
    "long",
    "short",
    "unsigned",
    "signed",
    "size_t",
    "ptrdiff_t",
    "auto",
    "int32_t",
    "int64_t",
    "uint32_t",
    "uint64_t",
    "const",
];

/// The use of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The size of a tile, of a step or of an array.
    Size,
    /// Repetitions of a loop's body.
    Unroll,
    /// The bytes of a vector.
    VectorBytes,
}

/// A number that acts as a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// The first byte of its digits.
    pub start: usize,
    /// The byte behind its digits.
    pub end: usize,
    /// Its value.
    pub value: u64,
    /// Its use.
    pub role: Role,
}

impl Size {
    /// Another value near this one. Half and double are as likely as all others together.
    pub fn neighbour(&self, rng: &mut impl Rng) -> Option<u64> {
        let value = self.value;
        let largest = match self.role {
            Role::VectorBytes => {
                let near = [value / 2, value * 2];
                let near: Vec<u64> = near
                    .into_iter()
                    .filter(|n| [16, 32, 64].contains(n))
                    .collect();
                return one_of(&near, rng);
            }
            Role::Unroll => LARGEST_UNROLL,
            Role::Size => LARGEST,
        };
        let fits = |n: &u64| (1..=largest).contains(n) && *n != value;
        let scaled = [value / 2, value * 2].into_iter().filter(fits);
        let scaled: Vec<u64> = scaled.collect();
        let lanes = LANES
            .iter()
            .flat_map(|n| [value + n, value.saturating_sub(*n)]);
        let odd = [value + 1, value - 1, value + value / 2];
        let shifted: Vec<u64> = lanes.chain(odd).filter(fits).collect();
        let (first, second) = match rng.random_bool(0.5) {
            true => (scaled, shifted),
            false => (shifted, scaled),
        };
        one_of(&first, rng).or_else(|| one_of(&second, rng))
    }
}

fn one_of(values: &[u64], rng: &mut impl Rng) -> Option<u64> {
    match values.len() {
        0 => None,
        count => Some(values[rng.random_range(0..count)]),
    }
}

/// The sizes of a program in C or C++.
pub(super) fn of_c(tokens: &Tokens<'_>) -> Vec<Size> {
    let mut found = Finder::new(tokens, false);
    for at in 0..tokens.all.len() {
        let open = at + 1;
        let within = |at: usize| tokens.partner(at).map(|close| at + 1..close);
        match tokens.text(at) {
            "for" | "while" if tokens.text(open) == "(" => {
                found.uses(within(open), Role::Size);
            }
            "vector_size" | "__vector_size__" if tokens.text(open) == "(" => {
                found.uses(within(open), Role::VectorBytes);
            }
            "[" if is_dimension(tokens, at) => found.uses(within(at), Role::Size),
            "simdlen" if tokens.all[at].directive > 0 => found.uses(within(open), Role::Size),
            "unroll" | "unroll_count" if tokens.all[at].directive > 0 => {
                found.uses(Some(open..tokens.directive(at).end), Role::Unroll);
            }
            "define" if at > 0 && tokens.text(at - 1) == "#" => {
                let body = open + 1..tokens.directive(at).end;
                // A macro with arguments is no constant.
                let is_function = tokens.text(body.start) == "("
                    && tokens.all[body.start].start == tokens.all[open].end;
                if tokens.is_word(open) && !is_function {
                    found.define(open, body);
                }
            }
            "enum" => enumerators(tokens, at, &mut found),
            "=" if tokens.text(open) != "=" && at > 0 => constant(tokens, at, &mut found),
            _ => {}
        }
    }
    found.sizes()
}

/// True if a bracket holds the dimension of an array where that is declared: a type's word precedes the name. Other dimensions may
/// stand between.
fn is_dimension(tokens: &Tokens<'_>, mut at: usize) -> bool {
    while at > 0 && tokens.text(at - 1) == "]" {
        match tokens.partner(at - 1) {
            Some(open) => at = open,
            None => return false,
        }
    }
    let Some(before) = at.checked_sub(2) else {
        return false;
    };
    let is_statement = matches!(tokens.text(before), "return" | "else" | "do" | "case");
    tokens.is_word(at - 1) && tokens.is_word(before) && !is_statement
}

/// Notes the constants of the enumeration whose keyword is at `at`.
fn enumerators(tokens: &Tokens<'_>, at: usize, found: &mut Finder<'_, '_>) {
    let mut open = at + 1;
    while tokens.is_word(open) {
        open += 1;
    }
    let Some(close) = tokens.partner(open).filter(|_| tokens.text(open) == "{") else {
        return;
    };
    let mut name = open + 1;
    while name < close {
        let end = (name..close)
            .find(|at| tokens.text(*at) == ",")
            .unwrap_or(close);
        if tokens.is_word(name) && tokens.text(name + 1) == "=" {
            found.define(name, name + 2..end);
        }
        name = end + 1;
    }
}

/// Notes the constant that the sign `=` at `at` defines: what the value of a variable depends on if the variable is constant, and
/// else a value that is a mere number.
fn constant(tokens: &Tokens<'_>, at: usize, found: &mut Finder<'_, '_>) {
    let name = at - 1;
    let Some(before) = name.checked_sub(1).filter(|_| tokens.is_word(name)) else {
        return;
    };
    if !INTEGERS.contains(&tokens.text(before)) {
        return;
    }
    let ends = |at: &usize| matches!(tokens.text(*at), ";" | "," | "" | "{" | "}");
    let end = (at + 1..=tokens.all.len()).find(ends).unwrap_or(at + 1);
    let words = before.saturating_sub(3)..=before;
    let mut words = words.map(|at| tokens.text(at));
    let is_constant = words.any(|word| matches!(word, "const" | "constexpr"));
    if is_constant || end == at + 2 {
        found.define(name, at + 1..end);
    }
}

/// The sizes of a program in Fortran.
pub(super) fn of_fortran(tokens: &Tokens<'_>) -> Vec<Size> {
    let mut found = Finder::new(tokens, true);
    let count = tokens.all.len();
    // The end of the statement of a token, as far as its line shows it.
    let end_of_line = |at: usize| {
        let ends = |next: &usize| {
            let is_new = tokens.all[*next].line != tokens.all[*next - 1].line;
            (is_new && tokens.text(*next - 1) != "&") || tokens.text(*next) == ";"
        };
        (at + 1..count).find(ends).unwrap_or(count)
    };
    for at in 0..count {
        if !tokens.is_word(at) {
            continue;
        }
        let hint = tokens.all[at].directive > 0;
        match tokens.text(at).to_ascii_lowercase().as_str() {
            "unroll" if hint => {
                found.uses(Some(at + 1..tokens.directive(at).end), Role::Unroll);
            }
            "do" if !hint => {
                // A label may stand behind the word.
                let label = usize::from(tokens.kind(at + 1) == Some(Kind::Number));
                found.uses(Some(at + 1 + label..end_of_line(at)), Role::Size);
            }
            "parameter" if !hint => {
                let end = end_of_line(at);
                for sign in at + 1..end {
                    let is_name = tokens.is_word(sign - 1);
                    if tokens.text(sign) == "=" && is_name {
                        let ends = |at: &usize| matches!(tokens.text(*at), "," | ")");
                        let until = (sign + 1..end).find(ends).unwrap_or(end);
                        found.define(sign - 1, sign + 1..until);
                    }
                }
            }
            _ => {}
        }
    }
    found.sizes()
}

/// Collects sizes.
struct Finder<'t, 's> {
    tokens: &'t Tokens<'s>,
    /// True for a language whose names have no case.
    folds: bool,
    /// The tokens that use numbers as sizes.
    used: Vec<(Range<usize>, Role)>,
    /// The tokens that define a name.
    definitions: HashMap<String, Vec<Range<usize>>>,
}

impl<'t, 's> Finder<'t, 's> {
    fn new(tokens: &'t Tokens<'s>, folds: bool) -> Self {
        Self {
            tokens,
            folds,
            used: Vec::new(),
            definitions: HashMap::new(),
        }
    }

    fn uses(&mut self, range: Option<Range<usize>>, role: Role) {
        self.used.extend(range.map(|range| (range, role)));
    }

    fn define(&mut self, name: usize, body: Range<usize>) {
        let name = self.name(name);
        self.definitions.entry(name).or_default().push(body);
    }

    fn name(&self, at: usize) -> String {
        let text = self.tokens.text(at);
        match self.folds {
            true => text.to_ascii_lowercase(),
            false => text.to_owned(),
        }
    }

    /// All sizes, in the order of the source.
    fn sizes(mut self) -> Vec<Size> {
        let mut sizes: BTreeMap<usize, Size> = BTreeMap::new();
        let mut known: BTreeSet<String> = BTreeSet::new();
        while let Some((range, role)) = self.used.pop() {
            for at in range {
                match self.tokens.kind(at) {
                    Some(Kind::Number) => {
                        if let Some(size) = self.size(at, role) {
                            sizes.entry(size.start).or_insert(size);
                        }
                    }
                    Some(Kind::Word) => {
                        let name = self.name(at);
                        if let Some(bodies) = self.definitions.get(&name)
                            && known.insert(name)
                        {
                            let bodies = bodies.iter().cloned();
                            self.used.extend(bodies.map(|body| (body, role)));
                        }
                    }
                    _ => {}
                }
            }
        }
        sizes.into_values().collect()
    }

    /// A number that can be a size of this role: a whole number in decimal digits, perhaps with a suffix.
    fn size(&self, at: usize, role: Role) -> Option<Size> {
        let (token, text) = (self.tokens.all.get(at)?, self.tokens.text(at));
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let suffix = &text[digits..];
        let is_suffix = match self.folds {
            true => suffix.is_empty() || suffix.starts_with('_'),
            false => suffix.chars().all(|c| "uUlLzZ".contains(c)),
        };
        let is_octal = digits > 1 && text.starts_with('0');
        let value: u64 = text[..digits].parse().ok()?;
        let least = match role {
            // 0 and 1 begin and step loops.
            Role::Size => 2,
            Role::Unroll | Role::VectorBytes => 1,
        };
        let fits = is_suffix && !is_octal && (least..=LARGEST).contains(&value);
        fits.then_some(Size {
            start: token.start,
            end: token.start + digits,
            value,
            role,
        })
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_problem::Language;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn values(source: &str, language: Language) -> Vec<u64> {
        let tokens = Tokens::of(source, language);
        let sizes = match language {
            Language::C | Language::Cxx => of_c(&tokens),
            _ => of_fortran(&tokens),
        };
        sizes.into_iter().map(|size| size.value).collect()
    }

    #[test]
    fn sizes_of_c_are_those_that_loops_and_vectors_depend_on() {
        let source = "\
#define TILE 64 // not 65
#define HALF (TILE / 2)
#define UNUSED 97
#define SQUARE(x) ((x) * 93)
enum { MR = 6, NR = MR * 4, OTHER = 91 };
typedef double v4 __attribute__((vector_size(32)));
static const int depth = 128u;
double scale = 77;
void f(int n, double *a) {
    int step = 12;
    int plain = 89;
    const int end = n - 88 * plain;
    double acc[NR][16];
    double x = a[41] * 3.5 + depth;
#pragma GCC unroll 5
    for (int i = 0; i < n; i += TILE)
        for (int j = i; j < i + HALF && j < end; j += step)
            for (int k = 0; k < 010 + 0x20; k += 1) acc[k][7] = a[3];
}
";
        let found = values(source, Language::C);
        // `depth` stands in no loop, and 77, 41 and 3 are no sizes.
        assert_eq!(found, [64, 2, 6, 4, 32, 12, 89, 88, 16, 5]);
    }

    #[test]
    fn sizes_of_fortran_are_those_of_loops_and_parameters() {
        let source = "\
subroutine f(n, a) bind(c)
  integer, parameter :: NB = 48, other = 97
  integer(kind=8), parameter :: last = nb * 3
  parameter (m = 24)
  !GCC$ unroll 4
  do 10 i = 1, n, nb ! 65
    do j = i, min(i + last, n, &
        m), 2
      a(95) = 3.5
    end do
10 continue
end subroutine
";
        let found = values(source, Language::Fortran);
        assert_eq!(found, [48, 3, 24, 4, 2]);
    }

    proptest! {
        #[test]
        fn a_neighbour_differs_and_stays_in_bounds(value in 1u64..=LARGEST, seed: u64, kind in 0usize..3) {
            let role = [Role::Size, Role::Unroll, Role::VectorBytes][kind];
            let size = Size { start: 0, end: 1, value, role };
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            match size.neighbour(&mut rng) {
                Some(other) => {
                    prop_assert_ne!(other, value);
                    prop_assert!((1..=LARGEST).contains(&other));
                    prop_assert!(role != Role::Unroll || other <= LARGEST_UNROLL);
                }
                None => prop_assert!(role != Role::Size, "{value}"),
            }
        }
    }
}
