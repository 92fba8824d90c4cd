"""A reward function for verl. Set in its configuration:

    reward.custom_reward_function.path=<this file>
    reward.custom_reward_function.name=compute_score

`extra_info["problem"]`, or else `ground_truth`, or else `FLOPSMITH_PROBLEM`, names the problem. If the machine fails to evaluate a program in several
tries, the function raises an exception: verl would take any number for a reward.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from flopsmith.client import Candidate, Error, Evaluator, Result


def _candidate(solution_str: str, ground_truth: Any, extra_info: Optional[Dict[str, Any]]) -> Candidate:
    extra = extra_info or {}
    truth = ground_truth if isinstance(ground_truth, str) else None
    problem = extra.get("problem") or truth or os.environ.get("FLOPSMITH_PROBLEM")
    if not problem:
        raise ValueError("no problem is named: set extra_info['problem'], ground_truth, or FLOPSMITH_PROBLEM")
    workload = extra.get("workload")
    return Candidate(problem, answer=solution_str, language=extra.get("language"), workloads=[workload] if workload else [])


def _score(result: Result) -> Dict[str, float]:
    if result.reward is None:
        raise Error(f"the machine could not evaluate the program ({result.reason}): {result.diagnostics}; see the log of `flopsmith serve`")
    return {"score": result.reward, "acc": float(result.correct is True), "ratio": result.ratio or 0.0}


def compute_score(
    data_source: str = "", solution_str: str = "", ground_truth: Any = None, extra_info: Optional[Dict[str, Any]] = None, **_: Any
) -> Dict[str, float]:
    """The reward of an answer, as `score`; `acc` is 1 for a program that is right."""
    return _score(Evaluator().evaluate_many([_candidate(solution_str, ground_truth, extra_info)])[0])


async def compute_score_async(
    data_source: str = "", solution_str: str = "", ground_truth: Any = None, extra_info: Optional[Dict[str, Any]] = None, **_: Any
) -> Dict[str, float]:
    """As `compute_score`, without blocking the event loop."""
    results = await Evaluator().aevaluate_many([_candidate(solution_str, ground_truth, extra_info)])
    return _score(results[0])
