//! Announces a run to the nodes of a cluster, and withdraws an announcement that could not be completed.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use flopsmith_actors::node::unix_ms;
use flopsmith_actors::outcome_cache::version;
use flopsmith_actors::registry::RunRegistry;
use flopsmith_bus::{Bus, refusals};
use flopsmith_config::Job;
use flopsmith_config::Settings;
use flopsmith_measure::Chains;
use flopsmith_problem::Problem;
use flopsmith_protocol::{MachineClass, RunSpec, Session};
use flopsmith_store::Store;

use crate::export;
use crate::folder::Folder;

/// The state of a new run's announcement on the bus.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    /// The bus has no announcement: another run has the name, or this key may not announce runs.
    Nothing,
    /// Unknown: the bus did not answer.
    Perhaps,
    /// The bus has the announcement.
    All,
}

/// Announces the settings that nodes need to evaluate this run's programs, and, if it was measured here, the speed of
/// the reference that all nodes use. From then on the run has begun; without an announcement it has not.
pub async fn announce(
    bus: &Bus,
    store: &Store,
    job: Job,
    (folder, settings, problems, class): (&Folder, &Settings, &[Arc<Problem>], &MachineClass),
    chains: Option<Chains>,
    first: bool,
) -> Result<()> {
    let registry = RunRegistry::open(bus).await?;
    // Each node has addresses of its own for bus and store, and this run's addresses may contain credentials.
    let without_ways = Settings {
        nats: String::new(),
        store: String::new(),
        ..settings.clone()
    };
    let (problem, others) = problems.split_first().context("a run has a problem")?;
    let policy = settings.generator.kind.has_policy();
    let model = match policy && !settings.hosted.is_empty() {
        true => export::bundle(&settings.generator.model, store).await?,
        false => Vec::new(),
    };
    let spec = RunSpec {
        run: folder.id.clone(),
        version: version(),
        problem: problem.files(),
        // Nodes make the nests of a stream by themselves: hundreds would not fit into a message.
        others: match settings.is_stream() {
            true => Vec::new(),
            false => others.iter().map(|problem| problem.files()).collect(),
        },
        settings_json: serde_json::to_string(&without_ways)?,
        machine_class: class.clone(),
        trains: job == Job::Train,
        model,
        store: match bus.is_private() {
            true => None,
            false => Some(store.identity().await?),
        },
        session: Some(Session {
            began_unix_ms: unix_ms(),
            before_ms: (folder.facts()?.seconds * 1000.0) as u64,
        }),
    };
    if first {
        let (told, result) = tell_new(&registry, &spec).await;
        if told == Told::Perhaps {
            // Nodes may know of the run, so its folder stays, to be resumed or ended.
            folder.begun();
        }
        result?;
    } else {
        registry.announce(&spec).await?;
    }
    if let Some(chains) = chains
        && let Err(error) = registry
            .in_common(&folder.id, &problem.id, class, chains)
            .await
    {
        // No node is to begin with an incomplete announcement.
        if first && registry.withdraw(&folder.id).await.is_err() {
            folder.begun();
        }
        return Err(error.into());
    }
    folder.begun();
    Ok(())
}

async fn tell_new(
    registry: &RunRegistry,
    spec: &RunSpec,
) -> (Told, Result<(), flopsmith_actors::Error>) {
    let mut refused = refusals();
    refused.mark_unchanged();
    let result = registry.announce_new(spec).await;
    let told = match &result {
        Ok(()) => Told::All,
        Err(flopsmith_actors::Error::Settings(_)) => Told::Nothing,
        Err(_) if refused.has_changed().unwrap_or(false) => Told::Nothing,
        Err(_) => Told::Perhaps,
    };
    (told, result)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_bus::{RunSetup, Server, ServerOptions};
    use flopsmith_test_support::{machine_class, run_id, shipped};

    use super::*;

    #[tokio::test]
    async fn a_run_whose_name_is_taken_tells_nothing_and_takes_nothing_back() {
        let place = tempfile::tempdir().unwrap();
        let server = Server::start(None, place.path(), ServerOptions::default());
        let server = server.await.unwrap();
        let bus = Bus::connect(&server).await.unwrap();
        bus.ensure_streams(&RunSetup::default()).await.unwrap();
        let registry = RunRegistry::open(&bus).await.unwrap();
        let problem = Problem::load(&shipped::at("dgemm")).unwrap();
        let spec = |trains| RunSpec {
            run: run_id(),
            version: version(),
            problem: problem.files(),
            others: Vec::new(),
            settings_json: "{}".into(),
            machine_class: machine_class(),
            trains,
            model: Vec::new(),
            store: None,
            session: None,
        };
        let (told, result) = tell_new(&registry, &spec(true)).await;
        assert_eq!(told, Told::All);
        result.unwrap();
        let (told, result) = tell_new(&registry, &spec(false)).await;
        assert_eq!(told, Told::Nothing);
        assert!(result.unwrap_err().to_string().contains("another run"));
        let known = registry.find(&run_id()).await.unwrap().unwrap();
        assert!(known.trains, "the first one goes on as it was told");
    }
}
