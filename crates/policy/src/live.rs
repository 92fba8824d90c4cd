//! A batch that requests join and leave while it is written.

use std::collections::VecDeque;

use crate::batch::Batch;
use crate::decode;
use crate::ending::End;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::sample::{Bounds, Request, Sample, check};

/// Requests that one model answers, a token each at a time. A request joins at the next step, or some steps later with
/// others that come meanwhile, and leaves with its last token.
///
/// A request gets the tokens that [`crate::sample()`] would give it alone, up to rounding in the matrix products.
pub struct Live<'a> {
    model: &'a Model,
    longest: usize,
    batch: Batch<'a>,
}

impl<'a> Live<'a> {
    /// A batch without requests. `eos` are the tokens that end an answer; no prompt with its answer has more than
    /// `longest` tokens, nor more than the model has positions. Small models are packed here, which takes a moment.
    pub fn new(model: &'a Model, eos: &'a [u32], bounds: Bounds, longest: usize) -> Result<Self> {
        let _guard = tch::no_grad_guard();
        let positions = usize::try_from(model.config().max_position_embeddings);
        let longest = longest.min(positions.unwrap_or(usize::MAX));
        let decoder = decode::begin(model, longest)?;
        Ok(Live {
            model,
            longest,
            batch: Batch::over(decoder, model, VecDeque::new(), eos, bounds),
        })
    }

    /// Adds a request, which waits for a place in the batch. `id` is not that of another request of the batch.
    ///
    /// # Errors
    /// [`Error::Input`], if the request wants no token, is too long, or has values that make no sense.
    pub fn push(&mut self, id: usize, request: Request) -> Result<()> {
        check(self.model, id, &request)?;
        let (prompt, answer) = (request.prompt.len(), request.sampling.max_tokens as usize);
        if answer == 0 {
            return Err(Error::Input(format!("request {id} wants no token")));
        }
        if prompt + answer > self.longest {
            return Err(Error::Input(format!(
                "request {id}: a prompt of {prompt} tokens and an answer of {answer} have more than {} tokens",
                self.longest
            )));
        }
        self.batch.push(id, request);
        Ok(())
    }

    /// Drops a request, whether it waits or is being written.
    pub fn remove(&mut self, id: usize) {
        self.batch.remove(id);
    }

    /// Writes one token of every request in the batch. `each` receives the ids of these requests, with their answers so
    /// far and, if they are complete, why they ended. Gives false if no request is left.
    ///
    /// # Errors
    /// After an error the batch is not usable any more, and all its requests are lost.
    pub fn step(&mut self, each: impl FnMut(usize, &Sample, Option<End>)) -> Result<bool> {
        let _guard = tch::no_grad_guard();
        if !self.batch.advance()? {
            return Ok(false);
        }
        self.batch.draw()?;
        self.batch.tell(each);
        Ok(true)
    }

    /// Number of requests that wait for a place, and number of those that are being written.
    pub fn counts(&self) -> (usize, usize) {
        self.batch.counts()
    }
}
