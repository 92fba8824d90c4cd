//! Draws a nest.

use flopsmith_problem::{Element, Role};
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::model::{
    Access, Array, Extent, Loop, More, Nest, Plus, Size, Statement, Style, Subscript, Term, Update,
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

/// What a statement computes.
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

/// What the statements compute.
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

    /// The targets of the statements whose loops the next statement shares.
    fn shared_targets(&self, shares: bool) -> Vec<Access> {
        let mut all = Vec::new();
        for statement in self.nest.statements.iter().rev().take_while(|_| shares) {
            all.push(statement.target.clone());
            if !statement.shares {
                break;
            }
        }
        all
    }

    /// An element with the iterators of these loops: of an array that fits, or of a new input.
    fn access(
        &mut self,
        loops: &[Loop],
        which: &[usize],
        used: &[Access],
        shares: bool,
    ) -> Access {
        let extents = plain_extents(loops, which);
        let subscripts: Vec<Subscript> = which.iter().map(|l| Subscript::of(*l)).collect();
        // In shared loops only the element that was just written is finished.
        let targets = self.shared_targets(shares);
        let finished = |access: &Access| {
            let mut same = targets.iter().filter(|t| t.array == access.array);
            same.all(|target| target == access)
        };
        let fitting = self.nest.arrays.iter().enumerate();
        let fitting: Vec<(Role, Access)> = fitting
            .filter(|(_, array)| array.extents == extents)
            .map(|(number, array)| {
                let access = Access {
                    array: number,
                    subscripts: subscripts.clone(),
                };
                (array.role, access)
            })
            .filter(|(_, access)| finished(access) && !used.contains(access))
            .collect();
        if let Some((role, access)) = fitting.choose(self.rng) {
            let share = match role {
                Role::Input => 0.2,
                Role::Output | Role::InOut => 0.7,
            };
            if self.rng.random_bool(share) {
                return access.clone();
            }
        }
        Access {
            array: self.new_array(Role::Input, extents),
            subscripts,
        }
    }

    /// An element of a result of an earlier statement, if one fits these loops.
    fn chained(&mut self, loops: &[Loop], shares: bool) -> Option<Access> {
        let targets = self.shared_targets(shares);
        if let Some(target) = targets.first() {
            return Some(target.clone());
        }
        let mut all = Vec::new();
        for statement in &self.nest.statements {
            let array = statement.target.array;
            let mut which: Vec<usize> = Vec::new();
            for extent in &self.nest.arrays[array].extents {
                let mut free = (0..loops.len()).filter(|l| !which.contains(l));
                match free.find(|l| loops[*l].size == extent.size) {
                    Some(found) => which.push(found),
                    None => break,
                }
            }
            if which.len() == self.nest.arrays[array].extents.len() {
                let subscripts = which.into_iter().map(Subscript::of).collect();
                all.push(Access { array, subscripts });
            }
        }
        all.choose(self.rng).cloned()
    }

    /// Some of the loops, with those that must be among them.
    fn some_loops(&mut self, count: usize, must: &[usize]) -> Vec<usize> {
        let wanted: usize = pick(self.rng, [(2, 1), (6, 2), (2, 3)]);
        let mut others: Vec<usize> = (0..count).filter(|l| !must.contains(l)).collect();
        others.shuffle(self.rng);
        let more = wanted.saturating_sub(must.len());
        let mut which: Vec<usize> = must.iter().copied().chain(others.into_iter().take(more)).collect();
        which.sort_unstable();
        if self.chance(0.3) {
            which.shuffle(self.rng);
        }
        which
    }

    /// So many elements, or one more, that together move with every loop. No two are the same.
    fn factors(&mut self, loops: &[Loop], count: usize, shares: bool) -> Vec<Access> {
        let mut all: Vec<Access> = Vec::new();
        if self.chance(0.75) {
            all.extend(self.chained(loops, shares));
        }
        loop {
            let left: Vec<usize> = (0..loops.len())
                .filter(|l| !all.iter().any(|access| access.moves(*l)))
                .collect();
            if all.len() >= count && left.is_empty() {
                return all;
            }
            let must = match all.len() + 1 >= count {
                true => left,
                false => Vec::new(),
            };
            let which = self.some_loops(loops.len(), &must);
            let access = self.access(loops, &which, &all, shares);
            all.push(access);
        }
    }

    fn elementwise(&mut self, loops: &[Loop], shares: bool) -> Term {
        let most = if self.several { 2 } else { 3 };
        let count = self.rng.random_range(1..=most);
        let mut value: Option<Term> = None;
        for factor in self.factors(loops, count, shares) {
            let mut term = Term::Read(factor);
            if self.chance(0.35) {
                term = self.scaled(term);
            }
            value = Some(match value {
                None => term,
                Some(before) => match pick(self.rng, [(4, '+'), (3, '-'), (3, '*')]) {
                    '+' => before.plus(term),
                    '-' => before.minus(term),
                    _ => before.times(term),
                },
            });
        }
        let mut value = value.unwrap_or(Term::Number("1"));
        if value.operations() == 0 {
            value = self.scaled(value);
        }
        if self.nest.floats() && self.chance(0.08) {
            value = Term::Over(Box::new(value), self.scalar());
        }
        value
    }

    /// What is summed up.
    fn summed(&mut self, loops: &[Loop], sums: usize) -> Term {
        let form = pick(
            self.rng,
            [(6, "product"), (2, "two"), (2, "distance"), (1, "mixed")],
        );
        let product = |factors: Vec<Access>| -> Term {
            let mut all = factors.into_iter().map(Term::Read);
            let first = all.next().unwrap_or(Term::Number("1"));
            all.fold(first, Term::times)
        };
        match form {
            "two" if !self.several => {
                let all = self.factors(loops, 4, false);
                let (a, b) = all.split_at(all.len() / 2);
                product(a.to_vec()).plus(product(b.to_vec()))
            }
            "distance" => {
                let mut all = self.factors(loops, 2, false).into_iter().map(Term::Read);
                match (all.next(), all.next()) {
                    (Some(a), Some(b)) => {
                        let distance = a.minus(b);
                        all.fold(distance.clone().times(distance), Term::times)
                    }
                    (a, _) => a.unwrap_or(Term::Number("1")),
                }
            }
            "mixed" if !self.several => {
                let mut all = self.factors(loops, 3, false).into_iter().map(Term::Read);
                match (all.next(), all.next()) {
                    (Some(a), Some(b)) => all.fold(a.plus(b), Term::times),
                    (a, _) => a.unwrap_or(Term::Number("1")),
                }
            }
            _ => {
                let most = if self.several { 2 } else { 3 };
                let count = pick(self.rng, [(2, 1), (7, 2), (2, most)]);
                let factors = self.factors(loops, count, false);
                if let [first, _] = factors.as_slice() {
                    self.mark_product(loops, sums, first);
                }
                product(factors)
            }
        }
    }

    /// Marks the first factor of a matrix product, if its rows are rows of the result.
    fn mark_product(&mut self, loops: &[Loop], sums: usize, first: &Access) {
        let rows = first.subscripts.first().map(|s| s.over);
        let is_product = loops.len() == 3
            && sums == 1
            && first.subscripts.len() == 2
            && rows.is_some_and(|l| l + sums < loops.len())
            && first.moves(2);
        let array = &mut self.nest.arrays[first.array];
        array.graded = is_product && array.role == Role::Input && self.nest.element.is_float();
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

    fn stencil(&mut self, loops: &[Loop]) -> Term {
        let count = loops.len();
        let mut along: Vec<usize> = (0..count).collect();
        along.retain(|_| self.rng.random_bool(0.7));
        if along.is_empty() {
            along.push(count - 1);
        }
        let mut order: Vec<usize> = (0..count).collect();
        if self.chance(0.15) {
            order.shuffle(self.rng);
        }
        let extents = order.iter().map(|l| Extent {
            size: loops[*l].size,
            more: match along.contains(l) {
                true => More::Halo,
                false => More::Nothing,
            },
        });
        let array = self.new_array(Role::Input, extents.collect());
        let point = |moved: Option<(usize, i64)>| {
            let subscripts = order.iter().map(|l| {
                let by = match moved {
                    Some((which, by)) if which == *l => by,
                    _ => 1,
                };
                Subscript {
                    over: *l,
                    plus: match (along.contains(l), by) {
                        (false, _) | (true, 0) => Plus::Nothing,
                        (true, by) => Plus::Number(by),
                    },
                }
            });
            Term::Read(Access {
                array,
                subscripts: subscripts.collect(),
            })
        };
        let mut around = Vec::new();
        for l in &along {
            let (before, behind) = (point(Some((*l, 0))), point(Some((*l, 2))));
            match pick(self.rng, [(8, 0), (1, 1), (1, 2)]) {
                0 => around.extend([before, behind]),
                1 => around.push(before),
                _ => around.push(behind),
            }
        }
        let center = point(None);
        let value = self.combined(center, around);
        if !self.chance(0.3) {
            return value;
        }
        let every: Vec<usize> = (0..count).collect();
        let chained = self.chained(loops, false);
        let other = chained.unwrap_or_else(|| self.access(loops, &every, &[], false));
        match pick(self.rng, [(2, true), (1, false)]) {
            true => value.plus(Term::Read(other)),
            false => Term::Read(other).times(value),
        }
    }

    /// The points of a stencil in one value.
    fn combined(&mut self, center: Term, around: Vec<Term>) -> Term {
        let sum = |all: Vec<Term>| {
            let sum = all.into_iter().reduce(Term::plus);
            sum.unwrap_or(Term::Number("1"))
        };
        match pick(self.rng, [(3, 0), (4, 1), (2, 2), (1, 3)]) {
            0 => {
                let all = around.into_iter().chain([center]);
                let all: Vec<Term> = all.map(|point| self.scaled(point)).collect();
                sum(all)
            }
            1 => {
                let (inner, outer) = (self.number(), self.number());
                inner.times(center).plus(outer.times(sum(around)))
            }
            2 => {
                let all: Vec<Term> = around.into_iter().chain([center]).collect();
                self.scaled(sum(all))
            }
            _ => {
                let all = [center].into_iter().chain(around);
                let difference = all.reduce(Term::minus).unwrap_or(Term::Number("1"));
                self.scaled(difference)
            }
        }
    }

    /// Products with the elements of a window that begins at an element of an input.
    fn windowed(&mut self, loops: &mut Vec<Loop>) -> Term {
        let outer = loops.len();
        let known = self.nest.sizes.iter().position(|s| s.window);
        let size = known.unwrap_or_else(|| {
            self.nest.sizes.push(Size::new(self.window, true));
            self.nest.sizes.len() - 1
        });
        loops.push(Loop { size, up_to: None });
        let along = self.rng.random_range(0..outer);
        let extents = (0..outer).map(|l| Extent {
            size: loops[l].size,
            more: match l == along {
                true => More::Window(size),
                false => More::Nothing,
            },
        });
        let array = self.new_array(Role::Input, extents.collect());
        let subscripts = (0..outer).map(|l| Subscript {
            over: l,
            plus: match l == along {
                true => Plus::Loop(outer),
                false => Plus::Nothing,
            },
        });
        let image = Access {
            array,
            subscripts: subscripts.collect(),
        };
        let mut which: Vec<usize> = (0..outer).filter(|l| *l != along).collect();
        which.retain(|_| self.rng.random_bool(0.4));
        which.push(outer);
        let weight = self.access(loops, &which, &[], false);
        Term::Read(weight).times(Term::Read(image))
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
