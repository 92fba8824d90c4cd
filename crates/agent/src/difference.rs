//! The difference between two programs, line by line.

/// Lines that are compared in full; of longer texts the middle is shown as removed and added.
const MOST: usize = 1500;

/// The part that a line of a difference plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It is in both texts.
    Both,
    /// It is in the earlier text only.
    Removed,
    /// It is in the later text only.
    Added,
    /// It stands for unchanged lines.
    LeftOut,
}

/// A line of a difference.
pub type Line<'a> = (Part, &'a str);

/// The lines of two texts in one order, without the unchanged ones that are more than `around` lines away from each
/// change; empty if the texts are equal.
pub fn lines<'a>(before: &[&'a str], after: &[&'a str], around: usize) -> Vec<Line<'a>> {
    let whole = compare(before, after);
    let changes: Vec<usize> = (0..whole.len())
        .filter(|place| whole[*place].0 != Part::Both)
        .collect();
    if changes.is_empty() {
        return Vec::new();
    }
    let is_near = |place: usize| {
        let next = changes.partition_point(|change| change + around < place);
        changes
            .get(next)
            .is_some_and(|change| *change <= place + around)
    };
    let mut shown: Vec<Line<'a>> = Vec::new();
    for (place, line) in whole.iter().enumerate() {
        if is_near(place) {
            shown.push(*line);
        } else if shown.last().is_none_or(|last| last.0 != Part::LeftOut) {
            shown.push((Part::LeftOut, "…"));
        }
    }
    shown
}

/// Every line of both texts: a longest common subsequence is in both.
fn compare<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Line<'a>> {
    let head = same(before.iter().zip(after));
    let (old, new) = (&before[head..], &after[head..]);
    let tail = same(old.iter().rev().zip(new.iter().rev()));
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let both = |line: &&'a str| (Part::Both, *line);
    let mut lines: Vec<Line<'a>> = before[..head].iter().map(both).collect();
    middle(old, new, &mut lines);
    lines.extend(before[before.len() - tail..].iter().map(both));
    lines
}

/// Number of equal pairs at the beginning.
fn same<'s, 'a: 's>(pairs: impl Iterator<Item = (&'s &'a str, &'s &'a str)>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

fn middle<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<Line<'a>>) {
    let (rows, columns) = (old.len(), new.len());
    if rows > MOST || columns > MOST {
        lines.extend(old.iter().map(|line| (Part::Removed, *line)));
        lines.extend(new.iter().map(|line| (Part::Added, *line)));
        return;
    }
    // `longest[i][j]` is the length of the longest common subsequence of the lines from i and from j on.
    let width = columns + 1;
    let mut longest = vec![0u16; (rows + 1) * width];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < rows || j < columns {
        if i < rows && j < columns && old[i] == new[j] {
            lines.push((Part::Both, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == columns
            || (i < rows && longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            lines.push((Part::Removed, old[i]));
            i += 1;
        } else {
            lines.push((Part::Added, new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let before = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let mut after = before.to_vec();
        after.splice(7..8, ["eight", "and more"]);
        assert_eq!(
            lines(&before, &after, 3),
            [
                (Part::LeftOut, "…"),
                (Part::Both, "5"),
                (Part::Both, "6"),
                (Part::Both, "7"),
                (Part::Removed, "8"),
                (Part::Added, "eight"),
                (Part::Added, "and more"),
                (Part::Both, "9"),
            ]
        );
        assert!(lines(&before, &before, 3).is_empty());
    }

    proptest! {
        #[test]
        fn both_texts_are_in_the_comparison(
            before in prop::collection::vec("[ab]", 0..30),
            after in prop::collection::vec("[ab]", 0..30),
        ) {
            let old: Vec<&str> = before.iter().map(String::as_str).collect();
            let new: Vec<&str> = after.iter().map(String::as_str).collect();
            let whole = compare(&old, &new);
            let of = |other: Part| {
                let lines = whole.iter().filter(|line| line.0 != other).map(|line| line.1);
                lines.collect::<Vec<_>>()
            };
            prop_assert_eq!(of(Part::Added), old);
            prop_assert_eq!(of(Part::Removed), new);
        }
    }

    #[test]
    fn long_texts_are_compared_without_their_squares() {
        let (old, new) = (vec!["a"; 40_000], vec!["b"; 40_000]);
        let shown = compare(&old, &new);
        assert_eq!(shown.len(), 80_000);
    }
}
