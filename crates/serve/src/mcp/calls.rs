//! Calls of tools on the service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flopsmith_evaluate::{lacks, unexplained};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, Question, harmless};
use flopsmith_run::digits::{four, share};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::arguments::{
    BestPrograms, Compare, Evaluate, ExplainBuild, ExplainRefusal, MOST_COMPARED, OfProblem,
    Problems, Roofline, arguments,
};
use super::asking::Asking;
use super::budget::{Budget, Budgets, Limits, Reserved, Share};
use super::builds::{self, BuildExplained, Explain};
use super::comparison::compared;
use super::explain;
use super::message::{self, Call};
use super::results::{
    self, BestList, Compared, Evaluated, Explained, Found, Left, PROVISIONAL, ProblemList, Roofed,
};
use super::tools::Tool;
use crate::auth::Holder;
use crate::describe::{Described, Listed};
use crate::reference::Reference;
use crate::roofs::Roofs;
use crate::service::Service;
use crate::wire::{Against, Answer, Candidate, Purpose, Request};

/// Length of the longest text about a mistake, bytes.
const LONGEST_WORDS: usize = 4000;

/// The expected use of a question about a build: one program, and the time of a build.
const QUESTION: Share = Share {
    programs: 1,
    time: Duration::from_secs(1),
};
/// The same of a profile, for which processes with PyTorch start.
const PROFILE: Share = Share {
    programs: 1,
    time: Duration::from_secs(20),
};

/// The tools, on a service.
#[derive(Clone)]
pub struct Tools {
    service: Arc<Service>,
    budgets: Arc<Budgets>,
    /// That of the holder.
    budget: Arc<Budget>,
    explain: Explain,
    /// The turn of a question about a program. At most one such question waits for the machine, so that evaluations take turns
    /// with questions, however many there are.
    question: Arc<tokio::sync::Mutex<()>>,
    holder: Holder,
}

/// Sends notifications about the progress of a call.
pub struct Progress {
    /// Names the call.
    pub token: Value,
    /// Sends a notification, or drops it if the client does not keep up.
    pub send: Box<dyn Fn(Value) + Send + Sync>,
}

/// The client of a call that is being performed.
pub struct Client<'a> {
    /// Hears of the progress, if it asked for that.
    pub progress: Option<Progress>,
    /// Cancelled once nobody waits for the result any more.
    pub gone: &'a CancellationToken,
}

impl Tools {
    /// The tools on a service, within these limits for each client. `explain` answers questions about programs.
    pub fn new(service: Arc<Service>, limits: Limits, explain: Explain) -> Self {
        let holder = Holder::default();
        let budgets = Budgets::new(limits);
        Self {
            service,
            budget: budgets.of(holder),
            budgets: Arc::new(budgets),
            explain,
            question: Arc::default(),
            holder,
        }
    }

