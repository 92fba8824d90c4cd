//! A model folder as a service with OpenAI's interface: completions and chats, whole or as events, with token ids and
//! log-probabilities.
//!
//! A body becomes a request with prompts and draws ([`ask`]). One thread has the model and its adapters ([`engine`]), and
//! a batch for each of them that requests join and leave at every token ([`flopsmith_policy::Live`]). It sends the tokens
//! to the tasks that answer ([`http`]), which make texts of them ([`text`]) and send these whole ([`answer`]) or as events
//! ([`stream`]). Connections, tokens of clients, limits of bodies and the counter of responses are those of `flopsmith serve`
//! ([`flopsmith_serve::listen`], [`flopsmith_serve::intake`], [`flopsmith_serve::responses`]).
//!
//! Adapters may come and go while the service runs ([`adapters`]), by vLLM's routes.
//!
//! This crate knows no runs, no training and no evaluation of programs, and changes no weights.
//!
//! Invariants:
//! - Token ids and log-probabilities are those that the model's sampler drew. Texts are made from ids.
//! - Which other requests are in the batch changes no answer, up to rounding in the matrix products.
//! - A client that goes away frees its places at the next token.
//! - A field that this service does not know is refused, and never ignored if it could change the answer.
//! - Without a token the service answers requests to loopback only.
//! - No request makes the service read a file outside of the folder of adapters that its user named.

mod adapters;
mod answer;
mod ask;
mod chance;
mod engine;
mod fields;
mod http;
mod metrics;
mod refusal;
mod served;
mod stream;
mod text;

use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flopsmith_run::console::{data, usage};
use flopsmith_run::interrupt::Watch;
use flopsmith_run::local::unix_ms;
use flopsmith_serve::Token;
use flopsmith_serve::intake::{Bodies, check_reach};
use flopsmith_serve::listen::{self, Limits};
use tokio_util::sync::CancellationToken;

pub use engine::{Load, Models};
pub use served::{Named, check_name};

use engine::Engine;
use http::App;
use metrics::Metrics;

/// The variable that may hold the token of the service.
pub const TOKEN: &str = "FLOPSMITH_SERVE_TOKEN";

/// The settings of a service.
pub struct Plan {
    /// The address that it listens at.
    pub listen: SocketAddr,
    /// The token that requests need.
    pub token: Option<Token>,
    /// Length of the longest body of a request, bytes.
    pub most_body: usize,
    /// Number of answers that may wait.
    pub most_waiting: usize,
    /// Time that answers have to end after a request to stop.
    pub grace: Duration,
    /// The folder below which adapters may lie that requests load; without one, no request loads any.
    pub adapter_folder: Option<PathBuf>,
    /// The models.
    pub models: Models,
}

/// Serves until a stop request.
///
/// # Errors
/// Wrong usage, a model that cannot be used, and the end of the thread that runs it.
pub fn execute(plan: Plan) -> Result<()> {
    if plan.token.as_ref().is_some_and(Token::has_quotas) {
        return Err(usage(
            "a model has no quotas; leave the text beside the tokens out",
        ));
    }
    check_reach(
        plan.listen,
        plan.token.as_ref(),
        TOKEN,
        "leave --host at 127.0.0.1",
    )?;
    let adapter_folder = plan.adapter_folder.as_deref().map(adapters::folder);
    let adapter_folder = adapter_folder.transpose()?;
    // A taken port is reported before a large model is read.
    let listener = bind(plan.listen)?;
    let watch = Watch::saying(
        "stopping after the answers under way (press Ctrl-C again to stop at once)…",
    )?;
    let ended = CancellationToken::new();
    let metrics = Arc::new(Metrics::default());
    let counters = Arc::clone(&metrics);
    let (engine, served) = Engine::start(plan.models, plan.most_waiting, counters, &ended)?;
    listen::allow_connections();
    let app = App {
        engine: Arc::new(engine),
        served: Arc::new(served),
        since: unix_ms() / 1000,
        metrics,
        token: plan.token.map(Arc::new),
        adapter_folder,
        bodies: Bodies::new(plan.most_body),
        stopping: watch.asked().clone(),
    };
    let limits = Limits {
        grace: plan.grace,
        ..Limits::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("answer")
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let answered = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener);
        let listener = listener.context("the listener cannot be used")?;
        let address = listener.local_addr();
        let address = address.context("the listener has no address")?;
        // A script reads the address, and the port where it asked for any.
        data(&format!("http://{address}"));
        answer(listener, app, limits, ended).await
    });
    // Answers that outlast the time to stop end here; with the last of them ends the thread with the model.
    runtime.shutdown_timeout(Duration::from_millis(500));
    answered
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let fail = |error: std::io::Error| {
        usage(format!(
            "cannot listen at {address}: {error}; name another address with --host and --port"
        ))
    };
    let listener = TcpListener::bind(address).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    Ok(listener)
}

/// Answers requests until a stop request, or until the thread with the model ends.
async fn answer(
    listener: tokio::net::TcpListener,
    app: App,
    limits: Limits,
    ended: CancellationToken,
) -> Result<()> {
    // The thread with the model ends with the last handle on it, and so not before this function.
    let engine = Arc::clone(&app.engine);
    let stopping = app.stopping.clone();
    let metrics = Arc::clone(&app.metrics);
    let connected = move || metrics.connected();
    let broken = async {
        ended.cancelled().await;
        // The connections then end in order; their answers end with an error.
        stopping.cancel();
        pending::<()>().await;
    };
    let router = http::router(app);
    tokio::select! {
        () = listen::serve(listener, router, stopping.clone(), limits, connected) => {}
        () = broken => {}
    }
    if ended.is_cancelled() {
        bail!(
            "the thread that runs the model ended, and the log says why; start the service again"
        );
    }
    drop(engine);
    Ok(())
}

#[cfg(test)]
mod tests;
