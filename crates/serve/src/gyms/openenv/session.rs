//! The course of an episode: its beginning, its steps, its state.

use std::time::Duration;

use bytes::Bytes;
use flopsmith_evaluate::random;
use flopsmith_problem::Language;
use flopsmith_protocol::Digest;
use serde_json::Value;

use super::{Action, Beginning, Client, EpisodeState, Reply, Reset, Seen, mistake};
use crate::auth::Holder;
use crate::catalog::Catalog;
use crate::describe::Described;
use crate::gyms::episode::{Again, Fault, Key, Plan, Progress, Step, Ticket};
use crate::gyms::{Shared, answer_of, begin as begin_job};
use crate::http::App;
use crate::journal::JobId;
use crate::refusal::{Kind, Refusal};
use crate::service::Service;
use crate::wire::{Answer, Candidate, Purpose};

/// Length of the longest id of an episode or a request, bytes.
const LONGEST_ID: usize = 255;
/// The most steps of an episode.
const MOST_STEPS: u32 = 1000;

fn check_id(pointer: &str, id: Option<&str>) -> Result<(), Refusal> {
    match id {
        Some(id) if id.is_empty() || id.len() > LONGEST_ID => {
            let detail = format!("the id has {} bytes; use 1 to {LONGEST_ID}", id.len());
            Err(mistake(pointer, detail))
        }
        _ => Ok(()),
    }
}

impl Fault {
    fn refusal(self) -> Refusal {
        match self {
            Self::Unknown => Refusal::new(
                Kind::NotFound,
                "this client has no such episode, or its time is over; reset begins one",
            ),
            Self::Over => Refusal::new(
                Kind::Invalid,
                "the episode is done, or all its steps are being evaluated; reset begins the next, with `max_steps` for more programs",
            ),
            Self::Reused => Refusal::new(
                Kind::KeyReused,
                "this request_id was sent with another action; use a new one for a new step",
            ),
            Self::Busy => Refusal::new(
                Kind::Unavailable,
                "this request is being evaluated already; send it again later",
            )
            .retry_after(1),
        }
    }
}

/// Begins an episode.
///
/// # Errors
/// A refusal, if the task makes no sense or there is no place.
pub async fn begin(app: &App, client: Client, reset: Reset) -> Result<Reply<Beginning>, Refusal> {
    check_id("/episode_id", reset.episode_id.as_deref())?;
    let max_steps = reset.max_steps.unwrap_or(1);
    if !(1..=MOST_STEPS).contains(&max_steps) {
        let detail = format!("there are 1 to {MOST_STEPS} steps");
        return Err(mistake("/max_steps", detail));
    }
    let (named, language) = (reset.problem, reset.language);
    let seed = reset.seed.unwrap_or_else(random);
    let workloads: Vec<String> = reset.workload.iter().cloned().collect();
    let find = move |_: &[u8], service: &Service| -> Result<Described, Refusal> {
        let catalog = &service.catalog;
        let name = match named {
            Some(name) => name,
            None => drawn(catalog, &workloads, language, seed)?,
        };
        let found = catalog.find(&name, &workloads);
        let problem = found.map_err(|why| mistake("/problem", why))?;
        Ok(Described::of(&name, &problem))
    };
    let described = app.submit(Bytes::new(), find).await?;
    let plan = Plan {
        problem: described.problem.clone(),
        workload: reset.workload,
        purpose: reset.purpose,
        language,
        most_steps: max_steps,
    };
    let id = reset.episode_id;
    let id = id.unwrap_or_else(|| JobId::random().as_str().to_owned());
    let (shared, key) = (&app.gyms, client.key(id.clone()));
    let begun = shared.episodes().begin(key, plan, shared.now());
    begun.map_err(|_| {
        let detail = "the service has as many episodes as it can, and all of this client's are being evaluated; try again later";
        Refusal::new(Kind::Unavailable, detail).retry_after(10)
    })?;
    Ok(Reply {
        observation: Beginning {
            episode_id: id,
            problem: described.problem,
            prompt: described.prompt,
            entry: described.entry,
            prototype: described.prototype,
            max_steps,
        },
        reward: None,
        done: false,
    })
}

