//! Updates that were left out because their loss or gradient was not finite.

use std::mem;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How many there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Skips {
    /// In all.
    pub total: u64,
    /// Without one in between that was done.
    pub in_a_row: u32,
}

/// An update that was left out, so that somebody can look at what it would have been made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedUpdate {
    /// Its number: updates done or skipped before it.
    pub update: u64,
    /// What was not finite.
    pub error: String,
    /// Which of the examples, pairs or samples that the training was given it was of, by their places.
    pub picked: Vec<usize>,
}

/// Updates that nobody has asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<SkippedUpdate>);

impl Kept {
    /// Keeps update `number`, of what was `picked`, where it has to be skipped.
    pub fn look_at<T>(&mut self, update: &Result<T>, number: u64, picked: &[usize]) {
        if let Err(error @ Error::NotFinite { .. }) = update {
            self.0.push(SkippedUpdate {
                update: number,
                error: error.to_string(),
                picked: picked.to_vec(),
            });
        }
    }

    /// Hands them out, once.
    pub fn take(&mut self) -> Vec<SkippedUpdate> {
        mem::take(&mut self.0)
    }
}

impl Skips {
    /// Counts an update: what it gave where it was done, and none where it was skipped. Other errors go on to the caller.
    ///
    /// # Errors
    /// The update's own where `most` in a row were skipped before it.
    pub fn count<T>(&mut self, update: Result<T>, most: u32) -> Result<Option<T>> {
        match update {
            Ok(done) => {
                self.in_a_row = 0;
                Ok(Some(done))
            }
            Err(error @ Error::NotFinite { .. }) => {
                self.total += 1;
                self.in_a_row += 1;
                if self.in_a_row > most {
                    return Err(Error::TooManySkipped {
                        in_a_row: self.in_a_row,
                        source: Box::new(error),
                    });
                }
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_was_skipped_is_handed_out_once() {
        let mut kept = Kept::default();
        kept.look_at(&Ok(()), 0, &[1]);
        kept.look_at(&bad(), 1, &[4, 2]);
        kept.look_at(&Err::<(), _>(Error::ThreadEnded), 2, &[3]);
        let taken = kept.take();
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].update, &taken[0].picked[..]), (1, &[4, 2][..]));
        assert!(taken[0].error.contains("the loss"), "{}", taken[0].error);
        assert!(kept.take().is_empty());
    }

    fn bad() -> Result<()> {
        Err(Error::NotFinite {
            what: "the loss",
            update: 1,
        })
    }

    #[test]
    fn some_are_left_out_and_too_many_in_a_row_are_an_error() {
        let mut skips = Skips::default();
        for _ in 0..5 {
            assert_eq!(skips.count(bad(), 2).unwrap(), None);
            assert_eq!(skips.count(bad(), 2).unwrap(), None);
            assert_eq!(skips.count(Ok(7), 2).unwrap(), Some(7));
        }
        assert_eq!(
            skips,
            Skips {
                total: 10,
                in_a_row: 0
            }
        );
        skips.count(bad(), 2).unwrap();
        skips.count(bad(), 2).unwrap();
        let error = skips.count(bad(), 2).unwrap_err();
        assert!(
            matches!(error, Error::TooManySkipped { in_a_row: 3, .. }),
            "{error}"
        );
        let other = Err::<(), _>(Error::ThreadEnded);
        assert!(matches!(skips.count(other, 2), Err(Error::ThreadEnded)));
    }
}
