//! The check of the raw source.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_problem::{CXX_HEADERS, Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure};

use super::preprocessed::Preprocessed;
use super::refused;
use super::text::{self, Line, Quote};
use super::token::tokens;

/// Trigraphs that may end a line or a comment, or begin a directive.
const TRIGRAPHS: &[&str] = &["??=", "??/", "??(", "??'"];

/// Trigraphs for braces. They end no comment and no line, so comments may contain them.
const BRACES: &[&str] = &["??<", "??>"];

/// Directives that read files.
const READING: &[&str] = &["include_next", "import", "embed"];

/// Words that look for files.
const LOOKING: &[&str] = &["__has_include", "__has_embed"];

/// Words of pragmas that leave no trace in preprocessed text.
pub(super) const TRACELESS: &[&str] = &[
    "dependency",
    "poison",
    "push_macro",
    "pop_macro",
    "system_header",
    "include_alias",
    "include_instead",
];

/// A source whose directives are harmless.
pub struct Raw {
    /// The source's lines as the preprocessor sees them.
    pub lines: Vec<Line>,
    /// True if a macro is defined before a header is included, so the macro could change the header's text.
    pub defines_before_include: bool,
}

/// Checks that a source in any language is text of a reasonable size.
pub fn check_text(source: &str, problem: &Problem) -> Result<(), Failure> {
    if source.len() > problem.max_source_bytes {
        return Err(Failure::candidate(
            CandidateFault::SourceTooLarge,
            format!(
                "the source has {} bytes; at most {} are permitted",
                source.len(),
                problem.max_source_bytes
            ),
        ));
    }
    let not_text = |detail: String| Err(Failure::candidate(CandidateFault::NotText, detail));
    // The reader of source files marks a file that is not valid UTF-8 by a NUL at its end, in addition to the
    // replacement characters.
    if source.ends_with('\0') && source.contains(char::REPLACEMENT_CHARACTER) {
        return not_text("the source is not valid UTF-8; save it as UTF-8".into());
    }
    let control = |c: &char| c.is_control() && !matches!(c, '\n' | '\t' | '\r' | '\x0c');
    if let Some(c) = source.chars().find(control) {
        return not_text(format!(
            "the source is not text: it contains the character {:#04x}",
            c as u32
        ));
    }
    // Some tools read a lone carriage return as a line end, others as a blank.
    if source.replace("\r\n", "").contains('\r') {
        return not_text("the source contains a carriage return without a line feed".into());
    }
    Ok(())
}

