#!/usr/bin/env python3
"""Compares `flopsmith search --agent`, without a language model, with `flopsmith search`: the same problems, seeds and number of programs.

    make build
    python3 scripts/bench/agent.py [--problems dgemm,dsyrk,stencil2d,polybench_gemver] [--seeds 1 2 3] [--evaluations 320] [--resume] [--output FILE.json]

For each seed and problem both searches run, one after the other; which one is first alternates from problem to problem and from seed to seed. None of them
knows of earlier ones, and the budget is so long that only the number of programs ends them. Searches end after whole steps, of 32 programs and, with the agent, of 16:
of 300 programs the search tries 320, and the agent 304. Both try the same number if it is a multiple of 32. Then one `flopsmith bench --purpose certify` judges both
best programs side by side. A problem is searched and judged at its first workload.

A problem's figure is the geometric mean over its seeds of how many times as fast the agent's program is, with the 95 % interval by Student's t over the seeds; a
single seed has the interval of its measurement. A figure is `met` if the upper end of this interval is at least 1, so the seeds do not show that the agent is slower,
and `ahead` if the lower end is above 1; else it is `missed`. A verdict quotes the interval, because a wide one is met easily, and says if the figure itself is below 1.
Equal programs have the ratio 1 without a measurement.

The script writes --output (JSON, with all sources) and prints a table in Markdown. Run nothing else on the machine. With --resume, finished searches of as many
programs are kept, and pairs whose programs have not changed are not judged again.
"""
import argparse
import hashlib
import json
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from against_torch import cpu_model  # noqa: E402
from learning import geometric, interval, revision  # noqa: E402
from peers.cases import ROOT, chosen, listed, words  # noqa: E402
from peers.results import rows  # noqa: E402
from peers.tools import Missing, ended, fresh, last_line  # noqa: E402
from sigterm import ends_what_it_started  # noqa: E402
from tuners import read, say, write  # noqa: E402

SEARCH, AGENT = "search", "agent"
PROBLEMS = "dgemm,dsyrk,stencil2d,polybench_gemver"
# Programs of a step of each side. `--evaluations` of `flopsmith search` is rounded up to whole steps.
STEPS = {SEARCH: 32, AGENT: 16}
STEP = max(STEPS.values())
# Far longer than any search of some hundred programs. The limit adds the measurements before and after it.
BUDGET_HOURS, LIMIT = 12, 13 * 3600
JUDGING = 3600
# How many times as fast the agent's programs should be at least.
ASKED = 1.0


def order(number):
    """The sides in turns."""
    return (SEARCH, AGENT) if number % 2 == 0 else (AGENT, SEARCH)


def tried(evaluations):
    """The number of programs that each side tries."""
    return {side: math.ceil(evaluations / step) * step for side, step in STEPS.items()}


def rounding(evaluations):
    """A sentence about the whole steps of the sides, if they try another number of programs than asked."""
    programs = tried(evaluations)
    if set(programs.values()) == {evaluations}:
        return None
    return (f"Steps are whole: of {evaluations} programs the search tries {programs[SEARCH]} in steps of {STEPS[SEARCH]}, "
            f"and the agent {programs[AGENT]} in steps of {STEPS[AGENT]}.")


def workload(case):
    return ["--workload", case.workload] if case.several else []


def search(options, case, side, seed, file, runs):
    """The command of a side."""
    command = [options.flopsmith, "search", "--problem", case.folder, "--cold", "--evaluations", options.evaluations, "--budget", f"{BUDGET_HOURS}h", "--seed", seed,
               "--runs", runs, "--output", file, "--format", "json", *workload(case)]
    return [str(word) for word in command] + (["--agent"] if side == AGENT else [])


def is_kept(made, evaluations):
    """True if an earlier search needs no repetition."""
    return made.get("state") == "found" and made.get("evaluations") == evaluations and Path(made["file"]).is_file()


def searched(options, case, side, seed, folder):
    """The result of one search, with its reason if there is none."""
    file = folder / f"{side}.c"
    file.unlink(missing_ok=True)
    begun = time.monotonic()
    try:
        done = ended(search(options, case, side, seed, file, fresh(folder / f"{side}-runs")), limit=LIMIT)
    except Missing as why:
        return {"state": "failed", "reason": str(why)}
    if done.returncode or not file.is_file():
        return {"state": "failed", "reason": f"flopsmith search ended with {done.returncode}: {last_line(done.stderr)}"}
    told = json.loads(done.stdout.splitlines()[-1])
    return {"state": "found", "file": str(file), "evaluations": options.evaluations, "programs": told["judged_programs"], "steps": told["steps"],
            "correct": told["correct_programs"], "seconds": round(time.monotonic() - begun, 1), "revision": revision()}


