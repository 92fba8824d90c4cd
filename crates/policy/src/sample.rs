//! Writing answers: batched sampling with a key-value cache.

use std::ops::ControlFlow;
use std::sync::Arc;

use flopsmith_protocol::Sampling;

use crate::decode::{self, Decoder, Prompt};
use crate::draw::{Cut, Drawn, draw, exchange, share, uniform};
use crate::ending::{Circles, End, Stops};
use crate::error::{Error, Result};
use crate::model::Model;

/// One answer that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Token ids of the prompt; at least one.
    pub prompt: Vec<u32>,
    /// Determines the draws: the same seed and prompt give the same answer.
    pub seed: u64,
    /// Temperature, cuts and length. A temperature below 10⁻⁶ takes the likeliest token each time.
    pub sampling: Sampling,
    /// Where the answer leaves the policy's way, if anywhere.
    pub detour: Option<Detour>,
    /// What else is wanted of it.
    pub extras: Extras,
}

/// What is rarely asked for; nothing of it by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extras {
    /// After top-k and top-p, leave out tokens less likely than this share of the likeliest (Nguyen et al., 2024, arXiv:2407.01082); 0 keeps
    /// all.
    pub min_p: f32,
    /// Strings that end the answer.
    pub stops: Option<Arc<Stops>>,
    /// End the answer once a passage of it stands so many times in a row; below 2 never.
    pub repeats: u32,
    /// Note the log-probabilities of the model itself, too: [`Sample::raw`].
    pub raw: bool,
}

/// A token that is exchanged for another of its kind, after which the policy goes on from there: exploration where it
/// matters, instead of a higher temperature everywhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Detour {
    /// For each token id: is it of the kind? Tokens behind the end are not.
    pub kind: Arc<[bool]>,
    /// Which token of the kind that is drawn; the first is 0. An answer with fewer of them takes no detour.
    pub at: u32,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Token ids of the answer, the end token included when one was drawn.
    pub tokens: Vec<u32>,
    /// ln of each token's probability under the distribution it was drawn from: after temperature, top-k and top-p. All 0 at temperature 0.
    pub logprobs: Vec<f32>,
    /// ln of each token's probability under the model as it is, without temperature and cuts, where that was asked for.
    pub raw: Vec<f32>,
    /// Did it end by an end token or a stop string, rather than at its longest or in circles?
    pub finished: bool,
    /// Why it ended.
    pub end: End,
}

/// Below this the likeliest token is taken: 1 / temperature times a score is more than single precision holds long before 0.
const COLDEST: f32 = 1e-6;

/// Keys and values that one wave of rows may take, in bytes.
const CACHE_BYTES: usize = 1 << 30;

/// Answers every request; answers come in the order of the requests.
///
/// A prompt that occurs several times is run once. Rows that are finished leave
/// the batch. `eos` are the tokens that end an answer; `on_progress` is told the
/// number of tokens drawn so far, once for each step.
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

