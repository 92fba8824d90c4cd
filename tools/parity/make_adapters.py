#!/usr/bin/env python3
"""Writes adapters with PEFT and reward models with transformers, and their outputs and gradients.

    python3 tools/parity/make_adapters.py [crates/policy/tests/adapters] [crates/policy/tests/rewards] [crates/policy/tests/fixtures]

crates/policy/tests/it/adapters.rs compares the Rust model with them. Needs the packages of requirements.txt and the models of make_fixtures.py.
"""
import json
import pathlib
import sys

import peft
import torch
import transformers

ADAPTERS = {
    "queries_values": ("gqa_untied", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "all": ("gqa_tied", dict(r=3, lora_alpha=7, target_modules="all-linear")),
    "rank_stabilized": ("llama_linear", dict(r=5, lora_alpha=4, use_rslora=True, target_modules=["k_proj", "o_proj", "gate_proj", "down_proj"])),
    "bfloat16": ("bfloat16", dict(r=2, lora_alpha=4, target_modules=["q_proj", "up_proj"])),
}
REWARDS = {
    "qwen2": ("Qwen2", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "llama": ("Llama", dict(num_key_value_heads=4, tie_word_embeddings=False)),
}
IDS, ROWS, LENGTH = 40, 2, 14


def stir(model, names):
    """Draws larger weights than at initialization, so that a mistake in any of them shows."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if any(n in name for n in names):
                p.normal_(0.0, 0.3)


def sine(shape):
    return torch.sin(torch.arange(shape.numel(), dtype=torch.float32) * 1.3 + 0.5).view(shape)


def numbers(t):
    return [round(x, 8) for x in t.detach().flatten().tolist()]


def adapters(out, models):
    for seed, (name, (base, lora)) in enumerate(ADAPTERS.items()):
        torch.manual_seed(100 + seed)
        model = transformers.AutoModelForCausalLM.from_pretrained(models / base, dtype=torch.float32)
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **lora))
        stir(model, ["lora_"])
        ids = torch.randint(0, IDS, (ROWS, LENGTH))
        token = torch.log_softmax(model(ids).logits[:, :-1], -1).gather(2, ids[:, 1:, None])[..., 0]
        # The loss gives every token another weight.
        (token * sine(token.shape)).sum().backward()
        gradients = {n.removeprefix("base_model.model.").replace(".default", ""): numbers(p.grad) for n, p in model.named_parameters() if p.requires_grad}
        model.peft_config["default"].base_model_name_or_path = base
        model.save_pretrained(out / name)
        (out / name / "README.md").unlink(missing_ok=True)
        expected = dict(base=base, ids=ids.tolist(), token_logprobs=[numbers(r) for r in token], gradients=gradients)
        (out / name / "expected.json").write_text(json.dumps(expected) + "\n")
        print(out / name)


def rewards(out):
    for seed, (name, (family, shape)) in enumerate(REWARDS.items()):
        torch.manual_seed(200 + seed)
        usual = dict(vocab_size=IDS, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                     max_position_embeddings=64, eos_token_id=0, bos_token_id=None, pad_token_id=0, num_labels=1)
        config = getattr(transformers, f"{family}Config")(**(usual | shape))
        model = getattr(transformers, f"{family}ForSequenceClassification")(config).float().eval()
        with torch.no_grad():
            for key, p in model.named_parameters():
                p.normal_(1.0 if "norm" in key else 0.0, 0.3)
        # Without the padding token, the score is that of the last token.
        ids = torch.randint(1, IDS, (ROWS, LENGTH))
        scores = model(ids).logits[:, 0]
        (scores * sine(scores.shape)).sum().backward()
        model.save_pretrained(out / name)
        expected = dict(ids=ids.tolist(), scores=numbers(scores), gradient_of_score=numbers(model.score.weight.grad),
                        gradient_of_last_norm=numbers(model.model.norm.weight.grad))
        (out / name / "expected.json").write_text(json.dumps(expected) + "\n")
        print(out / name)


def main():
    here = [pathlib.Path(p) for p in sys.argv[1:]]
    usual = [pathlib.Path("crates/policy/tests") / p for p in ("adapters", "rewards", "fixtures")]
    to, of, models = here + usual[len(here):]
    adapters(to, models)
    rewards(of)


main()
