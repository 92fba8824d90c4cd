"""Evaluates a program in a file, for tools that write each program into one.

`FLOPSMITH_PROBLEM` names the problem, and `FLOPSMITH_WORKLOAD` one of its workloads. The end of the file's name tells the language; with another end
the program is in the problem's own language.
"""

from __future__ import annotations

import os
import pathlib
from typing import Dict, Union

from flopsmith.client import Error, Evaluator, Result

LANGUAGES = {".c": "c", ".cpp": "c++", ".cc": "c++", ".cxx": "c++", ".f90": "fortran", ".f": "fortran77"}
"""Languages by the ends of file names."""


def evaluate(program: Union[str, "os.PathLike[str]"]) -> Result:
    """Evaluates the program in a file. Raises `Error` if the machine fails to evaluate it in several tries."""
    problem = os.environ.get("FLOPSMITH_PROBLEM")
    if not problem:
        raise ValueError("no problem is named: set FLOPSMITH_PROBLEM, e.g. to dgemm")
    path = pathlib.Path(program)
    workload = os.environ.get("FLOPSMITH_WORKLOAD")
    source = path.read_text(encoding="utf-8")
    result = Evaluator().evaluate(source, problem, language=LANGUAGES.get(path.suffix), workloads=[workload] if workload else [])
    if result.reward is None:
        raise Error(f"the machine could not evaluate the program ({result.reason}): {result.diagnostics}; see the log of `flopsmith serve`")
    return result


def score(result: Result) -> float:
    """The lower end of the 95 % interval of the ratio to the plain reference, and 0 for a program that is wrong.

    Of many tries, the largest estimate is mostly one that noise made large.
    """
    return result.interval[0] if result.correct is True and result.interval else 0.0


def metrics(result: Result) -> Dict[str, float]:
    """Numbers of a result, 0 where it has none."""
    return {"correct": float(result.correct is True), "ratio": result.ratio or 0.0, "gflops": result.gflops or 0.0}
