#!/usr/bin/env python3
"""Installs PyTorch into target/torch and runs all tests that need it; `make test` skips them where it is missing. Fails if a test was skipped
for lack of PyTorch, Triton or NumPy. A lack of nvcc is no failure, since scripts/cuda.sh installs it on demand. All cases of the tests run
unless FLOPSMITH_SAMPLE names others. Arguments go to cargo-nextest.   scripts/torch_tests.py [ARGUMENT...]"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["torch==2.11.0", "numpy==2.4.6"]
INSTALL = ["scripts/python.sh", "--venv", "target/torch", *PACKAGES]
# Every test that calls `skipped` without PyTorch.
TESTS = "package(flopsmith-evaluate) & binary(it) + binary_id(flopsmith-actors::roles) & test(/^modules::/) + binary_id(flopsmith::cli) & test(/^module_service::/)"
PROGRAMS = ["--workspace", "--test", "it", "--test", "roles", "--test", "cli"]
# The words of crates/module/src/error.rs, and of tests, about what is missing.
MISSING = re.compile(r"need Python with PyTorch|(has|have) no (PyTorch|Triton|NumPy)")


def lacking(reports):
    """The reports of tests that were skipped for lack of a package."""
    return sorted({line for line in reports.splitlines() if MISSING.search(line)})


def runner():
    """The command that runs the tests."""
    tool = subprocess.run(["scripts/setup.sh", "--tool", "cargo-nextest"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return [tool, "nextest", "run", "--profile", "whole", "--release", "--locked", *PROGRAMS, "-E", TESTS]


def judged(command, skips):
    """Runs the tests; returns the exit code. `skips` is the file to which tests write what they skip."""
    begin = skips.stat().st_size if skips.exists() else 0
    environment = {"FLOPSMITH_SAMPLE": "all"} | os.environ | {"FLOPSMITH_SKIPPED": str(skips)}
    code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    reports = skips.read_bytes()[begin:].decode(errors="replace") if skips.exists() else ""
    for line in sorted(set(reports.splitlines())):
        print(f"left out: {line}", file=sys.stderr)
    if missing := lacking(reports):
        print(f"error: {len(missing)} tests were skipped for lack of a package that {INSTALL[0]} installs; look at target/torch, and unset FLOPSMITH_PYTHON", file=sys.stderr)
        return code or 1
    return code


def main():
    try:
        subprocess.run(INSTALL, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        command = [*runner(), *sys.argv[1:]]
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd)} failed; the lines above say why", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        return judged(command, pathlib.Path(os.environ.get("FLOPSMITH_SKIPPED") or f"{folder}/skipped"))


if __name__ == "__main__":
    sys.exit(main())
