//! Reading the command line, with hints that clap cannot give by itself.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use super::{Args, variables};

impl Args {
    /// The program with all its commands and options, each with its variable.
    pub fn program() -> clap::Command {
        variables::added(Self::command())
    }

    /// Reads the command line of this process. True if programs read the result, as JSON. A mistake is reported on
    /// stderr and ends the process with exit code 2.
    pub fn read() -> (Self, bool) {
        let words: Vec<OsString> = std::env::args_os().collect();
        Self::of(&words).unwrap_or_else(|error| {
            with_hint(error, &words, |name| std::env::var(name).ok()).exit()
        })
    }

    pub(super) fn of(words: &[OsString]) -> Result<(Self, bool), clap::Error> {
        let program = variables::settled(Self::program(), words);
        let matches = program.try_get_matches_from(words)?;
        let args = Self::from_arg_matches(&matches).map_err(|e| e.format(&mut Self::program()))?;
        Ok((args, wants_json(&matches)))
    }
}

/// True if the command, whichever it is, has `--format json` or `jsonl`.
fn wants_json(matches: &ArgMatches) -> bool {
    let formats = matches.try_get_raw("format").ok().flatten();
    let is_json = |format: &std::ffi::OsStr| format == "json" || format == "jsonl";
    let inner = matches.subcommand().map(|(_, inner)| inner);
    formats.into_iter().flatten().any(is_json) || inner.is_some_and(wants_json)
}

/// An error of clap with a line on what to try, where one is known.
fn with_hint(
    mut error: clap::Error,
    words: &[OsString],
    environment: impl Fn(&str) -> Option<String>,
) -> clap::Error {
    let hint = match error.kind() {
        ErrorKind::MissingRequiredArgument if lacks_problem(&error) => Some(
            "`flopsmith problem list` shows all problems, and `flopsmith problem new FOLDER` starts a new one"
                .to_owned(),
        ),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            variable_at_fault(&error, words, environment)
                .map(|name| format!("this comes from the environment variable {name}"))
        }
        ErrorKind::InvalidSubcommand => {
            let word = match error.get(ContextKind::InvalidSubcommand) {
                Some(ContextValue::String(word)) => word.as_str(),
                _ => "",
            };
            without_libtorch(word, cfg!(feature = "torch"))
        }
        ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument => {
            let set = variables_that_count(words, environment);
            (!set.is_empty()).then(|| {
                format!(
                    "environment variables count as options, and these are set: {}",
                    set.join(", ")
                )
            })
        }
        _ => None,
    };
    if let Some(hint) = hint {
        let hint = ContextValue::StyledStrs(vec![StyledStr::from(hint)]);
        error.insert(ContextKind::Suggested, hint);
    }
    error
}

/// The commands that only a build with libtorch has.
const OF_LIBTORCH: [&str; 6] = ["align", "dpa", "model", "reward-model", "rlpf", "sft"];

/// The reason why this build has no command of this name, if another build has it.
fn without_libtorch(word: &str, has_libtorch: bool) -> Option<String> {
    (!has_libtorch && OF_LIBTORCH.contains(&word)).then(|| {
        format!(
            "this build has no libtorch, which `{word}` needs: use a build with the `torch` feature (`make build`)"
        )
    })
}

fn lacks_problem(error: &clap::Error) -> bool {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.iter().any(|n| n.starts_with("--problem")),
        Some(ContextValue::String(name)) => name.starts_with("--problem"),
        _ => false,
    }
}

/// The variable that holds the value at fault, unless the value was typed.
fn variable_at_fault(
    error: &clap::Error,
    words: &[OsString],
    environment: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let (Some(ContextValue::String(argument)), Some(ContextValue::String(value))) = (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::InvalidValue),
    ) else {
        return None;
    };
    let flag = argument.split_whitespace().next()?;
    let typed = words.iter().any(|word| {
        word.to_str()
            .and_then(|w| w.strip_prefix(flag))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    });
    if typed {
        return None;
    }
    let name = variable_of(&Args::program(), words, flag)?;
    (environment(&name)? == *value).then_some(name)
}

/// The commands that the words name, from the program to the innermost one.
fn named<'a>(program: &'a clap::Command, words: &[OsString]) -> Vec<&'a clap::Command> {
    let mut last = program;
    let mut named = vec![program];
    for word in words.iter().skip(1) {
        if let Some(inner) = last.find_subcommand(word) {
            named.push(inner);
            last = inner;
        }
    }
    named
}

