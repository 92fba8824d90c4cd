//! The evaluations of a call, within the budget of its session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::budget::Budget;
use super::calls::{Client, Progress};
use super::message;
use crate::refusal::Refusal;
use crate::service::{Job, Service};
use crate::wire::{Answer, Outcome, Request};

/// Interval between two notifications of the progress of a call.
const TICK: Duration = Duration::from_secs(1);

/// A job of a call. The end of this value settles the budget, and withdraws the job if it is not done.
pub struct Asking {
    service: Arc<Service>,
    budget: Arc<Budget>,
    /// The job.
    pub job: Arc<Job>,
    programs: u64,
}

impl Asking {
    /// Begins a job, if the budget suffices for it.
    ///
    /// # Errors
    /// A sentence, if it does not, or if the service takes no such request.
    pub fn begin(
        service: Arc<Service>,
        budget: Arc<Budget>,
        request: Request,
    ) -> Result<Self, String> {
        let programs = u64::try_from(request.candidates.len()).unwrap_or(u64::MAX);
        budget.take(programs)?;
        match service.submit(request, None) {
            Ok((job, _)) => Ok(Self {
                service,
                budget,
                job,
                programs,
            }),
            Err(refusal) => {
                budget.settle(programs, 0, Duration::ZERO);
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
                    // A call whose turn has come is finished.
                    let wait = self.service.wait_of(&self.job);
                    if wait.is_some_and(|wait| wait.position > 0) {
                        self.budget.check_time()?;
                    }
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
        let free = u64::try_from(free).unwrap_or(u64::MAX);
        let used = self.programs.saturating_sub(free);
        let mut spent = self.job.spent();
        if !self.job.is_done() {
            spent = spent.saturating_add(self.service.withdraw(&self.job));
        }
        self.budget.settle(self.programs, used, spent);
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
