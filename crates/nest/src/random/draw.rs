//! Draws a nest.

mod reads;
mod values;

use flopsmith_problem::{Element, Role};
use rand::Rng;
use rand::seq::SliceRandom;

use super::model::{
    Access, Array, Extent, Loop, More, Nest, Size, Statement, Style, Subscript, Term, Update,
};

/// Names of iterators; those of a nest are one row.
const ITERATORS: [[&str; 4]; 4] = [
    ["i", "j", "k", "l"],
    ["r", "s", "t", "u"],
    ["i", "j", "r", "s"],
    ["a", "b", "c", "d"],
];
/// Names of sizes; the last of a row is that of a window.
const SIZES: [[&str; 4]; 4] = [
    ["n", "m", "p", "q"],
    ["ni", "nj", "nk", "nw"],
    ["rows", "cols", "depth", "width"],
    ["h", "w", "e", "f"],
];
/// Names of arrays: none begins or ends as names of emitted programs do.
const ARRAYS: [&str; 26] = [
    "A", "B", "C", "D", "E", "F", "G", "H", "M", "P", "Q", "R", "S", "T", "U", "V", "W", "X", "Y",
    "Z", "in", "out", "src", "dst", "grid", "field",
];
const SCALARS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
/// Names of the local number that takes a sum.
const LOCALS: [&str; 3] = ["sum", "acc", "total"];
/// Factors that single precision holds exactly.
const FRACTIONS: [&str; 6] = ["0.125", "0.25", "0.5", "0.75", "1.5", "3.0"];
const INTEGERS: [&str; 4] = ["2", "3", "4", "5"];

/// Most scalars of a nest.
const MOST_SCALARS: usize = 3;
/// The largest size of a loop.
const MOST: i64 = 1 << 20;
/// The longest sum in single precision: a longer one would need a bound that admits half of the digits.
const LONGEST_SINGLE_SUM: i64 = 160;
/// The longest window.
const LONGEST_WINDOW: i64 = 7;

/// The kinds of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Each element by itself.
    Elementwise,
    /// Sums of products or of squared differences.
    Sum,
    /// Neighbours in one input.
    Stencil,
    /// Sums of products with a short window.
    Window,
}

/// One of several values by weight.
fn pick<T: Copy, const N: usize>(rng: &mut impl Rng, choices: [(u32, T); N]) -> T {
    let total: u32 = choices.iter().map(|(weight, _)| weight).sum();
    let mut left = rng.random_range(0..total);
    for (weight, value) in choices {
        if left < weight {
            return value;
        }
        left -= weight;
    }
    choices[N - 1].1
}

fn any<T: Copy>(rng: &mut impl Rng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

/// Draws a nest.
pub(super) fn nest(rng: &mut impl Rng) -> Nest {
    let element = pick(
        rng,
        [(6, Element::F64), (3, Element::F32), (1, Element::I32)],
    );
    let kinds = kinds(rng, element);
    let several = kinds.len() > 1;
    // The loops of each statement, without that over a window.
    let counts: Vec<usize> = kinds
        .iter()
        .map(|kind| match kind {
            Kind::Elementwise | Kind::Stencil => pick(rng, [(2, 1), (4, 2), (3, 3)]),
            Kind::Sum => pick(rng, [(2, 2), (3, 3)]),
            Kind::Window => pick(rng, [(1, 1), (2, 2)]),
        })
        .collect();
    let most = counts.iter().copied().max().unwrap_or(1);
    // The length of sums in single precision is limited, and other sizes make up for it.
    let fewest = if element == Element::F32 { 2 } else { 1 };
    let sizes = pick(rng, [(2, 1), (4, 2), (4, 3)]).max(fewest).min(most);
    let names = any(rng, &SIZES);
    let nest = Nest {
        element,
        sizes: (0..sizes).map(|n| Size::new(names[n], false)).collect(),
        iterators: any(rng, &ITERATORS),
        local: any(rng, &LOCALS),
        scalars: Vec::new(),
        arrays: Vec::new(),
        statements: Vec::new(),
    };
    let mut arrays = ARRAYS.to_vec();
    arrays.shuffle(rng);
    let mut draw = Draw {
        rng,
        nest,
        arrays,
        window: names[3],
        several,
    };
    for (kind, count) in kinds.into_iter().zip(counts) {
        draw.statement(kind, count);
    }
    draw.values_of_sizes();
    draw.grades();
    draw.nest
}

/// The kinds of the nest's statements.
fn kinds(rng: &mut impl Rng, element: Element) -> Vec<Kind> {
    let count = pick(rng, [(6, 1), (3, 2), (1, 3)]);
    let mut kinds: Vec<Kind> = Vec::new();
    for _ in 0..count {
        let kind = pick(
            rng,
            [
                (3, Kind::Elementwise),
                (5, Kind::Sum),
                (2, Kind::Stencil),
                (1, Kind::Window),
            ],
        );
        // The bound of a sum of sums would admit half of the digits of single precision.
        let second = element == Element::F32 && kind == Kind::Sum && kinds.contains(&Kind::Sum);
        kinds.push(match second {
            true => Kind::Elementwise,
            false => kind,
        });
    }
    kinds
}

impl Size {
    fn new(name: &'static str, window: bool) -> Self {
        Self {
            name,
            window,
            cap: MOST,
            even: 0,
            odd: 0,
            most: 0,
        }
    }
}

struct Draw<'a, R> {
    rng: &'a mut R,
    nest: Nest,
    /// Names of arrays in the order in which they are used.
    arrays: Vec<&'static str>,
    /// The name of the length of a window.
    window: &'static str,
    /// True if the nest has several statements, which are shorter then.
    several: bool,
}

