#!/usr/bin/env python3
"""Tests of verify.py with parts that take less than a second."""
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import verify  # noqa: E402
from rust_style import run as run_all  # noqa: E402
from verify import Part  # noqa: E402

SUMMARY = """     Summary [  12.345s] 7 tests run: 5 passed (1 slow), 2 failed, 3 skipped
test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
"""


def verified(place, arguments, parts, commit="c", changed=False):
    """Runs these parts; returns the exit code and the written results."""
    verify.ROOT, verify.RESULT, verify.LOGS = place, place / "verify.json", place / "logs"
    verify.PARTS, verify.output_of, verify.changed = parts, lambda _: commit, lambda: changed
    sys.argv = ["verify.py", *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = verify.main()
    return code, json.loads(verify.RESULT.read_text())


def results(written):
    return {part["part"]: part["result"] for part in written["parts"]}


def tests_are_counted_as_the_runner_and_the_scripts_say_it(_):
    assert verify.counts(SUMMARY) == {"passed": 9, "failed": 3, "skipped": 3}
    assert verify.counts("nothing of the kind") == {}


def one_of_several_programs_is_enough(_):
    assert verify.have_one("no-such-browser", "sh") is None
    assert verify.have_one("no-such-browser", "nor-this") == "none of no-such-browser, nor-this found"


def a_part_that_fails_stops_no_other(place):
    code, written = verified(place, [], [
        Part("bad", "", "echo no; exit 3"),
        Part("late", "", "sleep 60", limit=0.1),
        Part("good", "", "echo 'skipped: a thing, as it is late'; echo other >>$FLOPSMITH_SKIPPED"),
        Part("lacking", "", "exit 1", lambda: "no such program"),
    ])
    assert code == 1
    assert results(written) == {"bad": "failed", "late": "failed", "good": "passed", "lacking": "skipped"}
    bad, late, good, lacking = written["parts"]
    assert bad["reason"] == "exit code 3" and "did not end" in late["reason"] and late["seconds"] < 30
    assert good["left_out"] == ["a thing, as it is late", "other"]
    assert lacking["reason"] == "no such program"
    assert written["commit"] == "c" and not written["uncommitted_changes"] and written["not_run"] == []


def passed_parts_are_kept_for_the_same_commit(place):
    ran = place / "ran"
    parts = [Part("first", "", f"echo first >>{ran}"), Part("second", "", f"echo second >>{ran}; exit 1"), Part("third", "", f"echo third >>{ran}")]
    code, written = verified(place, ["--only", "first", "--only", "second"], parts)
    assert code == 1 and written["not_run"] == ["third"]
    parts[1].command = f"echo second >>{ran}"
    code, written = verified(place, ["--resume"], parts)
    assert code == 0 and set(results(written).values()) == {"passed"}
    assert ran.read_text().split() == ["first", "second", "second", "third"]
    _, written = verified(place, ["--only", "third"], parts, commit="another")
    assert written["commit"] is None and [part["commit"] for part in written["parts"]] == ["c", "c", "another"]
    verified(place, ["--resume"], parts, commit="another")
    assert ran.read_text().split()[4:] == ["third", "first", "second"]
    verified(place, ["--resume"], parts, commit="another", changed=True)
    assert len(ran.read_text().split()) == 10


def parts_of_two_that_run_at_a_time_are_all_kept(place):
    result = place / "verify.json"
    # The first part starts before the second one and ends after it.
    inner = f"import sys; sys.argv = ['x']; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_verify as t; t.verified(t.Path({str(place)!r}), ['--only', 'short'], t.two())"
    parts = two(f'{sys.executable} -c "{inner}"')
    code, written = verified(place, ["--only", "long"], parts)
    assert code == 0 and results(written) == {"long": "passed", "short": "passed"}, written
    assert json.loads(result.read_text())["not_run"] == []


def a_part_that_is_checked_again_leaves_the_others_with_their_commit(place):
    verified(place, [], two("exit 1"))
    code, written = verified(place, ["--only", "long"], two(), commit="another")
    assert code == 0 and results(written) == {"long": "passed", "short": "passed"}
    assert [part["commit"] for part in written["parts"]] == ["another", "c"] and written["commit"] is None
    _, written = verified(place, ["--only", "short"], two(), commit="another", changed=True)
    assert results(written) == {"short": "passed"} and written["uncommitted_changes"]


def two(long="true"):
    return [Part("long", "", long), Part("short", "", "true")]


def parts_that_measure_come_first_and_alone(place):
    said = place / "said"
    # Each of two parts waits until the other one has begun.
    meet = lambda own, other: f"echo {own} >>{said}; touch {place}/{own}; until [ -e {place}/{other} ]; do sleep 0.01; done"
    alone = lambda name: Part(name, "", f"echo {name} >>{said}; [ ! -e {place}/first ]")
    parts = [Part("first", "", meet("first", "second"), beside=True, limit=30), alone("measures"), Part("second", "", meet("second", "first"), beside=True, limit=30), alone("too")]
    code, written = verified(place, ["--beside", "2"], parts)
    assert code == 0, written
    assert said.read_text().split()[:2] == ["measures", "too"]
    assert [part["part"] for part in written["parts"]] == ["first", "measures", "second", "too"]


def ctrl_c_ends_all_parts_and_writes_none_as_failed(place):
    place.joinpath("x.py").write_text(
        f"import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_verify as t\n"
        f"t.verified(t.Path({str(place)!r}), [], [t.Part('done', '', 'true')] + [t.Part(n, '', f'echo $$ >{place}/{{n}}; sleep 600', beside=True) for n in 'ab'])\n"
    )
    child = subprocess.Popen([sys.executable, place / "x.py"], start_new_session=True, stderr=subprocess.DEVNULL)
    files = [place / name for name in "ab"]
    pids = lambda: [int(text) for file in files if file.exists() and (text := file.read_text().strip())]
    try:
        deadline = time.monotonic() + 60
        while len(pids()) < len(files):
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) != 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids())
    finally:
        for pid in [child.pid, *pids()]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        child.wait()
    assert results(json.loads((place / "verify.json").read_text())) == {"done": "passed"}


