//! `flopsmith problem new`: writes a template of a definition.

use std::path::Path;

use anyhow::Result;
use flopsmith_problem::Language;
use flopsmith_protocol::ProblemId;

use flopsmith_run::console::{data, usage};
use flopsmith_run::output::unwritable;

/// The files of the template; `NAME` in them stands for the problem's name.
const FILES: [(&str, &str); 4] = [
    ("problem.toml", include_str!("template/problem.toml")),
    ("reference.c", include_str!("template/reference.c")),
    ("baseline.c", include_str!("template/baseline.c")),
    ("magnitude.c", include_str!("template/magnitude.c")),
];

/// Writes the template into a new or empty folder. Existing files are never changed.
pub fn new(folder: &Path) -> Result<()> {
    let name = folder
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_function = name.chars().all(word) && !name.starts_with(|c: char| c.is_ascii_digit());
    if ProblemId::new(name).is_err() || !is_function {
        return Err(usage(format!(
            "`{name}` cannot name a problem and its function: use letters, digits and `_`, e.g. problems/my_kernel"
        )));
    }
    if Language::is_reserved(name) {
        return Err(usage(format!(
            "`{name}` is a reserved word of C or C++, so no function can have this name; use another name, e.g. {}",
            folder.with_file_name(format!("my_{name}")).display()
        )));
    }
    must_be_empty(folder)?;
    std::fs::create_dir_all(folder).map_err(|e| unwritable(folder, e))?;
    for (file, text) in FILES {
        let path = folder.join(file);
        std::fs::write(&path, text.replace("NAME", name)).map_err(|e| unwritable(&path, e))?;
    }
    data(&format!(
        "{} contains a working definition; change it step by step, and after each step run\n  flopsmith problem check {}",
        folder.display(),
        folder.display()
    ));
    Ok(())
}

/// Refuses a folder that has files, since they could be overwritten.
pub fn must_be_empty(folder: &Path) -> Result<()> {
    let empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if folder.exists() && !empty {
        return Err(usage(format!(
            "{} exists already; name a new folder or an empty one",
            folder.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_new_definition_loads_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("my_kernel");
        new(&place).unwrap();
        let problem = flopsmith_problem::Problem::load(&place).unwrap();
        assert_eq!(problem.entry.name, "my_kernel");
        assert!(problem.magnitude_source.is_some() && problem.baseline_source.is_some());
        // No core reads more than 150 GB/s of what its own caches do not hold, so no program is faster than this.
        let fastest_call = problem.moved_bytes(&problem.timed) / 150e9;
        assert!(fastest_call > 50e-6, "{fastest_call} s");
        let again = new(&place).unwrap_err().to_string();
        assert!(again.contains("exists already"), "{again}");
        for wrong in ["2fast", "a-b", "x y", "..", "double", "template"] {
            let place = folder.path().join(wrong);
            assert!(new(&place).is_err(), "{wrong}");
        }
        let empty = folder.path().join("empty_one");
        std::fs::create_dir(&empty).unwrap();
        new(&empty).unwrap();
        assert!(flopsmith_problem::Problem::load(&empty).is_ok());
    }
}
