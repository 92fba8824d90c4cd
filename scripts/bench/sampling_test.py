#!/usr/bin/env python3
"""Tests of sampling.py that need neither a build nor torch."""
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from rust_style import run as run_all  # noqa: E402
from sampling import summary, table  # noqa: E402


def one(here, half, other):
    return {("here", "float32"): {"sample_tokens_per_s": here, "peak_memory_mib": 10, "tokens_per_cpu_s": 4},
            ("here", "bfloat16"): {"sample_tokens_per_s": half, "peak_memory_mib": 6},
            ("transformers", "float32"): {"sample_tokens_per_s": other}}


ROUNDS = [one(20, 30, 10), one(90, 80, 20), one(30, 30, 10)]


def ratios_are_those_of_rounds_and_of_the_same_numbers(_):
    of = summary(ROUNDS)[("transformers", "float32")]
    # The ratios are 2, 4.5 and 3; the medians of the rates would give 3, too, and those of bfloat16 3, 4 and 3.
    assert (of["rate"], of["ratio"], of["half"]) == (10, 3, 3), of
    assert summary(ROUNDS[:2])[("transformers", "float32")]["ratio"] == 3.25
    assert summary(ROUNDS)[("here", "float32")]["memory"] == 10


def values_missing_from_a_side_are_no_numbers(_):
    lines = list(table(summary(ROUNDS)))
    assert len(lines) == 4 and lines[0].startswith("side")
    assert lines[3].split() == ["transformers", "float32", "10", "-", "-", "3.00", "3.00"], lines[3]


if __name__ == "__main__":
    sys.exit(run_all("sampling", (ratios_are_those_of_rounds_and_of_the_same_numbers, values_missing_from_a_side_are_no_numbers)))
