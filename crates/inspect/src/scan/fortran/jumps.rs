//! Jumps that make loops: jumps to a label that stands before them.

use std::collections::BTreeMap;

use super::tokens::{closing, text};
use super::{Statement, Token};
use crate::scan::token::Kind;

/// The first backward jump, or jump with an unknown target.
pub(super) fn back(statements: &[Statement]) -> Option<(u32, String)> {
    // Labels belong to one procedure, so the map is cleared at `contains` and at the end of each procedure.
    let mut before: BTreeMap<String, usize> = BTreeMap::new();
    for (at, statement) in statements.iter().enumerate() {
        let tokens = &statement.tokens;
        let ends = text(tokens, 0) == "end"
            && matches!(
                text(tokens, 1),
                "" | "subroutine" | "function" | "procedure"
            );
        if ends
            || matches!(
                text(tokens, 0),
                "endsubroutine" | "endfunction" | "contains"
            )
        {
            before.clear();
            continue;
        }
        if let Some(label) = label(statement) {
            before.insert(label, at);
        }
        for target in targets(tokens) {
            match target {
                Target::Label(label) if before.contains_key(&label) => {
                    let what = format!(
                        "the jump to label {label} goes back: a loop made of a label and a jump"
                    );
                    return Some((statement.line, what));
                }
                Target::Label(_) => {}
                Target::Variable => {
                    let what = "a jump goes to a computed label: such a jump".to_owned();
                    return Some((statement.line, what));
                }
            }
        }
    }
    None
}

enum Target {
    Label(String),
    Variable,
}

fn plain(label: &str) -> String {
    let digits = label.trim_start_matches('0');
    digits.to_owned()
}

/// The label of a statement.
fn label(statement: &Statement) -> Option<String> {
    let first = statement.tokens.first();
    let free = first.filter(|t| t.kind == Kind::Number).map(|t| &t.text);
    statement.label.as_ref().or(free).map(|label| plain(label))
}

/// The possible targets of a statement's jumps.
fn targets(tokens: &[Token]) -> Vec<Target> {
    let mut found = Vec::new();
    let numbers = |from: usize, until: usize| {
        let between = tokens.get(from..until).unwrap_or_default();
        let numbers = between.iter().filter(|t| t.kind == Kind::Number);
        numbers
            .map(|t| Target::Label(plain(&t.text)))
            .collect::<Vec<_>>()
    };
    // `goto 10`, `go to 10`, and both after `if (…)`.
    for at in 0..tokens.len() {
        let behind = match (text(tokens, at), text(tokens, at + 1)) {
            ("goto", _) => at + 1,
            ("go", "to") => at + 2,
            (word, _) => {
                // Blanks have no meaning in fixed form, so `goto10` is a jump.
                let fused = word
                    .strip_prefix("goto")
                    .filter(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()));
                found.extend(fused.map(|rest| Target::Label(plain(rest))));
                continue;
            }
        };
        match tokens.get(behind) {
            Some(token) if token.kind == Kind::Number => {
                found.push(Target::Label(plain(&token.text)));
            }
            Some(token) if token.text == "(" => {
                let close = (behind..tokens.len()).find(|p| text(tokens, *p) == ")");
                found.extend(numbers(behind, close.unwrap_or(tokens.len())));
            }
            // A jump to a variable. A word at this place excludes an assignment to a variable named `goto`.
            Some(token) if token.kind == Kind::Word => found.push(Target::Variable),
            _ => {}
        }
    }
    // `if (x) 10, 20, 30`.
    let first = usize::from(tokens.first().is_some_and(|t| t.kind == Kind::Number));
    if text(tokens, first) == "if"
        && let Some(close) = closing(tokens, first + 1)
    {
        let rest = &tokens[close + 1..];
        let only = rest.iter().all(|t| t.kind == Kind::Number || t.text == ",");
        if only && !rest.is_empty() {
            found.extend(numbers(close + 1, tokens.len()));
        }
    }
    // `call f(x, *10)`: the procedure may choose an alternate return.
    if tokens.iter().any(|t| t.text == "call") {
        for three in tokens.windows(3) {
            if matches!(three[0].text.as_str(), "(" | ",")
                && three[1].text == "*"
                && three[2].kind == Kind::Number
            {
                found.push(Target::Label(plain(&three[2].text)));
            }
        }
    }
    found
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_problem::Language;

    use super::super::lines;
    use super::*;

    fn jump(source: &str, language: Language) -> Option<u32> {
        let found = lines::split(source, language).unwrap();
        back(&found.statements).map(|(line, _)| line)
    }

    #[test]
    fn jumps_back_are_found_in_all_their_forms() {
        for source in [
            "10 i = i + 1\nif (i < n) goto 10",
            "10 continue\ngo to 10",
            "010 continue\nx = 1\ngo to (20, 10), i\n20 continue",
            "10 continue\nif (x) 10, 20, 20\n20 continue",
            "10 continue\ncall s(x, *10)",
            "assign 10 to l\ngo to l",
        ] {
            assert!(jump(source, Language::Fortran).is_some(), "{source}");
        }
        for source in [
            "   10 I = I + 1\n      IF (I .LT. N) GOTO 10",
            "   10 I = I + 1\n      GOTO10",
            " 1 0  I = I + 1\n      GO TO 10",
        ] {
            assert!(jump(source, Language::Fortran77).is_some(), "{source}");
        }
    }

    #[test]
    fn jumps_ahead_and_loops_are_none() {
        for source in [
            "if (n < 1) go to 10\nx = 1\n10 continue",
            "do 10 i = 1, n\nx = i\n10 continue",
            "subroutine a\n10 continue\nend subroutine\nsubroutine b\ngo to 10\n10 continue\nend",
            "gotox = 1",
            "x = y(10)",
        ] {
            assert_eq!(jump(source, Language::Fortran), None, "{source}");
        }
    }
}
