//! Calls of a program with the sizes of a sweep.

use std::time::Instant;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::cases::{Case, Yardstick};
use super::pool::other_distribution;
use super::sweep::Sweep;
use super::{Verifier, arena_for, call, passed};
use crate::Failure;
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
        let began = Instant::now();
        let mut own: Option<(Arena, Yardstick)> = None;
        let mut worst: f64 = 0.0;
        for (done, params) in sweep.sizes.iter().enumerate() {
            if !sweep.goes_on(done, began.elapsed()) {
                self.end(own)?;
                return Ok((done, worst));
            }
            let placing = if rng.random() {
                Placing::AtStart
            } else {
                Placing::AtEnd
            };
            if let Some(case) = self.pool.of_size(params) {
                worst = worst.max(self.meet(case, placing, process, rng)?);
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
            worst = worst.max(self.meet(&case, placing, process, rng)?);
        }
        self.end(own)?;
        Ok((sweep.sizes.len(), worst))
    }

    fn end(&self, own: Option<(Arena, Yardstick)>) -> Result<(), Failure> {
        own.map_or(Ok(()), |(_, yardstick)| yardstick.exit())
    }

    /// Has a program called once with a case: the error as a share of the bound.
    fn meet(
        &self,
        case: &Case,
        placing: Placing,
        process: &mut Process,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, Failure> {
        let placement = self.lay_out(case, &self.arena, placing, process, rng)?;
        let result =
            call(case, process).and_then(|()| passed(case, &case.judge(&self.arena, &placement)));
        self.arena.restore(&placement);
        result
    }
}
