#!/usr/bin/env python3
"""What evaluating a program costs: the wall time of a search's steps against the bare compiler on the same programs.

    python3 scripts/bench/evaluation.py [--steps 6]

Runs `flopsmith search` with 64 fresh programs a step on an otherwise quiet machine. A step's wall time holds everything:
the messages, both jails, analysis, verification, timing, second measurements of new elites, and the archive. Beside it stands
what the same 64 programs cost at the least: `gcc -O3 -march=native -shared`, two at a time, plus 30 ms for each correct one.
Prints one JSON object; the ratio is the median over the steps after the first.
"""
import argparse
import json
import statistics
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
        lines = [json.loads(l) for l in (run / "metrics.jsonl").read_text().splitlines()]
        ends = {l["step"]: l["ended_unix_ms"] / 1000 for l in lines}
        fresh = {}
        for line in (run / "outcomes.jsonl").read_text().splitlines():
            outcome = json.loads(line)
            verdict = outcome["verdict"]
            if outcome["candidate"]["purpose"] == "search" and not verdict.get("measurement", {}).get("reused"):
                fresh.setdefault(outcome["candidate"]["step"], []).append((outcome["source"], verdict["type"] == "measured"))
        rows = []
        for step in sorted(ends)[1:]:
            if step - 1 not in ends:
                continue
            programs = fresh.get(step, [])
            if len(programs) < 32:
                continue  # A search comes back to what it knows; such a step says little about fresh programs.
            took = ends[step] - ends[step - 1]
            least = bare([p[0] for p in programs], place) + 0.03 * sum(p[1] for p in programs)
            rows.append({"step": step, "programs": len(programs), "seconds": round(took, 2), "bare_seconds": round(least, 2), "ratio": round(took / least, 2)})
        print(json.dumps({"median_ratio": statistics.median(r["ratio"] for r in rows), "steps": rows}))


if __name__ == "__main__":
    main()
