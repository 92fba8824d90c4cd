#!/usr/bin/env python3
"""Writes the values that TRL and torch compute from random pairs and answers: the losses of reward models, of direct performance alignment and of PPO.

    python3 tools/parity/make_preferences.py [crates/learner/tests/fixtures]

crates/learner/tests/it/preferences.rs compares the learner with them. TRL's own RewardTrainer and DPOTrainer compute the losses of pairs from
scores in place of a model. TRL no longer has PPO: torch differentiates the formulas of the papers instead. Needs the packages of
requirements.txt.
"""
import collections
import json
import pathlib
import sys
import types

import torch
import trl

PAIRS, LENGTH, ANSWERS = 7, 9, 5
ALONE = types.SimpleNamespace(gather=lambda t: t, gather_for_metrics=lambda t: t, device="cpu", unwrap_model=lambda m: m)


def metrics():
    return {"train": collections.defaultdict(list)}


def margins(case):
    """Ratios on both sides of λ = 3, or margins of 0 for pairs without measurements."""
    ratios = 1 + 4 * torch.rand(PAIRS, dtype=torch.double)
    return ratios, torch.clamp(ratios, max=3.0) if case else torch.zeros(PAIRS, dtype=torch.double)


def reward_model(case):
    rewards = (torch.randn(2 * PAIRS, dtype=torch.double) * 2).requires_grad_()
    ratios, margin = margins(case)
    trainer = types.SimpleNamespace(model=types.SimpleNamespace(training=True), args=types.SimpleNamespace(center_rewards_coefficient=None),
                                    accelerator=ALONE, _metrics=metrics(), _total_train_tokens=0, _tp_size=1)
    # TRL calls the model with all inputs, also the margin, which a real model ignores.
    model = lambda **_: types.SimpleNamespace(logits=rewards[:, None])
    inputs = dict(margin=margin, attention_mask=torch.ones(2 * PAIRS, 1))
    loss = trl.RewardTrainer.compute_loss(trainer, model, inputs)
    loss.backward()
    return dict(ratios=ratios.tolist() if case else None, rewards=rewards.tolist(), value=loss.item(), gradient=rewards.grad.tolist(),
                accuracy=trainer._metrics["train"]["accuracy"][0])


def dpo(logprobs, reference, mask, beta):
    """TRL's loss of log-probabilities [2 · pairs, length], and its accuracy."""
    chosen, rejected = reference.chunk(2)
    nothing = torch.zeros_like(logprobs)
    outputs = types.SimpleNamespace(log_probs=logprobs * mask, entropy=nothing, mean_logits=nothing, is_top1=nothing.bool())
    trainer = types.SimpleNamespace(
        model=types.SimpleNamespace(training=True), accelerator=ALONE, aux_loss_enabled=False, ld_alpha=None, precompute_ref_logps=True,
        f_divergence_type="reverse_kl", loss_types=["sigmoid"], loss_weights=[1.0], beta=beta, use_weighting=False, _metrics=metrics(),
        _total_train_tokens=0, _tp_size=1)
    whole = torch.cat([torch.zeros(len(mask), 1, dtype=mask.dtype), mask], 1)
    inputs = dict(input_ids=torch.zeros_like(whole), attention_mask=torch.ones_like(whole), completion_mask=whole, ref_chosen_logps=chosen,
                  ref_rejected_logps=rejected)
    loss = trl.DPOTrainer._compute_loss(trainer, lambda **_: outputs, inputs, False)
    return loss, trainer._metrics["train"]["rewards/accuracies"][0]


def alignment(case):
    beta = 0.6
    lengths = torch.randint(1, LENGTH + 1, (2 * PAIRS,))
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    logprobs = -torch.rand(2 * PAIRS, LENGTH, dtype=torch.double) * 2
    # The learner keeps the reference in single precision.
    reference = ((logprobs + torch.randn_like(logprobs) * 0.5).float().double() * mask)
    ratios, margin = margins(case)
    logprobs.requires_grad_()
    # TRL's DPO has no margin: β·(x − μ/β) is β·x − μ, so the reference of the fast answers includes it.
    shifted = reference.sum(1) + torch.cat([margin / beta, torch.zeros_like(margin)])
    loss, _ = dpo(logprobs, shifted, mask, beta)
    loss.backward()
    _, accuracy = dpo(logprobs.detach(), reference.sum(1), mask, beta)
    row = lambda t: [r[:n].tolist() for r, n in zip(t, lengths)]
    return dict(ratios=ratios.tolist() if case else None, beta=beta, logprobs=row(logprobs.detach()), reference=row(reference), value=loss.item(),
                gradient=row(logprobs.grad), accuracy=accuracy)


