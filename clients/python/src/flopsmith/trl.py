"""A reward function for TRL: `GRPOTrainer(reward_funcs=reward_func, ...)`.

The column `problem` of the data set names the problem of each prompt, or `FLOPSMITH_PROBLEM` names one for all. The columns `language` and `workload` may
be there too. A sample that the machine could not evaluate has the reward None, and TRL leaves it out. So have all samples of a batch while the service
cannot be reached, each time with a warning: a training waits about a minute for a service that restarts, and goes on without it.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from flopsmith.client import Candidate, Evaluator, Result, Unreachable

Completion = Union[str, Sequence[Dict[str, Any]]]


def text_of(completion: Completion) -> str:
    """The text of a completion: of a conversation, that of its last message with text."""
    if isinstance(completion, str):
        return completion
    for message in reversed(completion):
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        if content:
            return str(content)
    return ""


def make_reward_func(
    evaluator: Optional[Evaluator] = None, *, problem: Optional[str] = None, purpose: Optional[str] = None
) -> Callable[..., List[Optional[float]]]:
    """A reward function with an evaluator of its own, and perhaps one problem for all prompts."""

    def reward_func(
        prompts: Sequence[Any] = (),
        completions: Sequence[Completion] = (),
        log_extra: Optional[Callable[[str, List[Any]], None]] = None,
        log_metric: Optional[Callable[[str, float], None]] = None,
        **columns: Any,
    ) -> List[Optional[float]]:
        names: Sequence[Any] = columns.get("problem") or [problem or os.environ.get("FLOPSMITH_PROBLEM")] * len(completions)
        if not all(names):
            raise ValueError("no problem is named: add a column `problem` to the data set, or set FLOPSMITH_PROBLEM")
        languages = columns.get("language") or [None] * len(completions)
        workloads = columns.get("workload") or [None] * len(completions)
        rows = zip(completions, names, languages, workloads)
        batch = [
            Candidate(name, answer=text_of(completion), language=language, workloads=[workload] if workload else [])
            for completion, name, language, workload in rows
        ]
        try:
            results = (evaluator or Evaluator()).evaluate_many(batch, purpose)
        except Unreachable as error:
            warnings.warn(f"no sample of this batch has a reward: {error}", RuntimeWarning, stacklevel=2)
            if log_metric is not None:
                log_metric("flopsmith/failed_by_machine", 1.0)
            return [None] * len(batch)
        if log_metric is not None:
            for name, value in metrics(results).items():
                log_metric(name, value)
        if log_extra is not None:
            log_extra("flopsmith/outcome", [result.reason or result.outcome for result in results])
            log_extra("flopsmith/ratio", [result.ratio for result in results])
        return [result.reward for result in results]

    return reward_func


def metrics(results: Sequence[Result]) -> Dict[str, float]:
    """The share of correct programs among those that were evaluated, the best ratio, and the share that the machine failed to evaluate."""
    judged = [result for result in results if result.reward is not None]
    found = {"flopsmith/failed_by_machine": 1 - len(judged) / len(results)} if results else {}
    if judged:
        found["flopsmith/correct"] = sum(result.correct is True for result in judged) / len(judged)
    ratios = [result.ratio for result in judged if result.ratio is not None]
    if ratios:
        found["flopsmith/best_ratio"] = max(ratios)
    return found


reward_func = make_reward_func()
