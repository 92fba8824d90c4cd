//! A file of CUDA C++ as a candidate: the Python around it is ours.

use std::collections::HashMap;

use serde_json::json;

/// The word that begins a binding to Python.
const BINDING: &str = "PYBIND11_MODULE";

/// A Python source whose `ModelNew` calls a function of CUDA C++ with the module's inputs. A binding to Python in the file is
/// left out, since `load_inline` writes one.
///
/// # Errors
/// A sentence that says why the function cannot be called.
pub fn wrapped(source: &str, function: &str) -> Result<String, String> {
    let source = without_binding(source);
    let code = blanked(&source);
    let Some((declaration, parameters)) = declaration(&code, function) else {
        return Err(format!(
            "`spec.entry_point` names {function}, which is no plain function at the top of the file"
        ));
    };
    let names: Vec<String> = (0..parameters).map(|n| format!("x{n}")).collect();
    let names = names.join(", ");
    let comma = if parameters == 0 { "" } else { ", " };
    // A text of JSON is one of Python, too.
    let [declaration, source] = [declaration, source].map(|text| json!(text).to_string());
    Ok(format!(
        "\
import torch
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name=\"solution\",
    cpp_sources={declaration},
    cuda_sources={source},
    functions=[\"{function}\"],
)


class ModelNew(torch.nn.Module):
    def forward(self{comma}{names}):
        return extension.{function}({names})
"
    ))
}

/// The source without its binding to Python, if it has one.
fn without_binding(source: &str) -> String {
    let code = blanked(source);
    let binding = code.find(BINDING).and_then(|begin| {
        let open = begin + code.get(begin..)?.find('{')?;
        Some((begin, closing(&code, '{', '}').get(&open).copied()?))
    });
    match binding {
        Some((begin, end)) => format!("{}{}", &source[..begin], &source[end + 1..]),
        None => source.to_owned(),
    }
}

/// The declaration of a function that stands at the top of a file, and the number of its parameters.
fn declaration(code: &str, function: &str) -> Option<(String, usize)> {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if function.is_empty() || !function.chars().all(of_word) {
        return None;
    }
    let closes = closing(code, '(', ')');
    let (mut depth, mut seen) = (0i64, 0);
    for (at, _) in code.match_indices(function) {
        let (before, after) = (&code[..at], &code[at + function.len()..]);
        depth += code[seen..at].chars().map(nesting).sum::<i64>();
        seen = at;
        let list = after.trim_start();
        if depth > 0 || before.ends_with(of_word) || !list.starts_with('(') {
            continue;
        }
        let open = code.len() - list.len();
        let close = closes.get(&open).copied()?;
        if !code[close + 1..].trim_start().starts_with('{') {
            continue;
        }
        // The text since the last declaration, without the lines of the preprocessor.
        let begin = before.rfind([';', '}']).map_or(0, |end| end + 1);
        let lines = code[begin..=close].lines();
        let plain = lines.filter(|line| !line.trim_start().starts_with('#'));
        let words = plain.collect::<Vec<_>>().join("\n");
        let words = words.trim();
        let special = ["static", "extern", "template", "inline", "__global__"];
        let is_special = |word: &str| special.contains(&word);
        if words.split(|c: char| !of_word(c)).any(is_special) {
            return None;
        }
        return Some((format!("{words};"), parameters(&code[open + 1..close])));
    }
    None
}