impl<R: Rng> Draw<'_, R> {
    fn chance(&mut self, p: f64) -> bool {
        self.rng.random_bool(p)
    }

    fn statement(&mut self, kind: Kind, count: usize) {
        let before = self.nest.statements.last();
        let same = before.filter(|s| kind == Kind::Elementwise && s.sums == 0);
        let same = same.map(|s| s.loops.clone());
        let shared = same.filter(|_| self.rng.random_bool(0.4));
        let shares = shared.is_some();
        let mut loops = shared.unwrap_or_else(|| self.loops(count));
        let mut sums = 0;
        let value = match kind {
            Kind::Elementwise => self.elementwise(&loops, shares),
            Kind::Stencil => self.stencil(&loops),
            Kind::Window => {
                sums = 1;
                self.windowed(&mut loops)
            }
            Kind::Sum => {
                let single = self.nest.element == Element::F32;
                let two = loops.len() == 3 && !single && self.chance(0.2);
                sums = 1 + usize::from(two);
                self.ends(&mut loops, sums);
                self.summed(&loops, sums)
            }
        };
        let update = self.update(kind);
        // An integer that begins as 0 is no local number to the reader.
        let local = self.nest.floats()
            && update != Update::Add
            && (self.nest.element == Element::F32 || self.chance(0.5));
        let style = match local {
            true => Style::Local,
            false => Style::Memory,
        };
        let (mut whole, mut value) = (None, value);
        if sums > 0 && self.nest.floats() && self.chance(0.3) {
            let scalar = self.scalar();
            if local && update == Update::Set && self.chance(0.5) {
                whole = Some(scalar);
            } else {
                value = Term::Scalar(scalar).times(value);
            }
        }
        let target = self.target(&loops, loops.len() - sums, update);
        self.nest.statements.push(Statement {
            loops,
            sums,
            shares,
            target,
            update,
            whole,
            style,
            value,
        });
    }

    fn update(&mut self, kind: Kind) -> Update {
        let (add, scale) = match kind {
            Kind::Sum => (2, 2),
            Kind::Elementwise | Kind::Stencil => (1, 1),
            Kind::Window => (1, 0),
        };
        let choice = pick(self.rng, [(8, 0), (add, 1), (scale, 2)]);
        match choice {
            1 => Update::Add,
            2 if self.nest.floats() => Update::Scale(self.scalar()),
            _ => Update::Set,
        }
    }

    /// Loops over all sizes in any order, some of them several times.
    fn loops(&mut self, count: usize) -> Vec<Loop> {
        let mut order: Vec<usize> = (0..self.nest.sizes.len())
            .filter(|n| !self.nest.sizes[*n].window)
            .collect();
        order.shuffle(self.rng);
        let sizes = order.into_iter().cycle().take(count);
        sizes.map(|size| Loop { size, up_to: None }).collect()
    }

    /// Says where the loops of a sum end.
    fn ends(&mut self, loops: &mut [Loop], sums: usize) {
        let outer = loops.len() - sums;
        if self.nest.element == Element::F32 {
            for l in loops.iter().skip(outer) {
                self.nest.sizes[l.size].cap = LONGEST_SINGLE_SUM;
            }
        }
        let last = loops.len() - 1;
        let size = loops[last].size;
        let along = loops[..outer].iter().rposition(|l| l.size == size);
        if sums == 1 && self.chance(0.3) {
            loops[last].up_to = along;
        }
    }

    fn new_array(&mut self, role: Role, extents: Vec<Extent>) -> usize {
        let number = self.nest.arrays.len();
        self.nest.arrays.push(Array {
            name: self.arrays[number % self.arrays.len()],
            role,
            extents,
            graded: false,
        });
        number
    }

    /// A scalar: one that is there or a new one.
    fn scalar(&mut self) -> usize {
        let known = self.nest.scalars.len();
        if known > 0 && (known == MOST_SCALARS || self.chance(0.5)) {
            return self.rng.random_range(0..known);
        }
        self.nest.scalars.push(SCALARS[known]);
        known
    }

    fn number(&mut self) -> Term {
        Term::Number(match self.nest.floats() {
            true => any(self.rng, &FRACTIONS),
            false => any(self.rng, &INTEGERS),
        })
    }

    /// The value times a factor.
    fn scaled(&mut self, value: Term) -> Term {
        let factor = if self.nest.floats() && self.chance(0.5) {
            Term::Scalar(self.scalar())
        } else {
            self.number()
        };
        factor.times(value)
    }

    /// A new array that a statement writes.
    fn target(&mut self, loops: &[Loop], outer: usize, update: Update) -> Access {
        let mut order: Vec<usize> = (0..outer).collect();
        if self.chance(0.15) {
            order.shuffle(self.rng);
        }
        let role = match update {
            Update::Set => Role::Output,
            Update::Add | Update::Scale(_) => Role::InOut,
        };
        let array = self.new_array(role, plain_extents(loops, &order));
        Access {
            array,
            subscripts: order.into_iter().map(Subscript::of).collect(),
        }
    }

    /// Decides which marked arrays are graded: those that one access reads, of a statement that overwrites its result. Beside other
    /// terms, small rows would not matter.
    fn grades(&mut self) {
        let mut reads = vec![0; self.nest.arrays.len()];
        for statement in &self.nest.statements {
            let weight = match statement.update {
                Update::Set => 1,
                Update::Add | Update::Scale(_) => 2,
            };
            statement
                .value
                .accesses(&mut |access| reads[access.array] += weight);
        }
        for (array, reads) in self.nest.arrays.iter_mut().zip(reads) {
            array.graded &= reads == 1;
        }
    }

    /// Chooses how large the sizes are: a call of the plain loops should take some tenths of a millisecond to some milliseconds.
    fn values_of_sizes(&mut self) {
        let mut statements = self.nest.statements.iter();
        let deep = statements.any(|s| s.loops.len() == 3 && s.sums > 0);
        let (least, most) = if deep { (18, 21) } else { (17, 19) };
        let wanted: i64 = self.rng.random_range(1 << least..=1 << most);
        for size in &mut self.nest.sizes {
            size.even = match size.window {
                true => any(self.rng, &[3, 4, 5, LONGEST_WINDOW]),
                false => self.rng.random_range(6..=14),
            };
        }
        while self.nest.iterations() < wanted {
            let sizes = self.nest.sizes.iter_mut();
            let mut grown = false;
            for size in sizes.filter(|s| !s.window && s.even < s.cap) {
                size.even = (size.even + size.even / 4 + 1).min(size.cap);
                grown = true;
            }
            if !grown {
                break;
            }
        }
        for size in &mut self.nest.sizes {
            if size.window {
                size.odd = any(self.rng, &[3, 5, LONGEST_WINDOW]);
                size.most = LONGEST_WINDOW;
                continue;
            }
            size.even = (size.even / 8 * 8).max(8);
            size.odd = self.rng.random_range(size.even * 3 / 4..size.even) | 1;
            size.most = size.even * 5 / 4;
        }
    }
}

/// Extents of an array whose subscripts are the iterators of these loops.
fn plain_extents(loops: &[Loop], which: &[usize]) -> Vec<Extent> {
    let sizes = which.iter().map(|l| loops[*l].size);
    let extents = sizes.map(|size| Extent {
        size,
        more: More::Nothing,
    });
    extents.collect()
}
