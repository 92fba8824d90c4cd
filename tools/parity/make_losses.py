#!/usr/bin/env python3
"""Writes the values that TRL and torch compute from random tensors: every loss with its gradient, advantages, and twenty updates by AdamW.

    python3 tools/parity/make_losses.py [crates/learner/tests/fixtures]

crates/learner/tests/it/parity.rs compares the learner with them. TRL's own trainer computes the losses from log-probabilities in place of a
model. Needs the packages of requirements.txt and the models of make_fixtures.py.
"""
import collections
import json
import pathlib
import sys
import types

import torch
import transformers
import trl

ROWS, LENGTH = 6, 9
# Flopsmith's name, TRL's name, the level of the ratios, and the distances of the clip bounds from 1 (for cispo the largest weight).
LOSSES = [
    ("grpo", "grpo", "token", 0.2, 0.2),
    ("bnpo", "bnpo", "token", 0.2, 0.2),
    ("dr_grpo", "dr_grpo", "token", 0.2, 0.2),
    ("dapo", "dapo", "token", 0.2, 0.28),
    ("gspo", "grpo", "sequence", 0.03, 0.04),
    ("cispo", "cispo", "token", 0.0, 1.2),
]
LONGEST = 11
STEP_TOKENS = 77


# Further cases: Flopsmith's name, the limit of ratios, and the correction, which CAP bounds.
EXTRAS = [("grpo", 1.4, "none"), ("gspo", 1.1, "none"), ("dapo", 1.5, "token_truncate"), ("bnpo", None, "token_mask"), ("grpo", None, "sequence_truncate"),
          ("dr_grpo", None, "sequence_mask"), ("gspo", None, "token_truncate"), ("cispo", None, "token_truncate")]
CAP = 1.3


def importance(correction, old, drawn, mask):
    """TRL's weights of tokens, copied from its generation code, which has no function for them."""
    gap = (old - drawn) * mask
    ratio = torch.exp(gap.sum(-1, keepdim=True) if correction.startswith("sequence") else gap)
    return ratio.clamp(max=CAP) if correction.endswith("truncate") else ratio.masked_fill(ratio > CAP, 0.0)


def loss_of(kind, level, low, high, beta, limit, drawn, now):
    """TRL's loss of log-probabilities [rows, length]."""
    arguments = types.SimpleNamespace(
        use_bias_correction_kl=False, delta=limit, steps_per_generation=1, entropy_target=None)
    trainer = types.SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (now, torch.zeros_like(now), None), aux_loss_enabled=False,
        top_entropy_quantile=1.0, off_policy_mask_threshold=None, importance_sampling_level=level, beta=beta, args=arguments, loss_type=kind,
        epsilon_low=low, epsilon_high=high, use_vllm="importance" in drawn, vllm_importance_sampling_correction=True, model=types.SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1, max_completion_length=LONGEST, _entropy_bonus_enabled=False,
        accelerator=types.SimpleNamespace(num_processes=1, gather=lambda t: t.reshape(-1), reduce=lambda t, **_: t),
        _metrics={"train": collections.defaultdict(list)},
    )
    nothing = torch.zeros(ROWS, 1, dtype=torch.long)
    inputs = dict(
        prompt_ids=nothing, prompt_mask=nothing, completion_ids=torch.zeros(ROWS, LENGTH, dtype=torch.long), completion_mask=drawn["mask"],
        advantages=drawn["advantages"], old_per_token_logps=drawn["old"], ref_per_token_logps=drawn["reference"],
        num_items_in_batch=torch.tensor(float(STEP_TOKENS), dtype=torch.double), importance_sampling_ratio=drawn.get("importance"),
    )
    return trl.GRPOTrainer._compute_loss(trainer, None, inputs)


def losses():
    torch.manual_seed(5)
    by_name = {name: (name, *rest) for name, *rest in LOSSES}
    cases = [(*of, beta, None, "none") for of in LOSSES for beta in (0.0, 0.04)]
    cases += [(*by_name[name], 0.04, limit, correction) for name, limit, correction in EXTRAS]
    found = []
    for name, kind, level, low, high, beta, limit, correction in cases:
        lengths = torch.randint(1, LENGTH + 1, (ROWS,))
        now = -torch.rand(ROWS, LENGTH, dtype=torch.double) * 4
        # Like in the learner, these values are rounded to single precision.
        near = lambda by: (now + torch.randn(ROWS, LENGTH, dtype=torch.double) * by).float().double()
        drawn = dict(mask=(torch.arange(LENGTH) < lengths[:, None]).long(), advantages=torch.randn(ROWS, dtype=torch.double),
                     old=near(0.3), reference=near(0.5))
        sampled = near(0.4)
        if correction != "none":
            drawn["importance"] = importance(correction, drawn["old"], sampled, drawn["mask"])
        now.requires_grad_()
        loss = loss_of(kind, level, low, high, beta, limit, drawn, now)
        loss.backward()
        row = lambda t: [r[:n].tolist() for r, n in zip(t, lengths)]
        found.append(dict(loss=name, clip_low=low, clip_high=high, kl_beta=beta, ratio_limit=limit, correction=correction, cap=CAP, longest=LONGEST,
                          step_tokens=STEP_TOKENS, now=row(now.detach()), old=row(drawn["old"]), drawn=row(sampled), reference=row(drawn["reference"]),
                          advantages=drawn["advantages"].tolist(), value=loss.item(), gradient=row(now.grad)))
    return found


def advantages():
    """TRL's advantages: rewards [groups, size] less their group's mean, over the standard deviation of the group, of the batch, or over 1."""
    torch.manual_seed(6)
    rewards = torch.randn(4, 5, dtype=torch.double)
    centred = rewards - rewards.mean(1, keepdim=True)
    alone = centred * 5 / 4
    by = {"group": rewards.std(1, keepdim=True) + 1e-4, "batch": rewards.std() + 1e-4, "none": torch.ones(1, dtype=torch.double)}
    return dict(rewards=rewards.tolist(), mean_std={k: (centred / s).tolist() for k, s in by.items()},
                leave_one_out={k: (alone / s).tolist() for k, s in by.items()})


def updates(models):
    """Twenty steps of AdamW on a model of make_fixtures.py, with weight decay only on matrices."""
    folder = models / "gqa_untied"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    torch.manual_seed(8)
    ids = torch.randint(0, 40, (4, 20))
    groups = [dict(params=[p for p in model.parameters() if (p.dim() > 1) == matrix], weight_decay=0.1 if matrix else 0.0) for matrix in (True, False)]
    constants = dict(lr=2e-3, betas=(0.9, 0.95), eps=1e-6)
    optimizer = torch.optim.AdamW(groups, **constants)
    losses, norms = [], []
    for _ in range(20):
        logprobs = torch.log_softmax(model(ids).logits[:, :-1], -1).gather(2, ids[:, 1:, None])
        loss = -logprobs.mean()
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        losses.append(loss.item())
    return dict(model=folder.name, ids=ids.tolist(), rate=constants["lr"], betas=constants["betas"], eps=constants["eps"], weight_decay=0.1,
                longest=1.0, losses=losses, norms=norms)


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "crates/learner/tests/fixtures")
    models = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "crates/policy/tests/fixtures")
    out.mkdir(parents=True, exist_ok=True)
    for name, found in [("losses", losses()), ("advantages", advantages()), ("updates", updates(models))]:
        (out / f"{name}.json").write_text(json.dumps(found) + "\n")
        print(out / f"{name}.json")


main()
