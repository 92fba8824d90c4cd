//! Kernels with a known difference in speed, by construction.

use flopsmith_generator::schedule::{Body, Outer, Pack, Schedule};
use flopsmith_measure::{Purpose, Timer};

use super::again::Again;
use super::{Done, Laboratory};

/// A fast kernel that every machine of the last ten years can run.
pub const FAST: Schedule = Schedule {
    vector: 32,
    body: Body::Tile {
        rows: 4,
        columns: 2,
        outer: Outer::Column,
        pack: Pack::Panel,
    },
    ..Schedule::PLAIN
};

/// Number of steps for the measurement of one step's time: about as long as a call of a fast kernel.
const MANY_STEPS: u64 = 200_000;

/// The same kernel after some steps of further work that do not change the result. Each step needs the one before it,
/// and no compiler knows a shorter way, so a step takes the same time, independent of the kernel's bottleneck.
pub fn delayed(source: &str, steps: u64) -> Done<String> {
    let open = source
        .find("void dgemm(")
        .and_then(|at| source[at..].find('{').map(|open| at + open + 1))
        .ok_or("the kernel does not define dgemm")?;
    let (head, body) = source.split_at(open);
    Ok(format!(
        "{head}\n unsigned long lag=n;\n for(long step=0;step<{steps};step++)lag=(lag^(lag>>7))*6364136223846793005ul;\n \
         volatile unsigned long sink=lag;\n{body}"
    ))
}

/// Time of one step, in seconds.
pub fn seconds_per_step(
    laboratory: &Laboratory,
    timer: &mut Timer,
    again: &mut Again,
    source: &str,
) -> Done<f64> {
    let mut seconds = [0.0; 2];
    for (seconds, steps) in seconds.iter_mut().zip([16, 16 + MANY_STEPS]) {
        let object = laboratory.compile(&delayed(source, steps)?)?;
        let timed = again.measured(|| timer.measure(&object, Purpose::Rank, steps, None))?;
        *seconds = timed.measurement.seconds_per_call;
    }
    let step = (seconds[1] - seconds[0]) / MANY_STEPS as f64;
    if step > 0.0 {
        Ok(step)
    } else {
        Err("this machine is too noisy to size a delay".into())
    }
}
