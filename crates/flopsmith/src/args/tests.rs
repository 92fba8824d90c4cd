use clap::Parser;
use flopsmith_bench::threads::ThreadCount::{All, Of};

use super::{Args, Command};

fn wants_json(line: &str) -> bool {
    let words: Vec<_> = line.split_whitespace().map(Into::into).collect();
    let (_, wants_json) = Args::of(&words).unwrap_or_else(|e| unreachable!("{line}: {e}"));
    wants_json
}

#[test]
fn whoever_asks_for_json_also_gets_errors_so() {
    for line in [
        "flopsmith problem list",
        "flopsmith problem prompt dgemm",
        "flopsmith config check a.toml",
        "flopsmith replay",
        "flopsmith runs",
        "flopsmith bench a.c --problem dgemm",
    ] {
        assert!(wants_json(&format!("{line} --format json")), "{line}");
        assert!(!wants_json(&format!("{line} --format text")), "{line}");
    }
}

#[test]
fn whatever_certifies_can_be_told_how_long_to_wait_for_a_quiet_machine() {
    use crate::args::Command;
    use std::time::Duration;
    for line in [
        "bench a.c --problem dgemm",
        "doctor --timing",
        "train a.toml",
        "search --problem dgemm",
        "serve",
    ] {
        let limit = |wait: &str| {
            let words = format!("flopsmith {line} --wait {wait}");
            let args = Args::try_parse_from(words.split_whitespace())
                .unwrap_or_else(|e| unreachable!("{words}: {e}"));
            let wait = match args.command {
                Command::Bench(a) => a.wait,
                Command::Doctor(a) => a.wait,
                Command::Train(a) => a.wait,
                Command::Search(a) => a.wait,
                Command::Serve(a) => a.wait,
                other => unreachable!("{other:?}"),
            };
            wait.limit()
        };
        for nothing in ["0", "0s", "0m"] {
            assert_eq!(limit(nothing).ok(), Some(Duration::ZERO), "{line}");
        }
        assert_eq!(limit("90").ok(), Some(Duration::from_secs(90)), "{line}");
        let error = limit("soon").expect_err("no time");
        assert!(
            error
                .chain()
                .any(|e| e.is::<flopsmith_run::console::Usage>())
        );
        assert!(format!("{error:#}").contains("--wait"), "{error:#}");
    }
}

#[test]
fn a_seed_is_one_that_the_runs_own_configuration_can_hold() {
    use crate::args::Command;
    let seed = |line: &str| {
        let args = Args::try_parse_from(line.split_whitespace())?;
        Ok::<_, clap::Error>(match args.command {
            Command::Train(a) => a.seed,
            Command::Search(a) => a.seed,
            _ => None,
        })
    };
    for command in ["train a.toml", "search --problem dgemm"] {
        let largest = seed(&format!("flopsmith {command} --seed 9223372036854775807"));
        let largest = largest.expect("it fits").expect("a seed");
        let settings = flopsmith_config::Settings {
            seed: largest,
            ..Default::default()
        };
        let text = toml::to_string(&settings).expect("TOML");
        let read: flopsmith_config::Settings = toml::from_str(&text).expect("settings");
        assert_eq!(read, settings);
        let beyond = seed(&format!("flopsmith {command} --seed 9223372036854775808"));
        let error = beyond.expect_err("too large").to_string();
        assert!(
            error.contains("--seed") && error.contains("9223372036854775807"),
            "{error}"
        );
    }
}

/// The commands of a line, each as its words, as a shell reads them as far as the documentation needs it.
#[cfg(feature = "torch")]
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        let last = words.len() - 1;
        match c {
            '\'' | '"' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            '#' if quote.is_none() && words[last].is_empty() => break,
            c if c.is_whitespace() && quote.is_none() => words.push(String::new()),
            c => words[last].push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    let ends = |word: &String| ["|", ">", ">>", "&&", "&", "<"].contains(&word.as_str());
    words.split(ends).map(<[String]>::to_vec).collect()
}

/// Every page under a folder, with its text.
#[cfg(feature = "torch")]
fn pages(folder: &std::path::Path, found: &mut Vec<(std::path::PathBuf, String)>) {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|e| unreachable!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            let text = std::fs::read_to_string(&path)
                .unwrap_or_else(|e| unreachable!("{}: {e}", path.display()));
            found.push((path, text));
        }
    }
}

/// README, docs and the pages beside chart and fuzz targets.
#[cfg(feature = "torch")]
fn documents() -> Vec<(std::path::PathBuf, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents: Vec<_> = ["README.md", "helm/flopsmith/README.md", "fuzz/README.md"]
        .map(|name| {
            let path = root.join(name);
            let text = std::fs::read_to_string(&path);
            (path, text.unwrap_or_else(|e| unreachable!("{name}: {e}")))
        })
        .into();
    pages(&root.join("docs"), &mut documents);
    documents
}

