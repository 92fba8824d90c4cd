"""An evaluator file for OpenEvolve: pass the path of this file as its evaluator, and name the problem in `FLOPSMITH_PROBLEM`.

The score is the lower end of the 95 % interval of the ratio to the plain reference: of many tries, the largest estimate is mostly one that noise made
large. A program that is wrong scores 0. If the machine fails to evaluate a program in several tries, `evaluate` raises an exception.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Dict

from flopsmith.client import Error, Evaluator

LANGUAGES = {".c": "c", ".cpp": "c++", ".cc": "c++", ".cxx": "c++", ".f90": "fortran", ".f": "fortran77"}
"""Languages by the ends of file names."""


def evaluate(program_path: str) -> Any:
    """Evaluates the program in a file."""
    problem = os.environ.get("FLOPSMITH_PROBLEM")
    if not problem:
        raise ValueError("no problem is named: set FLOPSMITH_PROBLEM, e.g. to dgemm")
    path = pathlib.Path(program_path)
    workload = os.environ.get("FLOPSMITH_WORKLOAD")
    result = Evaluator().evaluate(
        path.read_text(encoding="utf-8"), problem, language=LANGUAGES.get(path.suffix), workloads=[workload] if workload else []
    )
    if result.reward is None:
        raise Error(f"the machine could not evaluate the program ({result.reason}): {result.diagnostics}; see the log of `flopsmith serve`")
    correct = result.correct is True
    metrics: Dict[str, float] = {
        "combined_score": result.interval[0] if correct and result.interval else 0.0,
        "correct": float(correct),
        "ratio": result.ratio or 0.0,
        "gflops": result.gflops or 0.0,
    }
    artifacts = {"outcome": result.reason or result.outcome, "diagnostics": result.diagnostics, "techniques": ", ".join(result.techniques or [])}
    try:
        from openevolve.evaluation_result import EvaluationResult  # type: ignore[import-not-found]
    except ImportError:
        return metrics
    return EvaluationResult(metrics=metrics, artifacts=artifacts)
