//! Solutions of FlashInfer-Bench (`solution.json`) as candidates for modules.
//!
//! A solution has one Python file whose entry point is a class `ModelNew`, or a function of the inputs that returns the
//! results; or one file of CUDA C++ with such a function. A function is wrapped into a `ModelNew` without parameters.

mod cuda;

use serde::Deserialize;

/// The languages that a module may be written in; C++ stands inline in the Python file.
const LANGUAGES: [&str; 5] = ["python", "pytorch", "triton", "cpp", "cuda"];

/// A solution as a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// Its name.
    pub name: String,
    /// The problem that it solves.
    pub definition: String,
    /// A Python source with a class `ModelNew`.
    pub source: String,
}

/// The fields of `solution.json` that matter; target hardware, author and description do not.
#[derive(Deserialize)]
struct Fields {
    name: String,
    definition: String,
    spec: Spec,
    sources: Vec<Source>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    languages: Vec<String>,
    /// Older solutions have one language.
    #[serde(default)]
    language: Option<String>,
    entry_point: String,
    /// True if results are written into arguments, which is FlashInfer-Bench's default.
    #[serde(default = "yes")]
    destination_passing_style: bool,
}

#[derive(Deserialize)]
struct Source {
    path: String,
    content: String,
}

fn yes() -> bool {
    true
}

/// Reads a solution.
///
/// # Errors
/// A sentence that names the field which a module cannot follow.
pub fn read(text: &str) -> Result<Solution, String> {
    let fields: Fields = serde_json::from_str(text)
        .map_err(|e| format!("it is no solution of FlashInfer-Bench: {e}"))?;
    let spec = &fields.spec;
    let mut languages = spec.languages.iter().chain(&spec.language).peekable();
    if languages.peek().is_none() {
        return Err("`spec.languages` is missing or empty".into());
    }
    let strange = |l: &&String| !LANGUAGES.contains(&l.to_lowercase().as_str());
    if let Some(language) = languages.find(strange) {
        return Err(format!(
            "`spec.languages` has {language}; a module is written in {}",
            LANGUAGES.join(", ")
        ));
    }
    if spec.destination_passing_style {
        return Err(
            "`spec.destination_passing_style` must be false (when left out it is true): a module returns its results".into(),
        );
    }
    let [source] = fields.sources.as_slice() else {
        return Err(format!(
            "`sources` has {} files; a module has one Python file, or one of CUDA C++",
            fields.sources.len()
        ));
    };
    let in_cuda = source.path.ends_with(".cu");
    if !in_cuda && !source.path.ends_with(".py") {
        return Err(format!(
            "`sources` has {}; a module has one Python file (.py), or one of CUDA C++ (.cu)",
            source.path
        ));
    }
    let Some((file, entry)) = spec.entry_point.split_once("::") else {
        return Err("`spec.entry_point` must be FILE::NAME".into());
    };
    if file != source.path {
        return Err(format!(
            "`spec.entry_point` names the file {file}, and `sources` has {}",
            source.path
        ));
    }
    let source = match entry {
        function if in_cuda => cuda::wrapped(&source.content, function)?,
        "ModelNew" => source.content.clone(),
        function => wrapped(&source.content, function)?,
    };
    Ok(Solution {
        name: fields.name,
        definition: fields.definition,
        source,
    })
}

/// The source with a `ModelNew` that calls a function with its inputs.
fn wrapped(source: &str, function: &str) -> Result<String, String> {
    if source
        .lines()
        .any(|line| line.starts_with("class ModelNew"))
    {
        return Err(format!(
            "`spec.entry_point` names {function}, and the file has a class ModelNew; name one of them"
        ));
    }
    let list = parameters(source, function).ok_or_else(|| {
        format!("`spec.entry_point` names {function}, which is neither the class ModelNew nor a function at the top of the file")
    })?;
    let names = names(list).ok_or_else(|| {
        format!("`spec.entry_point` names {function}, whose parameters are not all plain ones (`*` and `/` are not supported)")
    })?;
    // The parameters keep their annotations: the check of sources lets a function compute with numbers only.
    let comma = if names.is_empty() { "" } else { ", " };
    Ok(format!(
        "{source}\n\n\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self{comma}{list}):\n        return {function}({})\n",
        names.join(", ")
    ))
}

/// The text between the parentheses of a function at the top of a source.
fn parameters<'a>(source: &'a str, function: &str) -> Option<&'a str> {
    let head = format!("def {function}(");
    let at_line = |at: &usize| *at == 0 || source.as_bytes().get(at - 1) == Some(&b'\n');
    // A text that describes the file may show the function before it.
    let mut starts = source.rmatch_indices(&head).map(|(at, _)| at);
    let list = source.get(starts.find(at_line)? + head.len()..)?;
    let end = places(list).find(|place| place.depth == 0 && place.character == ')')?;
    list.get(..end.at)
}

/// The names of plain parameters; none if there are others.
fn names(list: &str) -> Option<Vec<&str>> {
    let mut commas: Vec<usize> = places(list)
        .filter(|place| place.depth == 0 && place.character == ',')
        .map(|place| place.at)
        .collect();
    commas.push(list.len());
    let mut names = Vec::new();
    let mut begin = 0;
    for end in commas {
        let part = list.get(begin..end)?;
        begin = end + 1;
        // Comments may stand above a parameter.
        let mut lines = part.lines().map(str::trim);
        let Some(first) = lines.find(|line| !line.is_empty() && !line.starts_with('#')) else {
            continue;
        };
        let name = first.split([':', '=', '#']).next()?.trim();
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(letter) || name.starts_with(char::is_numeric) {
            return None;
        }
        names.push(name);
    }
    Some(names)
}

