//! The environment variables of options.
//!
//! Options that several commands have with one meaning name their variable where they are declared (`FLOPSMITH_FORMAT`).
//! Every other option gets one here, with the names of its command and of itself: `FLOPSMITH_BENCH_SIZE` for `bench --size`.
//! So a variable that is set for one command changes no other, and an option that is added later has a variable as well.

use std::ffi::{OsStr, OsString};

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command};

/// Options with a variable of many commands that need another option in one command: the command, the option, and the one
/// that it needs. A variable that is set for other commands must not make the command fail.
const NEEDING: [(&str, &str, &str); 2] = [
    ("synthesize", "compiler", "problem"),
    ("synthesize", "allow_weaker_jail", "problem"),
];

/// Stands for every command in [`WITHOUT`].
const ANY: &str = "*";

/// Options without a variable: the command, or [`ANY`], the option, and the reason.
pub const WITHOUT: [(&str, &str, &str); 8] = [
    (
        ANY,
        "resume",
        "a variable that stays set would continue an old run where a new one is meant",
    ),
    (
        ANY,
        "nats",
        "`FLOPSMITH_NATS` names the server, and counts only with `--cluster`",
    ),
    (
        ANY,
        "store",
        "`FLOPSMITH_STORE` names the store, and counts only with `--cluster`",
    ),
    (
        ANY,
        "machine-class",
        "`FLOPSMITH_MACHINE_CLASS` names the class, and counts only with `--cluster`",
    ),
    (
        "dead retry",
        "all",
        "a variable that stays set would redeliver every message where some are meant",
    ),
    (
        "store gc",
        "all",
        "a variable that stays set would remove what the command otherwise protects",
    ),
    (
        "problem import",
        "force",
        "a variable that stays set would replace files that the user has edited",
    ),
    (
        "model serve",
        "port",
        "Kubernetes sets a variable of this name, for another purpose, where a Service is called flopsmith-model-serve",
    ),
];

/// The reason why an option of a command has no variable.
fn reason_against(command: &str, option: &str) -> Option<&'static str> {
    let mut without = WITHOUT.iter();
    without
        .find(|(of, name, _)| (*of == ANY || *of == command) && *name == option)
        .map(|(_, _, reason)| *reason)
}

/// Gives each option of the program a variable that has none yet, but for those of [`WITHOUT`].
pub fn added(program: Command) -> Command {
    added_below(program, "")
}

/// `path` holds the names of the commands from below the program to this one.
fn added_below(command: Command, path: &str) -> Command {
    let command = command.mut_args(|option| with_variable(option, path));
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        added_below(inner, path.trim_start())
    })
}

fn with_variable(option: Arg, path: &str) -> Arg {
    let Some(long) = option.get_long() else {
        return option;
    };
    if option.get_env().is_some() || reason_against(path, long).is_some() {
        return option;
    }
    // clap keeps names of variables for as long as the process lives.
    let name: &'static str = Box::leak(name_of(path, long).into_boxed_str());
    // A stop text of `model sample` may have line ends.
    let is_list = matches!(option.get_action(), ArgAction::Append)
        && option.get_value_delimiter().is_none()
        && long != "stop";
    let is_switch = matches!(option.get_action(), ArgAction::SetTrue);
    let option = option.env(name);
    match (is_list, is_switch) {
        // A list of names or pairs has commas within its elements.
        (true, _) => option.value_delimiter('\n'),
        (_, true) => option.value_parser(BoolishValueParser::new()),
        _ => option,
    }
}

/// The variable of an option of a command, e.g. `FLOPSMITH_BENCH_SIZE` of `bench` and `size`.
fn name_of(path: &str, long: &str) -> String {
    let words = format!("flopsmith {path} {long}");
    let words: Vec<&str> = words.split([' ', '-']).filter(|w| !w.is_empty()).collect();
    words.join("_").to_uppercase()
}

