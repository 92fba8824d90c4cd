//! When a run gives up a server that does not answer, or refuses to.

use crate::error::Error;

/// Number of calls in a row without any answer after which the run ends: a server that refuses each request at once would
/// otherwise be asked for step after step as fast as it can refuse.
const MOST: u32 = 3;

/// The calls in a row for which a server gave no answer.
#[derive(Debug, Default)]
pub(super) struct Silence(u32);

impl Silence {
    /// Counts a call to the server `name`. `unanswered` is the last reason for which a request has no answer, and `is_exhausted`
    /// says that the budget for requests is spent: such a run ends with its result.
    ///
    /// # Errors
    /// [`Error::Hopeless`] if too many calls in a row had no answer.
    pub(super) fn count(
        &mut self,
        name: &str,
        is_answered: bool,
        unanswered: Option<&str>,
        is_exhausted: bool,
    ) -> Result<(), Error> {
        match unanswered {
            _ if is_answered => self.0 = 0,
            Some(why) if !is_exhausted => {
                self.0 += 1;
                if self.0 >= MOST {
                    return Err(Error::Hopeless(format!(
                        "{name} answered none of the requests of {} steps in a row: {why}; requests.jsonl in the run's folder has all reasons; mend the cause, and resume the run",
                        self.0
                    )));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The error of a server that refuses every request, the first one for this reason.
pub(super) fn all_refused(name: &str, why: Option<&str>) -> Error {
    let why = why.unwrap_or_default();
    Error::Hopeless(format!(
        "{name} refuses every request: {why}; check the URL, the model's name and the key"
    ))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_after_several_calls_in_a_row_without_an_answer() {
        let mut silence = Silence::default();
        let mut call = |is_answered, is_exhausted| {
            silence.count("a server", is_answered, Some("gone"), is_exhausted)
        };
        for is_answered in [false, false, true, false, false] {
            call(is_answered, false).unwrap();
        }
        // A spent budget is no fault of the server.
        call(false, true).unwrap();
        let said = call(false, false).unwrap_err().to_string();
        assert!(
            said.contains("a server") && said.contains("3 steps in a row: gone"),
            "{said}"
        );
    }
}
