//! The order of evaluations. Pure: time comes in.
//!
//! Evaluations begin in the order in which programs were first asked for: one at a time on this machine, and many at a time on
//! a cluster. A program that several candidates ask for is evaluated once for all of them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::wire::Purpose;

/// Weight of the newest evaluation in the mean time of its purpose.
const NEWEST: f64 = 0.2;

/// Programs that wait, by keys `K`, and the jobs `J` that wait for them.
#[derive(Debug)]
pub struct Queue<K, J> {
    waiting: VecDeque<K>,
    wanted: HashMap<K, Wanted<J>>,
    /// The programs that are being evaluated, with the times at which that began.
    running: Vec<(K, Duration)>,
    /// Number of programs that may be evaluated at a time.
    slots: usize,
    pace: Pace,
}

#[derive(Debug)]
struct Wanted<J> {
    purpose: Purpose,
    /// Jobs, with the index of the candidate in its job.
    by: Vec<(J, usize)>,
}

/// The wait of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wait {
    /// Number of evaluations before the next one of the job; 0 if the job is next or being evaluated.
    pub position: usize,
    /// Expected time until its last evaluation ends.
    pub seconds: f64,
}

/// The mean seconds of evaluations, by purpose.
#[derive(Debug)]
struct Pace([f64; 3]);

impl Pace {
    /// Before the first evaluation: the times that `flopsmith bench --help` states.
    fn usual() -> Self {
        Self([1.0, 2.0, 20.0])
    }

    fn of(&self, purpose: Purpose) -> f64 {
        self.0[purpose as usize]
    }

    fn learn(&mut self, purpose: Purpose, seconds: f64) {
        let mean = &mut self.0[purpose as usize];
        *mean += NEWEST * (seconds - *mean);
    }
}

impl<K: Clone + Eq + Hash, J: Clone + Eq> Default for Queue<K, J> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            wanted: HashMap::new(),
            running: Vec::new(),
            slots: 1,
            pace: Pace::usual(),
        }
    }
}

impl<K: Clone + Eq + Hash, J: Clone + Eq> Queue<K, J> {
    /// From now on so many programs may be evaluated at a time.
    pub fn set_slots(&mut self, slots: usize) {
        self.slots = slots.max(1);
    }

    /// A candidate asks for a program. It waits at the end of the queue, unless the program is waiting or being
    /// evaluated already.
    pub fn push(&mut self, key: K, purpose: Purpose, by: (J, usize)) {
        if let Some(wanted) = self.wanted.get_mut(&key) {
            wanted.by.push(by);
            return;
        }
        self.waiting.push_back(key.clone());
        let wanted = Wanted {
            purpose,
            by: vec![by],
        };
        self.wanted.insert(key, wanted);
    }

    /// The program whose evaluation begins at `now`; none if there is none or as many as may be are being evaluated.
    pub fn next(&mut self, now: Duration) -> Option<K> {
        if self.running.len() >= self.slots {
            return None;
        }
        let key = self.waiting.pop_front()?;
        self.running.push((key.clone(), now));
        Some(key)
    }

    /// The evaluation of a program ended at `now`. Returns the candidates that asked for the program. `timed`
    /// says whether its duration tells how long others take: a result from the cache does not.
    pub fn ended(&mut self, key: &K, now: Duration, timed: bool) -> Vec<(J, usize)> {
        let place = self.running.iter().position(|(other, _)| other == key);
        let Some((key, began)) = place.map(|place| self.running.remove(place)) else {
            return Vec::new();
        };
        let Some(wanted) = self.wanted.remove(&key) else {
            return Vec::new();
        };
        if timed {
            let seconds = now.saturating_sub(began).as_secs_f64();
            self.pace.learn(wanted.purpose, seconds);
        }
        wanted.by
    }

    /// A job withdraws its candidates. Returns the programs that leave the queue, because no other job asked for them. A
    /// program that is being evaluated stays.
    pub fn withdraw(&mut self, job: &J) -> Vec<K> {
        let running = &self.running;
        let mut left = Vec::new();
        self.wanted.retain(|key, wanted| {
            wanted.by.retain(|(other, _)| other != job);
            let is_running = || running.iter().any(|(other, _)| other == key);
            let stays = !wanted.by.is_empty() || is_running();
            if !stays {
                left.push(key.clone());
            }
            stays
        });
        let wanted = &self.wanted;
        self.waiting.retain(|key| wanted.contains_key(key));
        left
    }

