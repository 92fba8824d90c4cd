//! The loops of the problem's reference, with which the loops of programs are compared.

use std::collections::BTreeMap;

use flopsmith_problem::{Language, Problem};

use super::judge::Reference;
use super::shapes::Shapes;
use super::walked;
use crate::scan::token::{Kind, tokens};

/// The loops of the reference; without any if the reference cannot be walked through.
pub(super) fn of(problem: &Problem, shapes: &Shapes) -> Reference {
    let (text, rows) = plain(&problem.reference_source);
    let lines = |row: usize| rows.get(row).copied().unwrap_or(1);
    match walked(&text, &lines, problem, Language::C) {
        Ok(walked) => Reference::of(&walked.facts, shapes, problem.techniques),
        Err(_) => Reference::default(),
    }
}

/// The reference without comments and directives, and with its constants substituted, and the line of each row.
fn plain(source: &str) -> (String, Vec<u32>) {
    let mut constants: BTreeMap<String, String> = BTreeMap::new();
    let mut text = String::with_capacity(source.len());
    let mut rows = Vec::new();
    for line in crate::scan::source_lines(source) {
        if let Some(directive) = line.directive() {
            if let Some((name, value)) = directive.strip_prefix("define ").and_then(constant) {
                constants.insert(name, value);
            }
            continue;
        }
        let mut last = 0;
        for token in tokens(&line.text) {
            text.push_str(&line.text[last..token.at]);
            last = token.at + token.text.len();
            let value = constants
                .get(token.text)
                .filter(|_| token.kind == Kind::Word);
            text.push_str(value.map_or(token.text, String::as_str));
        }
        text.push_str(&line.text[last..]);
        text.push('\n');
        rows.push(line.number);
    }
    (text, rows)
}

/// Name and value of a macro without parameters.
fn constant(definition: &str) -> Option<(String, String)> {
    let definition = definition.trim();
    let end = definition.find([' ', '\t'])?;
    let (name, value) = definition.split_at(end);
    let plain = !name.contains('(') && value.len() < 80;
    plain.then(|| (name.to_owned(), format!(" {} ", value.trim())))
}
