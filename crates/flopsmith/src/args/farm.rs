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
    /// The NATS server of the cluster, e.g. nats://broker:4222. Only with --cluster; FLOPSMITH_NATS may name it instead.
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,
    /// The artifact store of the cluster: a folder that all nodes see, or a URL (`s3://bucket/prefix`). Only with --cluster;
    /// FLOPSMITH_STORE may name it instead.
    #[arg(long, value_name = "PLACE")]
    pub store: Option<String>,
    /// The class of the machines that time the programs (their `worker --class`); `local` when left out. Only with --cluster;
    /// FLOPSMITH_MACHINE_CLASS may name it instead.
    #[arg(long, value_name = "CLASS")]
    pub machine_class: Option<String>,
}

impl OnFarm {
    /// The ways to the cluster; none if this machine evaluates the programs.
    ///
    /// # Errors
    /// Wrong usage: a cluster without a server or a store, or one of these without a cluster.
    pub fn ways(&self) -> Result<Option<Ways>> {
        let typed = [
            ("--nats", &self.nats),
            ("--store", &self.store),
            ("--machine-class", &self.machine_class),
        ];
        if !self.cluster {
            return match typed.iter().find(|(_, given)| given.is_some()) {
                // A user who forgets --cluster must not get the times of this machine instead.
                Some((flag, _)) => Err(usage(format!(
                    "{flag} is given without --cluster, so this machine would evaluate the programs; add --cluster, or leave {flag} out"
                ))),
                None => Ok(None),
            };
        }
        let told = |given: &Option<String>, variable: &str| {
            // Typed arguments take precedence over the environment.
            let given = given.clone().or_else(|| std::env::var(variable).ok());
            given.filter(|way| !way.is_empty())
        };
        let named = |given: &Option<String>, flag: &str, variable: &str| {
            told(given, variable).ok_or_else(|| {
                usage(format!(
                    "--cluster (or FLOPSMITH_CLUSTER) needs {flag} (or {variable}); name the cluster's, or leave --cluster out"
                ))
            })
        };
        Ok(Some(Ways {
            nats: named(&self.nats, "--nats", "FLOPSMITH_NATS")?,
            store: named(&self.store, "--store", "FLOPSMITH_STORE")?,
            machine_class: told(&self.machine_class, "FLOPSMITH_MACHINE_CLASS")
                .unwrap_or("local".into()),
        }))
    }
}
