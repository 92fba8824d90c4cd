//! Looks for work on timed inputs that a program could leave out.
//!
//! A program that looks for an easy kind of input, and otherwise takes the usual way, is right for all inputs. It is
//! fast only because timed inputs are of that kind, and then it does the work of another problem. This module looks for
//! such kinds in the values, and, if the outputs show which problem this is, by the short cuts that are known for the
//! problem. This module calls no program; `probes` finds out which inputs matter.

use flopsmith_harness::Content;
use flopsmith_harness::control::Element;
use flopsmith_problem::Finding;

use crate::supervise::Array;

/// Fewer elements than this show no kind of inputs.
const FEW: usize = 32;
/// A larger share than this of equal adjacent values, zeros, ordered pairs and the like is a structure.
const MOST: f64 = 0.9;
/// A larger share of zeros than this is worth leaving out.
const SPARSE: f64 = 0.25;
/// Values are few if there is less than one different value in this many elements.
const DISTINCT: usize = 16;
/// Shares of edges that are the shortest way between their ends: below this range a sparse graph will do, above it no
/// work is left.
const EDGES: std::ops::RangeInclusive<f64> = 0.25..=0.9;
/// Rows that a bound rules out are worth skipping if their share is larger than this.
const SKIPPED: f64 = 0.25;
/// Numbers that a program may sum in one register of narrow numbers.
const SUMMED: usize = 16;
/// Places of a sorted row by which a guess may miss.
const NEAR: usize = 4;

/// An array and its values before, or after, a timed call.
pub(super) struct Look<'a> {
    pub array: &'a Array,
    pub values: Vec<f64>,
}

impl Look<'_> {
    fn name(&self) -> &str {
        &self.array.name
    }

    fn is_integer(&self) -> bool {
        !self.array.element.is_float()
    }

    fn rows(&self) -> std::slice::Chunks<'_, f64> {
        self.values.chunks(self.array.columns())
    }
}

/// The easy properties of these inputs, whose outputs are given. Empty if there are none.
pub(super) fn easy(inputs: &[Look<'_>], outputs: &[Look<'_>]) -> Vec<Finding> {
    let mut found: Vec<String> = Vec::new();
    for input in inputs {
        if !matches!(input.array.content, Content::Offsets { .. }) && input.values.len() >= FEW {
            found.extend(order(input));
            found.extend(sameness(input, indexed_by(input, inputs, outputs)));
            found.extend(digits(input));
        }
        if matches!(input.array.content, Content::Offsets { .. }) {
            found.extend(even_offsets(input));
        }
    }
    for output in outputs {
        for input in inputs
            .iter()
            .filter(|input| input.array.dims == output.array.dims)
        {
            let same = share(input.values.iter().zip(&output.values).map(|(x, y)| x == y));
            if same > MOST {
                found.push(if input.name() == output.name() {
                    format!(
                        "{} of `{}` stays as it was: little work is left",
                        percent(same),
                        output.name()
                    )
                } else {
                    format!(
                        "{} of `{}` equals `{}`: little work is left",
                        percent(same),
                        output.name(),
                        input.name()
                    )
                });
            }
            if input.is_integer() && output.is_integer() {
                found.extend(shortest_paths(input, output));
                found.extend(sorted_rows(input, output));
                found.extend(running_sums(input, output));
            }
        }
    }
    found.extend(narrow(inputs, outputs));
    found.into_iter().map(Finding::Warning).collect()
}

/// The same findings: no warnings, where the definition gives the reason for its easy inputs.
pub(super) fn with_reason(found: Vec<Finding>, reason: Option<&str>) -> Vec<Finding> {
    let Some(reason) = reason else {
        return found;
    };
    let told = |finding| match finding {
        Finding::Warning(text) => Finding::Good(format!("{text} (`easy_inputs`: {reason})")),
        other => other,
    };
    found.into_iter().map(told).collect()
}

/// True if the values of an integer array choose elements of another array.
fn indexed_by(index: &Look<'_>, inputs: &[Look<'_>], outputs: &[Look<'_>]) -> bool {
    let most = index.values.iter().copied().fold(0.0, f64::max);
    let bounds = match index.array.content {
        Content::Range { low, high } | Content::Repeating { low, high } => (low, high),
        _ => return false,
    };
    let fits =
        |array: &Array| array.count() as f64 == bounds.1 + 1.0 && array.name != index.array.name;
    let mut others = inputs.iter().chain(outputs);
    index.is_integer()
        && bounds.0 == 0.0
        && most <= bounds.1
        && others.any(|other| fits(other.array))
}

