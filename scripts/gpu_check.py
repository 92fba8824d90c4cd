#!/usr/bin/env python3
"""Runs on one NVIDIA GPU what only a GPU runs, and writes docs/results/gpu.json: the card, and each step with its result and seconds. Without a GPU it
says so in one sentence and ends with exit code 3 before anything is built. docs/reference/gpu-paths.md lists the code and what no step covers yet.

    scripts/gpu_check.py [--card] [--only STEP]

A failed step does not stop the others; the exit code is 1 if a step failed. target/gpu-check/STEP.log has the output of a step."""

import argparse
import json
import pathlib
import platform
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/gpu-paths.md"
RESULT = ROOT / "docs/results/gpu.json"
LOGS = ROOT / "target/gpu-check"
FIELDS = ["name", "driver_version", "compute_cap", "memory.total", "ecc.mode.current"]
NO_GPU = 3
STEPS = [
    ("build", "FLOPSMITH_TORCH=cuda make build && cargo build --release --locked -p flopsmith-policy -p flopsmith-learner --examples"),
    # Its line on libtorch names the device that models would use.
    ("doctor", "said=$(target/release/flopsmith doctor); echo \"$said\"; grep -q 'libtorch.*Cuda' <<<\"$said\""),
    ("models", "python3 scripts/bench/gpu.py --shapes tiny,1.5b --alone --output target/gpu-check/models.json"),
]


class NoGpu(Exception):
    """Why this machine has no GPU that can be used."""


def card():
    """The first GPU as nvidia-smi describes it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        raise NoGpu("nvidia-smi was not found")
    command = [tool, "--id=0", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoGpu(f"nvidia-smi does not answer ({error})") from None
    line = asked.stdout.strip().partition("\n")[0]
    values = [value.strip() for value in line.split(",")]
    if asked.returncode or len(values) != len(FIELDS):
        said = (asked.stderr.strip() or asked.stdout.strip() or f"exit code {asked.returncode}").partition("\n")[0]
        raise NoGpu(f"nvidia-smi says: {said}")
    return dict(zip(FIELDS, values))


def unwritten(page):
    """The rows of the page's tables whose last cell says that the code does not exist yet."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [row[0] for row in rows if row[-1].startswith("not written")]


def run(name, command):
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with (LOGS / f"{name}.log").open("w") as log:
        code = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT).returncode
    result = {"step": name, "result": "failed" if code else "passed", "seconds": round(time.monotonic() - began, 1)}
    if code:
        result["reason"] = f"exit code {code}; see target/gpu-check/{name}.log"
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", action="store_true", help="print the GPU and run nothing")
    parser.add_argument("--only", action="append", metavar="STEP", choices=[name for name, _ in STEPS], help="run only this step (repeatable), and write no file")
    given = parser.parse_args()
    try:
        found = card()
    except NoGpu as why:
        print(f"error: {why}: this check needs an NVIDIA GPU with its driver; run it on a machine that has one", file=sys.stderr)
        return NO_GPU
    print(f"GPU: {found['name']}, driver {found['driver_version']}, compute capability {found['compute_cap']}, {found['memory.total']}", file=sys.stderr)
    if given.card:
        return 0
    results = []
    # A step that fails writes none, and the numbers of an earlier run are not this run's.
    (LOGS / "models.json").unlink(missing_ok=True)
    for name, command in STEPS:
        if given.only and name not in given.only:
            continue
        print(f"{name}…", file=sys.stderr)
        results.append(run(name, command))
        print(f"{name}: {results[-1]['result']}, {results[-1]['seconds']} s", file=sys.stderr)
    if not given.only:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        measured = LOGS / "models.json"
        whole = {
            "commit": commit, "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "system": platform.platform(), "card": found, "steps": results,
            "models": json.loads(measured.read_text()) if measured.exists() else None, "not_written": unwritten(PAGE.read_text()),
        }
        RESULT.write_text(json.dumps(whole, indent=1) + "\n")
    return 1 if any(result["result"] == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
