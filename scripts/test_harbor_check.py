#!/usr/bin/env python3
"""Tests of harbor_check.py with a small program in place of flopsmith, which exports the scripts of the product. They need no build."""
import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import harbor_check  # noqa: E402
from harbor_check import Judged, verdict  # noqa: E402
from rust_style import run as run_all  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "crates/export/src/harbor"
NOTHING = Judged(0, {"reward": 0, "correct": 0, "ratio": 0})
# Copies the tasks, or prints the row of a measurement that lies beside it.
PROGRAM = """#!/bin/sh
case $1 in
problem) [ "$#" -lt 6 ] || exit 2; mkdir -p "$4" && cp -r "PLACE/export/." "$4" ;;
bench) [ -z "$FLOPSMITH_SAMPLE" ] || exit 2; printf 'head\\n%s\\n' "$(cat "PLACE/$(basename "$2" | cut -d. -f1)")" ;;
esac
"""


def fills(text, name):
    return text.replace("FILE", f"{name}.c").replace("NAME", name)


def task(place, name, numbers, outcome="measured", module=False):
    """A task as the product exports it, and the numbers that its program will have."""
    (place / name).write_text(f"{name}.c,{name},,{outcome},,1.5,{numbers},0.1\n")
    folder = place / "export" / (f"module_{name}" if module else name)
    problem = folder / "tests/problems" / ("modules" if module else "") / name
    for made in (problem, folder / "environment", folder / "solution"):
        made.mkdir(parents=True)
    (folder / "task.toml").write_text(f'artifacts = ["/app/{name}.c"]\n[verifier]\ntimeout_sec = 30.0\n')
    (folder / "environment/Dockerfile").write_text("FROM x\n")
    for file in (folder / "environment/reference.c", problem / "reference.c"):
        file.write_text("int reference;\n")
    (folder / f"solution/{name}.c").write_text("int fast;\n")
    (folder / "solution/solve.sh").write_text(fills((SCRIPTS / "solve.sh").read_text(), name))
    (folder / "tests/test.sh").write_text(fills((SCRIPTS / "test.sh").read_text(), name))


def checked(place, *arguments, python="false"):
    """The exit code, the output and the written results of the check."""
    program = place / "a-program"
    program.write_text(PROGRAM.replace("PLACE", str(place)))
    program.chmod(0o755)
    harbor_check.LOGS = place / "logs"
    saved = dict(os.environ)
    os.environ.update({"FLOPSMITH": str(program), "FLOPSMITH_PYTHON": python, "FLOPSMITH_SAMPLE": "all"})
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            code = harbor_check.main(["--json", str(place / "out/results.json"), *arguments])
    finally:
        os.environ.clear()
        os.environ.update(saved)
    written = place / "out/results.json"
    return code, said.getvalue(), json.loads(written.read_text()) if written.exists() else None


def each_task_has_its_result_by_the_scripts_of_the_product(place):
    for name, numbers, outcome in (("fast", "3.5,3.25,3.75", "measured"), ("same", "1.01,0.98,1.04", "measured"), ("slow", "0.5,0.4,0.6", "measured"), ("wrong", ",,", "rejected"), ("vague", "3.5,0.5,9.0", "unconverged")):
        task(place, name, numbers, outcome)
    task(place, "softmax", "", module=True)
    code, said, written = checked(place)
    results = {one["task"]: one for one in written["tasks"]}
    assert code == 1 and {name: one["result"] for name, one in results.items()} == {
        "fast": "passed", "same": "passed", "slow": "failed", "wrong": "failed", "vague": "unmeasured", "module_softmax": "left out"}, results
    assert results["fast"]["oracle"] == {"reward": 3.25, "correct": 1, "ratio": 3.5} and results["fast"]["start"] == NOTHING.reward
    assert "0.6" in results["slow"]["reason"] and "three attempts" in results["vague"]["reason"]
    assert written["summary"] == {"passed": 2, "failed": 2, "unmeasured": 1, "left out": 1}
    assert "skipped: 1 tasks of modules, since false has no PyTorch" in said and "2 passed; 3 failed" in said, said
    assert "attempt 3: unconverged" in (place / "logs/vague.log").read_text()


def a_check_of_good_tasks_passes_and_one_of_none_does_not(place):
    task(place, "fast", "3.5,3.25,3.75")
    assert checked(place)[0] == 0
    # This program knows no `--problem`. The exit code of a refused export is that of the check.
    code, _, _ = checked(place, "--problem", "fast")
    assert code == 2
    assert harbor_check.code_of([]) == 3 and harbor_check.code_of([{"result": "left out"}]) == 3
    assert harbor_check.code_of([{"result": "passed"}, {"result": "unmeasured"}]) == 3


def a_module_is_judged_where_there_is_pytorch(place):
    task(place, "softmax", "2,1.9,2.1", module=True)
    code, said, written = checked(place, python="true")
    assert code == 0 and written["tasks"][0]["result"] == "passed", said


def a_reward_for_nothing_or_none_for_the_oracle_is_a_failure(_):
    fast = Judged(0, {"reward": 3.25, "correct": 1, "ratio": 3.5})
    assert verdict(NOTHING, 0, fast) == ("passed", None)
    assert verdict(fast, 0, fast)[0] == "failed" and verdict(Judged(3, None), 0, fast)[0] == "failed"
    assert verdict(NOTHING, 1, fast) == ("failed", "solve.sh ended with exit code 1")
    assert verdict(NOTHING, 0, Judged(3, None))[0] == "unmeasured"
    assert verdict(NOTHING, 0, NOTHING) == ("failed", "the oracle has the reward 0 (correct: 0) instead of at least 1")
    for lost in (Judged(0, None), Judged(2, None), Judged(None, None)):
        assert verdict(NOTHING, 0, lost)[0] == "failed", lost
    assert "time limit" in verdict(NOTHING, 0, Judged(None, None))[1]


def a_script_that_takes_too_long_ends_with_what_it_started(place):
    began = time.monotonic()
    with (place / "log").open("wb") as log:
        assert harbor_check.run(["sh", "-c", f"sleep 600 & echo $! >{place}/pid; wait"], place, dict(os.environ), log, 0.2) is None
        assert harbor_check.run(["sh", "-c", "exit 3"], place, dict(os.environ), log, 30) == 3
    assert time.monotonic() - began < 30
    stat = Path(f"/proc/{(place / 'pid').read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


if __name__ == "__main__":
    sys.exit(run_all("harbor_check", (
        each_task_has_its_result_by_the_scripts_of_the_product, a_check_of_good_tasks_passes_and_one_of_none_does_not, a_module_is_judged_where_there_is_pytorch,
        a_reward_for_nothing_or_none_for_the_oracle_is_a_failure, a_script_that_takes_too_long_ends_with_what_it_started,
    )))
