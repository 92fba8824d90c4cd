//! `flopsmith store`: removes unused artifacts of runs from an artifact store.

mod mark;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_actors::node::unix_ms;
use flopsmith_actors::registry::RunRegistry;
use flopsmith_bus::Bus;
use flopsmith_run::console::{data, usage};
use flopsmith_run::{broker, durations, paths};
use flopsmith_store::{Checkpoints, Listed, Store};
use serde::Serialize;

use crate::args::{self, Collect, Format};
use crate::exit;

use mark::Marks;

/// Younger artifacts are never removed: a message that refers to them may not be published yet.
const YOUNG: Duration = Duration::from_secs(3600);

/// Number of checkpoints of a role that stay. The one to resume from need not be the newest, since the last one may
/// come from a holder that had lost its lease. The archive itself keeps as many.
const KEPT: usize = 3;

/// Executes a subcommand.
pub fn run(args: &args::Store) -> Result<ExitCode> {
    let args::Store::Gc(collect) = args;
    let older = durations::time(&collect.older).context("--older cannot be read")?;
    if older < YOUNG {
        return Err(usage(
            "--older must be at least 1h: a message that refers to a younger artifact may not be published yet",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let found = runtime.block_on(gc(collect, older))?;
    match collect.format {
        Format::Json => data(&serde_json::to_string(&found)?),
        Format::Text => found.lines().iter().for_each(|line| data(line)),
    }
    Ok(ExitCode::from(exit::OK))
}

/// The findings, and the work that was done.
#[derive(Debug, Default, Serialize)]
struct Found {
    /// Was nothing removed?
    dry_run: bool,
    /// Artifacts that are there.
    artifacts: u64,
    bytes: u64,
    /// Those that something refers to.
    referred_to: u64,
    /// Those that nothing refers to and that are too young to go.
    young: u64,
    /// Those that were removed, or would be.
    removed: u64,
    removed_bytes: u64,
    /// Checkpoints of runs that are over, by `run/role/name`.
    removed_checkpoints: Vec<String>,
}

async fn gc(collect: &Collect, older: Duration) -> Result<Found> {
    paths::must_be_there(&collect.store)?;
    let store = Store::open(&collect.store)?;
    store.probe().await.context("the store cannot be used")?;
    let bus = Bus::connect(broker::options(&collect.bus.nats)).await?;
    bus.check_streams().await?;
    let registry = RunRegistry::open(&bus).await?;
    // Artifacts are listed before the references are read, so an artifact that is stored in between is not removed.
    let mut listed: Vec<Listed> = Vec::new();
    store.list(|one| listed.push(one)).await?;
    let before = unix_ms().saturating_sub(u64::try_from(older.as_millis()).unwrap_or(u64::MAX));
    let mut marks = Marks::default();
    bus.scan(|payload| marks.note(payload)).await?;
    for runs in &collect.runs {
        note_runs(runs, &mut marks)?;
    }
    let mut found = Found {
        dry_run: collect.dry_run,
        ..Found::default()
    };
    let goes = |one: &Listed| one.modified_unix_ms < before;
    let foreign = !listed.iter().any(|one| marks.has(&one.artifact.digest));
    if foreign && listed.iter().any(goes) && !collect.dry_run && !collect.all {
        return Err(usage(format!(
            "no message on this bus refers to an artifact in {}; check that --nats and --store belong to one cluster; --all removes the old artifacts anyway",
            store.name()
        )));
    }
    for one in &listed {
        found.artifacts += 1;
        found.bytes += one.artifact.size;
        if marks.has(&one.artifact.digest) {
            found.referred_to += 1;
        } else if one.modified_unix_ms >= before {
            found.young += 1;
        } else {
            if !collect.dry_run {
                // An artifact that was stored again in the meantime counts as young.
                let now = store.modified_unix_ms(&one.artifact).await?;
                if now.is_none_or(|at| at >= before) {
                    found.young += 1;
                    continue;
                }
                store.remove(&one.artifact).await?;
            }
            found.removed += 1;
            found.removed_bytes += one.artifact.size;
        }
    }
    for (run, role) in store.checkpointed().await? {
        if registry.is_known(&run).await? {
            continue;
        }
        // Checkpoints of every term are removed: no role holds a lease of a run that is over.
        let checkpoints = Checkpoints::new(store.clone(), &role).in_term(u64::MAX);
        let superseded = checkpoints.superseded(&run, KEPT).await?;
        if !collect.dry_run && !superseded.is_empty() {
            checkpoints.keep(&run, KEPT).await?;
        }
        let named = superseded.iter().map(|name| format!("{run}/{role}/{name}"));
        found.removed_checkpoints.extend(named);
    }
    bus.drain().await?;
    Ok(found)
}

/// Notes the artifacts that the records of runs refer to.
fn note_runs(runs: &Path, marks: &mut Marks) -> Result<()> {
    let unreadable = |e: std::io::Error| usage(format!("cannot read {}: {e}", runs.display()));
    for run in std::fs::read_dir(runs).map_err(unreadable)? {
        let folder = run.map_err(unreadable)?.path();
        if !folder.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&folder).map_err(unreadable)? {
            let file = file.map_err(unreadable)?.path();
            if file
                .extension()
                .is_some_and(|end| end == "jsonl" || end == "json")
            {
                marks.note(&std::fs::read(&file).map_err(unreadable)?);
            }
        }
    }
    Ok(())
}

impl Found {
    fn lines(&self) -> Vec<String> {
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 * 1e-6);
        let verb = if self.dry_run {
            "would be removed"
        } else {
            "were removed"
        };
        let mut lines = vec![
            format!(
                "{} artifacts ({}): {} are referred to, {} are too young to be removed",
                self.artifacts,
                megabytes(self.bytes),
                self.referred_to,
                self.young
            ),
            format!(
                "{} artifacts ({}) and {} checkpoints {verb}",
                self.removed,
                megabytes(self.removed_bytes),
                self.removed_checkpoints.len()
            ),
        ];
        lines.extend(
            self.removed_checkpoints
                .iter()
                .map(|name| format!("  {name}")),
        );
        lines
    }
}
