#!/usr/bin/env python3
"""Tests of agent.py that need no build: searches and judgements of their own."""
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
import agent  # noqa: E402
from agent import (AGENT, SEARCH, arguments, by_interval, compared, digest, is_kept, judgement, kept_cases, one_pair, order, over, pairs_of, rounding, search,  # noqa: E402
                   summary, table, tried, verdict)
from peers.cases import ROOT, Case  # noqa: E402
from peers.tools import Missing  # noqa: E402
from rust_style import run as run_all  # noqa: E402


def case(several=True):
    return Case("dgemm", ROOT / "problems/dgemm", "n=256", {"n": 256}, {}, several)


def options(folder=Path("nowhere"), *given):
    return arguments(["--work", str(folder), "--flopsmith", "flopsmith", *given])


def pair(ratio, half=0.01, **more):
    return {"state": "judged", "ratio": ratio, "interval": [ratio * math.exp(-half), ratio * math.exp(half)], **more}


def row(outcome="measured", **more):
    return {"outcome": outcome, "reason": None, "gflops": 40.0, "ratio": 20.0, "techniques": [], **more}


def both_searches_have_the_same_options(_):
    commands = {side: search(options(), case(), side, 7, Path("best.c"), Path("runs")) for side in (SEARCH, AGENT)}
    assert commands[AGENT] == [*commands[SEARCH], "--agent"], commands
    plain = " ".join(commands[SEARCH])
    for words in ("--evaluations 320", "--seed 7", "--cold", "--budget 12h", "--workload n=256", "--format json", "--output best.c"):
        assert words in plain, plain
    assert "--workload" not in search(options(), case(several=False), AGENT, 7, Path("best.c"), Path("runs"))


def wrong_numbers_are_refused(_):
    assert options(Path("x"), "--evaluations", "64").evaluations == 64
    for wrong in (["--evaluations", "0"], ["--evaluations", "-32"], ["--seeds", "1", "1"], ["--seeds", "-1"]):
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                arguments(wrong)
            except SystemExit as ended:
                assert ended.code == 2
            else:
                raise AssertionError(wrong)


def steps_are_whole(_):
    assert options(Path("x"), "--evaluations", "300").evaluations == 300
    # As the unit tests of `flopsmith search` have it: ten steps of 32, and 19 of 16.
    assert tried(300) == {SEARCH: 320, AGENT: 304} and tried(320) == {SEARCH: 320, AGENT: 320} and tried(1) == {SEARCH: 32, AGENT: 16}
    words = rounding(300)
    assert all(part in words for part in ("of 300 programs", "tries 320 in steps of 32", "304 in steps of 16")), words
    assert rounding(320) is None and "of 16 programs the search tries 32" in rounding(16)


def the_ratio_is_that_of_the_agent_whichever_is_first(_):
    interval = {"low": 1.9, "high": 2.1}
    first_search = {SEARCH: row(against=True), AGENT: row(ratio_to_against=2.0, interval_to_against=interval)}
    found = compared(first_search, order(0))
    assert (found["ratio"], found["interval"]) == (2.0, [1.9, 2.1]), found
    first_agent = {AGENT: row(against=True), SEARCH: row(ratio_to_against=2.0, interval_to_against=interval)}
    found = compared(first_agent, order(1))
    assert (found["ratio"], found["interval"]) == (0.5, [1 / 2.1, 1 / 1.9]), found
    # The program behind --against is that of the first side.
    files = {SEARCH: "s.c", AGENT: "a.c"}
    for number, first in ((0, "s.c"), (1, "a.c")):
        command = judgement(options(), case(), files, order(number))
        assert command[command.index("--against") + 1] == first, command
        assert sorted(word for word in command if word in files.values()) == ["a.c", "s.c"], command
        assert command[command.index("--purpose") + 1] == "certify", command


def a_judgement_without_a_ratio_has_its_reason(_):
    refused = {SEARCH: row(against=True), AGENT: row("rejected", reason="wrong_result", ratio_to_against=None)}
    for found, reason in ((refused, "rejected: wrong_result"), ({SEARCH: row()}, "did not report both")):
        try:
            compared(found, order(0))
        except Missing as why:
            assert reason in str(why), why
        else:
            raise AssertionError(found)


