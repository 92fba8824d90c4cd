//! The shortest call that can be timed: the error of clock and hand-shake.
//!
//! The clock is read outside of the candidate's process, so each sample begins with a hand-shake that wakes the process
//! up. The least duration of that hand-shake is subtracted from all samples. The duration depends on the process: its
//! control block lies in other lines of the caches, its code at other addresses. That error is the same in all calls of
//! a process, no scatter shows it, and in calls of some tens of nanoseconds there is nothing but that error. It is in
//! seconds, so it is negligible for long calls.

use std::time::{Duration, Instant};

use flopsmith_protocol::{Failure, Measurement};
use serde::{Deserialize, Serialize};

use crate::stats::{self, Estimate};
use crate::supervise::{Filler, Process};

/// Most hand-shakes with each process, and the least number, made even if making inputs takes longer than [`TIME`].
const LOOKS: usize = 33;
const LEAST: usize = 3;
const TIME: Duration = Duration::from_millis(50);
/// Further processes of our own whose hand-shakes are measured, besides those that a measurement has anyway. Two alone
/// say too little of the differences between processes: in one session of eight they were 5 % apart instead of 2, and
/// no call of 10 µs converged in that whole session.
pub(super) const MORE: usize = 3;
/// Hand-shakes before a measurement, if the calls are short: the first ones may have been measured on a busy machine.
const AGAIN: u64 = 5;
/// Calls that last this long, seconds, are short. The error of a hand-shake is at most a thousandth of others.
pub(super) const SHORT: f64 = 1e-3;
/// Hand-shakes differ from process to process by at least this share of their length: one standard deviation. A few
/// processes may happen to agree. Most of a hand-shake is the kernel's, and the same for all processes.
const SHARE: f64 = 0.02;
/// A sample shorter than this many hand-shakes, its own included, is mostly hand-shake.
const HIDDEN: f64 = 2.0;
/// Half of a 95 % interval, in standard errors.
const HALF: f64 = 1.96;

/// The precision of the times of single calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// Time of a hand-shake without a call, seconds.
    pub hand_shake_seconds: f64,
    /// The part of it that was subtracted from each sample, seconds.
    pub taken_off_seconds: f64,
    /// Difference between samples of different processes with equal calls: one standard deviation, seconds.
    pub error_seconds: f64,
}

