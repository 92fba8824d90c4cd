//! `--export FORMAT=FILE`: results in a file, in the format of another tool or to paste into an issue.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::modules;

/// A file for results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// Tables of kernels in Markdown.
    Markdown(PathBuf),
    /// The results of modules for another tool.
    Modules(modules::Export),
}

impl FromStr for Export {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("markdown", "")) => Err("the name of the file is missing".into()),
            Some(("markdown", path)) => Ok(Self::Markdown(path.into())),
            _ => text.parse().map(Self::Modules),
        }
    }
}

impl Export {
    /// The one file of kernels; none if there is no export.
    ///
    /// # Errors
    /// Exports of modules, and a second file.
    pub fn of_kernels(exports: &[Export]) -> Result<Option<&Path>, String> {
        let path = match exports {
            [] => return Ok(None),
            [Self::Markdown(path)] => path.as_path(),
            all if all.iter().all(|export| matches!(export, Self::Markdown(_))) => {
                return Err("--export markdown names several files; name one".into());
            }
            _ => {
                return Err(
                    "--export kernelbench and --export flashinfer work with modules only; write --export markdown=FILE"
                        .into(),
                );
            }
        };
        Ok(Some(path))
    }

    /// The files of modules.
    ///
    /// # Errors
    /// Exports of kernels.
    pub fn of_modules(exports: &[Export]) -> Result<Vec<modules::Export>, String> {
        let each = exports.iter().map(|export| match export {
            Self::Modules(export) => Ok(export.clone()),
            Self::Markdown(_) => Err(
                "--export markdown works with kernels only; write kernelbench=FILE or flashinfer=FILE"
                    .to_owned(),
            ),
        });
        each.collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_modules_have_files_of_their_own() {
        let of = |text: &str| -> Export { text.parse().unwrap() };
        let (table, other) = (of("markdown=a=b.md"), of("markdown=c.md"));
        let results = of("kernelbench=eval_results.json");
        let kernels = |all: &[Export]| Export::of_kernels(all).map(|path| path.map(Path::to_owned));
        assert_eq!(kernels(&[]), Ok(None));
        let path = PathBuf::from("a=b.md");
        assert_eq!(kernels(std::slice::from_ref(&table)), Ok(Some(path)));
        let twice = kernels(&[table.clone(), other]).unwrap_err();
        assert!(twice.contains("name one"), "{twice}");
        let wrong = kernels(std::slice::from_ref(&results)).unwrap_err();
        assert!(wrong.contains("modules only"), "{wrong}");
        let modules = Export::of_modules(std::slice::from_ref(&results)).unwrap();
        assert_eq!(modules.len(), 1);
        let wrong = Export::of_modules(&[results, table]).unwrap_err();
        assert!(wrong.contains("kernels only"), "{wrong}");
        for wrong in ["markdown", "markdown=", "other=a.json"] {
            assert!(wrong.parse::<Export>().is_err(), "{wrong}");
        }
    }
}