def intervals_are_over_seeds(_):
    of = over([pair(1.0), pair(1.1), pair(1.21)])
    assert math.isclose(of["ratio"], 1.1) and of["seeds"] == 3 and of["reaches"], of
    # Student's t with two degrees of freedom; the standard error is ln(1.1) by the root of 3.
    half = 4.303 * math.log(1.1) / math.sqrt(3)
    assert all(math.isclose(end, 1.1 * math.exp(side * half)) for end, side in zip(of["interval"], (-1, 1), strict=True)), of
    # Always slower by the same share.
    assert not over([pair(0.9), pair(0.9), pair(0.9)])["reaches"]
    assert over([{"state": "failed", "reason": "x"}]) is None


def the_interval_decides_and_is_quoted(_):
    assert [by_interval(low, high) for low, high in ((0.9, 0.999), (0.9, 1.0), (1.0, 1.1), (1.001, 1.1), (1.0, 1.0))] == ["missed", "met", "met", "ahead", "met"]
    # One seed has the interval of its measurement.
    slower = over([pair(0.995, 0.01), {"state": "failed", "reason": "x"}])
    assert slower["interval"][1] > 1 and not slower["reaches"] and verdict(slower) == "met [0.985, 1.005], the figure itself is below 1", slower
    scattered = over([pair(0.5), pair(0.9), pair(1.2)])
    assert scattered["interval"][1] > 1 and not scattered["reaches"] and verdict(scattered).endswith("the figure itself is below 1"), scattered
    unsure, apart, worse = over([pair(1.005, 0.01)]), over([pair(1.02, 0.01)]), over([pair(0.98, 0.01)])
    assert (verdict(unsure), verdict(apart), verdict(worse)) == ("met [0.995, 1.015]", "ahead [1.010, 1.030]", "missed [0.970, 0.990]"), (unsure, apart, worse)
    equal = {"state": "judged", "ratio": 1.0, "interval": [1.0, 1.0], "equal": True}
    assert verdict(over([equal])) == verdict(over([equal, equal])) == "met [1.000, 1.000]" and verdict(None) == "not judged"
    results = {"dgemm": {"1": pair(0.995, 0.01)}}
    text = "\n".join(table(results))
    assert "| met [0.985, 1.005], the figure itself is below 1 |" in text, text
    assert summary(results)["all_met"] and not summary(results)["all_reach"] and not summary({"dgemm": {"1": pair(0.98, 0.01)}})["all_met"]


def a_problem_without_a_pair_is_named_and_reaches_nothing(_):
    results = {"dgemm at n=256": {"1": pair(1.0), "2": pair(4.0), "10": pair(2.0, equal=True)}, "dsyrk at small": {"1": {"state": "failed", "reason": "no gcc"}}}
    found = summary(results)
    assert math.isclose(found["geometric_mean"], 2.0) and found["interval"] is None, found
    assert not found["all_reach"] and not found["all_met"] and summary({"a": {"1": pair(1.0)}, "b": {"1": pair(1.0)}})["all_reach"]
    text = "\n".join(table(results))
    assert "| problem | seed 1 | seed 2 | seed 10 |" in text and "2.000 [1.980, 2.020] equal" in text, text
    assert "| dsyrk at small | failed |  |  |  | not judged |" in text, text
    assert "over 1 problems" in text and "- dsyrk at small, seed 1: no gcc" in text, text
    nothing = {"a": {"1": {"state": "failed", "reason": "x"}}}
    assert summary(nothing)["geometric_mean"] is None and "geometric mean" not in "\n".join(table(nothing))


class Fake:
    """Stands for `flopsmith`: each search writes a program, and a judgement finds the second program twice as fast."""

    def __init__(self, sources, fails=()):
        self.sources, self.fails, self.ran = sources, fails, []

    def __call__(self, command, limit=None):
        side = AGENT if "--agent" in command else SEARCH
        kind = command[1] if command[1] == "bench" else side
        self.ran.append(kind)
        if kind in self.fails:
            return types.SimpleNamespace(returncode=1, stdout="", stderr="all programs were refused\n")
        if kind == "bench":
            first, second = command[command.index("--against") + 1], command[2]
            lines = [row(file=first, against=True), row(file=second, ratio_to_against=2.0, interval_to_against={"low": 1.9, "high": 2.1})]
            return types.SimpleNamespace(returncode=0, stdout="".join(json.dumps(line) + "\n" for line in lines), stderr="")
        Path(command[command.index("--output") + 1]).write_text(self.sources[side])
        told = {"judged_programs": 320, "steps": 10, "correct_programs": 300}
        return types.SimpleNamespace(returncode=0, stdout=json.dumps(told) + "\n", stderr="")


