//! Small pieces of C text.

use std::fmt::Display;

/// The text with `@name@` replaced by the value of that name. A line that consists of an empty value is left out.
pub fn filled(text: &str, values: &[(&str, &dyn Display)]) -> String {
    let values: Vec<(String, String)> = values
        .iter()
        .map(|(name, value)| (format!("@{name}@"), value.to_string()))
        .collect();
    let mut filled = String::with_capacity(2 * text.len());
    for line in text.lines() {
        let alone = values.iter().find(|(name, _)| line.trim() == name);
        if alone.is_some_and(|(_, value)| value.is_empty()) {
            continue;
        }
        let mut line = line.to_owned();
        for (name, value) in &values {
            line = line.replace(name, value);
        }
        filled.push_str(&line);
        filled.push('\n');
    }
    filled
}

/// Lines made from the numbers below a count, each with `depth` steps of indentation, without the last line break.
pub fn lines(count: u32, depth: usize, line: impl Fn(u32) -> String) -> String {
    let all: Vec<String> = (0..count)
        .map(|n| format!("{}{}", "    ".repeat(depth), line(n)))
        .collect();
    all.join("\n")
}

/// Words made from the numbers below a count, with `between` between them.
pub fn joined(count: u32, between: &str, word: impl Fn(u32) -> String) -> String {
    (0..count).map(word).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_no_value_leaves_an_empty_line() {
        let text = "void @e@(int @n@)\n{\n    @nothing@\n    @e@(1);\n}\n\nint x;";
        let filled = filled(text, &[("e", &"f"), ("n", &3), ("nothing", &"")]);
        assert_eq!(filled, "void f(int 3)\n{\n    f(1);\n}\n\nint x;\n");
    }

    #[test]
    fn lines_and_words_are_counted_from_zero() {
        assert_eq!(lines(2, 1, |n| format!("a{n};")), "    a0;\n    a1;");
        assert_eq!(joined(3, ", ", |n| n.to_string()), "0, 1, 2");
    }
}
