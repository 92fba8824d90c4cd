//! `flopsmith problem random`: writes problems of random loop nests.

use std::path::Path;

use anyhow::Result;
use flopsmith_nest::random;
use flopsmith_protocol::ProblemFiles;
use flopsmith_run::console::data;
use flopsmith_run::output::unwritable;
use serde_json::json;

use super::new;
use crate::args::{Format, RandomNests};

/// Writes a folder for each problem.
pub fn write(args: &RandomNests) -> Result<()> {
    let folder = &args.folder;
    new::must_be_empty(folder)?;
    let mut names = Vec::new();
    for seed in args.seed..args.seed.saturating_add(args.count) {
        let files = random::problem(seed)?;
        write_one(&folder.join(files.id.as_str()), &files)?;
        names.push(files.id);
    }
    let shown = folder.display();
    data(&match (args.format, names.as_slice()) {
        (Format::Json, _) => json!({ "folder": shown.to_string(), "problems": names }).to_string(),
        (Format::Text, [only]) => {
            format!(
                "{shown} contains the problem {only}; next, run\n  flopsmith problem check {shown}/{only}"
            )
        }
        (Format::Text, [first, .., last]) => format!(
            "{shown} contains {} problems, {first} to {last}; next, run\n  flopsmith problem check {shown}/{first}",
            names.len()
        ),
        (Format::Text, []) => format!("{shown} contains no problems"),
    });
    Ok(())
}

fn write_one(folder: &Path, files: &ProblemFiles) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| unwritable(folder, e))?;
    let all = [
        ("problem.toml", Some(&files.definition)),
        ("reference.c", Some(&files.reference)),
        ("magnitude.c", files.magnitude.as_ref()),
    ];
    for (name, text) in all {
        let path = folder.join(name);
        if let Some(text) = text {
            std::fs::write(&path, text).map_err(|e| unwritable(&path, e))?;
        }
    }
    Ok(())
}
