//! The lease of a role of which a run has only one instance.
//!
//! One record in a key-value bucket names the holder and the state to continue from. A process writes the record only
//! at the revision that it knows. So the bus refuses every write of a holder that another process has replaced, and
//! that holder's later states and messages never count.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time limits of the holder and of waiting processes. Each process measures them by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Interval at which the holder writes a sign of life.
    pub beat: Duration,
    /// A holder whose signs of life did not arrive for this long stops working.
    pub give_up: Duration,
    /// A waiting process that has seen no sign of life of the holder for this long takes over.
    pub patience: Duration,
}

impl Terms {
    /// The terms of a run.
    pub const DEFAULT: Self = Self {
        beat: Duration::from_secs(2),
        give_up: Duration::from_secs(6),
        patience: Duration::from_secs(10),
    };

    /// Interval at which a waiting process reads the record.
    pub const fn look(&self) -> Duration {
        Duration::from_nanos(self.beat.as_nanos() as u64 / 2)
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Number of earlier states that the record keeps in case the last one is damaged: as many as roles keep.
const EARLIER: usize = 2;

/// The record of a lease. `H` names a process; its default value names none. `S` names a saved state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<H, S> {
    /// The process that holds the lease.
    pub holder: H,
    /// Grows with every change of hands.
    pub term: u64,
    /// Grows with every sign of life.
    pub beat: u64,
    /// The state to continue from.
    pub head: Option<S>,
    /// The states before it, the newest first.
    pub earlier: Vec<S>,
    /// True if nothing is left to do.
    pub over: bool,
}

/// The record of a lease that no process has held.
impl<H: Default, S> Default for Record<H, S> {
    fn default() -> Self {
        Self {
            holder: H::default(),
            term: 0,
            beat: 0,
            head: None,
            earlier: Vec::new(),
            over: false,
        }
    }
}

impl<H: Clone + Default + PartialEq, S: Clone + PartialEq> Record<H, S> {
    /// The record after a sign of life.
    #[must_use]
    pub fn renewed(mut self) -> Self {
        self.beat += 1;
        self
    }

    /// The record after `head` has become the state to continue from; with `over`, nothing is left to do after it.
    #[must_use]
    pub fn committed(mut self, head: S, over: bool) -> Self {
        if let Some(before) = self.head.replace(head) {
            self.earlier.insert(0, before);
            self.earlier.truncate(EARLIER);
        }
        self.over |= over;
        self
    }

    /// The record after its holder has left: another process can take it at once.
    #[must_use]
    pub fn left(mut self) -> Self {
        self.holder = H::default();
        self
    }

    fn taken_by(&self, holder: &H) -> Self {
        Self {
            holder: holder.clone(),
            term: self.term + 1,
            beat: 0,
            ..self.clone()
        }
    }

    /// True if `other` was written by the same process in the same term. Every change of hands increases the term, so
    /// only that process writes this holder with this term.
    fn is_of_the_holder_of(&self, other: &Self) -> bool {
        self.holder == other.holder && self.term == other.term
    }
}

/// The next action of a process that wants the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim<R> {
    /// Another process holds the lease: read the record again after [`Terms::look`].
    Wait,
    /// Write this record at the revision that was read. If the write is refused, read again.
    Take {
        /// The record that names this process.
        record: R,
        /// True if the holder before was silent for [`Terms::patience`].
        silent: bool,
    },
}

/// A process that wants the lease.
#[derive(Debug, Clone, Default)]
pub struct Waiting {
    /// The revision that was read last, and when it was read first.
    seen: Option<(u64, Duration)>,
}

impl Waiting {
    /// Decides after reading `record` at `revision`, at the moment `now`. `alone` is true if no other process can be
    /// there, so that the previous holder is gone.
    pub fn read<H, S>(
        &mut self,
        record: &Record<H, S>,
        revision: u64,
        me: &H,
        now: Duration,
        alone: bool,
        terms: &Terms,
    ) -> Claim<Record<H, S>>
    where
        H: Clone + Default + PartialEq,
        S: Clone + PartialEq,
    {
        let silent = match self.seen {
            Some((last, since)) if last == revision => now.saturating_sub(since) >= terms.patience,
            _ => {
                self.seen = Some((revision, now));
                false
            }
        };
        let free = alone || record.holder == H::default() || record.holder == *me;
        match free || silent {
            true => Claim::Take {
                record: record.taken_by(me),
                silent: silent && !free,
            },
            false => Claim::Wait,
        }
    }
}

/// The meaning of a refused write of the holder, after it has read the record again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Another process holds the lease.
    Replaced,
    /// The refused record is stored: the answer to an earlier try was lost, or came too late.
    Stored,
    /// An earlier write of this process arrived late. Make the change again, from the record that was found.
    Again,
    /// The record was read from a replica that lags behind the one that refused the write. Try again.
    Lagging,
}

/// A lease that this process holds: the record that it wrote last, and its revision.
#[derive(Debug, Clone)]
pub struct Held<H, S> {
    record: Record<H, S>,
    revision: u64,
}

