//! Runs in the formats of other tools: tables as CSV and Parquet, and folders that MLflow shows; and problems as tasks of
//! other tools ([`harbor`]).
//!
//! `flopsmith runs export` calls [`run`] once its arguments are read. Outcomes are written row by row while the log of a run is
//! read, so any number of them takes no memory; the steps of a run are joined in memory first. This crate measures and trains nothing, and changes nothing in a
//! run's folder.
//!
//! Invariants:
//! - a file or a folder that exists is never overwritten, and none of a run has its name before it is complete;
//! - the columns of a table are always all there, in the same order;
//! - no credentials leave the run's folder: addresses of buses and stores are left out.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::folder;
use flopsmith_run::output::{locked, unwritable};

mod csv_table;
pub mod harbor;
mod mlflow;
mod outcomes;
mod parquet_table;
mod steps;
mod table;

use table::{Column, Sink};

/// Formats of exported runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values with a line of names.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// A folder for `mlflow ui --backend-store-uri FOLDER`.
    Mlflow,
}

/// The rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// A row for each outcome.
    Outcomes,
    /// A row for each step.
    Steps,
}

/// `flopsmith runs export`.
#[derive(Debug, clap::Args)]
pub struct Order {
    /// The format.
    #[arg(value_enum)]
    pub format: Format,
    /// The runs, by name or folder; the newest when left out.
    // The folder of runs is the argument `runs` of the same command.
    #[arg(id = "run", value_name = "RUN")]
    pub runs: Vec<String>,
    /// Write to this file, or for MLflow into this folder. A file that exists is not overwritten. CSV goes to stdout when left out.
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    /// Write a row for each outcome or for each step; outcomes when left out. MLflow gets the steps.
    #[arg(long, value_enum)]
    pub what: Option<What>,
}

/// Exports runs of the folder `runs`, and prints the path of the result.
///
/// # Errors
/// Wrong usage if a run is missing, or if the output exists or cannot be written.
pub fn run(order: &Order, runs: &Path) -> Result<()> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let newest = [String::new()];
    let names = match order.runs.as_slice() {
        [] => &newest[..],
        names => names,
    };
    for name in names {
        let found = folder::find(runs, name, |_| true)?;
        if !folders.contains(&found) {
            folders.push(found);
        }
    }
    if order.format == Format::Mlflow {
        if order.what == Some(What::Outcomes) {
            return Err(usage(
                "MLflow gets the steps of a run; for outcomes export csv or parquet",
            ));
        }
        let root = output(order, "folder")?;
        for run in &folders {
            data(&mlflow::export(run, root)?.display().to_string());
        }
        return Ok(());
    }
    let Some(path) = order
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"))
    else {
        if order.format == Format::Parquet {
            output(order, "file")?;
        }
        return unless_closed(write(order, &folders, io::stdout()));
    };
    let file = Fresh::create(path)?;
    write(order, &folders, file.open()?)?;
    file.keep()?;
    data(&path.display().to_string());
    Ok(())
}

/// The output of a format that cannot go to stdout.
fn output<'a>(order: &'a Order, kind: &str) -> Result<&'a Path> {
    let named = order.output.as_deref();
    named.filter(|path| *path != Path::new("-")).ok_or_else(|| {
        usage(format!(
            "this format is not printed; name the {kind} to write with --output"
        ))
    })
}

/// Writes the table of these runs.
fn write(order: &Order, folders: &[PathBuf], to: impl Write + Send + 'static) -> Result<()> {
    match order.what.unwrap_or(What::Outcomes) {
        What::Outcomes => {
            let mut sink = sink(order.format, "outcomes", outcomes::COLUMNS, to)?;
            for run in folders {
                warn(run, outcomes::export(run, sink.as_mut())?);
            }
            sink.finish()
        }
        What::Steps => {
            let mut sink = sink(order.format, "steps", steps::COLUMNS, to)?;
            for run in folders {
                warn(run, steps::export(run, sink.as_mut())?);
            }
            sink.finish()
        }
    }
}

