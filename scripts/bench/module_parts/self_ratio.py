"""A module against itself."""

import math
import statistics

from peers.tools import Missing, fresh
from tuners import say

from .bench import bench, busy, refusal
from .problems import EAGER, as_candidate, copies, solution, variant
from .ratios import NORMAL, entry_of, finite

# Without --problem.
PROBLEMS = ("softmax",)
# The permitted error of a ratio.
WITHIN = 0.01
WORDS = f"{100 * WITHIN:g} %"
# Copies in one command: an interruption loses at most as many.
BATCH = 25


def self_ratios(sessions, kind):
    """ln(ratio) and standard error of each self-ratio; None for one without a speed. A session has the entries of one command. Two commands have different processes of
    the baseline, so no pair has a copy of each."""
    if kind == "itself":
        return [entry and (entry[0], finite(entry[1])) for session in sessions for entry in session]
    pairs = [pair for session in sessions for pair in zip(session, session[1:])]
    return [(one[0] - other[0], math.hypot(finite(one[1]), finite(other[1]))) if one and other else None for one, other in pairs]


def self_figures(ratios):
    """The share of ratios that are within the limit, of intervals that contain 1, and the spread."""
    known = [ratio for ratio in ratios if ratio]
    within = sum(abs(log) <= math.log1p(WITHIN) for log, _ in known)
    return {"ratios": len(ratios), "lost": len(ratios) - len(known), "within": within, "share": within / len(ratios) if ratios else None,
            "covered": sum(abs(log) <= NORMAL * error for log, error in known), "median": math.exp(statistics.median(log for log, _ in known)) if known else None,
            "spread": statistics.stdev(log for log, _ in known) if len(known) > 1 else None}


def self_ratio(options, name, kind, repeats, earlier, keep):
    sessions, reasons, disturbed = list(earlier.get("sessions", [])), dict(earlier.get("reasons", {})), earlier.get("busy", 0)

    def figures():
        return self_figures(self_ratios(sessions, kind)) | {"sessions": sessions, "reasons": reasons, "busy": disturbed}

    while (missing := repeats - len(self_ratios(sessions, kind))) > 0:
        work = fresh(options.work / "self")
        problem = variant(work, name, baselines=[EAGER], **({"permit_torch": True} if kind == "itself" else {}))
        text = as_candidate((problem / "reference.py").read_text()) if kind == "itself" else solution(name).read_text()
        # One copy more than ratios of a copy and the next.
        files = copies(work / "candidates", text, min(missing, BATCH) + (kind == "copies"))
        found, why = bench(options, files, problem, "rank", options.wait, "--workload", "first")
        session = []
        for outcome in filter(None, found):
            reason = refusal(outcome, why)
            if reason:
                reasons[reason] = reasons.get(reason, 0) + 1
            session.append(None if reason else entry_of(outcome["workloads"][0]["speeds"][0]))
        sessions.append(session)
        disturbed += busy(found)
        now = figures()
        say(f"{name}, {kind}: {now['within']} of {now['ratios']} within {WORDS}")
        keep(now | {"state": "unfinished"})
        # The machine failed, which is no ratio.
        if None in found:
            raise Missing(why)
    return figures()
