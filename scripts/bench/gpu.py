#!/usr/bin/env python3
"""Compares sampling and adapter training of models with billions of weights on a GPU with transformers and PEFT on the same GPU, in turns.

    python3 scripts/bench/gpu.py [--python PYTHON] [--shapes 1.5b,14b] [--programs FOLDER] [--rounds 1] [--alone] [--output FILE.json]

The shapes are those of Qwen2.5, with random weights in bfloat16. For each shape a program samples answers to their full length (1.5b: 64 of 512 tokens), and
another one makes an update of GRPO on as many rows with an adapter of rank 16 and activation checkpointing. The other side is transformers' `generate`
(generate.py) and a plain loop with PEFT (against_peft.py); a shape may leave it out. Memory is the peak of the GPU's memory in use, less its value before
the start. It comes from nvidia-smi, five times a second, and includes the caches of libraries. PYTHON is an interpreter with torch, transformers and peft.

Without CUDA the script prints the reason of `flopsmith doctor` and ends with exit code 3. `--device cpu --shapes tiny` tests the script without a GPU;
memory is then that of the processes.
"""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from sigterm import ends_what_it_started

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


def qwen(hidden, intermediate, layers, heads, kv, vocabulary, tied):
    return dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=vocabulary, hidden_size=hidden, intermediate_size=intermediate,
                num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv, tie_word_embeddings=tied, rope_theta=1e6, rms_norm_eps=1e-6,
                max_position_embeddings=32768, hidden_act="silu", initializer_range=0.02)


# The model, the sampled answers (rows, prompt, tokens), the rows of training and the number of them at once, and whether the other side runs.
SHAPES = {
    "tiny": dict(config=qwen(64, 128, 2, 4, 2, 512, True), sample=(8, 8, 16), train=(8, 8, 16), micro=4, peer=True),
    "1.5b": dict(config=qwen(1536, 8960, 28, 12, 2, 151936, True), sample=(64, 32, 512), train=(64, 32, 512), micro=16, peer=True),
    "14b": dict(config=qwen(5120, 13824, 48, 40, 8, 152064, False), sample=(64, 32, 128), train=(16, 32, 480), micro=8, peer=False),
}


