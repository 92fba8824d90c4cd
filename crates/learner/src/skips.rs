//! Updates that were left out because their loss or gradient was not finite.

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