/// [`sample`] that can be stopped: `on_progress` breaks, and the call returns [`Error::Stopped`].
pub fn sample_while(
    model: &Model,
    requests: &[Request],
    eos: &[u32],
    mut on_progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<Sample>> {
    let mut drawn = 0;
    sample_stream(model, requests, eos, |tokens| {
        drawn += tokens.len();
        on_progress(drawn)
    })
}

/// [`sample_while`] that shows what is written while it is: after each step `on_tokens` is given the numbers of the requests that went on,
/// each with its new token.
pub fn sample_stream(
    model: &Model,
    requests: &[Request],
    eos: &[u32],
    mut on_tokens: impl FnMut(&[(usize, u32)]) -> ControlFlow<()>,
) -> Result<Vec<Sample>> {
    let _guard = tch::no_grad_guard();
    for (n, request) in requests.iter().enumerate() {
        check(model, n, request)?;
    }
    // Equal prompts side by side, the longest first: rows of a wave then need little masking.
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&requests[*a].prompt, &requests[*b].prompt);
        b.len().cmp(&a.len()).then_with(|| a.cmp(b))
    });
    let mut answers: Vec<Option<Sample>> = requests.iter().map(|_| None).collect();
    let mut rest = order.as_slice();
    while !rest.is_empty() {
        // The first of the rest has the longest prompt; every row gets columns for it and for its own answer.
        let prompt = requests[rest[0]].prompt.len();
        let answer = rest.iter().map(|n| more(&requests[*n])).max();
        let row = (prompt + answer.unwrap_or_default()) * decode::bytes_of_token(model);
        let rows = (CACHE_BYTES / row.max(1)).max(1);
        let (wave, later) = rest.split_at(rows.min(rest.len()));
        rest = later;
        let mut wave = Wave::begin(model, requests, wave, eos)?;
        while !wave.rows.is_empty() {
            wave.draw()?;
            for (request, sample) in wave.retire()? {
                answers[request] = Some(sample);
            }
            if on_tokens(&wave.drawn).is_break() {
                return Err(Error::Stopped);
            }
            wave.advance()?;
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

/// Tokens of an answer that are run: the last one is drawn and never run.
fn more(request: &Request) -> usize {
    (request.sampling.max_tokens as usize).saturating_sub(1)
}

fn check(model: &Model, n: usize, request: &Request) -> Result<()> {
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
        return fail(format!("temperature {} is no number from 0", s.temperature));
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

/// One row of a batch while it is being written.
struct Row<'a> {
    index: usize,
    request: &'a Request,
    cut: Cut,
    sample: Sample,
    /// Tokens of the detour's kind so far.
    met: u32,
    circles: Option<Circles>,
    done: bool,
}

impl Row<'_> {
    /// Are its scores brought to its temperature here, because those of the model itself are wanted as well?
    fn is_tempered_here(&self) -> bool {
        self.request.extras.raw && !self.cut.greedy && self.request.sampling.temperature != 1.0
    }

    /// Draws its next token from the scores of the model, which the decoder has brought to its temperature unless that is done here.
    fn draw(&mut self, scores: &[f32], eos: &[u32], room: &mut Room) -> Result<u32> {
        let position = self.sample.tokens.len();
        let p = if self.is_tempered_here() {
            // From the likelier to the less likely side nothing that matters gets lost: p^(1/T) of what a float can hold.
            let by = 1.0 / self.request.sampling.temperature;
            let best = scores.iter().copied().fold(0.0, f32::max);
            room.tempered.clear();
            room.tempered
                .extend(scores.iter().map(|p| (p / best).powf(by)));
            &room.tempered
        } else {
            scores
        };
        let u = uniform(self.request.seed, position as u64);
        let mut next = draw(p, self.cut, u, &mut room.kept).ok_or(Error::Scores)?;
        if let Some(detour) = &self.request.detour
            && detour.kind.get(next.token as usize) == Some(&true)
        {
            if self.met == detour.at {
                let u = uniform(!self.request.seed, position as u64);
                next = exchange(p, &detour.kind, next, u);
            }
            self.met += 1;
        }
        let Drawn { token, logprob } = next;
        self.sample.tokens.push(token);
        self.sample.logprobs.push(logprob);
        if self.request.extras.raw {
            self.sample.raw.push(share(scores, token));
        }
        let tokens = &self.sample.tokens;
        let stopped = match &self.request.extras.stops {
            Some(stops) => stops.completed(tokens)?,
            None => false,
        };
        let circles = self.circles.as_mut().is_some_and(|c| c.closed(tokens));
        let end = if eos.contains(&token) {
            Some(End::Token)
        } else if stopped {
            Some(End::Stop)
        } else if circles {
            Some(End::Repetition)
        } else {
            (tokens.len() >= self.request.sampling.max_tokens as usize).then_some(End::Length)
        };
        if let Some(end) = end {
            self.sample.end = end;
            self.sample.finished = matches!(end, End::Token | End::Stop);
            self.done = true;
        }
        Ok(token)
    }
}

/// Buffers that every draw uses anew.
#[derive(Default)]
struct Room {
    kept: Vec<u32>,
    tempered: Vec<f32>,
}

/// Rows that are written side by side.
struct Wave<'a> {
    eos: &'a [u32],
    decoder: Box<dyn Decoder + 'a>,
    /// Rows of the batch; a retired one stays as `None` until enough of them are gone to pay for moving the others.
    rows: Vec<Option<Row<'a>>>,
    /// 1 / temperature of each row.
    sharpen: Vec<f32>,
    probabilities: Vec<f32>,
    /// The requests of the rows that went on in the last step, and their tokens.
    drawn: Vec<(usize, u32)>,
    room: Room,
}

