//! Command lines for the user to copy, valid in the folder in which this process was started.

use std::path::{Path, PathBuf};

use flopsmith_config::{Prompt, Settings};
use flopsmith_problem::Language;
use flopsmith_protocol::ProblemId;

/// This program as it was called: by its path, unless the shell finds it by its name.
pub fn program() -> String {
    let called = std::env::args_os().next();
    let called = called.map(|name| name.to_string_lossy().into_owned());
    program_called(called.as_deref())
}

fn program_called(name: Option<&str>) -> String {
    match name {
        Some(name) if name.contains('/') => quoted(name),
        _ => "flopsmith".into(),
    }
}

/// The command that resumes a training run.
pub fn resume_train(config: &Path, folder: &Path) -> String {
    format!(
        "{} train {} --resume {}",
        program(),
        path(config),
        name_and_place(folder)
    )
}

/// The command that resumes a search.
pub fn resume_search(problem: &str, folder: &Path) -> String {
    format!(
        "{} search --problem {} --resume {}",
        program(),
        quoted(problem),
        name_and_place(folder)
    )
}

/// The command that begins a training run with the settings of another run.
pub fn train_again(folder: &Path) -> String {
    format!(
        "{} train {}{}",
        program(),
        path(&folder.join("config.toml")),
        place(folder)
    )
}

/// The command that begins a search with the settings of another one. `defaults` are the settings of a search of which
/// only the problem was given.
pub fn search_again(settings: &Settings, defaults: &Settings, folder: &Path) -> String {
    let problem = quoted(&settings.problem);
    let mut line = format!("{} search --problem {problem}", program());
    line.push_str(&format!(" --budget {}s", settings.budget_seconds));
    if settings.seed != defaults.seed {
        line.push_str(&format!(" --seed {}", settings.seed));
    }
    if let Some(start) = &settings.start {
        let (program, parameters) = crate::start::files(folder, start);
        line.push_str(&format!(" --start {}", path(&program)));
        if let Some(parameters) = parameters {
            line.push_str(&format!(" --parameters {}", path(&parameters)));
        }
        line.push_str(&max_source(settings));
    }
    let mut sets = Vec::new();
    differences("", &table(defaults), &table(settings), &mut sets);
    for set in sets {
        line.push_str(&format!(" --set {}", quoted(&set)));
    }
    line + &place(folder)
}

/// The file of a run's best program in its folder, without the ending; `problem` is given in a run over many.
pub fn best_stem(problem: Option<&ProblemId>) -> String {
    problem.map_or_else(|| "best".to_owned(), |problem| format!("best/{problem}"))
}

/// The best program of a run; the file name's ending gives the language.
fn best(folder: &Path, problem: Option<&ProblemId>) -> PathBuf {
    let stem = best_stem(problem);
    let file = |language: Language| folder.join(format!("{stem}.{}", language.ending()));
    let mut files = Language::ALL
        .into_iter()
        .chain([Language::Python])
        .map(file);
    let found = files.find(|path| path.is_file());
    found.unwrap_or_else(|| file(Language::C))
}

/// The command that times the best program of a run with the run's own settings. `problem` is given for one problem of a
/// run over many, whose settings then name that one.
pub fn bench(folder: &Path, settings: &Settings, problem: Option<&ProblemId>) -> String {
    let mut line = format!(
        "{} bench {} --problem {}",
        program(),
        path(&best(folder, problem)),
        quoted(&settings.problem)
    );
    let defaults = Settings::default();
    if settings.threads != defaults.threads {
        line.push_str(&format!(" --threads {}", settings.threads));
    }
    if settings.evaluate.compiler != defaults.evaluate.compiler {
        line.push_str(&format!(
            " --compiler {}",
            quoted(&settings.evaluate.compiler)
        ));
    }
    for name in &settings.workloads {
        line.push_str(&format!(" --workload {}", quoted(name)));
    }
    line.push_str(&max_source(settings));
    if !settings.evaluate.flags.is_empty() {
        // The form with `=`: the first compiler flag begins with `-`, as an option of this program does.
        line.push_str(&format!(" --flags={}", quoted(&settings.evaluate.flags)));
    }
    if settings.evaluate.allow_weaker_jail {
        line.push_str(" --allow-weaker-jail");
    }
    line
}

