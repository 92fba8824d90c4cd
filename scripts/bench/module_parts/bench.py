"""`flopsmith bench`: its outcomes, and the moments at which they come."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from peers.cases import ROOT
from peers.tools import Missing, last_line
from service import environment

# Seconds of one command, and of an orderly end after that.
LIMIT, ENDING = 3600, 60


def ask_to_end(process):
    """Ends a command in order: it stops its processes after the current measurement. Kills it if it does not."""
    process.terminate()
    try:
        process.wait(ENDING)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # Ctrl-C for the second time.
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


def followed(command, variables, limit=LIMIT):
    """The lines of a command in their order, each with its moment and its stream (`out`, `err`), and the exit code. Shows messages while they come. Raises Missing if
    the command cannot be started or does not end in time."""
    command = [str(word) for word in command]
    try:
        # A group of its own, so that Ctrl-C reaches this script alone, which then ends the command.
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    except OSError as error:
        raise Missing(f"{command[0]} could not be started: {error.strerror}") from None
    lines = []

    def hear(stream, name):
        for line in stream:
            lines.append((time.monotonic(), name, line.rstrip("\n")))
            if name == "err":
                print(f"    {line}", end="", file=sys.stderr, flush=True)

    threads = [threading.Thread(target=hear, args=of, daemon=True) for of in ((process.stdout, "out"), (process.stderr, "err"))]
    try:
        for thread in threads:
            thread.start()
        process.wait(limit)
    except BaseException as error:
        ask_to_end(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise Missing(f"{Path(command[0]).name} did not end within {limit:g} s") from None
        raise
    finally:
        for thread in threads:
            if thread.is_alive():
                thread.join(ENDING)
    return sorted(lines, key=lambda line: line[0]), process.returncode


def outcomes(lines):
    """The outcomes in the lines of `flopsmith bench --format jsonl`, each with the seconds of its evaluation (`wall_seconds`)."""
    begun = {line.removeprefix("evaluating ").removesuffix("…"): moment for moment, stream, line in lines if stream == "err" and line.startswith("evaluating ")}
    found = []
    for moment, stream, line in lines:
        with contextlib.suppress(json.JSONDecodeError):
            said = json.loads(line) if stream == "out" else {}
            if "outcome" in said:
                found.append(said | {"wall_seconds": moment - begun[said["file"]] if said["file"] in begun else None})
    return found


def bench(options, files, problem, purpose, wait, *more, cache=None):
    """The outcomes of files in their order, None for a file without one, and the reason for that. Raises Missing if no file has an outcome."""
    command = [options.flopsmith, "bench", *files, "--problem", problem, "--purpose", purpose, "--format", "jsonl", "--threads", 1, "--wait", wait, *more]
    variables = environment() | {"FLOPSMITH_PYTHON": options.python} | ({"XDG_CACHE_HOME": str(cache)} if cache else {})
    lines, code = followed(command, variables)
    found = outcomes(lines)
    errors = [line for _, stream, line in lines if stream == "err" and line.startswith("error: ")]
    why = errors[0] if errors else last_line("\n".join(line for _, stream, line in lines if stream == "err"))
    if not found:
        raise Missing(f"flopsmith bench ended with {code}: {why}")
    by_file = {outcome["file"]: outcome for outcome in found}
    return [by_file.get(str(file)) for file in files], why


def refusal(outcome, why):
    """The reason why an outcome has no speed; none if it has one."""
    if outcome is None:
        return why
    if outcome["outcome"] == "measured":
        return None
    return f"{outcome['outcome']}: {outcome.get('rule') or outcome.get('fault') or ''} {outcome.get('detail', '')}".rstrip()


def all_measured(found, why):
    """Raises Missing with the first reason if an outcome has no speed."""
    for outcome in found:
        if refusal(outcome, why):
            raise Missing(refusal(outcome, why))
    return found


def busy(found):
    return sum("busy" in outcome for outcome in found if outcome)
