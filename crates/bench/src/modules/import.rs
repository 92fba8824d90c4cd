//! `flopsmith problem import`: problems of another benchmark as problems of ours.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use flopsmith_module::kernelbench;
use flopsmith_run::console::data;
use flopsmith_run::exit;
use serde_json::json;

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Benchmark {
    /// A checkout of KernelBench.
    Kernelbench,
}

/// How the result of an import is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Printed {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
}

/// `flopsmith problem import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// The benchmark.
    #[arg(value_enum)]
    pub benchmark: Benchmark,
    /// Your checkout of the benchmark.
    #[arg(value_name = "DIR")]
    pub checkout: PathBuf,
    /// Import the problems of this level; may be repeated. Those of all levels when left out.
    #[arg(long = "level", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=4))]
    pub levels: Vec<u8>,
    /// The folder that gets a folder for each problem.
    #[arg(long, value_name = "FOLDER", default_value = "kernelbench")]
    pub output: PathBuf,
    /// Replace problem.toml and reference.py of problems that exist already; other files of their folders stay.
    #[arg(long)]
    pub force: bool,
    /// Print the result in this format.
    #[arg(long, value_enum, default_value = "text", env = "FLOPSMITH_FORMAT")]
    pub format: Printed,
}

impl Import {
    /// Imports the problems, and prints which files were left out and why; returns the exit code.
    ///
    /// # Errors
    /// Wrong usage if the checkout or the output does not fit, and a missing Python.
    pub fn run(&self) -> Result<u8> {
        let Benchmark::Kernelbench = self.benchmark;
        let imported = kernelbench::import(&kernelbench::Order {
            checkout: &self.checkout,
            levels: &self.levels,
            output: &self.output,
            force: self.force,
        })?;
        let folder = self.output.display();
        match self.format {
            Printed::Json => data(
                &json!({
                    "folder": folder.to_string(), "problems": imported.problems,
                    "left_out": imported.left_out,
                })
                .to_string(),
            ),
            Printed::Text => {
                for left_out in &imported.left_out {
                    data(&format!("left out {}: {}", left_out.file, left_out.why));
                }
                let next = imported.problems.first().map(|first| {
                    format!("; next, run\n  flopsmith problem check {folder}/{first}")
                });
                data(&format!(
                    "{} problems were written to {folder}, {} files were left out{}",
                    imported.problems.len(),
                    imported.left_out.len(),
                    next.unwrap_or_default()
                ));
            }
        }
        Ok(match imported.problems.is_empty() {
            true => exit::CANDIDATE,
            false => exit::OK,
        })
    }
}
