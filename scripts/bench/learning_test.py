#!/usr/bin/env python3
"""Tests of learning.py that need no run."""
import contextlib
import io
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from learning import keep_best, table  # noqa: E402
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
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        table({"search": [run | {"start": None, "end": None}], "zeros": [run | {"start": evaluated(0, 0.0), "end": evaluated(0, 0.0)}],
               "train": [run | {"start": evaluated(64, 5.0), "end": evaluated(64, 40.0)}]})
    search, zeros, train = shown.getvalue().splitlines()[2:]
    assert search.startswith("| search | 3 |  |  |  |  | 40.0 |"), search
    assert zeros.startswith("| zeros | 3 |  |  |  |  | 40.0 |"), zeros
    assert "5.00 → 40.00 | 8.0 | 64 |" in train, train


if __name__ == "__main__":
    sys.exit(run_all("learning", (the_winner_is_kept_beside_the_numbers, a_later_run_of_the_same_name_and_seed_leaves_the_earlier_program,
                                  a_run_without_a_verified_program_keeps_nothing, a_search_has_no_policy_to_show)))
