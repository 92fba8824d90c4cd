#!/usr/bin/env python3
"""Exports problems as tasks of Harbor (docs/how-to/export-tasks.md), and runs the oracle and the verifier of each outside a container, in a
temporary folder. An agent that does nothing must have the reward 0, and the oracle at least 1. Rewards are measured, so nothing else may run on
the machine. Modules are left out with the reason where no Python with PyTorch is found.

    scripts/harbor_check.py [--problem NAME]... [--json FILE]

The exit code is 1 if a reward is not as demanded, and 3 if the machine could not measure one, or nothing was judged. target/harbor-check has the
results, and the output of each task. FLOPSMITH names the program, if it is not target/release/flopsmith."""

import argparse
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "target/harbor-check"
# The verifier's exit code without a reward.
UNMEASURED = 3
# Settings of a shell that the verifier keeps. Other ones could change what is measured.
KEPT = ("FLOPSMITH_HARNESS", "FLOPSMITH_ALLOW_WEAKER_JAIL", "FLOPSMITH_OPENBLAS")

# The result of a run of the verifier: its exit code (none if it was stopped at its time limit), and the reward's numbers, if it wrote any.
Judged = collections.namedtuple("Judged", "code reward")


def interpreter():
    """The interpreter that the program finds in the repository."""
    beside = ROOT / "target/torch/bin/python"
    return os.environ.get("FLOPSMITH_PYTHON") or (str(beside) if beside.exists() else "python3")