/// Takes the variables away that must not count for these words of a command line: those that say `no`, which for clap
/// would exclude other options all the same, those of options that a typed one excludes, and those of [`NEEDING`] without
/// the option that they need.
pub fn settled(command: Command, words: &[OsString]) -> Command {
    let ignored = ignored(&command, words, &|name: &str| std::env::var_os(name));
    let command = command.mut_args(|option| {
        let is_ignored = ignored.iter().any(|id| option.get_id() == id.as_str());
        match is_ignored {
            true => option.env(None::<&'static str>),
            false => option,
        }
    });
    command.mut_subcommands(|inner| settled(inner, words))
}

/// The ids of the options whose variables must not count.
fn ignored(
    command: &Command,
    words: &[OsString],
    environment: &impl Fn(&str) -> Option<OsString>,
) -> Vec<String> {
    let excludes = |one: &Arg, other: &Arg| {
        let conflicts = command.get_arg_conflicts_with(one);
        conflicts.iter().any(|arg| arg.get_id() == other.get_id())
    };
    let typed: Vec<&Arg> = command
        .get_arguments()
        .filter(|option| is_typed(option, words))
        .collect();
    let mut ignored = Vec::new();
    for option in command.get_arguments() {
        let Some(value) = option
            .get_env()
            .and_then(|name| environment(name.to_str()?))
        else {
            continue;
        };
        let is_switch = matches!(option.get_action(), ArgAction::SetTrue);
        let is_excluded = || {
            let mut typed = typed.iter();
            typed.any(|other| excludes(option, other) || excludes(other, option))
        };
        let lacks = |&(of, id, needed): &(&str, &str, &str)| {
            let is_given = |id: &str| {
                let mut options = command.get_arguments().filter(|o| o.get_id() == id);
                options.any(|option| {
                    let name = option.get_env().and_then(|name| name.to_str());
                    is_typed(option, words) || name.is_some_and(|n| environment(n).is_some())
                })
            };
            command.get_name() == of && option.get_id() == id && !is_given(needed)
        };
        let is_alone = NEEDING.iter().any(lacks);
        if is_switch && says_no(&value) || is_excluded() || is_alone {
            ignored.push(option.get_id().as_str().to_owned());
        }
    }
    ignored
}

/// True for the words that clap reads as `false`, and for an empty variable.
fn says_no(value: &OsStr) -> bool {
    let value = value.to_str().map(str::to_ascii_lowercase);
    value.is_some_and(|value| ["", "0", "f", "false", "n", "no", "off"].contains(&value.as_str()))
}

/// True if the option is among the words of a command line.
pub fn is_typed(option: &Arg, words: &[OsString]) -> bool {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    words.any(|word| {
        let rest = long.as_deref().and_then(|flag| word.strip_prefix(flag));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            || short.as_deref().is_some_and(|flag| word.starts_with(flag))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::args::Args;

    /// Each command with the names of all commands from below the program to it, the program itself first.
    fn commands(program: &Command) -> Vec<(String, &Command)> {
        fn collect<'a>(path: &str, command: &'a Command, found: &mut Vec<(String, &'a Command)>) {
            found.push((path.to_owned(), command));
            for inner in command.get_subcommands() {
                let path = format!("{path} {}", inner.get_name());
                collect(path.trim_start(), inner, found);
            }
        }
        let mut found = Vec::new();
        collect("", program, &mut found);
        found
    }

    #[test]
    fn each_option_has_a_variable_or_a_reason_against_it() {
        let program = Args::program();
        let (mut named, mut without) = (0, Vec::new());
        for (path, command) in commands(&program) {
            for option in command.get_arguments() {
                let Some(long) = option.get_long() else {
                    continue;
                };
                match (option.get_env(), reason_against(&path, long)) {
                    (Some(_), _) => named += 1,
                    (None, Some(_)) => without.push((path.clone(), long)),
                    (None, None) => unreachable!("{path} --{long} has no variable"),
                }
            }
        }
        assert!(named > 100, "{named}");
        for (of, long, reason) in WITHOUT {
            let is_used =
                |(path, name): &(String, &str)| (of == ANY || of == path) && *name == long;
            let is_here = cfg!(feature = "torch") || !of.starts_with("model");
            assert!(
                !is_here || without.iter().any(is_used),
                "{of} --{long} has a variable or does not exist"
            );
            assert!(reason.len() > 20, "{of} --{long}: {reason}");
        }
    }

    #[test]
    fn a_variable_means_the_same_in_all_commands() {
        let program = Args::program();
        let mut meanings = BTreeMap::new();
        for (path, command) in commands(&program) {
            for option in command.get_arguments() {
                let (Some(long), Some(name)) = (option.get_long(), option.get_env()) else {
                    continue;
                };
                // Commands print results in different formats.
                let values = (long != "format").then(|| option.get_value_parser().type_id());
                let names = option.get_value_names().map(<[_]>::to_vec);
                let action = format!("{:?}", option.get_action());
                let meaning = (long.to_owned(), values, names, action);
                let name = name.to_str().unwrap().to_owned();
                let first = meanings
                    .entry(name.clone())
                    .or_insert_with(|| meaning.clone());
                assert_eq!(*first, meaning, "{name} of {path}");
            }
        }
    }

    #[test]
    fn switches_take_the_words_that_people_write_and_lists_a_value_a_line() {
        let program = Args::program();
        for (path, command) in commands(&program) {
            for option in command.get_arguments() {
                let is_switch = matches!(option.get_action(), ArgAction::SetTrue);
                if !is_switch || option.get_env().is_none() {
                    continue;
                }
                let place = format!("{path} {:?}", option.get_long());
                let words = option.get_value_parser().possible_values();
                let words: Vec<_> = words.into_iter().flatten().collect();
                assert!(words.iter().any(|word| word.matches("1", false)), "{place}");
            }
        }
        let bench = program.find_subcommand("bench").unwrap();
        let delimiter = |id: &str| {
            let mut options = bench.get_arguments();
            options.find(|o| o.get_id() == id)?.get_value_delimiter()
        };
        assert_eq!(delimiter("names"), Some('\n'));
        assert_eq!(delimiter("size"), Some('\n'));
        // Typed with commas, and so in its variable.
        assert_eq!(delimiter("threads"), Some(','));
    }

    #[test]
    fn a_typed_option_wins_over_the_variable_of_one_that_it_excludes() {
        let program = Args::program();
        let ignored = |path: &[&str], line: &str, set: &[(&str, &str)]| {
            let mut command = &program;
            for name in path {
                command = command.find_subcommand(name).unwrap();
            }
            let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            ignored(command, &words, &|name: &str| {
                let found = set.iter().find(|(n, _)| *n == name)?;
                Some(found.1.into())
            })
        };
        let none: [&str; 0] = [];
        let suite = [("FLOPSMITH_EVAL_SUITE", "polybench")];
        let typed = "flopsmith eval m --problem dgemm";
        assert_eq!(ignored(&["eval"], typed, &suite), ["suite"]);
        assert_eq!(ignored(&["eval"], "flopsmith eval m", &suite), none);
        // The exclusion is declared at the other option.
        let problem = [("FLOPSMITH_EVAL_PROBLEM", "dgemm")];
        let typed = "flopsmith eval m --suite=polybench";
        assert_eq!(ignored(&["eval"], typed, &problem), ["problem"]);
        let bus = [("FLOPSMITH_NATS", "nats://broker:4222")];
        let typed = "flopsmith dead list --run old";
        assert_eq!(ignored(&["dead", "list"], typed, &bus), ["nats"]);
        // The compiler of other commands is no mistake where no program runs.
        let compiler = [("FLOPSMITH_COMPILER", "clang")];
        let path = ["dataset", "synthesize"];
        let line = "flopsmith dataset synthesize --endpoint e --output o";
        assert_eq!(ignored(&path, line, &compiler), ["compiler"]);
        let line = format!("{line} --problem dgemm");
        assert_eq!(ignored(&path, &line, &compiler), none);
        // Without a variable that says no, the switch would exclude --raw.
        for (value, is_ignored) in [("0", true), ("False", true), ("", true), ("1", false)] {
            let watch = [("FLOPSMITH_BENCH_WATCH", value)];
            let found = ignored(&["bench"], "flopsmith bench a.c", &watch);
            assert_eq!(found == ["watch"], is_ignored, "{value}: {found:?}");
        }
    }

    #[test]
    fn names_have_command_and_option() {
        assert_eq!(name_of("bench", "size"), "FLOPSMITH_BENCH_SIZE");
        assert_eq!(
            name_of("dataset split", "hold-out"),
            "FLOPSMITH_DATASET_SPLIT_HOLD_OUT"
        );
        assert_eq!(
            name_of("reward-model", "output"),
            "FLOPSMITH_REWARD_MODEL_OUTPUT"
        );
        assert_eq!(name_of("", "log"), "FLOPSMITH_LOG");
    }

    /// The page has all variables only if all commands are there.
    #[cfg(feature = "torch")]
    #[test]
    fn the_page_of_variables_has_each_of_them() {
        const HEAD: &str = "| variable | command | option |\n|---|---|---|\n";
        let program = Args::program();
        let mut rows: BTreeMap<String, (Vec<String>, String)> = BTreeMap::new();
        for (path, command) in commands(&program) {
            for option in command.get_arguments() {
                let (Some(long), Some(name)) = (option.get_long(), option.get_env()) else {
                    continue;
                };
                let path = match path.is_empty() {
                    true => "all".to_owned(),
                    false => format!("`{path}`"),
                };
                let name = name.to_str().unwrap().to_owned();
                let row = rows.entry(name).or_insert((Vec::new(), long.to_owned()));
                row.0.push(path);
            }
        }
        let rows = rows.iter().map(|(name, (paths, long))| {
            format!("| `{name}` | {} | `--{long}` |\n", paths.join(", "))
        });
        let rows: String = rows.collect();
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/variables.md"
        );
        let kept = std::fs::read_to_string(page).unwrap();
        let (above, kept) = kept.split_once(HEAD).unwrap();
        if kept != rows && std::env::var_os("FLOPSMITH_BLESS").is_some() {
            std::fs::write(page, format!("{above}{HEAD}{rows}")).unwrap();
            return;
        }
        assert!(
            kept == rows,
            "{page} is not as the options are: FLOPSMITH_BLESS=1 cargo test -p flopsmith variables"
        );
        for (_, long, reason) in WITHOUT {
            let said = above.contains(&format!("`--{long}`")) && above.contains(reason);
            assert!(said, "{page} does not say why --{long} has no variable");
        }
    }
}
