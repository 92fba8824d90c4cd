//! The episodes of OpenEnv's sessions: their number, their time, and their steps. Pure: time comes in.
//!
//! A key names the holder of an episode, so nobody reaches an episode of somebody else, whatever its id. A step is reserved
//! before its evaluation and counts once it has a reward.

use std::collections::HashMap;
use std::time::Duration;

use flopsmith_problem::Language;
use flopsmith_protocol::Digest;
use serde_json::Value;

use super::Limits;
use crate::auth::Holder;
use crate::wire::Purpose;

/// The name of an episode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The client that began it.
    pub holder: Holder,
    /// The socket that it belongs to; none if it belongs to none.
    pub socket: Option<u64>,
    /// Its id.
    pub id: String,
}

/// The task of an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The problem.
    pub problem: String,
    /// The workload at which programs are timed; all of the problem without it.
    pub workload: Option<String>,
    /// The standard of the measurements.
    pub purpose: Purpose,
    /// The language of the programs; that of the problem without it.
    pub language: Option<Language>,
    /// The number of steps after which the episode is done.
    pub most_steps: u32,
}

/// A step that a client asks for again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// The client's name of the request.
    pub request: String,
    /// Digest of the action.
    pub action: Digest,
}

/// A reserved step of an episode. It is given to [`Episodes::end`] or [`Episodes::release`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    key: Key,
    number: u64,
    /// The client's name of the request, if it has one.
    request: Option<String>,
}

/// The beginning of a step.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// It is to be evaluated.
    New(Ticket, Plan),
    /// It was evaluated before, with this reply.
    Replayed(Value),
}

/// Why there is no step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The holder has no such episode, or its time is over.
    Unknown,
    /// All steps were taken, or are being evaluated.
    Over,
    /// The request id was used with another action.
    Reused,
    /// The same request is being evaluated.
    Busy,
}

/// The service has no place for another episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// How far an episode is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Its task.
    pub plan: Plan,
    /// Number of steps with a reward.
    pub steps: u32,
    /// The best reward.
    pub best: Option<f64>,
}

impl Progress {
    /// True if there are no more steps.
    pub fn is_done(&self) -> bool {
        self.steps >= self.plan.most_steps
    }
}

#[derive(Debug)]
struct Episode {
    number: u64,
    progress: Progress,
    /// Number of steps that are being evaluated.
    reserved: u32,
    /// The named requests among them.
    waiting: Vec<Again>,
    last: Option<(Again, Value)>,
    began: Duration,
    used: Duration,
}

/// All episodes.
#[derive(Debug)]
pub struct Episodes {
    limits: Limits,
    open: HashMap<Key, Episode>,
    number: u64,
}