def ppo():
    """PPO from samples to gradients: rewards of tokens, advantages, whitening, both clipped losses."""
    discount, lam, weight, clip, value_clip, value_weight = 0.98, 0.9, 0.1, 0.2, 0.3, 0.4
    lengths = torch.randint(1, LENGTH + 1, (ANSWERS,)).tolist()
    token = lambda by, n: (torch.randn(n, dtype=torch.double) * by).float().double()
    old = [token(0.5, n) - 2 for n in lengths]
    reference = [o + token(0.4, len(o)) for o in old]
    reference = [r.float().double() for r in reference]
    old_values = [token(1, n) for n in lengths]
    scores = torch.randn(ANSWERS, dtype=torch.double)
    rewards, advantages = [], []
    for o, r, v, s in zip(old, reference, old_values, scores):
        reward = -weight * (o - r)
        reward[-1] += s
        v = torch.cat([v, torch.zeros(1, dtype=torch.double)])
        delta = reward + discount * v[1:] - v[:-1]
        advantages.append(torch.stack([sum((discount * lam) ** (k - t) * delta[k] for k in range(t, len(delta))) for t in range(len(delta))]))
        rewards.append(reward)
    returns = [a + v for a, v in zip(advantages, old_values)]
    flat = torch.cat(advantages)
    flat = (flat - flat.mean()) * torch.rsqrt(flat.var() + 1e-8)
    now = (torch.cat(old) + torch.randn(len(flat), dtype=torch.double) * 0.3).requires_grad_()
    values = (torch.cat(old_values) + torch.randn(len(flat), dtype=torch.double) * 0.4).requires_grad_()
    ratio = torch.exp(now - torch.cat(old))
    policy = torch.maximum(-flat * ratio, -flat * torch.clamp(ratio, 1 - clip, 1 + clip)).mean()
    bounded = torch.clamp(values, torch.cat(old_values) - value_clip, torch.cat(old_values) + value_clip)
    value = 0.5 * torch.maximum((values - torch.cat(returns)) ** 2, (bounded - torch.cat(returns)) ** 2).mean()
    (policy + value_weight * value).backward()
    row = lambda t: [r.tolist() for r in torch.split(t, lengths)]
    rows = lambda ts: [t.tolist() for t in ts]
    return dict(discount=discount, lam=lam, weight=weight, clip=clip, value_clip=value_clip, value_weight=value_weight, old=rows(old),
                reference=rows(reference), old_values=rows(old_values), scores=scores.tolist(), rewards=rows(rewards), returns=rows(returns),
                whitened=row(flat), now=row(now.detach()), values=row(values.detach()), policy=policy.item(), value=(value_weight * value).item(),
                by_logprob=row(now.grad), by_value=row(values.grad))


def adaptive():
    """Ziegler et al.'s controller over batches of changing size."""
    start, target, horizon = 0.1, 6.0, 400.0
    weight, batches = start, []
    for _ in range(30):
        divergence, answers = (torch.rand(2) * torch.tensor([14.0, 90.0])).tolist()
        answers = 1 + int(answers)
        weight *= 1 + min(max(divergence / target - 1, -0.2), 0.2) * answers / horizon
        batches.append(dict(divergence=divergence, answers=answers, weight=weight))
    return dict(start=start, target=target, horizon=horizon, batches=batches)


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "crates/learner/tests/fixtures")
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(9)
    found = dict(reward_model=[reward_model(case) for case in (0, 1, 1)], alignment=[alignment(case) for case in (0, 1, 1)],
                 ppo=[ppo() for _ in range(3)], adaptive=adaptive())
    (out / "preferences.json").write_text(json.dumps(found) + "\n")
    print(out / "preferences.json")


main()
