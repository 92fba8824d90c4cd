//! Candidates with one program: one of them is evaluated, and the others wait for its outcome.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a candidate waits for a duplicate before it takes that duplicate's place.
pub const TAKEOVER_AFTER: Duration = Duration::from_secs(60);
/// First pause between two reads of the entry of a program that another node evaluates.
pub const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// No pause is longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pause after a pause of this length.
pub fn next_pause(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST_PAUSE)
}

/// The candidate that is on its way with a program; none if none is. After a death or a failure it is still the same
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Holder<Id>(Option<Id>);

impl<Id> Default for Holder<Id> {
    fn default() -> Self {
        Self(None)
    }
}

/// The next action for a candidate whose program has no known outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn<Id> {
    /// The candidate holds the program: evaluate it.
    Mine,
    /// Write the entry with the candidate as its holder, then evaluate it. If the write is refused, look again.
    Take,
    /// Wait for the outcome of this duplicate.
    Wait(Id),
}

impl<Id: Clone + PartialEq> Holder<Id> {
    /// The next action for candidate `me`. A candidate that waited too long for the duplicate `instead` takes that
    /// duplicate's place. It does not take the place of a third candidate that has replaced the duplicate meanwhile.
    pub fn turn(&self, me: &Id, instead: Option<&Id>) -> Turn<Id> {
        match &self.0 {
            Some(holder) if holder == me => Turn::Mine,
            Some(holder) if instead != Some(holder) => Turn::Wait(holder.clone()),
            _ => Turn::Take,
        }
    }

    /// The entry with this candidate as its holder.
    pub fn taken_by(me: Id) -> Self {
        Self(Some(me))
    }

    /// Notes an outcome of this candidate: it no longer holds the program.
    pub fn ended(&mut self, candidate: &Id) {
        if self.0.as_ref() == Some(candidate) {
            self.0 = None;
        }
    }

    /// True if no candidate is on its way with the program.
    pub fn is_free(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_replaces_only_the_one_that_it_waited_for() {
        let free = Holder::<u32>::default();
        assert_eq!(free.turn(&1, None), Turn::Take);
        let mut held = Holder::taken_by(1);
        assert_eq!(held.turn(&1, None), Turn::Mine);
        assert_eq!(held.turn(&2, None), Turn::Wait(1));
        assert_eq!(held.turn(&2, Some(&1)), Turn::Take);
        assert_eq!(held.turn(&2, Some(&3)), Turn::Wait(1));
        held.ended(&2);
        assert!(!held.is_free());
        held.ended(&1);
        assert!(held.is_free());
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let pauses = std::iter::successors(Some(FIRST_PAUSE), |pause| Some(next_pause(*pause)));
        let millis: Vec<u128> = pauses.take(5).map(|pause| pause.as_millis()).collect();
        assert_eq!(millis, [250, 500, 1000, 2000, 2000]);
    }
}
