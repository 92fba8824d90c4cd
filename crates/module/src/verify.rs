//! Verification: results on fresh inputs and parameters, compared with a float64 run of the reference.

use std::time::{Duration, Instant};

use flopsmith_protocol::CandidateFault;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::arena::Arena;
use crate::baseline::Baseline;
use crate::compare::{Output, POISON, compare};
use crate::error::Error;
use crate::outcome::Failure;
use crate::problem::{Problem, Workload};
use crate::reference::{ALIASED, DENSE, Expected, Layout, Loaded, Place, Reference};
use crate::worker::{SLOW, Stop, Worker};

/// Longest call of a module whose kernels Triton's interpreter runs.
const INTERPRETED: Duration = Duration::from_secs(120);

/// Longest time of the verification of compiled extensions in all, as long as roles give Triton's interpreter: a role may
/// hold a job for 15 minutes, in which others wait.
const COMPILED: Duration = Duration::from_secs(240);

/// How long calls in verification may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// One call.
    call: Duration,
    /// The end of all calls.
    end: Instant,
}

impl Patience {
    /// For compiled extensions.
    pub fn compiled() -> Self {
        Patience {
            call: SLOW,
            end: Instant::now() + COMPILED,
        }
    }

    /// For kernels that are interpreted, for this long in all.
    pub fn interpreted(all: Duration) -> Self {
        Patience {
            call: INTERPRETED,
            end: Instant::now() + all,
        }
    }

    /// The limit of the next call.
    fn limit(self) -> Duration {
        let left = self.end.saturating_duration_since(Instant::now());
        self.call.min(left)
    }
}

/// The trusted processes of one workload.
pub(crate) struct Bench {
    /// The workload.
    pub workload: Workload,
    /// Its tensors.
    pub loaded: Loaded,
    /// The eager module, which makes inputs and expected results too.
    pub eager: Reference,
    /// The module compiled by TorchInductor, for each baseline that needs it.
    pub compiled: Vec<(Baseline, Reference)>,
}

/// The inputs of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lot<'a> {
    /// The distribution of their values.
    pub distribution: &'a str,
    /// How they lie in memory: [`DENSE`] or another form of the workload.
    pub form: &'a str,
}

impl<'a> Lot<'a> {
    /// Dense inputs of a distribution.
    pub fn dense(distribution: &'a str) -> Self {
        Lot {
            distribution,
            form: DENSE,
        }
    }

    /// Says in the detail of a failure which inputs it had.
    fn name(self, stop: Stop) -> Stop {
        match stop {
            Stop::Candidate(mut failure) => {
                let detail = &failure.detail;
                failure.detail = match self.form {
                    DENSE => format!("{detail} (inputs: {})", self.distribution),
                    form => format!("{detail} (inputs: {}, {form})", self.distribution),
                };
                Stop::Candidate(failure)
            }
            ours => ours,
        }
    }
}

impl Bench {
    /// Makes fresh dense inputs of a distribution, and fresh parameters if asked for. Returns the bytes of both.
    pub fn fresh(
        &mut self,
        rng: &mut ChaCha8Rng,
        distribution: &str,
        parameters: bool,
    ) -> Result<Vec<u8>, Error> {
        self.make(rng, Lot::dense(distribution), parameters)?;
        // Not more, since timed calls would find their inputs farther from the cores.
        self.eager.arena.read(0, self.loaded.layout.upstream_at)
    }

    /// Makes fresh inputs and parameters. Returns the bytes of all that a candidate gets, also upstream gradients and inputs
    /// of other forms.
    fn fresh_lot(&mut self, rng: &mut ChaCha8Rng, lot: Lot) -> Result<Vec<u8>, Error> {
        self.make(rng, lot, true)?;
        self.eager.arena.read(0, self.loaded.layout.outputs_at)
    }

    fn make(&mut self, rng: &mut ChaCha8Rng, lot: Lot, parameters: bool) -> Result<(), Error> {
        // Python's generators take seeds below 2^63.
        let mut seed = || rng.random::<u64>() >> 1;
        self.eager.make_inputs(seed(), lot.distribution, lot.form)?;
        if parameters {
            self.eager.make_parameters(seed(), true)?;
        }
        Ok(())
    }
}

