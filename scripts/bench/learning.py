#!/usr/bin/env python3
"""Measures learning: whole runs with several seeds, as a table.

    python3 scripts/bench/learning.py --seeds 1 2 3 [--budget 10m] [--name full] [--output docs/results/learning.json] [-- --set sqd.enabled=false]
    python3 scripts/bench/learning.py --search --seeds 1 --budget 10m --name search -- --set max_steps=100

The script starts the runs one after the other; run nothing else on the machine. Arguments after `--` go to `flopsmith train` (or
`search`). The script adds the rows to the output file under the given name, keeps the best program of each run beside this file as
best/NAME-SEED.c, and prints a table of the whole file.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def one(arguments, seed, more, runs):
    command = [ROOT / "target/release/flopsmith"]
    command += ["search", "--cold", "--problem", "dgemm", "--workload", "n=256", "--output", runs / "best.c"] if arguments.search else ["train", "examples/dgemm.toml"]
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
    """Moves the best program's source out of the run's row into best/NAME-SEED.c beside the output file, so that a reader can compile it."""
    source = (run.get("best") or {}).pop("source", None)
    if source is None:
        return
    folder = output.parent / "best"
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") + f'-{run["seed"]}'
    file, number = folder / f"{stem}.c", 1
    # The output file keeps the rows of earlier runs, so their programs stay too.
    while file.exists() and file.read_text() != source:
        number += 1
        file = folder / f"{stem}-{number}.c"
    file.write_text(source)
    run["best"]["source_file"] = f"best/{file.name}"


def table(results):
    print("| what | seed | correct | mean GFLOPS | × | distinct of 64 | best GFLOPS | [ratio to reference] | of peak | × corpus best | sets | evaluated | idle |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, runs in results.items():
        for r in runs:
            s, e, b, i = r["start"], r["end"], r["best"], r["best"]["interval"]
            # A search has no policy, so its summary has null here; older summaries have zeros.
            learned = bool(s and e and e["samples"])
            cells = [
                name, r["seed"],
                f'{s["correct_rate"]:.2f} → {e["correct_rate"]:.2f}' if learned else "",
                f'{s["mean_gflops"]:.2f} → {e["mean_gflops"]:.2f}' if learned else "",
                f'{e["mean_gflops"] / s["mean_gflops"]:.1f}' if learned else "",
                e["distinct_correct"] if learned else "",
                f'{b["gflops"]:.1f}', f'{b["ratio_to_reference"]:.1f} [{i["low"]:.1f}, {i["high"]:.1f}]',
                f'{b["gflops"] / r["peak_gflops"]:.2f}',
                f'{b["gflops"] / r["corpus_best_gflops"]:.2f}' if r.get("corpus_best_gflops") else "",
                r["coverage"], r["evaluated"], f'{r["share_of_time"]["idle"]:.3f}',
            ]
            print("| " + " | ".join(map(str, cells)) + " |")


def main():
    own, more = (sys.argv[1:], [])
    if "--" in own:
        cut = own.index("--")
        own, more = own[:cut], own[cut + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--name", default="full")
    parser.add_argument("--runs", type=Path, help="keep the runs in this folder")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/learning.json")
    arguments = parser.parse_args(own)
    results = json.loads(arguments.output.read_text()) if arguments.output.is_file() else {}
    with tempfile.TemporaryDirectory() as place:
        runs = arguments.runs or Path(place)
        runs.mkdir(parents=True, exist_ok=True)
        for seed in arguments.seeds:
            run = one(arguments, seed, more, runs)
            keep_best(run, arguments.output, arguments.name)
            results.setdefault(arguments.name, []).append(run)
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    table(results)


if __name__ == "__main__":
    main()
