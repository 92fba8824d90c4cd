//! Waits, for a limited time, until the machine is quiet before something is certified or compared.
//!
//! The loop of a run also measures on a busy machine: the minimum of many samples tolerates much disturbance, and
//! stronger disturbance ends in a quarantine. Numbers that are going to be quoted justify waiting.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use flopsmith_machine::environment::{self, Watched};
use flopsmith_measure::{State, Timer};
use tokio_util::sync::CancellationToken;

use crate::console::say;

/// Length of one look at the cores. The kernel accounts a sixteenth of it at a time.
const LOOK: Duration = Duration::from_millis(160);
/// Number of consecutive looks without a finding that end a wait. One is not enough: other processes work in bursts.
const CALM: u32 = 3;
/// Interval between two messages that the process is waiting.
const TELL: Duration = Duration::from_secs(10);

/// A reason not to measure now, if there is one.
pub fn look(timer: &mut Timer) -> Option<String> {
    used(timer.watched()).or_else(|| drifted(timer))
}

/// The other processes at work on the timed cores, if there are any.
pub fn used(cores: &Watched) -> Option<String> {
    environment::complaint(&environment::look(cores, LOOK), cores)
}

/// The quarantine's reason, if the baseline is slower than before.
pub fn drifted(timer: &mut Timer) -> Option<String> {
    if !timer.quarantine_state().is_quarantine() {
        return None;
    }
    match timer.canary() {
        Ok(State::Quarantined { why, .. }) => Some(why.to_string()),
        // A canary that fails here is ignored: the next program meets the same failure and handles it.
        Ok(State::Idle | State::Disturbed { .. }) | Err(_) => None,
    }
}

/// The disturbance of a program's own measurement, or else that of the reference's measurement, which the program's
/// ratio is based on.
pub fn resting_on(reference: Option<&str>, own: Option<String>) -> Option<String> {
    own.or_else(|| reference.map(|why| format!("{why} (while the reference was measured)")))
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// Nothing disturbs a measurement.
    Idle,
    /// The disturbance that remains.
    Busy(String),
    /// A stop was requested, so nothing is to be measured any more.
    Stopped,
}

impl Waited {
    /// The disturbance that remains, if any; an error if nothing is to be measured any more.
    pub fn go_on(self) -> Result<Option<String>> {
        match self {
            Self::Idle => Ok(None),
            Self::Busy(why) => Ok(Some(why)),
            Self::Stopped => bail!("stopped"),
        }
    }
}

/// The waiting time that is left.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    left: Duration,
    /// The user was warned that the machine is busy and no waiting time is left. One warning is enough.
    warned: bool,
}

