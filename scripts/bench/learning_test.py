#!/usr/bin/env python3
"""Tests of learning.py that need no run."""
import contextlib
import io
import sys
from argparse import Namespace
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from learning import interval, keep_best, over_seeds, problems_table, seeds_table, table, variants  # noqa: E402
from rust_style import run as run_all  # noqa: E402


def row(source, seed=3):
    return {"seed": seed, "best": {"gflops": 40.0, "source": source}}


def the_winner_is_kept_beside_the_numbers(folder):
    run = row("int x;\n")
    keep_best(run, folder / "learning.json", "examples/dgemm.toml")
    assert run["best"] == {"gflops": 40.0, "source_file": "best/examples-dgemm.toml-3.c"}, run
    assert (folder / run["best"]["source_file"]).read_text() == "int x;\n"


def a_later_run_of_the_same_name_and_seed_leaves_the_earlier_program(folder):
    runs = [row("int x;\n"), row("int y;\n"), row("int x;\n")]
    for run in runs:
        keep_best(run, folder / "learning.json", "full")
    assert [r["best"]["source_file"] for r in runs] == ["best/full-3.c", "best/full-3-2.c", "best/full-3.c"], runs
    assert (folder / "best/full-3.c").read_text() == "int x;\n"
    assert (folder / "best/full-3-2.c").read_text() == "int y;\n"


def a_run_without_a_verified_program_keeps_nothing(folder):
    run = {"seed": 3, "best": None}
    keep_best(run, folder / "learning.json", "full")
    assert run["best"] is None and not (folder / "best").exists()


def evaluated(samples, gflops):
    return {"samples": samples, "correct_rate": 1.0, "mean_gflops": gflops, "distinct_correct": samples}


def a_search_has_no_policy_to_show(_folder):
    run = {"seed": 3, "best": {"gflops": 40.0, "ratio_to_reference": 20.0, "interval": {"low": 19.0, "high": 21.0}},
           "peak_gflops": 50.0, "coverage": 7, "evaluated": 99, "share_of_time": {"idle": 0.01}}
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        table({"search": [run | {"start": None, "end": None}], "zeros": [run | {"start": evaluated(0, 0.0), "end": evaluated(0, 0.0)}],
               "train": [run | {"start": evaluated(64, 5.0), "end": evaluated(64, 40.0)}]})
    search, zeros, train = written.getvalue().splitlines()[2:]
    assert search.startswith("| search | 3 |  |  |  |  | 40.0 |"), search
    assert zeros.startswith("| zeros | 3 |  |  |  |  | 40.0 |"), zeros
    assert "5.00 → 40.00 | 8.0 | 64 |" in train, train


def over_many(end_ratio, gain):
    best = {"gflops": 40.0, "ratio_to_reference": 8.0, "source": "int x;\n"}
    problems = [{"problem": "dgemm", "best": best, "qd_score": 90.0}, {"problem": "dot", "best": None, "qd_score": 0.0}]
    return {"seed": 1, "start": evaluated(8, 5.0), "end": evaluated(8, 9.0), "best": None, "problems": problems, "peak_gflops": None, "coverage": 7,
            "evaluated": 99, "share_of_time": {"idle": 0.01}, "qd_score": None,
            "over_problems": {"start_ratio": 0.5, "end_ratio": end_ratio, "gain": gain}}


def shown(print_table, results):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_table(results)
    return text.getvalue().splitlines()[2:]


def a_run_over_many_problems_has_ratios_and_keeps_each_winner(folder):
    run = over_many(2.0, 4.0)
    keep_best(run, folder / "learning.json", "suite")
    assert (folder / "best/suite-1-dgemm.c").read_text() == "int x;\n"
    [line] = shown(table, {"suite": [run]})
    assert "| 0.50× → 2.00× | 4.0 | 8 |  | 8.0 over 1 of 2 |  |  | 7 | 99 | 0.010 | 90.0 |" in line, line
    run["problems"] = run["problems"][1:]
    [line] = shown(table, {"suite": [run | {"over_problems": None}]})
    assert "| none of 1 |" in line, line


