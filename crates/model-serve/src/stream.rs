//! An answer as server-sent events: one for each token that shows something.

use std::collections::VecDeque;
use std::convert::Infallible;

use bytes::Bytes;
use futures::Stream;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::answer::{Asked, Choice};
use crate::engine::Piece;
use crate::refusal::Refusal;

/// The events of an answer. Dropping the stream withdraws the request.
pub fn events(
    asked: Asked,
    choices: Vec<Choice>,
    pieces: Option<UnboundedReceiver<Piece>>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let mut events = Events {
        asked,
        choices,
        pieces,
        ready: VecDeque::new(),
        ended: false,
    };
    events.begin();
    futures::stream::unfold(events, |mut events| async move {
        let event = events.next().await?;
        Some((Ok(event), events))
    })
}

struct Events {
    asked: Asked,
    choices: Vec<Choice>,
    /// None if no answer has a token to write.
    pieces: Option<UnboundedReceiver<Piece>>,
    ready: VecDeque<Bytes>,
    ended: bool,
}

impl Events {
    /// Announces every choice, and completes those without a token.
    fn begin(&mut self) {
        for n in 0..self.choices.len() {
            let first = self.asked.begin(&mut self.choices[n]);
            self.send(first);
            if self.choices[n].is_complete() {
                let last = self.asked.next(&mut self.choices[n], String::new());
                self.send(last);
            }
        }
        self.end_if_complete();
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            let piece = match &mut self.pieces {
                Some(pieces) => pieces.recv().await,
                None => None,
            };
            match piece {
                Some(Piece::Tokens { choice, tokens }) => {
                    for token in tokens {
                        let event = match self.choices.get_mut(choice) {
                            Some(choice) => choice
                                .push(token)
                                .and_then(|piece| self.asked.next(choice, piece)),
                            None => Ok(None),
                        };
                        self.send(event);
                    }
                    self.end_if_complete();
                }
                Some(Piece::Failed(refusal)) => self.fail(&refusal),
                None => self.fail(&Refusal::stopping()),
            }
        }
    }

    fn send(&mut self, event: Result<Option<Value>, Refusal>) {
        match event {
            Ok(Some(event)) => self.ready.push_back(line(&event.to_string())),
            Ok(None) => {}
            Err(refusal) => self.fail(&refusal),
        }
    }

    fn fail(&mut self, refusal: &Refusal) {
        if !self.ended {
            self.ready.push_back(line(&refusal.body().to_string()));
            self.end();
        }
    }

    fn end_if_complete(&mut self) {
        if !self.ended && self.choices.iter().all(Choice::is_complete) {
            if let Some(last) = self.asked.last(&self.choices) {
                self.ready.push_back(line(&last.to_string()));
            }
            self.end();
        }
    }

    fn end(&mut self) {
        self.ready.push_back(line("[DONE]"));
        self.ended = true;
        // The answers that are still written leave the batch.
        self.pieces = None;
    }
}

/// An event with this data. JSON has no line breaks outside of texts, and escapes those within.
fn line(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
