//! The thread that runs the models: a batch for each model, whose requests join and leave while others are written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flopsmith_policy::chat::Message;
use flopsmith_policy::{Bounds, End, Live, Model, Request, Scored, Tokenizer};
use flopsmith_run::console::usage;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::served::{self, Named, Names, Served};

mod change;

use change::Change;

/// Time without another request after which an idle engine begins to write.
const SILENCE: Duration = Duration::from_millis(1);

/// Longest time for which an idle engine waits for further requests.
const GATHER: Duration = Duration::from_millis(20);

/// Time over which the rate of tokens is counted.
const RATE_OVER: Duration = Duration::from_secs(1);

/// Opens the model itself, on the thread that runs it.
pub type Load = Box<dyn FnOnce() -> Result<(Model, Tokenizer)> + Send>;

/// The models of an engine.
pub struct Models {
    /// Opens the model itself.
    pub load: Load,
    /// Its name.
    pub name: String,
    /// Its adapters.
    pub adapters: Vec<Named>,
    /// Largest number of tokens of a prompt and its answer; the model's positions without it.
    pub longest: Option<usize>,
    /// Largest number of answers that a model writes at the same time.
    pub rows: usize,
    /// Memory for the keys and values of the answers of a model, bytes; what suits the device without it.
    pub cache_bytes: Option<usize>,
}

/// The next tokens of an answer, or its failure.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Tokens were written.
    Tokens {
        /// The index of the answer among those of the request.
        choice: usize,
        /// The tokens, in order: one, or all of the answer ([`Pieces`]).
        tokens: Vec<Token>,
    },
    /// The model failed or is there no more; no token follows for any answer of the request.
    Failed(Refusal),
}

/// A token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// ln of its probability under the model, if log-probabilities are wanted; otherwise 0.
    pub logprob: f32,
    /// The likeliest tokens at its place.
    pub top: Vec<(u32, f32)>,
    /// Why the answer ended, if it did.
    pub end: Option<End>,
}

/// The pieces in which the engine sends an answer. A piece wakes the task of the client, which takes processor time from the model's
/// threads, so only a client that reads tokens as they come gets each by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// A piece for each token.
    Token,
    /// One piece when the answer ends.
    Whole,
}

/// Answers that a request asks for.
struct Order {
    model: usize,
    sent: Pieces,
    requests: Vec<(usize, Request)>,
    /// One for each request.
    seats: Vec<Seat>,
    pieces: mpsc::UnboundedSender<Piece>,
}

enum Command {
    Write(Order),
    Score {
        model: usize,
        ids: Vec<u32>,
        top: usize,
        /// That of the whole request. A prompt holds it until it was scored, also for a client that went away meanwhile.
        seat: Arc<Seat>,
        reply: oneshot::Sender<Result<Vec<Scored>, Refusal>>,
    },
    Change(Change),
}

/// An open answer, or a request whose prompts are scored. Dropping it ends the answer.
struct Seat(Arc<Metrics>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.close(1);
    }
}

/// The thread with the models. Dropping it stops what is being written, and waits for the thread.
pub struct Engine {
    /// `None` only while the engine is being dropped.
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    ending: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
    most_open: usize,
}

