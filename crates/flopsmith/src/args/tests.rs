use clap::Parser;
use flopsmith_bench::threads::ThreadCount::{All, Of};

use super::{Args, Command};

fn wants_json(line: &str) -> bool {
    let words: Vec<_> = line.split_whitespace().map(Into::into).collect();
    let (_, wants_json) = Args::of(&words).unwrap_or_else(|e| unreachable!("{line}: {e}"));
    wants_json
}

#[test]
fn commands_with_json_output_report_errors_as_json() {
    for line in [
        "flopsmith problem list",
        "flopsmith problem prompt dgemm",
        "flopsmith config check a.toml",
        "flopsmith replay",
        "flopsmith runs",
        "flopsmith runs list",
        "flopsmith bench a.c --problem dgemm",
        "flopsmith eval models/starter --problem dgemm",
        "flopsmith eval compare a b",
    ] {
        assert!(wants_json(&format!("{line} --format json")), "{line}");
        assert!(!wants_json(&format!("{line} --format text")), "{line}");
    }
}

/// Two arguments of one name would share their values.
#[test]
fn no_command_has_two_arguments_of_one_name() {
    fn check(command: &clap::Command) {
        let mut names: Vec<_> = command.get_arguments().map(clap::Arg::get_id).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}: {names:?}", command.get_name());
        command.get_subcommands().for_each(check);
    }
    check(&<Args as clap::CommandFactory>::command());
}

#[test]
fn help_explains_the_columns_of_runs_and_names_no_flag_of_another_command() {
    let help = |path: &[&str]| {
        let mut command = <Args as clap::CommandFactory>::command();
        for name in path {
            let inner = command.find_subcommand(name).cloned();
            command = inner.unwrap_or_else(|| unreachable!("{path:?}"));
        }
        command.render_long_help().to_string()
    };
    for path in [&["runs"][..], &["runs", "list"]] {
        for column in ["job", "cells", "correct"] {
            let explained = format!("\n  {column} ");
            assert!(help(path).contains(&explained), "{column} in {path:?}");
        }
    }
    for command in ["doctor", "eval", "train", "search", "serve"] {
        let help = help(&[command]);
        assert!(help.contains("--wait <TIME>"), "{command}");
        assert!(!help.contains("--watch"), "{command}");
    }
    assert!(help(&["bench"]).contains("(--wait)"));
}

