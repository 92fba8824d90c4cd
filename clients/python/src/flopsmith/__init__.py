"""Rewards for programs by their verified, measured speed: the client of a Flopsmith service."""

from .client import Candidate, Error, Evaluator, Refused, Result, Unreachable

__all__ = ["Candidate", "Error", "Evaluator", "Refused", "Result", "Unreachable"]
__version__ = "0.1.0"
