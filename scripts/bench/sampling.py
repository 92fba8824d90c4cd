#!/usr/bin/env python3
"""Compares sampling speed and memory in float32 and bfloat16 with transformers' `generate` and a program in plain PyTorch, in turns.

    python3 scripts/bench/sampling.py [--shape qwen2.5-0.5b] [--peer FILE.py] [--tokens 64] [--rounds 3] [--output FILE.json]

Without --shape the model is that of models/starter. Weights are random; no shape needs files. Each round runs every side once and starts one side later
than the round before, so that a slow drift of the machine affects all sides alike. A side's figure is its median over the rounds. A ratio is the median of
the rounds' own ratios of `here`, in the same number format, to the side. `per cpu s` counts the processor time of all threads, which other programs
disturb less; a peer may leave it out.

The peer (see against_torch.py) also gets `--dtype`, and may print `peak_memory_mib` and `tokens_per_cpu_s`; the script ignores its training figure.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from against_torch import EXAMPLES, ROOT, SHAPE, cpu_model, figures, find_python, run
from sigterm import ends_what_it_started

# Shapes that need no files.
SHAPES = {
    "qwen2.5-0.5b": dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864,
                         num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True, rope_theta=1e6,
                         rms_norm_eps=1e-6, max_position_embeddings=2048, hidden_act="silu", initializer_range=0.02),
}
DTYPES = ("float32", "bfloat16")
HERE = "here"


def summary(rounds):
    """For each side, the medians of its figures, and of its rounds' ratios: `here` in the same number format, and `here` in bfloat16, to the side."""
    found = {}
    for side in rounds[0]:
        def median(key, side=side):
            said = [r[side][key] for r in rounds if key in r[side]]
            return statistics.median(said) if said else None

        def ratio(dtype, side=side):
            here = (HERE, dtype)
            return statistics.median(r[here]["sample_tokens_per_s"] / r[side]["sample_tokens_per_s"] for r in rounds) if here in rounds[0] else None

        found[side] = {"rate": median("sample_tokens_per_s"), "per_cpu": median("tokens_per_cpu_s"), "memory": median("peak_memory_mib"),
                       "ratio": ratio(side[1]), "half": ratio("bfloat16")}
    return found


def table(found):
    yield f"{'side':<14}{'numbers':<10}{'tokens/s':>10}{'per cpu s':>11}{'peak MiB':>10}{'here is':>9}{'here in bfloat16 is':>21}"
    for (name, dtype), of in found.items():
        def cell(key, width, form, of=of):
            return f"{'-' if of[key] is None else format(of[key], form):>{width}}"
        yield (f"{name:<14}{dtype:<10}" + cell("rate", 10, ",.0f") + cell("per_cpu", 11, ",.0f") + cell("memory", 10, ",.0f") + cell("ratio", 9, ".2f")
               + cell("half", 21, ".2f"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, help="a known shape, instead of --config")
    parser.add_argument("--config", type=Path, default=ROOT / "models/starter/config.json")
    parser.add_argument("--peer", type=Path, metavar="FILE.py")
    parser.add_argument("--python", help="interpreter with torch and transformers")
    parser.add_argument("--rounds", type=int, default=3)
    for name, default in {"batch": 64, "prompt": 32, "tokens": 256, "steps": 1, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--output", type=Path, help="write all results as JSON to this file")
    a = parser.parse_args()
    ours = EXAMPLES / "sample_speed"
    if not ours.is_file():
        sys.exit(f"{ours} not found; build it: cargo build --release --locked -p flopsmith-policy --example sample_speed")
    cores = sorted(os.sched_getaffinity(0))[:a.threads]
    python, torch = find_python(a.python)
    shape = {key: getattr(a, key) for key in SHAPE}
    with tempfile.TemporaryDirectory() as folder:
        config = a.config.resolve()
        if a.shape:
            config = Path(folder) / "config.json"
            config.write_text(json.dumps(SHAPES[a.shape]))
        sizes = [x for key in (*SHAPE, "steps", "threads") for x in (f"--{key}", getattr(a, key))]
        programs = {HERE: [ours, config, *sizes, "--prompts", a.batch],
                    "transformers": [python, Path(__file__).parent / "generate.py", config, *sizes]}
        if a.peer:
            programs["peer"] = [python, a.peer.resolve(), config, *sizes]
        sides = [(name, dtype) for dtype in a.dtypes for name in programs]
        rounds = []
        for number in range(a.rounds):
            turn = number % len(sides)
            said = {}
            for name, dtype in sides[turn:] + sides[:turn]:
                print(f"round {number + 1} of {a.rounds}: {name}, {dtype}", file=sys.stderr)
                out = run([*programs[name], "--dtype", dtype], cores)
                try:
                    said[name, dtype] = figures(name, out, shape, ["parameters", "sample_tokens_per_s"])
                except ValueError as wrong:
                    sys.exit(str(wrong))
            if len({s["parameters"] for s in said.values()}) != 1:
                sys.exit("the models differ: " + ", ".join(f"{name} {s['parameters']}" for (name, _), s in said.items()))
            rounds.append({side: said[side] for side in sides})
    found = summary(rounds)
    print(f"{a.shape or a.config}, {a.batch} rows of {a.prompt} + {a.tokens} tokens, {a.threads} threads, torch {torch}, {cpu_model()}")
    print("\n".join(table(found)))
    if a.output:
        named = [{f"{name} {dtype}": said for (name, dtype), said in r.items()} for r in rounds]
        a.output.write_text(json.dumps({"cpu": cpu_model(), "torch": torch, "shape": {**shape, "threads": a.threads}, "rounds": named,
                                        "summary": {f"{name} {dtype}": of for (name, dtype), of in found.items()}}, indent=1) + "\n")


if __name__ == "__main__":
    ends_what_it_started()
    main()