/// Checks size, characters and directives of a source in C or C++.
pub fn check(source: &str, problem: &Problem, language: Language) -> Result<Raw, Failure> {
    check_text(source, problem)?;
    // If a compiler flag enables trigraphs, they are replaced before any other processing.
    if let Some(at) = TRIGRAPHS.iter().find_map(|t| source.find(t)) {
        let line = source[..at].matches('\n').count() as u32 + 1;
        return Err(refused(
            CandidateFault::ForbiddenConstruct,
            line,
            "trigraphs are not permitted",
        ));
    }

    let lines = text::lines(source);
    let brace = |l: &&text::Line| BRACES.iter().any(|brace| l.text.contains(brace));
    if let Some(line) = lines.iter().find(brace) {
        return Err(refused(
            CandidateFault::ForbiddenConstruct,
            line.number,
            "trigraphs are not permitted",
        ));
    }
    if let Some(line) = lines.iter().find(|l| l.raw_string) {
        return Err(refused(
            CandidateFault::ForbiddenConstruct,
            line.number,
            "raw strings are not permitted",
        ));
    }
    // The beginning of a literal must not depend on the language standard of the compiler.
    let quote = |line: &&Line| match line.quote {
        None => false,
        Some(Quote::Separator) => language == Language::C,
        Some(Quote::Unclear) => true,
    };
    if let Some(line) = lines.iter().find(quote) {
        return Err(refused(
            CandidateFault::ForbiddenConstruct,
            line.number,
            "a quotation mark directly after a number is not permitted here; write 1000000 for 1'000'000",
        ));
    }
    conditions(&lines)?;
    pragmas(&lines)?;
    let mut depth = 0u32;
    let mut defined = false;
    let mut defines_before_include = false;
    for line in &lines {
        let Some(directive) = line.directive() else {
            continue;
        };
        let name: String = directive
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let rest = directive[name.len()..].trim();
        match name.as_str() {
            "" if rest.is_empty() => {}
            "if" | "ifdef" | "ifndef" => depth += 1,
            "endif" => depth = depth.saturating_sub(1),
            "elif" | "elifdef" | "elifndef" | "else" | "pragma" | "error" | "warning" => {}
            "define" | "undef" => defined |= !is_feature_macro(rest),
            "include" => {
                // The preprocessor may skip an `#include` under a condition; its output shows the headers that it read.
                if depth == 0 || !is_plain_header(rest) {
                    include(line.number, rest, problem, language)?;
                }
                defines_before_include |= defined;
            }
            name if READING.contains(&name) => {
                let what = format!("`#{name}` is not permitted");
                return Err(refused(CandidateFault::ForbiddenInclude, line.number, what));
            }
            // `#line`, `# 1 "file"` and other directives that could make the candidate's text look like a header's.
            _ => {
                let what = format!(
                    "the directive `#{}` is not permitted",
                    name_or(&name, directive)
                );
                return Err(refused(
                    CandidateFault::ForbiddenConstruct,
                    line.number,
                    what,
                ));
            }
        }
    }
    for line in &lines {
        for word in LOOKING {
            if line.text.contains(word) {
                let what = format!("`{word}` looks for files and is not permitted");
                return Err(refused(CandidateFault::ForbiddenInclude, line.number, what));
            }
        }
    }
    Ok(Raw {
        lines,
        defines_before_include,
    })
}

/// True for `<name>` or `"name"` without a path that leaves the header folders.
fn is_plain_header(argument: &str) -> bool {
    let inside = |open, close| {
        let name = argument.strip_prefix(open)?.strip_suffix(close)?;
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        Some(!name.starts_with('/') && !name.contains("..") && name.chars().all(letters))
    };
    inside('<', '>').or(inside('"', '"')).unwrap_or(false)
}

/// Refuses headers that a preprocessed source itself includes and that are not permitted.
pub fn check_included(
    found: &Preprocessed,
    problem: &Problem,
    language: Language,
) -> Result<(), Failure> {
    let permitted = |path: &str| {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        is_permitted(name, problem, language)
            && (language == Language::C || holds_plain_headers(folder))
    };
    match found.included.iter().find(|path| !permitted(path)) {
        None => Ok(()),
        Some(path) => Err(Failure::candidate(
            CandidateFault::ForbiddenInclude,
            format!("the header `{path}` may not be included"),
        )),
    }
}

fn is_permitted(name: &str, problem: &Problem, language: Language) -> bool {
    problem.includes.iter().any(|i| i == name)
        || (language == Language::Cxx && CXX_HEADERS.contains(&name))
}

/// True if the compiler searches this folder itself for headers, not only its parent. C++ has other headers with the
/// same names in `parallel/`, `debug/` and `experimental/`.
fn holds_plain_headers(folder: &str) -> bool {
    let last = folder.rsplit('/').next().unwrap_or(folder);
    let is_version = last.starts_with(|c: char| c.is_ascii_digit())
        && last.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version || matches!(last, "include" | "v1")
}

