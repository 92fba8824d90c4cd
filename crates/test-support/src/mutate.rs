//! Broken versions of real inputs, like those that a faulty model, person or wire gives to a parser.

/// One change: the kind of edit, its place, the part, and its size. All numbers are valid; they are taken modulo the
/// possible range.
pub type Edit = (u8, usize, usize, usize);

/// Largest number of items that an edit moves or removes.
const MOST: usize = 48;

/// `whole` after some edits. Parts are inserted, deleted, copied to another place, spliced with the rest of `other`, or
/// replaced by a part of it.
pub fn mutated<T: Clone>(whole: &[T], other: &[T], edits: &[Edit]) -> Vec<T> {
    let mut made = whole.to_vec();
    for (what, at, from, length) in edits {
        let (at, length) = (at % (made.len() + 1), 1 + length % MOST);
        let end = (at + length).min(made.len());
        let from_other = from % (other.len() + 1);
        let part = &other[from_other..(from_other + length).min(other.len())];
        match what % 5 {
            0 => {
                made.splice(at..at, part.iter().cloned());
            }
            1 => {
                made.drain(at..end);
            }
            2 => {
                let copy = made[at..end].to_vec();
                let to = from % (made.len() + 1);
                made.splice(to..to, copy);
            }
            3 => {
                made.truncate(at);
                made.extend_from_slice(&other[from_other..]);
            }
            _ => {
                made.splice(at..end, part.iter().cloned());
            }
        }
    }
    made
}

/// Words with their numbers, runs of blanks, and single signs; together they are the text.
pub fn lexemes(text: &str) -> Vec<&str> {
    let kind = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            'w'
        } else if c.is_whitespace() {
            ' '
        } else {
            's'
        }
    };
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match kind(first) {
            's' => first.len_utf8(),
            same => rest.find(|c: char| kind(c) != same).unwrap_or(rest.len()),
        };
        let (one, after) = rest.split_at(end);
        found.push(one);
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lexemes_are_the_whole_text() {
        let text = "#pragma omp  simd\nä_1+=2.5;\n";
        let found = lexemes(text);
        assert_eq!(found.concat(), text);
        assert_eq!(found[..5], ["#", "pragma", " ", "omp", "  "]);
        assert_eq!(found[7..10], ["ä_1", "+", "="]);
        assert!(lexemes("").is_empty());
    }

    #[test]
    fn each_kind_of_edit_does_what_it_says() {
        let (whole, other) = (["a", "b", "c", "d"], ["x", "y", "z"]);
        let once = |edit: Edit| mutated(&whole, &other, &[edit]).concat();
        assert_eq!(once((0, 1, 1, 1)), "ayzbcd");
        assert_eq!(once((1, 1, 0, 1)), "ad");
        assert_eq!(once((2, 2, 0, 1)), "cdabcd");
        assert_eq!(once((3, 3, 1, 0)), "abcyz");
        assert_eq!(once((4, 1, 2, 1)), "azd");
        let nothing: [u8; 0] = [];
        let every: Vec<Edit> = (0..5).map(|what| (what, 9, 9, 9)).collect();
        assert!(mutated(&nothing, &nothing, &every).is_empty());
    }
}