impl<H: Clone + Default + PartialEq, S: Clone + PartialEq> Held<H, S> {
    /// The lease after the write of `record` was accepted as `revision`.
    pub fn new(record: Record<H, S>, revision: u64) -> Self {
        Self { record, revision }
    }

    /// The record that was written last.
    pub fn record(&self) -> &Record<H, S> {
        &self.record
    }

    /// Its revision. The next write replaces this one or is refused.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Notes an accepted write.
    pub fn written(&mut self, record: Record<H, S>, revision: u64) {
        *self = Self { record, revision };
    }

    /// Decides after the write of `wanted` was refused and `found` was read at `revision`.
    pub fn refused(
        &mut self,
        wanted: &Record<H, S>,
        found: Record<H, S>,
        revision: u64,
    ) -> Refused {
        if revision <= self.revision {
            return Refused::Lagging;
        }
        if !found.is_of_the_holder_of(&self.record) {
            return Refused::Replaced;
        }
        let stored = found == *wanted;
        self.written(found, revision);
        match stored {
            true => Refused::Stored,
            false => Refused::Again,
        }
    }
}

/// The time that is left to a holder since the bus accepted its last sign of life at `confirmed`. None if it must stop
/// working: a process that stood still for longer than [`Terms::give_up`] may have been replaced, even if its next
/// sign of life is accepted.
pub fn left(confirmed: Duration, now: Duration, terms: &Terms) -> Option<Duration> {
    let left = terms.give_up.checked_sub(now.saturating_sub(confirmed))?;
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
#[expect(clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type R = Record<u32, u32>;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn read(waiting: &mut Waiting, record: &R, revision: u64, now: u64) -> Claim<R> {
        waiting.read(record, revision, &7, at(now), false, &Terms::DEFAULT)
    }

    #[test]
    fn a_free_lease_is_taken_at_once_and_a_held_one_after_a_silence() {
        let mut waiting = Waiting::default();
        let free = R::default();
        let Claim::Take { record, silent } = read(&mut waiting, &free, 0, 0) else {
            panic!("nobody holds it");
        };
        assert_eq!((record.holder, record.term, silent), (7, 1, false));
        let held = R {
            holder: 3,
            term: 4,
            beat: 9,
            head: Some(5),
            ..R::default()
        };
        let mut waiting = Waiting::default();
        assert_eq!(read(&mut waiting, &held, 10, 0), Claim::Wait);
        assert_eq!(read(&mut waiting, &held, 10, 9), Claim::Wait);
        // A sign of life begins the silence anew.
        assert_eq!(read(&mut waiting, &held, 11, 10), Claim::Wait);
        assert_eq!(read(&mut waiting, &held, 11, 19), Claim::Wait);
        let Claim::Take { record, silent } = read(&mut waiting, &held, 11, 20) else {
            panic!("its holder is silent");
        };
        let expected = R {
            holder: 7,
            term: 5,
            beat: 0,
            head: Some(5),
            ..R::default()
        };
        assert_eq!((record, silent), (expected, true));
        // On a private bus no other process can hold it.
        let claim = Waiting::default().read(&held, 11, &7, at(0), true, &Terms::DEFAULT);
        assert!(matches!(claim, Claim::Take { silent: false, .. }));
    }

    #[test]
    fn a_refused_write_is_told_apart_from_a_lost_answer() {
        let first = R {
            holder: 7,
            term: 2,
            ..R::default()
        };
        let mut held = Held::new(first.clone(), 20);
        let wanted = first.clone().committed(1, false);
        assert_eq!(held.refused(&wanted, first.clone(), 20), Refused::Lagging);
        let late = first.clone().renewed();
        assert_eq!(held.refused(&wanted, late.clone(), 21), Refused::Again);
        assert_eq!((held.record(), held.revision()), (&late, 21));
        let wanted = late.committed(1, false);
        assert_eq!(held.refused(&wanted, wanted.clone(), 22), Refused::Stored);
        assert_eq!(held.record().head, Some(1));
        // The same holder in a later term is this process after another one, or another process of that name.
        for other in [
            R {
                holder: 8,
                ..wanted.clone()
            },
            R {
                term: 3,
                ..wanted.clone()
            },
        ] {
            assert_eq!(held.clone().refused(&wanted, other, 23), Refused::Replaced);
        }
    }

    #[test]
    fn a_record_keeps_the_states_before_the_last_one() {
        let mut record = R::default();
        for state in 1..=5 {
            record = record.committed(state, state == 5);
        }
        assert_eq!(
            (record.head, record.earlier, record.over),
            (Some(5), vec![4, 3], true)
        );
    }

    proptest! {
        /// A holder stops before any waiting process takes over, wherever each of them last saw a sign of life.
        #[test]
        fn a_holder_stops_before_it_is_replaced(confirmed in 0u64..100, seen in 0u64..100, now in 0u64..300) {
            let terms = Terms::DEFAULT;
            // A waiting process sees the sign of life after the holder has sent it.
            let seen = confirmed + seen;
            let taken = at(now).saturating_sub(at(seen)) >= terms.patience;
            prop_assert!(!(taken && left(at(confirmed), at(now), &terms).is_some()));
        }
    }
}