#[test]
fn commands_that_certify_accept_a_limit_on_the_wait_for_a_quiet_machine() {
    use crate::args::Command;
    use std::time::Duration;
    for line in [
        "bench a.c --problem dgemm",
        "eval models/starter --problem dgemm",
        "doctor --timing",
        "train a.toml",
        "search --problem dgemm",
        "serve",
        "mcp",
    ] {
        let limit = |wait: &str| {
            let words = format!("flopsmith {line} --wait {wait}");
            let args = Args::try_parse_from(words.split_whitespace())
                .unwrap_or_else(|e| unreachable!("{words}: {e}"));
            let wait = match args.command {
                Command::Bench(a) => a.wait,
                Command::Eval(a) => a.wait,
                Command::Doctor(a) => a.wait,
                Command::Train(a) => a.run.wait,
                Command::Search(a) => a.run.wait,
                Command::Serve(a) => a.evaluating.wait,
                Command::Mcp(a) => a.evaluating.wait,
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
fn services_take_the_budget_of_agents() {
    use crate::args::Command;
    use std::time::Duration;
    for command in ["serve", "mcp"] {
        let budget = |options: &str| {
            let line = format!("flopsmith {command} {options}");
            let args = Args::try_parse_from(line.split_whitespace())
                .unwrap_or_else(|e| unreachable!("{line}: {e}"));
            match args.command {
                Command::Serve(a) => a.evaluating.budget,
                Command::Mcp(a) => a.evaluating.budget,
                other => unreachable!("{other:?}"),
            }
        };
        let unlimited = budget("");
        assert_eq!(unlimited.evaluations(), None);
        assert_eq!(unlimited.time().ok(), Some(None));
        let limited = budget("--max-evaluations 3 --max-seconds 1m");
        assert_eq!(limited.evaluations(), Some(3));
        let minute = Some(Some(Duration::from_secs(60)));
        assert_eq!(limited.time().ok(), minute);
        let error = budget("--max-seconds soon").time().expect_err("no time");
        assert!(format!("{error:#}").contains("--max-seconds"), "{error:#}");
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

/// Every file under a folder whose name has the ending, with its text.
fn files(folder: &std::path::Path, ending: &str, found: &mut Vec<(std::path::PathBuf, String)>) {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|e| unreachable!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|end| end == ending) {
            let text = std::fs::read_to_string(&path)
                .unwrap_or_else(|e| unreachable!("{}: {e}", path.display()));
            found.push((path, text));
        }
    }
}

/// The pages at the root, docs, and the pages beside chart, Python client and fuzz targets.
#[cfg(feature = "torch")]
fn documents() -> Vec<(std::path::PathBuf, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents: Vec<_> = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "helm/flopsmith/README.md",
        "clients/python/README.md",
        "fuzz/README.md",
    ]
    .map(|name| {
        let path = root.join(name);
        let text = std::fs::read_to_string(&path);
        (path, text.unwrap_or_else(|e| unreachable!("{name}: {e}")))
    })
    .into();
    files(&root.join("docs"), "md", &mut documents);
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
fn commands_in_the_documentation_are_parsed() {
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

/// A worker that finds no streams ends, and Compose 1.29 and machines without an image registry need other commands.
#[cfg(feature = "torch")]
#[test]
fn guides_set_the_broker_up_before_workers_and_say_how_compose_differs() {
    let (mut guides, mut composed) = (0, 0);
    for (path, text) in documents() {
        if path.ends_with("tutorials/cluster.md") || path.ends_with("how-to/operate-a-cluster.md") {
            let [first, worker] =
                ["flopsmith cluster init", "flopsmith worker"].map(|words| text.find(words));
            assert!(first.is_some() && first < worker, "{}", path.display());
            guides += 1;
        }
        if text.contains("docker compose up --build") {
            for words in ["`docker-compose", "make images-offline"] {
                assert!(text.contains(words), "{}: {words}", path.display());
            }
            composed += 1;
        }
    }
    assert!(
        guides == 2 && composed > 2,
        "only {guides} and {composed} pages were found"
    );
}

#[cfg(feature = "torch")]
#[test]
fn commands_and_flags_within_sentences_exist() {
    use clap::CommandFactory;
    let mut program = Args::command();
    program.build();
    let is_command = |span: &str| {
        let words = span.split_once(char::is_whitespace);
        words.is_some_and(|(first, _)| program.find_subcommand(first).is_some())
    };
    let (mut whole, mut short) = (0, 0);
    for (path, text) in documents() {
        for span in text.split('`').skip(1).step_by(2) {
            let rest = match span.strip_prefix("flopsmith ") {
                Some(rest) => rest,
                // Without its program a command needs more than a name, which may be any word.
                None if is_command(span) => span,
                None => continue,
            };
            let mut command = program.clone();
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
            let names_another = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            assert!(
                !command.is_subcommand_required_set() || !words.get(at).is_some_and(names_another),
                "{place}: there is no such command"
            );
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
            match rest == span {
                true => short += 1,
                false => whole += 1,
            }
        }
    }
    assert!(
        whole > 100 && short > 80,
        "only {whole} and {short} commands were found"
    );
}

/// True if the text has the words, and they are no part of longer words.
fn says(text: &str, words: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(words).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + words.len()..].starts_with(is_part)
    })
}

/// The last word of a symbol, such as `Queue::ALL` or `message!`; `None` for other words of a page.
fn symbol(span: &str) -> Option<&str> {
    let path = span.strip_suffix('!').unwrap_or(span);
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    path.split("::")
        .all(is_name)
        .then(|| path.rsplit("::").next())?
}

/// The steps and paragraphs of a page.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in page.lines() {
        let begins = line.is_empty() || line.starts_with(|c: char| c.is_ascii_digit());
        match blocks.last_mut() {
            Some(block) if !begins => *block += &format!(" {line}"),
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks
}

/// The text of a file, or of all files of a folder that are text.
fn text_of(path: &std::path::Path) -> String {
    if path.is_file() {
        return std::fs::read_to_string(path).unwrap_or_default();
    }
    let entries =
        std::fs::read_dir(path).unwrap_or_else(|e| unreachable!("{}: {e}", path.display()));
    entries
        .map(|entry| text_of(&entry.expect("an entry").path()))
        .collect()
}

#[test]
fn paths_and_symbols_of_the_pages_for_maintainers_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = Vec::new();
    files(&root.join("crates"), "rs", &mut sources);
    let is_defined = |name: &str| {
        let kinds = [
            "fn",
            "struct",
            "enum",
            "trait",
            "type",
            "mod",
            "macro_rules!",
        ];
        let definitions = kinds.map(|kind| format!("{kind} {name}"));
        let defines = |source: &String| {
            definitions
                .iter()
                .any(|definition| says(source, definition))
        };
        root.join("crates").join(name).is_dir() || sources.iter().any(|(_, source)| defines(source))
    };
    let mut pages = Vec::new();
    files(&root.join("docs/decisions"), "md", &mut pages);
    for (_, page) in &mut pages {
        *page = page
            .split_once("## Code\n")
            .map(|(_, code)| code.to_owned())
            .unwrap_or_default();
    }
    let extend = root.join("docs/how-to/extend.md");
    pages.push((extend.clone(), text_of(&extend)));
    let (mut paths, mut symbols) = (0, 0);
    for (page, text) in &pages {
        for block in blocks(text) {
            let place = format!("{}: {block}", page.display());
            let spans: Vec<&str> = block.split('`').skip(1).step_by(2).collect();
            let (named, others): (Vec<&str>, Vec<&str>) = spans.into_iter().partition(|span| {
                !span.contains(' ') && (span.contains('/') || root.join(span).is_file())
            });
            for path in &named {
                assert!(root.join(path).exists(), "{place}: {path}");
                paths += 1;
            }
            let named: Vec<String> = named.iter().map(|path| text_of(&root.join(path))).collect();
            for name in others.into_iter().filter_map(symbol) {
                let exists = named.iter().any(|text| says(text, name))
                    || named.is_empty() && is_defined(name);
                assert!(exists, "{place}: {name}");
                symbols += 1;
            }
        }
    }
    assert!(
        paths > 400 && symbols > 80,
        "only {paths} paths and {symbols} symbols were found"
    );
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

#[test]
fn a_search_permits_longer_programs_as_a_bench_does() {
    let most = |line: &str| {
        let args = Args::try_parse_from(line.split_whitespace())?;
        Ok::<_, clap::Error>(match args.command {
            Command::Bench(a) => a.max_source,
            Command::Search(a) => a.max_source,
            _ => None,
        })
    };
    for line in [
        "flopsmith bench a.c --problem dgemm",
        "flopsmith search --problem dgemm --start a.c",
    ] {
        for (bytes, permitted) in [("64", Some(64)), ("8388608", Some(8_388_608))] {
            let found = most(&format!("{line} --max-source {bytes}"));
            assert_eq!(found.ok(), Some(permitted), "{line}");
        }
        for wrong in ["63", "8388609", "-1", "much"] {
            let error = most(&format!("{line} --max-source {wrong}"));
            assert_eq!(error.map_err(|e| e.exit_code()), Err(2), "{line} {wrong}");
        }
    }
    // Without a program of the user's own there is nothing to permit.
    let alone = most("flopsmith search --problem dgemm --max-source 200000");
    assert_eq!(alone.map_err(|e| e.exit_code()), Err(2));
}

#[test]
#[expect(clippy::unwrap_used, reason = "tests")]
fn a_comparison_needs_no_problem_and_an_evaluation_does() {
    let typed = |line: &str| Args::try_parse_from(line.split_whitespace());
    let Command::Eval(eval) = typed("flopsmith eval compare a#b c").unwrap().command else {
        unreachable!("a comparison")
    };
    let Some(super::EvalAction::Compare { a, b, .. }) = eval.action else {
        unreachable!("a comparison")
    };
    assert_eq!((a.as_str(), b.as_str()), ("a#b", "c"));
    let Command::Eval(eval) = typed("flopsmith eval one two --suite s --k 1,5")
        .unwrap()
        .command
    else {
        unreachable!("an evaluation")
    };
    assert!(eval.action.is_none());
    assert_eq!((eval.models.len(), &eval.draws[..]), (2, &[1, 5][..]));
    for wrong in [
        "flopsmith eval one",
        "flopsmith eval --suite s",
        "flopsmith eval one --suite s --problem p",
        "flopsmith eval one --suite s --k 0",
        "flopsmith eval compare a",
    ] {
        assert_eq!(typed(wrong).unwrap_err().exit_code(), 2, "{wrong}");
    }
}

#[test]
fn options_that_need_a_problem_are_refused_without_one() {
    let typed = |more: &str| {
        let line = format!("flopsmith dataset synthesize --endpoint e --output o {more}");
        Args::try_parse_from(line.split_whitespace()).map_err(|e| e.exit_code())
    };
    for option in ["--compiler clang", "--allow-weaker-jail", "--full"] {
        assert_eq!(typed(option).err(), Some(2), "{option}");
        let with = typed(&format!("{option} --problem dgemm"));
        assert!(with.is_ok(), "{option}: {with:?}");
    }
    assert!(typed("").is_ok());
}