/// Builds the candidate's module for a workload, in a process that has loaded the candidate.
pub(crate) fn build(worker: &mut Worker, bench: &Bench, state: &[u8]) -> Result<(), Stop> {
    let loaded = &bench.loaded;
    worker.arena.write(0, state)?;
    worker.ask(
        &json!({
            "do": "build",
            "init": loaded.init,
            "dtype": bench.workload.dtype,
            "parameters": loaded.places["parameters"],
        }),
        SLOW,
    )?;
    give(worker, bench, DENSE)
}

/// Tells a process that has built the candidate's module where inputs and outputs lie, and the form of the inputs.
fn give(worker: &mut Worker, bench: &Bench, form: &str) -> Result<(), Stop> {
    let loaded = &bench.loaded;
    worker.ask(
        &json!({
            "do": "workload",
            "inputs": loaded.places["inputs"],
            "outputs": loaded.places["outputs"],
            "upstream": loaded.places["upstream"],
            "gradients": loaded.places["gradients"],
            "single": loaded.single,
            "form": form,
        }),
        SLOW,
    )
}

/// Gives a process inputs, and fills its outputs with NaN.
pub(crate) fn prepare(arena: &Arena, layout: &Layout, state: &[u8]) -> Result<(), Error> {
    arena.write(0, state)?;
    let poison = vec![POISON; (layout.expected_at - layout.outputs_at) as usize];
    arena.write(layout.outputs_at, &poison)
}

/// The bytes of all outputs, and of all gradients behind them, that a call has left.
pub(crate) fn outputs(worker: &Worker, bench: &Bench) -> Result<Vec<u8>, Error> {
    let layout = &bench.loaded.layout;
    worker.arena.read(layout.outputs_at, layout.expected_at)
}

/// Refuses a call that changed its inputs.
pub(crate) fn inputs_are_whole(worker: &Worker, bench: &Bench, state: &[u8]) -> Result<(), Stop> {
    let end = bench.loaded.layout.parameters_at.min(state.len() as u64);
    let now = worker.arena.read(0, end)?;
    if now != state[..end as usize] {
        let detail = "the call changed its inputs";
        return Err(Failure::new(CandidateFault::InputModified, detail).into());
    }
    Ok(())
}

/// Refuses a call that changed its inputs in any form, or the gradients of its results. Inputs of other forms and upstream
/// gradients lie behind the parameters, of which the worker has copies.
fn all_is_whole(worker: &Worker, bench: &Bench, state: &[u8]) -> Result<(), Stop> {
    inputs_are_whole(worker, bench, state)?;
    if worker.arena.read(0, state.len() as u64)? != state {
        let detail = "the call changed its inputs, or the gradients of its results that it got";
        return Err(Failure::new(CandidateFault::InputModified, detail).into());
    }
    Ok(())
}

/// Compares the outputs of a call on the present inputs of the eager process with its float64 results. Returns the
/// largest error as a share of the permitted one.
pub(crate) fn judge(problem: &Problem, bench: &mut Bench, outputs: &[u8]) -> Result<f64, Stop> {
    let expected = bench.eager.expect()?;
    let layout = &bench.loaded.layout;
    let places = layout.outputs.iter().zip(&layout.expected);
    let places: Vec<Compared> = places.map(|(to, exact)| (None, to, exact)).collect();
    compare_all(problem, bench, &expected, &places, outputs)
}

/// Compares the gradients of a call on the present inputs of the eager process with its float64 gradients. Returns the
/// largest error as a share of the permitted one.
fn judge_gradients(problem: &Problem, bench: &mut Bench, outputs: &[u8]) -> Result<f64, Stop> {
    let expected = bench.eager.expect_gradients()?;
    let layout = &bench.loaded.layout;
    let places = layout.gradients.iter().zip(&layout.expected_gradients);
    let places: Vec<Compared> = places
        .map(|(to, exact)| (Some(to.name.as_str()), &to.place, exact))
        .collect();
    compare_all(problem, bench, &expected, &places, outputs)
}

/// The name of a gradient (none for a result), where the candidate's values lie, and where the expected ones do.
type Compared<'a> = (Option<&'a str>, &'a Place, &'a Place);