impl Patience {
    /// `limit` is the sum of all waits.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            left: limit,
            warned: false,
        }
    }

    /// Restores the full limit, for another task of the user.
    pub fn renew(&mut self) {
        self.left = self.limit;
        self.warned = false;
    }

    /// Waits until `look` finds nothing, and reports the wait on stderr. Cancelling `stopped` ends the wait.
    pub fn wait(
        &mut self,
        look: impl FnMut() -> Option<String>,
        stopped: &CancellationToken,
    ) -> Waited {
        self.wait_telling(look, stopped, Instant::now, say)
    }

    fn wait_telling(
        &mut self,
        mut look: impl FnMut() -> Option<String>,
        stopped: &CancellationToken,
        now: impl Fn() -> Instant,
        mut tell: impl FnMut(&str),
    ) -> Waited {
        if stopped.is_cancelled() {
            return Waited::Stopped;
        }
        // A first look without a finding takes no waiting time; a first look with a finding does.
        let (limit, began) = (self.left, now());
        let found = look();
        if stopped.is_cancelled() {
            return Waited::Stopped;
        }
        let Some(mut why) = found else {
            return Waited::Idle;
        };
        if limit.is_zero() {
            if !std::mem::replace(&mut self.warned, true) {
                tell(&format!(
                    "warning: the machine is busy: {why}; numbers will be less certain"
                ));
            }
            return Waited::Busy(why);
        }
        tell(&format!(
            "the machine is busy: {why}, which makes times uncertain; waiting until it is quiet, {} at most (--wait 0 skips this)",
            at_most(limit)
        ));
        let (mut calm, mut told) = (0, Duration::ZERO);
        // Even without any waiting time left there is one more look: a burst may be over.
        loop {
            let found = look();
            let waited = now().saturating_duration_since(began);
            self.left = limit.saturating_sub(waited);
            if stopped.is_cancelled() {
                return Waited::Stopped;
            }
            calm = match found {
                Some(now) => {
                    why = now;
                    0
                }
                None => calm + 1,
            };
            // When the time is over, the last look decides.
            if calm >= CALM || (calm > 0 && self.left.is_zero()) {
                tell(&format!("the machine is quiet after {}", seconds(waited)));
                return Waited::Idle;
            }
            if self.left.is_zero() {
                self.warned = true;
                tell(&format!(
                    "warning: the machine is still busy after {}: {why}; measuring anyway, numbers will be less certain",
                    seconds(waited)
                ));
                return Waited::Busy(why);
            }
            if waited >= told + TELL {
                told = waited;
                tell(&format!(
                    "the machine is still busy: {why}; waiting for {} more at most",
                    at_most(self.left)
                ));
            }
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

/// Rounds up, so that a fraction of a second is not shown as 0 s.
fn at_most(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64().ceil())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::cell::Cell;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn busy() -> Option<String> {
        Some("core 1 is used 40 % by others".into())
    }

    /// The wait ended and the machine was still busy.
    fn still_busy() -> Waited {
        Waited::Busy(busy().unwrap())
    }

    /// Waits on a clock that only advances with the looks. The looks return `found`, then nothing. Returns the wait's
    /// end and its messages.
    fn wait(patience: &mut Patience, found: &[Option<&str>]) -> (Waited, Vec<String>) {
        let (began, looks) = (Instant::now(), Cell::new(0_usize));
        let look = || {
            let at = looks.replace(looks.get() + 1);
            found.get(at).copied().flatten().map(str::to_owned)
        };
        let now = || began + LOOK * u32::try_from(looks.get()).unwrap();
        let (never, mut said) = (CancellationToken::new(), Vec::new());
        let ended = patience.wait_telling(look, &never, now, |line| said.push(line.to_owned()));
        let expected = found.len();
        assert!(looks.get() >= expected, "{} of {expected}", looks.get());
        (ended, said)
    }

    #[test]
    fn a_program_timed_in_quiet_is_as_certain_as_its_reference() {
        let reference = Some("core 1 is used 40 % by others");
        assert_eq!(
            resting_on(reference, None).unwrap(),
            "core 1 is used 40 % by others (while the reference was measured)"
        );
        let own = || Some("core 2 is used 90 % by others".to_owned());
        assert_eq!(resting_on(reference, own()), own());
        assert_eq!(resting_on(None, own()), own());
        assert_eq!(resting_on(None, None), None);
    }

    #[test]
    fn a_quiet_machine_is_not_waited_for() {
        let mut patience = Patience::new(HOUR);
        assert_eq!(wait(&mut patience, &[None]), (Waited::Idle, Vec::new()));
        assert_eq!(patience.left, HOUR);
    }

    #[test]
    fn a_wait_reports_its_reason_and_ends_after_several_quiet_looks() {
        let mut patience = Patience::new(HOUR);
        // The machine is quiet for a moment between two bursts.
        let looks = [Some("a"), Some("b"), None, None, Some("c")];
        let (ended, said) = wait(&mut patience, &looks);
        assert_eq!(ended, Waited::Idle);
        assert_eq!(
            said,
            [
                "the machine is busy: a, which makes times uncertain; waiting until it is quiet, 3600 s at most (--wait 0 skips this)",
                "the machine is quiet after 1 s"
            ]
        );
        // All eight looks were waiting.
        assert_eq!(patience.left, HOUR - LOOK * 8);
        patience.renew();
        assert_eq!(patience.left, HOUR);
    }

    #[test]
    fn all_waits_together_take_no_longer_than_the_limit() {
        let mut patience = Patience::new(LOOK * 6);
        // Four looks, then two.
        assert_eq!(wait(&mut patience, &[Some("a")]).0, Waited::Idle);
        assert_eq!(patience.left, LOOK * 2);
        let (ended, said) = wait(&mut patience, &[Some("b"), Some("c")]);
        assert_eq!(ended, Waited::Busy("c".into()));
        assert_eq!(
            said,
            [
                "the machine is busy: b, which makes times uncertain; waiting until it is quiet, 1 s at most (--wait 0 skips this)",
                "warning: the machine is still busy after 0 s: c; measuring anyway, numbers will be less certain"
            ]
        );
        assert_eq!(patience.left, Duration::ZERO);
        // A later wait gives no second warning.
        let (ended, said) = wait(&mut patience, &[Some("d")]);
        assert_eq!((ended, said), (Waited::Busy("d".into()), Vec::new()));
    }

    #[test]
    fn a_machine_that_the_last_look_finds_quiet_is_not_called_busy() {
        for limit in [LOOK * 3, LOOK * 2, LOOK / 2] {
            let mut patience = Patience::new(limit);
            let (ended, said) = wait(&mut patience, &[Some("a"), None]);
            assert_eq!(ended, Waited::Idle, "{limit:?}: {said:?}");
            assert!(said[0].contains("quiet, 1 s at most ("), "{said:?}");
            assert_eq!(patience.left, Duration::ZERO);
        }
    }

    #[test]
    fn without_patience_there_is_a_warning_alone() {
        let mut patience = Patience::new(Duration::ZERO);
        let (ended, said) = wait(&mut patience, &[busy().as_deref()]);
        assert_eq!(ended, still_busy());
        assert_eq!(
            said,
            [
                "warning: the machine is busy: core 1 is used 40 % by others; numbers will be less certain"
            ]
        );
        assert!(wait(&mut patience, &[busy().as_deref()]).1.is_empty());
        // Another task of the user.
        patience.renew();
        assert_eq!(wait(&mut patience, &[busy().as_deref()]).1, said);
    }

    #[test]
    fn a_stopped_wait_ends_at_once_without_a_measurement() {
        let mut patience = Patience::new(HOUR);
        // The stop comes before a look, during the first one, or while it waits; a quiet machine is no reason to go on
        // either.
        for (at, found) in [
            (0, busy()),
            (1, busy()),
            (1, None),
            (2, busy()),
            (4, busy()),
        ] {
            let stopped = CancellationToken::new();
            let mut looks = 0;
            if at == 0 {
                stopped.cancel();
            }
            let look = || {
                looks += 1;
                if looks == at {
                    stopped.cancel();
                }
                found.clone()
            };
            let ended = patience.wait_telling(look, &stopped, Instant::now, |_| {});
            assert_eq!((ended, looks), (Waited::Stopped, at), "{found:?}");
        }
        assert!(Waited::Stopped.go_on().is_err());
        assert_eq!(Waited::Idle.go_on().unwrap(), None);
        assert_eq!(still_busy().go_on().unwrap(), busy());
    }
}