    /// If a job asked for programs that are being evaluated: the time that the evaluations have taken at `now`, each as long as
    /// such evaluations usually take at least.
    pub fn running_of(&self, job: &J, now: Duration) -> Option<Duration> {
        let of_job = self.running.iter().filter_map(|(key, began)| {
            let wanted = self.wanted.get(key)?;
            let is_asked = wanted.by.iter().any(|(other, _)| other == job);
            let usual = self.usual(wanted.purpose);
            is_asked.then(|| now.saturating_sub(*began).max(usual))
        });
        of_job.reduce(Duration::saturating_add)
    }

    /// The time that an evaluation to the standard of a purpose usually takes.
    pub fn usual(&self, purpose: Purpose) -> Duration {
        Duration::try_from_secs_f64(self.pace.of(purpose)).unwrap_or_default()
    }

    /// Number of programs that wait or are being evaluated.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Number of programs that are being evaluated.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Expected time until all programs are decided, seconds.
    pub fn seconds(&self, now: Duration) -> f64 {
        let each = self.ahead(now).map(|(_, _, seconds)| seconds);
        each.fold(self.share(self.sum(now)), f64::max)
    }

    /// Seconds of all evaluations one after the other.
    fn sum(&self, now: Duration) -> f64 {
        // The sum of no numbers is a negative zero.
        self.ahead(now).map(|(_, _, seconds)| seconds).sum::<f64>() + 0.0
    }

    /// The time of evaluations that take so many seconds one after the other, as many at a time as may be. An evaluation that
    /// waits for others on its way takes longer by that, so this holds without knowledge of the cluster.
    fn share(&self, seconds: f64) -> f64 {
        seconds / self.slots as f64
    }

    /// Number of evaluations that end before one at this place begins.
    fn position(&self, place: usize) -> usize {
        place.saturating_sub(self.slots - 1)
    }

    /// The wait of a job at `now`; none if it waits for no program.
    pub fn wait_of(&self, job: &J, now: Duration) -> Option<Wait> {
        self.wait_where(now, |_, wanted| {
            wanted.by.iter().any(|(other, _)| other == job)
        })
    }

    /// The wait of a job that would ask for these programs at `now`; none without programs.
    pub fn wait_for(&self, keys: &HashSet<K>, purpose: Purpose, now: Duration) -> Option<Wait> {
        let known = self.wait_where(now, |key, _| keys.contains(key));
        let new = keys.iter().filter(|key| !self.wanted.contains_key(*key));
        let new = new.count();
        if new == 0 {
            return known;
        }
        let pace = self.pace.of(purpose);
        let seconds = self.share(self.sum(now) + pace * new as f64).max(pace);
        Some(Wait {
            position: known.map_or(self.position(self.len()), |wait| wait.position),
            seconds: known.map_or(seconds, |wait| wait.seconds.max(seconds)),
        })
    }

    /// The wait of a job that asked for the programs of which `is_asked` holds.
    fn wait_where(&self, now: Duration, is_asked: impl Fn(&K, &Wanted<J>) -> bool) -> Option<Wait> {
        let mut found: Option<Wait> = None;
        let mut sum = 0.0;
        for (place, (key, wanted, seconds)) in self.ahead(now).enumerate() {
            sum += seconds;
            if is_asked(key, wanted) {
                let seconds = self.share(sum).max(seconds);
                found = Some(Wait {
                    position: found.map_or(self.position(place), |wait| wait.position),
                    seconds: found.map_or(seconds, |wait| wait.seconds.max(seconds)),
                });
            }
        }
        found
    }

