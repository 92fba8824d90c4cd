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
mod model_plan;
#[cfg(feature = "torch")]
mod model_serve;
mod module;
mod pages;
mod problem;
mod recipe;
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
    // The commands that work on a run log into the run's folder; those that only print keep no log.
    let log = flopsmith_run::view::Log {
        filter: args.log.clone(),
        otlp: args.otlp_endpoint.clone(),
    };
    let _guard = match args.command {
        Command::Train(_) | Command::Search(_) | Command::Replay(_) => None,
        Command::Runs(_) | Command::Report(_) | Command::Config(_) => None,
        Command::Completions { .. } | Command::Man { .. } => None,
        _ => Some(log.start(None)?),
    };
    match args.command {
        Command::Train(a) => train::run(&a, &log),
        Command::Search(a) => search::run(&a, &log),
        Command::Bench(a) => bench::run(&a),
        Command::Eval(a) => eval::run(&a),
        Command::Serve(a) => serve::run(&a),
        Command::Mcp(a) => serve::mcp(&a),
        Command::Cluster(a) => cluster::run(&a),
        Command::Worker(a) => worker::run(&a),
        Command::Replay(a) => replay::run(&a, &log),
        Command::Runs(a) => runs::run(&a),
        Command::Store(a) => store::run(&a),
        Command::Top(a) => top::run(&a),
        Command::Report(a) => report::run(&a),
        Command::Ui(a) => ui::run(&a),
        Command::Dead(a) => dead::run(&a),
        Command::Doctor(a) => doctor::run(&a),
        Command::Problem(a) => problem::run(&a),
        Command::Dataset(a) => dataset::run(&a),
        Command::Config(a) => configuration::run(&a),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { folder } => pages::man(&folder),
        #[cfg(feature = "torch")]
        Command::Sft(a) => {
            let advice = memory::of_training("sft", "`batch_tokens`");
            starter::run(&a.order())
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, &advice))
        }
        #[cfg(feature = "torch")]
        Command::RewardModel(a) => {
            let advice = memory::of_training("reward_model", "`batch`");
            pairs::run(&a.order(), Aim::RewardModel)
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, &advice))
        }
        #[cfg(feature = "torch")]
        Command::Dpa(a) => {
            let advice = memory::of_training("dpa", "`batch`");
            pairs::run(&a.order(), Aim::Dpa)
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, &advice))
        }
        #[cfg(feature = "torch")]
        Command::Rlpf(a) => {
            let advice =
                memory::of_training("ppo", "`batch`, `prompts`, `samples` or `max_tokens`");
            let ways = a.farm.ways()?;
            let order = flopsmith_recipes::Order {
                farm: ways.as_ref(),
                ..a.learn.order()
            };
            rlpf::run(&order)
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, &advice))
        }
        #[cfg(feature = "torch")]
        Command::Align(a) => {
            flopsmith_run::measuring_lock::announce(&format!("align {}", a.recipe.display()));
            let ways = a.farm.ways()?;
            flopsmith_alignment::chain::run(&a.order(ways.as_ref()))
                .map(ExitCode::from)
                .map_err(|error| memory::advise(error, memory::OF_CHAINS))
        }
        #[cfg(feature = "torch")]
        Command::Model(a) => {
            let advice = match &a {
                Model::Sample { .. } => memory::OF_SAMPLES,
                Model::Serve(_) => memory::OF_SERVICE,
                _ => memory::OF_WHOLE,
            };
            model::run(&a).map_err(|error| memory::advise(error, advice))
        }
    }
}
