#!/usr/bin/env python3
"""Writes tiny Qwen2 and Llama folders with transformers, and the values that transformers computes from them.

    python3 tools/parity/make_fixtures.py [crates/policy/tests/fixtures]

crates/policy/tests/it/parity.rs compares the Rust model with them. Needs torch and transformers 5.
"""
import copy
import json
import pathlib
import sys

import torch
import transformers

import chacha

SHAPES = {
    "gqa_tied": dict(num_key_value_heads=2, tie_word_embeddings=True, rope_theta=10000.0),
    "gqa_untied": dict(num_key_value_heads=1, tie_word_embeddings=False, rope_theta=1000000.0),
    "mha_tied": dict(num_key_value_heads=4, tie_word_embeddings=True, rope_theta=10000.0),
    "mha_untied_sharded": dict(num_key_value_heads=4, tie_word_embeddings=False, rope_theta=500.0),
    # Stretched like Qwen2.5 for 128 Ki tokens.
    "yarn": dict(num_key_value_heads=2, tie_word_embeddings=True, rope_theta=1000000.0, max_position_embeddings=64,
                 rope=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)),
    "yarn_untruncated": dict(num_key_value_heads=2, tie_word_embeddings=True, rope_theta=10000.0, hidden_size=64,
                             rope=dict(rope_type="yarn", factor=2.5, original_max_position_embeddings=24, beta_fast=4.0, beta_slow=0.25,
                                       mscale=0.7, mscale_all_dim=1.3, truncate=False)),
    "bfloat16": dict(num_key_value_heads=2, tie_word_embeddings=True, rope_theta=10000.0, dtype=torch.bfloat16),
    "float16": dict(num_key_value_heads=1, tie_word_embeddings=False, rope_theta=10000.0, dtype=torch.float16),
    "llama": dict(family="Llama", num_key_value_heads=4, tie_word_embeddings=False, rope_theta=10000.0),
    # Like DeepSeek-Coder.
    "llama_linear": dict(family="Llama", num_key_value_heads=4, tie_word_embeddings=False, rope_theta=100000.0, rope=dict(rope_type="linear", factor=4.0)),
    # Like Llama 3.2.
    "llama_llama3": dict(family="Llama", num_key_value_heads=2, tie_word_embeddings=True, rope_theta=500000.0, hidden_size=64,
                         rope=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
    "llama_dynamic": dict(family="Llama", num_key_value_heads=1, tie_word_embeddings=True, rope_theta=10000.0, rope=dict(rope_type="dynamic", factor=2.0)),
    "llama_wide_heads": dict(family="Llama", num_key_value_heads=2, tie_word_embeddings=True, rope_theta=10000.0, head_dim=12),
}

