"""The time of a candidate without a compiler, above that of its own timed calls."""

import statistics

from peers.tools import Missing, fresh

from .bench import all_measured, bench, busy
from .problems import as_candidate, copies, variant

# Modules of light calls, with and without parameters.
PROBLEMS = ("softmax", "rms_norm", "layernorm_gelu")
PURPOSES = ("screen", "rank")
# Those of crates/measure/src/time/decision.rs, milliseconds: the longest time of the calls of both sides, the longest burst and the number of bursts that it is
# divided by, and the shortest call that is made once a burst.
BUDGET_MS, BURST_MS, BURSTS, SLOW_CALL_MS = {"screen": 30, "rank": 600}, 3, 20, 10


def calls(seconds, purpose):
    """The number of calls that the product plans on average for a burst of calls that take so long."""
    call = 1e3 * seconds
    if call >= SLOW_CALL_MS:
        return 1.0
    fits = min(BUDGET_MS[purpose] / BURSTS, BURST_MS) / max(call, 1e-4)
    draws = 600
    return statistics.fmean(min(max(int(fits * (0.7 + 0.6 * (at + 0.5) / draws)), 2), 16) for at in range(draws))


def timed_seconds(outcome, purpose):
    """Seconds of the timed calls of the candidate and of the baselines, reckoned from rounds and seconds of a call."""
    sums = {"candidate": 0.0, "baseline": 0.0}
    for speed in (speed for workload in outcome["workloads"] for speed in workload["speeds"]):
        for side in sums:
            seconds = speed[f"{side}_seconds"]
            sums[side] += speed["rounds"] * calls(seconds, purpose) * seconds
    return sums["candidate"], sums["baseline"]


def overhead_of(found, purpose):
    """The figures of candidates that were evaluated by one command, the first of which waited for the processes to start."""
    if any(outcome["wall_seconds"] is None for outcome in found):
        raise Missing("flopsmith bench did not say when it began to evaluate a file")
    first, *rest = found
    rows = [(outcome["wall_seconds"], *timed_seconds(outcome, purpose)) for outcome in rest]
    return {"first_seconds": first["wall_seconds"], "wall_seconds": [wall for wall, _, _ in rows], "candidate_seconds": [own for _, own, _ in rows],
            "baseline_seconds": [other for _, _, other in rows], "overhead": statistics.median(wall - own for wall, own, _ in rows),
            "above_all_calls": statistics.median(wall - own - other for wall, own, other in rows)}


def overhead(options, name, purpose, repeats, earlier, keep):
    work = fresh(options.work / "overhead")
    problem = variant(work, name, permit_torch=True)
    files = copies(work / "candidates", as_candidate((problem / "reference.py").read_text()), repeats + 1)
    # A wait would be part of the time.
    found = all_measured(*bench(options, files, problem, purpose, "0"))
    return overhead_of(found, purpose) | {"busy": busy(found)}