fn compare_all(
    problem: &Problem,
    bench: &Bench,
    expected: &Expected,
    places: &[Compared],
    outputs: &[u8],
) -> Result<f64, Stop> {
    let outputs_at = bench.loaded.layout.outputs_at;
    let mut worst: f64 = 0.0;
    for (position, (gradient, output, place)) in places.iter().enumerate() {
        let begin = (output.offset - outputs_at) as usize;
        let count = output.elements();
        let from = place.offset;
        let values = bench.eager.arena.read(from, from + 8 * count)?;
        let end = begin + output.bytes() as usize;
        let figure = |all: &[f64]| all.get(position).copied().unwrap_or(0.0);
        let one = compare(&Output {
            dtype: &output.dtype,
            found: outputs.get(begin..end).unwrap_or(&[]),
            expected: &values,
            scale: figure(&expected.scale),
            eager_error: figure(&expected.eager_error),
            tolerance: problem.tolerance.get(&output.dtype),
        });
        let named = |mut failure: Failure| {
            let (workload, detail) = (&bench.workload.name, &failure.detail);
            failure.detail = match gradient {
                None => format!("at {workload}: {detail}"),
                Some(name) => format!("at {workload}: gradient of `{name}`: {detail}"),
            };
            failure
        };
        worst = worst.max(one.map_err(named)?);
    }
    Ok(worst)
}

/// One verified call with fresh parameters and inputs.
pub(crate) fn verified_call(
    worker: &mut Worker,
    problem: &Problem,
    bench: &mut Bench,
    lot: Lot,
    patience: Patience,
    rng: &mut ChaCha8Rng,
) -> Result<f64, Stop> {
    let state = bench.fresh_lot(rng, lot)?;
    prepare(&worker.arena, &bench.loaded.layout, &state)?;
    worker.ask(&json!({"do": "parameters"}), SLOW.min(patience.limit()))?;
    worker.call(patience.limit())?;
    let found = outputs(worker, bench)?;
    all_is_whole(worker, bench, &state).map_err(|stop| lot.name(stop))?;
    let worst = judge(problem, bench, &found).map_err(|stop| lot.name(stop))?;
    if problem.deterministic {
        repeat(worker, bench, "call", &state, &found, patience).map_err(|stop| lot.name(stop))?;
    }
    Ok(worst)
}

/// Repeats an order on the same inputs, parameters and upstream gradients, and refuses a candidate that leaves other bits than
/// `first`. Kernels of Triton keep their configurations, and their programs run in the opposite order.
fn repeat(
    worker: &mut Worker,
    bench: &Bench,
    order: &str,
    state: &[u8],
    first: &[u8],
    patience: Patience,
) -> Result<(), Stop> {
    let layout = &bench.loaded.layout;
    prepare(&worker.arena, layout, state)?;
    worker.ask(&json!({"do": order, "again": true}), patience.limit())?;
    let second = outputs(worker, bench)?;
    match difference(layout, first, &second) {
        None => Ok(()),
        Some(place) => {
            let detail = format!(
                "at {}: {place} has other bits in a second call with the same inputs",
                bench.workload.name
            );
            Err(Failure::new(CandidateFault::Nondeterministic, detail).into())
        }
    }
}

/// The first element whose bits differ, in words; none if all results and gradients are the same.
fn difference(layout: &Layout, first: &[u8], second: &[u8]) -> Option<String> {
    let outputs = layout.outputs.iter().enumerate();
    let outputs = outputs.map(|(position, place)| (format!("output {position}"), place));
    let gradients = layout.gradients.iter();
    let gradients = gradients.map(|g| (format!("the gradient of `{}`", g.name), &g.place));
    outputs.chain(gradients).find_map(|(name, place)| {
        let begin = (place.offset - layout.outputs_at) as usize;
        let end = begin + place.bytes() as usize;
        let (first, second) = (first.get(begin..end)?, second.get(begin..end)?);
        let at = first.iter().zip(second).position(|(a, b)| a != b)? as u64;
        let element = at * place.elements() / place.bytes();
        Some(format!("element {element} of {name}"))
    })
}

