//! Messages of a work queue: how many a worker takes, and what becomes of one after a failure.

use std::time::Duration;

/// Why a delivery is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// This node stops. Another node, or the next start of this node, shall take the work at once. Never the last
    /// attempt.
    Shutdown,
    /// This node cannot do the work, but another node may. Never the last attempt.
    OtherNode,
    /// Something that the work needs is not there yet, such as a newer policy or an artifact.
    NotReady,
    /// A jail, a compiler, a store or another part of the infrastructure failed.
    Infrastructure,
    /// Disk, memory or file handles ran out. An early retry would make the shortage worse.
    Resources,
    /// A panic or a cancelled task dropped the work without an answer.
    Dropped,
}

/// The first wait of each class. Each further attempt doubles the wait, up to the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    /// For [`ErrorClass::NotReady`].
    pub not_ready: Duration,
    /// For [`ErrorClass::Infrastructure`].
    pub infrastructure: Duration,
    /// For [`ErrorClass::Resources`].
    pub resources: Duration,
    /// For [`ErrorClass::Dropped`].
    pub dropped: Duration,
    /// The longest wait.
    pub limit: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            not_ready: Duration::from_millis(100),
            infrastructure: Duration::from_millis(500),
            resources: Duration::from_secs(5),
            dropped: Duration::from_secs(1),
            limit: Duration::from_secs(60),
        }
    }
}

/// How long work that a node cannot do waits in its queue before a node gets it again.
const OTHER_NODE: Duration = Duration::from_secs(2);
/// How often a message is given out before [`OTHER_NODE`] begins to double.
const PATIENT: u32 = 10;

impl ErrorClass {
    /// True if an attempt of this class counts as a failure of the work.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Shutdown | Self::OtherNode)
    }
}

impl Backoff {
    /// How long to wait after `attempt` (counted from 1) failed with `class`.
    pub fn delay(&self, class: ErrorClass, attempt: u32) -> Duration {
        let first = match class {
            ErrorClass::Shutdown => return Duration::ZERO,
            // The wait gives other nodes time to take the work. If no node takes the work for long, the wait grows: a
            // node that cannot do the work and keeps asking must not use up the number of times the message may be
            // given out.
            ErrorClass::OtherNode => {
                return doubled(OTHER_NODE, attempt.saturating_sub(PATIENT), self.limit);
            }
            ErrorClass::NotReady => self.not_ready,
            ErrorClass::Infrastructure => self.infrastructure,
            ErrorClass::Resources => self.resources,
            ErrorClass::Dropped => self.dropped,
        };
        doubled(first, attempt.saturating_sub(1), self.limit)
    }
}

/// `first` doubled `times` times, at most `limit`.
pub fn doubled(first: Duration, times: u32, limit: Duration) -> Duration {
    first
        .saturating_mul(1u32.checked_shl(times.min(31)).unwrap_or(u32::MAX))
        .min(limit)
}

/// A message without recorded failures that was given out more often than this is assumed to kill each process that
/// holds it.
pub const MOST: u32 = 100;
/// Failures of a process at a message after which the message goes to the dead letters.
pub const MAX_DELIVER: u32 = 5;
/// Failures of a stage at one program after which the last failure becomes the outcome.
pub const ATTEMPTS: u32 = 3;
/// A worker that gives no sign of life for this time loses its message. The evaluating roles' setting.
pub const ACK_WAIT: Duration = Duration::from_secs(10);

/// The way of a message that a worker gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// A worker takes it again after this delay.
    Again(Duration),
    /// It goes to the dead letters.
    Dead,
}

/// Decides what becomes of a message that this process gives back for `class`. The process failed at it `failures`
/// times before; the server has given it out `attempt` times. The caller counts a failure if the class
/// [counts](ErrorClass::counts).
pub fn give_back(
    backoff: &Backoff,
    class: ErrorClass,
    failures: u32,
    attempt: u32,
    max_deliver: u32,
) -> Return {
    if !class.counts() {
        // The delay depends on how often the message was given out. That number is limited too.
        return Return::Again(backoff.delay(class, attempt));
    }
    match failures + 1 >= max_deliver {
        true => Return::Dead,
        false => Return::Again(backoff.delay(class, failures + 1)),
    }
}

/// True if a message that arrives is already dead: this process failed at it too often, or the message kills each
/// process that holds it.
pub fn is_dead(failures: u32, attempt: u32, max_deliver: u32) -> bool {
    failures >= max_deliver || attempt > MOST
}

/// True if another try makes sense after a stage has failed at a program for `class`, this being the `attempt`th
/// failure here of at most `attempts`.
pub fn try_again(class: ErrorClass, attempt: u32, attempts: u32) -> bool {
    attempt < attempts || !class.counts()
}

