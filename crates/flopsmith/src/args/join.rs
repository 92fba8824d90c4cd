//! Flags by which a run joins a cluster.

use anyhow::Result;
use clap::Args as ClapArgs;
use flopsmith_config::{Job, Settings, check_cluster};
use flopsmith_run::console::usage;

/// The cluster that a run joins, and the work that the run leaves to the cluster.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Join {
    /// Leave all work of the run to nodes of a cluster (settings `evaluate.workers` and `hosted`). This process follows
    /// the run and writes its folder; if you stop this process, the run continues. Needs --nats and --store.
    #[arg(long, env = "FLOPSMITH_CLUSTER", value_parser = clap::builder::BoolishValueParser::new())]
    pub cluster: bool,
    /// The NATS server of the cluster, e.g. nats://broker:4222; overrides the setting `nats`, also with --resume. With
    /// --cluster, and in a run that was begun with it, FLOPSMITH_NATS may name the server instead.
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,
    /// The artifact store of the cluster: a folder that all nodes see, or a URL (`s3://bucket/prefix`); overrides the
    /// setting `store`, also with --resume. With --cluster, and in a run that was begun with it, FLOPSMITH_STORE may
    /// name the store instead.
    #[arg(long, value_name = "PLACE")]
    pub store: Option<String>,
}

impl Join {
    /// Applies the flags to a new run's settings. `set` holds the values of --set.
    pub fn apply(&self, settings: &mut Settings, set: &[String], job: Job) -> Result<()> {
        self.find(settings, set, self.cluster);
        let settled = |key: &str| set.iter().any(|pair| key_of(pair) == key);
        if self.cluster
            && let Some(key) = ["evaluate.workers", "evaluate", "hosted"]
                .into_iter()
                .find(|key| settled(key))
        {
            return Err(usage(format!(
                "--cluster (or FLOPSMITH_CLUSTER) sets `{key}`, and --set sets it as well; leave one of them out"
            )));
        }
        if self.cluster {
            settings.evaluate.workers = true;
            settings.hosted = job.roles(settings.generator.kind).collect();
        }
        if self.nats.is_some() && settings.store.is_empty() {
            return Err(usage(
                "--nats is given without --store, so no other node could read the run's programs and states; give --store as well",
            ));
        }
        Ok(check_cluster(settings, job)?)
    }

    /// Applies the flags to the settings of a resumed run. The cluster may have another address now, but the work that
    /// the run leaves to the cluster was settled at the beginning.
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
                "--nats and --store cannot be given together with --resume for a run that was begun with a broker or a store of its own: its messages or its programs are there; leave these flags out",
            ));
        }
        self.find(settings, &[], hosted);
        Ok(check_cluster(settings, job)?)
    }

    /// Sets the addresses of the cluster. The environment counts only for runs that leave work to a cluster.
    fn find(&self, settings: &mut Settings, set: &[String], cluster: bool) {
        let told = |flag: &Option<String>, key: &str, variable: &str| {
            // Typed arguments take precedence over the environment.
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

/// The key of a `key=value` pair.
fn key_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(key, _)| key).trim()
}
