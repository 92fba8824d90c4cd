//! Writing answers: batched sampling with a key-value cache.

use std::ops::ControlFlow;
use std::sync::Arc;

use flopsmith_protocol::Sampling;
use tch::Device;

use crate::batch::Batch;
use crate::ending::{End, Stops};
use crate::error::{Error, Result};
use crate::model::Model;

/// One requested answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Token ids of the prompt; at least one.
    pub prompt: Vec<u32>,
    /// Determines the draws: the same seed and prompt give the same answer.
    pub seed: u64,
    /// Temperature, cuts and length. A temperature below 10⁻⁶ takes the likeliest token each time.
    pub sampling: Sampling,
    /// The place at which the answer departs from the policy, if any.
    pub detour: Option<Detour>,
    /// Rarely used options.
    pub extras: Extras,
}

/// Options that are rarely used; by default all are off.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extras {
    /// After top-k and top-p, leave out tokens that are less than this share as likely as the likeliest token (Nguyen
    /// et al., 2024, arXiv:2407.01082); 0 keeps all.
    pub min_p: f32,
    /// Strings that end the answer.
    pub stops: Option<Arc<Stops>>,
    /// End the answer once it contains the same passage this many times in a row; a number below 2 never ends it.
    pub repeats: u32,
    /// Record the model's own log-probabilities, too: [`Sample::raw`].
    pub raw: bool,
    /// Go on after an end token, to the limit.
    pub ignore_eos: bool,
    /// Record this many of the model's likeliest tokens at each place of the answer: [`Sample::top`].
    pub top: u32,
}

/// A token that is exchanged for another of its kind; the policy continues from there. This explores at the places that
/// matter, instead of raising the temperature everywhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Detour {
    /// For each token id: true if the token is of the kind. Ids beyond the end are not.
    pub kind: Arc<[bool]>,
    /// Index, from 0, of the exchanged token among the drawn tokens of the kind. An answer with fewer of them takes no
    /// detour.
    pub at: u32,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Token ids of the answer, including the end token if one was drawn.
    pub tokens: Vec<u32>,
    /// ln of each token's probability under the distribution it was drawn from: after temperature, top-k and top-p. All
    /// 0 at temperature 0.
    pub logprobs: Vec<f32>,
    /// ln of each token's probability under the model itself, without temperature and cuts; empty unless
    /// [`Extras::raw`] is set.
    pub raw: Vec<f32>,
    /// For each token the likeliest tokens at its place, the likeliest first, with ln of their probabilities under the
    /// model itself; empty unless [`Extras::top`] is set.
    pub top: Vec<Vec<(u32, f32)>>,
    /// True if an end token or a stop string ended the answer; false if the length limit or a repetition did.
    pub finished: bool,
    /// Why the answer ended.
    pub end: End,
}

impl Sample {
    /// An answer without tokens.
    pub(crate) fn empty() -> Self {
        Sample {
            tokens: Vec::new(),
            logprobs: Vec::new(),
            raw: Vec::new(),
            top: Vec::new(),
            finished: false,
            end: End::Length,
        }
    }
}

/// Bounds of a batch. Requests beyond them wait, and each begins as soon as there is room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Answers that are written at the same time.
    pub rows: usize,
    /// Bytes of the keys and values of all answers in flight. A single answer is written even if it exceeds this.
    pub cache_bytes: usize,
}

impl Default for Bounds {
    /// 256 answers, 1 GiB.
    fn default() -> Self {
        Bounds {
            rows: 256,
            cache_bytes: 1 << 30,
        }
    }
}

impl Bounds {
    /// Bounds that suit a device by default: 8 GiB on a GPU, where a step costs nearly the same for few rows and for
    /// many, and whose memory is larger in proportion; otherwise [`Bounds::default`].
    pub fn on(device: Device) -> Self {
        Bounds {
            cache_bytes: if device.is_cuda() { 8 << 30 } else { 1 << 30 },
            ..Bounds::default()
        }
    }
}

/// Answers every request; answers come in the order of the requests.
///
/// A prompt that occurs several times is run once. Finished rows leave the batch, and waiting requests take their
/// places. `eos` are the tokens that end an answer. `on_progress` receives the number of tokens drawn so far, once for
/// each step.
pub fn sample(
    model: &Model,
    requests: &[Request],
    eos: &[u32],
    mut on_progress: impl FnMut(usize),
) -> Result<Vec<Sample>> {
    sample_while(model, requests, eos, |drawn| {
        on_progress(drawn);
        ControlFlow::Continue(())
    })
}

/// [`sample`] with a way to stop: if `on_progress` breaks, the call returns [`Error::Stopped`].
pub fn sample_while(
    model: &Model,
    requests: &[Request],
    eos: &[u32],
    mut on_progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<Sample>> {
    let mut drawn = 0;
    let bounds = Bounds::on(model.device());
    sample_stream(model, requests, eos, bounds, |tokens| {
        drawn += tokens.len();
        on_progress(drawn)
    })
}

/// [`sample_while`] within given bounds that streams tokens: after each step `on_tokens` receives the index of each
/// request that went on, with its new token.
pub fn sample_stream(
    model: &Model,
    requests: &[Request],
    eos: &[u32],
    bounds: Bounds,
    mut on_tokens: impl FnMut(&[(usize, u32)]) -> ControlFlow<()>,
) -> Result<Vec<Sample>> {
    let _guard = tch::no_grad_guard();
    for (n, request) in requests.iter().enumerate() {
        check(model, n, request)?;
    }
    let mut answers: Vec<Option<Sample>> = requests.iter().map(|_| None).collect();
    let mut batch = Batch::new(model, requests, eos, bounds)?;
    while batch.advance()? {
        batch.draw()?;
        batch.retire(&mut answers);
        if on_tokens(batch.drawn()).is_break() {
            return Err(Error::Stopped);
        }
    }
    // A request for no token has no row, and gets an empty answer.
    let answers = answers.into_iter().map(|a| a.unwrap_or_else(Sample::empty));
    Ok(answers.collect())
}

pub(crate) fn check(model: &Model, n: usize, request: &Request) -> Result<()> {
    let fail = |what: String| Err(Error::Input(format!("request {n}: {what}")));
    let s = &request.sampling;
    let vocabulary = model.config().vocab_size;
    if request.prompt.is_empty() {
        return fail("the prompt is empty".into());
    }
    if let Some(id) = request
        .prompt
        .iter()
        .find(|id| i64::from(**id) >= vocabulary)
    {
        return fail(format!(
            "token {id} is outside the vocabulary of {vocabulary}"
        ));
    }
    let most = model.config().max_position_embeddings;
    if request.prompt.len() as i64 + i64::from(s.max_tokens) > most {
        return fail(format!(
            "a prompt of {} tokens and an answer of {} do not fit the model's {most} positions",
            request.prompt.len(),
            s.max_tokens
        ));
    }
    if !(s.temperature >= 0.0 && s.temperature.is_finite()) {
        return fail(format!(
            "temperature {} is not a finite number of at least 0",
            s.temperature
        ));
    }
    if !(s.top_p > 0.0 && s.top_p <= 1.0) {
        return fail(format!("top_p {} is not within (0, 1]", s.top_p));
    }
    let min_p = request.extras.min_p;
    if !(0.0..=1.0).contains(&min_p) {
        return fail(format!("min_p {min_p} is not within 0 to 1"));
    }
    Ok(())
}
