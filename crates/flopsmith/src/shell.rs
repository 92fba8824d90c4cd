//! Command lines that are shown to be typed again.

use std::path::Path;

use flopsmith_actors::settings::Settings;

/// Goes on with a training run.
pub fn resume_train(config: &Path, folder: &Path) -> String {
    format!(
        "flopsmith train {} --resume {}",
        path(config),
        name_and_place(folder)
    )
}

/// Goes on with a search.
pub fn resume_search(problem: &str, folder: &Path) -> String {
    format!(
        "flopsmith search --problem {} --resume {}",
        quoted(problem),
        name_and_place(folder)
    )
}

/// Begins a training run with the settings of another one.
pub fn train_again(folder: &Path) -> String {
    format!(
        "flopsmith train {}{}",
        path(&folder.join("config.toml")),
        place(folder)
    )
}

/// Begins a search with the settings of another one; `defaults` are those of a search that was told its problem only.
pub fn search_again(settings: &Settings, defaults: &Settings, folder: &Path) -> String {
    let mut line = format!("flopsmith search --problem {}", quoted(&settings.problem));
    line.push_str(&format!(" --budget {}s", settings.budget_seconds));
    if settings.seed != defaults.seed {
        line.push_str(&format!(" --seed {}", settings.seed));
    }
    let mut sets = Vec::new();
    differences("", &table(defaults), &table(settings), &mut sets);
    for set in sets {
        line.push_str(&format!(" --set {}", quoted(&set)));
    }
    line + &place(folder)
}

/// Times the best program of a run as the run did.
pub fn bench(folder: &Path, settings: &Settings) -> String {
    let mut line = format!(
        "flopsmith bench {} --problem {}",
        path(&folder.join("best.c")),
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
    if settings.evaluate.allow_weaker_jail {
        line.push_str(" --allow-weaker-jail");
    }
    line
}

/// Writes the report of a run anew.
pub fn report(folder: &Path) -> String {
    format!("flopsmith report {}", path(folder))
}

/// Shows what a trained model writes.
pub fn sample(model: &Path, problem: &str) -> String {
    format!(
        "flopsmith model sample {} --problem {}",
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

/// Where runs lie, unless it is where they always lie.
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

/// One word to a shell, whatever is in it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Settings as they stand in a file, without those that have flags of their own.
fn table(settings: &Settings) -> toml::Table {
    let text = toml::to_string(settings).unwrap_or_default();
    let mut table: toml::Table = text.parse().unwrap_or_default();
    for flag in ["problem", "budget_seconds", "seed"] {
        table.remove(flag);
    }
    table
}

/// `key=value` for everything in which `to` differs from `from`.
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

    #[test]
    fn the_place_of_a_run_is_named_where_it_is_another_than_always() {
        let line = |folder: &str| resume_train(Path::new("my c.toml"), Path::new(folder));
        let usual = "flopsmith train 'my c.toml' --resume a-1";
        assert_eq!(line("runs/a-1"), usual);
        assert_eq!(line("/tmp/x/a-1"), format!("{usual} --runs /tmp/x"));
        assert_eq!(line("a-1"), format!("{usual} --runs ."));
        assert_eq!(
            report(Path::new("/tmp/x/a-1")),
            "flopsmith report /tmp/x/a-1"
        );
        assert_eq!(
            train_again(Path::new("/tmp/x/a-1")),
            "flopsmith train /tmp/x/a-1/config.toml --runs /tmp/x"
        );
    }

    #[test]
    fn the_best_program_is_timed_at_the_problem_and_with_the_settings_of_its_run() {
        let mut settings = Settings {
            problem: "problems/stencil".into(),
            ..Settings::default()
        };
        assert_eq!(
            bench(Path::new("runs/a"), &settings),
            "flopsmith bench runs/a/best.c --problem problems/stencil"
        );
        settings.threads = 2;
        settings.evaluate.compiler = "clang".into();
        assert_eq!(
            bench(Path::new("runs/a"), &settings),
            "flopsmith bench runs/a/best.c --problem problems/stencil --threads 2 --compiler clang"
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
            line.starts_with("flopsmith search --problem dgemm --budget 90s --seed 7 --set "),
            "{line}"
        );
        assert!(line.contains(" --set group_size=4"), "{line}");
        assert!(
            line.contains(" --set 'evaluate.compiler=\"my clang\"'"),
            "{line}"
        );
        assert_eq!(line.matches("--set").count(), 2, "{line}");
    }
}
