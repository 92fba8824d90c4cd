//! Flags by which a run joins a cluster.

use anyhow::Result;
use clap::Args as ClapArgs;
use flopsmith_actors::course::Job;
use flopsmith_actors::settings::Settings;

use flopsmith_run::config;
use flopsmith_run::console::usage;
use flopsmith_run::run::roles;

/// Which cluster a run joins, and what it leaves to it.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Join {
    /// Have nodes of a cluster do all the work of the run (settings `evaluate.workers` and `hosted`): this process follows it and writes
    /// its folder, and where it is stopped the run goes on. Needs --nats and --store.
    #[arg(long, env = "FLOPSMITH_CLUSTER", value_parser = clap::builder::BoolishValueParser::new())]
    pub cluster: bool,
    /// The NATS server of the cluster, e.g. nats://broker:4222; overrides the setting `nats`, also with --resume. With --cluster, and in a run
    /// that was begun so, FLOPSMITH_NATS says it as well.
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,
    /// The artifact store of the cluster: a folder that all nodes see, or a URL (`s3://bucket/prefix`); overrides the setting
    /// `store`, also with --resume. With --cluster, and in a run that was begun so, FLOPSMITH_STORE says it as well.
    #[arg(long, value_name = "PLACE")]
    pub store: Option<String>,
}

impl Join {
    /// What the flags make of a new run's settings. `set` is what --set was given.
    pub fn apply(&self, settings: &mut Settings, set: &[String], job: Job) -> Result<()> {
        self.find(settings, set, self.cluster);
        let settled = |key: &str| set.iter().any(|pair| key_of(pair) == key);
        if self.cluster
            && let Some(key) = ["evaluate.workers", "evaluate", "hosted"]
                .into_iter()
                .find(|key| settled(key))
        {
            return Err(usage(format!(
                "--cluster (or FLOPSMITH_CLUSTER) settles `{key}`, which --set gives as well: leave one of them out"
            )));
        }
        if self.cluster {
            settings.evaluate.workers = true;
            settings.hosted = roles::needed(job, settings.generator.kind).collect();
        }
        if self.nats.is_some() && settings.store.is_empty() {
            return Err(usage(
                "--nats without --store: programs and states would lie where no other node sees them",
            ));
        }
        config::check_cluster(settings, job)
    }

    /// The same for a run that goes on: a cluster may have another address by now, but what is left to it was settled at the
    /// beginning.
    pub fn apply_again(&self, settings: &mut Settings, job: Job) -> Result<()> {
        let hosted = !settings.hosted.is_empty();
        if self.cluster && !hosted {
            return Err(usage(
                "--cluster (or FLOPSMITH_CLUSTER) cannot be given together with --resume for a run that was begun without it: leave it out, or start a new run",
            ));
        }
        let alone = |named: &Option<String>, begun: &str| named.is_some() && begun.is_empty();
        if alone(&self.nats, &settings.nats) || alone(&self.store, &settings.store) {
            return Err(usage(
                "--nats and --store cannot be given together with --resume for a run that was begun with a broker or a store of its own: what it has is there",
            ));
        }
        self.find(settings, &[], hosted);
        config::check_cluster(settings, job)
    }

    /// Where the cluster is; what the environment says of that is for runs that are left to one.
    fn find(&self, settings: &mut Settings, set: &[String], cluster: bool) {
        let told = |flag: &Option<String>, key: &str, variable: &str| {
            // What was typed is nearer than what stands in the environment.
            let typed = set.iter().any(|pair| key_of(pair) == key);
            let variable = || std::env::var(variable).ok().filter(|_| cluster && !typed);
            flag.clone().or_else(variable).filter(|v| !v.is_empty())
        };
        if let Some(nats) = told(&self.nats, "nats", "FLOPSMITH_NATS") {
            settings.nats = nats;
        }
        if let Some(store) = told(&self.store, "store", "FLOPSMITH_STORE") {
            settings.store = store;
        }
    }
}

/// What a `key=value` sets.
fn key_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(key, _)| key).trim()
}