/// The problem of an episode whose client names none. Seeds in a row draw all problems in turn. A machine may lack the tools of
/// problems whose programs the compiler does not build, so one of these is drawn only if no other has the workload and the language.
fn drawn(
    catalog: &Catalog,
    workloads: &[String],
    language: Option<Language>,
    seed: u64,
) -> Result<String, Refusal> {
    let (mut compiled, mut others) = (Vec::new(), Vec::new());
    for name in catalog.names() {
        // A problem without the workload, or with a broken definition, is none to draw.
        let Ok(problem) = catalog.find(&name, workloads) else {
            continue;
        };
        if language.is_some_and(|language| !problem.languages().contains(&language)) {
            continue;
        }
        match problem.takes_the_compiler() {
            true => compiled.push(name),
            false => others.push(name),
        }
    }
    let mut names = match compiled.is_empty() {
        true => others,
        false => compiled,
    };
    let place = seed.checked_rem(names.len() as u64).ok_or_else(|| {
        let detail = "no problem of the service has this workload and language; send `problem`, e.g. reset(problem=\"dgemm\")";
        mistake("/problem", detail)
    })?;
    Ok(names.swap_remove(place as usize))
}

/// A reserved step. Its end gives the step back unless it was taken.
struct Reserved<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    taken: bool,
}

impl Reserved<'_> {
    /// The step has a reward.
    fn take(&mut self, reward: f64) -> Option<Progress> {
        self.taken = true;
        let now = self.shared.now();
        self.shared.episodes().end(&self.ticket, reward, now)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.shared.episodes().release(&self.ticket);
        }
    }
}

/// Takes a step of an episode: evaluates a program.
///
/// # Errors
/// A refusal, if there is no step, or no reward.
pub async fn take(
    app: &App,
    key: &Key,
    action: Action,
    request: Option<String>,
    limit: Option<Duration>,
) -> Result<Value, Refusal> {
    check_id("/request_id", request.as_deref())?;
    let text = serde_json::to_string(&action).unwrap_or_default();
    let again = request.map(|request| Again {
        request,
        action: Digest::of(text.as_bytes()),
    });
    let shared: &Shared = &app.gyms;
    let begun = shared.episodes().step(key, again.as_ref(), shared.now());
    let (ticket, plan) = match begun.map_err(Fault::refusal)? {
        Step::Replayed(reply) => return Ok(reply),
        Step::New(ticket, plan) => (ticket, plan),
    };
    let mut reserved = Reserved {
        shared,
        ticket,
        taken: false,
    };
    let candidate = Candidate {
        problem: plan.problem,
        workloads: plan.workload.into_iter().collect(),
        source: action.source,
        answer: action.answer,
        language: plan.language,
        ..Candidate::default()
    };
    let answer = answered(app, key.holder, candidate, plan.purpose, limit).await?;
    let reward = answer.reward.unwrap_or_default();
    let progress = reserved.take(reward);
    let progress = progress.ok_or_else(|| Fault::Unknown.refusal())?;
    let reply = Reply {
        reward: answer.reward,
        done: progress.is_done(),
        observation: seen(key, answer, &progress),
    };
    // The fields of a reply have names, so it always has a JSON form.
    let reply = serde_json::to_value(&reply).unwrap_or_default();
    if let Some(again) = again {
        let kept = reply.clone();
        shared.episodes().keep(&reserved.ticket, again, kept);
    }
    Ok(reply)
}

/// The answer to a candidate, within a limited time.
async fn answered(
    app: &App,
    holder: Holder,
    candidate: Candidate,
    purpose: Purpose,
    limit: Option<Duration>,
) -> Result<Answer, Refusal> {
    let job = begin_job(app, holder, candidate, purpose).await?;
    match limit {
        None => app.finished(&job).await?,
        Some(limit) => match tokio::time::timeout(limit, app.finished(&job)).await {
            Ok(finished) => finished?,
            Err(_) => {
                let detail = "the evaluation takes longer than timeout_s, and goes on; send the same step again";
                let refusal = Refusal::new(Kind::Unavailable, detail).retry_after(1);
                return Err(refusal.of_job(job.id.as_str()));
            }
        },
    }
    answer_of(&job)
}

fn seen(key: &Key, answer: Answer, progress: &Progress) -> Seen {
    Seen {
        episode_id: key.id.clone(),
        step_count: progress.steps,
        outcome: answer.outcome,
        reason: answer.reason,
        correct: answer.correct,
        ratio: answer.ratio,
        interval: answer.interval.map(|ends| [ends.low, ends.high]),
        gflops: answer.gflops,
        diagnostics: answer.diagnostics,
        best_reward: progress.best,
    }
}

/// The state of an episode.
///
/// # Errors
/// A refusal, if its holder has no such episode.
pub fn state_of(shared: &Shared, key: &Key) -> Result<EpisodeState, Refusal> {
    let progress = shared.episodes().progress(key, shared.now());
    let progress = progress.ok_or_else(|| Fault::Unknown.refusal())?;
    Ok(EpisodeState {
        episode_id: key.id.clone(),
        step_count: progress.steps,
        done: progress.is_done(),
        problem: progress.plan.problem,
        purpose: progress.plan.purpose,
        max_steps: progress.plan.most_steps,
        best_reward: progress.best,
    })
}
