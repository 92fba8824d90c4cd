//! The look at the raw source.

use flopsmith_problem::Problem;
use flopsmith_protocol::CandidateFault;

use super::refused;
use super::text::{self, Line};
use crate::failure::Failure;

/// A source whose directives are harmless.
pub(crate) struct Raw {
    pub lines: Vec<Line>,
    /// A macro is defined before a header is included, so it could change what the header says.
    pub defines_before_include: bool,
}

/// Checks size, characters and directives.
pub(crate) fn check(source: &str, problem: &Problem) -> Result<Raw, Failure> {
    let not_text = |detail: String| Err(Failure::candidate(CandidateFault::SourceTooLarge, detail));
    if source.len() > problem.max_source_bytes {
        return not_text(format!(
            "the source has {} bytes; at most {} are permitted",
            source.len(),
            problem.max_source_bytes
        ));
    }
    let control = |c: &char| c.is_control() && !matches!(c, '\n' | '\t' | '\r' | '\x0c');
    if let Some(c) = source.chars().find(control) {
        return not_text(format!(
            "the source is not text: it holds the character {:#04x}",
            c as u32
        ));
    }
    // A lone carriage return is a line end for some tools and a blank for others.
    if source.replace("\r\n", "").contains('\r') {
        return not_text("the source holds a carriage return without a line feed".into());
    }
    // Trigraphs become other characters before anything else is read, where a flag turns them on.
    if let Some(at) = ["??=", "??/", "??(", "??'"]
        .iter()
        .find_map(|t| source.find(t))
    {
        let line = source[..at].matches('\n').count() as u32 + 1;
        return Err(refused(
            CandidateFault::ForbiddenConstruct,
            line,
            "trigraphs are not permitted",
        ));
    }

    let lines = text::lines(source);
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
            "if" | "ifdef" | "ifndef" | "elif" | "elifdef" | "elifndef" | "else" | "endif"
            | "pragma" | "error" | "warning" => {}
            "define" | "undef" => defined |= !is_feature_macro(rest),
            "include" => {
                include(line.number, rest, problem)?;
                defines_before_include |= defined;
            }
            "include_next" | "import" | "embed" => {
                let what = format!("`#{name}` is not permitted");
                return Err(refused(CandidateFault::ForbiddenInclude, line.number, what));
            }
            // `#line`, `# 1 "file"` and what else could make the candidate's text pass for a header's.
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
        for word in ["__has_include", "__has_embed"] {
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

fn name_or(name: &str, directive: &str) -> String {
    if name.is_empty() {
        directive.chars().take(20).collect()
    } else {
        name.to_owned()
    }
}

/// Macros whose purpose is to change headers.
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

fn include(line: u32, argument: &str, problem: &Problem) -> Result<(), Failure> {
    let name = argument
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
        .or_else(|| {
            argument
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'))
        });
    let permitted = || {
        let names: Vec<_> = problem.includes.iter().map(|i| format!("<{i}>")).collect();
        if names.is_empty() {
            "none is permitted".to_owned()
        } else {
            format!("permitted are {}", names.join(" "))
        }
    };
    match name {
        Some((name, after)) if after.trim().is_empty() => {
            if problem.includes.iter().any(|i| i == name) {
                return Ok(());
            }
            let what = format!("the header `{name}` may not be included; {}", permitted());
            Err(refused(CandidateFault::ForbiddenInclude, line, what))
        }
        _ => {
            let what = format!(
                "`#include {argument}` does not name a header plainly; {}",
                permitted()
            );
            Err(refused(CandidateFault::ForbiddenInclude, line, what))
        }
    }
}