impl Episodes {
    /// No episodes.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: HashMap::new(),
            number: 0,
        }
    }

    /// Begins an episode. One with the same key ends. If its holder has the most, the one that it used least recently ends.
    ///
    /// # Errors
    /// There is no place, and no episode of the holder can end.
    pub fn begin(&mut self, key: Key, plan: Plan, now: Duration) -> Result<(), Full> {
        let limits = self.limits;
        self.open
            .retain(|_, episode| !episode.is_over(&limits, now));
        self.open.remove(&key);
        let mine = self.open.keys().filter(|k| k.holder == key.holder);
        if mine.count() >= limits.of_holder || self.open.len() >= limits.episodes {
            let idle = self.open.iter();
            let idle = idle.filter(|(k, e)| k.holder == key.holder && e.reserved == 0);
            let oldest = idle.min_by_key(|(_, e)| (!e.progress.is_done(), e.used, e.number));
            let oldest = oldest.map(|(k, _)| k.clone()).ok_or(Full)?;
            self.open.remove(&oldest);
        }
        self.number += 1;
        let episode = Episode {
            number: self.number,
            progress: Progress {
                plan,
                steps: 0,
                best: None,
            },
            reserved: 0,
            waiting: Vec::new(),
            last: None,
            began: now,
            used: now,
        };
        self.open.insert(key, episode);
        Ok(())
    }

    /// Reserves a step.
    ///
    /// # Errors
    /// Why there is no step.
    pub fn step(&mut self, key: &Key, again: Option<&Again>, now: Duration) -> Result<Step, Fault> {
        let limits = self.limits;
        let episode = self.open.get_mut(key).ok_or(Fault::Unknown)?;
        if episode.is_over(&limits, now) {
            self.open.remove(key);
            return Err(Fault::Unknown);
        }
        episode.used = now;
        if let (Some(again), Some((last, reply))) = (again, &episode.last)
            && again.request == last.request
        {
            return match again.action == last.action {
                true => Ok(Step::Replayed(reply.clone())),
                false => Err(Fault::Reused),
            };
        }
        if let Some(again) = again {
            let mut waiting = episode.waiting.iter();
            if let Some(other) = waiting.find(|other| other.request == again.request) {
                return Err(match other.action == again.action {
                    true => Fault::Busy,
                    false => Fault::Reused,
                });
            }
        }
        let taken = episode.progress.steps.saturating_add(episode.reserved);
        if taken >= episode.progress.plan.most_steps {
            return Err(Fault::Over);
        }
        episode.reserved += 1;
        episode.waiting.extend(again.cloned());
        let ticket = Ticket {
            key: key.clone(),
            number: episode.number,
            request: again.map(|again| again.request.clone()),
        };
        Ok(Step::New(ticket, episode.progress.plan.clone()))
    }

    /// A step has a reward. Returns how far the episode is; none if it has ended meanwhile. A named request still waits for
    /// [`Self::keep`], so that the same one is no other step in between.
    pub fn end(&mut self, ticket: &Ticket, reward: f64, now: Duration) -> Option<Progress> {
        let episode = self.of(ticket)?;
        episode.reserved = episode.reserved.saturating_sub(1);
        episode.used = now;
        let progress = &mut episode.progress;
        progress.steps = progress.steps.saturating_add(1);
        progress.best = Some(progress.best.map_or(reward, |best| best.max(reward)));
        Some(progress.clone())
    }

    /// Keeps the reply to a step, for a client that asks for it again.
    pub fn keep(&mut self, ticket: &Ticket, again: Again, reply: Value) {
        if let Some(episode) = self.of(ticket) {
            episode.forget(ticket);
            episode.last = Some((again, reply));
        }
    }

    /// A step has no reward, and may be taken again.
    pub fn release(&mut self, ticket: &Ticket) {
        if let Some(episode) = self.of(ticket) {
            episode.reserved = episode.reserved.saturating_sub(1);
            episode.forget(ticket);
        }
    }

    /// How far an episode is; none if its holder has no such episode.
    pub fn progress(&self, key: &Key, now: Duration) -> Option<Progress> {
        let episode = self.open.get(key)?;
        let is_open = !episode.is_over(&self.limits, now);
        is_open.then(|| episode.progress.clone())
    }

    /// Ends an episode.
    pub fn leave(&mut self, key: &Key) {
        self.open.remove(key);
    }

    /// The episode of a ticket, unless another one with its key has begun.
    fn of(&mut self, ticket: &Ticket) -> Option<&mut Episode> {
        let episode = self.open.get_mut(&ticket.key)?;
        (episode.number == ticket.number).then_some(episode)
    }
}

impl Episode {
    /// The request of a ticket waits no more.
    fn forget(&mut self, ticket: &Ticket) {
        self.waiting
            .retain(|waiting| Some(&waiting.request) != ticket.request.as_ref());
    }

