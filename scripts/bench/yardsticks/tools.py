"""Runs other programs: private folders of Python packages, limits, last words."""

import os
import subprocess
from pathlib import Path

from .cases import ROOT


class Missing(Exception):
    """A tool is missing or does not apply. The message is the reason."""


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def run(command, limit=None, env=None, cwd=ROOT):
    """The output of a command. Raises Missing with its last line if it fails."""
    command = [str(part) for part in command]
    try:
        ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=limit, env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired:
        raise Missing(f"{Path(command[0]).name} did not end within {limit:.0f} s") from None
    except OSError as error:
        raise Missing(f"{command[0]} could not be started: {error.strerror}") from None
    if ran.returncode:
        raise Missing(f"{Path(command[0]).name} ended with {ran.returncode}: {last_line(ran.stderr or ran.stdout)}")
    return ran.stdout


def private_python(name, *packages):
    """The interpreter of a folder of its own with pinned packages from PyPI."""
    return run([ROOT / "scripts/python.sh", "--venv", f"target/tuners/{name}", *packages]).strip()


def one_thread(env=None):
    """An environment in which libraries use one thread."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")
    return {**{name: "1" for name in names}, "MKL_THREADING_LAYER": "SEQUENTIAL", **(env or {})}
