//! Flags by which a command leaves the evaluation of programs to a cluster.

use anyhow::Result;
use clap::Args as ClapArgs;
use flopsmith_run::console::usage;
use flopsmith_run::farm::Ways;

/// The cluster whose workers evaluate programs.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct OnFarm {
    /// Have the workers of a cluster compile, verify and time the programs, many at a time. Needs --nats and --store.
    #[arg(long, env = "FLOPSMITH_CLUSTER", value_parser = clap::builder::BoolishValueParser::new())]
    pub cluster: bool,
    /// The NATS server of the cluster, e.g. nats://broker:4222. Only with --cluster.
    #[arg(
        long,
        value_name = "URL",
        env = "FLOPSMITH_NATS",
        hide_env_values = true
    )]
    pub nats: Option<String>,
    /// The artifact store of the cluster: a folder that all nodes see, or a URL (`s3://bucket/prefix`). Only with --cluster.
    #[arg(
        long,
        value_name = "PLACE",
        env = "FLOPSMITH_STORE",
        hide_env_values = true
    )]
    pub store: Option<String>,
    /// The class of the machines that time the programs (their `worker --class`). Only with --cluster.
    #[arg(long, value_name = "CLASS", default_value = "local")]
    pub machine_class: String,
}

impl OnFarm {
    /// The ways to the cluster; none if this machine evaluates the programs.
    ///
    /// # Errors
    /// Wrong usage: a cluster without a server or a store.
    pub fn ways(&self) -> Result<Option<Ways>> {
        if !self.cluster {
            return Ok(None);
        }
        let named = |given: &Option<String>, flag: &str, variable: &str| {
            let given = given.clone().filter(|way| !way.is_empty());
            given.ok_or_else(|| {
                usage(format!(
                    "--cluster (or FLOPSMITH_CLUSTER) needs {flag} (or {variable}); name the cluster's, or leave --cluster out"
                ))
            })
        };
        Ok(Some(Ways {
            nats: named(&self.nats, "--nats", "FLOPSMITH_NATS")?,
            store: named(&self.store, "--store", "FLOPSMITH_STORE")?,
            machine_class: self.machine_class.clone(),
        }))
    }
}
