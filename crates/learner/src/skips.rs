//! Updates that were skipped because their loss or gradient was not finite.

use std::mem;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Numbers of skipped updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Skips {
    /// All skipped updates.
    pub total: u64,
    /// Skipped updates since the last one that was done.
    pub in_a_row: u32,
}

/// A skipped update, recorded with its examples so that a user can inspect them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedUpdate {
    /// The update's number: updates done or skipped before it.
    pub update: u64,
    /// The error that names the quantity that was not finite.
    pub error: String,
    /// Indices of the update's examples, pairs or samples in the training's input.
    pub picked: Vec<usize>,
}

/// Skipped updates that were not yet handed out.
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<SkippedUpdate>);

impl Kept {
    /// Records update `number` with its `picked` examples if the update is not finite.
    pub fn look_at<T>(&mut self, update: &Result<T>, number: u64, picked: &[usize]) {
        if let Err(error @ Error::NotFinite { .. }) = update {
            self.0.push(SkippedUpdate {
                update: number,
                error: error.to_string(),
                picked: picked.to_vec(),
            });
        }
    }

    /// Hands out the recorded updates, once.
    pub fn take(&mut self) -> Vec<SkippedUpdate> {
        mem::take(&mut self.0)
    }
}

impl Skips {
    /// Counts an update: gives its result, or `None` if it is skipped. Other errors go to the caller.
    ///
    /// # Errors
    /// The update's own error if `most` updates in a row were skipped before it.
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
    fn skipped_batches_are_handed_out_once() {
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
