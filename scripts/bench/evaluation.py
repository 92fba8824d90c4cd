#!/usr/bin/env python3
"""What evaluating 64 fresh programs costs: the wall time of a search's step against the bare compiler on the same programs.

    python3 scripts/bench/evaluation.py [--steps 3]

Runs `flopsmith search` for one step of 64 programs, as often as `--steps` says and with another seed each time, on an otherwise quiet
machine. What counts is the time from when the programs are written to the last one's outcome: the messages, both jails, analysis,
verification, timing, the archive. Programs that would be the best of their cell are measured a second time after that, and once more
where nobody can be sure; `ratio_with_second_measurements` holds those as well (in a search's first step nearly each program opens a
cell). Beside it stands what the same programs cost at the least: `gcc -O3 -march=native -shared`, two at a time, plus 30 ms for each
correct one. Prints one JSON object.
"""
import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    command = [ROOT / "target/release/flopsmith", "search", "--problem", "dgemm", "--workload", "n=256", "--budget", "20m", "--runs", place / "runs",
               "--seed", str(seed), "--set", "tasks=8", "--set", "group_size=8", "--set", "max_steps=1", "--set", "sqd.enabled=false", "--set", "evaluate.finalists=0",
               "--output", place / "best.c"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr)
    run = next((place / "runs").iterdir())
    return [json.loads(l) for l in (run / "outcomes.jsonl").read_text().splitlines()], written((run / "flopsmith.log").read_text())


def fresh(outcomes):
    """Those of the step's own programs, without second measurements."""
    return [o for o in outcomes if o["candidate"]["purpose"] == "search"]


def written(log):
    """When the generator had written the programs of the first tasks it answered, seconds: they go to the compilers next. An outcome does not say when its
    program was first in a queue, and the seconds of its stages leave out what it waited between them."""
    for line in map(json.loads, log.splitlines()):
        if line["fields"].get("message") == "tasks are answered":
            return datetime.datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()
    sys.exit("the log does not say when the programs were written")


def ended(outcomes):
    """When the last of these was decided, seconds."""
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
    main()
