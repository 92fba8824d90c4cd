//! Completions for shells, and man pages: both follow from the definitions of the commands.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap_complete::Shell;
use flopsmith_run::console::piece;
use flopsmith_run::output::unwritable;

use crate::args::Args;

/// Prints a shell's completions.
pub fn completions(shell: Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::program(), "flopsmith", &mut text);
    piece(&String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}

/// Writes a man page for each command into a folder.
pub fn man(folder: &Path) -> Result<ExitCode> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Args::program(), folder))
        .map_err(|error| unwritable(folder, error))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("man1");
        man(&pages).unwrap();
        let written = std::fs::read_dir(&pages).unwrap().count();
        for page in ["flopsmith", "flopsmith-bench", "flopsmith-problem-check"] {
            let text = std::fs::read_to_string(pages.join(format!("{page}.1"))).unwrap();
            assert!(text.contains(".SH NAME"), "{text}");
        }
        assert!(written > Args::program().get_subcommands().count());
        // A page cannot be written into a file.
        let error = man(&pages.join("flopsmith.1")).unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    }
}
