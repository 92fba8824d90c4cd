#!/usr/bin/env python3
"""Tests of against_torch.py that need neither a build nor torch."""
import json
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import against_torch  # noqa: E402
from against_torch import compared, figures, summary, table  # noqa: E402
from rust_style import run as run_all  # noqa: E402

SHAPE = {"batch": 64, "prompt": 32, "tokens": 256}


def said(**more):
    return {**SHAPE, "parameters": 7, "sample_tokens_per_s": 200, "train_tokens_per_s": 30.0, **more}


def refused(words, call, *arguments):
    try:
        call(*arguments)
    except ValueError as error:
        assert words in str(error), error
        return
    raise AssertionError(f"{arguments} was accepted")


def the_last_line_counts(_):
    out = "loading…\n{not json}\n" + json.dumps(said(torch="2.11.0")) + "\n"
    assert figures("peer", out, SHAPE, ["sample_tokens_per_s"])["torch"] == "2.11.0"
    refused("not a JSON object: done", figures, "peer", json.dumps(said()) + "\ndone\n", SHAPE, [])
    refused("(nothing)", figures, "peer", "\n", SHAPE, [])
    refused("not a JSON object: 3", figures, "peer", "3", SHAPE, [])


def other_shapes_and_missing_figures_are_refused(_):
    refused("tokens is 128, not 256", figures, "peer", json.dumps(said(tokens=128)), SHAPE, [])
    for wrong in (None, 0, -1, True, "20", float("nan"), float("inf")):
        refused("`train_tokens_per_s`", figures, "peer", json.dumps(said(train_tokens_per_s=wrong)), SHAPE, ["train_tokens_per_s"])
    refused("the models differ", compared, said(), said(parameters=8))


def ratios_are_ours_to_the_peers_round_by_round(_):
    rounds = [compared(said(sample_tokens_per_s=here), said(sample_tokens_per_s=peer)) for here, peer in ((300, 100), (200, 100), (400, 50))]
    assert [r["sample"]["ratio"] for r in rounds] == [3, 2, 8]
    whole = summary(rounds)
    assert whole["sample"]["ratio"] == {"median": 3, "low": 2, "high": 8}, whole
    assert whole["sample"]["here"] == {"median": 300, "low": 200, "high": 400}
    assert whole["train"]["ratio"] == {"median": 1, "low": 1, "high": 1}
    lines = list(table(rounds))
    assert [line.split()[0] for line in lines] == ["tokens/s", "round", "round", "round", "median", "low", "high"]
    assert lines[1].split() == ["round", "1", "300", "100", "3.00", "30", "30", "1.00"], lines[1]
    assert lines[4].split() == ["median", "300", "100", "3.00", "30", "30", "1.00"], lines[4]


def both_sides_run_in_turns_with_equal_shapes(folder):
    """Runs the whole script with programs that print their arguments."""
    program = ("#!/usr/bin/env python3\nimport json, os, sys\n"
               f"with open({str(folder / 'calls')!r}, 'a') as calls:\n    print(*sys.argv, len(os.sched_getaffinity(0)), file=calls)\n"
               "told = dict(zip(sys.argv[2::2], sys.argv[3::2]))\n"
               "print(json.dumps({**{k: int(told['--' + k]) for k in ('batch', 'prompt', 'tokens')}, 'parameters': 7,\n"
               "                  'sample_tokens_per_s': 200, 'train_tokens_per_s': 30}))\n")
    for name in ("sample_speed", "train_speed", "peer.py"):
        (folder / name).write_text(program)
        (folder / name).chmod(0o755)
    (folder / "torch.py").write_text("__version__ = '2.11.0'\n")
    (folder / "python").write_text(f"#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} \"$@\"\n")
    (folder / "python").chmod(0o755)
    # The unchanged script, except the folder of the programs.
    start = (f"import sys; sys.path.insert(0, {str(Path(against_torch.__file__).parent)!r}); import against_torch, pathlib;"
             f"against_torch.EXAMPLES = pathlib.Path({str(folder)!r}); against_torch.main()")
    command = [sys.executable, "-Bc", start, "--peer", folder / "peer.py", "--python", folder / "python", "--rounds", "2", "--threads", "1",
               "--tokens", "16", "--output", folder / "out.json", "--", "--micro", "8"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "median" in ran.stdout and "torch 2.11.0" in ran.stdout, ran.stdout
    calls = [line.split() for line in (folder / "calls").read_text().splitlines()]
    assert [Path(c[0]).name for c in calls] == ["sample_speed", "train_speed", "peer.py", "peer.py", "sample_speed", "train_speed"], calls
    for call in calls:
        assert call[2:10] == ["--batch", "64", "--prompt", "32", "--tokens", "16", "--steps", "3"], call
        assert call[-1] == "1", "held to one core"
    assert calls[0][10:-1] == ["--threads", "1", "--prompts", "64"] and calls[1][10:-1] == []
    assert calls[2][10:-1] == ["--threads", "1", "--micro", "8"]
    out = json.loads((folder / "out.json").read_text())
    assert out["summary"]["train"]["ratio"]["median"] == 1 and [r["first"] for r in out["rounds"]] == ["here", "peer"], out


if __name__ == "__main__":
    sys.exit(run_all("against_torch", (the_last_line_counts, other_shapes_and_missing_figures_are_refused, ratios_are_ours_to_the_peers_round_by_round,
                                       both_sides_run_in_turns_with_equal_shapes)))
