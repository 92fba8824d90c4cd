"""Ratios of speeds by their logarithms, with standard errors."""

import math
import statistics

NORMAL = 1.96


def entry_of(speed):
    """ln(speedup) and its standard error as JSON has it: null if it is not finite."""
    return [math.log(speed["speedup"]), speed["log_se"]]


def finite(error):
    return math.inf if error is None else error


def relative(outcome, baseline):
    """ln of the geometric mean over the workloads of the speedups against a baseline, and its standard error; None without such a baseline."""
    speeds = [speed for workload in outcome["workloads"] for speed in workload["speeds"] if speed["baseline"] == baseline]
    if not speeds or len(speeds) != len(outcome["workloads"]):
        return None
    logs, errors = zip(*map(entry_of, speeds))
    return statistics.fmean(logs), math.hypot(*map(finite, errors)) / len(errors)


def pooled(known):
    """The mean of logarithms, and its standard error by their own errors or by their spread, whichever is more."""
    logs = [log for log, _ in known]
    error = math.hypot(*(error for _, error in known)) / len(known)
    spread = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return statistics.fmean(logs), max(error, spread)


def ratio(log, error):
    """A ratio with its 95 % interval; the interval is None if the error is not finite."""
    return {"ratio": math.exp(log), "interval": [math.exp(log - NORMAL * error), math.exp(log + NORMAL * error)] if math.isfinite(error) else None}