/// The variable of a flag in the innermost command of a line that has the flag.
fn variable_of(program: &clap::Command, words: &[OsString], flag: &str) -> Option<String> {
    let long = flag.strip_prefix("--")?;
    let commands = named(program, words);
    let mut options = commands.iter().rev().flat_map(|c| c.get_arguments());
    let option = options.find(|a| a.get_long() == Some(long))?;
    option.get_env()?.to_str().map(str::to_owned)
}

/// The variables with the name of the innermost command of a line that are set and take the place of options that are not
/// typed.
fn variables_that_count(
    words: &[OsString],
    environment: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let program = Args::program();
    let mut set = Vec::new();
    if let Some(command) = named(&program, words).last() {
        for option in command.get_arguments() {
            let name = option.get_env().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| environment(name).is_some()) else {
                continue;
            };
            // Variables of many commands, such as that of the format, are set for other reasons.
            let is_own = name.contains(&command.get_name().replace('-', "_").to_uppercase());
            if is_own && !variables::is_typed(option, words) {
                set.push(name.to_owned());
            }
        }
    }
    set
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::Parser;

    use super::*;

    fn said(line: &str, environment: &[(&str, &str)]) -> String {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        let error = Args::try_parse_from(&words).unwrap_err();
        let value = |name: &str| {
            let (_, value) = environment.iter().find(|(n, _)| *n == name)?;
            Some((*value).to_owned())
        };
        with_hint(error, &words, value).to_string()
    }

    #[test]
    fn commands_without_a_problem_point_to_the_list_of_problems() {
        for line in ["flopsmith bench a.c", "flopsmith search"] {
            let said = said(line, &[]);
            assert!(said.contains("tip: `flopsmith problem list`"), "{said}");
        }
    }

    #[test]
    fn a_command_that_needs_libtorch_is_no_unknown_one() {
        let why = without_libtorch("model", false).unwrap();
        assert!(
            why.contains("no libtorch") && why.contains("make build"),
            "{why}"
        );
        assert_eq!(without_libtorch("model", true), None);
        assert_eq!(without_libtorch("modle", false), None);
        let program = Args::program();
        let known = |name: &&str| program.find_subcommand(name).is_some();
        match cfg!(feature = "torch") {
            true => assert!(OF_LIBTORCH.iter().all(known)),
            false => {
                assert!(!OF_LIBTORCH.iter().any(known));
                let said = said("flopsmith model plan folder", &[]);
                assert!(said.contains("no libtorch"), "{said}");
            }
        }
    }

    #[test]
    fn a_negative_number_is_a_wrong_value_and_no_unknown_flag() {
        for line in [
            "flopsmith bench a.c --problem dgemm --threads -1",
            "flopsmith search --problem dgemm --seed -1",
            "flopsmith search --problem dgemm --evaluations -3",
        ] {
            let said = said(line, &[]);
            assert!(said.contains("invalid value '-"), "{said}");
        }
        // Times are read later, and with words of their own.
        for line in [
            "bench a.c --problem dgemm --wait -5",
            "bench a.c --problem dgemm --resolve -5",
        ] {
            Args::try_parse_from(["flopsmith"].into_iter().chain(line.split(' '))).unwrap();
        }
    }

    #[test]
    fn a_value_that_was_typed_is_not_laid_to_a_variable() {
        let environment = [("FLOPSMITH_FORMAT", "csv")];
        for line in ["flopsmith runs --format csv", "flopsmith runs --format=csv"] {
            let said = said(line, &environment);
            assert!(!said.contains("FLOPSMITH_FORMAT"), "{said}");
        }
    }

    #[test]
    fn a_value_of_a_variable_is_laid_to_the_variable_of_the_command_in_use() {
        for (line, name) in [
            (
                "flopsmith bench a.c --problem dgemm",
                "FLOPSMITH_BENCH_THREADS",
            ),
            ("flopsmith serve", "FLOPSMITH_SERVE_THREADS"),
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            let found = variable_of(&Args::program(), &words, "--threads");
            assert_eq!(found.as_deref(), Some(name), "{line}");
        }
    }

    #[test]
    fn variables_that_stand_for_options_are_named_where_options_exclude_or_lack_each_other() {
        let set = [
            ("FLOPSMITH_SEARCH_MAX_SOURCE", "200000"),
            ("FLOPSMITH_FORMAT", "json"),
        ];
        let lacking = "flopsmith search --problem dgemm --max-source 200000";
        assert!(!said(lacking, &set).contains("are set"), "it is typed");
        let lacking = "flopsmith search --problem dgemm --parameters p.json";
        let said = said(lacking, &set);
        assert!(
            said.contains("are set: FLOPSMITH_SEARCH_MAX_SOURCE"),
            "{said}"
        );
        assert!(!said.contains("FLOPSMITH_FORMAT"), "{said}");
    }
}