impl<'a> Wave<'a> {
    fn begin(
        model: &'a Model,
        requests: &'a [Request],
        wave: &[usize],
        eos: &'a [u32],
    ) -> Result<Self> {
        let rows: Vec<Row<'a>> = wave
            .iter()
            .map(|&index| {
                let request = &requests[index];
                let s = &request.sampling;
                Row {
                    index,
                    request,
                    cut: Cut {
                        greedy: s.temperature < COLDEST,
                        top_k: s.top_k,
                        top_p: s.top_p,
                        min_p: request.extras.min_p,
                    },
                    sample: Sample {
                        tokens: Vec::new(),
                        logprobs: Vec::new(),
                        raw: Vec::new(),
                        finished: false,
                        end: End::Length,
                    },
                    met: 0,
                    circles: Circles::new(request.extras.repeats),
                    done: s.max_tokens == 0,
                }
            })
            .collect();
        let prompts: Vec<Prompt<'_>> = rows
            .iter()
            .map(|row| Prompt {
                tokens: &row.request.prompt,
                more: more(row.request),
            })
            .collect();
        let sharpen = rows
            .iter()
            .map(|row| match row.cut.greedy || row.is_tempered_here() {
                true => 1.0,
                false => 1.0 / row.request.sampling.temperature,
            })
            .collect();
        Ok(Wave {
            eos,
            decoder: decode::begin(model, &prompts)?,
            rows: rows.into_iter().map(Some).collect(),
            sharpen,
            probabilities: Vec::new(),
            drawn: Vec::new(),
            room: Room::default(),
        })
    }

    /// Draws the next token of every row.
    fn draw(&mut self) -> Result<()> {
        self.decoder
            .probabilities(&self.sharpen, &mut self.probabilities)?;
        let width = self.probabilities.len() / self.rows.len();
        self.drawn.clear();
        for (row, p) in self
            .rows
            .iter_mut()
            .zip(self.probabilities.chunks_exact(width))
        {
            let Some(row) = row.as_mut().filter(|r| !r.done) else {
                continue;
            };
            let token = row.draw(p, self.eos, &mut self.room)?;
            self.drawn.push((row.index, token));
        }
        Ok(())
    }

    /// Takes out the rows that are done, and shrinks the batch when that pays.
    fn retire(&mut self) -> Result<Vec<(usize, Sample)>> {
        let mut done = Vec::new();
        for slot in &mut self.rows {
            if let Some(row) = slot.take_if(|r| r.done) {
                done.push((row.index, row.sample));
            }
        }
        let alive: Vec<usize> = (0..self.rows.len())
            .filter(|r| self.rows[*r].is_some())
            .collect();
        if alive.is_empty() {
            self.rows.clear();
            return Ok(done);
        }
        // Moving the cache costs about as much as two steps read of it.
        let gone = self.rows.len() - alive.len();
        if gone * 8 >= self.rows.len() {
            let left =
                |row: &Row<'_>| row.request.sampling.max_tokens as usize - row.sample.tokens.len();
            let most = self.rows.iter().flatten().map(left).max();
            self.decoder.keep(&alive, most.unwrap_or_default())?;
            self.sharpen = alive.iter().map(|r| self.sharpen[*r]).collect();
            self.rows.retain(Option::is_some);
        }
        Ok(done)
    }

    /// Runs the tokens just drawn.
    fn advance(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        // A retired row's place is filled with any token; nobody reads what follows it.
        let last = |row: &Option<Row<'_>>| {
            row.as_ref()
                .and_then(|r| r.sample.tokens.last().copied())
                .unwrap_or_default()
        };
        let tokens: Vec<u32> = self.rows.iter().map(last).collect();
        self.decoder.advance(&tokens)
    }
}
