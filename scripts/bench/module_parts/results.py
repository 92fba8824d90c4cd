"""Figures over the steps of a part, and their tables."""

import math
import statistics

from .problems import EAGER, INDUCTOR
from .ratios import finite, ratio
from .self_ratio import WORDS

MEASURED = "measured"
# Seconds of overhead, times the bare compiler, the share of self-ratios, and solutions faster than TorchInductor.
OVERHEAD, COMPILING, SHARE, FASTER = 1.5, 1.3, 0.95, 8
TITLES = {
    "overhead": f"a module's candidate without a compiler, above its own timed calls (asked: at most {OVERHEAD} s)",
    "compile": f"compiling a module's C++ against bare g++ with the same precompiled headers (asked: at most {COMPILING} times)",
    "self": f"a module against itself, `--purpose rank` (asked: within {WORDS} in {100 * SHARE:.0f} of 100)",
    "versus": f"shipped C++ solutions of modules against TorchInductor, certified (asked: at least {FASTER} faster)",
}


def geometric(found, baseline):
    """The geometric mean over solutions of their ratios to a baseline, with the interval of their own errors."""
    of = [one[baseline] for one in found]
    errors = [finite(one["log_se"]) for one in of]
    return ratio(statistics.fmean(one["log"] for one in of), math.hypot(*errors) / len(errors))


def summary(part, results):
    """The figures of a part over its measured steps, and whether they are as asked: True, False, or None if too little was measured to say."""
    of = {name: one for name, one in results.items() if one["state"] == MEASURED}
    lost = sorted(name for name, one in results.items() if one["state"] != MEASURED)
    found = {"steps": len(of), "failed": lost, "busy": sum(one.get("busy", 0) for one in of.values()), "met": None}
    if not of:
        return found | {"met": False if lost else None}
    if part == "overhead":
        found |= {"asked": OVERHEAD, "most": max(one["overhead"] for one in of.values())}
        found["met"] = found["most"] <= OVERHEAD
    elif part == "compile":
        product, bare = (sum(one[side] for one in of.values()) for side in ("product", "bare"))
        found |= {"asked": COMPILING, "ratio": product / bare, "above": sorted(name for name, one in of.items() if one["ratio"] > COMPILING)}
        found["met"] = found["ratio"] <= COMPILING
    elif part == "self":
        found |= {"asked": SHARE, "least": min(one["share"] for one in of.values())}
        found["met"] = found["least"] >= SHARE
    else:
        low = lambda one: one[INDUCTOR]["interval"][0] if one[INDUCTOR]["interval"] else 0.0  # noqa: E731
        found |= {"asked": FASTER, "faster": sorted(name for name, one in of.items() if low(one) > 1.0), INDUCTOR: geometric(of.values(), INDUCTOR),
                  EAGER: geometric(of.values(), EAGER), "above_1": sum(one[INDUCTOR]["ratio"] > 1.0 for one in of.values())}
        # Fewer solutions than asked say nothing of all.
        found["met"] = len(found["faster"]) >= FASTER if len(of) >= FASTER else None
    if lost:
        found["met"] = False
    return found


def judged(of):
    return {True: "met", False: "MISSED", None: "not judged"}[of["met"]]


def number(value):
    return f"{value:#.3g}".rstrip(".") if value < 100 else f"{value:.0f}"


def figure(of):
    """A ratio with its interval for a table."""
    interval = ", interval unknown" if of["interval"] is None else " [{}, {}]".format(*map(number, of["interval"]))
    return number(of["ratio"]) + interval


def sentence(part, results):
    """The measured figures of a part for a row of a table."""
    of, measured = summary(part, results), {name: one for name, one in results.items() if one["state"] == MEASURED}
    if not measured:
        return "nothing measured"
    if part == "overhead":
        words = "; ".join(f"{name}: {one['overhead']:.2f} s of {statistics.median(one['wall_seconds']):.2f} s ({one['above_all_calls']:.2f} s without the baselines' "
                          "timed calls)" for name, one in measured.items())
    elif part == "compile":
        words = f"{of['ratio']:.2f} times over {of['steps']} solutions; above at {len(of['above'])}"
    elif part == "self":
        words = "; ".join(f"{name}: {one['within']} of {one['ratios']} within {WORDS}" + (f", spread {100 * one['spread']:.2f} %" if one["spread"] is not None else "")
                          + f", {one['covered']} intervals cover 1" for name, one in measured.items())
    else:
        words = (f"{len(of['faster'])} of {of['steps']} faster than TorchInductor by the lower ends of their intervals ({of['above_1']} by their ratios); "
                 f"geometric mean {figure(of[INDUCTOR])} times TorchInductor, {figure(of[EAGER])} times eager")
    words += f"; outcomes while the machine was busy: {of['busy']}" if of["busy"] else ""
    words += f"; steps without a figure: {len(of['failed'])}" if of["failed"] else ""
    return f"{words}: {judged(of)}"


def details(part, results):
    """The table of a part, a row for each step."""
    measured = {name: one for name, one in results.items() if one["state"] == MEASURED}
    if part == "overhead":
        columns = ["module, purpose", "whole, s", "own timed calls, s", "baselines' timed calls, s", "overhead, s", "first candidate, s"]
        median = statistics.median
        rows = [[name, f"{median(one['wall_seconds']):.2f}", f"{median(one['candidate_seconds']):.2f}", f"{median(one['baseline_seconds']):.2f}", f"{one['overhead']:.2f}",
                 f"{one['first_seconds']:.1f}"] for name, one in measured.items()]
    elif part == "compile":
        columns = ["solution", "compile stage, s", "bare g++, s", "times", "precompiled header"]
        rows = [[name, f"{one['product']:.2f}", f"{one['bare']:.2f}", f"{one['ratio']:.2f}", "read" if one["precompiled"] else "not read"]
                for name, one in measured.items()]
    elif part == "self":
        columns = ["module, kind", "ratios", "within", "median", "spread", "intervals cover 1"]
        known = lambda value, words: "unknown" if value is None else words.format(value)  # noqa: E731
        percent = lambda value: value if value is None else 100 * value  # noqa: E731
        rows = [[name, f"{one['ratios']}", f"{one['within']}", known(one["median"], "{:.4f}"), known(percent(one["spread"]), "{:.2f} %"), f"{one['covered']}"]
                for name, one in measured.items()]
    else:
        columns = ["solution", "× TorchInductor", "× eager", "unconverged"]
        rows = [[name, figure(one[INDUCTOR]), figure(one[EAGER]), f"{one['unconverged']}"]
                for name, one in sorted(measured.items(), key=lambda pair: -pair[1][INDUCTOR]["ratio"])]
    if rows:
        yield from ("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *rows])
        yield ""


def table(whole):
    """The rows for docs/results/README.md, then the table of each part, and the missing figures with their reasons."""
    yield "| measurement | command | machine | measured |"
    yield "|---|---|---|---|"
    machine = f"{whole['cpu']}, {whole['cores']} cores, torch {whole['torch']}"
    for part, results in whole["parts"].items():
        yield f"| {TITLES[part]} | `python3 scripts/bench/modules.py --only {part}` | {machine} | {sentence(part, results)} |"
    yield ""
    for part, results in whole["parts"].items():
        yield from details(part, results)
    for part, results in whole["parts"].items():
        for name, one in results.items():
            if one["state"] != MEASURED:
                yield f"- {part}, {name}: {one['state']}: {one.get('reason', 'interrupted')}"
            for reason, count in one.get("reasons", {}).items():
                yield f"- {part}, {name}: {count} copies without a speed: {reason}"
