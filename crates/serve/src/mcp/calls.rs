//! Calls of tools on the service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_measure::ranking::letters::told_apart;
use flopsmith_measure::ranking::{self, Entry, LogRatio};
use flopsmith_measure::stats::SYSTEMATIC_LOG_SE;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Measurement, harmless};
use flopsmith_run::digits::{between, four, share};
use serde::Serialize;
use serde_json::Value;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::budget::Budget;
use super::explain;
use super::message::{self, Call};
use super::tools::{
    self, BesideFirst, BestList, BestPrograms, Change, Compare, Compared, Evaluate, Evaluated,
    ExplainRefusal, Explained, Found, Known, Left, MOST_COMPARED, OfProblem, ProblemList, Problems,
    Ranked, Roofed, Roofline, Tool,
};
use crate::cache::Reference;
use crate::describe::{Described, Listed};
use crate::refusal::Refusal;
use crate::service::{Job, Service};
use crate::wire::{Answer, Candidate, Outcome, Purpose, Request};

/// Interval between two notifications of the progress of a call.
const TICK: Duration = Duration::from_secs(1);
/// Standard error of ln(ratio) that the placement of one process's pages adds: a screening or a ranking measures one process
/// of each program.
const PLACEMENT_LOG_SE: f64 = 0.02;
/// Length of the longest text about a mistake, bytes.
const LONGEST_WORDS: usize = 4000;

/// The tools, on a service.
#[derive(Clone)]
pub struct Tools {
    service: Arc<Service>,
    budget: Arc<Budget>,
}

/// Sends notifications about the progress of a call.
pub struct Progress {
    /// Names the call.
    pub token: Value,
    /// Sends a notification, or drops it if the client does not keep up.
    pub send: Box<dyn Fn(Value) + Send + Sync>,
}

/// The client of a call that is being performed.
struct Client<'a> {
    progress: Option<Progress>,
    /// Cancelled once nobody waits for the result any more.
    gone: &'a CancellationToken,
}

impl Tools {
    /// The tools on a service, limited by a budget.
    pub fn new(service: Arc<Service>, budget: Budget) -> Self {
        Self {
            service,
            budget: Arc::new(budget),
        }
    }

    /// The service.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Performs a call, and returns the response. If `gone` is cancelled, the call ends as soon as it can. If this future is
    /// dropped, the call is given up.
    pub async fn call(
        &self,
        call: Call,
        progress: Option<Progress>,
        gone: &CancellationToken,
    ) -> Value {
        let client = Client { progress, gone };
        let Call {
            id,
            era,
            tool,
            arguments,
            ..
        } = call;
        let done = match tool {
            Tool::Evaluate => match tools::arguments(arguments) {
                Ok(asked) => finished(self.evaluate(asked, &client).await),
                Err(why) => Err(why),
            },
            Tool::Compare => match tools::arguments(arguments) {
                Ok(asked) => finished(self.compare(asked, &client).await),
                Err(why) => Err(why),
            },
            Tool::Roofline => match tools::arguments(arguments) {
                Ok(asked) => finished(self.roofline(asked, &client).await),
                Err(why) => Err(why),
            },
            Tool::ExplainRefusal => match tools::arguments(arguments) {
                Ok(asked) => finished(self.explain(asked).await),
                Err(why) => Err(why),
            },
            Tool::Problem => match tools::arguments(arguments) {
                Ok(asked) => finished(self.problem(asked).await),
                Err(why) => Err(why),
            },
            Tool::Problems => match tools::arguments(arguments) {
                Ok(asked) => finished(self.problems(asked).await),
                Err(why) => Err(why),
            },
            Tool::BestPrograms => match tools::arguments(arguments) {
                Ok(asked) => finished(self.best_programs(asked).await),
                Err(why) => Err(why),
            },
        };
        let result = done.unwrap_or_else(|why| tools::failure(&harmless(&why, LONGEST_WORDS)));
        message::response(&id, era, result)
    }

