"""A reward function for OpenRLHF: pass the path of this file as `--reward.remote_url`.

The label of a sample, or else `FLOPSMITH_PROBLEM`, names its problem. If the machine fails to evaluate a program in several tries, the function raises an
exception, and OpenRLHF gives the sample no reward.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence

from flopsmith import calls


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> Dict[str, Any]:
    """The `rewards` of answers, each behind its prompt in `queries`; `scores` has 1 for a program that is right, and `extra_logs` what OpenRLHF logs."""
    body = {"query": list(queries), "prompts": list(prompts), "labels": [calls.problem(label) for label in labels]}
    rewards: Dict[str, Any] = calls.rewarded("openrlhf", body)
    return rewards