impl Engine {
    /// Starts the thread and opens the models on it. At most `most_waiting` answers wait while as many are written as fit
    /// into a batch. The end of the thread cancels `ended`.
    ///
    /// # Errors
    /// If a model cannot be opened.
    pub fn start(
        models: Models,
        most_waiting: usize,
        metrics: Arc<Metrics>,
        ended: &CancellationToken,
    ) -> Result<(Self, Served)> {
        let (commands, inbox) = channel();
        let (opened, ready) = sync_channel(1);
        let ending = Arc::new(AtomicBool::new(false));
        let most_open = models.rows.saturating_add(most_waiting);
        let (flag, counters) = (Arc::clone(&ending), Arc::clone(&metrics));
        let guard = ended.clone().drop_guard();
        let thread = std::thread::Builder::new().name("model".into());
        let thread = thread.spawn(move || {
            let _guard = guard;
            match Opened::open(models) {
                Ok(mut own) => {
                    if opened.send(Ok(own.served.clone())).is_ok() {
                        own.work(&inbox, &flag, &counters);
                    }
                }
                Err(error) => {
                    let _nobody_waits = opened.send(Err(error));
                }
            }
        });
        let thread = thread.context("the thread that runs the model cannot be started")?;
        let served = ready
            .recv()
            .context("the thread that runs the model ended while it opened the model")??;
        let engine = Self {
            commands: Some(commands),
            thread: Some(thread),
            ending,
            metrics,
            most_open,
        };
        Ok((engine, served))
    }

    /// Asks a model for answers: requests with the indices of their answers. Dropping the receiver withdraws them.
    ///
    /// # Errors
    /// If too many answers wait, or the thread has ended.
    pub fn write(
        &self,
        model: usize,
        sent: Pieces,
        requests: Vec<(usize, Request)>,
    ) -> Result<mpsc::UnboundedReceiver<Piece>, Refusal> {
        let (pieces, receiver) = mpsc::unbounded_channel();
        let count = requests.len();
        if !self.metrics.open(count, self.most_open) {
            return Err(Refusal::overloaded());
        }
        let seats = (0..count).map(|_| Seat(Arc::clone(&self.metrics)));
        let order = Order {
            model,
            sent,
            seats: seats.collect(),
            requests,
            pieces,
        };
        self.tell(Command::Write(order))?;
        Ok(receiver)
    }

    /// Scores the prompts of a request, one after another: [`Model::score_prompt`]. They take the place of one answer.
    ///
    /// # Errors
    /// If too many answers wait, the model fails, or the thread has ended.
    pub async fn score(
        &self,
        model: usize,
        prompts: Vec<Vec<u32>>,
        top: usize,
    ) -> Result<Vec<Vec<Scored>>, Refusal> {
        if !self.metrics.open(1, self.most_open) {
            return Err(Refusal::overloaded());
        }
        let seat = Arc::new(Seat(Arc::clone(&self.metrics)));
        let mut all = Vec::with_capacity(prompts.len());
        for ids in prompts {
            let (reply, answer) = oneshot::channel();
            self.tell(Command::Score {
                model,
                ids,
                top,
                seat: Arc::clone(&seat),
                reply,
            })?;
            match answer.await {
                Ok(scored) => all.push(scored?),
                Err(_) => return Err(Refusal::stopping()),
            }
        }
        Ok(all)
    }

    fn tell(&self, command: Command) -> Result<(), Refusal> {
        let told = self.commands.as_ref().map(|inbox| inbox.send(command));
        match told {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(Refusal::stopping()),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        self.commands = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread that ran the model panicked");
        }
    }
}

/// The models, on their thread.
struct Opened {
    served: Served,
    /// By their numbers; the first is the model itself.
    models: Vec<(usize, Model)>,
    /// The number of the next adapter.
    next: usize,
    bounds: Bounds,
}

impl Opened {
    fn open(given: Models) -> Result<Self> {
        let (model, tokenizer) = (given.load)()?;
        check_template(&tokenizer)?;
        let suits = Bounds::on(model.device());
        let positions = usize::try_from(model.config().max_position_embeddings)?;
        let vocabulary = u32::try_from(model.config().vocab_size)?;
        let (names, models) = served::models(given.name, model, &given.adapters)?;
        Ok(Self {
            next: models.len(),
            served: Served {
                names: Names::of(names),
                tokenizer: Arc::new(tokenizer),
                longest: given
                    .longest
                    .map_or(positions, |longest| longest.min(positions)),
                vocabulary,
            },
            models: models.into_iter().enumerate().collect(),
            bounds: Bounds {
                rows: given.rows,
                cache_bytes: given.cache_bytes.unwrap_or(suits.cache_bytes),
            },
        })
    }

