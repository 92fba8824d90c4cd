//! A window on a folder of runs: pages in HTML for a browser, which change nothing in a run.
//!
//! Pages are made on the server from templates ([`templates`], [`pages`]). They read the files of a run. Outcomes may be
//! millions, so an index stands beside their log ([`index`]): one thread extends it ([`indexer`]), and pages read the lines
//! that they show by their places ([`watched`], [`find`]). Sums are made while the index grows ([`totals`]). Events tell a
//! page that its run has something new ([`live`]). With a broker one page shows the live state of its cluster
//! ([`cluster`]), by the code of `flopsmith top` ([`flopsmith_run::cluster`]). Connections and tokens are those of `flopsmith serve`
//! ([`flopsmith_serve::listen`], [`flopsmith_serve::intake`]).
//!
//! This crate starts and stops no run, sends nothing to a bus, and evaluates nothing.
//!
//! Invariants:
//! - No page holds a log whole in memory, and none takes longer because a run is long, but for a few passes over its indexes.
//! - Every text of a run is escaped. The policy of the pages permits no script and no style but the window's own.
//! - A name in an address is an id or a number before it becomes part of a path.
//! - The index can be removed at any time: it is made again from the log.
//! - Without a token the window answers requests to loopback only.

mod access;
mod chart;
mod cluster;
mod find;
mod http;
mod index;
mod indexer;
mod lineage;
mod live;
mod pages;
mod query;
mod refusal;
mod runs;
mod templates;
mod totals;
mod watched;
mod worth;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use axum::Router;
use flopsmith_run::console::{data, usage};
use flopsmith_run::interrupt::Watch;
use flopsmith_serve::Token;
use flopsmith_serve::intake::check_reach;
use flopsmith_serve::listen::{self, Limits};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use cluster::Cluster;
use http::App;
use pages::Site;
use runs::Runs;

/// The variable that may hold the token of the window.
pub const TOKEN: &str = "FLOPSMITH_SERVE_TOKEN";

/// Threads that make pages.
const THREADS: usize = 4;

/// The settings of a window.
pub struct Plan {
    /// The folder of runs.
    pub runs: PathBuf,
    /// Where indexes of runs are kept whose folders cannot be written.
    pub cache: Option<PathBuf>,
    /// The address that it listens at.
    pub listen: SocketAddr,
    /// The token that requests need.
    pub token: Option<Token>,
    /// The broker of the cluster that is shown, if one is.
    pub nats: Option<String>,
}

/// Shows pages until a stop request.
///
/// # Errors
/// Wrong usage, and a machine that starts no threads.
pub fn execute(plan: Plan) -> Result<()> {
    let Plan {
        runs,
        cache,
        listen,
        token,
        nats,
    } = plan;
    if token.as_ref().is_some_and(Token::has_quotas) {
        return Err(usage(
            "a window has no quotas; leave the text beside the tokens out",
        ));
    }
    let loopback = "listen at 127.0.0.1";
    check_reach(listen, token.as_ref(), TOKEN, loopback)?;
    let watch = Watch::saying("closing the window (press Ctrl-C again to close it at once)…")?;
    let stopping = watch.asked().clone();
    listen::allow_connections();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(THREADS)
        .thread_name("window")
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let router = router(runs, cache, token, nats, stopping.clone())?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            usage(format!(
                "cannot listen at {listen}: {error}; name another address with --listen"
            ))
        })?;
        let address = listener.local_addr();
        let address = address.context("the listener has no address")?;
        // A script reads the address, and the port where it asked for any.
        data(&format!("http://{address}"));
        listen::serve(listener, router, stopping, Limits::default(), || ()).await;
        Ok(())
    })
}

/// The pages of a folder of runs, and of the cluster whose broker `nats` names, for a server. Events end once `stopping` is
/// cancelled.
///
/// # Errors
/// The system starts no thread.
pub fn router(
    runs: PathBuf,
    cache: Option<PathBuf>,
    token: Option<Token>,
    nats: Option<String>,
    stopping: CancellationToken,
) -> Result<Router> {
    let runs = Runs::new(runs, cache).context("cannot start the thread of the indexes")?;
    let cluster = nats.map(Cluster::start).transpose();
    let cluster = cluster.context("cannot start the thread of the cluster")?;
    let site = Site::new(runs, cluster);
    Ok(http::router(App::new(site, token, stopping)))
}

#[cfg(test)]
mod tests;
