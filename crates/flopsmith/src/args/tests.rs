use clap::Parser;
use flopsmith_bench::threads::ThreadCount::{All, Of};

use super::{Args, Command};

fn wants_json(line: &str) -> bool {
    let words = line.split_whitespace();
    let args = Args::try_parse_from(words).unwrap_or_else(|e| unreachable!("{line}: {e}"));
    args.wants_json()
}

#[test]
fn whoever_asks_for_json_also_gets_errors_so() {
    for line in [
        "flopsmith problem list",
        "flopsmith problem prompt dgemm",
        "flopsmith config check a.toml",
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

/// The words of a line's first command as a shell reads them, as far as the documentation needs it.
#[cfg(feature = "torch")]
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        let last = words.len() - 1;
        match c {
            '\'' => quoted = !quoted,
            '#' if !quoted && words[last].is_empty() => break,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words[last].push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    let end = |word: &String| ["|", ">", ">>", "&&"].contains(&word.as_str());
    let length = words.iter().position(end).unwrap_or(words.len());
    words.truncate(length);
    words
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

#[cfg(feature = "torch")]
#[test]
fn what_the_documentation_says_to_type_is_understood() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = root.join("README.md");
    let text = std::fs::read_to_string(&readme).expect("README.md");
    let mut documents = vec![(readme, text)];
    pages(&root.join("docs"), &mut documents);
    let mut commands = 0;
    for (path, text) in documents {
        let mut inside = false;
        let mut exported = false;
        // A backslash at the end of a line joins it with the next one.
        for line in text.replace("\\\n", " ").lines() {
            let line = line.trim_start();
            if line.starts_with("```") {
                inside = line == "```sh";
            } else if inside && line.starts_with("export FLOPSMITH_NATS=") {
                exported = true;
            } else if inside && line.starts_with("flopsmith ") {
                let mut words = words(line);
                let mut parsed = Args::try_parse_from(&words);
                for named in ["--nats", "--store"] {
                    // As the environment that was exported says.
                    if exported && parsed.is_err() {
                        words.extend([named, "nats://broker:4222"].map(str::to_owned));
                        parsed = Args::try_parse_from(&words);
                    }
                }
                assert!(parsed.is_ok(), "{}: {line}: {parsed:?}", path.display());
                commands += 1;
            }
        }
    }
    assert!(commands > 60, "only {commands} commands were found");
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