/// Refuses conditions that token pasting could produce: a pasted `__has_include` searches for files and leaves no trace
/// in any text.
fn conditions(lines: &[Line]) -> Result<(), Failure> {
    // A macro that uses a pasting macro also pastes, in any order of definition. Each use is recorded once, so that a
    // source of many macros does not take minutes.
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut found: Vec<&str> = Vec::new();
    for definition in lines
        .iter()
        .filter_map(|l| l.directive()?.strip_prefix("define"))
    {
        let words = tokens(definition);
        let Some((name, used)) = words.split_first() else {
            continue;
        };
        if definition.contains("##") || definition.contains("%:%:") {
            found.push(name.text);
        }
        for word in used {
            users.entry(word.text).or_default().push(name.text);
        }
    }
    let mut pasting: BTreeSet<&str> = BTreeSet::new();
    while let Some(name) = found.pop() {
        if pasting.insert(name) {
            found.extend(users.get(name).into_iter().flatten());
        }
    }
    for line in lines {
        let Some(directive) = line.directive() else {
            continue;
        };
        let condition = ["if", "elif"].iter().any(|name| {
            directive
                .strip_prefix(name)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        });
        if condition && tokens(directive).iter().any(|t| pasting.contains(t.text)) {
            return Err(refused(
                CandidateFault::ForbiddenInclude,
                line.number,
                "a condition with a macro that pastes words together is not permitted: it may look for files",
            ));
        }
    }
    Ok(())
}

/// Refuses pragmas that leave no trace in preprocessed text, both as directives and as operators.
fn pragmas(lines: &[Line]) -> Result<(), Failure> {
    let operators = lines
        .iter()
        .any(|l| l.text.contains("_Pragma") || l.text.contains("__pragma"));
    for line in lines {
        let directive = line.directive().and_then(|d| d.strip_prefix("pragma"));
        let text = match directive {
            Some(rest) => rest,
            None if operators => &line.text,
            None => continue,
        };
        // A string is one token, and the pragma of a `_Pragma` operator stands in a string.
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let mut found = words.filter(|w| TRACELESS.contains(w));
        if let Some(word) = found.next() {
            return Err(refused(
                CandidateFault::ForbiddenConstruct,
                line.number,
                format!("`#pragma {word}` is not permitted"),
            ));
        }
    }
    Ok(())
}

fn name_or(name: &str, directive: &str) -> String {
    if name.is_empty() {
        directive.chars().take(20).collect()
    } else {
        name.to_owned()
    }
}

/// True for feature-test macros, whose purpose is to change headers.
fn is_feature_macro(definition: &str) -> bool {
    const NAMES: [&str; 7] = [
        "_GNU_SOURCE",
        "_DEFAULT_SOURCE",
        "_POSIX_C_SOURCE",
        "_XOPEN_SOURCE",
        "_ISOC11_SOURCE",
        "_ISOC99_SOURCE",
        "_USE_MATH_DEFINES",
    ];
    definition
        .split_whitespace()
        .next()
        .is_some_and(|name| NAMES.contains(&name))
}

fn include(
    line: u32,
    argument: &str,
    problem: &Problem,
    language: Language,
) -> Result<(), Failure> {
    let name = argument
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
        .or_else(|| {
            argument
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'))
        });
    let permitted = || {
        let of_cxx = CXX_HEADERS.iter().filter(|_| language == Language::Cxx);
        let names = problem.includes.iter().map(String::as_str);
        let names = names.chain(of_cxx.copied()).map(|i| format!("<{i}>"));
        let names: Vec<String> = names.collect();
        if names.is_empty() {
            "none is permitted".to_owned()
        } else {
            format!("permitted are {}", names.join(" "))
        }
    };
    match name {
        Some((name, after)) if after.trim().is_empty() => {
            if is_permitted(name, problem, language) {
                return Ok(());
            }
            let what = format!("the header `{name}` may not be included; {}", permitted());
            Err(refused(CandidateFault::ForbiddenInclude, line, what))
        }
        _ => {
            let what = format!(
                "`#include {argument}` does not name a header plainly: write one name in `<>` or quotes; {}",
                permitted()
            );
            Err(refused(CandidateFault::ForbiddenInclude, line, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    #[test]
    fn the_page_names_each_directive_and_trigraph_of_the_lists() {
        let of = |words: &[&'static str]| page::names(words.iter().copied());
        page::compare(
            "Refused directives and spellings",
            &[
                of(TRIGRAPHS),
                of(BRACES),
                page::prefixed("#", READING.iter().copied()),
                of(LOOKING),
                of(&[
                    "#line N",
                    "# 12 \"file\" 1 3",
                    "##",
                    "%:",
                    "#",
                    "R\"(",
                    "1'0",
                ]),
            ],
        );
    }
}
