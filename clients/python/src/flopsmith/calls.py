"""Calls of the service's routes for other trainers, with what these trainers lack: a token, and patience while the machine fails."""

from __future__ import annotations

import os
import urllib.parse
from typing import Any, Dict

from flopsmith.client import Evaluator


def problem(label: Any) -> str:
    """The problem of a sample: its label, or else `FLOPSMITH_PROBLEM`."""
    name = label if isinstance(label, str) and label.strip() else os.environ.get("FLOPSMITH_PROBLEM")
    if not name:
        raise ValueError("no problem is named: write its name into the label of each sample, or set FLOPSMITH_PROBLEM")
    return name


def rewarded(route: str, body: Dict[str, Any]) -> Any:
    """The answer of a route. Raises `Unreachable` if the machine fails to evaluate the program in several tries."""
    evaluator = Evaluator()
    task = {"purpose": evaluator.purpose}
    workload = os.environ.get("FLOPSMITH_WORKLOAD")
    if workload:
        task["workload"] = workload
    return evaluator.post(f"/v1/{route}?{urllib.parse.urlencode(task)}", body)
