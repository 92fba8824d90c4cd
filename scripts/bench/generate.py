#!/usr/bin/env python3
"""Measures the sampling speed of transformers' `generate` on a config.json, with random weights.

    python3 scripts/bench/generate.py CONFIG.json [--batch 64] [--prompt 32] [--tokens 256] [--steps 3] [--threads 2] [--dtype float32] [--device cpu]

The counterpart of the example `sample_speed` of flopsmith-policy: every row runs to its full length, at temperature 1, without top-k or top-p.
Prints one JSON object with the same fields; figures are the best of --steps after a warm-up step. Needs torch and transformers.
"""
import argparse
import gc
import json
import time
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    for name, default in {"batch": 64, "prompt": 32, "tokens": 256, "steps": 3, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    a = parser.parse_args()
    import torch
    import transformers

    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    said = json.loads(a.config.read_text())
    shape = {key: value for key, value in said.items() if key not in ("architectures", "model_type", "dtype", "torch_dtype")}
    with torch.device(a.device):
        torch.set_default_dtype(getattr(torch, a.dtype))
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**shape)).eval()
        torch.set_default_dtype(torch.float32)
    ids = torch.randint(0, said["vocab_size"], (a.batch, a.prompt), device=a.device)
    how = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, min_new_tokens=a.tokens, max_new_tokens=a.tokens, pad_token_id=0,
               attention_mask=torch.ones_like(ids))
    gc.collect()
    # The peak of sampling must not include the memory that building the model took.
    Path("/proc/self/clear_refs").write_text("5")
    walls, processors = [], []
    for step in range(a.steps + 1):
        wall, processor = time.perf_counter(), time.process_time()
        with torch.no_grad():
            model.generate(ids, **how)
        if a.device != "cpu":
            torch.cuda.synchronize()
        if step:
            walls.append(time.perf_counter() - wall)
            processors.append(time.process_time() - processor)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM:"))
    count = a.batch * a.tokens
    print(json.dumps(dict(parameters=sum(p.numel() for p in model.parameters()), batch=a.batch, prompt=a.prompt, tokens=a.tokens, threads=a.threads,
                          dtype=a.dtype, sample_tokens_per_s=round(count / min(walls), 1), tokens_per_cpu_s=round(count / min(processors), 1),
                          peak_memory_mib=peak, torch=torch.__version__, transformers=transformers.__version__)))


if __name__ == "__main__":
    main()
