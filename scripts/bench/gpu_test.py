#!/usr/bin/env python3
"""Tests of gpu.py that need neither a build nor a GPU."""
import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from gpu import SHAPES, commands, last_object, line, row  # noqa: E402
from rust_style import run as run_all  # noqa: E402


def said(rate, memory):
    return dict(sample_tokens_per_s=rate, memory_mib=memory)


def both_sides_get_equal_shapes(_):
    a = argparse.Namespace(programs=Path("p"), python="python3", device="cuda", alone=False)
    for name, shape in SHAPES.items():
        found = commands(shape, Path("c.json"), a)
        assert len(found) == (4 if shape["peer"] else 2), name
        for (what, _), command in found.items():
            words = [str(word) for word in command]
            for key, number in zip(("--batch", "--prompt", "--tokens"), shape[what]):
                assert words[words.index(key) + 1] == str(number), (name, what, words)
            assert words[words.index("--dtype") + 1] == "bfloat16" and words[words.index("--device") + 1] == "cuda"
            assert what == "sample" or words[words.index("--lora") + 1] == "16"
    sizes = {name: shape["config"] for name, shape in SHAPES.items()}
    weights = {name: c["num_hidden_layers"] * c["hidden_size"] * (2 * c["hidden_size"] + 3 * c["intermediate_size"]) for name, c in sizes.items()}
    assert 1.2e9 < weights["1.5b"] < 1.6e9 and 1.2e10 < weights["14b"] < 1.5e10, weights


def the_other_side_can_be_left_out(_):
    a = argparse.Namespace(programs=Path("p"), python="python3", device="cuda", alone=True)
    assert {side for shape in SHAPES.values() for _, side in commands(shape, Path("c.json"), a)} == {"here"}


def a_ratio_is_the_median_of_the_rounds_ratios(_):
    rounds = [{("sample", "here"): said(here, 5), ("sample", "peer"): said(peer, 9)} for here, peer in ((20, 10), (90, 20), (30, 10))]
    found = row("1.5b", "sample", rounds)
    assert (found["here"], found["peer"], found["ratio"], found["memory"], found["peer_memory"]) == (30, 10, 3, 5, 9), found


def failed_and_missing_measurements_are_no_numbers(_):
    alone = row("14b", "sample", [{("sample", "here"): said(20, 5)}])
    assert (alone["peer"], alone["ratio"], alone["peer_memory"]) == (None, None, None)
    assert line(alone).split() == ["14b", "sample", "20", "-", "-", "5", "-"], line(alone)
    failed = row("1.5b", "sample", [{("sample", "here"): dict(failed="out of memory", memory_mib=7), ("sample", "peer"): said(10, 9)}])
    assert (failed["here"], failed["ratio"], failed["memory"]) == (None, None, 7), failed


def words_before_the_object_are_not_read(_):
    assert last_object('{"a": 1}\nwarning\n{"b": 2}\n') == {"b": 2}
    for wrong in ("", "3", "{"):
        try:
            last_object(wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


if __name__ == "__main__":
    sys.exit(run_all("gpu", (both_sides_get_equal_shapes, the_other_side_can_be_left_out, a_ratio_is_the_median_of_the_rounds_ratios, failed_and_missing_measurements_are_no_numbers,
                             words_before_the_object_are_not_read)))