impl Resolution {
    /// Measures hand-shakes with programs of our own, which are at rest before and after. Each hand-shake comes after
    /// inputs were made, as a call does: the caches of the core then hold other data than after another hand-shake.
    pub(super) fn measure<'a>(
        programs: impl IntoIterator<Item = &'a mut Process>,
        filler: &mut Filler,
    ) -> Result<Self, Failure> {
        let mut all = Vec::new();
        for process in programs {
            let began = Instant::now();
            let mut seconds = Vec::with_capacity(LOOKS);
            while seconds.len() < LEAST || (seconds.len() < LOOKS && began.elapsed() < TIME) {
                let empty = filler.empty_call(process, seconds.len() as u64)?;
                seconds.push(empty.clocked.as_secs_f64());
            }
            all.push(seconds);
        }
        Ok(Self::of(&all, filler.spins()))
    }

    /// The resolution from the seconds of hand-shakes with some processes; `take_off` says whether their least is
    /// subtracted from samples.
    fn of(processes: &[Vec<f64>], take_off: bool) -> Self {
        let floors: Vec<f64> = processes.iter().filter_map(|s| stats::floor(s)).collect();
        let longest = floors.iter().copied().fold(0.0, f64::max);
        let shortest = floors.iter().copied().fold(longest, f64::min);
        Self {
            hand_shake_seconds: longest,
            taken_off_seconds: if take_off { shortest } else { 0.0 },
            error_seconds: deviation(&floors).max(SHARE * longest),
        }
    }

    /// Measures hand-shakes with a program of our own again, and lowers what is subtracted if one took less. On a busy
    /// machine all hand-shakes of the first look may be long. If so much was subtracted from samples of quiet moments,
    /// programs would appear faster than they are, by microseconds.
    pub(super) fn renewed(
        self,
        program: &mut Process,
        filler: &mut Filler,
    ) -> Result<Self, Failure> {
        let mut least = f64::INFINITY;
        for seed in 0..AGAIN {
            let empty = filler.empty_call(program, seed)?;
            least = least.min(empty.clocked.as_secs_f64());
        }
        Ok(self.lowered(least))
    }

    /// With a hand-shake that took `least` seconds: no hand-shake's least duration is longer.
    pub(super) fn lowered(self, least: f64) -> Self {
        let by = self.taken_off_seconds - least;
        if by.is_nan() || by <= 0.0 {
            return self;
        }
        Self {
            // Programs differ from each other as before.
            hand_shake_seconds: self.hand_shake_seconds - by,
            taken_off_seconds: least,
            error_seconds: self.error_seconds,
        }
    }

    /// The standard error of ln(ratio) in every comparison of two sides whose calls last this long, seconds.
    pub fn log_se(&self, candidate: f64, baseline: f64) -> f64 {
        let of = |seconds: f64| self.error_seconds / seconds.max(f64::MIN_POSITIVE);
        of(candidate).hypot(of(baseline))
    }

    /// The time that is subtracted from each sample.
    pub(super) fn least(&self) -> Duration {
        Duration::from_secs_f64(self.taken_off_seconds)
    }

    /// The shortest call that is not mostly hand-shake, seconds.
    pub fn shortest_seconds(&self) -> f64 {
        HIDDEN * self.hand_shake_seconds - self.taken_off_seconds
    }

    /// True if a sample of this many seconds was mostly hand-shake. Such a sample says next to nothing about the
    /// program.
    pub fn hides(&self, seconds: f64) -> bool {
        seconds < self.shortest_seconds()
    }

    /// True if the calls of a measured program were mostly hand-shake, at any workload. Its number then says next to
    /// nothing about the program.
    pub fn hides_calls_of(&self, measurement: &Measurement) -> bool {
        // Disturbances lengthen the median of the calls but hide nothing, so the shorter time counts.
        let hides = |median: Option<f64>, seconds: f64| {
            let median = median.unwrap_or(f64::INFINITY);
            self.hides(median.min(seconds))
        };
        match &measurement.workloads[..] {
            [] => hides(measurement.median_seconds, measurement.seconds_per_call),
            several => several
                .iter()
                .any(|w| hides(w.median_seconds, w.seconds_per_call)),
        }
    }

    /// An estimate whose interval includes the hidden error.
    pub(super) fn widen(&self, estimate: &Estimate) -> Estimate {
        let own = self.log_se(estimate.candidate, estimate.baseline);
        let middle = estimate.log_ratio;
        Estimate {
            log_se: estimate.log_se.hypot(own),
            low: middle - (middle - estimate.low).hypot(HALF * own),
            high: middle + (estimate.high - middle).hypot(HALF * own),
            ..*estimate
        }
    }
}