fn sink<R>(
    format: Format,
    name: &str,
    columns: &[Column<R>],
    to: impl Write + Send + 'static,
) -> Result<Box<dyn Sink>> {
    let columns: Vec<_> = columns.iter().map(|c| (c.name, c.kind)).collect();
    let sink: Box<dyn Sink> = match format {
        Format::Csv => Box::new(csv_table::CsvTable::begin(&columns, to)?),
        _ => Box::new(parquet_table::ParquetTable::begin(name, columns, to)?),
    };
    Ok(sink)
}

/// Says how many lines of a run's records could not be read.
fn warn(run: &Path, unreadable: u64) {
    if unreadable > 0 {
        say(&format!(
            "warning: {unreadable} lines of the records in {} cannot be read and are left out",
            run.display()
        ));
    }
}

/// The name of a run, which is that of its folder.
fn name_of(run: &Path) -> String {
    let whole = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let name = whole.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A reader that has seen enough, such as `head`, is no error.
fn unless_closed(written: Result<()>) -> Result<()> {
    let Err(error) = written else { return Ok(()) };
    let closed = error.chain().any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
    });
    match closed {
        true => Ok(()),
        false => Err(error),
    }
}

/// A new file, which is written beside its place under a name that ends in `.part`. If this process is killed, only that one is
/// left, and the next export to the place replaces it.
struct Fresh {
    path: PathBuf,
    part: PathBuf,
    /// Locked until this value is dropped, so that no two exports write it.
    file: File,
}

impl Fresh {
    fn create(path: &Path) -> Result<Self> {
        // A link that leads nowhere exists as well.
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        if part.symlink_metadata().is_ok_and(|at| !at.is_file()) {
            return Err(foreign(&part));
        }
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(&part);
        let file = file.map_err(|error| unwritable(path, error))?;
        Self::of(path, part, file)
    }

    /// Takes a part that was opened, unless it is that of another export.
    fn of(path: &Path, part: PathBuf, file: File) -> Result<Self> {
        if !locked(&file).map_err(|error| unwritable(path, error))? {
            return Err(usage(format!(
                "another process writes {}; name another output",
                part.display()
            )));
        }
        // Another export may have given the file its name since it was opened, and a link leads to the file of somebody else.
        let opened = file.metadata().map_err(|error| unwritable(path, error))?;
        let named = part.symlink_metadata();
        let is_same = named.is_ok_and(|at| (at.dev(), at.ino()) == (opened.dev(), opened.ino()));
        if !is_same || opened.nlink() > 1 {
            return Err(match path.symlink_metadata() {
                Ok(_) => exists(path),
                Err(_) => foreign(&part),
            });
        }
        // From here on the part is removed if there is an error.
        let fresh = Self {
            path: path.to_owned(),
            part,
            file,
        };
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let emptied = fresh.file.set_len(0);
        emptied.map_err(|error| unwritable(path, error))?;
        Ok(fresh)
    }

    fn open(&self) -> Result<File> {
        let file = self.file.try_clone();
        file.map_err(|error| unwritable(&self.path, error))
    }

    /// Gives the complete file its name.
    fn keep(self) -> Result<()> {
        // A link, unlike a new name, never replaces a file that was made meanwhile. Some file systems have no links.
        match std::fs::hard_link(&self.part, &self.path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(&self.path)),
            Err(_) => std::fs::rename(&self.part, &self.path)
                .map_err(|error| unwritable(&self.path, error)),
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // An error that left the file incomplete is reported; this one adds nothing.
        let _ = std::fs::remove_file(&self.part);
    }
}

/// The refusal of a part that is a link, has another name, or is that of an export which just ended.
fn foreign(part: &Path) -> anyhow::Error {
    usage(format!(
        "{} is not the unfinished file of an export alone; name another output, or remove it",
        part.display()
    ))
}

fn exists(path: &Path) -> anyhow::Error {
    usage(format!(
        "{} exists already and stays as it is; name another output, or remove it",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