/// A character of Python that is in no text and no comment.
struct Place {
    at: usize,
    character: char,
    /// Number of open brackets around it.
    depth: usize,
}

/// The characters of Python code, as far as a list of parameters needs them.
fn places(code: &str) -> impl Iterator<Item = Place> {
    let (mut depth, mut comment, mut escaped) = (0usize, false, false);
    let mut quote: Option<char> = None;
    code.char_indices().filter_map(move |(at, character)| {
        if let Some(open) = quote {
            let ends = !escaped && character == open;
            escaped = !escaped && character == '\\';
            if ends {
                quote = None;
            }
            return None;
        }
        if comment {
            comment = character != '\n';
            return None;
        }
        match character {
            '\'' | '"' => quote = Some(character),
            '#' => comment = true,
            ')' | ']' | '}' => {
                let place = Place {
                    at,
                    character,
                    depth,
                };
                depth = depth.saturating_sub(1);
                return Some(place);
            }
            '(' | '[' | '{' => depth += 1,
            _ => {}
        }
        Some(Place {
            at,
            character,
            depth,
        })
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SOURCE: &str = "\
import torch


def run(
    x: torch.Tensor,  # the input, or (not) more
    sizes: tuple[int, int] = (1, 2),
    text=\"),\",
):
    return x
";

    fn solution() -> Value {
        json!({
            "name": "quick", "definition": "softmax", "author": "me", "description": "",
            "spec": {
                "languages": ["pytorch"], "target_hardware": ["cpu"], "entry_point": "main.py::run",
                "destination_passing_style": false,
            },
            "sources": [{ "path": "main.py", "content": SOURCE }],
        })
    }

    #[test]
    fn a_function_is_wrapped_with_its_parameters() {
        let read = read(&solution().to_string()).unwrap();
        assert_eq!(
            (read.name.as_str(), read.definition.as_str()),
            ("quick", "softmax")
        );
        let end = &read.source[SOURCE.len()..];
        assert!(
            end.contains("def forward(self, \n    x: torch.Tensor,"),
            "{end}"
        );
        assert!(end.ends_with("return run(x, sizes, text)\n"), "{end}");
        for (list, expected) in [
            ("", Some(vec![])),
            ("a, b: 'x, y' = 3,", Some(vec!["a", "b"])),
            ("a, *, b", None),
            ("*a", None),
            ("a, /", None),
        ] {
            assert_eq!(names(list), expected, "{list}");
        }
        let none = wrapped("def run():\n    return 1\n", "run").unwrap();
        assert!(none.contains("def forward(self):"), "{none}");
        let shown = "\"\"\"\ndef run(a):\n\"\"\"\ndef run(x, y):\n    return x\n";
        let last = wrapped(shown, "run").unwrap();
        assert!(last.ends_with("return run(x, y)\n"), "{last}");
    }

    #[test]
    fn a_class_stays_as_it_is() {
        let mut given = solution();
        given["spec"]["entry_point"] = json!("main.py::ModelNew");
        given["spec"].as_object_mut().unwrap().remove("languages");
        given["spec"]["language"] = json!("Triton");
        assert_eq!(read(&given.to_string()).unwrap().source, SOURCE);
    }

    #[test]
    fn a_file_of_cuda_gets_the_python_around_it() {
        let mut given = solution();
        given["spec"]["languages"] = json!(["cuda"]);
        given["spec"]["entry_point"] = json!("main.cu::run");
        given["sources"][0] = json!({
            "path": "main.cu", "content": "torch::Tensor run(torch::Tensor x) { return x; }",
        });
        let read = read(&given.to_string()).unwrap();
        assert!(
            read.source.contains("return extension.run(x0)"),
            "{}",
            read.source
        );
    }

    #[test]
    fn each_field_that_a_module_cannot_follow_is_named() {
        for (place, value, field) in [
            (
                "/spec/languages",
                json!(["python", "hip"]),
                "`spec.languages` has hip",
            ),
            ("/spec/languages", json!([]), "`spec.languages` is missing"),
            (
                "/spec/destination_passing_style",
                json!(true),
                "destination_passing_style",
            ),
            ("/spec/entry_point", json!("main.py"), "`spec.entry_point`"),
            ("/spec/entry_point", json!("other.py::run"), "other.py"),
            ("/spec/entry_point", json!("main.py::walk"), "names walk"),
            (
                "/sources/0/path",
                json!("main.cpp"),
                "`sources` has main.cpp",
            ),
            ("/sources", json!([]), "`sources` has 0 files"),
            ("/definition", json!(7), "invalid type"),
        ] {
            let mut given = solution();
            *given.pointer_mut(place).unwrap() = value;
            let error = read(&given.to_string()).unwrap_err();
            assert!(error.contains(field), "{error}");
        }
        let mut both = solution();
        both["sources"][0]["content"] = json!(format!("{SOURCE}\nclass ModelNew:\n    pass\n"));
        assert!(read(&both.to_string()).unwrap_err().contains("ModelNew"));
        let mut unsaid = solution();
        unsaid["spec"]
            .as_object_mut()
            .unwrap()
            .remove("destination_passing_style");
        assert!(read(&unsaid.to_string()).unwrap_err().contains("left out"));
    }
}