def of_a_sample_a_part_takes_all(place):
    sample = place / "sample"
    verified(place, [], [Part("corpus", "", f"echo $FLOPSMITH_SAMPLE >{sample}", sample="all")])
    assert sample.read_text() == "all\n"


def every_part_is_named_once_and_says_what_it_is(_):
    names = [part.name for part in SHIPPED]
    assert len(set(names)) == len(names) and all(part.what for part in SHIPPED)


def every_part_that_make_runs_is_a_target(_):
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    wanted = {part.name: re.findall(r"\bmake ([a-z -]+)", part.command) for part in SHIPPED}
    assert wanted["clients"] == ["test-clients"]
    assert [(name, words) for name, found in wanted.items() for words in found if not set(words.split()) <= targets] == []


def a_million_outcomes_are_judged_alone(_):
    # It judges times and memory by itself only with this option.
    [part] = [part for part in SHIPPED if "make test-ui" in part.command]
    assert "--large" in part.command and not part.beside


SHIPPED = verify.PARTS


if __name__ == "__main__":
    sys.exit(run_all("verify", (
        tests_are_counted_as_the_runner_and_the_scripts_say_it, one_of_several_programs_is_enough, a_part_that_fails_stops_no_other, passed_parts_are_kept_for_the_same_commit,
        parts_of_two_that_run_at_a_time_are_all_kept, a_part_that_is_checked_again_leaves_the_others_with_their_commit, of_a_sample_a_part_takes_all,
        parts_that_measure_come_first_and_alone, ctrl_c_ends_all_parts_and_writes_none_as_failed, every_part_is_named_once_and_says_what_it_is,
        every_part_that_make_runs_is_a_target, a_million_outcomes_are_judged_alone,
    )))
