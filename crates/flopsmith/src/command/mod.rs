//! The commands, each in a file of its own.

use std::process::ExitCode;

use anyhow::Result;
#[cfg(feature = "torch")]
use flopsmith_recipes::pairs::{self, Aim};
#[cfg(feature = "torch")]
use flopsmith_recipes::{rlpf, starter};

#[cfg(feature = "torch")]
use crate::args::Model;
use crate::args::{Args, Command};

mod bench;
mod cluster;
mod configuration;
mod dataset;
mod dead;
mod doctor;
mod eval;
#[cfg(feature = "torch")]
mod memory;
#[cfg(feature = "torch")]
mod model;
#[cfg(feature = "torch")]
mod model_serve;
mod module;
mod problem;
mod replay;
mod report;
mod runs;
mod search;
mod serve;
mod store;
mod top;
mod train;
mod ui;
mod worker;

/// Executes a command.
pub fn execute(args: Args) -> Result<ExitCode> {
    // The commands that work on a run log into the run's folder; all others log to stderr.
    let log = flopsmith_run::view::Log {
        filter: args.log.clone(),
        otlp: args.otlp_endpoint.clone(),
    };
    match args.command {
        Command::Train(a) => train::run(&a, &log),
        Command::Search(a) => search::run(&a, &log),
        Command::Bench(a) => {
            let _guard = log.start(None)?;
            bench::run(&a)
        }
        Command::Eval(a) => {
            let _guard = log.start(None)?;
            eval::run(&a)
        }
        Command::Serve(a) => {
            let _guard = log.start(None)?;
            serve::run(&a)
        }
        Command::Mcp(a) => {
            let _guard = log.start(None)?;
            serve::mcp(&a)
        }
        Command::Cluster(a) => {
            let _guard = log.start(None)?;
            cluster::run(&a)
        }
        Command::Worker(a) => {
            let _guard = log.start(None)?;
            worker::run(&a)
        }
        Command::Replay(a) => replay::run(&a, &log),
        Command::Runs(a) => runs::run(&a),
        Command::Store(a) => {
            let _guard = log.start(None)?;
            store::run(&a)
        }
        Command::Top(a) => {
            let _guard = log.start(None)?;
            top::run(&a)
        }
        Command::Report(a) => report::run(&a),
        Command::Ui(a) => {
            let _guard = log.start(None)?;
            ui::run(&a)
        }
        Command::Dead(a) => {
            let _guard = log.start(None)?;
            dead::run(&a)
        }
        Command::Doctor(a) => {
            let _guard = log.start(None)?;
            doctor::run(&a)
        }
        Command::Problem(a) => {
            let _guard = log.start(None)?;
            problem::run(&a)
        }
        Command::Dataset(a) => {
            let _guard = log.start(None)?;
            dataset::run(&a)
        }
        Command::Config(a) => configuration::run(&a),
        #[cfg(feature = "torch")]
        Command::Sft(a) => {
            let _guard = log.start(None)?;
            let advice = memory::of_training("sft", "`batch_tokens`");
            starter::run(&a.order())
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, &advice))
        }
        #[cfg(feature = "torch")]
        Command::RewardModel(a) => {
            let _guard = log.start(None)?;
            let advice = memory::of_training("reward_model", "`batch`");
            pairs::run(&a.order(), Aim::RewardModel)
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, &advice))
        }
        #[cfg(feature = "torch")]
        Command::Dpa(a) => {
            let _guard = log.start(None)?;
            let advice = memory::of_training("dpa", "`batch`");
            pairs::run(&a.order(), Aim::Dpa)
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, &advice))
        }
        #[cfg(feature = "torch")]
        Command::Rlpf(a) => {
            let _guard = log.start(None)?;
            let advice =
                memory::of_training("ppo", "`batch`, `prompts`, `samples` or `max_tokens`");
            rlpf::run(&a.order())
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, &advice))
        }
        #[cfg(feature = "torch")]
        Command::Align(a) => {
            let _guard = log.start(None)?;
            flopsmith_run::measuring_lock::announce(&format!("align {}", a.recipe.display()));
            flopsmith_alignment::chain::run(&a.order())
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, memory::OF_CHAINS))
        }
        #[cfg(feature = "torch")]
        Command::Model(a) => {
            let _guard = log.start(None)?;
            let advice = match &a {
                Model::Sample { .. } => memory::OF_SAMPLES,
                Model::Serve(_) => memory::OF_SERVICE,
                _ => memory::OF_WHOLE,
            };
            model::run(&a).map_err(|error| memory::advise(error, advice))
        }
    }
}