    /// Works until the engine is dropped.
    fn work(&mut self, inbox: &Receiver<Command>, ending: &AtomicBool, metrics: &Metrics) {
        let mut next = 0;
        while let Some(change) = self.write(inbox, ending, metrics, &mut next) {
            self.change(change);
        }
    }

    /// Writes answers until the engine is dropped, or until the adapters change: then nothing is being written. `next` is the
    /// id of the next request.
    fn write(
        &self,
        inbox: &Receiver<Command>,
        ending: &AtomicBool,
        metrics: &Metrics,
        next: &mut usize,
    ) -> Option<Change> {
        let lanes = self.models.iter().map(|(number, model)| Lane {
            number: *number,
            model,
            eos: self.served.tokenizer.eos(),
            bounds: self.bounds,
            longest: self.served.longest,
            live: None,
            places: HashMap::new(),
        });
        let mut lanes: Vec<Lane<'_>> = lanes.collect();
        let mut rate = Rate::new();
        // Once a change waits, later commands wait behind it.
        let mut change = None;
        loop {
            if lanes.iter().all(|lane| lane.places.is_empty()) {
                metrics.writes(0);
                metrics.rate(0.0);
                if change.is_some() {
                    return change;
                }
                let Ok(command) = inbox.recv() else {
                    return None;
                };
                rate = Rate::new();
                change = take(command, &mut lanes, next);
                // Requests that a client sends at once begin together: the model's threads leave clients no processor meanwhile.
                let latest = Instant::now() + GATHER;
                while change.is_none()
                    && Instant::now() < latest
                    && let Ok(command) = inbox.recv_timeout(SILENCE)
                {
                    change = take(command, &mut lanes, next);
                }
            }
            while change.is_none()
                && let Ok(command) = inbox.try_recv()
            {
                let is_score = matches!(command, Command::Score { .. });
                change = take(command, &mut lanes, next);
                // Prompts to score may come as fast as they are scored, and answers have to go on between them.
                if is_score {
                    break;
                }
            }
            if ending.load(Ordering::Relaxed) {
                return None;
            }
            let written: u64 = lanes.iter_mut().map(Lane::step).sum();
            metrics.wrote(written);
            metrics.writes(lanes.iter().map(Lane::running).sum());
            if let Some(rate) = rate.add(written) {
                metrics.rate(rate);
            }
        }
    }
}

/// Checks that the chat template can write a message, before any client sends one.
///
/// # Errors
/// Wrong usage, if it cannot. A template that refuses the message by itself may accept those of clients.
fn check_template(tokenizer: &Tokenizer) -> Result<()> {
    match tokenizer.render(&[Message::user("?")]) {
        Ok(_) | Err(flopsmith_policy::Error::Messages(_)) => Ok(()),
        Err(error) => Err(usage(format!(
            "{}; correct it, or remove it so that messages are joined as plain text",
            words(error)
        ))),
    }
}

/// Takes a command. A change of the adapters is given back: it has to wait until nothing is written.
fn take(command: Command, lanes: &mut [Lane<'_>], next: &mut usize) -> Option<Change> {
    match command {
        Command::Write(order) => match lanes.iter_mut().find(|lane| lane.number == order.model) {
            Some(lane) => lane.join(order, next),
            None => {
                let _gone = order.pieces.send(Piece::Failed(Refusal::unloaded()));
            }
        },
        Command::Score {
            model,
            ids,
            top,
            seat: _seat,
            reply,
        } => {
            let lane = lanes.iter().find(|lane| lane.number == model);
            if !reply.is_closed() {
                let scored = match lane {
                    Some(lane) => lane.model.score_prompt(&ids, top).map_err(failed),
                    None => Err(Refusal::unloaded()),
                };
                let _gone = reply.send(scored);
            }
        }
        Command::Change(change) => return Some(change),
    }
    None
}

fn failed(error: flopsmith_policy::Error) -> Refusal {
    Refusal::failed(words(error))
}

fn words(error: flopsmith_policy::Error) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

/// One model and the answers that it writes.
struct Lane<'a> {
    number: usize,
    model: &'a Model,
    eos: &'a [u32],
    bounds: Bounds,
    longest: usize,
    /// Begun with the first request, because small models are packed for it.
    live: Option<Live<'a>>,
    /// By the ids of their requests.
    places: HashMap<usize, Place>,
}

