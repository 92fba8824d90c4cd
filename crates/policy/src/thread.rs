//! A thread that owns a model, and the handles through which many callers use it.
//!
//! libtorch keeps state for each thread and tensors are not to be shared between threads. The model therefore never
//! leaves its thread. The thread executes commands in the order of their arrival.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use flopsmith_protocol::PolicyVersion;
use tokio::sync::oneshot;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::sample::{Bounds, Request, Sample, sample_stream};
use crate::threads::compute_on;
use crate::tokenizer::Tokenizer;

/// Answers, and the policy version that wrote all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The version of the weights.
    pub version: PolicyVersion,
    /// The answers in the order of the requests.
    pub samples: Vec<Sample>,
}

/// The pending result of a command, to be awaited, or waited for with [`Reply::wait`].
///
/// Dropping the reply withdraws the command: sampling in progress for it stops at the next token.
#[derive(Debug)]
pub struct Reply<T>(oneshot::Receiver<Result<T>>);

impl<T> Reply<T> {
    /// Blocks this thread until the result is there. Not for use inside an async runtime: await the reply there.
    pub fn wait(self) -> Result<T> {
        self.0.blocking_recv().unwrap_or(Err(Error::ThreadEnded))
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|answer| answer.unwrap_or(Err(Error::ThreadEnded)))
    }
}

enum Command {
    Sample(Vec<Request>, oneshot::Sender<Result<Sampled>>),
    SetWeights(PolicyVersion, Vec<u8>, oneshot::Sender<Result<()>>),
    SetThreads(usize),
    SetBounds(Bounds),
    Version(oneshot::Sender<Result<PolicyVersion>>),
    Weights(oneshot::Sender<Result<Vec<u8>>>),
}

/// A handle on the thread that owns a model. Clones share the thread; dropping the last of them ends it.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `None` only while the last handle is being dropped.
    commands: Option<mpsc::Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    ending: Arc<AtomicBool>,
    tokenizer: Arc<Tokenizer>,
    config: Config,
    bounds: Bounds,
}

impl Handle {
    /// Starts the thread and builds the model on it; returns once the model is built or has failed to build.
    ///
    /// The model starts as version 0.
    pub fn spawn(
        build: impl FnOnce() -> Result<(Model, Tokenizer)> + Send + 'static,
    ) -> Result<Self> {
        let (commands, inbox) = mpsc::channel();
        let (built, ready) = mpsc::sync_channel(1);
        let ending = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ending);
        let thread = std::thread::Builder::new()
            .name("policy".into())
            .spawn(move || match build() {
                Ok((model, tokenizer)) => {
                    let tokenizer = Arc::new(tokenizer);
                    let (config, bounds) = (model.config().clone(), Bounds::on(model.device()));
                    if built
                        .send(Ok((Arc::clone(&tokenizer), config, bounds)))
                        .is_ok()
                    {
                        serve(model, tokenizer.eos(), &inbox, &flag);
                    }
                }
                Err(error) => {
                    let _nobody_waits = built.send(Err(error));
                }
            })
            .map_err(Error::ThreadStart)?;
        let (tokenizer, config, bounds) = ready.recv().map_err(|_| Error::ThreadEnded)??;
        Ok(Handle {
            shared: Arc::new(Shared {
                commands: Some(commands),
                thread: Some(thread),
                ending,
                tokenizer,
                config,
                bounds,
            }),
        })
    }

    /// Requests answers. They end at the tokenizer's end tokens.
    pub fn sample(&self, requests: Vec<Request>) -> Reply<Sampled> {
        self.send(|reply| Command::Sample(requests, reply))
    }

    /// Takes over weights (see [`Model::set_weights`]) as `version`, after all commands sent before.
    pub fn set_weights(&self, version: PolicyVersion, bytes: Vec<u8>) -> Reply<()> {
        self.send(|reply| Command::SetWeights(version, bytes, reply))
    }

    /// Sets the number of threads, at least one, that compute later commands. Before the first call it is libtorch's
    /// own choice.
    pub fn set_threads(&self, threads: usize) {
        self.tell(Command::SetThreads(threads));
    }

    /// Bounds the batches of later commands. Before the first call the bounds are those that suit the model's device
    /// ([`Bounds::on`]).
    pub fn set_bounds(&self, bounds: Bounds) {
        self.tell(Command::SetBounds(bounds));
    }

    /// The version of the weights, once all commands sent before are done.
    pub fn version(&self) -> Reply<PolicyVersion> {
        self.send(Command::Version)
    }

    /// The trained part of the weights, as [`Model::trained_bytes`] writes it.
    pub fn weights(&self) -> Reply<Vec<u8>> {
        self.send(Command::Weights)
    }

    /// The tokenizer; it can be used on any thread.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.shared.tokenizer
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The bounds that suit the model's device.
    pub fn bounds(&self) -> Bounds {
        self.shared.bounds
    }

    fn send<T>(&self, command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command) -> Reply<T> {
        let (reply, answer) = oneshot::channel();
        self.tell(command(reply));
        Reply(answer)
    }

    fn tell(&self, command: Command) {
        if let Some(commands) = &self.shared.commands {
            // If the thread is gone, the command is dropped with its reply, and the waiting caller gets
            // [`Error::ThreadEnded`].
            let _thread_ended = commands.send(command);
        }
    }
}

impl Drop for Shared {
    /// Stops sampling in progress and waits for the thread: its memory is free once the last handle is dropped.
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        self.commands = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread that owned the model panicked");
        }
    }
}

fn serve(mut model: Model, eos: &[u32], inbox: &mpsc::Receiver<Command>, ending: &AtomicBool) {
    let mut version = PolicyVersion(0);
    let mut bounds = Bounds::on(model.device());
    while let Ok(command) = inbox.recv() {
        // A failed send means that the caller has dropped its reply; nothing is left to do.
        match command {
            Command::Sample(requests, reply) => {
                if reply.is_closed() {
                    continue;
                }
                let samples = sample_stream(&model, &requests, eos, bounds, |_| {
                    if reply.is_closed() || ending.load(Ordering::Relaxed) {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                let _gone = reply.send(samples.map(|samples| Sampled { version, samples }));
            }
            Command::SetWeights(new, bytes, reply) => {
                let result = model.set_weights(&bytes);
                if result.is_ok() {
                    version = new;
                }
                let _gone = reply.send(result);
            }
            Command::SetThreads(threads) => {
                compute_on(threads);
            }
            Command::SetBounds(new) => bounds = new,
            Command::Version(reply) => {
                let _gone = reply.send(Ok(version));
            }
            Command::Weights(reply) => {
                let _gone = reply.send(model.trained_bytes());
            }
        }
    }
}
