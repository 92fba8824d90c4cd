//! Extracts the candidate's own text from the preprocessor's output.

use flopsmith_problem::Problem;
use flopsmith_protocol::{CandidateFault, Failure};

use super::UserText;

/// Bytes that a program may have after preprocessing, if its source may not have more. A few macros that use each other
/// make megabytes of a page.
pub(super) const LONGEST: usize = 512 << 10;

/// Refuses a program that macros have made too long for the further checks.
///
/// # Errors
/// The candidate's fault.
pub fn check_length(user: &UserText, problem: &Problem) -> Result<(), Failure> {
    let (bytes, most) = (user.text.len(), LONGEST.max(problem.max_source_bytes));
    if bytes <= most {
        return Ok(());
    }
    Err(Failure::candidate(
        CandidateFault::CompileLimit,
        format!("the program has {bytes} bytes after preprocessing; at most {most} are permitted"),
    ))
}

/// The preprocessor's output, split by its line markers.
#[derive(Debug, Default)]
pub struct Preprocessed {
    /// The candidate's own text.
    pub user: UserText,
    /// The text of headers, without blanks and markers, because the preprocessor breaks lines of system headers
    /// differently.
    pub headers: String,
    /// The paths of the headers that the candidate itself includes, in order.
    pub included: Vec<String>,
}

/// Splits `output`. `file` is the candidate's name on the command line, `prelude` the header that the compile stage
/// includes first.
///
/// All line markers come from the compiler: the raw check refuses markers in a candidate's source, and the preprocessor
/// writes a blank before a `#` that a macro puts at the start of a line.
pub fn split(output: &str, file: &str, prelude: &str) -> Preprocessed {
    let mut found = Preprocessed::default();
    let mut here = String::new();
    let mut number = 0u32;
    for line in output.lines() {
        if let Some((next, name, flags)) = marker(line) {
            let enters = flags.split(' ').any(|f| f == "1");
            // clang switches from the program's file to its built-in definitions, whose names begin with `<`.
            if enters && here == file && name != file && !name.starts_with('<') {
                found.included.push(name.to_owned());
            }
            number = next;
            here = name.to_owned();
            continue;
        }
        if here == file {
            found.user.push(number, line);
        } else if !here.ends_with(prelude) && !here.starts_with('<') {
            found.headers.extend(line.split_whitespace());
        }
        number = number.saturating_add(1);
    }
    found
}

/// Parses `# 12 "name" 1 3`: the number of the next line, the file, the flags.
fn marker(line: &str) -> Option<(u32, &str, &str)> {
    let rest = line.strip_prefix("# ")?;
    let (number, rest) = rest.split_once(' ')?;
    let (name, flags) = rest.strip_prefix('"')?.rsplit_once('"')?;
    Some((number.parse().ok()?, name, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_lines_are_kept_with_their_numbers() {
        let output = "# 0 \"kernel.c\"\n# 1 \"<built-in>\"\n# 1 \"./entry.h\" 1\nvoid f(void);\n\
                      # 0 \"<command-line>\" 2\n# 1 \"kernel.c\"\n# 1 \"/usr/include/math.h\" 1 3\n\
                      extern double sin(double) __asm__(\"x\");\n\n# 2 \"kernel.c\" 2\nvoid f(void)\n{}\n # 7 \"x\"\n";
        let found = split(output, "kernel.c", "entry.h");
        assert_eq!(found.user.text, "void f(void)\n{}\n # 7 \"x\"\n");
        assert_eq!(found.user.lines, [2, 3, 4]);
        assert_eq!(found.included, ["/usr/include/math.h"]);
        assert_eq!(found.headers, "externdoublesin(double)__asm__(\"x\");");
    }

    #[test]
    fn builtin_definitions_of_clang_are_no_header_of_the_program() {
        let output = "# 1 \"kernel.c\"\n# 1 \"<built-in>\" 1\n# 1 \"<built-in>\" 3\n# 432 \"<built-in>\" 3\n\
                      # 1 \"<command line>\" 1\n# 1 \"<built-in>\" 2\n# 1 \"./entry.h\" 1\nvoid f(void);\n\
                      # 2 \"<built-in>\" 2\n# 1 \"kernel.c\" 2\n# 1 \"/usr/include/math.h\" 1 3\nextern int x;\n\
                      # 2 \"kernel.c\" 2\nvoid f(void) {}\n";
        let found = split(output, "kernel.c", "entry.h");
        assert_eq!(found.included, ["/usr/include/math.h"]);
        assert_eq!(found.user.text, "void f(void) {}\n");
        assert_eq!(
            (found.headers.as_str(), found.user.lines),
            ("externintx;", vec![2])
        );
    }
}
