"""The shipped C++ solutions against TorchInductor and the eager module."""

import math

from peers.tools import Missing

from .bench import all_measured, bench, busy
from .problems import EAGER, INDUCTOR, MODULES, solution
from .ratios import pooled, ratio, relative


def versus(options, name, _, repeats, earlier, keep):
    runs = list(earlier.get("runs", []))
    while len(runs) < repeats:
        found = all_measured(*bench(options, [solution(name)], MODULES / name, "certify", options.wait))
        runs.append(found[0] | {"file": f"problems/modules/{name}/solution_cpp.py"})
        keep({"state": "unfinished", "runs": runs})
    figures = {"runs": runs, "busy": busy(runs)}
    for baseline in (EAGER, INDUCTOR):
        known = [relative(run, baseline) for run in runs]
        if None in known:
            raise Missing(f"an outcome is not compared with {baseline}")
        log, error = pooled(known)
        figures[baseline] = ratio(log, error) | {"log": log, "log_se": error if math.isfinite(error) else None}
    unconverged = sum(speed["stop"] == "unconverged" for run in runs for workload in run["workloads"] for speed in workload["speeds"])
    return figures | {"unconverged": unconverged}
