#!/usr/bin/env python3
"""Tests of decided.py on small folders that they write."""
import contextlib
import io
import json
import math
import sys
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import decided  # noqa: E402
from decided import arguments, figures, kind, logs, medians, outcomes, read, table, told  # noqa: E402
from rust_style import run as run_all  # noqa: E402

MEASURED = {"type": "measured", "measurement": {"reused": False}}
REUSED = {"type": "measured", "measurement": {"reused": True}}
WRONG = {"type": "rejected", "fault": "wrong_result", "detail": ""}
LOST = {"type": "infrastructure", "cause": "bus", "detail": ""}
NUMBERS = iter(range(10**6))


def outcome(verdict=MEASURED, seconds=(0.1, 0.2, 0.3), purpose="search", source="int a;", name=None):
    return {"candidate": {"id": name or f"r-s1-g0-c{next(NUMBERS)}", "purpose": purpose}, "source": source, "verdict": verdict, "stage_seconds": list(seconds)}


def written(folder, *lines, rest=""):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "outcomes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + rest)
    return folder


# A second of compilation and half a second of each other stage, for two programs; the others are not counted.
RUN = (outcome(seconds=(0.25, 0.25, 0.5)), outcome(WRONG, (0.75, 0.25, 0)), outcome(REUSED, (0, 0, 0)), outcome(WRONG, (0, 0, 0)),
       outcome(WRONG, (0, 0, 0), source=" "), outcome(purpose="certify", seconds=(0, 0, 2.0)))


def only_work_on_fresh_programs_decides(_):
    kinds = [kind(one) for one in RUN]
    assert kinds == ["decided", "decided", "duplicates", "duplicates", "without_program", "again"], kinds
    assert kind(outcome(LOST)) == kind(outcome({"type": "unknown", "cause": "harness", "detail": ""})) == "lost"
    assert kind(outcome(purpose="train")) == kind(outcome(purpose="evaluate_end")) == "decided"
    assert kind(outcome(REUSED, (0.1, 0, 0))) == "duplicates"


def shares_and_rates_are_those_of_core_seconds(_):
    of = figures(RUN)
    assert (of["core_seconds"], of["again_core_seconds"]) == (2.0, 2.0), of
    assert {name: stage["core_seconds"] for name, stage in of["stages"].items()} == {"compile": 1.0, "verify": 0.5, "screen": 0.5}, of
    assert {name: stage["share"] for name, stage in of["stages"].items()} == {"compile": 0.5, "verify": 0.25, "screen": 0.25}, of
    # The refused program was never timed, so it has no part in that median.
    assert {name: stage["median_ms"] for name, stage in of["stages"].items()} == {"compile": 500, "verify": 250, "screen": 500}, of
    assert (of["per_core_second"], of["per_core_second_with_again"]) == (1.0, 0.5), of
    # Timing holds three cores.
    of = figures(RUN, cores=3)
    assert (of["core_seconds"], of["again_core_seconds"], of["stages"]["screen"]["core_seconds"]) == (3.0, 6.0, 1.5), of
    assert of["stages"]["screen"]["median_ms"] == 500, of
    # The work on what was lost counts, and it decides nothing.
    of = figures([*RUN, outcome(LOST, (2.0, 0, 0))])
    assert (of["lost"], of["decided"], of["per_core_second"]) == (1, 2, 0.5), of
    nothing = figures([])
    assert nothing["per_core_second"] is None and nothing["stages"]["compile"] == {"core_seconds": 0.0, "share": None, "median_ms": None}, nothing
    assert len(list(table(told({"empty": nothing})))) == 4


def a_log_is_read_as_far_as_it_is_written(folder):
    twice = outcome(name="r-s1-g0-c0")
    log = written(folder, twice, twice, outcome(seconds=(-1, 0.5, 0)), rest='{"candidate": {"id": "r') / "outcomes.jsonl"
    found = outcomes(log)
    # A clock that was set back counts as 0.
    assert len(found) == 2 and found[1]["stage_seconds"] == [0.0, 0.5, 0.0], found
    for wrong in ("no JSON", "[]", "{}", json.dumps(outcome() | {"stage_seconds": [1, 2]}), json.dumps(outcome() | {"verdict": None})):
        log.write_text(json.dumps(twice) + "\n" + wrong + "\n")
        try:
            outcomes(log)
        except ValueError as error:
            assert f"{log}, line 2" in str(error), error
        else:
            raise AssertionError(wrong)


def a_folder_of_runs_stands_for_its_runs(folder):
    for name in ("b", "a"):
        written(folder / "one" / name, *RUN)
    written(folder / "two" / "a", *RUN)
    assert [file.parent.name for file in logs(folder / "one")] == ["a", "b"] and logs(folder / "one/a") == [folder / "one/a/outcomes.jsonl"]
    assert list(read([folder / "one/b", folder / "two"], 1)) == ["b", "a"]
    assert list(read([folder / "one", folder / "two"], 1)) == [str((folder / "one/a").resolve()), "b", str((folder / "two/a").resolve())]
    try:
        logs(folder)
    except ValueError as error:
        assert "there is no outcomes.jsonl" in str(error), error
    else:
        raise AssertionError("an empty folder is no run")


def ratios_are_those_of_medians(folder):
    def run(count, seconds):
        return figures([outcome(seconds=(seconds, 0, 0)) for _ in range(count)])

    # 10, 20 and 40 candidates in a core-second, against 8 and 12 of them.
    runs = {str(count): run(count, 1 / count) for count in (10, 20, 40)}
    against = {str(count): run(count, 1 / count) for count in (8, 12)}
    found = told(runs, against)
    assert math.isclose(medians(runs.values())["per_core_second"], 20) and math.isclose(found["ratio"]["per_core_second"], 2), found
    assert math.isclose(found["median"]["stages"]["compile"]["median_ms"], 50), found
    text = "\n".join(table(found))
    assert "\n| median | " in text and "\n| against median | " in text and "--against: 2.000, with again 2.000" in text, text
    assert "ratio" not in told(runs) and "ratio" in told(runs, {"empty": figures([])})
    assert told(runs, {"empty": figures([])})["ratio"]["per_core_second"] is None


def table_and_json_say_the_same(folder):
    one, other = written(folder / "one", *RUN, outcome(LOST, (0, 0, 0))), written(folder / "other", *RUN, *RUN)

    def said(*words):
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["decided.py", *map(str, words)]), contextlib.redirect_stdout(out):
            decided.main()
        return out.getvalue()

    text = said(one, "--against", other)
    assert "| one | 1.0 (50%) | 0.5 (25%) | 0.5 (25%) | 2.0 | 2 | 2 | 1.00 | 0.50 | 500 / 250 / 500 |" in text, text
    assert "- one: 1 candidates failed" in text and "median |" not in text.partition("\n")[2], text
    found = json.loads(said(one, "--against", other, "--json", "--cores", 2))
    assert found["cores"] == 2 and found["runs"]["one"]["core_seconds"] == 2.5 and found["ratio"]["per_core_second"] == 1.0, found
    with contextlib.redirect_stderr(io.StringIO()):
        for wrong in (["--cores", "0", "x"], []):
            try:
                arguments(wrong)
            except SystemExit as ended:
                assert ended.code == 2
            else:
                raise AssertionError(wrong)


if __name__ == "__main__":
    tests = (only_work_on_fresh_programs_decides, shares_and_rates_are_those_of_core_seconds, a_log_is_read_as_far_as_it_is_written, a_folder_of_runs_stands_for_its_runs,
             ratios_are_those_of_medians, table_and_json_say_the_same)
    sys.exit(run_all("decided", tests))
