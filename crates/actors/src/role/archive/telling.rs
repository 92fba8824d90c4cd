//! The results of answers in words, for the next prompts of their conversations.

use std::collections::BTreeMap;

use flopsmith_agent::edit;
use flopsmith_agent::results::{FOUND, Found, Scale, document, evaluated, found};
use flopsmith_archive::Sqd;
use flopsmith_config::{Settings, TurnPrompt};
use flopsmith_generator::measured::exercises::{Feedback, follow_up};
use flopsmith_problem::Language;
use flopsmith_protocol::{
    EliteHint, Exchange, Measurement, Outcome, ProblemId, Purpose, Request, Requests, Task,
    TechniqueSet,
};

use super::{Archive, Working};
use crate::error::Error;
use crate::scale::scale_of;
use crate::stream;

/// Equal lines around a change that a policy is told of.
const AROUND: usize = 2;

/// Everything that results are told from. It does not change within a step, so the same answers get the same results.
pub(super) struct Telling<'a> {
    pub(super) prompt: TurnPrompt,
    /// The number of a step's last round, whose answers nothing follows.
    pub(super) last: u32,
    /// The scale and the language of each problem; none with brief prompts.
    pub(super) problems: BTreeMap<ProblemId, (Scale, Language)>,
    /// The elites of each problem.
    pub(super) stages: &'a BTreeMap<ProblemId, Sqd>,
    pub(super) documents: &'a BTreeMap<String, String>,
}

impl Telling<'_> {
    /// The answer to a task with its result, and the program that the next prompt of its conversation shows. With the prompts of
    /// an agent speeds are told in a scale, and the program is the fastest one so far, else the one with which the conversation
    /// began.
    pub(super) fn told(&self, task: &Task, outcome: &Outcome) -> (Exchange, Option<EliteHint>) {
        let shown = task.elite.as_ref();
        let request = outcome.asked();
        let (result, elite) = match (self.problems.get(&task.problem), request) {
            (Some((_, language)), Some(request)) => {
                (self.answered(task, request, *language), shown.cloned())
            }
            (Some((scale, _)), None) => evaluated_after(shown, outcome, scale),
            (None, _) => (follow_up(Feedback::of(&outcome.verdict)), shown.cloned()),
        };
        let said = Exchange {
            answer: outcome.source.clone(),
            request: request.cloned(),
            result,
        };
        (said, elite)
    }

    /// The result of a request in an answer to a task. No program that is shown has techniques that the task does not permit: the
    /// answers to come may not have them either.
    fn answered(&self, task: &Task, request: &Request, language: Language) -> String {
        match request {
            Request::Find { techniques, text } => {
                let sqd = self.stages.get(&task.problem);
                let elites = sqd.map(|sqd| sqd.archive().find(*techniques, task.permitted, text));
                let programs = elites.into_iter().flatten().take(FOUND);
                let programs: Vec<Found> = programs
                    .map(|(techniques, elite)| Found::elite(techniques, elite))
                    .collect();
                found(&programs, language)
            }
            Request::Read { document: name } => document(self.documents, name),
        }
    }
}

/// The result of a program that is evaluated after another one was shown, and the faster one of them.
fn evaluated_after(
    shown: Option<&EliteHint>,
    outcome: &Outcome,
    scale: &Scale,
) -> (String, Option<EliteHint>) {
    let program = shown.filter(|_| !outcome.source.is_empty());
    let difference = program.map_or_else(String::new, |shown| {
        edit::difference(&shown.source, &outcome.source, AROUND)
    });
    let gflops = outcome.verdict.measurement();
    let gflops = gflops.map(Measurement::known_gflops);
    let faster = gflops.filter(|gflops| shown.is_none_or(|shown| *gflops > shown.gflops));
    let fastest = faster.map(|gflops| EliteHint {
        techniques: outcome.techniques.unwrap_or_default(),
        source: outcome.source.clone(),
        gflops,
    });
    (
        evaluated(&outcome.verdict, &difference, scale),
        fastest.or_else(|| shown.cloned()),
    )
}

/// The requests that answers to a task of a step's first round may make: those that have a result, where another answer follows.
pub(super) fn requests(
    settings: &Settings,
    purpose: Purpose,
    sqd: Option<&Sqd>,
    permitted: TechniqueSet,
    documents: &BTreeMap<String, String>,
) -> Option<Requests> {
    let turns = &settings.turns;
    if purpose != Purpose::Train || turns.prompt != TurnPrompt::Agent || turns.most < 2 {
        return None;
    }
    let elites = sqd.map(|sqd| sqd.archive().find(TechniqueSet::EMPTY, permitted, ""));
    let sets = elites.into_iter().flatten().map(|(set, _)| set);
    let requests = Requests {
        finds: sets.reduce(TechniqueSet::union),
        documents: documents.keys().cloned().collect(),
    };
    (!requests.is_empty()).then_some(requests)
}

impl Archive {
    /// The material from which the results of the current step are told. A node publishes its roofs before it times a program.
    pub(super) async fn prompts_of<'a>(&self, work: &'a Working) -> Result<Telling<'a>, Error> {
        let settings = &self.context.settings;
        let mut problems = BTreeMap::new();
        if settings.turns.prompt == TurnPrompt::Agent {
            let facts = self.context.machine_facts().await?;
            let class = &self.context.host.machine_class;
            for outcome in work.arrived.values() {
                let id = &outcome.candidate.problem;
                if problems.contains_key(id) {
                    continue;
                }
                let of = match self.context.of(id) {
                    Some(of) => (scale_of(&of.problem, &facts, class), of.problem.language),
                    None => {
                        let fresh = stream::problem(settings, id)?;
                        (scale_of(&fresh, &facts, class), fresh.language)
                    }
                };
                problems.insert(id.clone(), of);
            }
        }
        Ok(Telling {
            prompt: settings.turns.prompt,
            last: settings.rounds(),
            problems,
            stages: &work.saved.sqd,
            documents: &work.documents,
        })
    }
}
