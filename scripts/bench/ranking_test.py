#!/usr/bin/env python3
"""Tests of ranking.py that measure nothing."""
import ctypes
import math
import random
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from ranking import judge, programs  # noqa: E402
from rust_style import run as run_all  # noqa: E402


def rank(file, place, ratio, se=0.001):
    return {"file": f"/somewhere/{file}", "rank": place, "ratio": ratio, "log_ratio_se": se,
            "outcome": "measured" if place else "unconverged"}


def pairs_that_are_apart_in_both_count(_folder):
    truth = [rank("a.c", 1, 40.0), rank("b.c", 2, 20.0), rank("c.c", 3, 19.99), rank("d.c", 4, 10.0)]
    ranked = [rank("b.c", 1, 41.0), rank("a.c", 2, 30.0), rank("c.c", 3, 20.0), rank("d.c", None, 90.0)]
    found = judge(ranked, truth)
    # b before a is wrong, a before c is right; b and c are equal by the certification, and d has no rank.
    assert (found["pairs_right"], found["pairs_apart"]) == (1, 2), found
    assert found["ranked"] == 3 and found["unconverged"] == 1, found
    assert found["first"] == "b.c" and math.isclose(found["first_of_best"], 0.5), found
    assert judge([], truth)["first"] is None


def programs_are_different_and_all_right(folder):
    drawn = programs(79, 1)
    assert len({source for _, source in drawn}) == 79
    if not shutil.which("gcc"):
        print("skipped: there is no gcc")
        return
    n = 37
    numbers = random.Random(1)
    a, b = ([numbers.random() for _ in range(n * n)] for _ in range(2))
    expected = [sum(a[i * n + k] * b[k * n + j] for k in range(n)) for i in range(n) for j in range(n)]
    array = ctypes.c_double * (n * n)
    for name, source in drawn[::7]:
        file, library = folder / f"{name}.c", folder / f"{name}.so"
        file.write_text(source)
        subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, file], check=True)
        result = array(*([math.nan] * (n * n)))
        ctypes.CDLL(str(library)).dgemm(n, array(*a), array(*b), result)
        assert all(math.isclose(x, y, rel_tol=1e-12) for x, y in zip(result, expected, strict=True)), name


if __name__ == "__main__":
    sys.exit(run_all("ranking", (pairs_that_are_apart_in_both_count, programs_are_different_and_all_right)))
