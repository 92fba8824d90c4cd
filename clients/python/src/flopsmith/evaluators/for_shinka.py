"""An evaluator for ShinkaEvolve. The file `evaluate.py` of its task is:

    from flopsmith.evaluators.for_shinka import main

    main()

`FLOPSMITH_PROBLEM` names the problem. If the machine fails to evaluate a program in several tries, `main` raises an exception and writes no file.
ShinkaEvolve then counts the program as incorrect.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Optional, Sequence

from flopsmith import files


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Evaluates the program in `--program_path`, and writes metrics.json and correct.json into `--results_dir`."""
    parser = argparse.ArgumentParser(description="Evaluates a program by a Flopsmith service.")
    parser.add_argument("--program_path", required=True)
    parser.add_argument("--results_dir", required=True)
    given = parser.parse_args(arguments)
    result = files.evaluate(given.program_path)
    outcome = result.reason or result.outcome
    techniques = ", ".join(result.techniques or [])
    metrics = {
        "combined_score": files.score(result),
        "public": {**files.metrics(result), "techniques": techniques},
        "private": {"reward": result.reward, "reward_se": result.reward_se},
        "text_feedback": "\n".join(filter(None, [outcome, result.diagnostics])),
    }
    right = result.correct is True
    correct = {"correct": right, "error": None if right else f"{outcome}: {result.diagnostics}"}
    folder = pathlib.Path(given.results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("metrics.json", metrics), ("correct.json", correct)):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
