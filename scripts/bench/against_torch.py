#!/usr/bin/env python3
"""Compares sampling and training speed with a program in plain PyTorch, in turns, on equal shapes.

    python3 scripts/bench/against_torch.py --peer FILE.py [--rounds 5] [--output FILE.json] [-- --micro 8]

In each round `sample_speed` and `train_speed` (examples of flopsmith-policy and flopsmith-learner) and the peer run one after the
other; run nothing else on the machine. The first side alternates, so that a slow drift of the machine affects both sides alike. A
round's figure is the best of --steps after a warm-up step. Each round has its own ratio, ours to the peer's; the script reports
median and range of these ratios. All programs run on the same --threads cores, the first that this process may use.

The peer is not part of this repository: write one to check a figure. The script starts it as

    PYTHON FILE.py CONFIG.json --batch N --prompt N --tokens N --steps N --threads N

followed by the arguments after `--`. CONFIG.json is a Qwen2 config.json; weights are random, in single precision. From each of
`batch` different prompts of `prompt` tokens, the peer samples exactly `tokens` new tokens (temperature 1, and it keeps the
log-probability of each). Then it makes GRPO updates with AdamW on rows of that length. The last line of its stdout has to be a JSON
object with

    batch, prompt, tokens    the given numbers
    parameters               of the model, tied weights counted once
    sample_tokens_per_s      new tokens a second
    train_tokens_per_s       positions a second, including those of prompts

Further fields go into the output file unchanged.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from sigterm import ends_what_it_started

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "target/release/examples"
SHAPE = ("batch", "prompt", "tokens")
# Compared activities, and the program that measures each for Flopsmith.
KINDS = {"sample": "sample_speed", "train": "train_speed"}


def figures(who, stdout, shape, wanted):
    """The last object that a program printed; an error if it has other shapes or lacks a wanted figure."""
    lines = stdout.strip().splitlines()
    try:
        said = json.loads(lines[-1]) if lines else None
    except json.JSONDecodeError:
        said = None
    if not isinstance(said, dict):
        raise ValueError(f"{who}: the last line of its output is not a JSON object: {lines[-1] if lines else '(nothing)'}")
    for key in SHAPE:
        if said.get(key) != shape[key]:
            raise ValueError(f"{who}: {key} is {said.get(key)}, not {shape[key]}: the shapes would not be equal")
    for key in wanted:
        number = said.get(key)
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < float("inf"):
            raise ValueError(f"{who}: `{key}` is missing or not a positive number")
    return said


def compared(here, peer):
    """One round: figures of both sides for each kind, and their ratio."""
    if here["parameters"] != peer["parameters"]:
        raise ValueError(f"the models differ: {here['parameters']} parameters here, {peer['parameters']} in the peer's")
    rates = {kind: (here[f"{kind}_tokens_per_s"], peer[f"{kind}_tokens_per_s"]) for kind in KINDS}
    return {kind: {"here": a, "peer": b, "ratio": a / b} for kind, (a, b) in rates.items()}


def summary(rounds):
    """Median and range over the rounds, for each kind."""
    found = {}
    for kind in KINDS:
        columns = {side: [r[kind][side] for r in rounds] for side in ("here", "peer", "ratio")}
        found[kind] = {side: {"median": statistics.median(c), "low": min(c), "high": max(c)} for side, c in columns.items()}
    return found


def table(rounds):
    names = {"sample": "sampling", "train": "training"}
    yield f"{'tokens/s':<10}" + "".join(f"{f'{names[kind]} here':>16}{'peer':>10}{'ratio':>8}" for kind in KINDS)

    def line(name, of):
        return f"{name:<10}" + "".join(f"{of(kind, 'here'):>16,.0f}{of(kind, 'peer'):>10,.0f}{of(kind, 'ratio'):>8.2f}" for kind in KINDS)

    for number, one in enumerate(rounds, 1):
        yield line(f"round {number}", lambda kind, side: one[kind][side])
    whole = summary(rounds)
    for name in ("median", "low", "high"):
        yield line(name, lambda kind, side: whole[kind][side][name])


def run(command, cores):
    ran = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout


def find_python(asked):
    """An interpreter with torch: the given one, or the set-up's if it has torch, or this one."""
    own = ROOT / ".flopsmith/venv/bin/python"
    for python in [asked] if asked else [own, sys.executable]:
        try:
            ran = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
        except OSError:
            continue
        if ran.returncode == 0:
            return python, ran.stdout.strip()
    # The set-up keeps only libtorch's native libraries, which Python cannot import.
    sys.exit((f"{asked} has no torch" if asked else "no Python found with torch") + ": install it with\n"
             "  python3 -m venv FOLDER && FOLDER/bin/pip install torch==2.11.0\nand name the interpreter: --python FOLDER/bin/python")


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, required=True, metavar="FILE.py")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", help="interpreter with torch for the peer")
    parser.add_argument("--config", type=Path, default=ROOT / "models/starter/config.json")
    for name, default in {"batch": 64, "prompt": 32, "tokens": 256, "steps": 3, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--output", type=Path, help="write all results as JSON to this file")
    parser.add_argument("more", nargs="*", metavar="-- ARGUMENT", help="further arguments for the peer")
    a = parser.parse_args()
    shape = {key: getattr(a, key) for key in SHAPE}
    a.peer, a.config = a.peer.resolve(), a.config.resolve()
    for needed in (a.peer, a.config, *(EXAMPLES / name for name in KINDS.values())):
        if not needed.is_file():
            sys.exit(f"{needed} not found" + ("; build it: cargo build --release --workspace --locked --examples" if needed.parent == EXAMPLES else ""))
    if a.rounds < 1:
        sys.exit("--rounds must be at least 1")
    # Rows have to differ in their tokens, since Flopsmith computes equal rows once.
    vocabulary = json.loads(a.config.read_text())["vocab_size"]
    if a.batch > vocabulary:
        sys.exit(f"--batch {a.batch}: this vocabulary permits at most {vocabulary} different rows")
    cores = sorted(os.sched_getaffinity(0))[:a.threads]
    if len(cores) < a.threads:
        sys.exit(f"--threads {a.threads}: this process may use {len(cores)} cores")
    python, torch = find_python(a.python)

    sizes = [x for key, value in {**shape, "steps": a.steps}.items() for x in (f"--{key}", value)]
    threads = ["--threads", a.threads]

    def here():
        # The learner uses all permitted cores; the sampler needs the number of threads.
        more = {"sample": [*threads, "--prompts", a.batch], "train": []}
        said = {}
        for kind, program in KINDS.items():
            out = run([EXAMPLES / program, a.config, *sizes, *more[kind]], cores)
            said |= figures(program, out, shape, ["parameters", f"{kind}_tokens_per_s"])
        return said

    def peer():
        out = run([python, a.peer, a.config, *sizes, *threads, *a.more], cores)
        return figures(a.peer.name, out, shape, ["parameters", *(f"{kind}_tokens_per_s" for kind in KINDS)])

    rounds, said = [], []
    for number in range(a.rounds):
        sides = [("here", here), ("peer", peer)]
        if number % 2:
            sides.reverse()
        try:
            got = {}
            for name, side in sides:
                print(f"round {number + 1} of {a.rounds}: {name}", file=sys.stderr)
                got[name] = side()
            rounds.append({"first": sides[0][0], **compared(got["here"], got["peer"])})
        except ValueError as wrong:
            sys.exit(str(wrong))
        said.append(got)
    print(f"{a.config}, {said[0]['here']['parameters']:,} parameters, {a.batch} rows of {a.prompt} + {a.tokens} tokens, {a.threads} threads, "
          f"torch {torch}, {cpu_model()}")
    print("\n".join(table(rounds)))
    if a.output:
        whole = {"cpu": cpu_model(), "torch": torch, "shape": {**shape, "steps": a.steps, "threads": a.threads}, "peer_arguments": a.more,
                 "summary": summary(rounds), "rounds": rounds, "said": said}
        a.output.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    ends_what_it_started()
    main()
