#!/usr/bin/env python3
"""Tests of train-suite.sh with a program that only notes its arguments."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS / "bench"))
from rust_style import run as run_all  # noqa: E402

# Training prints a summary, ends with the exit code of the file `code`, and notes each call in a line of `called`.
PROGRAM = """#!/bin/sh
echo "$*" >>called
[ "$1" = train ] || exit 0
echo 'text before the summary'
cat summary
exit "$(cat code)"
"""


def repository(place, code=0, workloads='workloads = ["first"]\n'):
    """A repository whose program trains elsewhere/suite-1, beside a newer run."""
    for folder in ("scripts", "target/release", "elsewhere/suite-1", "runs/train-suite-9"):
        (place / folder).mkdir(parents=True)
    shutil.copy(SCRIPTS / "train-suite.sh", place / "scripts")
    program = place / "target/release/flopsmith"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (place / "code").write_text(str(code))
    source = "int x;\n" * 40_000
    (place / "summary").write_text(json.dumps({"run": "suite-1", "best": {"source": source}, "folder": "elsewhere/suite-1"}) + "\n")
    settings = f'problems = ["dot"]\nhold_out = ["dgemv", "transpose"]\n{workloads}\n[generator]\nmodel = "models/nests"\n'
    (place / "elsewhere/suite-1/config.toml").write_text(settings)


def called(place, *arguments):
    ran = subprocess.run([place / "scripts/train-suite.sh", *arguments], cwd="/", env=os.environ, capture_output=True, text=True)
    return ran.returncode, (place / "called").read_text().splitlines()


def the_run_that_was_made_is_evaluated_at_its_workloads(folder):
    repository(folder)
    code, lines = called(folder, "--runs", "elsewhere", "--resume")
    assert code == 0, code
    run = "elsewhere/suite-1"
    assert lines == [
        "train examples/train-suite.toml --format json --runs elsewhere --resume",
        f"eval before=models/nests after={run}/model --problem dgemv --problem transpose --workload first --prompt nest --max-tokens 640"
        f" --output {run}/held-out",
        f"eval compare {run}/held-out#before {run}/held-out#after",
    ], lines


def a_run_at_all_workloads_names_none(folder):
    repository(folder, workloads="")
    code, lines = called(folder)
    assert code == 0 and len(lines) == 3 and "--workload" not in lines[1], lines


def a_training_that_was_stopped_is_not_evaluated(folder):
    repository(folder, code=130)
    code, lines = called(folder)
    assert code == 130 and len(lines) == 1, (code, lines)


if __name__ == "__main__":
    sys.exit(run_all("train_suite", (
        the_run_that_was_made_is_evaluated_at_its_workloads, a_run_at_all_workloads_names_none, a_training_that_was_stopped_is_not_evaluated,
    )))