/// The arguments that a command gives to Flopsmith, its name first; `None` if the command calls another program.
#[cfg(feature = "torch")]
fn arguments(words: &[String]) -> Option<&[String]> {
    let is_setting = |word: &String| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let from = words.iter().position(|word| !is_setting(word))?;
    let words = &words[from..];
    if words[0] == "docker" && !words.iter().any(|word| word == "--entrypoint") {
        let at = words.iter().position(|word| word == "run")?;
        let service = words[at..].iter().position(|word| word == "flopsmith")?;
        return Some(&words[at + service..]);
    }
    let is_ours = words[0] == "flopsmith" || words[0].ends_with("/flopsmith");
    is_ours.then_some(words)
}

#[cfg(feature = "torch")]
#[test]
fn what_the_documentation_says_to_type_is_understood() {
    let makefile = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Makefile");
    let makefile = std::fs::read_to_string(makefile).expect("a Makefile");
    let (mut typed, mut made) = (0, 0);
    for (path, text) in documents() {
        let mut inside = false;
        let mut exported = false;
        // A backslash at the end of a line joins it with the next one.
        for line in text.replace("\\\n", " ").lines() {
            let line = line.trim_start();
            if line.starts_with("```") {
                inside = line == "```sh";
                continue;
            }
            if !inside {
                continue;
            }
            exported |= line.starts_with("export FLOPSMITH_NATS=");
            for command in commands(line) {
                let place = format!("{}: {line}", path.display());
                // A loop's variable stands for words that only the loop has.
                if command.iter().any(|word| word.contains("${")) {
                    continue;
                }
                // A service of the dev cluster has its addresses in the environment.
                let told = exported || command.first().is_some_and(|word| word == "docker");
                if let Some(given) = arguments(&command) {
                    let mut words = given.to_vec();
                    let mut parsed = Args::try_parse_from(&words);
                    for named in ["--nats", "--store"] {
                        if told && parsed.is_err() {
                            words.extend([named, "nats://broker:4222"].map(str::to_owned));
                            parsed = Args::try_parse_from(&words);
                        }
                    }
                    assert!(parsed.is_ok(), "{place}: {parsed:?}");
                    typed += 1;
                } else if let Some(at) = command.iter().position(|word| word == "make") {
                    let target = &command[at + 1];
                    assert!(
                        makefile.contains(&format!("\n{target}:")),
                        "{place}: {target}"
                    );
                    let more = command.iter().find_map(|word| word.strip_prefix("ARGS="));
                    let whole = match target.as_str() {
                        "train" => "flopsmith train examples/dgemm.toml",
                        "search" => "flopsmith search --problem dgemm",
                        _ => continue,
                    };
                    let whole = format!("{whole} {}", more.unwrap_or_default());
                    let parsed = Args::try_parse_from(whole.split_whitespace());
                    assert!(parsed.is_ok(), "{place}: {parsed:?}");
                    made += 1;
                }
            }
        }
    }
    assert!(
        typed > 70 && made > 4,
        "only {typed} and {made} commands were found"
    );
}

#[cfg(feature = "torch")]
#[test]
fn commands_and_flags_within_sentences_exist() {
    use clap::CommandFactory;
    let mut seen = 0;
    for (path, text) in documents() {
        for span in text.split('`').skip(1).step_by(2) {
            let Some(rest) = span.strip_prefix("flopsmith ") else {
                continue;
            };
            let mut command = Args::command();
            command.build();
            let words: Vec<&str> = rest.split_whitespace().collect();
            let mut at = 0;
            while let Some(inner) = words.get(at).and_then(|word| command.find_subcommand(word)) {
                command = inner.clone();
                at += 1;
            }
            let place = format!("{}: `{span}`", path.display());
            // A word in capitals stands for any command.
            let Some(first) = words.first() else { continue };
            let any = first.chars().all(|c| c.is_ascii_uppercase());
            assert!(at > 0 || any, "{place}");
            for flag in words[at..]
                .iter()
                .filter_map(|word| word.strip_prefix("--"))
            {
                let name = flag.split('=').next().unwrap_or_default();
                let known = |arg: &clap::Arg| arg.get_long() == Some(name);
                assert!(
                    any || name == "help" || command.get_arguments().any(known),
                    "{place}: --{name}"
                );
            }
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen} commands were found");
}

#[test]
#[expect(clippy::unwrap_used, reason = "tests")]
fn a_list_is_typed_with_commas_and_does_not_swallow_files() {
    let typed = |list: &str| {
        let words = [
            "flopsmith",
            "bench",
            "--problem",
            "p",
            "--threads",
            list,
            "a.c",
            "b.c",
        ];
        Args::try_parse_from(words).map(|args| match args.command {
            Command::Bench(bench) => (bench.threads, bench.files.len()),
            _ => (Vec::new(), 0),
        })
    };
    assert_eq!(typed("2").unwrap(), (vec![Of(2)], 2));
    assert_eq!(typed("1,2,all").unwrap(), (vec![Of(1), Of(2), All], 2));
    for wrong in ["0", "1,", "most", "-1", ""] {
        let error = typed(wrong).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{wrong}: {error}");
    }
}