/// The option for programs that are longer than the problem permits, if the run permits them.
fn max_source(settings: &Settings) -> String {
    let start = settings.start.as_ref();
    let bytes = start.and_then(|start| start.max_source_bytes);
    bytes.map_or_else(String::new, |bytes| format!(" --max-source {bytes}"))
}

/// The command that writes the report of a run again.
pub fn report(folder: &Path) -> String {
    format!("{} report {}", program(), path(folder))
}

/// The command that evaluates a model before and after its training on the problems that the training held out, with prompts
/// of its style and at its workloads.
pub fn evaluate(before: &Path, after: &Path, settings: &Settings) -> String {
    let mut line = format!(
        "{} eval {} {}",
        program(),
        quoted(&format!("before={}", before.display())),
        quoted(&format!("after={}", after.display()))
    );
    for name in &settings.hold_out {
        line.push_str(&format!(" --problem {}", quoted(name)));
    }
    for name in &settings.workloads {
        line.push_str(&format!(" --workload {}", quoted(name)));
    }
    if settings.generator.prompt == Prompt::Nest {
        line.push_str(" --prompt nest");
    }
    line
}

/// The command that prints samples of a trained model.
pub fn sample(model: &Path, problem: &str) -> String {
    format!(
        "{} model sample {} --problem {}",
        program(),
        path(model),
        quoted(problem)
    )
}

fn name_and_place(folder: &Path) -> String {
    let name = folder
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    quoted(name) + &place(folder)
}

