//! `flopsmith top`: shows the present state of a cluster.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_run::cluster::Look;
use flopsmith_run::console::data;
use flopsmith_run::durations;
use flopsmith_run::interrupt::Watch;

use crate::args::{Format, Top};
use crate::exit;

/// Shows the state until a stop is requested.
pub fn run(args: &Top) -> Result<ExitCode> {
    let every = durations::time(&args.every).context("--every cannot be read")?;
    let every = every.max(Duration::from_millis(200));
    let once = args.once || args.format == Format::Json || !std::io::stdout().is_terminal();
    let watch = Watch::saying("no longer watching; no run is stopped")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let mut look = Box::pin(Look::open(&args.bus.nats)).await?;
        loop {
            let board = look.again().await?;
            if args.format == Format::Json {
                data(&serde_json::to_string(&board)?);
            } else {
                let lines = board.lines();
                if !once {
                    // The whole screen is printed again, since lines appear and disappear.
                    print_screen(&lines);
                } else {
                    lines.iter().for_each(|line| data(line));
                }
            }
            if once {
                break;
            }
            tokio::select! {
                () = watch.asked().cancelled() => break,
                () = look.listen(every) => {}
            }
        }
        look.close().await?;
        Ok(ExitCode::from(exit::OK))
    })
}

fn print_screen(lines: &[String]) {
    data(&format!("\x1b[2J\x1b[H{}", lines.join("\n")));
}
