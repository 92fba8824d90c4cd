#!/usr/bin/env python3
"""Measures learning: whole runs with several seeds, as tables.

    python3 scripts/bench/learning.py --seeds 1 2 3 [--budget 10m] [--name full] [--output docs/results/learning.json] [-- --set sqd.enabled=false]
    python3 scripts/bench/learning.py --config examples/train-suite.toml --variant full --variant 'no SQD' sqd.enabled=false
    python3 scripts/bench/learning.py --search --seeds 1 --budget 10m --name search -- --set max_steps=100

The script starts the runs one after the other; run nothing else on the machine. All variants have a seed's runs before the next seed begins, so a
machine that changes slowly changes for all of them. Arguments after `--` go to `flopsmith train` (or `search`) of every variant. The script adds
the rows to the output file under the variant's name, keeps the best programs of each run beside this file as best/NAME-SEED.c (of many
problems as best/NAME-SEED-PROBLEM.c), and prints a table of the whole file and one of the means over seeds with 95 % intervals. A third table has
the policy's mean speed after training over that before, for each problem with an interval over seeds, and as the geometric mean over problems.
"""
import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from sigterm import ends_what_it_started

ROOT = Path(__file__).resolve().parents[2]
SPEEDS = ("mean ratio", "gain", "best ratio", "QD-score")
# Student's t at 0.975 for 1 to 9 degrees of freedom; the last one is wide enough for more.
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def one(arguments, seed, more, runs):
    command = [ROOT / "target/release/flopsmith"]
    command += ["search", "--cold", "--problem", "dgemm", "--workload", "n=256", "--output", runs / "best.c"] if arguments.search else ["train", arguments.config]
    command += ["--budget", arguments.budget, "--seed", str(seed), "--runs", runs, "--format", "json", *more]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr)
    run = json.loads(ran.stdout.splitlines()[-1])
    run["seed"] = seed
    run["evaluated"] = sum(run["outcomes"].values())
    folder = next(f for f in runs.iterdir() if f.name == run["run"])
    machine = json.loads((folder / "machine.json").read_text())
    run["machine"] = json.loads(machine["attestation_json"]).get("cpu_model")
    run["revision"] = revision()
    return run


def revision():
    """The commit of the build, with a `+` if the sources differ from it."""
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "Cargo.lock", "crates", "examples", "models", "problems")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def keep_best(run, output, name):
    """Moves the sources of the best programs out of the run's row into files beside the output file, so that a reader can compile them."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") + f'-{run["seed"]}'
    keep(run, output, stem)
    for row in run.get("problems", []):
        keep(row, output, f'{stem}-{row["problem"]}')


def keep(row, output, stem):
    source = (row.get("best") or {}).pop("source", None)
    if source is None:
        return
    folder = output.parent / "best"
    folder.mkdir(parents=True, exist_ok=True)
    file, number = folder / f"{stem}.c", 1
    # The output file keeps the rows of earlier runs, so their programs stay too.
    while file.exists() and file.read_text() != source:
        number += 1
        file = folder / f"{stem}-{number}.c"
    file.write_text(source)
    row["best"]["source_file"] = f"best/{file.name}"


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def measures(run):
    """What variants are compared by; none where a run has no such number. Best and QD-score of a run over many problems are geometric means
    over those that have them, and `solved` says how many have a correct program."""
    start, end, over = run["start"], run["end"], run.get("over_problems")
    rows = run.get("problems") or [run]
    # A search has no policy, so its summary has null here; older summaries have zeros.
    learned = bool(start and end and end["samples"])
    gain = over["gain"] if over else None
    if learned and not over and start["mean_gflops"]:
        gain = end["mean_gflops"] / start["mean_gflops"]
    ratio = end.get("mean_ratio") if learned else None
    return {
        "correct": end["correct_rate"] if learned else None,
        "mean ratio": over["end_ratio"] if over else ratio,
        "gain": gain,
        "best ratio": geometric([r["best"]["ratio_to_reference"] for r in rows if r["best"]]),
        "solved": sum(bool(r["best"]) for r in rows),
        "sets": run["coverage"],
        "QD-score": geometric([r["qd_score"] for r in rows if r.get("qd_score")]),
    }


def interval(values):
    """The mean of several seeds with its 95 % interval by Student's t; that of one seed has none."""
    n, mean = len(values), sum(values) / len(values)
    if n < 2:
        return mean, None, None
    half = T[min(n - 1, len(T)) - 1] * math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    return mean, mean - half, mean + half


def ratio_interval(values):
    """The same for ratios: the geometric mean with its interval."""
    return tuple(None if end is None else math.exp(end) for end in interval([math.log(v) for v in values]))


def over_seeds(results):
    """The number of a variant's seeds with a measure, and its mean over them with its interval; of speeds, if none is 0, the geometric mean."""
    found = {}
    for name, runs in results.items():
        rows = [measures(run) for run in runs]
        known = {what: [row[what] for row in rows if row[what] is not None] for what in rows[0]}
        found[name] = {}
        for what, values in known.items():
            if what in SPEEDS and values and min(values) > 0:
                found[name][what] = (len(values), *ratio_interval(values))
            elif values:
                found[name][what] = (len(values), *interval(values))
    return found


