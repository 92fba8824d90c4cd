//! Programs that are written by hand.

use std::path::Path;

use flopsmith_problem::Language;

use super::Program;

/// The files of `programs/`. A line `problem: NAME` and a line `techniques: LIST` stand among their first comments.
pub fn all() -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapes/programs");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let source = std::fs::read_to_string(&file).unwrap();
            let said = |key: &str| {
                let line = source.lines().take(4).find_map(|l| {
                    let (_, rest) = l.split_once(key)?;
                    Some(rest.trim_end_matches("*/").trim().to_owned())
                });
                line.unwrap_or_else(|| panic!("{} does not say `{key}`", file.display()))
            };
            Program {
                name: file.display().to_string(),
                kind: "written".into(),
                problem: said("problem: "),
                language: Language::of_file(&file).unwrap(),
                labels: said("techniques: ").parse().unwrap(),
                source,
            }
        })
        .collect()
}