def variants_are_told_apart_by_intervals_over_seeds(_folder):
    assert interval([2.0]) == (2.0, None, None)
    mean, low, high = interval([1.0, 2.0, 3.0])
    # 4.303 / sqrt(3) to either side.
    assert mean == 2.0 and abs(high - 4.4843) < 1e-3 and abs(low + 0.4843) < 1e-3, (low, high)
    results = {"full": [over_many(2.0, 2.0), over_many(8.0, 8.0)], "plain": [over_many(1.0, None)]}
    found = over_seeds(results)
    n, gain, low, high = found["full"]["gain"]
    assert n == 2 and abs(gain - 4.0) < 1e-9 and abs(low * high - 16.0) < 1e-6, (gain, low, high)
    assert "gain" not in found["plain"] and found["plain"]["mean ratio"] == (1, 1.0, None, None)
    full, plain = shown(seeds_table, results)
    assert full.startswith("| full |") and "90 [90, 90] (2)" in full and "| 1 (1) |" in plain, (full, plain)


def evaluated_problem(name, before, after):
    of = lambda ratio: evaluated(8, 5.0) | {"mean_ratio": ratio}
    return {"problem": name, "start": of(before), "end": of(after), "best": None}


def the_end_over_the_start_is_shown_by_problem_and_over_all(_folder):
    seeds = [{"problems": [evaluated_problem("dgemm", 0.5, 1.0), evaluated_problem("dot", 2.0, 2.0), evaluated_problem("axpy", 0.0, 1.0)]},
             {"problems": [evaluated_problem("dgemm", 0.5, 4.0), evaluated_problem("dot", 1.0, 1.0), {"problem": "dsyrk", "start": None, "end": None}]}]
    results = {"suite": seeds, "search": [{"problems": []}], "one": [{"problems": [evaluated_problem("dgemm", 1.0, 3.0)]}]}
    dgemm, dot, axpy, mean, one, mean_of_one = shown(problems_table, results)
    # 2 and 8 times as fast: exp(ln 4 ± 12.706 · ln 2).
    assert dgemm == "| suite | dgemm | 0.5 → 2.5 | 4 [0.000599, 2.67e+04] (2) |", dgemm
    assert dot == "| suite | dot | 1.5 → 1.5 | 1 [1, 1] (2) |", dot
    # No correct program before training: no ratio, and none in the mean over the two other problems.
    assert axpy == "| suite | axpy | 0 → 1 |  |", axpy
    assert mean == "| suite | geometric mean, with its interval over problems | | 2 [0.000299, 1.34e+04] (2) |", mean
    assert one == "| one | dgemm | 1 → 3 | 3 (1) |" and mean_of_one.endswith("| 3 (1) |"), (one, mean_of_one)
    assert shown(problems_table, {"search": [{"problems": []}, {}]}) == []


def a_variant_is_a_name_with_settings(_folder):
    named = Namespace(name="full", variant=[["full"], ["no SQD", "sqd.enabled=false", "learner.sharpen=1"]])
    assert variants(named) == {"full": [], "no SQD": ["--set", "sqd.enabled=false", "--set", "learner.sharpen=1"]}
    assert variants(Namespace(name="mine", variant=None)) == {"mine": []}


if __name__ == "__main__":
    sys.exit(run_all("learning", (the_winner_is_kept_beside_the_numbers, a_later_run_of_the_same_name_and_seed_leaves_the_earlier_program,
                                  a_run_without_a_verified_program_keeps_nothing, a_search_has_no_policy_to_show,
                                  a_run_over_many_problems_has_ratios_and_keeps_each_winner, variants_are_told_apart_by_intervals_over_seeds,
                                  the_end_over_the_start_is_shown_by_problem_and_over_all, a_variant_is_a_name_with_settings)))
