//! The spelling of programs for small models: a subscript has the same tokens wherever it stands.

/// The text without the blanks that C does not need and without indentation; lines of the preprocessor stay as they are. Comments
/// and strings lose blanks, too, so a program that is compiled must hold none.
///
/// A name after a blank and a name after a bracket are two tokens to most tokenizers. Without blanks a subscript that is
/// copied is copied token by token.
pub fn tight(text: &str) -> String {
    let mut tight = String::with_capacity(text.len());
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if line.starts_with('#') {
            tight.push_str(line);
        } else {
            squeeze(line, &mut tight);
        }
        tight.push('\n');
    }
    tight
}

fn squeeze(line: &str, tight: &mut String) {
    let mut before: Option<char> = None;
    let mut blank = false;
    for c in line.chars() {
        if c.is_whitespace() {
            blank = true;
            continue;
        }
        if blank && before.is_some_and(|before| stay_apart(before, c)) {
            tight.push(' ');
        }
        tight.push(c);
        (before, blank) = (Some(c), false);
    }
}

/// True if two characters without a blank between them could be one token, or begin a comment.
fn stay_apart(a: char, b: char) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_operator = |c: char| "+-*/%&|<>=!".contains(c);
    is_word(a) && is_word(b) || is_operator(a) && is_operator(b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_blanks_that_part_tokens_stay() {
        let text = "\nvoid f(int n, const double *A)\n{\n#pragma omp simd reduction(+:part)\n    for (long i = 0; i <= n - 1; i++) {\n        y[i] = - -A[i * n + 1] * *p;\n    }\n}\n";
        assert_eq!(
            tight(text),
            "void f(int n,const double*A)\n{\n#pragma omp simd reduction(+:part)\nfor(long i=0;i<=n-1;i++){\ny[i]= - -A[i*n+1]* *p;\n}\n}\n"
        );
    }

    proptest! {
        /// Tight text stays as it is, and other text loses nothing but blanks.
        #[test]
        fn tightening_again_changes_nothing(text in "[a-z0-9_ +*/=<;(){}\\[\\]&\n-]{0,80}") {
            let once = tight(&text);
            prop_assert_eq!(tight(&once), once.clone());
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&once), bare(&text));
        }
    }
}
