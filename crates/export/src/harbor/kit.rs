//! The parts of a task that differ between the targets: scripts, containers, reference and oracle have nothing in common.

use std::path::PathBuf;

use anyhow::Result;
use flopsmith_problem::{Problem, Target};

use super::unreadable;

/// The parts of a task.
pub struct Kit {
    /// The name of the task's folder.
    pub name: String,
    /// The script that scores the program.
    pub test: &'static str,
    /// The agent's container.
    pub environment: &'static str,
    /// The verifier's container.
    pub verifier: &'static str,
    /// The name of the reference's file, also in the definition.
    pub reference: &'static str,
    /// The oracle's program: the problem's own fast one, or the reference if it has none.
    pub oracle: String,
    /// The folder of the definition in `tests/problems`.
    pub definition: PathBuf,
    /// The speed that is worth 1, in words.
    pub one: String,
    /// A word for what programs are.
    pub keyword: &'static str,
    /// Memory and storage of both containers, MiB.
    pub memory_mb: u32,
    /// See `memory_mb`.
    pub storage_mb: u32,
    /// Time limits of the verifier and of the building of a container, seconds.
    pub verifier_seconds: u32,
    /// See `verifier_seconds`.
    pub build_seconds: u32,
}

impl Kit {
    /// The parts of the task of a problem.
    ///
    /// # Errors
    /// Wrong usage: the shipped solution of a module cannot be read.
    pub fn of(problem: &Problem) -> Result<Self> {
        let id = problem.id.as_str();
        match problem.target() {
            Target::Kernel => {
                // Reference and baseline are in C.
                let oracle = problem.baseline_source.as_ref();
                Ok(Self {
                    name: id.to_owned(),
                    test: include_str!("test.sh"),
                    environment: include_str!("environment.Dockerfile"),
                    verifier: include_str!("tests.Dockerfile"),
                    reference: "reference.c",
                    oracle: oracle.unwrap_or(&problem.reference_source).clone(),
                    definition: PathBuf::from(id),
                    one: "the plain reference in `/app/reference.c`, which is timed with one thread beside it".into(),
                    keyword: "kernels",
                    memory_mb: 4096,
                    storage_mb: 10240,
                    verifier_seconds: 1800,
                    build_seconds: 1200,
                })
            }
            Target::Module => {
                // A solution for a GPU cannot be timed here.
                let oracle = match problem.shipped_program() {
                    Some(file) => {
                        std::fs::read_to_string(&file).map_err(|e| unreadable(&file, &e))?
                    }
                    None => problem.reference_source.clone(),
                };
                Ok(Self {
                    // There may be a kernel of the same name.
                    name: format!("module_{id}"),
                    test: include_str!("module.test.sh"),
                    environment: include_str!("module.environment.Dockerfile"),
                    verifier: include_str!("module.tests.Dockerfile"),
                    reference: "reference.py",
                    oracle,
                    definition: PathBuf::from("modules").join(id),
                    one: format!(
                        "{} on the module in `/app/reference.py`, which are timed with one thread beside it",
                        problem.compared_with()
                    ),
                    keyword: "modules",
                    memory_mb: 16384,
                    storage_mb: 20480,
                    verifier_seconds: 3600,
                    build_seconds: 3600,
                })
            }
        }
    }
}