class Card:
    """Watches the peak of the memory in use on the first GPU, in MiB."""

    def __init__(self):
        self.before, self.most, self.done = self.used(), 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    @staticmethod
    def used():
        said = subprocess.run(["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
        return int(said.stdout.strip() or 0)

    def watch(self):
        while not self.done.wait(0.2):
            self.most = max(self.most, self.used() - self.before)

    def close(self):
        self.done.set()
        self.thread.join()
        return self.most


def last_object(stdout):
    """The last JSON object that a program printed."""
    lines = stdout.strip().splitlines()
    said = json.loads(lines[-1]) if lines else None
    if not isinstance(said, dict):
        raise ValueError("the last line of its output is not a JSON object")
    return said


def measured(command, device):
    """Runs a program and returns its figures; `memory_mib` is that of the GPU, or of the process if it runs on the CPU."""
    card = Card() if device == "cuda" else None
    ran = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    memory = card.close() if card else None
    if ran.returncode:
        return dict(failed=f"ended with {ran.returncode}: {ran.stderr.strip()[-1500:]}", memory_mib=memory)
    said = last_object(ran.stdout)
    said["memory_mib"] = memory if card else said["peak_memory_mib"]
    return said


def commands(shape, config, a):
    """The programs of one shape: a map from (activity, side) to command."""
    def numbers(shape):
        return [x for key, value in zip(("--batch", "--prompt", "--tokens"), shape) for x in (key, value)]

    (batch, prompt, tokens), micro = shape["train"], shape["micro"]
    common = ["--dtype", "bfloat16", "--device", a.device]
    found = {
        ("sample", "here"): [a.programs / "sample_speed", config, *numbers(shape["sample"]), "--steps", 1, *common],
        ("train", "here"): [a.programs / "train_speed", config, *numbers((batch, prompt, tokens)), "--steps", 2, "--lora", 16, "--recompute", 1,
                            "--micro", micro * (prompt + tokens), *common],
    }
    if shape["peer"] and not a.alone:
        found[("sample", "peer")] = [a.python, HERE / "generate.py", config, *numbers(shape["sample"]), "--steps", 1, *common]
        found[("train", "peer")] = [a.python, HERE / "against_peft.py", "--peer", "--config", config, *numbers((batch, prompt, tokens)), "--steps", 2,
                                    "--lora", 16, "--recompute", "--micro", micro, *common]
    return found


def row(name, what, rounds):
    """One line of the table: medians of both sides over the rounds, and of the rounds' own ratios; None if a side does not run or failed."""
    rate = f"{what}_tokens_per_s"

    def of(side, key):
        said = [r[what, side].get(key) for r in rounds if (what, side) in r]
        said = [number for number in said if number is not None]
        return statistics.median(said) if said else None

    pairs = [(r[what, "here"], r[what, "peer"]) for r in rounds if (what, "peer") in r]
    ratios = [here[rate] / peer[rate] for here, peer in pairs if rate in here and rate in peer]
    return dict(shape=name, what=what, here=of("here", rate), peer=of("peer", rate), ratio=statistics.median(ratios) if ratios else None,
                memory=of("here", "memory_mib"), peer_memory=of("peer", "memory_mib"))


def line(found):
    def cell(key, width, form):
        return f"{'-' if found[key] is None else format(found[key], form):>{width}}"

    return (f"{found['shape']:<6}{found['what']:<8}" + cell("here", 12, ",.0f") + cell("peer", 10, ",.0f") + cell("ratio", 8, ".2f")
            + cell("memory", 12, ",.0f") + cell("peer_memory", 10, ",.0f"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--shapes", default="1.5b,14b", help=f"shapes, separated by commas: {', '.join(SHAPES)}")
    parser.add_argument("--programs", type=Path, default=ROOT / "target/release/examples", help="folder of sample_speed and train_speed")
    parser.add_argument("--flopsmith", type=Path, default=ROOT / "target/release/flopsmith")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--alone", action="store_true", help="leave transformers and PEFT out")
    a = parser.parse_args()
    names = a.shapes.split(",")
    for name in names:
        if name not in SHAPES:
            parser.error(f"unknown shape {name}; the shapes are {', '.join(SHAPES)}")
    for program in ("sample_speed", "train_speed"):
        if not (a.programs / program).is_file():
            sys.exit(f"{a.programs / program} not found; build it: cargo build --release --locked -p flopsmith-policy -p flopsmith-learner --examples")
    if a.device == "cuda":
        doctor = subprocess.run([str(a.flopsmith), "doctor"], capture_output=True, text=True).stdout
        said = next((text.strip() for text in doctor.splitlines() if "libtorch" in text), "flopsmith doctor printed nothing about libtorch")
        print(said, flush=True)
        if "Cuda" not in said:
            sys.exit(3)
        if not shutil.which("nvidia-smi"):
            sys.exit("nvidia-smi not found: it measures the memory of the GPU")
    print(f"{'shape':<6}{'':<8}{'tokens/s here':>12}{'peer':>9}{'ratio':>8}{'MiB here':>12}{'peer':>10}", flush=True)
    everything = []
    failed = False
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            shape, config = SHAPES[name], Path(place) / f"{name}.json"
            config.write_text(json.dumps(shape["config"]))
            programs, rounds = commands(shape, config, a), []
            for number in range(a.rounds):
                order = list(programs) if number % 2 == 0 else list(programs)[::-1]
                rounds.append({key: measured(programs[key], a.device) for key in order})
                for (what, side), said in rounds[-1].items():
                    if "failed" in said:
                        failed = True
                        print(f"{name}: {what}, {side}: {said['failed']}", file=sys.stderr, flush=True)
            for what in ("sample", "train"):
                found = row(name, what, rounds)
                print(line(found), flush=True)
                everything.append({**found, "rounds": [{side: r[what, side] for side in ("here", "peer") if (what, side) in r} for r in rounds]})
    if a.output:
        a.output.write_text(json.dumps(everything, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    ends_what_it_started()
    main()
