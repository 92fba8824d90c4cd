#!/usr/bin/env python3
"""Measures the cost of evaluating 64 fresh programs: the wall time of a search's step against the bare compiler on the same programs.

    python3 scripts/bench/evaluation.py [--steps 3]

Runs `flopsmith search` for one step of 64 programs, `--steps` times, each time with another seed. Run nothing else on the machine. The
time runs from the moment at which the programs are written to the last one's outcome: messages, both jails, analysis, verification,
timing and archive. After that the search measures elite candidates a second time, and once more if the result is unsure;
`ratio_with_second_measurements` includes these measurements (in a search's first step nearly each program opens a cell). The ratio compares
this time with the least cost of the same programs: `gcc -O3 -march=native -shared`, two at a time, plus 30 ms for each correct one.
Prints one JSON object.
"""
import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sigterm import ends_what_it_started

ROOT = Path(__file__).resolve().parents[2]


def bare(sources, folder):
    files = []
    for n, source in enumerate(sources):
        files.append(folder / f"{n}.c")
        files[-1].write_text(source)
    began = time.perf_counter()
    running = []
    for file in files:
        while len(running) == 2:
            running = [p for p in running if p.poll() is None]
            time.sleep(0.0005)
        command = ["gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-w", str(file), "-o", str(file.with_suffix(".so"))]
        running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    for process in running:
        process.wait()
    return time.perf_counter() - began


def step(place, seed):
    """The outcomes of one step of 64 programs, and when these were written, seconds."""
    command = [ROOT / "target/release/flopsmith", "search", "--cold", "--problem", "dgemm", "--workload", "n=256", "--budget", "20m", "--runs", place / "runs",
               "--seed", str(seed), "--set", "tasks=8", "--set", "group_size=8", "--set", "max_steps=1", "--set", "sqd.enabled=false", "--set", "evaluate.finalists=0",
               "--output", place / "best.c"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr)
    run = next((place / "runs").iterdir())
    return [json.loads(l) for l in (run / "outcomes.jsonl").read_text().splitlines()], written((run / "flopsmith.log").read_text())


def fresh(outcomes):
    """The outcomes of the step's own programs, without second measurements."""
    return [o for o in outcomes if o["candidate"]["purpose"] == "search"]


def written(log):
    """The time, in seconds, at which the generator had written the programs of its first answered tasks; the compilers get them next. An outcome
    does not tell when its program entered the first queue, and the seconds of its stages leave out the waits between them."""
    for line in map(json.loads, log.splitlines()):
        if line["fields"].get("message") == "tasks are answered":
            return datetime.datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()
    sys.exit("the log has no line `tasks are answered`, so the time at which the programs were written is unknown")


def ended(outcomes):
    """The time of the last of these outcomes, in seconds."""
    return max(o["decided_unix_ms"] for o in outcomes) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3)
    steps = parser.parse_args().steps
    programs, again = [], 0
    fresh_wall = whole_wall = least = 0.0
    for seed in range(1, steps + 1):
        with tempfile.TemporaryDirectory() as place:
            place = Path(place)
            outcomes, start = step(place, seed)
            second = [o for o in outcomes if o["candidate"]["purpose"] == "certify"]
            own = fresh(outcomes)
            fresh_wall += ended(own) - start
            whole_wall += ended(outcomes) - start
            correct = sum(o["verdict"]["type"] == "measured" for o in own)
            least += bare([o["source"] for o in own], place) + 0.03 * correct
            programs += own
            again += len(second)
    stages = [sum(o["stage_seconds"][n] for o in programs) / len(programs) for n in range(3)]
    print(json.dumps({
        "programs": len(programs), "correct": sum(o["verdict"]["type"] == "measured" for o in programs), "second_measurements": again,
        "wall_seconds": round(fresh_wall, 2), "wall_seconds_with_second_measurements": round(whole_wall, 2), "bare_seconds": round(least, 2),
        "ratio": round(fresh_wall / least, 2), "ratio_with_second_measurements": round(whole_wall / least, 2),
        "mean_ms": dict(zip(["compile", "verify", "time"], (round(s * 1e3) for s in stages))),
    }))


if __name__ == "__main__":
    ends_what_it_started()
    main()
