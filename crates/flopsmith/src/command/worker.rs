//! `flopsmith worker`: evaluates programs for the runs of a cluster.

use std::process::ExitCode;

use anyhow::{Context, Result};
use flopsmith_protocol::{MachineClass, NodeId};
use flopsmith_run::console::usage;
use flopsmith_run::durations;
use flopsmith_run::worker::{self, Plan};

use crate::args::Worker;
use crate::exit;

/// Works until a stop request.
pub fn run(args: &Worker) -> Result<ExitCode> {
    let class = MachineClass::new(&args.class).map_err(|e| usage(e.to_string()))?;
    let node = match &args.node {
        Some(name) => NodeId::new(name).map_err(|e| usage(e.to_string()))?,
        None => own_name()?,
    };
    let grace =
        durations::time(&args.grace).context("--grace (or FLOPSMITH_GRACE) cannot be read")?;
    let in_order = worker::execute(Plan {
        duties: args.roles.clone(),
        nats: args.bus.nats.clone(),
        store: args.store.clone(),
        class,
        modules: args.modules,
        node,
        grace,
        listen: args.listen,
        cores: args.cores.map(|n| (usize::from(n), args.claims.clone())),
        allow_weaker_jail: args.allow_weaker_jail,
    })?;
    Ok(ExitCode::from(if in_order {
        exit::OK
    } else {
        exit::INFRASTRUCTURE
    }))
}

/// A node name for this process: two workers of one machine are two nodes.
fn own_name() -> Result<NodeId> {
    let host: String = flopsmith_telemetry::host_name()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '-'
            }
        })
        .take(80)
        .collect();
    Ok(NodeId::new(format!("{host}-{}", std::process::id()))?)
}