/// The room of a worker: messages in work at a time, and further ones that wait for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Messages in work at a time.
    pub slots: usize,
    /// Further messages that may wait for another process at the same time.
    pub parked: usize,
}

impl Room {
    /// Free slots of a worker that holds `held` messages, of which `parked` wait for another process.
    pub fn free(&self, held: usize, parked: usize) -> usize {
        self.slots
            .saturating_sub(held.saturating_sub(parked.min(self.parked)))
    }

    /// The number of messages to request, if `free` slots are free and `outstanding` messages are requested already.
    /// A standing request brings work as soon as there is some. Another request costs a message, so it is worth it only
    /// if no request stands or if at least half of the slots are free.
    pub fn request(&self, free: usize, outstanding: usize) -> Option<usize> {
        let wanted = free.saturating_sub(outstanding);
        (wanted > 0 && (outstanding == 0 || wanted * 2 >= self.slots)).then_some(wanted)
    }
}

/// Whether a held message gets a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It does.
    Alive,
    /// It is held for too long, and its holder is assumed to hang: a failure, counted now. Another worker may take it.
    Hangs,
    /// It was found to hang before.
    Hung,
}

/// Decides whether a message that is held for `held` gets a sign of life.
pub fn sign(held: Duration, limit: Duration, hung: bool) -> Sign {
    match (held < limit, hung) {
        (true, _) => Sign::Alive,
        (false, false) => Sign::Hangs,
        (false, true) => Sign::Hung,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLASSES: [ErrorClass; 6] = [
        ErrorClass::Shutdown,
        ErrorClass::OtherNode,
        ErrorClass::NotReady,
        ErrorClass::Infrastructure,
        ErrorClass::Resources,
        ErrorClass::Dropped,
    ];

    proptest! {
        #[test]
        fn waits_grow_and_end_at_the_limit(attempt in 1u32..u32::MAX, class in prop::sample::select(&CLASSES[..])) {
            let backoff = Backoff::default();
            let now = backoff.delay(class, attempt);
            prop_assert!(now <= backoff.delay(class, attempt.saturating_add(1)));
            prop_assert!(now <= backoff.limit);
        }

        /// A worker never asks for more than it has room for, and asks if it has nothing and waits for nothing.
        #[test]
        fn requests_fit_into_the_room(
            slots in 1usize..20, most in 0usize..20, held in 0usize..40, parked in 0usize..40, outstanding in 0usize..20
        ) {
            let room = Room { slots, parked: most };
            let parked = parked.min(held);
            let free = room.free(held, parked);
            let wanted = room.request(free, outstanding);
            let busy = held - parked.min(most);
            prop_assert!(wanted.is_none_or(|wanted| wanted > 0 && busy + outstanding + wanted <= slots));
            prop_assert!(wanted.is_some() || outstanding > 0 || busy >= slots);
        }
    }

    #[test]
    fn a_shutdown_does_not_wait_and_the_first_wait_is_the_configured_one() {
        let backoff = Backoff::default();
        assert_eq!(backoff.delay(ErrorClass::Shutdown, 9), Duration::ZERO);
        assert_eq!(backoff.delay(ErrorClass::Resources, 1), backoff.resources);
        // A message that was refused a hundred times has waited for more than an hour.
        let refused = |attempt| backoff.delay(ErrorClass::OtherNode, attempt);
        assert_eq!(refused(1), OTHER_NODE);
        assert!((1..100).map(refused).sum::<Duration>() > Duration::from_secs(3600));
        assert_eq!(
            backoff.delay(ErrorClass::Infrastructure, 3),
            backoff.infrastructure * 4
        );
    }

    #[test]
    fn a_message_dies_after_its_last_failure_and_never_of_what_does_not_count() {
        let backoff = Backoff::default();
        let last = |class, failures| give_back(&backoff, class, failures, 9, 5) == Return::Dead;
        assert!(!last(ErrorClass::Infrastructure, 3) && last(ErrorClass::Infrastructure, 4));
        assert!((0..100).all(|failures| !last(ErrorClass::Shutdown, failures)));
        assert!(is_dead(5, 1, 5) && !is_dead(4, MOST, 5) && is_dead(0, MOST + 1, 5));
        let tries = |class| {
            (1..=4)
                .map(move |n| try_again(class, n, ATTEMPTS))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            tries(ErrorClass::Infrastructure),
            [true, true, false, false]
        );
        assert_eq!(tries(ErrorClass::OtherNode), [true; 4]);
    }

    #[test]
    fn a_message_that_hangs_is_a_failure_once() {
        let limit = Duration::from_secs(10);
        assert_eq!(sign(Duration::from_secs(9), limit, false), Sign::Alive);
        assert_eq!(sign(limit, limit, false), Sign::Hangs);
        assert_eq!(sign(limit, limit, true), Sign::Hung);
    }
}