fn share(hits: impl Iterator<Item = bool>) -> f64 {
    let (mut all, mut hit) = (0usize, 0usize);
    for is_hit in hits {
        all += 1;
        hit += usize::from(is_hit);
    }
    hit as f64 / all.max(1) as f64
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn order(input: &Look<'_>) -> Option<String> {
    let pairs = || input.rows().flat_map(|row| row.windows(2));
    let (up, down) = (
        share(pairs().map(|p| p[0] <= p[1])),
        share(pairs().map(|p| p[0] >= p[1])),
    );
    if pairs().count() < FEW || up.max(down) <= MOST || up + down > 1.0 + MOST {
        return None;
    }
    Some(format!(
        "`{}` is nearly sorted: {} of its neighbouring elements are in order",
        input.name(),
        percent(up.max(down))
    ))
}

fn sameness(input: &Look<'_>, index: bool) -> Option<String> {
    let name = input.name();
    let zeros = share(input.values.iter().map(|x| *x == 0.0));
    if zeros > SPARSE && !index {
        return Some(format!(
            "{} of `{name}` is zero: a program can leave out the terms with zeros",
            percent(zeros)
        ));
    }
    let wide = input.array.dims.len() >= 2 && input.array.columns() >= 8;
    let constant = share(input.rows().map(|row| row.iter().all(|x| *x == row[0])));
    if wide && constant > 0.05 {
        return Some(format!(
            "{} of the rows of `{name}` hold one value: a program needs no work for each element of such a row",
            percent(constant)
        ));
    }
    let mut sorted = input.values.clone();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    // Short types have few different numbers, whatever the content.
    let many = match input.array.element {
        Element::U8 => 128,
        Element::F16 | Element::Bf16 => 1024,
        _ => usize::MAX,
    };
    if !index && sorted.len() <= many && sorted.len() * DISTINCT < input.values.len().min(1 << 16) {
        return Some(format!(
            "`{name}` has only {} different values: a program can count them or use a table",
            sorted.len()
        ));
    }
    None
}

/// A finding if a shorter type also holds these floats.
fn digits(input: &Look<'_>) -> Option<String> {
    let (short, than): (fn(f64) -> bool, _) = match input.array.element {
        Element::F64 => (|x| f64::from(x as f32) == x, "single"),
        // The lower half of the digits of a float is zero.
        Element::F32 => (|x| (x as f32).to_bits() & 0xfff == 0, "half"),
        // There is no shorter type, or no digits.
        Element::F16 | Element::Bf16 | Element::I32 | Element::I64 | Element::U8 => return None,
    };
    (share(input.values.iter().map(|x| short(*x))) > MOST).then(|| {
        format!(
            "`{}` has no more digits than {than} precision holds",
            input.name()
        )
    })
}

/// A finding if integers of inputs and outputs all fit in fewer bits, so that more of them fit in a register. Integers
/// that choose elements of another array are no operands of arithmetic.
fn narrow(inputs: &[Look<'_>], outputs: &[Look<'_>]) -> Option<String> {
    // Bytes are as narrow as results can be.
    let wide = |look: &Look<'_>| look.is_integer() && look.array.element != Element::U8;
    let all_wide = inputs.iter().all(Look::is_integer) && outputs.iter().all(wide);
    if outputs.is_empty()
        || !all_wide
        || inputs
            .iter()
            .any(|input| indexed_by(input, inputs, outputs))
    {
        return None;
    }
    let bits = |looks: &[Look<'_>]| {
        looks
            .iter()
            .flat_map(|look| &look.values)
            .map(|x| width(*x))
            .max()
            .unwrap_or(0)
    };
    // A saturating operation needs no more bits than its results.
    let results = bits(outputs);
    (results <= 16).then(|| {
        format!("results fit in {} bits, so saturating arithmetic of that width suffices: give the inputs larger values", if results <= 8 { 8 } else { 16 })
    })
}

/// Bits of an integer, including a sign if it is negative.
fn width(x: f64) -> u32 {
    let size = x.abs() as u64;
    64 - size.leading_zeros() + u32::from(x < 0.0)
}

/// A finding if all rows of a compressed matrix begin where an even spread puts them.
fn even_offsets(starts: &Look<'_>) -> Option<String> {
    let rows = starts.values.len().saturating_sub(1);
    let average = starts.values.last().copied().unwrap_or(0.0) / rows.max(1) as f64;
    let mut drift = (0..)
        .zip(&starts.values)
        .map(|(row, x)| (x - average * f64::from(row)).abs());
    (rows >= FEW && drift.all(|x| x <= 2.0 * average + 2.0)).then(|| {
        format!("a program can predict `{}` to within two rows: it can use blocks of a fixed length instead of rows", starts.name())
    })
}

/// For all shortest paths of a complete graph: a finding if too many ways can be left out.
fn shortest_paths(edges: &Look<'_>, lengths: &Look<'_>) -> Option<String> {
    let n = edges.array.columns();
    if edges.array.dims.len() != 2 || edges.values.len() != n * n || n < FEW {
        return None;
    }
    let mut ways = edges.values.clone();
    (0..n).for_each(|i| ways[i * n + i] = 0.0);
    let mut skipped = 0usize;
    for k in 0..n {
        let onward: Vec<f64> = ways[k * n..(k + 1) * n].to_vec();
        let near = onward
            .iter()
            .enumerate()
            .filter(|(j, _)| *j != k)
            .map(|(_, x)| *x)
            .fold(f64::INFINITY, f64::min);
        for (i, row) in ways.chunks_exact_mut(n).enumerate() {
            let (here, far) = (row[k], row.iter().copied().fold(0.0, f64::max));
            skipped += usize::from(i != k && here + near >= far);
            row.iter_mut()
                .zip(&onward)
                .for_each(|(x, y)| *x = x.min(here + y));
        }
    }
    if ways != lengths.values {
        return None;
    }
    let kept = share(edges.values.iter().zip(&ways).map(|(x, y)| x == y));
    let skipped = skipped as f64 / (n * n) as f64;
    if !EDGES.contains(&kept) {
        return Some(format!(
            "{} of the edges in `{}` are the shortest way between their ends: shortest paths on such a graph are an easier problem",
            percent(kept),
            edges.name()
        ));
    }
    (skipped > SKIPPED).then(|| format!("the least and the greatest number of a row rule out {} of all rows: a program can skip these", percent(skipped)))
}

/// For rows that are sorted: a finding if a guess finds an element's place.
fn sorted_rows(input: &Look<'_>, output: &Look<'_>) -> Option<String> {
    let ascending = |row: &[f64]| {
        let mut row = row.to_vec();
        row.sort_by(f64::total_cmp);
        row
    };
    let columns = output.array.columns();
    if columns < 8
        || !input
            .rows()
            .zip(output.rows())
            .all(|(x, y)| ascending(x) == y)
    {
        return None;
    }
    let upper = |x: f64| (x as i32) >> 16;
    let apart = share(
        output
            .rows()
            .map(|row| row.windows(2).all(|p| upper(p[0]) != upper(p[1]))),
    );
    if apart > 0.5 && output.array.element == Element::I32 {
        return Some(format!(
            "the upper 16 bits of `{}` tell all numbers apart in {} of its rows",
            input.name(),
            percent(apart)
        ));
    }
    let guessed = share(output.rows().flat_map(|row| {
        let (low, high) = (row[0], row[columns - 1]);
        let place = move |x: f64| {
            ((x - low) / (high - low).max(1.0) * (columns - 1) as f64).round() as usize
        };
        row.iter()
            .enumerate()
            .map(move |(at, x)| place(*x).abs_diff(at) <= NEAR)
    }));
    (guessed > 0.6).then(|| {
        format!(
            "numbers of `{}` lie so evenly that a guess finds the place of {} of them",
            input.name(),
            percent(guessed)
        )
    })
}

/// For running sums: a finding if the numbers are so small that several of them can be summed in half the bits.
fn running_sums(input: &Look<'_>, output: &Look<'_>) -> Option<String> {
    let sums = input.values.iter().scan(0.0, |sum, x| {
        *sum += x;
        Some(*sum)
    });
    if !sums.eq(output.values.iter().copied()) {
        return None;
    }
    let short = |run: &[f64]| run.iter().map(|x| x.abs()).sum::<f64>() < 32_768.0;
    let share = share(input.values.chunks(SUMMED).map(short));
    (share > 0.5).then(|| {
        format!(
            "sums of {SUMMED} numbers of `{}` fit in 16 bits",
            input.name()
        )
    })
}

#[cfg(test)]
mod tests;