def seeds_table(results):
    found = over_seeds(results)
    columns = list(dict.fromkeys(what for row in found.values() for what in row))
    print("| mean over seeds [95 %] | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, row in found.items():
        cells = []
        for what in columns:
            cells.append(cell(*row.get(what, (0, None, None, None))))
        print("| " + " | ".join([name, *cells]) + " |")


def cell(n, mean, low, high):
    ends = "" if low is None else f" [{low:.3g}, {high:.3g}]"
    return f"{mean:.3g}{ends} ({n})" if n else ""


def over_problems(runs):
    """The policy's mean ratios to the plain reference before and after training, a pair for each seed that evaluated both, by problem."""
    found = {}
    for run in runs:
        for row in run.get("problems") or []:
            start, end = row.get("start"), row.get("end")
            if start and end and start["samples"] and end["samples"]:
                found.setdefault(row["problem"], []).append((start["mean_ratio"], end["mean_ratio"]))
    return found


def problems_table(results):
    """The gains by problem. A ratio needs correct samples at both times, so a problem without them counts in no mean."""
    named = {name: over_problems(runs) for name, runs in results.items()}
    if not any(named.values()):
        return
    print("| what | problem | mean ratio to the reference | end over start [95 %] (seeds) |")
    print("|---|---|---|---|")
    for name, problems in named.items():
        gains = []
        for problem, pairs in problems.items():
            start, end = (sum(values) / len(values) for values in zip(*pairs))
            ratios = [after / before for before, after in pairs if before > 0 and after > 0]
            gain = ratio_interval(ratios) if ratios else (None,) * 3
            gains += gain[:1] if ratios else ()
            print(f"| {name} | {problem} | {start:.3g} → {end:.3g} | {cell(len(ratios), *gain)} |")
        if gains:
            print(f"| {name} | geometric mean, with its interval over problems | | {cell(len(gains), *ratio_interval(gains))} |")


def table(results):
    print("| what | seed | correct | mean GFLOPS | × | distinct of 64 | best GFLOPS | [ratio to reference] | of peak | × corpus best | sets | evaluated | idle | QD-score |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, runs in results.items():
        for r in runs:
            s, e, b, over, of = r["start"], r["end"], r["best"], r.get("over_problems"), measures(r)
            learned = of["correct"] is not None
            mean = f'{s["mean_gflops"]:.2f} → {e["mean_gflops"]:.2f}' if learned else ""
            best = ""
            if b:
                best = f'{b["ratio_to_reference"]:.1f} [{b["interval"]["low"]:.1f}, {b["interval"]["high"]:.1f}]'
            if r.get("problems"):
                # Speeds of different problems have no mean; ratios to the plain references have one.
                mean = f'{over["start_ratio"]:.2f}× → {over["end_ratio"]:.2f}×' if over else ""
                best = f'{of["best ratio"]:.1f} over {of["solved"]} of {len(r["problems"])}' if of["solved"] else f'none of {len(r["problems"])}'
            cells = [
                name, r["seed"],
                f'{s["correct_rate"]:.2f} → {e["correct_rate"]:.2f}' if learned else "",
                mean,
                f'{of["gain"]:.1f}' if of["gain"] else "",
                e["distinct_correct"] if learned else "",
                f'{b["gflops"]:.1f}' if b else "", best,
                f'{b["gflops"] / r["peak_gflops"]:.2f}' if b else "",
                f'{b["gflops"] / r["corpus_best_gflops"]:.2f}' if b and r.get("corpus_best_gflops") else "",
                r["coverage"], r["evaluated"], f'{r["share_of_time"]["idle"]:.3f}',
                f'{of["QD-score"]:.1f}' if of["QD-score"] else "",
            ]
            print("| " + " | ".join(map(str, cells)) + " |")


def variants(arguments):
    """The variants with their settings, as arguments of the command; one of the given name without any if none is named."""
    named = arguments.variant or [[arguments.name]]
    return {name: [word for setting in settings for word in ("--set", setting)] for name, *settings in named}


def main():
    own, more = (sys.argv[1:], [])
    if "--" in own:
        cut = own.index("--")
        own, more = own[:cut], own[cut + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--config", default="examples/dgemm.toml", help="the configuration of `train`")
    parser.add_argument("--name", default="full", help="the name of the rows where there is no --variant")
    parser.add_argument("--variant", nargs="+", action="append", metavar=("NAME", "KEY=VALUE"), help="a name and settings; may be repeated")
    parser.add_argument("--runs", type=Path, help="keep the runs in this folder")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/learning.json")
    arguments = parser.parse_args(own)
    results = json.loads(arguments.output.read_text()) if arguments.output.is_file() else {}
    with tempfile.TemporaryDirectory() as place:
        runs = arguments.runs or Path(place)
        runs.mkdir(parents=True, exist_ok=True)
        for seed in arguments.seeds:
            for name, settings in variants(arguments).items():
                run = one(arguments, seed, [*more, *settings], runs)
                keep_best(run, arguments.output, name)
                results.setdefault(name, []).append(run)
                arguments.output.parent.mkdir(parents=True, exist_ok=True)
                arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    table(results)
    print()
    seeds_table(results)
    print()
    problems_table(results)


if __name__ == "__main__":
    ends_what_it_started()
    main()
