//! The requests to the endpoint.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use flopsmith_endpoint::{Ask, Client, Entry, Error, Reason, Reply};
use flopsmith_run::console::{say, usage};
use flopsmith_run::endpoint::{ask_all, unusable};
use flopsmith_run::ticker::Ticker;
use tokio_util::sync::CancellationToken;

use super::Order;
use super::folder::{Answer, Folder};

/// Adds the answers to the folder, each as it ends, until all are there or a stop is requested. Returns why the others are
/// missing.
///
/// # Errors
/// Wrong usage: the endpoint refuses every request, or its key is missing. Files that cannot be written.
pub(super) fn ask(
    order: &Order<'_>,
    asks: Vec<Ask>,
    folder: &mut Folder,
    stopped: &CancellationToken,
) -> Result<BTreeMap<Reason, usize>> {
    let endpoint = order.endpoint;
    let (before, journal) = (folder.spending()?, folder.journal()?);
    let ticker = Arc::new(Mutex::new(Ticker::new(50)));
    let (url, progress) = (endpoint.url.clone(), Arc::clone(&ticker));
    let client = Client::open(endpoint, &order.sampling, &before, journal)
        .map_err(unusable)?
        .telling(Box::new(move |repetition| {
            on(&progress, Ticker::clear);
            say(&format!("{url}: {repetition}"));
        }));
    if client.shows_key() {
        say(
            "warning: the URL of the endpoint begins with http://, so the key goes through the network unencrypted",
        );
    }
    let mut answers = Answers {
        client: &client,
        folder: &mut *folder,
        total: asks.len() as u64,
        ended: 0,
        ticker,
        missing: BTreeMap::new(),
        failed: None,
    };
    let asked = ask_all(&client, asks, stopped, |ask, reply| {
        answers.take(ask, reply)
    })?;
    let Answers {
        missing, failed, ..
    } = answers;
    if let Some(error) = failed {
        return Err(error);
    }
    if asked && client.is_denied() {
        let requests = folder.requests()?;
        let denied = |entry: &&Entry| entry.reason == Some(Reason::Denied);
        let why = requests.iter().rfind(denied);
        let why = why.map_or("", |entry| entry.detail.as_str());
        return Err(usage(format!(
            "{} refuses every request: {why}; check the URL, the model's name and the key",
            endpoint.url
        )));
    }
    Ok(missing)
}

/// Takes answers as they end.
struct Answers<'a> {
    client: &'a Client,
    folder: &'a mut Folder,
    total: u64,
    ended: u64,
    ticker: Arc<Mutex<Ticker>>,
    missing: BTreeMap<Reason, usize>,
    failed: Option<anyhow::Error>,
}

impl Answers<'_> {
    fn take(&mut self, ask: Ask, reply: Result<Reply, Error>) -> ControlFlow<()> {
        let added = match reply {
            Ok(reply) => self.folder.add(Answer::of(ask, reply)),
            // The journal has the details, and the table at the end the reasons.
            Err(error) => match error.reason() {
                Some(reason) => {
                    *self.missing.entry(reason).or_default() += 1;
                    Ok(())
                }
                None => Err(error.into()),
            },
        };
        if let Err(error) = added {
            self.failed = Some(error);
            return ControlFlow::Break(());
        }
        self.ended += 1;
        let (ended, total) = (self.ended, self.total);
        let missing: usize = self.missing.values().sum();
        let spent = self.client.spent();
        let words = || {
            format!(
                "{ended} of {total} requests have ended: {missing} without an answer, {} tokens, cost {}",
                spent.tokens(),
                spent.cost
            )
        };
        on(&self.ticker, |ticker| ticker.tick(ended, total, words));
        ControlFlow::Continue(())
    }
}

/// Changes the progress line, which gives way to messages about repetitions.
fn on(ticker: &Mutex<Ticker>, change: impl FnOnce(&mut Ticker)) {
    change(&mut ticker.lock().unwrap_or_else(PoisonError::into_inner));
}
