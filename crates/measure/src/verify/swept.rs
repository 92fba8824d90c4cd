//! Calls of a program with the sizes of a sweep.

use std::time::Duration;

use flopsmith_protocol::{CandidateFault, Failure};
use nix::time::{ClockId, clock_gettime};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::cases::{Case, ReferenceProcesses};
use super::pool::other_distribution;
use super::sweep::Sweep;
use super::{Verifier, arena_for, call, passed};
use crate::supervise::{Arena, Placing, Process};

impl Verifier {
    /// Calls a program with the sizes of a sweep, as far as time permits. Returns how many sizes these were, and the
    /// worst error as a share of the bound. The problem's own programs work in memory that the candidate never sees:
    /// the candidate's process is alive, and anything it may have left running must not change the results it is
    /// compared with.
    pub(super) fn sweep(
        &self,
        sweep: &Sweep,
        process: &mut Process,
        rng: &mut ChaCha8Rng,
    ) -> Result<(usize, f64), Failure> {
        let began = own_time();
        let mut spent = Spent::default();
        let mut own: Option<(Arena, ReferenceProcesses)> = None;
        let mut worst: f64 = 0.0;
        for (done, params) in sweep.sizes.iter().enumerate() {
            // Processor time, as for the calls: other processes on the machine do not make it longer.
            let here = own_time().saturating_sub(began + spent.called);
            let reference = own.as_mut().map(|(_, references)| references.cpu_time());
            let work = here + reference.transpose()?.unwrap_or_default();
            let limit = Sweep::limit_of_calls(work) * self.threads.max(1);
            if spent.used > limit {
                self.end(own)?;
                return Err(too_slow(done, spent.used, limit));
            }
            if !sweep.goes_on(done, work) {
                self.end(own)?;
                return Ok((done, worst));
            }
            let placing = if rng.random() {
                Placing::AtStart
            } else {
                Placing::AtEnd
            };
            if let Some(case) = self.pool.of_size(params) {
                worst = worst.max(self.meet(case, placing, process, rng, &mut spent)?);
                continue;
            }
            let (arena, references) = match &mut own {
                Some(own) => own,
                None => {
                    let arena = arena_for(&self.problem)?;
                    let references = self.start_references(&arena)?;
                    own.insert((arena, references))
                }
            };
            let content = other_distribution(&self.problem, rng);
            let case = Case::draw(
                &self.problem,
                params.clone(),
                content,
                arena,
                references,
                rng,
            )?;
            worst = worst.max(self.meet(&case, placing, process, rng, &mut spent)?);
        }
        self.end(own)?;
        Ok((sweep.sizes.len(), worst))
    }

    fn end(&self, own: Option<(Arena, ReferenceProcesses)>) -> Result<(), Failure> {
        own.map_or(Ok(()), |(_, references)| references.exit())
    }

    /// Calls a program once with a case. Returns the error as a share of the bound, and adds the call's time to
    /// `spent`.
    fn meet(
        &self,
        case: &Case,
        placing: Placing,
        process: &mut Process,
        rng: &mut ChaCha8Rng,
        spent: &mut Spent,
    ) -> Result<f64, Failure> {
        let placement = self.lay_out(case, &self.arena, placing, process, rng)?;
        let (began, before) = (own_time(), process.cpu_time()?);
        let returned = call(case, process);
        spent.called += own_time().saturating_sub(began);
        let result = returned.and_then(|()| passed(case, &case.judge(&self.arena, &placement)));
        self.arena.restore(&placement);
        let share = result?;
        spent.used += process.cpu_time()?.saturating_sub(before);
        Ok(share)
    }
}

/// Processor time during a program's calls.
#[derive(Default)]
struct Spent {
    /// Used by this thread while it waits for the calls: no work of our own.
    called: Duration,
    /// Used by the program.
    used: Duration,
}

/// Processor time that this thread has used so far.
fn own_time() -> Duration {
    // Every Linux has this clock.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn too_slow(done: usize, used: Duration, limit: Duration) -> Failure {
    Failure::candidate(
        CandidateFault::Timeout,
        format!(
            "calls with {done} sizes took {:.1} s of processor time; the limit, which follows from the time of the reference, is {:.1} s",
            used.as_secs_f64(),
            limit.as_secs_f64()
        ),
    )
}
