#!/usr/bin/env python3
"""Tests of evaluation_cost.py that need no build: evaluations that a script writes, and a compiler that only counts."""
import contextlib
import io
import json
import math
import sys
import types
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import evaluation_cost  # noqa: E402
from evaluation_cost import (arguments, code, compilation, definition, evaluation, heard, kept, kernels, left, measured, programs, shape, summary, table,  # noqa: E402
                             times)
from peers.cases import ROOT  # noqa: E402
from peers.tools import Missing  # noqa: E402
from rust_style import run as run_all  # noqa: E402

SAID = ["sampling…", "3 distinct programs to evaluate for 1 problem", "dgemm: measuring this machine and the plain reference…", "[1/3] dgemm ab: 2×", "a word of advice",
        "[2/3] dgemm cd: wrong_result", "[3/3] dgemm ef: 3×", "prompts, answers, outcomes, results and charts are in x"]
LINES = list(zip((1, 4, 5, 10, 11, 12, 16, 17), SAID, strict=True))


def options(folder=Path("nowhere"), *given):
    return arguments(["--work", str(folder), "--flopsmith", "flopsmith", *given])


def pair(seconds, bare, programs=2, between=0.0):
    return {"state": "measured", "answers": 20, "programs": programs, "eval_seconds": seconds, "answering_seconds": 1.0, "between_seconds": between,
            "bare_seconds": bare, "ratio": seconds / bare}


def all_kernels_of_the_repository_are_chosen(_):
    folders = sorted([*ROOT.glob("problems/*/problem.toml"), *ROOT.glob("problems/*/*/problem.toml")])
    places = [file.parent.relative_to(ROOT) for file in folders]
    # Modules have the name of their folder before their own: some are called like kernels.
    found = [{"problem": f"modules/{place.name}" if "modules" in place.parts else place.name, "folder": str(place), "error": None} for place in places]
    assert len(kernels(found)) == 53, sorted(kernels(found))
    assert kernels(found, ["dgemm"]) == {"dgemm": ROOT / "problems/dgemm"}
    broken = [{"problem": "dgemm", "folder": "problems/dgemm", "error": "no entry"}]
    for entries, wanted, words in ((found, ["no"], "unknown problem no; known are "), (found, ["modules/conv2d"], "no kernel in C"), (broken, [], "is broken: no entry")):
        try:
            kernels(entries, wanted)
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(wanted)


def both_sides_compile_with_the_flags_of_the_problem(_):
    for folder in kernels([{"problem": "x", "folder": "problems/dgemm", "error": None}]).values():
        of = definition(folder)
        words = compilation(of, Path("a.c"), Path("a.so"))
        assert words[:1 + len(of["compile"]["flags"])] == ["gcc", *of["compile"]["flags"]], words
        assert {"-shared", "-fPIC"} < set(words) and words[-1] == "-lm" and "-O3" in words and "-fopenmp" in words, words
        assert "-lm" not in compilation({"compile": {"flags": [], "includes": ["stddef.h"]}}, Path("a.c"), Path("a.so"))
    command = " ".join(evaluation(options(Path("x"), "--model", "schedule", "--purpose", "screen"), "dgemm", Path("there")))
    for part in ("eval schedule", "--problem dgemm", "--samples 20", "--purpose screen", "--wait 0", "--compiler gcc", "--output there"):
        assert part in command, command
    assert "--flags" not in command and arguments(["--model", str(ROOT / "models/starter")]).model == arguments([]).model == "models/starter"


def time_is_divided_at_the_messages(_):
    assert times(LINES, 0, 18) == {"whole_seconds": 18, "answering_seconds": 4, "eval_seconds": 14, "between_seconds": 6}
    assert times([(1, "1 distinct program to evaluate for 1 problem"), (2, "[1/1] dgemm ab: 2×")], 0, 3)["between_seconds"] == 0
    assert times([(1, "computing the metrics…")], 0, 2) is None


def lines_come_with_their_moments(folder):
    script = folder / "said"
    script.write_text("#!/bin/sh\necho one >&2\necho data\necho two >&2\nexit 3\n")
    script.chmod(0o755)
    lines, begun, ended, code = heard([str(script)])
    assert [line for _, line in lines] == ["one", "two"] and begun <= lines[0][0] <= lines[1][0] <= ended and code == 3, lines
    try:
        heard([str(folder / "no such program")])
    except Missing as why:
        assert "could not be started" in str(why), why
    else:
        raise AssertionError("nothing was started")