/// One verified call with fresh parameters, inputs and upstream gradients that gives results and gradients.
pub(crate) fn verified_gradients(
    worker: &mut Worker,
    problem: &Problem,
    bench: &mut Bench,
    lot: Lot,
    patience: Patience,
    rng: &mut ChaCha8Rng,
) -> Result<f64, Stop> {
    let state = bench.fresh_lot(rng, lot)?;
    prepare(&worker.arena, &bench.loaded.layout, &state)?;
    worker.ask(&json!({"do": "parameters"}), SLOW.min(patience.limit()))?;
    worker.ask(&json!({"do": "gradients"}), patience.limit())?;
    let found = outputs(worker, bench)?;
    all_is_whole(worker, bench, &state).map_err(|stop| lot.name(stop))?;
    let named = |stop| lot.name(stop);
    let of_results = judge(problem, bench, &found).map_err(named)?;
    let of_gradients = judge_gradients(problem, bench, &found).map_err(named)?;
    if problem.deterministic {
        repeat(worker, bench, "gradients", &state, &found, patience).map_err(named)?;
    }
    Ok(of_results.max(of_gradients))
}

/// Verified calls on ordinary inputs that lie in memory in another form, also for gradients if the problem asks for them.
/// The process gets dense inputs again afterwards.
pub(crate) fn verified_form(
    worker: &mut Worker,
    problem: &Problem,
    bench: &mut Bench,
    form: &str,
    patience: Patience,
    rng: &mut ChaCha8Rng,
) -> Result<f64, Stop> {
    let lot = Lot {
        distribution: "plain",
        form,
    };
    give(worker, bench, form)?;
    let mut worst = verified_call(worker, problem, bench, lot, patience, rng)?;
    // The gradient of an input that stands for two would be a sum, which the reference does not compute.
    if problem.gradients.any() && form != ALIASED {
        worst = worst.max(verified_gradients(
            worker, problem, bench, lot, patience, rng,
        )?);
    }
    give(worker, bench, DENSE)?;
    Ok(worst)
}

/// Refuses a candidate whose results are right although its extensions were replaced by functions without results, or its
/// launches by nothing.
pub(crate) fn knock_out(
    worker: &mut Worker,
    problem: &Problem,
    bench: &mut Bench,
    patience: Patience,
    rng: &mut ChaCha8Rng,
) -> Result<(), Stop> {
    let state = bench.fresh(rng, "plain", true)?;
    build(worker, bench, &state)?;
    match verified_call(worker, problem, bench, Lot::dense("plain"), patience, rng) {
        Ok(_) => Err(Failure {
            fault: CandidateFault::SkippedWork,
            rule: Some("decoy".into()),
            detail:
                "the result is right without the extension or the kernels: they do none of the work"
                    .into(),
        }
        .into()),
        // Wrong results, and errors of a module that looks at them, show that the extension is needed.
        Err(Stop::Candidate(_)) => Ok(()),
        Err(ours) => Err(ours),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    #[test]
    fn the_first_element_with_other_bits_is_named() {
        let layout = json!({
            "outputs": [
                { "offset": 64, "shape": [3], "dtype": "float32" },
                { "offset": 128, "shape": [2], "dtype": "int64" },
            ],
            "gradients": [{ "name": "x", "offset": 192, "shape": [4], "dtype": "bfloat16" }],
            "expected": [],
            "parameters_at": 0,
            "upstream_at": 0,
            "outputs_at": 64,
            "expected_at": 256,
            "bytes": 256,
        });
        let layout: Layout = from_value(layout).expect("a layout");
        let first = vec![0u8; 192];
        let changed = |at: usize| {
            let mut second = first.clone();
            second[at] = 1;
            difference(&layout, &first, &second)
        };
        assert_eq!(difference(&layout, &first, &first), None);
        for (at, expected) in [
            (9, Some("element 2 of output 0")),
            (71, Some("element 0 of output 1")),
            (72, Some("element 1 of output 1")),
            (135, Some("element 3 of the gradient of `x`")),
            // Nothing lies between the tensors.
            (12, None),
        ] {
            assert_eq!(changed(at).as_deref(), expected);
        }
    }

    #[test]
    fn the_calls_of_compiled_extensions_have_an_end_in_all() {
        let patience = Patience::compiled();
        assert!(patience.end <= Instant::now() + COMPILED);
        assert_eq!(patience.limit(), SLOW);
        let over = Patience {
            end: Instant::now(),
            ..patience
        };
        assert_eq!(over.limit(), Duration::ZERO);
    }
}