    /// True if its time is over. An evaluation may take longer than the time without messages.
    fn is_over(&self, limits: &Limits, now: Duration) -> bool {
        let is_idle = self.reserved == 0 && now.saturating_sub(self.used) > limits.idle;
        is_idle || now.saturating_sub(self.began) > limits.age
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::auth::Token;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn limits() -> Limits {
        Limits {
            episodes: 4,
            of_holder: 3,
            idle: at(100),
            age: at(1000),
            ..Limits::default()
        }
    }

    fn other() -> Holder {
        let token = Token::new("0123456789abcdef").unwrap();
        token.holder(Some(b"Bearer 0123456789abcdef")).unwrap()
    }

    fn key(id: &str) -> Key {
        Key {
            holder: Holder::default(),
            socket: None,
            id: id.to_owned(),
        }
    }

    fn plan(most_steps: u32) -> Plan {
        Plan {
            problem: "dgemm".into(),
            workload: None,
            purpose: Purpose::Rank,
            language: None,
            most_steps,
        }
    }

    fn ticket(step: Result<Step, Fault>) -> Ticket {
        match step {
            Ok(Step::New(ticket, _)) => ticket,
            other => panic!("no step: {other:?}"),
        }
    }

    #[test]
    fn an_episode_has_its_steps_and_no_more() {
        let mut episodes = Episodes::new(limits());
        episodes.begin(key("a"), plan(2), at(0)).unwrap();
        let first = ticket(episodes.step(&key("a"), None, at(1)));
        let second = ticket(episodes.step(&key("a"), None, at(1)));
        // Both steps are being evaluated.
        assert_eq!(episodes.step(&key("a"), None, at(1)), Err(Fault::Over));
        episodes.release(&first);
        let again = ticket(episodes.step(&key("a"), None, at(2)));
        let progress = episodes.end(&second, 0.5, at(3)).unwrap();
        assert_eq!(
            (progress.steps, progress.best, progress.is_done()),
            (1, Some(0.5), false)
        );
        let progress = episodes.end(&again, -0.1, at(4)).unwrap();
        assert_eq!(
            (progress.steps, progress.best, progress.is_done()),
            (2, Some(0.5), true)
        );
        assert_eq!(episodes.step(&key("a"), None, at(5)), Err(Fault::Over));
        // A new episode of the same name does not hear of steps of the old one.
        episodes.begin(key("a"), plan(2), at(6)).unwrap();
        assert_eq!(episodes.end(&again, 1.0, at(7)), None);
        assert_eq!(episodes.progress(&key("a"), at(7)).unwrap().steps, 0);
    }

    #[test]
    fn nobody_reaches_the_episode_of_somebody_else() {
        let mut episodes = Episodes::new(limits());
        episodes.begin(key("a"), plan(1), at(0)).unwrap();
        let theirs = Key {
            holder: other(),
            ..key("a")
        };
        let on_socket = Key {
            socket: Some(1),
            ..key("a")
        };
        for stranger in [theirs, on_socket] {
            let step = episodes.step(&stranger, None, at(1));
            assert_eq!(step, Err(Fault::Unknown));
            assert_eq!(episodes.progress(&stranger, at(1)), None);
            // Its own episode of the same name is another one.
            episodes.begin(stranger.clone(), plan(9), at(1)).unwrap();
            episodes.leave(&stranger);
        }
        assert_eq!(episodes.progress(&key("a"), at(2)).unwrap().plan, plan(1));
    }

    #[test]
    fn a_request_that_comes_again_has_the_same_reply() {
        let mut episodes = Episodes::new(limits());
        episodes.begin(key("a"), plan(3), at(0)).unwrap();
        let again = |request: &str, action: &str| Again {
            request: request.to_owned(),
            action: Digest::of(action.as_bytes()),
        };
        let first = again("r1", "x");
        let taken = ticket(episodes.step(&key("a"), Some(&first), at(1)));
        episodes.end(&taken, 0.5, at(1)).unwrap();
        episodes.keep(&taken, first.clone(), Value::from(7));
        let replayed = episodes.step(&key("a"), Some(&first), at(2));
        assert_eq!(replayed, Ok(Step::Replayed(Value::from(7))));
        let reused = episodes.step(&key("a"), Some(&again("r1", "y")), at(2));
        assert_eq!(reused, Err(Fault::Reused));
        let second = again("r2", "x");
        let taken = ticket(episodes.step(&key("a"), Some(&second), at(2)));
        assert_eq!(episodes.progress(&key("a"), at(2)).unwrap().steps, 1);
        // A client that repeats a request before its end takes no other step.
        let early = episodes.step(&key("a"), Some(&second), at(2));
        assert_eq!(early, Err(Fault::Busy));
        let reused = episodes.step(&key("a"), Some(&again("r2", "y")), at(2));
        assert_eq!(reused, Err(Fault::Reused));
        episodes.release(&taken);
        ticket(episodes.step(&key("a"), Some(&second), at(3)));
    }

    #[test]
    fn an_episode_ends_with_its_time() {
        let mut episodes = Episodes::new(limits());
        episodes.begin(key("a"), plan(1000), at(0)).unwrap();
        assert!(episodes.progress(&key("a"), at(100)).is_some());
        assert_eq!(episodes.progress(&key("a"), at(101)), None);
        let step = episodes.step(&key("a"), None, at(101));
        assert_eq!(step, Err(Fault::Unknown));
        // A long evaluation keeps it, but not for ever.
        episodes.begin(key("a"), plan(1000), at(200)).unwrap();
        let taken = ticket(episodes.step(&key("a"), None, at(200)));
        assert!(episodes.progress(&key("a"), at(1200)).is_some());
        assert_eq!(episodes.progress(&key("a"), at(1201)), None);
        episodes.end(&taken, 0.5, at(1201));
        let step = episodes.step(&key("a"), None, at(1201));
        assert_eq!(step, Err(Fault::Unknown));
    }

    #[test]
    fn a_holder_makes_room_with_its_own_episodes_only() {
        let mut episodes = Episodes::new(limits());
        for (id, now) in [("a", 0), ("b", 1), ("c", 2)] {
            episodes.begin(key(id), plan(1), at(now)).unwrap();
        }
        // The one that is done ends first, else the one that was used least recently.
        let done = ticket(episodes.step(&key("b"), None, at(3)));
        episodes.end(&done, 0.1, at(3)).unwrap();
        episodes.begin(key("d"), plan(1), at(4)).unwrap();
        assert_eq!(episodes.progress(&key("b"), at(4)), None);
        ticket(episodes.step(&key("a"), None, at(5)));
        episodes.begin(key("e"), plan(1), at(6)).unwrap();
        assert_eq!(episodes.progress(&key("c"), at(6)), None);
        assert!(episodes.progress(&key("a"), at(6)).is_some());
        let theirs = |id: &str| Key {
            holder: other(),
            ..key(id)
        };
        episodes.begin(theirs("a"), plan(1), at(7)).unwrap();
        ticket(episodes.step(&theirs("a"), None, at(7)));
        // The service is full, and the only episode of this holder is being evaluated.
        let full = episodes.begin(theirs("b"), plan(1), at(8));
        assert_eq!(full, Err(Full));
        assert!(episodes.progress(&key("a"), at(8)).is_some());
    }

    proptest! {
        /// Clients begin, step and leave in any order: the numbers stay within their limits, and no episode has more rewards
        /// than steps.
        #[test]
        fn the_limits_hold(moves in prop::collection::vec((0u8..5, 0u8..6, any::<bool>(), 0u64..60), 1..200)) {
            let mut episodes = Episodes::new(limits());
            let (mut now, mut tickets) = (0, Vec::new());
            for (action, id, is_other, passed) in moves {
                now += passed;
                let holder = if is_other { other() } else { Holder::default() };
                let key = Key { holder, ..key(&id.to_string()) };
                match action {
                    0 => { let _ = episodes.begin(key.clone(), plan(2), at(now)); }
                    1 => if let Ok(Step::New(ticket, _)) = episodes.step(&key, None, at(now)) {
                        tickets.push(ticket);
                    },
                    2 => if let Some(ticket) = tickets.pop() {
                        episodes.release(&ticket);
                    },
                    3 => if let Some(ticket) = tickets.pop() {
                        episodes.end(&ticket, 0.5, at(now));
                    },
                    _ => episodes.leave(&key),
                }
                prop_assert!(episodes.open.len() <= 4);
                let mine = episodes.open.keys().filter(|k| k.holder == key.holder);
                prop_assert!(mine.count() <= 3);
                for episode in episodes.open.values() {
                    prop_assert!(episode.progress.steps + episode.reserved <= 2);
                }
            }
        }
    }
}
