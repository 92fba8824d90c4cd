#!/usr/bin/env python3
"""What evaluating a program costs: the wall time of a search against the bare compiler on the same programs.

    python3 scripts/bench/evaluation.py [--steps 6]

Runs `flopsmith search` with 64 programs a step on an otherwise quiet machine, from the first compilation to the last outcome. That
wall time holds everything: the messages, both jails, analysis, verification, timing, the archive, and second measurements of programs
that would be the best of their cell (in a search nearly each one, since nearly each opens a cell). Beside it stands what the same
programs cost at the least: `gcc -O3 -march=native -shared`, two at a time, plus 30 ms for each correct one. Prints one JSON object:
`ratio` leaves the second measurements out (their time on the cores is subtracted), `ratio_with_second_measurements` does not.
"""
import argparse
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        command = [ROOT / "target/release/flopsmith", "search", "--problem", "dgemm", "--budget", "20m", "--runs", place / "runs",
                   "--set", "tasks=8", "--set", "group_size=8", "--set", f"max_steps={steps}", "--set", "sqd.enabled=false", "--output", place / "best.c"]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(ran.stderr)
        run = next((place / "runs").iterdir())
        outcomes = [json.loads(l) for l in (run / "outcomes.jsonl").read_text().splitlines()]
        began = min(o["decided_unix_ms"] / 1000 - sum(o["stage_seconds"]) for o in outcomes)
        wall = max(o["decided_unix_ms"] for o in outcomes) / 1000 - began
        fresh = [o for o in outcomes if o["candidate"]["purpose"] == "search" and not o["verdict"].get("measurement", {}).get("reused")]
        second = [o for o in outcomes if o["candidate"]["purpose"] == "certify"]
        # Two programs are verified at a time, one is timed.
        again = sum(o["stage_seconds"][1] / 2 + o["stage_seconds"][2] for o in second)
        correct = sum(o["verdict"]["type"] == "measured" for o in fresh)
        least = bare([o["source"] for o in fresh], place) + 0.03 * correct
        stages = [sum(o["stage_seconds"][n] for o in fresh) / len(fresh) for n in range(3)]
        print(json.dumps({
            "programs": len(fresh), "correct": correct, "second_measurements": len(second), "wall_seconds": round(wall, 2),
            "second_measurement_seconds": round(again, 2), "bare_seconds": round(least, 2),
            "ratio": round((wall - again) / least, 2), "ratio_with_second_measurements": round(wall / least, 2),
            "mean_ms": dict(zip(["compile", "verify", "time"], (round(s * 1e3) for s in stages))),
        }))


if __name__ == "__main__":
    main()