def judgement(options, case, files, sides):
    """The command that judges both programs; that of the first side is measured first."""
    first, second = sides
    command = [options.flopsmith, "bench", files[second], "--against", files[first], "--problem", case.folder, "--purpose", options.purpose, "--format", "json",
               "--wait", options.wait, *workload(case)]
    return [str(word) for word in command]


def compared(found, sides):
    """How many times as fast the agent's program is, by the rows of `bench` under the names of the sides. Raises Missing with the reason if it cannot say."""
    first, second = sides
    row = found.get(second)
    if not row or not row.get("ratio_to_against"):
        lost = row and f"{row['outcome']}: {row['reason']}"
        raise Missing(f"flopsmith bench has no ratio of the two programs: {lost or 'it did not report both'}")
    ratio, low, high = row["ratio_to_against"], row["interval_to_against"]["low"], row["interval_to_against"]["high"]
    if second == SEARCH:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    sides_told = {side: {name: found[side][name] for name in ("outcome", "gflops", "ratio", "techniques")} for side in (SEARCH, AGENT) if side in found}
    return {"state": "judged", "ratio": ratio, "interval": [low, high], "sides": sides_told}


def judge(options, case, made, sides):
    """The pair of two programs."""
    texts = {side: Path(one["file"]).read_text() for side, one in made.items()}
    if texts[SEARCH] == texts[AGENT]:
        return {"state": "judged", "ratio": 1.0, "interval": [1.0, 1.0], "equal": True}
    files = {side: one["file"] for side, one in made.items()}
    try:
        done = ended(judgement(options, case, files, sides), limit=JUDGING)
        found = rows(done.stdout)
        if not found:
            raise Missing(f"flopsmith bench ended with {done.returncode}: {last_line(done.stderr)}")
        return compared(found, sides)
    except Missing as why:
        return {"state": "failed", "reason": str(why)}


def digest(made, purpose):
    """Changes if a judgement has to be repeated."""
    texts = {side: Path(one["file"]).read_text() for side, one in sorted(made.items())}
    return hashlib.sha256(json.dumps([purpose, texts], sort_keys=True).encode()).hexdigest()


def one_pair(options, case, seed, number, earlier):
    """The pair of a problem and seed. `earlier` is that of the last run, if there is one."""
    folder = Path(options.work).resolve() / f"{case.stem}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "found.json"
    kept = read(state) if options.resume else {}
    made = {side: one for side, one in kept.items() if is_kept(one, options.evaluations)}
    sides = order(number)
    for side in sides:
        if side in made:
            continue
        say(f"{case.key}, seed {seed}: {side}, {options.evaluations} programs")
        made[side] = searched(options, case, side, seed, folder)
        # After each search, so that an interruption loses one at most.
        write(state, made)
    lost = [f"{side}: {one['reason']}" for side, one in made.items() if one["state"] != "found"]
    if lost:
        say(f"{case.key}, seed {seed}: {'; '.join(lost)}")
        return {"state": "failed", "reason": "; ".join(lost), "searches": made}
    if {side: one["programs"] for side, one in made.items()} != tried(options.evaluations):
        numbers = ", ".join(f"{side} {one['programs']}" for side, one in made.items())
        say(f"{case.key}, seed {seed}: the searches judged other numbers of programs than their steps have: {numbers}")
    fingerprint = digest(made, options.purpose)
    if options.resume and earlier.get("state") == "judged" and earlier.get("digest") == fingerprint:
        return earlier | {"searches": made}
    say(f"{case.key}, seed {seed}: judging")
    pair = judge(options, case, made, sides)
    sources = {side: Path(one["file"]).read_text() for side, one in made.items()}
    return pair | {"digest": fingerprint, "searches": made, "sources": sources}


def over(pairs):
    """The figure of a problem: ratio, interval, the verdict by the interval, whether the ratio itself reaches what is asked, and whether the interval leaves open
    which side is faster; None without a judged pair."""
    judged = [pair for pair in pairs if pair["state"] == "judged"]
    if not judged:
        return None
    ratio, low, high = (math.exp(end) if end is not None else None for end in interval([math.log(pair["ratio"]) for pair in judged]))
    if low is None:
        low, high = judged[0]["interval"]
    return {"ratio": ratio, "interval": [low, high], "seeds": len(judged), "verdict": by_interval(low, high), "reaches": ratio >= ASKED, "overlap": low < 1.0 < high}


def by_interval(low, high):
    """The verdict on a figure with this interval. Equal programs have the interval of 1 alone and are not ahead."""
    return "ahead" if low > ASKED else "met" if high >= ASKED else "missed"


def summary(results):
    """The figures of all problems, and the geometric mean over them with its interval over the problems. `results` has the pairs by problem and seed."""
    problems = {key: over(pairs.values()) for key, pairs in results.items()}
    ratios = [of["ratio"] for of in problems.values() if of]
    found = {"asked": ASKED, "problems": problems, "geometric_mean": geometric(ratios), "interval": None}
    if len(ratios) > 1:
        found["interval"] = [math.exp(end) for end in interval([math.log(ratio) for ratio in ratios])[1:]]
    found["all_reach"] = all(of and of["reaches"] for of in problems.values())
    found["all_met"] = all(of and of["verdict"] != "missed" for of in problems.values())
    return found