# Temperature, top-k, top-p, min-p.
SETTINGS = [(1.0, 0, 1.0, 0.0), (0.7, 0, 1.0, 0.0), (1.6, 9, 1.0, 0.0), (1.0, 0, 0.8, 0.0), (1.0, 0, 1.0, 0.1),
            (0.9, 20, 0.9, 0.0), (1.2, 0, 0.95, 0.05), (1.3, 12, 0.7, 0.2)]


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "crates/policy/tests/fixtures")
    for seed, (name, shape) in enumerate(SHAPES.items()):
        torch.manual_seed(seed)
        family, dtype = shape.pop("family", "Qwen2"), shape.pop("dtype", torch.float32)
        rope = dict(rope_type="default") | shape.pop("rope", {}) | dict(rope_theta=shape.pop("rope_theta"))
        usual = dict(vocab_size=40, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                     max_position_embeddings=64, eos_token_id=0, bos_token_id=None, pad_token_id=0)
        config = getattr(transformers, f"{family}Config")(**(usual | shape), rope_parameters=rope)
        model = getattr(transformers, f"{family}ForCausalLM")(config).float().eval()
        with torch.no_grad():
            # Larger weights than at initialization, also of biases and norms, so that a mistake in any of them shows.
            for key, p in model.named_parameters():
                p.normal_(1.0 if "norm" in key else 0.0, 0.3)
            # The model computes with the numbers of the file.
            stored = {name: weight.to(dtype) for name, weight in model.state_dict().items()}
            model.load_state_dict(stored)
            ids = torch.randint(0, 40, (3, 24))
            logprobs = torch.log_softmax(model(ids).logits.double(), -1)
        # `to` also rounds the rotary frequencies, and `float` cannot undo that; so this copy stays exact.
        exact = copy.deepcopy(model)
        folder = out / name
        model.to(dtype).save_pretrained(folder, max_shard_size="12KB" if "sharded" in name else "1GB")
        token = logprobs[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
        first = logprobs[0, ::5]
        # Greedy answers are always computed in single precision.
        greedy = model.float().generate(ids[:, :8], attention_mask=torch.ones(3, 8, dtype=torch.long), max_new_tokens=16, do_sample=False)
        expected = dict(
            transformers=transformers.__version__, ids=ids.tolist(),
            token_logprobs=[[round(x, 7) for x in row] for row in token.tolist()],
            greedy=[cut(row) for row in greedy[:, 8:].tolist()],
            every_fifth_position_of_row_0=[[round(x, 7) for x in row] for row in first.tolist()],
            token_logprobs_in_bfloat16=[[round(x, 7) for x in row] for row in in_bfloat16(exact, ids).tolist()],
            seeded=[seeded(exact, ids[n % 3, :8].tolist(), 1000 * seed + n, *how) for n, how in enumerate(SETTINGS)],
        )
        (folder / "expected.json").write_text(json.dumps(expected) + "\n")
        print(folder)
    (out / "cuts.json").write_text(json.dumps(cuts()) + "\n")


def in_bfloat16(model, ids):
    """Log-probabilities of given tokens with the library's weights and arithmetic in bfloat16."""
    half = copy.deepcopy(model).to(torch.bfloat16)
    # The rotary frequencies of an opened folder stay in single precision.
    half.model.rotary_emb = copy.deepcopy(model.model.rotary_emb)
    with torch.no_grad():
        logits = half(ids).logits
    return torch.log_softmax(logits.double(), -1)[:, :-1].gather(2, ids[:, 1:, None])[..., 0]


def seeded(model, prompt, seed, temperature, top_k, top_p, min_p):
    """An answer of 12 tokens, drawn by ChaCha's numbers from the distribution that transformers leaves after its cuts. Each draw takes the token at which
    the sum of the probabilities, in the order of the ids, exceeds the number. Skips seeds with a draw so near to a boundary that rounding decides."""
    while True:
        tokens, logprobs, raw = [], [], []
        near = False
        while len(tokens) < 12 and 0 not in tokens:
            ids = torch.tensor([prompt + tokens])
            with torch.no_grad():
                scores = model(ids).logits[:, -1]
            kept = torch.softmax(warpers(temperature, top_k, top_p, min_p)(ids, scores).double(), -1)[0]
            sums = torch.cumsum(kept, 0)
            u = chacha.uniform(seed, len(tokens)) * sums[-1]
            near = near or (sums - u).abs().min() < 1e-4
            token = int((sums > u).nonzero()[0])
            tokens.append(token)
            logprobs.append(round(float(kept[token].log()), 7))
            raw.append(round(float(torch.log_softmax(scores.double(), -1)[0, token]), 7))
        if not near:
            return dict(prompt=prompt, seed=seed, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, tokens=tokens, logprobs=logprobs, raw=raw)
        seed += 100


def cut(row):
    """An answer with its end token and without the padding after it."""
    return row[:row.index(0) + 1] if 0 in row else row


def warpers(temperature, top_k, top_p, min_p):
    steps = [transformers.TemperatureLogitsWarper(temperature)] if temperature != 1.0 else []
    steps += [transformers.TopKLogitsWarper(top_k)] if top_k else []
    steps += [transformers.TopPLogitsWarper(top_p)] if top_p < 1.0 else []
    steps += [transformers.MinPLogitsWarper(min_p)] if min_p else []
    return transformers.LogitsProcessorList(steps)


def cuts():
    """The probabilities that transformers draws from after temperature and cuts, for random scores."""
    torch.manual_seed(77)
    cases = []
    for temperature, top_k, top_p, min_p in SETTINGS:
        scores = torch.randn(1, 48) * 3
        kept = warpers(temperature, top_k, top_p, min_p)(torch.zeros(1, 1, dtype=torch.long), scores)
        cases.append(dict(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, scores=scores[0].tolist(),
                          probabilities=torch.softmax(kept.double(), -1)[0].tolist()))
    return cases


main()