/// The `--runs` option for the folder that holds the runs; empty for the default folder.
fn place(folder: &Path) -> String {
    match folder.parent() {
        Some(runs) if runs.as_os_str().is_empty() => " --runs .".into(),
        Some(runs) if runs != Path::new("runs") => format!(" --runs {}", path(runs)),
        _ => String::new(),
    }
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// Quotes `text` as a single word of a POSIX shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Settings as `config.toml` holds them, without those that have command-line flags of their own or that a run sets itself.
fn table(settings: &Settings) -> toml::Table {
    let text = toml::to_string(settings).unwrap_or_default();
    let mut table: toml::Table = text.parse().unwrap_or_default();
    for flag in [
        "problem",
        "budget_seconds",
        "seed",
        "start",
        "hold_out_forms",
    ] {
        table.remove(flag);
    }
    table
}

/// Collects `key=value` for every setting in which `to` differs from `from`.
fn differences(prefix: &str, from: &toml::Table, to: &toml::Table, found: &mut Vec<String>) {
    for (key, value) in to {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match (from.get(key), value) {
            (Some(before), now) if before == now => {}
            (Some(toml::Value::Table(before)), toml::Value::Table(now)) => {
                differences(&name, before, now, found);
            }
            (_, now) => found.push(format!("{name}={now}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A whole line with these arguments, by the name this test process was started with.
    fn typed(arguments: &str) -> String {
        format!("{} {arguments}", program())
    }

    #[test]
    fn the_program_is_called_as_it_was() {
        for (name, expected) in [
            (Some("target/release/flopsmith"), "target/release/flopsmith"),
            (Some("./flopsmith"), "./flopsmith"),
            (Some("/opt/my tools/flopsmith"), "'/opt/my tools/flopsmith'"),
            // The shell found this name in PATH, and will find it again.
            (Some("flopsmith"), "flopsmith"),
            (None, "flopsmith"),
        ] {
            assert_eq!(program_called(name), expected);
        }
    }

    #[test]
    fn the_place_of_a_run_is_named_where_it_is_another_than_always() {
        let line = |folder: &str| resume_train(Path::new("my c.toml"), Path::new(folder));
        let usual = typed("train 'my c.toml' --resume a-1");
        assert_eq!(line("runs/a-1"), usual);
        assert_eq!(line("/tmp/x/a-1"), format!("{usual} --runs /tmp/x"));
        assert_eq!(line("a-1"), format!("{usual} --runs ."));
        assert_eq!(report(Path::new("/tmp/x/a-1")), typed("report /tmp/x/a-1"));
        assert_eq!(
            train_again(Path::new("/tmp/x/a-1")),
            typed("train /tmp/x/a-1/config.toml --runs /tmp/x")
        );
    }

    #[test]
    fn a_problem_of_a_run_over_many_has_a_best_program_of_its_own() {
        let settings = Settings {
            problem: "dot".into(),
            ..Settings::default()
        };
        let dot = ProblemId::new("dot").expect("an id");
        assert_eq!(
            bench(Path::new("runs/a"), &settings, Some(&dot)),
            typed("bench runs/a/best/dot.c --problem dot")
        );
    }

    #[test]
    fn held_out_problems_are_evaluated_as_the_model_was_trained() {
        let mut settings = Settings {
            hold_out: vec!["lu".into(), "my problems/x".into()],
            ..Settings::default()
        };
        settings.generator.prompt = Prompt::Compact;
        let line = |settings: &Settings| evaluate(Path::new("m"), Path::new("n"), settings);
        let at_all = typed("eval before=m after=n --problem lu --problem 'my problems/x'");
        assert_eq!(line(&settings), at_all);
        settings.workloads = vec!["first".into()];
        assert_eq!(line(&settings), format!("{at_all} --workload first"));
        settings.generator.prompt = Prompt::Nest;
        assert_eq!(
            line(&settings),
            format!("{at_all} --workload first --prompt nest")
        );
    }

    #[test]
    fn the_best_program_is_timed_at_the_problem_and_with_the_settings_of_its_run() {
        let mut settings = Settings {
            problem: "problems/stencil".into(),
            ..Settings::default()
        };
        assert_eq!(
            bench(Path::new("runs/a"), &settings, None),
            typed("bench runs/a/best.c --problem problems/stencil")
        );
        settings.threads = 2;
        settings.evaluate.compiler = "clang".into();
        assert_eq!(
            bench(Path::new("runs/a"), &settings, None),
            typed("bench runs/a/best.c --problem problems/stencil --threads 2 --compiler clang")
        );
        settings.evaluate.compiler = "gcc".into();
        settings.evaluate.flags = "-O2 -march=native".into();
        assert_eq!(
            bench(Path::new("runs/a"), &settings, None),
            typed(
                "bench runs/a/best.c --problem problems/stencil --threads 2 --flags='-O2 -march=native'"
            )
        );
    }

    #[test]
    fn a_search_is_begun_again_with_all_its_settings() {
        let defaults = Settings::default();
        let mut settings = Settings {
            seed: 7,
            budget_seconds: 90.0,
            group_size: 4,
            ..Settings::default()
        };
        settings.evaluate.compiler = "my clang".into();
        let line = search_again(&settings, &defaults, Path::new("runs/s"));
        assert!(
            line.starts_with(&typed(
                "search --problem dgemm --budget 90s --seed 7 --set "
            )),
            "{line}"
        );
        assert!(line.contains(" --set group_size=4"), "{line}");
        assert!(
            line.contains(" --set 'evaluate.compiler=\"my clang\"'"),
            "{line}"
        );
        assert_eq!(line.matches("--set").count(), 2, "{line}");
        settings.start = Some(flopsmith_config::Start {
            source: "int x;".into(),
            parameters: "{}".into(),
            configurations: 7,
            max_source_bytes: Some(200_000),
        });
        let line = search_again(&settings, &defaults, Path::new("runs/s"));
        let files =
            " --start runs/s/start.c --parameters runs/s/parameters.json --max-source 200000 ";
        assert!(line.contains(files), "{line}");
        let again = bench(Path::new("runs/s"), &settings, None);
        assert!(again.contains(" --max-source 200000"), "{again}");
        assert_eq!(line.matches("--set").count(), 2, "{line}");
    }
}