def no_torch(python):
    """The reason to leave modules out, if an interpreter has no PyTorch."""
    try:
        code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        there = subprocess.run([python, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        there = False
    return None if there else f"{python} has no PyTorch (scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6)"


def is_module(task):
    return (task / "tests/problems/modules").is_dir()


def program_of(task):
    """The name of the one file that Harbor carries to the verifier, and the verifier's time limit in seconds."""
    settings = tomllib.loads((task / "task.toml").read_text())
    [artifact] = settings["artifacts"]
    return pathlib.PurePosixPath(artifact).name, settings["verifier"]["timeout_sec"]


def verdict(start, solved, oracle):
    """The result of a task and its reason, by what the verifier gave an agent that does nothing, the exit code of the oracle's script, and what
    the verifier gave the oracle."""
    if start.code != 0 or start.reward is None or (start.reward["reward"], start.reward["correct"]) != (0, 0):
        return "failed", f"doing nothing has {told(start)} instead of the reward 0"
    if solved != 0:
        return "failed", f"solve.sh ended with exit code {solved}"
    if oracle.code == UNMEASURED and oracle.reward is None:
        return "unmeasured", "the machine could not measure the oracle in three attempts"
    if oracle.code != 0 or oracle.reward is None:
        return "failed", f"the oracle has {told(oracle)}"
    if oracle.reward["correct"] != 1 or not oracle.reward["reward"] >= 1:
        return "failed", f"the oracle has {told(oracle)} instead of at least 1"
    return "passed", None


def told(judged):
    if judged.code is None:
        return "no reward within the verifier's time limit"
    if judged.code != 0 or judged.reward is None:
        return f"no reward, and exit code {judged.code}"
    return f"the reward {judged.reward['reward']:g} (correct: {judged.reward['correct']})"


def code_of(results):
    """The exit code for the results of the tasks."""
    states = {one["result"] for one in results}
    if "failed" in states:
        return 1
    return 3 if "unmeasured" in states or "passed" not in states else 0


def summary(results):
    counts = collections.Counter(one["result"] for one in results)
    return {name: counts[name] for name in ("passed", "failed", "unmeasured", "left out")}


def environment(program, python, place):
    """That of the verifier's container, as far as this machine can give it, with the places of a task."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLOPSMITH_", "OTEL_")) or name in KEPT}
    # The scripts call `flopsmith`, whatever the file's name is.
    link = place / "bin/flopsmith"
    if not link.is_symlink():
        link.parent.mkdir()
        link.symlink_to(program)
    return kept | {"PATH": f"{link.parent}:{os.environ['PATH']}", "FLOPSMITH_PYTHON": python}


def run(command, folder, variables, log, limit):
    """The exit code of a command; none if it was stopped after `limit` seconds. Everything that it started ends with it."""
    child = subprocess.Popen(command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return child.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def judge(task, place, variables):
    """Runs the scripts of a task as Harbor would; returns its result."""
    # An agent that does nothing leaves the files that its container has.
    app = place / "app"
    shutil.copytree(task / "environment", app)
    (app / "Dockerfile").unlink()
    name, limit = program_of(task)
    logs = place / "verifier"
    own = variables | {"FLOPSMITH_TASK_PROGRAM": str(app / name), "FLOPSMITH_TASK_PROBLEMS": str(task / "tests/problems"), "FLOPSMITH_TASK_LOGS": str(logs)}
    began = time.monotonic()
    with (LOGS / f"{task.name}.log").open("wb") as log:

        def script(path):
            log.write(f"== {path}\n".encode())
            log.flush()
            return run(["sh", str(task / path)], app, own, log, limit)

        def verified():
            code = script("tests/test.sh")
            written = logs / "reward.json"
            return Judged(code, json.loads(written.read_text()) if written.is_file() else None)

        start = verified()
        solved = script("solution/solve.sh")
        oracle = verified()
        for file in sorted(logs.glob("bench.*")):
            log.write(f"== {file.name}\n".encode() + file.read_bytes())
    result, reason = verdict(start, solved, oracle)
    one = {"task": task.name, "result": result, "start": start.reward, "oracle": oracle.reward, "seconds": round(time.monotonic() - began, 1)}
    return one | ({"reason": reason} if reason else {})


def line(one):
    """The result of a task in words."""
    if one["result"] == "left out":
        return f"{one['task']}: left out"
    words = f"oracle {one['oracle']['reward']:g}" if one["oracle"] else "oracle without a reward"
    return f"{one['task']}: {one['result']}, {words}, {one['seconds']} s" + (f"; {one['reason']}, see {LOGS.name}/{one['task']}.log" if "reason" in one else "")


def write(file, results):
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(file.name + ".new")
    new.write_text(json.dumps({"commit": commit, "summary": summary(results), "tasks": results}, indent=1) + "\n")
    new.replace(file)


def say(words):
    print(words, file=sys.stderr, flush=True)


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", action="append", default=[], metavar="NAME", help="only this problem, e.g. dgemm or modules/softmax; may come several times (default: all kernels and modules)")
    parser.add_argument("--json", type=pathlib.Path, default=LOGS / "results.json", metavar="FILE", help="results (default: target/harbor-check/results.json)")
    options = parser.parse_args(given)
    built = ROOT / "target/release/flopsmith"
    named = os.environ.get("FLOPSMITH") or (str(built) if built.exists() else shutil.which("flopsmith"))
    program = shutil.which(named) if named else None
    if program is None:
        say(f"error: {named or 'flopsmith'} not found; run `make build`, or set FLOPSMITH to its path")
        return 2
    program = pathlib.Path(program).resolve()
    LOGS.mkdir(parents=True, exist_ok=True)
    python, results = interpreter(), []
    with tempfile.TemporaryDirectory(prefix="flopsmith-harbor-") as folder:
        place = pathlib.Path(folder).resolve()
        variables = environment(program, python, place)
        chosen = [word for name in options.problem for word in ("--problem", name)]
        if code := subprocess.run([program, "problem", "export", "harbor", place / "tasks", *chosen], cwd=ROOT, env=variables, stdout=subprocess.DEVNULL).returncode:
            say("error: the tasks could not be exported; the lines above say why")
            return code
        tasks = sorted((place / "tasks").iterdir())
        modules = [task for task in tasks if is_module(task)]
        without = no_torch(python) if modules else None
        if without:
            print(f"skipped: {len(modules)} tasks of modules, since {without}", flush=True)
        for number, task in enumerate(tasks, 1):
            if without and task in modules:
                one = {"task": task.name, "result": "left out", "reason": without}
            else:
                say(f"task {number} of {len(tasks)}: {task.name}…")
                own = place / "run" / task.name
                own.mkdir(parents=True)
                one = judge(task, own, variables)
                print(line(one), flush=True)
                shutil.rmtree(own)
            results.append(one)
            # After each task, so that an interruption loses one at most.
            write(options.json, results)
    found = summary(results)
    say(f"{found['passed']} passed, {found['failed']} failed, {found['unmeasured']} unmeasured, {found['left out']} left out: {options.json}")
    code = code_of(results)
    # The format of Rust's test programs, so that verify.py counts the tasks.
    print(f"test result: {'FAILED' if code else 'ok'}. {found['passed']} passed; {found['failed'] + found['unmeasured']} failed; 0 ignored; 0 measured; 0 filtered out")
    return code


if __name__ == "__main__":
    # Otherwise a stopped check would leave the task that it runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