def measured_by(folder, sources, done, code=0, said=LINES):
    """A problem whose evaluation has these answers, so many outcomes, and this exit code; each compilation takes a second."""
    ran = []

    def hears(command, *_):
        place = Path(command[command.index("--output") + 1])
        place.mkdir(parents=True)
        (place / "samples.jsonl").write_text("".join(json.dumps({"problem": "dgemm", "program": source}) + "\n" for source in sources))
        (place / "outcomes.jsonl").write_text("".join(json.dumps({"outcome": outcome}) + "\n" for outcome in done))
        return said, 0, 18, code

    clock = iter(range(10**6))
    fakes = {"heard": hears, "subprocess": types.SimpleNamespace(run=lambda command, **_: ran.append(command), DEVNULL=None),
             "time": types.SimpleNamespace(monotonic=lambda: 5 * next(clock))}
    with mock.patch.multiple(evaluation_cost, **fakes):
        return measured(options(folder), "dgemm", ROOT / "problems/dgemm"), ran


def distinct_programs_are_compiled_once_a_repetition(folder):
    found, ran = measured_by(folder, ["int a;", "int b;", None, "int a;", "int c;"], ["measured", "rejected", "measured"])
    assert (found["state"], found["answers"], found["programs"], found["outcomes"]) == ("measured", 5, 3, {"measured": 2, "rejected": 1}), found
    assert len(ran) == 3 * evaluation_cost.REPEATS and (found["bare_seconds"], found["ratio"]) == (5, 14 / 5), found
    files = {Path(word) for command in ran for word in command if word.endswith(".c")}
    assert {file.read_text() for file in files} == {"int a;", "int b;", "int c;"}, files
    assert programs(folder / "dgemm/evaluation") == (["int a;", "int b;", "int c;"], 5)


def an_evaluation_without_all_outcomes_is_no_measurement(folder):
    found, ran = measured_by(folder, [None, None], [], said=[(1, "computing the metrics…")])
    assert found["state"] == "no programs" and "none of 2 answers" in found["reason"] and not ran, found
    found, ran = measured_by(folder, ["int a;", "int b;"], ["measured"])
    assert found["state"] == "failed" and "1 of 2 programs" in found["reason"] and not ran, found
    found, ran = measured_by(folder, ["int a;"], ["infrastructure"], code=3)
    assert found["state"] == "failed" and "ended with 3: prompts, answers" in found["reason"], found


def the_whole_is_judged(_):
    results = {"a": pair(3.0, 2.0, between=1.0), "b": pair(4.0, 1.5), "c": {"state": "no programs", "reason": "no space"}}
    of = summary(results)
    assert (of["ratio"], of["met"], of["above"], of["problems"], of["programs"]) == (2.0, True, ["b"], 2, 4) and code(of) == 0, of
    # Half of the bare cost is that of the second programs.
    assert math.isclose(of["between_ratio"], 1.0 / 1.75), of
    text = "\n".join(table(results))
    assert "| a | 20 | 2 | 3.0 | 1.0 | 2.00 | 1.50 |" in text and "met: at most 2 times" in text and "- c: no programs: no space" in text, text
    slow = summary(results | {"b": pair(4.1, 1.5)})
    assert not slow["met"] and code(slow) == 1 and "MISSED" in "\n".join(table(results | {"b": pair(4.1, 1.5)}))
    # A problem that failed leaves open whether the whole is as good as asked.
    lost = summary(results | {"d": {"state": "failed", "reason": "no gcc"}})
    assert lost["failed"] == ["d"] and not lost["met"] and code(lost) == 1, lost
    nothing = summary({"c": results["c"]})
    assert nothing["ratio"] is None and code(nothing) == 1 and "met" not in "\n".join(table({"c": results["c"]}))
    assert summary({"a": pair(3.0, 2.0, programs=1)})["between_ratio"] is None


def finished_problems_of_the_same_options_are_kept(_):
    chosen = options()
    earlier = {"shape": shape(chosen), "revision": "abc", "problems": {"a": pair(3.0, 2.0), "b": {"state": "failed", "reason": "x"}, "c": {"state": "no programs"}}}
    assert list(kept(json.loads(json.dumps(earlier)), chosen, "abc")) == ["a", "c"]
    assert kept(earlier, chosen, "abd") == {} == kept({}, chosen, "abc") == kept(earlier, options(Path("x"), "--samples", "5"), "abc")
    assert left(10, []) == "" and left(10, [60, 120]) == "; about 15 minutes are left"
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        arguments(["--samples", "0"])
        raise AssertionError("no samples are no evaluation")


if __name__ == "__main__":
    tests = (all_kernels_of_the_repository_are_chosen, both_sides_compile_with_the_flags_of_the_problem, time_is_divided_at_the_messages, lines_come_with_their_moments,
             distinct_programs_are_compiled_once_a_repetition, an_evaluation_without_all_outcomes_is_no_measurement, the_whole_is_judged,
             finished_problems_of_the_same_options_are_kept)
    sys.exit(run_all("evaluation_cost", tests))