    /// The running programs and those that wait, in order, with the seconds that each is expected to take from `now` on.
    fn ahead(&self, now: Duration) -> impl Iterator<Item = (&K, &Wanted<J>, f64)> {
        let running = self.running.iter().filter_map(move |(key, began)| {
            let wanted = self.wanted.get(key)?;
            let passed = now.saturating_sub(*began).as_secs_f64();
            let seconds = (self.pace.of(wanted.purpose) - passed).max(0.0);
            Some((key, wanted, seconds))
        });
        let waiting = self.waiting.iter().filter_map(|key| {
            let wanted = self.wanted.get(key)?;
            Some((key, wanted, self.pace.of(wanted.purpose)))
        });
        running.chain(waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_program_is_evaluated_once_for_all_that_ask_for_it() {
        let mut queue = Queue::<&str, u32>::default();
        queue.push("a", Purpose::Rank, (1, 0));
        queue.push("b", Purpose::Rank, (1, 1));
        assert_eq!(queue.next(at(0)), Some("a"));
        assert_eq!(queue.next(at(0)), None, "one at a time");
        // It is being evaluated already.
        queue.push("a", Purpose::Rank, (2, 0));
        assert_eq!(queue.ended(&"a", at(1), true), [(1, 0), (2, 0)]);
        assert_eq!(queue.next(at(1)), Some("b"));
        assert_eq!(queue.ended(&"b", at(2), true), [(1, 1)]);
        assert_eq!((queue.next(at(2)), queue.len()), (None, 0));
        // It may be asked for once more.
        queue.push("a", Purpose::Rank, (3, 0));
        assert_eq!(queue.next(at(3)), Some("a"));
    }

    #[test]
    fn a_withdrawn_job_takes_along_the_programs_that_nobody_else_asked_for() {
        let mut queue = Queue::<&str, u32>::default();
        queue.push("a", Purpose::Rank, (1, 0));
        queue.push("b", Purpose::Rank, (1, 1));
        queue.push("c", Purpose::Rank, (1, 2));
        queue.push("c", Purpose::Rank, (2, 0));
        assert_eq!(queue.next(at(0)), Some("a"));
        let running = [at(1), at(9)].map(|now| queue.running_of(&1, now));
        assert_eq!(running, [Some(at(2)), Some(at(9))]);
        assert_eq!(queue.running_of(&2, at(9)), None);
        assert_eq!(queue.withdraw(&1), ["b"]);
        assert_eq!((queue.len(), queue.wait_of(&1, at(0))), (2, None));
        // The evaluation that began goes on, and somebody may ask for its program again.
        assert_eq!(queue.next(at(0)), None);
        queue.push("a", Purpose::Rank, (3, 0));
        assert_eq!(queue.ended(&"a", at(1), true), [(3, 0)]);
        assert_eq!(queue.next(at(1)), Some("c"));
        assert_eq!(queue.ended(&"c", at(2), true), [(2, 0)]);
        assert_eq!((queue.next(at(2)), queue.len()), (None, 0));
    }

    #[test]
    fn a_wait_is_the_sum_of_what_is_ahead() {
        let mut queue = Queue::<&str, u32>::default();
        assert_eq!(queue.seconds(at(0)).to_string(), "0");
        queue.push("a", Purpose::Screen, (1, 0));
        queue.push("b", Purpose::Rank, (2, 0));
        queue.push("c", Purpose::Certify, (1, 1));
        let wait = |queue: &Queue<&str, u32>, job, now| queue.wait_of(&job, now);
        let of = |position, seconds| Some(Wait { position, seconds });
        assert_eq!(wait(&queue, 1, at(0)), of(0, 23.0));
        assert_eq!(wait(&queue, 2, at(0)), of(1, 3.0));
        assert_eq!(wait(&queue, 3, at(0)), None);
        assert_eq!(queue.next(at(0)), Some("a"));
        assert_eq!(wait(&queue, 2, Duration::from_millis(500)), of(1, 2.5));
        // It takes longer than expected.
        assert_eq!(wait(&queue, 2, at(9)), of(1, 2.0));
        queue.ended(&"a", at(11), true);
        queue.push("d", Purpose::Screen, (4, 0));
        // A fifth of the way from 1 s to 11 s.
        assert_eq!(wait(&queue, 4, at(11)), of(2, 25.0));
        assert!((queue.seconds(at(11)) - 25.0).abs() < 1e-9);
        queue.next(at(11));
        queue.ended(&"b", at(99), false);
        assert_eq!(wait(&queue, 1, at(99)), of(0, 20.0), "a cached result");
    }

    #[test]
    fn many_programs_are_evaluated_at_a_time_where_that_may_be() {
        let mut queue = Queue::<&str, u32>::default();
        queue.set_slots(2);
        for (index, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
            queue.push(key, Purpose::Rank, (1, index));
        }
        queue.push("e", Purpose::Rank, (2, 0));
        assert_eq!(queue.next(at(0)), Some("a"));
        assert_eq!(queue.next(at(1)), Some("b"));
        assert_eq!((queue.next(at(1)), queue.running()), (None, 2));
        // 1 s and 2 s are left of those that run, and the others take 2 s each.
        let of = |position, seconds| Some(Wait { position, seconds });
        assert_eq!(queue.wait_of(&1, at(1)), of(0, 3.5));
        assert_eq!(queue.wait_of(&2, at(1)), of(3, 4.5));
        assert!((queue.seconds(at(1)) - 4.5).abs() < 1e-9);
        let keys = HashSet::from(["f"]);
        let foretold = queue.wait_for(&keys, Purpose::Rank, at(1));
        assert_eq!(foretold, of(4, 5.5));
        assert_eq!(queue.running_of(&1, at(4)), Some(at(4 + 3)));
        // The second ends before the first.
        assert_eq!(queue.ended(&"b", at(3), false), [(1, 1)]);
        assert_eq!(queue.next(at(3)), Some("c"));
        assert_eq!(queue.withdraw(&1), ["d"]);
        assert_eq!(queue.ended(&"c", at(4), false), []);
        assert_eq!(queue.ended(&"a", at(4), false), []);
        assert_eq!((queue.next(at(4)), queue.len()), (Some("e"), 1));
        // Two at a time do not make one faster.
        assert_eq!(queue.wait_of(&2, at(4)), of(0, 2.0));
    }

    #[test]
    fn the_wait_that_is_foretold_is_the_one_that_comes() {
        let mut queue = Queue::<&str, u32>::default();
        queue.push("a", Purpose::Certify, (1, 0));
        queue.push("b", Purpose::Rank, (1, 1));
        queue.push("c", Purpose::Rank, (1, 2));
        assert_eq!(queue.next(at(0)), Some("a"));
        let cases = [vec![], vec!["b"], vec!["d", "e"], vec!["c", "f"]];
        for (job, keys) in (2..).zip(cases) {
            let set = keys.iter().copied().collect();
            let foretold = queue.wait_for(&set, Purpose::Rank, at(3));
            for (index, key) in keys.into_iter().enumerate() {
                queue.push(key, Purpose::Rank, (job, index));
            }
            assert_eq!(queue.wait_of(&job, at(3)), foretold, "{set:?}");
            assert_eq!(foretold.is_some(), job > 2);
        }
    }

    proptest! {
        /// Candidates ask in any order while evaluations begin and end: each gets one answer, no program is evaluated twice
        /// for the same candidates, and programs are evaluated in the order in which they were asked for.
        #[test]
        fn each_candidate_is_answered_once(steps in prop::collection::vec((0u8..3, 0u32..6), 1..80)) {
            let mut queue = Queue::<u32, u32>::default();
            let (mut asked, mut answered) = (BTreeMap::new(), BTreeSet::new());
            let mut order = VecDeque::new();
            let mut running = None;
            let end = |queue: &mut Queue<u32, u32>, running: &mut Option<u32>, answered: &mut BTreeSet<(u32, usize)>, asked: &BTreeMap<(u32, usize), u32>| {
                let Some(key) = running.take() else {
                    return;
                };
                for by in queue.ended(&key, at(0), true) {
                    assert_eq!(asked.get(&by).copied(), Some(key));
                    assert!(answered.insert(by), "answered twice");
                }
            };
            for (job, (step, key)) in steps.into_iter().enumerate() {
                let by = (job as u32, job % 3);
                match step {
                    0 => {
                        if running != Some(key) && !order.contains(&key) {
                            order.push_back(key);
                        }
                        asked.insert(by, key);
                        queue.push(key, Purpose::Screen, by);
                    }
                    1 => {
                        let next = queue.next(at(0));
                        let expected = if running.is_some() { None } else { order.pop_front() };
                        prop_assert_eq!(next, expected);
                        running = running.or(next);
                    }
                    _ => end(&mut queue, &mut running, &mut answered, &asked),
                }
                prop_assert_eq!(queue.len(), order.len() + usize::from(running.is_some()));
            }
            end(&mut queue, &mut running, &mut answered, &asked);
            while let Some(key) = queue.next(at(0)) {
                running = Some(key);
                end(&mut queue, &mut running, &mut answered, &asked);
            }
            prop_assert_eq!(answered.len(), asked.len());
        }
    }
}
