//! The measurements after the end of a run whose programs the workers of a cluster evaluate: the workers make these
//! measurements as well.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flopsmith_actors::node::unix_ms;
use flopsmith_actors::role::recorder::note_machine;
use flopsmith_bus::Bus;
use flopsmith_config::Settings;
use flopsmith_protocol::subjects::{self, Queue};
use flopsmith_protocol::{
    Candidate, CandidateId, CandidateRef, MachineFacts, Measurement, Outcome, ProblemId, Purpose,
    Verdict,
};
use flopsmith_store::Store;
use tokio_util::sync::CancellationToken;

use crate::console::say;
use crate::folder::Folder;
use crate::record;
use crate::summary::{Certified, Facts, by_problem, outcomes, to_certify};

/// Number of requests for a program whose failure is not its own fault.
const ATTEMPTS: u32 = 2;
/// Time without an outcome after which the user is told that the workers do not answer.
const SILENCE: Duration = Duration::from_secs(120);

/// Has the workers certify the fastest programs of a finished run. False if the wait was stopped before its end; then,
/// and after an error, the run stays as it was and can be concluded later.
pub async fn conclude(
    bus: &Bus,
    store: &Store,
    settings: &Settings,
    folder: &Folder,
    facts: &mut Facts,
    stopped: &CancellationToken,
) -> Result<bool> {
    let all = by_problem(outcomes(&folder.path)?);
    let count = settings.evaluate.finalists as usize;
    let fastest = fastest(&all, count, facts);
    let mut certified = Vec::new();
    let mut refused = Vec::new();
    if !fastest.is_empty() {
        say("finishing: the workers measure the fastest programs once more…");
    }
    let mut asked = Asked::new(bus, &fastest).await?;
    while let Some((first, outcome)) = asked.next(stopped).await? {
        match outcome.verdict {
            Verdict::Measured { measurement } => {
                let record = keep(bus, store, folder, &first, &measurement).await?;
                certified.push(Certified {
                    candidate: first.candidate.id.clone(),
                    measurement,
                    record,
                    machine_busy: None,
                });
            }
            verdict => {
                say(&format!(
                    "warning: {} was among the fastest programs, and its final certification refused it ({}); it does not count",
                    first.candidate.id,
                    verdict.kind()
                ));
                refused.push(first.candidate.id.clone());
            }
        }
    }
    if stopped.is_cancelled() {
        return Ok(false);
    }
    facts.certified = certified;
    facts.refused = refused;
    facts.concluded = true;
    folder.write_facts(facts)?;
    Ok(true)
}

/// The programs to certify. A stream's fresh nests have none: there are as many as tasks, and the results count them only.
fn fastest<'a>(
    all: &'a BTreeMap<ProblemId, Vec<Outcome>>,
    count: usize,
    facts: &Facts,
) -> Vec<&'a Outcome> {
    let shown = |id: &ProblemId| facts.problems.is_empty() || facts.problems.contains(id);
    let of_each = all.iter().filter(|(id, _)| shown(id));
    of_each
        .flat_map(|(_, outcomes)| to_certify(outcomes, count, facts.start.as_ref()))
        .collect()
}

/// Programs that the workers are to measure once more.
struct Asked<'a> {
    bus: &'a Bus,
    log: Option<flopsmith_bus::LogReader<Outcome>>,
    /// A number that is larger than in all earlier sessions; the ids of requests are made of it.
    began: u32,
    /// Outcomes of requests of earlier sessions.
    said: Vec<Outcome>,
    /// Programs without an outcome, by the id of the latest request, each with the number of requests in this session.
    waiting: BTreeMap<CandidateId, (&'a Outcome, u32)>,
    /// Programs that an earlier session requested and that have an outcome, each with that outcome.
    done: Vec<(Outcome, Outcome)>,
}

