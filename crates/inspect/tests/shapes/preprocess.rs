//! A preprocessor that expands the macros of the templates, as the compiler's own does before the detection.

use std::collections::BTreeMap;

use flopsmith_inspect::scan::token::{Kind, tokens};

/// A macro: its parameters, if it has any, and its text.
struct Macro {
    parameters: Option<Vec<String>>,
    text: String,
}

/// The source with its macros expanded. Lines keep their numbers; other directives stay.
pub fn expanded(source: &str) -> String {
    let mut macros = BTreeMap::new();
    let mut out = String::new();
    let mut lines = source.lines();
    while let Some(first) = lines.next() {
        let mut line = first.to_owned();
        while let Some(part) = line.strip_suffix('\\') {
            line = format!("{part}{}", lines.next().unwrap_or_default());
            out.push('\n');
        }
        let line = line.as_str();
        if let Some(rest) = line.strip_prefix("#define ") {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
            let parsed = match rest.strip_prefix('(') {
                Some(rest) => {
                    let (list, text) = rest.split_once(')').unwrap();
                    Macro {
                        parameters: Some(list.split(',').map(|p| p.trim().to_owned()).collect()),
                        text: text.trim().to_owned(),
                    }
                }
                None => Macro {
                    parameters: None,
                    text: rest.trim().to_owned(),
                },
            };
            macros.insert(name.to_owned(), parsed);
        } else if line.starts_with("#include") {
            // The text of headers is not the program's own.
        } else {
            out.push_str(&expand(line, &macros, 0));
        }
        out.push('\n');
    }
    out
}

fn expand(text: &str, macros: &BTreeMap<String, Macro>, depth: u32) -> String {
    let all = tokens(text);
    let mut out = String::new();
    let (mut at, mut last) = (0, 0);
    while let Some(token) = all.get(at) {
        let found = macros
            .get(token.text)
            .filter(|_| token.kind == Kind::Word && depth < 8);
        let called = all.get(at + 1).is_some_and(|next| next.text == "(");
        let Some(found) = found.filter(|m| m.parameters.is_none() || called) else {
            at += 1;
            continue;
        };
        out.push_str(&text[last..token.at]);
        let mut replaced = found.text.clone();
        let mut end = at;
        if let Some(parameters) = &found.parameters {
            let (mut level, mut from) = (0, at + 2);
            let mut arguments = Vec::new();
            for (place, token) in all.iter().enumerate().skip(at + 1) {
                match token.text {
                    "(" | "[" | "{" => level += 1,
                    ")" | "]" | "}" => level -= 1,
                    _ => {}
                }
                let ends = level == 0 || (level == 1 && token.text == ",");
                if ends && place > at + 1 {
                    let begin = all[from].at;
                    arguments.push(text[begin..token.at].to_owned());
                    from = place + 1;
                }
                if level == 0 {
                    end = place;
                    break;
                }
            }
            let by: BTreeMap<String, Macro> = parameters
                .iter()
                .cloned()
                .zip(arguments)
                .map(|(name, text)| {
                    let text = expand(&text, macros, depth + 1);
                    (
                        name,
                        Macro {
                            parameters: None,
                            text,
                        },
                    )
                })
                .collect();
            replaced = substitute(&replaced, &by);
        }
        out.push_str(&expand(&replaced, macros, depth + 1));
        last = all[end].at + all[end].text.len();
        at = end + 1;
    }
    out.push_str(&text[last..]);
    out
}

/// Replaces parameters by their arguments, which are expanded already.
fn substitute(text: &str, by: &BTreeMap<String, Macro>) -> String {
    let mut out = String::new();
    let mut last = 0;
    for token in tokens(text) {
        out.push_str(&text[last..token.at]);
        last = token.at + token.text.len();
        match by.get(token.text) {
            Some(argument) => out.push_str(&argument.text),
            None => out.push_str(token.text),
        }
    }
    out.push_str(&text[last..]);
    out
}
