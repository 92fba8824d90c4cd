#!/usr/bin/env python3
"""Counts the candidates that runs decide in a core-second, by their files outcomes.jsonl.

    python3 scripts/bench/decided.py runs/NAME [runs/NAME ...] [--against FOLDER ...] [--cores N] [--json]

A candidate is decided when it is measured, or refused for a fault of its own. Not counted are duplicates, whose outcome was known (no stage worked on them),
answers without a program, and candidates that failed for another reason than their own; the work on the latter counts. Second measurements of elites and leaders
are no candidates: `with again` adds their seconds to those of the candidates.

A second of compilation or verification is one of a core. Timing leases all cores of its node: --cores N counts each of its seconds N times. A folder is that of
a run, or one with runs in it, all of which count. The row `median` has the medians over the runs, and with --against the last line the ratio of these medians to
those of the other folders: same problem, same settings, same machine. A last line that is still being written is left out.
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

STAGES = ("compile", "verify", "screen")
AGAIN = "certify"
LOG = "outcomes.jsonl"
# The figures of a run of which medians over runs are taken.
OVER_RUNS = ("decided", "duplicates", "core_seconds", "again_core_seconds", "per_core_second", "per_core_second_with_again")


def outcomes(file):
    """The outcomes of a log, each candidate once. Raises ValueError for a line that is none."""
    found = {}
    with file.open() as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                break
            try:
                outcome = json.loads(line)
                stages = [max(0.0, float(seconds)) for seconds in outcome["stage_seconds"]]
                if len(stages) != len(STAGES):
                    raise ValueError(f"{len(stages)} stages")
                outcome["stage_seconds"] = stages
                # A long log has gigabytes of sources.
                outcome["source"] = outcome["source"].strip()[:1]
                # These are read below.
                outcome["verdict"]["type"], outcome["candidate"]["purpose"]
                found.setdefault(outcome["candidate"]["id"], outcome)
            except (AttributeError, KeyError, TypeError, ValueError) as wrong:
                raise ValueError(f"{file}, line {number}, is no outcome ({wrong!r}); name the folder of a run of this version") from None
    return list(found.values())


def kind(outcome):
    """`decided`, `duplicates`, `without_program`, `lost` (nobody's or the machine's fault) or `again` (a second measurement)."""
    if outcome["candidate"]["purpose"] == AGAIN:
        return "again"
    verdict = outcome["verdict"]
    if verdict["type"] not in ("measured", "rejected"):
        return "lost"
    if not outcome["source"].strip():
        return "without_program"
    was_known = verdict.get("measurement", {}).get("reused", False) or not any(outcome["stage_seconds"])
    return "duplicates" if was_known else "decided"


def divided(count, seconds):
    return count / seconds if seconds else None


def figures(of, cores=1):
    """The figures of a run by its outcomes. Timing holds `cores` cores."""
    weights = (1, 1, cores)
    counts = dict.fromkeys(("decided", "duplicates", "without_program", "lost", "again"), 0)
    sums, again = [0.0] * len(STAGES), 0.0
    times = [[] for _ in STAGES]
    for outcome in of:
        what = kind(outcome)
        counts[what] += 1
        work = [weight * seconds for weight, seconds in zip(weights, outcome["stage_seconds"], strict=True)]
        if what == "again":
            again += sum(work)
            continue
        sums = [before + more for before, more in zip(sums, work, strict=True)]
        if what == "decided":
            # A stage that a candidate did not reach has 0.
            for stage, seconds in zip(times, outcome["stage_seconds"], strict=True):
                stage += [seconds] if seconds else []
    whole = sum(sums)
    return {
        **counts, "core_seconds": whole, "again_core_seconds": again,
        "stages": {name: {"core_seconds": seconds, "share": divided(seconds, whole), "median_ms": 1e3 * statistics.median(all_of) if all_of else None}
                   for name, seconds, all_of in zip(STAGES, sums, times, strict=True)},
        "per_core_second": divided(counts["decided"], whole), "per_core_second_with_again": divided(counts["decided"], whole + again),
    }


def median(values):
    """The median of the known values; None without any."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def medians(runs):
    """The medians of the figures over runs."""
    found = {name: median(run[name] for run in runs) for name in OVER_RUNS}
    found["stages"] = {stage: {name: median(run["stages"][stage][name] for run in runs) for name in ("core_seconds", "share", "median_ms")} for stage in STAGES}
    return found