/// An answer that waits or is written.
struct Place {
    choice: usize,
    sent: Pieces,
    /// The tokens that were not sent yet.
    tokens: Vec<Token>,
    pieces: mpsc::UnboundedSender<Piece>,
    _seat: Seat,
}

impl Lane<'_> {
    fn join(&mut self, order: Order, next: &mut usize) {
        if self.live.is_none() {
            match Live::new(self.model, self.eos, self.bounds, self.longest) {
                Ok(live) => self.live = Some(live),
                Err(error) => {
                    let _gone = order.pieces.send(Piece::Failed(failed(error)));
                    return;
                }
            }
        }
        let Some(live) = &mut self.live else {
            return;
        };
        for ((choice, request), seat) in order.requests.into_iter().zip(order.seats) {
            let id = *next;
            *next += 1;
            if let Err(error) = live.push(id, request) {
                // The client drops its receiver, and the other answers of the request leave.
                let _gone = order.pieces.send(Piece::Failed(failed(error)));
                return;
            }
            let place = Place {
                choice,
                sent: order.sent,
                tokens: Vec::new(),
                pieces: order.pieces.clone(),
                _seat: seat,
            };
            self.places.insert(id, place);
        }
    }

    /// Writes a token of every answer in the batch, and gives their number.
    fn step(&mut self) -> u64 {
        let Some(live) = &mut self.live else {
            return 0;
        };
        self.places.retain(|id, place| {
            let stays = !place.pieces.is_closed();
            if !stays {
                live.remove(*id);
            }
            stays
        });
        if self.places.is_empty() {
            return 0;
        }
        let places = &mut self.places;
        let (mut written, mut ended) = (0, Vec::new());
        let stepped = live.step(|id, sample, end| {
            written += 1;
            let Some(place) = places.get_mut(&id) else {
                return;
            };
            place.tokens.push(Token {
                id: sample.tokens.last().copied().unwrap_or_default(),
                logprob: sample.raw.last().copied().unwrap_or_default(),
                top: sample.top.last().cloned().unwrap_or_default(),
                end,
            });
            if place.sent == Pieces::Token || end.is_some() {
                let tokens = std::mem::take(&mut place.tokens);
                let choice = place.choice;
                let _gone = place.pieces.send(Piece::Tokens { choice, tokens });
            }
            if end.is_some() {
                ended.push(id);
            }
        });
        for id in ended {
            self.places.remove(&id);
        }
        let failure = match stepped {
            Ok(true) => return written,
            Ok(false) => "the batch lost its requests".to_owned(),
            Err(error) => words(error),
        };
        tracing::error!(failure, "the model failed; its answers end");
        for (_, place) in self.places.drain() {
            let refusal = Refusal::failed(failure.as_str());
            let _gone = place.pieces.send(Piece::Failed(refusal));
        }
        self.live = None;
        written
    }

    fn running(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.counts().1)
    }
}

/// Tokens a second.
struct Rate {
    since: Instant,
    tokens: u64,
}

impl Rate {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            tokens: 0,
        }
    }

    /// Counts tokens, and gives the rate now and then.
    fn add(&mut self, tokens: u64) -> Option<f64> {
        self.tokens += tokens;
        let passed = self.since.elapsed();
        (passed >= RATE_OVER).then(|| {
            let rate = self.tokens as f64 / passed.as_secs_f64();
            *self = Self::new();
            rate
        })
    }
}