def made_by(fake, chosen, number=0, earlier=None):
    with mock.patch.object(agent, "ended", fake), mock.patch.object(agent, "revision", lambda: "abc"), contextlib.redirect_stderr(io.StringIO()):
        return one_pair(chosen, case(), 1, number, earlier or {})


def finished_parts_are_kept(folder):
    fake = Fake({SEARCH: "int a;\n", AGENT: "int b;\n"})
    first = made_by(fake, options(folder))
    assert fake.ran == [SEARCH, AGENT, "bench"] and first["ratio"] == 2.0, (fake.ran, first)
    assert first["sources"] == fake.sources and first["searches"][AGENT]["programs"] == 320, first
    fake.ran.clear()
    assert made_by(fake, options(folder, "--resume"), earlier=first) == first and fake.ran == []
    # The other one is first in the next turn; without the earlier judgement only that is repeated.
    assert made_by(fake, options(folder, "--resume"), number=1)["ratio"] == 0.5 and fake.ran == ["bench"]
    fake.ran.clear()
    # Searches of another number of programs are repeated. They found the same programs, so the judgement holds.
    assert made_by(fake, options(folder, "--resume", "--evaluations", "64"), earlier=first)["searches"][AGENT]["evaluations"] == 64
    assert fake.ran == [SEARCH, AGENT], fake.ran
    fake.ran.clear()
    made_by(fake, options(folder), number=1, earlier=first)
    assert fake.ran == [AGENT, SEARCH, "bench"], fake.ran


def a_failed_search_is_told_and_repeated(folder):
    pair = made_by(Fake({SEARCH: "int a;\n"}, fails=(AGENT,)), options(folder))
    assert pair["state"] == "failed" and "all programs were refused" in pair["reason"], pair
    fake = Fake({SEARCH: "int a;\n", AGENT: "int a;\n"})
    again = made_by(fake, options(folder, "--resume"), earlier=pair)
    # Equal programs need no judgement.
    assert fake.ran == [AGENT] and again["equal"] and again["ratio"] == 1.0, (fake.ran, again)


def only_alike_results_are_kept(folder):
    earlier = {"evaluations": 320, "purpose": "certify", "cases": {"dgemm at n=256": {"params": {"n": 256}, "pairs": {"1": pair(1.0)}}}}
    assert pairs_of(kept_cases(earlier, options())) == {"dgemm at n=256": {"1": pair(1.0)}}
    assert kept_cases(earlier, options(Path("x"), "--purpose", "rank")) == {} and kept_cases({}, options()) == {}
    file = folder / "a.c"
    file.write_text("int a;\n")
    made = {"state": "found", "evaluations": 320, "file": str(file)}
    assert is_kept(made, 320) and not is_kept(made, 64) and not is_kept({"state": "failed"}, 320)
    other = folder / "b.c"
    other.write_text("int b;\n")
    digests = {digest({SEARCH: made, AGENT: of}, purpose) for of in (made, made | {"file": str(other)}) for purpose in ("rank", "certify")}
    assert len(digests) == 4
    file.unlink()
    assert not is_kept(made, 320)


if __name__ == "__main__":
    tests = (both_searches_have_the_same_options, wrong_numbers_are_refused, steps_are_whole, the_ratio_is_that_of_the_agent_whichever_is_first,
             a_judgement_without_a_ratio_has_its_reason, intervals_are_over_seeds,
             the_interval_decides_and_is_quoted, a_problem_without_a_pair_is_named_and_reaches_nothing,
             finished_parts_are_kept, a_failed_search_is_told_and_repeated, only_alike_results_are_kept)
    sys.exit(run_all("agent", tests))
