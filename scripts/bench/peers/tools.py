"""Runs other programs: private folders of Python packages, limits, last words."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from .cases import ROOT


class Missing(Exception):
    """A tool is missing or does not apply. The message is the reason."""


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def ended(command, limit=None, env=None, cwd=ROOT):
    """A command after its end, with its output. Raises Missing if it cannot be started, or has to be killed at the limit."""
    command = [str(part) for part in command]
    try:
        # A group of its own: the processes that a command started hold its output open after it is killed, and would still use the core.
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})},
                                   start_new_session=True)
    except OSError as error:
        raise Missing(f"{command[0]} could not be started: {error.strerror}") from None
    try:
        stdout, stderr = process.communicate(timeout=limit)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Missing(f"{Path(command[0]).name} did not end within {limit:g} s") from None
        raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def run(command, limit=None, env=None, cwd=ROOT):
    """The output of a command. Raises Missing with its last line if it fails."""
    ran = ended(command, limit, env, cwd)
    if ran.returncode:
        raise Missing(f"{Path(ran.args[0]).name} ended with {ran.returncode}: {last_line(ran.stderr or ran.stdout)}")
    return ran.stdout


def fresh(folder):
    """The folder, empty: a tuner must not begin with what it found in an earlier run."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def private_python(name, *packages):
    """The interpreter of a folder of its own with pinned packages from PyPI."""
    return run([ROOT / "scripts/python.sh", "--venv", f"target/tuners/{name}", *packages]).strip()


def one_thread(env=None):
    """An environment in which libraries use one thread."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")
    return {**{name: "1" for name in names}, "MKL_THREADING_LAYER": "SEQUENTIAL", **(env or {})}