    /// Performs work that reads files, away from the threads that answer.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let service = Arc::clone(&self.service);
        let done = tokio::task::spawn_blocking(move || work(&service));
        done.await.unwrap_or_else(|_| Err(panicked()))
    }

    async fn find(&self, problem: &str, workloads: &[String]) -> Result<Arc<Problem>, String> {
        let (problem, workloads) = (problem.to_owned(), workloads.to_vec());
        self.blocking(move |service| service.catalog.find(&problem, &workloads))
            .await
    }

    async fn problems(&self, asked: Problems) -> Result<ProblemList, String> {
        let problems = self
            .blocking(move |service| Ok(Listed::all(&service.catalog)))
            .await?;
        let is_wanted = |listed: &Listed| asked.suite.is_none() || listed.suite == asked.suite;
        let problems: Vec<Listed> = problems.into_iter().filter(is_wanted).collect();
        if problems.is_empty() {
            return Err("no problem belongs to this suite; call problems without `suite`".into());
        }
        Ok(ProblemList { problems })
    }

    async fn problem(&self, asked: OfProblem) -> Result<Described, String> {
        let problem = self.find(&asked.problem, &[]).await?;
        Ok(Described::of(&problem))
    }

    async fn explain(&self, asked: ExplainRefusal) -> Result<Explained, String> {
        let problem = match &asked.problem {
            Some(problem) => Some(self.find(problem, &[]).await?),
            None => None,
        };
        explain::explain(&asked.reason, problem.as_deref())
    }

    async fn best_programs(&self, asked: BestPrograms) -> Result<BestList, String> {
        let problem = self.find(&asked.problem, &asked.workloads).await?;
        let known = self
            .blocking(move |service| Ok(service.best(&problem)))
            .await?;
        let most = usize::try_from(asked.most.max(1)).unwrap_or(usize::MAX);
        let programs = known.into_iter().take(most).map(|entry| Known {
            source: entry.source,
            language: entry.language,
            purpose: entry.purpose,
            ratio: entry.ratio,
            interval: entry.interval,
            gflops: entry.gflops,
            techniques: entry.techniques,
            vector_bits: entry.vector_bits,
            reference: entry.reference,
            measured_unix_ms: entry.measured_unix_ms,
        });
        let programs: Vec<Known> = programs.collect();
        let summary = match programs.first() {
            Some(first) => format!(
                "the fastest known program is {} times as fast as the plain reference (95 % interval {}); evaluate it again beside your own with compare before you rely on a difference",
                four(first.ratio),
                between(&first.interval)
            ),
            None => "no program for this problem has been measured here yet; evaluate one".into(),
        };
        Ok(BestList { summary, programs })
    }

    async fn evaluate(&self, asked: Evaluate, client: &Client<'_>) -> Result<Evaluated, String> {
        let problem = self.find(&asked.problem, &asked.workloads).await?;
        let purpose = asked.purpose;
        let candidate = Candidate {
            id: None,
            problem: asked.problem,
            workloads: asked.workloads,
            source: asked.source,
            answer: asked.answer,
            language: asked.language,
        };
        let answer = self.one(candidate, purpose, client).await?;
        let roof = self.roof(problem, purpose).await;
        Ok(Evaluated {
            found: Found::of(&answer, roof),
            budget: self.left(),
        })
    }

    async fn compare(&self, asked: Compare, client: &Client<'_>) -> Result<Compared, String> {
        let count = asked.programs.len();
        if !(2..=MOST_COMPARED).contains(&count) {
            return Err(format!(
                "there are {count} programs; send 2 to {MOST_COMPARED}"
            ));
        }
        let problem = self.find(&asked.problem, &asked.workloads).await?;
        let candidates = asked.programs.into_iter().map(|entrant| Candidate {
            id: entrant.name,
            problem: asked.problem.clone(),
            workloads: asked.workloads.clone(),
            source: entrant.source,
            answer: entrant.answer,
            language: entrant.language,
        });
        let request = Request {
            candidates: candidates.collect(),
            purpose: asked.purpose,
        };
        let answers = self.answers(request, client).await?;
        let roof = self.roof(problem, asked.purpose).await;
        compared(&answers, roof, self.left())
    }

    async fn roofline(&self, asked: Roofline, client: &Client<'_>) -> Result<Roofed, String> {
        if asked.gflops.is_some_and(|gflops| gflops <= 0.0) {
            return Err("`gflops` is a speed above 0; leave it out if you have none".into());
        }
        let problem = self.find(&asked.problem, &asked.workloads).await?;
        let known = self.reference(&problem, Purpose::Screen).await;
        let reference = match known {
            Some(reference) => reference,
            None => {
                // The roofs are measured with the reference, before the first program of a problem.
                let candidate = Candidate {
                    problem: asked.problem,
                    workloads: asked.workloads,
                    source: Some(problem.reference_source.clone()),
                    language: Some(Language::C),
                    ..Candidate::default()
                };
                let answer = self.one(candidate, Purpose::Screen, client).await?;
                let measured = self.reference(&problem, Purpose::Screen).await;
                measured.ok_or_else(|| {
                    let reason = answer.reason.as_deref().unwrap_or("unknown");
                    format!("the machine could not measure the roofs ({reason}); call the tool again, or tell your user")
                })?
            }
        };
        let speeds = &reference.speeds;
        let roofs = reference.roofs.as_ref();
        let (Some(roofs), Some(roof)) = (roofs, roofs.and_then(|roofs| roofs.gflops())) else {
            return Err("the roofs of this problem are not known: the machine measured no peak, or the problem counts no operations".into());
        };
        let share_of_roof = asked.gflops.map(|gflops| gflops / roof);
        let mut summary = format!("programs can reach {} GFLOPS", four(roof));
        if let [only] = roofs.workloads.as_slice() {
            summary.push_str(&format!(", limited by {}", only.bound));
        }
        summary.push_str(&format!(
            "; the plain reference makes {}",
            four(speeds.gflops)
        ));
        if let Some(of_roof) = share_of_roof {
            summary.push_str(&format!(
                "; the given speed is {} of the roof",
                share(of_roof)
            ));
        }
        if roofs
            .workloads
            .iter()
            .any(|at| at.bound == "memory" && at.cached_in.is_some())
        {
            summary
                .push_str("; data fit a cache at some size, so programs may exceed the roof there");
        }
        Ok(Roofed {
            summary,
            roof_gflops: roof,
            peak_gflops: speeds.peak_gflops,
            reference_gflops: speeds.gflops,
            threads: roofs.threads,
            workloads: roofs.workloads.clone(),
            bandwidths: roofs.bandwidths.clone(),
            ceilings: roofs.ceilings.clone(),
            share_of_roof,
            budget: self.left(),
        })
    }

    fn left(&self) -> Option<Left> {
        self.budget.left()
    }

    async fn reference(&self, problem: &Arc<Problem>, purpose: Purpose) -> Option<Reference> {
        let problem = Arc::clone(problem);
        let found = self.blocking(move |service| Ok(service.reference(&problem, purpose)));
        found.await.ok().flatten()
    }

    /// The roof of a problem, if it was measured.
    async fn roof(&self, problem: Arc<Problem>, purpose: Purpose) -> Option<f64> {
        let reference = self.reference(&problem, purpose).await?;
        reference.roofs.as_ref()?.gflops()
    }

    /// The answer to one candidate.
    async fn one(
        &self,
        candidate: Candidate,
        purpose: Purpose,
        client: &Client<'_>,
    ) -> Result<Arc<Answer>, String> {
        let request = Request {
            candidates: vec![candidate],
            purpose,
        };
        let answers = self.answers(request, client).await?;
        answers.into_iter().next().ok_or_else(panicked)
    }

    /// The answers to a request.
    async fn answers(
        &self,
        request: Request,
        client: &Client<'_>,
    ) -> Result<Vec<Arc<Answer>>, String> {
        let (service, budget) = (Arc::clone(&self.service), Arc::clone(&self.budget));
        let begun = tokio::task::spawn_blocking(move || Asking::begin(service, budget, request));
        let asking = begun.await.unwrap_or_else(|_| Err(panicked()))?;
        asking.wait(client).await?;
        Ok(asking.job.answers_from(0))
    }
}