/// Standard deviation of a sample; 0 for fewer than two values.
fn deviation(sample: &[f64]) -> f64 {
    if sample.len() < 2 {
        return 0.0;
    }
    let mean = sample.iter().sum::<f64>() / sample.len() as f64;
    let squares: f64 = sample.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / (sample.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::Measured;

    use super::*;

    #[test]
    fn the_least_hand_shake_counts_whenever_it_was_measured() {
        let process = |seconds: f64| vec![seconds; 30];
        let busy = Resolution::of(&[process(5.2e-6), process(5.0e-6)], true);
        assert_eq!(busy.lowered(6e-6), busy, "no busier moment counts");
        let quiet = busy.lowered(4.1e-6);
        assert_eq!(quiet.taken_off_seconds, 4.1e-6);
        assert!((quiet.hand_shake_seconds - 4.3e-6).abs() < 1e-12);
        assert_eq!(quiet.error_seconds, busy.error_seconds);
        // Nothing is subtracted where both sides sleep.
        let sleeping = Resolution::of(&[process(9e-6)], false);
        assert_eq!(sleeping.lowered(4e-6), sleeping);
    }

    /// Hand-shakes of 400 and 430 ns, some of which were interrupted.
    fn usual() -> Resolution {
        let process = |seconds: f64| {
            let mut all = vec![seconds; 30];
            all[0] = 5e-6;
            all
        };
        Resolution::of(&[process(400e-9), process(430e-9)], false)
    }

    fn estimate(candidate: f64, baseline: f64) -> Estimate {
        let log_ratio = (baseline / candidate).ln();
        Estimate {
            candidate,
            baseline,
            log_ratio,
            log_se: 0.001,
            low: log_ratio - HALF * 0.001,
            high: log_ratio + HALF * 0.001,
            sampling_log_se: 0.001,
            rounds: 20,
            outlying: 0,
            supported: true,
        }
    }

    #[test]
    fn short_calls_are_hidden_and_long_ones_are_not() {
        let usual = usual();
        assert!((usual.hand_shake_seconds - 430e-9).abs() < 1e-12);
        assert!((usual.error_seconds - 30e-9 / 2f64.sqrt()).abs() < 1e-12);
        let equal = Resolution::of(&[vec![4e-7; 9], vec![4e-7; 9]], false);
        assert!((equal.error_seconds - SHARE * 4e-7).abs() < 1e-15);
        assert!(usual.hides(450e-9) && !usual.hides(1e-6));
        let taken_off = Resolution::of(&[vec![4e-7; 9], vec![4e-7; 9]], true);
        assert_eq!(taken_off.least(), Duration::from_nanos(400));
        assert!(taken_off.hides(390e-9) && !taken_off.hides(410e-9));
        assert!((taken_off.shortest_seconds() - 400e-9).abs() < 1e-15);
        // A measured program, whose median a busy machine made longer, and one of two workloads.
        let mut measured = Measured::at(1.0).measurement();
        assert!(!taken_off.hides_calls_of(&measured));
        measured.seconds_per_call = 390e-9;
        measured.median_seconds = Some(3e-3);
        assert!(taken_off.hides_calls_of(&measured));
        let mut over = Measured::at(1.0).over(&[("a", 1.0), ("b", 1.0)]);
        assert!(!taken_off.hides_calls_of(&over));
        over.workloads[1].median_seconds = Some(390e-9);
        assert!(taken_off.hides_calls_of(&over));
        let apart = Resolution::of(&[vec![4e-7; 9], vec![6e-7; 9]], false);
        assert!((apart.error_seconds - 2e-7 / 2f64.sqrt()).abs() < 1e-12);
        let only = Resolution::of(&[vec![4e-7; 9]], false);
        assert!((only.error_seconds - SHARE * 4e-7).abs() < 1e-15);
        let nothing = Resolution::of(&[], true);
        assert_eq!(
            (nothing.hand_shake_seconds, nothing.error_seconds),
            (0.0, 0.0)
        );
    }

    /// Measured floors in µs: the two that a measurement has anyway happened to be the shortest and the longest.
    #[test]
    fn one_process_that_is_slow_to_answer_spoils_no_session() {
        let seen = [4.26e-6, 4.47e-6, 4.33e-6, 4.36e-6, 4.31e-6].map(|floor| vec![floor; 9]);
        let (two, five) = (
            Resolution::of(&seen[..2], true),
            Resolution::of(&seen, true),
        );
        assert_eq!(five.least(), Duration::from_nanos(4260));
        assert!(two.log_se(80e-6, 9.5e-6) > 0.015);
        assert!(five.log_se(80e-6, 9.5e-6) < 0.01, "{five:?}");
    }

    #[test]
    fn intervals_of_short_calls_hold_what_hand_shakes_differ_by() {
        let usual = usual();
        // Equal calls of 20 ns, in processes whose hand-shakes are two standard deviations apart.
        let found = usual.widen(&estimate(420e-9, 420e-9 + 2.0 * usual.error_seconds));
        assert!(found.low < 0.0 && 0.0 < found.high, "{found:?}");
        assert!((found.high - found.log_ratio - HALF * found.log_se).abs() < 1e-9);
        assert!((found.sampling_log_se - 0.001).abs() < 1e-12);
        let long = usual.widen(&estimate(3e-4, 3e-4));
        assert!(long.log_se < 0.00103, "{long:?}");
    }
}
