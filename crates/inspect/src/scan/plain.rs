//! Removes the parts of a source that do not affect the program.
//!
//! The rest of the stage, including the compilers, works on this text. `#line` changes line numbers and file names, and
//! could make the preprocessor's output of a candidate look like that of a header. It is therefore removed before any
//! other check.

use std::borrow::Cow;

/// The source without a byte order mark; each `#line` directive becomes an empty line.
pub fn plain(source: &str) -> Cow<'_, str> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    if !source.contains("line") {
        return Cow::Borrowed(source);
    }
    let mut text = String::with_capacity(source.len());
    let mut joined = false;
    for line in source.split_inclusive('\n') {
        let whole = line.trim_end_matches(['\n', '\r']);
        if !joined && is_line_directive(whole) {
            text.push_str(&line[whole.len()..]);
        } else {
            text.push_str(line);
        }
        let end = whole.trim_end();
        joined = end.ends_with('\\') || end.ends_with("??/");
    }
    Cow::Owned(text)
}

/// True for `#line 12` or `#line 12 "name"`, on one line and with nothing else.
fn is_line_directive(line: &str) -> bool {
    let blank = |c: char| matches!(c, ' ' | '\t');
    let line = line.trim_matches(blank);
    let Some(rest) = line.strip_prefix('#').or(line.strip_prefix("%:")) else {
        return false;
    };
    let Some(rest) = rest.trim_start_matches(blank).strip_prefix("line") else {
        return false;
    };
    let number = rest.trim_start_matches(blank);
    let name = number.trim_start_matches(|c: char| c.is_ascii_digit());
    if number.len() == rest.len() || name.len() == number.len() {
        return false;
    }
    let quoted = name.trim_start_matches(blank);
    let inside = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    quoted.is_empty()
        || (quoted.len() < name.len()
            && inside.is_some_and(|name| !name.contains(['"', '\\', '\n'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_lines_are_left_out() {
        for line in [
            "#line 1000 \"generated/kernel.f90\"",
            "  # line 7",
            "%:line 7\t\"x\" ",
        ] {
            let source = format!("int x;\n{line}\r\nint y;\n");
            assert_eq!(plain(&source), "int x;\n\r\nint y;\n", "{line}");
        }
        assert_eq!(plain("\u{feff}int x;"), "int x;");
    }

    #[test]
    fn similar_lines_stay() {
        for source in [
            "#line N \"x\"",
            "#line 1 \"a\" 3",
            "#line 1 \"a\\\"b\"",
            "#line1",
            "#line",
            "# 1 \"x\" 1 3",
            "int line;",
            "#define X \\\n#line 7\n",
            "/* */ #line 7",
        ] {
            assert_eq!(plain(source), source);
        }
    }
}
