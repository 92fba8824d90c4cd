//! Requests whose candidates are compared with a program: that is measured first, so that a fault of it costs no candidate.

use std::sync::Arc;

use flopsmith_protocol::Digest;

use super::{Service, Unit};
use crate::against::{Comparison, POINTER};
use crate::auth::Holder;
use crate::best::Entry;
use crate::job::Job;
use crate::journal::Idempotency;
use crate::program::Program;
use crate::refusal::{Mistake, Refusal};
use crate::wire::{Against, Candidate, DryRun, KnownProgram, Request};

/// The first step of a request.
pub enum First {
    /// The request has a job.
    Job(Arc<Job>),
    /// It is a dry run.
    Foretold(DryRun),
    /// This job measures the program that the candidates are compared with. The request gets its own job by
    /// [`Service::submit_comparing`] once that is done.
    Measuring(Arc<Job>, Request),
}

impl Service {
    /// Makes a job of a client's request, or first of the program that its candidates are compared with. A program that the client
    /// named a short time before has the job of that time.
    ///
    /// # Errors
    /// As [`Service::submit`].
    pub fn begin(
        &self,
        request: Request,
        idempotency: Option<&Idempotency>,
        holder: Holder,
    ) -> Result<First, Refusal> {
        if request.dry_run {
            return self.foretell(&request, holder).map(First::Foretold);
        }
        if request.against.is_reference() {
            let (job, _) = self.submit(request, idempotency, holder)?;
            return Ok(First::Job(job));
        }
        let units = self.units(&request)?;
        self.check_tools(&request, &units)?;
        if let Some(wanted) = idempotency
            && let Some(job) = self.job_of_key(wanted)?
        {
            return Ok(First::Job(job));
        }
        let Some((candidate, program)) = self.against(&request)? else {
            let (job, _) = self.submit(request, idempotency, holder)?;
            return Ok(First::Job(job));
        };
        // A request that has no room measures nothing.
        self.check_room(units.len() + 1, holder)?;
        let alone = Request {
            candidates: vec![candidate],
            purpose: request.purpose,
            against: Against::default(),
            dry_run: false,
        };
        let asked = Digest::of(format!("against {}", program.key()).as_bytes());
        let job = self.once(alone, Comparison::Measured, asked, holder)?;
        Ok(First::Measuring(job, request))
    }

    /// The program that the candidates of a checked request are compared with; none if that is the plain reference.
    pub(super) fn against(
        &self,
        request: &Request,
    ) -> Result<Option<(Candidate, Arc<Program>)>, Refusal> {
        let mistaken = |pointer: &str, detail: String| {
            Refusal::invalid(vec![Mistake {
                pointer: pointer.to_owned(),
                detail,
            }])
        };
        let Some((first, others)) = request.candidates.split_first() else {
            return Ok(None);
        };
        let is_same =
            |c: &Candidate| (&c.problem, &c.workloads) == (&first.problem, &first.workloads);
        let (source, language) = match &request.against {
            Against::Known(KnownProgram::Reference) => return Ok(None),
            _ if !others.iter().all(is_same) => {
                let detail = "the candidates name several problems or workloads, and they are compared with a program for one; send a request for each";
                return Err(mistaken(POINTER, detail.into()));
            }
            Against::Known(KnownProgram::Best) => {
                let best = self.fastest(first).map_err(|why| mistaken(POINTER, why))?;
                (best.source, Some(best.language))
            }
            Against::Own(own) => (own.source.clone(), own.language),
        };
        let candidate = Candidate {
            problem: first.problem.clone(),
            workloads: first.workloads.clone(),
            source: Some(source),
            language,
            ..Candidate::default()
        };
        match self.unit(&candidate, request) {
            Ok(Unit::Program(program)) => Ok(Some((candidate, program))),
            // A source is a program, whatever is in it.
            Ok(Unit::Decided(_)) => Err(mistaken(POINTER, "there is no program in it".into())),
            Err(mistake) => {
                let pointer = match (&request.against, mistake.pointer.as_str()) {
                    (Against::Own(_), "language") => "/against/language",
                    _ => POINTER,
                };
                Err(mistaken(pointer, mistake.detail))
            }
        }
    }

    /// The fastest program that was measured for the problem of a candidate, in the circumstances of now.
    fn fastest(&self, candidate: &Candidate) -> Result<Entry, String> {
        let problem = self
            .catalog
            .find(&candidate.problem, &candidate.workloads)?;
        let (now, lists) = self.best(&problem);
        let here = lists
            .into_iter()
            .find(|list| Some(&list.circumstances) == now.as_ref());
        let fastest = here.and_then(|list| list.programs.into_iter().next());
        fastest.ok_or_else(|| {
            format!(
                "no measurement of a program for `{}` has converged on this machine with this compiler yet; send a program, or leave `against` out",
                candidate.problem
            )
        })
    }
}
