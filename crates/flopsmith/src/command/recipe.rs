//! `flopsmith config check` of recipes: files that `align` and the trainings on files read, and `train` does not.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_config::Alignment;
use flopsmith_run::console::{data, located, say, usage};
use flopsmith_run::paths;

use crate::args::Format;

/// The command whose recipes are checked here.
const ALIGN: &str = "align";

/// The command that reads such a text as its recipe; none for configurations of runs, which name a model in `[generator]`.
pub fn reader_of(text: &str) -> Option<&'static str> {
    let table: toml::Table = text.parse().ok()?;
    let model = table.get("model")?;
    let has = |keys: &[&str]| keys.iter().any(|key| table.contains_key(*key));
    if has(&["rlpf", "programs", "split"]) {
        Some(ALIGN)
    } else if has(&["exercises"]) {
        Some("rlpf")
    } else if has(&["pairs"]) {
        Some(if has(&["dpa"]) { "dpa" } else { "reward-model" })
    } else if has(&["examples", "nests", "sft"]) || model.is_table() {
        Some("sft")
    } else {
        None
    }
}

/// Checks a recipe of `align` with all that it names, and prints it with all defaults. Other recipes are left to their
/// commands, which check them before they train.
///
/// # Errors
/// Wrong usage: a mistake in the recipe, a recipe of another command, or settings of the command line.
pub fn check(
    reader: &str,
    path: &Path,
    text: &str,
    set: &[String],
    format: Format,
) -> Result<ExitCode> {
    let name = path.display().to_string();
    if reader != ALIGN {
        return Err(usage(format!(
            "{name} is a recipe of `flopsmith {reader}`, which checks it before it trains; `config check` reads configurations of `flopsmith train` and recipes of `flopsmith {ALIGN}`"
        )));
    }
    if let Some(item) = set.first() {
        return Err(usage(format!(
            "--set {item}: {name} is a recipe of `flopsmith {ALIGN}`, whose settings are in the file only; change them there, and leave --set out"
        )));
    }
    let recipe: Alignment = flopsmith_config::read(text, &name)?;
    recipe
        .check()
        .map_err(|e| located(anyhow::Error::new(e), path, &[]))?;
    for problem in recipe.problems.iter().chain(&recipe.hold_out) {
        paths::selected(paths::any(problem)?, &recipe.workloads)?;
    }
    if !recipe.suite.is_empty() {
        paths::suite(&recipe.suite)?;
    }
    check_model(path, &recipe)?;
    say(&format!("{name} is a recipe of `flopsmith {ALIGN}`"));
    match format {
        Format::Text => data(toml::to_string(&recipe)?.trim_end()),
        Format::Json => data(&serde_json::to_string(&recipe)?),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "torch")]
fn check_model(path: &Path, recipe: &Alignment) -> Result<()> {
    let folder = paths::model(&flopsmith_recipes::beside(path, &recipe.model));
    match flopsmith_policy::check(&folder) {
        Ok(_) => Ok(()),
        Err(error) => Err(usage(format!(
            "the model in {} cannot be trained: {}; name another folder as `model` of the recipe",
            folder.display(),
            flopsmith_actors::supervisor::words(&error)
        ))),
    }
}

#[cfg(not(feature = "torch"))]
fn check_model(_: &Path, _: &Alignment) -> Result<()> {
    say("warning: this build has no libtorch, so the model was not checked");
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn shipped(name: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::read_to_string(root.join(name)).unwrap()
    }

    #[test]
    fn a_recipe_is_known_by_its_keys() {
        for (text, reader) in [
            (
                shipped("examples/performance-alignment.toml"),
                Some("align"),
            ),
            (shipped("models/starter/recipe.toml"), Some("sft")),
            (shipped("models/nests/recipe.toml"), Some("sft")),
            ("model = \"m\"\nexamples = \"e\"".into(), Some("sft")),
            ("model = \"m\"\npairs = \"p\"".into(), Some("reward-model")),
            ("model = \"m\"\npairs = \"p\"\n[dpa]".into(), Some("dpa")),
            (
                "model = \"m\"\nexercises = \"e\"\nsteps = 1".into(),
                Some("rlpf"),
            ),
            // A mistake in a configuration of a run is one there.
            ("model = \"m\"\ntasks = 4".into(), None),
            (shipped("examples/dgemm.toml"), None),
            (shipped("examples/many-problems.toml"), None),
            ("model = ".into(), None),
        ] {
            assert_eq!(reader_of(&text), reader, "{text}");
        }
    }

    #[test]
    fn recipes_of_other_commands_and_settings_are_refused_with_what_to_do() {
        let path = Path::new("r.toml");
        let text = shipped("examples/performance-alignment.toml");
        let said = |reader: &str, set: &[String]| {
            let error = check(reader, path, &text, set, Format::Text).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            error.to_string()
        };
        assert!(said("dpa", &[]).contains("recipe of `flopsmith dpa`"));
        let set = said(ALIGN, &["seed=2".to_owned()]);
        assert!(
            set.contains("--set seed=2") && set.contains("r.toml"),
            "{set}"
        );
    }
}