    /// The same tools for this client, with its budget.
    pub fn of(self, holder: Holder) -> Self {
        Self {
            budget: self.budgets.of(holder),
            holder,
            ..self
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
            Tool::Evaluate => finished(arguments, |asked| self.evaluate(asked, &client)).await,
            Tool::Compare => finished(arguments, |asked| self.compare(asked, &client)).await,
            Tool::Roofline => finished(arguments, |asked| self.roofline(asked, &client)).await,
            Tool::ExplainRefusal => finished(arguments, |asked| self.explain(asked)).await,
            Tool::Problem => finished(arguments, |asked| self.problem(asked)).await,
            Tool::Problems => finished(arguments, |asked| self.problems(asked)).await,
            Tool::BestPrograms => finished(arguments, |asked| self.best_programs(asked)).await,
            Tool::ExplainBuild => {
                let done = finished(arguments, |asked| self.explain_build(asked, &client)).await;
                done.map(builds::checked)
            }
        };
        let result = done.unwrap_or_else(|why| results::failure(&harmless(&why, LONGEST_WORDS)));
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
        Ok(Described::of(&asked.problem, &problem))
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
        let beside = problem.compared_with();
        let (now, lists) = self
            .blocking(move |service| Ok(service.best(&problem)))
            .await?;
        let most = usize::try_from(asked.most.max(1)).unwrap_or(usize::MAX);
        Ok(BestList::of(lists, now.as_ref(), most, beside))
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
        let beside = problem.compared_with();
        let roofs = self.roofs(problem, purpose).await;
        Ok(Evaluated {
            found: Found::of(&answer, roofs.as_ref(), beside),
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
            against: Against::default(),
            dry_run: false,
        };
        let answers = self.answers(request, client).await?;
        let beside = problem.compared_with();
        let roofs = self.roofs(problem, asked.purpose).await;
        compared(&answers, roofs.as_ref(), beside, self.left())
    }

    async fn roofline(&self, asked: Roofline, client: &Client<'_>) -> Result<Roofed, String> {
        if asked.gflops.is_some_and(|gflops| gflops <= 0.0) {
            return Err("`gflops` is a speed above 0; leave it out if you have none".into());
        }
        let problem = self.find(&asked.problem, &asked.workloads).await?;
        if !problem.states_work() {
            return Err(format!(
                "this problem states no operations, so it has no roof; its programs are compared with {}, and `evaluate` says how many times as fast a program is",
                problem.compared_with()
            ));
        }
        let of_problem = Arc::clone(&problem);
        let known = self
            .blocking(move |service| Ok(service.valid_reference(&of_problem, Purpose::Screen)))
            .await?;
        let reference = match known {
            Some(reference) => reference,
            None => {
                // The roofs are measured with the reference, before a program of the problem.
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
        let roofs = &reference.roofs;
        let Some(roof) = roofs.gflops() else {
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
        if roofs.may_exceed() {
            summary
                .push_str("; data fit a cache at some size, so programs may exceed the roof there");
        }
        if speeds.defects() > 0 {
            summary.push_str(PROVISIONAL);
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

    async fn explain_build(
        &self,
        asked: ExplainBuild,
        client: &Client<'_>,
    ) -> Result<BuildExplained, String> {
        let problem = self.find(&asked.problem, &[]).await?;
        let question = Question::from(asked.what);
        if let Some(why) = unexplained(&problem, question) {
            return Err(why.into());
        }
        if let Some(other) = asked.language.filter(|l| !problem.languages().contains(l)) {
            return Err(format!(
                "a program for `{}` is a {}, and `language` says {}; leave it out for {}",
                asked.problem,
                problem.target(),
                other.name(),
                problem.language.name()
            ));
        }
        let expected = match question {
            Question::Profile => PROFILE,
            _ => QUESTION,
        };
        let explained = async move {
            let lacked = self.blocking(move |_| Ok(lacks(question))).await?;
            if let Some(why) = lacked {
                return Err(format!("{why} Ask for `assembly`, or tell your user."));
            }
            let reserved = Reserved::of(&self.budget, expected)?;
            let first = Arc::clone(&self.question).lock_owned().await;
            let turn = self.service.turn().await;
            let (explain, budget) = (Arc::clone(&self.explain), Arc::clone(&self.budget));
            self.blocking(move |_| {
                // An answer that nobody waits for any more goes on to its end, keeps its turn and counts.
                let _turns = (first, turn);
                let language = asked.language.unwrap_or(problem.language);
                let began = Instant::now();
                let answer = explain(question, language, &problem, &asked.source);
                // As an evaluation: a failure of the machine says nothing about the program.
                let counts = matches!(answer, Ok(_) | Err(Failure::Candidate { .. }));
                reserved.settle(Share {
                    programs: u64::from(counts),
                    time: began.elapsed(),
                });
                Ok(BuildExplained::of(question, answer, budget.left()))
            })
            .await
        };
        tokio::select! {
            explained = explained => explained,
            () = client.gone.cancelled() => {
                Err("the question was given up, because the connection or the service ends; call the tool again".into())
            }
        }
    }

    fn left(&self) -> Option<Left> {
        self.budget.left()
    }

    async fn reference(&self, problem: &Arc<Problem>, purpose: Purpose) -> Option<Reference> {
        let problem = Arc::clone(problem);
        let found = self.blocking(move |service| Ok(service.reference(&problem, purpose)));
        found.await.ok().flatten()
    }

    /// The roofs of a problem, if they were measured.
    async fn roofs(&self, problem: Arc<Problem>, purpose: Purpose) -> Option<Roofs> {
        let reference = self.reference(&problem, purpose).await?;
        Some(reference.roofs)
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
            against: Against::default(),
            dry_run: false,
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
        let holder = self.holder;
        let begun = move || Asking::begin(service, budget, request, holder);
        let begun = tokio::task::spawn_blocking(begun);
        let asking = begun.await.unwrap_or_else(|_| Err(panicked()))?;
        asking.wait(client).await?;
        Ok(asking.job.answers_from(0))
    }
}

/// Performs a call with the arguments that it reads.
async fn finished<A, T, F>(
    given: Map<String, Value>,
    perform: impl FnOnce(A) -> F,
) -> Result<Value, String>
where
    A: DeserializeOwned,
    T: Serialize,
    F: Future<Output = Result<T, String>>,
{
    let asked = arguments(given)?;
    perform(asked).await.map(|result| results::success(&result))
}

/// The error of a call whose handling panicked.
pub fn panicked() -> String {
    "the service could not handle the call; its log says why".into()
}