fn finished<T: Serialize>(done: Result<T, String>) -> Result<Value, String> {
    done.map(|result| tools::success(&result))
}

fn panicked() -> String {
    "the service could not handle the call; its log says why".into()
}

/// A job of a call. The end of this value settles the budget, and withdraws the job if it is not done.
struct Asking {
    service: Arc<Service>,
    budget: Arc<Budget>,
    job: Arc<Job>,
    programs: u64,
}

impl Asking {
    fn begin(service: Arc<Service>, budget: Arc<Budget>, request: Request) -> Result<Self, String> {
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
    async fn wait(&self, client: &Client<'_>) -> Result<(), String> {
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

/// The speed of a program relative to the others, with the error that a single process adds.
fn log_ratio(measurement: &Measurement, purpose: Purpose) -> LogRatio {
    let placement = match purpose {
        Purpose::Screen | Purpose::Rank => PLACEMENT_LOG_SE,
        Purpose::Certify => 0.0,
    };
    let se = measurement.log_ratio_se.max(SYSTEMATIC_LOG_SE);
    LogRatio {
        value: measurement.ratio.ln(),
        se: se.hypot(placement),
    }
}

/// Ranks the programs of a call.
fn compared(
    answers: &[Arc<Answer>],
    roof: Option<f64>,
    budget: Option<Left>,
) -> Result<Compared, String> {
    let mut ids = answers.iter().filter(|answer| answer.measurement.is_some());
    let first_id = ids.next().and_then(|answer| answer.reference.as_ref());
    if ids.any(|answer| answer.reference.as_ref().map(|r| &r.id) != first_id.map(|r| &r.id)) {
        return Err("the plain reference was measured again in between, so these numbers do not compare; call the tool again".into());
    }
    let mut programs: Vec<Ranked> = answers
        .iter()
        .map(|answer| Ranked {
            program: answer.index,
            name: answer.id.clone(),
            rank: None,
            group: None,
            result: Found::of(answer, roof),
        })
        .collect();
    let measured: Vec<(usize, LogRatio, bool)> = answers
        .iter()
        .enumerate()
        .filter_map(|(index, answer)| {
            let measurement = answer.measurement.as_ref()?;
            let own = log_ratio(measurement, answer.purpose);
            Some((index, own, measurement.converged()))
        })
        .collect();
    let entries: Vec<Entry> = measured
        .iter()
        .map(|(_, own, converged)| Entry {
            own: *own,
            converged: *converged,
        })
        .collect();
    let ranking = ranking::rank(&entries, 1);
    for ((index, ..), place) in measured.iter().zip(&ranking.places) {
        if let (Some(program), Some(place)) = (programs.get_mut(*index), place) {
            program.rank = Some(place.rank);
            program.group = Some(place.group.clone());
        }
    }
    let beside_first = beside_first(&measured);
    let summary = in_words(&programs, &beside_first);
    Ok(Compared {
        summary,
        programs,
        beside_first,
        budget,
    })
}

/// The measured programs, each with its speed and whether that converged, beside program 0.
fn beside_first(measured: &[(usize, LogRatio, bool)]) -> Vec<BesideFirst> {
    let Some(((0, first, first_converged), others)) = measured.split_first() else {
        return Vec::new();
    };
    let pairs: Vec<(LogRatio, LogRatio)> =
        others.iter().map(|(_, own, _)| (*own, *first)).collect();
    let apart = told_apart(&pairs, 1);
    let beside = others.iter().zip(apart);
    beside
        .map(|((program, own, converged), apart)| {
            let over = own.over(*first);
            let verdict = if !(*converged && *first_converged) {
                Change::Unclear
            } else if apart && over.ratio > 1.0 {
                Change::Faster
            } else if apart {
                Change::Slower
            } else if over.is_told() && !over.is_a_difference() {
                Change::NoDifference
            } else {
                Change::Unclear
            };
            BesideFirst {
                program: *program,
                times_as_fast: over.ratio,
                interval: over.interval,
                verdict,
            }
        })
        .collect()
}

/// A comparison in words: numbers of programs, and no names of the caller.
fn in_words(programs: &[Ranked], beside_first: &[BesideFirst]) -> String {
    let first = programs.iter().find(|program| program.rank == Some(1));
    let Some(first) = first else {
        return "no program was measured precisely enough for a rank; see the results".into();
    };
    let group = first.group.as_deref().unwrap_or_default();
    let equal = programs.iter().filter(|other| {
        let own = other.group.as_deref();
        other.program != first.program && own.is_some_and(|own| ranking::letters::share(own, group))
    });
    let equal: Vec<String> = equal.map(|other| other.program.to_string()).collect();
    let mut words = if equal.is_empty() {
        format!("program {} is the fastest", first.program)
    } else {
        format!(
            "program {} has the first rank, but cannot be told from {}",
            first.program,
            equal.join(", ")
        )
    };
    for beside in beside_first {
        words.push_str(&format!(
            "; program {} is {} times as fast as program 0 (95 % interval {})",
            beside.program,
            four(beside.times_as_fast),
            between(&beside.interval)
        ));
    }
    words
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{CandidateFault, Failure, Verdict};
    use flopsmith_reward::Reward;
    use flopsmith_test_support::{Measured, wrong};

    use super::*;
    use crate::program::{Asked, Judged};
    use crate::wire::ReferenceSpeeds;

    fn answer(index: usize, verdict: Verdict, purpose: Purpose, reference: &str) -> Arc<Answer> {
        let judged = Judged {
            verdict,
            reference: Some(ReferenceSpeeds {
                id: reference.into(),
                gflops: 1.0,
                peak_gflops: 80.0,
                measured_unix_ms: 1,
            }),
            ..Judged::failed(Failure::candidate(CandidateFault::Format, ""))
        };
        let asked = Asked {
            id: format!("name of {index}"),
            problem: "dgemm".into(),
            purpose,
        };
        Arc::new(judged.answer(index, &asked, &Reward::default()))
    }

    fn of(purpose: Purpose, all: &[f64]) -> Compared {
        let verdicts = all
            .iter()
            .map(|gflops| Measured::at(*gflops).se(0.001).verdict());
        let answers: Vec<_> = verdicts
            .enumerate()
            .map(|(n, verdict)| answer(n, verdict, purpose, "r"))
            .collect();
        compared(&answers, Some(80.0), None).unwrap()
    }

    #[test]
    fn a_small_difference_between_single_processes_is_no_difference() {
        let ranked = of(Purpose::Rank, &[10.0, 10.3, 20.0]);
        let ranks: Vec<_> = ranked.programs.iter().map(|p| p.rank.unwrap()).collect();
        assert_eq!(ranks[2], 1, "{ranked:?}");
        assert_eq!(ranked.programs[0].group, ranked.programs[1].group);
        let verdicts: Vec<Change> = ranked.beside_first.iter().map(|b| b.verdict).collect();
        assert!(
            [Change::Unclear, Change::NoDifference].contains(&verdicts[0]),
            "{verdicts:?}"
        );
        assert_eq!(verdicts[1], Change::Faster);
        assert!(
            ranked.summary.starts_with("program 2 is the fastest"),
            "{}",
            ranked.summary
        );
        assert!((ranked.programs[2].result.share_of_roof.unwrap() - 0.25).abs() < 1e-12);
        // A certification measures many processes.
        let certified = of(Purpose::Certify, &[10.0, 10.3]);
        assert_eq!(certified.beside_first[0].verdict, Change::Faster);
    }

    #[test]
    fn equal_programs_share_the_first_rank_in_words() {
        let ranked = of(Purpose::Certify, &[10.0, 10.001]);
        assert!(
            ranked.summary.contains("cannot be told from"),
            "{}",
            ranked.summary
        );
        assert_eq!(ranked.beside_first[0].verdict, Change::NoDifference);
        assert!(!ranked.summary.contains("name of"), "{}", ranked.summary);
    }

    #[test]
    fn a_refused_or_imprecise_program_has_no_rank() {
        let unsure = Measured::at(50.0).unconverged().verdict();
        let answers = [
            answer(0, wrong(), Purpose::Rank, "r"),
            answer(1, Measured::at(10.0).verdict(), Purpose::Rank, "r"),
            answer(2, unsure, Purpose::Rank, "r"),
        ];
        let ranked = compared(&answers, None, None).unwrap();
        let ranks: Vec<_> = ranked.programs.iter().map(|p| p.rank).collect();
        assert_eq!(ranks, [None, Some(1), None]);
        assert!(ranked.beside_first.is_empty());
        assert_eq!(
            ranked.programs[0].result.reason.as_deref(),
            Some("wrong_result")
        );
        let none = compared(&answers[..1], None, None).unwrap();
        assert!(none.summary.starts_with("no program"), "{}", none.summary);
    }

    #[test]
    fn numbers_of_two_references_do_not_compare() {
        let verdict = || Measured::at(10.0).verdict();
        let answers = [
            answer(0, verdict(), Purpose::Rank, "r"),
            answer(1, verdict(), Purpose::Rank, "s"),
        ];
        let error = compared(&answers, None, None).unwrap_err();
        assert!(error.contains("measured again"), "{error}");
    }
}
