#!/usr/bin/env python3
"""Tests of gpu_check.py with a program in place of nvidia-smi."""
import contextlib
import io
import json
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import gpu_check  # noqa: E402
from rust_style import run as run_all  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
CARD = "echo 'NVIDIA H100 80GB HBM3, 580.1, 9.0, 81559 MiB, Enabled'"
PAGE = gpu_check.PAGE


def checked(place, tool, arguments=(), steps=()):
    """Runs the check with this nvidia-smi, none if it is None; returns the exit code, the messages and the written file."""
    programs = place / "bin"
    programs.mkdir(exist_ok=True)
    if tool is not None:
        (programs / "nvidia-smi").write_text(f"#!/bin/sh\n{tool}\n")
        (programs / "nvidia-smi").chmod(0o755)
    gpu_check.RESULT, gpu_check.LOGS, gpu_check.STEPS = place / "gpu.json", place / "logs", list(steps)
    saved, sys.argv, said = os.environ["PATH"], ["gpu_check.py", *arguments], io.StringIO()
    os.environ["PATH"] = str(programs) if tool is None else f"{programs}:{saved}"
    try:
        with contextlib.redirect_stderr(said):
            code = gpu_check.main()
    finally:
        os.environ["PATH"] = saved
    return code, said.getvalue(), json.loads(gpu_check.RESULT.read_text()) if gpu_check.RESULT.exists() else None


def a_machine_without_a_gpu_is_refused_in_one_sentence_before_anything_runs(place):
    for tool, part in ((None, "nvidia-smi was not found"), ("echo 'No devices were found'; exit 6", "No devices were found"), ("echo 'Failed to initialize NVML' >&2; exit 9", "Failed to initialize NVML"), ("true", "exit code 0")):
        code, said, written = checked(place, tool, steps=[("build", f"touch {place}/built")])
        assert code == 3 and written is None and not (place / "built").exists(), (tool, code)
        assert part in said and "needs an NVIDIA GPU" in said and said.count("\n") == 1, said


def every_step_runs_and_a_failed_one_is_written(place):
    steps = [("build", "exit 4"), ("doctor", "echo done")]
    code, said, written = checked(place, CARD, steps=steps)
    assert code == 1 and "H100" in said, said
    assert [(step["step"], step["result"]) for step in written["steps"]] == [("build", "failed"), ("doctor", "passed")]
    assert "exit code 4" in written["steps"][0]["reason"] and written["card"]["compute_cap"] == "9.0"
    assert (place / "logs/doctor.log").read_text() == "done\n"
    assert written["models"] is None and written["not_written"]


def one_step_or_the_card_alone_writes_nothing(place):
    steps = [("build", "exit 4"), ("doctor", "true")]
    assert checked(place, CARD, ["--only", "doctor"], steps)[::2] == (0, None)
    code, said, written = checked(place, CARD, ["--card"], steps)
    assert code == 0 and "driver 580.1" in said and written is None


def the_page_names_files_that_exist_and_what_is_not_written(_):
    text = PAGE.read_text()
    assert len(gpu_check.unwritten(text)) >= 5
    named = [part for line in text.splitlines() if line.startswith("| `") for part in line.split("`")[1::2] if "/" in part]
    assert named and [name for name in named if not (ROOT / name).exists()] == []


if __name__ == "__main__":
    sys.exit(run_all("gpu_check", (
        a_machine_without_a_gpu_is_refused_in_one_sentence_before_anything_runs, every_step_runs_and_a_failed_one_is_written,
        one_step_or_the_card_alone_writes_nothing, the_page_names_files_that_exist_and_what_is_not_written,
    )))