/// The number of parameters in the text between the brackets.
fn parameters(list: &str) -> usize {
    if list.trim().is_empty() || list.trim() == "void" {
        return 0;
    }
    let mut depth = 0i32;
    let mut commas = 0;
    for character in list.chars() {
        match character {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
    }
    commas + 1
}

/// The change of the number of open braces by a character.
fn nesting(character: char) -> i64 {
    match character {
        '{' => 1,
        '}' => -1,
        _ => 0,
    }
}

/// The place of the bracket that closes each one of this kind that is closed, by the place of the opening one.
fn closing(code: &str, opens: char, closes: char) -> HashMap<usize, usize> {
    let (mut open, mut pairs) = (Vec::new(), HashMap::new());
    for (at, character) in code.char_indices() {
        if character == opens {
            open.push(at);
        } else if character == closes
            && let Some(begin) = open.pop()
        {
            pairs.insert(begin, at);
        }
    }
    pairs
}

/// The source with spaces in place of comments, texts and characters, byte for byte; ends of lines stay.
fn blanked(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut blank = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        // A mark after a letter or a digit separates digits.
        let separates = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
        let length = match rest {
            [b'/', b'/', ..] => rest.iter().position(|b| *b == b'\n'),
            [b'/', b'*', ..] => rest
                .windows(2)
                .skip(2)
                .position(|two| two == b"*/")
                .map(|n| n + 4),
            [b'"', ..] => literal(rest),
            [b'\'', ..] if !separates => literal(rest),
            _ => Some(0),
        };
        // A comment or a text without an end reaches to that of the file.
        let length = length.unwrap_or(rest.len());
        for byte in &mut blank[at..at + length] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += length.max(1);
    }
    String::from_utf8_lossy(&blank).into_owned()
}

/// The length of a text or a character, from its first mark to its last one.
fn literal(rest: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in rest.iter().enumerate().skip(1) {
        if !escaped && *byte == rest[0] {
            return Some(at + 1);
        }
        escaped = !escaped && *byte == b'\\';
    }
    None
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const SOURCE: &str = "\
#include <torch/extension.h>
#define WIDTH 1'024

// torch::Tensor run() { is not here
namespace { int helper(int run) { return run; } }

std::vector<torch::Tensor>
run(torch::Tensor x, std::tuple<int, int> sizes = {1, 2}, /* not, counted */ double eps = 1e-5) {
    const char* text = \"run(\\\") {é\";
    return {x};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def(\"run\", &run, \"run() {\");
}
";

    #[test]
    fn a_function_of_cuda_is_declared_bound_and_called() {
        let read = wrapped(SOURCE, "run").unwrap();
        assert!(
            read.contains(
                r#"cpp_sources="std::vector<torch::Tensor>\nrun(torch::Tensor x, std::tuple<int, int> sizes = {1, 2},"#
            ),
            "{read}"
        );
        assert!(read.contains("double eps = 1e-5);\""), "{read}");
        assert!(
            read.ends_with(
                "    def forward(self, x0, x1, x2):\n        return extension.run(x0, x1, x2)\n"
            ),
            "{read}"
        );
        let cuda = read.split_once("cuda_sources=").unwrap().1;
        let begin = r##""#include <torch/extension.h>\n#define WIDTH 1'024\n"##;
        assert!(cuda.starts_with(begin), "{cuda}");
        assert!(!read.contains(BINDING) && read.contains("é"), "{read}");
        let none = wrapped("int one(void) { return 1; }", "one").unwrap();
        assert!(none.contains("def forward(self):\n        return extension.one()"));
    }

    #[test]
    fn a_name_of_no_plain_function_is_refused() {
        for (source, function) in [
            (SOURCE, "helper"),
            (SOURCE, "walk"),
            ("static int one() { return 1; }", "one"),
            ("template <typename T> T one(T x) { return x; }", "one"),
            ("int one();", "one"),
            ("int one() { return 1; }", "one() {"),
            ("int one(", "one"),
            ("int one() { return 1; }", ""),
        ] {
            let why = wrapped(source, function).unwrap_err();
            assert!(why.contains("`spec.entry_point` names"), "{why}");
        }
    }

    /// Looking at all of the file again for each mention of the name would take hours.
    #[test]
    fn a_long_file_that_names_its_function_often_is_read_in_one_pass() {
        let mentions = "run(1);\n".repeat(200_000);
        let nested = format!(
            "int x = {}1{};",
            "run(".repeat(200_000),
            ")".repeat(200_000)
        );
        let source = format!(
            "{nested}\nvoid other() {{\n{mentions}}}\nint run(int x, int y) {{ return x; }}\n"
        );
        let read = wrapped(&source, "run").unwrap();
        assert!(read.contains("cpp_sources=\"int run(int x, int y);\""));
        assert!(read.ends_with("return extension.run(x0, x1)\n"));
    }
}
