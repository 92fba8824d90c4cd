"""An evaluator file for OpenEvolve: pass the path of this file as its evaluator, and name the problem in `FLOPSMITH_PROBLEM`.

If the machine fails to evaluate a program in several tries, `evaluate` raises an exception. OpenEvolve tries again, and at last gives the program the
metric `error` and no score.
"""

from __future__ import annotations

from typing import Any

from flopsmith import files


def evaluate(program_path: str) -> Any:
    """Evaluates the program in a file. `combined_score` is `files.score`."""
    result = files.evaluate(program_path)
    metrics = {"combined_score": files.score(result), **files.metrics(result)}
    found = {"outcome": result.reason or result.outcome, "diagnostics": result.diagnostics, "techniques": ", ".join(result.techniques or [])}
    # OpenEvolve writes all of them into its prompts, also empty ones.
    artifacts = {name: text for name, text in found.items() if text}
    try:
        from openevolve.evaluation_result import EvaluationResult  # type: ignore[import-not-found]
    except ImportError:
        return metrics
    return EvaluationResult(metrics=metrics, artifacts=artifacts)