impl<'a> Asked<'a> {
    async fn new(bus: &'a Bus, programs: &[&'a Outcome]) -> Result<Self> {
        let mut asked = Self {
            bus,
            log: None,
            // Seconds since 1970.
            began: u32::try_from(unix_ms() / 1000).unwrap_or(u32::MAX),
            said: Vec::new(),
            waiting: BTreeMap::new(),
            done: Vec::new(),
        };
        let Some(first) = programs.first() else {
            return Ok(asked);
        };
        let subject = subjects::outcome(&first.candidate.run);
        let mut log = bus.log::<Outcome>(&subject, 0).await?;
        for (_, outcome) in log.replay().await? {
            if outcome.candidate.finalist {
                asked.said.push(outcome);
            }
        }
        asked.log = Some(log);
        for program in programs {
            asked.ask(program, 1).await?;
        }
        Ok(asked)
    }

    /// Requests a measurement, unless an earlier outcome gives a verdict on the program. Each request has an id of its
    /// own, since the bus drops a repeated id.
    async fn ask(&mut self, program: &'a Outcome, attempt: u32) -> Result<()> {
        let first = &program.candidate;
        let of = |said: &&Outcome| said.candidate.remeasures.as_ref() == Some(&first.id);
        let known = self.said.iter().filter(of).find(|o| o.verdict.counts());
        if let Some(outcome) = known {
            self.done.push((program.clone(), outcome.clone()));
            return Ok(());
        }
        let number = self.began.saturating_add(attempt);
        let id = first.id.final_one().remeasured(number);
        let message = Candidate {
            candidate: CandidateRef {
                id: id.clone(),
                purpose: Purpose::Certify,
                remeasures: Some(first.id.clone()),
                finalist: true,
                ..first.clone()
            },
            source: program.source.clone(),
            answer: None,
        };
        let queue = Queue::compile(&first.machine_class).of(&first.run);
        self.bus.publish(&queue, &message).await?;
        self.waiting.insert(id, (program, attempt));
        Ok(())
    }

    /// The next program and its outcome; `None` when all programs are done or a stop is requested.
    async fn next(&mut self, stopped: &CancellationToken) -> Result<Option<(Outcome, Outcome)>> {
        loop {
            if let Some(done) = self.done.pop() {
                return Ok(Some(done));
            }
            let Some(log) = self.log.as_mut().filter(|_| !self.waiting.is_empty()) else {
                return Ok(None);
            };
            let outcome = tokio::select! {
                biased;
                () = stopped.cancelled() => return Ok(None),
                next = tokio::time::timeout(SILENCE, log.next()) => match next {
                    Ok(next) => next?.1,
                    Err(_) => {
                        self.still_there().await?;
                        continue;
                    }
                },
            };
            let Some((program, attempt)) = self.waiting.remove(&outcome.candidate.id) else {
                continue;
            };
            if outcome.verdict.counts() {
                return Ok(Some((program.clone(), outcome)));
            }
            let detail = match &outcome.verdict {
                Verdict::Infrastructure { detail, .. } | Verdict::Unknown { detail, .. } => detail,
                Verdict::Measured { .. } | Verdict::Rejected { .. } => "",
            };
            anyhow::ensure!(
                attempt < ATTEMPTS,
                "{}, one of the fastest programs, could not be measured once more ({}: {detail}); give --resume to try again",
                program.candidate.id,
                outcome.verdict.kind(),
            );
            self.ask(program, attempt + 1).await?;
        }
    }

    /// Returns an error if no message of the run is queued or in work any more, so that the missing outcomes will never
    /// come. The caller calls it after [`SILENCE`].
    async fn still_there(&self) -> Result<()> {
        let Some((program, _)) = self.waiting.values().next() else {
            return Ok(());
        };
        let queued = self.bus.queued(&program.candidate.run).await?;
        anyhow::ensure!(
            queued > 0,
            "{}, one of the fastest programs, was not measured once more, because no role could process its message (see `flopsmith dead list`); give --resume to try again",
            program.candidate.id
        );
        say(&format!(
            "still waiting for {} measurements; check that workers of the run's machine class are at work",
            self.waiting.len()
        ));
        Ok(())
    }
}

/// Writes the record of a number: the samples come from the store, the attestation from the machine that measured.
async fn keep(
    bus: &Bus,
    store: &Store,
    folder: &Folder,
    program: &Outcome,
    measurement: &Measurement,
) -> Result<Option<String>> {
    let Some(samples) = &measurement.samples else {
        return Ok(None);
    };
    let raw = store.get(samples).await?;
    let machine = machine(bus, &folder.path, program, measurement).await?;
    let json = record::json(
        &program.source,
        measurement,
        &raw,
        &machine.attestation_json,
    )?;
    let id = program.candidate.id.as_str();
    Ok(Some(record::keep(&folder.path, id, &json)?))
}

/// The facts of the machine that attested a measurement; they are added to the run's machines.
async fn machine(
    bus: &Bus,
    folder: &Path,
    program: &Outcome,
    measurement: &Measurement,
) -> Result<MachineFacts> {
    let subject = subjects::machine(&program.candidate.run);
    let mut log = bus.log::<MachineFacts>(&subject, 0).await?;
    let mut said = log.replay().await?.into_iter().map(|(_, facts)| facts);
    let machine = said
        .rfind(|facts| facts.attestation == measurement.attestation)
        .with_context(|| {
            format!(
                "no machine attested the measurement of {}",
                program.candidate.id
            )
        })?;
    note_machine(folder, &machine)?;
    Ok(machine)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::{first, measured};

    use super::*;

    #[test]
    fn a_stream_certifies_programs_for_the_nests_of_its_evaluations_only() {
        let id = |name: &str| ProblemId::new(name).unwrap();
        let of = |name: &str, sample| {
            let mut outcome = first(sample, name, "simd", measured(40.0));
            outcome.candidate.problem = id(name);
            outcome
        };
        let all = by_problem(vec![of("random_2", 0), of("random_3", 1)]);
        let sources = |problems: &[&str]| -> Vec<&str> {
            let facts = Facts {
                problems: problems.iter().map(|name| id(name)).collect(),
                ..Facts::default()
            };
            let found = fastest(&all, 1, &facts);
            found.into_iter().map(|o| o.source.as_str()).collect()
        };
        assert_eq!(sources(&["random_2"]), ["random_2"]);
        assert_eq!(sources(&["random_2", "random_3"]).len(), 2);
        assert_eq!(sources(&[]).len(), 2, "a run with one problem lists none");
    }
}