def cell(pair):
    if pair is None:
        return ""
    if pair["state"] != "judged":
        return pair["state"]
    return f"{pair['ratio']:.3f} [{pair['interval'][0]:.3f}, {pair['interval'][1]:.3f}]" + (" equal" if pair.get("equal") else "")


def verdict(of):
    """The verdict on a figure in words, with the interval that decides it."""
    if not of:
        return "not judged"
    low, high = of["interval"]
    below = ", the figure itself is below 1" if of["verdict"] == "met" and not of["reaches"] else ""
    return f"{of['verdict']} [{low:.3f}, {high:.3f}]{below}"


def table(results):
    """The lines of a table in Markdown, the mean, and what is missing with its reason."""
    found = summary(results)
    seeds = sorted({seed for pairs in results.values() for seed in pairs}, key=int)
    yield "| problem | " + " | ".join(f"seed {seed}" for seed in seeds) + " | agent by search [95 %] | verdict |"
    yield "|---" * (len(seeds) + 3) + "|"
    for key, pairs in results.items():
        of = found["problems"][key]
        figure = cell({"state": "judged", **of}) if of else ""
        yield f"| {key} | " + " | ".join(cell(pairs.get(seed)) for seed in seeds) + f" | {figure} | {verdict(of)} |"
    yield ""
    if found["geometric_mean"]:
        ends = " [{:.3f}, {:.3f}]".format(*found["interval"]) if found["interval"] else ""
        count = sum(of is not None for of in found["problems"].values())
        yield f"The agent's programs are {found['geometric_mean']:.3f}{ends} times as fast as the search's over {count} problems (geometric mean; asked: at least {ASKED:g})."
    for key, pairs in results.items():
        for seed, pair in pairs.items():
            if pair["state"] != "judged":
                yield f"- {key}, seed {seed}: {pair['reason']}"


def kept_cases(earlier, options):
    """The cases of an earlier output, if its searches tried as many programs and its judgements have the same purpose."""
    is_alike = (earlier.get("evaluations"), earlier.get("purpose")) == (options.evaluations, options.purpose)
    return earlier["cases"] if is_alike else {}


def pairs_of(cases):
    """The pairs by problem and seed."""
    return {key: case["pairs"] for key, case in cases.items()}


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=PROBLEMS, help=f"names, with commas (default: {PROBLEMS})")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--evaluations", type=int, default=10 * STEP, help=f"programs of each search, rounded up to whole steps (default: {10 * STEP})")
    parser.add_argument("--resume", action="store_true", help="keep finished searches and judgements of the last run")
    parser.add_argument("--purpose", choices=["certify", "rank"], default="certify", help="of the judgement (default: certify)")
    parser.add_argument("--wait", default="2m", help="how long each judgement waits for a quiet machine (default: 2m)")
    parser.add_argument("--flopsmith", type=Path, default=ROOT / "target/release/flopsmith")
    parser.add_argument("--work", type=Path, default=ROOT / "target/agent", help="folder for runs, programs and unfinished results")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/agent.json")
    options = parser.parse_args(given)
    if options.evaluations < 1:
        parser.error("--evaluations must be at least 1")
    if len(set(options.seeds)) < len(options.seeds) or min(options.seeds) < 0:
        parser.error("--seeds must be different numbers from 0")
    return options


def main():
    options = arguments()
    if not options.flopsmith.is_file():
        sys.exit(f"{options.flopsmith} not found; build it: make build")
    options.flopsmith = options.flopsmith.resolve()
    try:
        cases = chosen(listed(options.flopsmith), [name for name in options.problems.split(",") if name])
    except ValueError as wrong:
        sys.exit(str(wrong))
    whole = rounding(options.evaluations)
    if whole:
        say(whole)
    results = kept_cases(read(options.output), options) if options.resume else {}
    for turn, seed in enumerate(options.seeds):
        for number, case in enumerate(cases, turn):
            say(f"{case.key} ({words(case.params)}), seed {seed}")
            pairs = results.setdefault(case.key, {"params": case.params, "pairs": {}})["pairs"]
            pairs[str(seed)] = one_pair(options, case, seed, number, pairs.get(str(seed), {}))
            told = {"cpu": cpu_model(), "revision": revision(), "evaluations": options.evaluations, "programs": tried(options.evaluations), "purpose": options.purpose,
                    "summary": summary(pairs_of(results)), "cases": results}
            write(options.output, told)
    print("\n".join([*table(pairs_of(results)), *([whole] if whole else [])]))


if __name__ == "__main__":
    ends_what_it_started()
    main()
