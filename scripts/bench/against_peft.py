#!/usr/bin/env python3
"""Compares training tokens/s and peak memory of a large model with transformers and PEFT, in turns, on equal shapes: all weights, or an adapter.

    python3 scripts/bench/against_peft.py --python PYTHON [--batch 4] [--prompt 32] [--tokens 224] [--rounds 3] [--lora 16] [--dtype float32] [--output FILE.json]

The shape is that of Qwen2.5-0.5B with random weights, unless --config names another config.json. Both sides make GRPO-like updates by AdamW on
the same rows: log-probabilities of the sampled tokens, clipped ratios, gradients clipped to norm 1. Weights are in --dtype; adapters, and
Flopsmith's masters, are always in single precision. --lora 0 trains all weights. PYTHON is an interpreter with torch, transformers and peft
(tools/parity/requirements.txt). Token counts include all positions, also those of prompts.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sigterm import ends_what_it_started

ROOT = Path(__file__).resolve().parents[2]
QWEN_05B = dict(model_type="qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                num_key_value_heads=2, tie_word_embeddings=True, rope_theta=1000000.0, rms_norm_eps=1e-6, max_position_embeddings=2048)
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def peer(a):
    """The other side, in its own process."""
    import torch
    import transformers

    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    config = {k: v for k, v in json.loads(a.config.read_text()).items() if k not in ("architectures", "model_type", "dtype", "torch_dtype")}
    with torch.device(a.device):
        torch.set_default_dtype(getattr(torch, a.dtype))
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**config))
        torch.set_default_dtype(torch.float32)
    parameters = sum(p.numel() for p in model.parameters())
    if a.lora:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", r=a.lora, lora_alpha=32, target_modules=LINEAR))
    if a.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if a.lora:
            model.enable_input_require_grads()
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-5)
    ids = torch.randint(0, config["vocab_size"], (a.batch, a.prompt + a.tokens), device=a.device)
    advantages = torch.tensor([1.0 if row % 2 == 0 else -1.0 for row in range(a.batch)], device=a.device)[:, None]
    old = torch.full((a.batch, a.tokens), -torch.log(torch.tensor(float(config["vocab_size"]))).item(), device=a.device)
    micro = a.micro or a.batch

    def step():
        optimizer.zero_grad(set_to_none=True)
        for i in range(0, a.batch, micro):
            rows = slice(i, i + micro)
            # Only the scores of the needed positions, as in a careful script.
            logits = model(ids[rows], logits_to_keep=a.tokens + 1, use_cache=False).logits[:, :-1]
            now = torch.log_softmax(logits.float(), -1).gather(2, ids[rows, a.prompt:, None])[..., 0]
            ratio = (now - old[rows]).exp()
            loss = -torch.minimum(ratio * advantages[rows], ratio.clamp(0.8, 1.2) * advantages[rows]).mean() * (micro / a.batch)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if a.device != "cpu":
            torch.cuda.synchronize()

    if a.steps > 1:
        step()
    seconds = float("inf")
    for _ in range(a.steps):
        began = time.perf_counter()
        step()
        seconds = min(seconds, time.perf_counter() - began)
    print(json.dumps(dict(parameters=parameters, batch=a.batch, prompt=a.prompt, tokens=a.tokens, train_tokens_per_s=ids.numel() / seconds,
                          peak_memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))


def said(command):
    ran = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stderr[-3000:]}")
    return json.loads(ran.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--config", type=Path)
    for name, default in dict(batch=4, prompt=32, tokens=224, steps=1, rounds=3, lora=16, threads=2, micro=0).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where both sides compute")
    parser.add_argument("--recompute", action="store_true", help="activation checkpointing on both sides")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.peer:
        return peer(a)
    with tempfile.TemporaryDirectory() as place:
        if a.config is None:
            a.config = Path(place) / "config.json"
            a.config.write_text(json.dumps(QWEN_05B))
        shape = [x for key in ("batch", "prompt", "tokens", "steps", "dtype", "device") for x in (f"--{key}", getattr(a, key))]
        ours = [ROOT / "target/release/examples/train_speed", a.config, *shape, *(["--lora", a.lora] if a.lora else []),
                "--micro", (a.micro or a.batch) * (a.prompt + a.tokens), *(["--recompute", 1] if a.recompute else [])]
        theirs = [a.python, Path(__file__).resolve(), "--peer", "--config", a.config, *shape, "--lora", a.lora, "--threads", a.threads, "--micro", a.micro,
                  *(["--recompute"] if a.recompute else [])]
        if not ours[0].is_file():
            sys.exit(f"{ours[0]} not found; build it: cargo build --release --locked -p flopsmith-learner --examples")
        rounds = []
        print(f"{'':<10}{'tokens/s here':>14}{'peer':>8}{'ratio':>8}{'MiB here':>12}{'peer':>8}{'ratio':>8}", flush=True)
        for number in range(a.rounds):
            sides = {"here": ours, "peer": theirs}
            order = list(sides) if number % 2 == 0 else list(sides)[::-1]
            found = {name: said(sides[name]) for name in order}
            here, there = found["here"], found["peer"]
            row = dict(here=here, peer=there, speed=here["train_tokens_per_s"] / there["train_tokens_per_s"], memory=here["peak_memory_mib"] / there["peak_memory_mib"])
            rounds.append(row)
            print(f"{f'round {number + 1}':<10}{here['train_tokens_per_s']:>14.1f}{there['train_tokens_per_s']:>8.1f}{row['speed']:>8.2f}"
                  f"{here['peak_memory_mib']:>12}{there['peak_memory_mib']:>8}{row['memory']:>8.2f}", flush=True)
        print(f"{'median':<10}{'':>22}{statistics.median(r['speed'] for r in rounds):>8.2f}{'':>20}{statistics.median(r['memory'] for r in rounds):>8.2f}")
        if a.output:
            a.output.write_text(json.dumps(dict(lora=a.lora, batch=a.batch, prompt=a.prompt, tokens=a.tokens, cores=len(os.sched_getaffinity(0)), rounds=rounds), indent=1) + "\n")


if __name__ == "__main__":
    ends_what_it_started()
    main()