def ratio(own, other, name):
    return own[name] / other[name] if own[name] is not None and other[name] else None


def told(runs, against=None):
    """The result: the figures of runs by their names, their medians, and with `against` those of the others with the ratios."""
    found = {"runs": runs, "median": medians(runs.values())}
    if against:
        found["against"] = {"runs": against, "median": medians(against.values())}
        found["ratio"] = {name: ratio(found["median"], found["against"]["median"], name) for name in ("per_core_second", "per_core_second_with_again")}
    return found


def logs(folder):
    """The logs of a run's folder, or of all runs in it. Raises ValueError if there is none."""
    found = [folder / LOG] if (folder / LOG).is_file() else sorted(folder.glob(f"*/{LOG}"))
    if not found:
        raise ValueError(f"there is no {LOG} in {folder} or a folder in it; name the folder of a run")
    return found


def read(folders, cores):
    """The figures by the names of the runs' folders; runs of one name have their whole paths."""
    files = [file.resolve() for folder in folders for file in logs(folder)]
    names = [file.parent.name for file in files]
    return {name if names.count(name) == 1 else str(file.parent): figures(outcomes(file), cores) for name, file in zip(names, files, strict=True)}


def number(value, digits=2, unit=""):
    return "" if value is None else f"{value:,.{digits}f}{unit}"


def row(name, of):
    cells = [name]
    for stage in STAGES:
        one = of["stages"][stage]
        share = "" if one["share"] is None else f" ({one['share']:.0%})"
        cells.append(number(one["core_seconds"], 1) + share)
    cells += [number(of["again_core_seconds"], 1), number(of["decided"], 0), number(of["duplicates"], 0), number(of["per_core_second"]),
              number(of["per_core_second_with_again"]), " / ".join(number(of["stages"][stage]["median_ms"], 0) or "–" for stage in STAGES)]
    return "| " + " | ".join(cells) + " |"


def table(found):
    """The lines of a table in Markdown, the ratio, and what was left out."""
    titles = ["run", *(f"{stage}, core-s (share)" for stage in STAGES), "again, core-s", "decided", "duplicates", "decided per core-second", "with again",
              f"median {' / '.join(STAGES)}, ms"]
    yield "| " + " | ".join(titles) + " |"
    yield "|---" * len(titles) + "|"
    sides = [("", found)] + ([("against ", found["against"])] if "against" in found else [])
    for words, side in sides:
        yield from (row(words + name, of) for name, of in side["runs"].items())
        if len(side["runs"]) > 1:
            yield row(f"{words}median".strip(), side["median"])
    yield ""
    if "ratio" in found:
        known = [number(found["ratio"][name], 3) or "unknown" for name in ("per_core_second", "per_core_second_with_again")]
        yield f"Candidates decided per core-second by those of --against: {known[0]}, with again {known[1]} (ratios of medians)."
    for words, side in sides:
        for name, of in side["runs"].items():
            if of["lost"] or of["without_program"]:
                yield f"- {words}{name}: {of['lost']} candidates failed for another reason than their own, {of['without_program']} answers had no program"


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="the folder of a run, or of several runs")
    parser.add_argument("--against", type=Path, nargs="+", default=[], metavar="FOLDER", help="compare with these runs")
    parser.add_argument("--cores", type=int, default=1, help="cores that a second of timing counts for (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    options = parser.parse_args(given)
    if options.cores < 1:
        parser.error("--cores must be 1 or more")
    return options


def main():
    options = arguments()
    try:
        found = told(read(options.folders, options.cores), read(options.against, options.cores))
    except (OSError, ValueError) as wrong:
        sys.exit(str(wrong))
    print(json.dumps(found | {"cores": options.cores}) if options.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
