//! The evaluations of a call, within the budget of its session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::budget::{Budget, Share};
use super::calls::{Client, Progress};
use super::message;
use crate::auth::Holder;
use crate::job::Job;
use crate::refusal::Refusal;
use crate::service::Service;
use crate::wire::{Answer, Outcome, Request};

/// Interval between two notifications of the progress of a call.
const TICK: Duration = Duration::from_secs(1);

/// A job of a call. The end of this value settles the budget, and withdraws the job if it is not done.
pub struct Asking {
    service: Arc<Service>,
    budget: Arc<Budget>,
    /// The job.
    pub job: Arc<Job>,
    share: Share,
}

impl Asking {
    /// Begins a job of a client, if the budget suffices for it.
    ///
    /// # Errors
    /// A sentence, if it does not, or if the service takes no such request.
    pub fn begin(
        service: Arc<Service>,
        budget: Arc<Budget>,
        request: Request,
        holder: Holder,
    ) -> Result<Self, String> {
        let (programs, time) = service.unknown_of(&request);
        let share = Share {
            programs: programs.into(),
            time,
        };
        budget.take(share)?;
        match service.submit(request, None, holder) {
            Ok((job, _)) => Ok(Self {
                service,
                budget,
                job,
                share,
            }),
            Err(refusal) => {
                budget.settle(share, 0, Duration::ZERO);
                Err(words(&refusal))
            }
        }
    }

    /// Waits until the job is done.
    ///
    /// # Errors
    /// A sentence, if the budget is used up or nobody waits any more.
    pub async fn wait(&self, client: &Client<'_>) -> Result<(), String> {
        let began = Instant::now();
        let mut told = self.job.listen();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.job.is_done() {
            tokio::select! {
                changed = told.changed() => if changed.is_err() { break },
                _ = ticks.tick() => {
                    self.check_budget()?;
                    if let Some(progress) = &client.progress {
                        self.report(progress, began.elapsed());
                    }
                }
                () = client.gone.cancelled() => {
                    return Err("the evaluation was given up, because the connection or the service ends; call the tool again".into());
                }
            }
        }
        Ok(())
    }

    /// An evaluation that has begun is finished; no other one begins once the time is used up.
    fn check_budget(&self) -> Result<(), String> {
        let missing = self.job.missing().len();
        let running = self.service.running_of(&self.job);
        match to_check(missing, running, self.job.spent(), self.share.time) {
            Some(time) => self.budget.check(time),
            None => Ok(()),
        }
    }

    /// Progress is told in seconds: they grow with each notification.
    fn report(&self, progress: &Progress, passed: Duration) {
        let seconds = passed.as_secs_f64();
        let wait = self.service.wait_of(&self.job);
        let total = wait.map(|wait| seconds + wait.seconds);
        let words = match wait.map(|wait| wait.position) {
            Some(0) | None => "the program is being evaluated, or is the next one".to_owned(),
            Some(1) => "one evaluation comes before".to_owned(),
            Some(position) => format!("{position} evaluations come before"),
        };
        (progress.send)(message::progress(&progress.token, seconds, total, &words));
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // A program that the client gave up counts: its evaluation may have begun.
        let costs_nothing = |answer: &Answer| {
            answer.cached || matches!(answer.outcome, Outcome::Infrastructure | Outcome::Unknown)
        };
        let answers = self.job.answers();
        let free = answers.iter().filter(|a| costs_nothing(a)).count();
        let counted = u64::try_from(self.job.total().saturating_sub(free));
        let used = counted.unwrap_or(u64::MAX).min(self.share.programs);
        let mut spent = self.job.spent();
        if !self.job.is_done() {
            spent = spent.saturating_add(self.service.withdraw(&self.job));
        }
        self.budget.settle(self.share, used, spent);
    }
}

/// The time that a call needs for itself and its next evaluation, if another one is going to begin. `missing` programs have
/// no answer, one of them has been `running` for so long, and the call expected to take the time `expected`.
fn to_check(
    missing: usize,
    running: Option<Duration>,
    spent: Duration,
    expected: Duration,
) -> Option<Duration> {
    match running {
        Some(_) if missing <= 1 => None,
        Some(running) => Some(spent.saturating_add(running)),
        None => Some(spent.max(expected)),
    }
}

/// A refusal in words, with the places of the mistakes as the arguments of the tools have them.
fn words(refusal: &Refusal) -> String {
    let details = refusal.details();
    if details.errors.is_empty() {
        return details.detail;
    }
    let mistakes = details.errors.iter().map(|mistake| {
        let place = mistake.pointer.strip_prefix("/candidates/");
        match place.and_then(|place| place.split_once('/')) {
            Some((program, field)) => format!("program {program}, `{field}`: {}", mistake.detail),
            None => mistake.detail.clone(),
        }
    });
    mistakes.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_evaluation_of_a_call_is_sure_to_end() {
        let seconds = Duration::from_secs;
        let of = |missing, running: Option<u64>, spent| {
            to_check(missing, running.map(seconds), seconds(spent), seconds(4))
        };
        // Nothing has begun: the whole call has to fit.
        assert_eq!(of(2, None, 0), Some(seconds(4)));
        assert_eq!(of(1, None, 5), Some(seconds(5)));
        // The first of two programs takes longer than expected.
        assert_eq!(of(2, Some(9), 0), Some(seconds(9)));
        assert_eq!(of(15, Some(2), 8), Some(seconds(10)));
        assert_eq!(of(1, Some(9), 8), None);
    }
}
