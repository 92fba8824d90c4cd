#!/usr/bin/env python3
"""Starts a service on a free port and runs the tests of this folder against it, each with the interpreter that has its packages.

    run.py trl=PYTHON verl=PYTHON ...
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from services import served

HERE = pathlib.Path(__file__).resolve().parent
# Seconds for the tests of one tool; those of TRL import torch twice and train twice.
LIMIT = 900


def counts(text):
    """Numbers of passed and failed tests. A run that did not end has one failed test."""
    ran = re.search(r"^Ran (\d+) tests? in", text, re.M)
    if ran is None:
        return 0, 1
    verdict = re.findall(r"^(?:OK|FAILED)\b.*", text[ran.end() :], re.M)
    failed = sum(int(number) for number in re.findall(r"(?:failures|errors)=(\d+)", verdict[0])) if verdict else 1
    return int(ran[1]) - failed, failed


def output(command, environment):
    """Output and exit code of a test. Its own session lets all processes of its tool end with it."""
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    more = ""
    try:
        text, _ = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        more = f"\nit did not end within {LIMIT} s\n"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            text, _ = child.communicate()
    return text + more, child.returncode


def main():
    # Ended by a signal, it still has to end what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for name in [name for name in os.environ if name.startswith("FLOPSMITH_") or "proxy" in name.lower()]:
        del os.environ[name]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as place, served("serve", "--listen", "127.0.0.1:0", "--folder", place) as (address, log):
        # Small models are slower with more threads, and the service measures meanwhile.
        offline = {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        environment = os.environ | offline | {"FLOPSMITH_URL": address, "PYTHONDONTWRITEBYTECODE": "1"}
        for test in sys.argv[1:]:
            name, _, python = test.partition("=")
            print(f"== {name}", flush=True)
            text, code = output([python, HERE / f"test_{name}.py"], environment)
            right, wrong = counts(text)
            if code != 0 and not wrong:
                wrong = 1
            if wrong:
                print(text[-20000:], f"\n-- log of the service\n{log.read_text()[-4000:]}")
            print(f"{name}: {right} passed; {wrong} failed", flush=True)
            passed, failed = passed + right, failed + wrong
    print(f"\ntest result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
