//! Calls of a program with the sizes of a sweep.

use std::time::Duration;

use flopsmith_protocol::{CandidateFault, Failure};
use nix::time::{ClockId, clock_gettime};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::cases::{Case, Yardstick};
use super::pool::other_distribution;
use super::sweep::Sweep;
use super::{Verifier, arena_for, call, passed};
use crate::supervise::{Arena, Placing, Process};

impl Verifier {
    /// Has a program called with the sizes of a sweep, as far as time permits: how many these were, and the worst error as a share
    /// of the bound. The problem's own programs work in memory that the candidate never sees: it is alive, and what it may have
    /// left running must not change what it is held against.
    pub(super) fn sweep(
        &self,
        sweep: &Sweep,
        process: &mut Process,
        rng: &mut ChaCha8Rng,
    ) -> Result<(usize, f64), Failure> {
        let began = own_time();
        let mut spent = Spent::default();
        let mut own: Option<(Arena, Yardstick)> = None;
        let mut worst: f64 = 0.0;
        for (done, params) in sweep.sizes.iter().enumerate() {
            // Processor time, as of the calls: a machine that others use makes nobody's work longer.
            let here = own_time().saturating_sub(began + spent.called);
            let reference = own.as_mut().map(|(_, yardstick)| yardstick.cpu_time());
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
            let (arena, yardstick) = match &mut own {
                Some(own) => own,
                None => {
                    let arena = arena_for(&self.problem)?;
                    let yardstick = self.start_yardstick(&arena)?;
                    own.insert((arena, yardstick))
                }
            };
            let content = other_distribution(&self.problem, rng);
            let case = Case::draw(
                &self.problem,
                params.clone(),
                content,
                arena,
                yardstick,
                rng,
            )?;
            worst = worst.max(self.meet(&case, placing, process, rng, &mut spent)?);
        }
        self.end(own)?;
        Ok((sweep.sizes.len(), worst))
    }

    fn end(&self, own: Option<(Arena, Yardstick)>) -> Result<(), Failure> {
        own.map_or(Ok(()), |(_, yardstick)| yardstick.exit())
    }

    /// Has a program called once with a case: the error as a share of the bound. Adds what the call took to `spent`.
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

/// What a program's calls took, in processor time.
#[derive(Default)]
struct Spent {
    /// Of this thread, which waits for them: no work of our own.
    called: Duration,
    /// Of the program.
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
            "calls with {done} sizes took {:.1} s of processor time; the limit beside the reference is {:.1} s",
            used.as_secs_f64(),
            limit.as_secs_f64()
        ),
    )
}
