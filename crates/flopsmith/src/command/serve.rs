//! `flopsmith serve` and `flopsmith mcp`: evaluate programs over HTTP, and for an agent on standard input and output.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use flopsmith_protocol::text;
use flopsmith_run::console::usage;
use flopsmith_run::{durations, paths, resident};
use flopsmith_serve::{Basis, Limits, Plan, Settings, Token, execute, execute_mcp};

use crate::args::{Evaluating, Mcp, Serve};

/// Number of programs of one agent that may wait.
const MOST_WAITING: usize = 1000;

/// The variable that holds the token. There is no option for it: other users can see the options of a process.
const TOKEN: &str = "FLOPSMITH_SERVE_TOKEN";

/// Serves until a stop request.
pub fn run(args: &Serve) -> Result<ExitCode> {
    resident::release_library("libtorch");
    execute(Plan {
        listen: args.listen,
        token: token(args.token_file.as_deref())?,
        most_body: args.max_body as usize,
        basis: basis(&args.evaluating, args.max_waiting as usize)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves one agent until the end of its input.
pub fn mcp(args: &Mcp) -> Result<ExitCode> {
    let basis = basis(&args.evaluating, MOST_WAITING)?;
    resident::release_library("libtorch");
    execute_mcp(basis, args.max_message as usize)?;
    Ok(ExitCode::SUCCESS)
}

fn basis(args: &Evaluating, most_waiting: usize) -> Result<Basis> {
    let reward = match &args.reward {
        Some(path) => flopsmith_config::load(path, &[])?.reward,
        None => flopsmith_config::Settings::default().reward,
    };
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => paths::data_folder()?.join("serve"),
    };
    let refresh = durations::time(&args.refresh);
    let keep = durations::time(&args.keep_jobs);
    Ok(Basis {
        folder,
        settings: Settings {
            compiler: args.compiler.clone(),
            threads: args.threads,
            sanitize: args.sanitize,
            wait: args.wait.limit()?,
            refresh: refresh.context("--refresh (or FLOPSMITH_REFRESH) cannot be read")?,
        },
        farm: args.farm.ways()?,
        reward,
        allow_weaker_jail: args.allow_weaker_jail,
        most_waiting,
        keep: keep.context("--keep-jobs (or FLOPSMITH_KEEP_JOBS) cannot be read")?,
        limits: Limits {
            evaluations: args.budget.evaluations(),
            time: args.budget.time()?,
        },
    })
}

/// The token of the file, or else of the variable, if there is one.
pub fn token(file: Option<&Path>) -> Result<Option<Token>> {
    let text = match (file, std::env::var(TOKEN)) {
        (Some(file), _) => {
            let text = std::fs::read(file).and_then(text::decode);
            let name = file.display();
            text.map_err(|e| usage(format!("cannot read the token file {name}: {e}")))?
        }
        (None, Ok(text)) if !text.is_empty() => text,
        (None, Err(std::env::VarError::NotUnicode(_))) => {
            return Err(usage(format!(
                "{TOKEN} is not text; use letters and digits"
            )));
        }
        (None, _) => return Ok(None),
    };
    Token::new(&text).map(Some)
}
