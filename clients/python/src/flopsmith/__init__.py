"""Rewards for programs by their verified, measured speed: the client of a Flopsmith service."""

from .client import Against, Candidate, Error, Evaluator, Program, Refused, Result, Unreachable

__all__ = ["Against", "Candidate", "Error", "Evaluator", "Program", "Refused", "Result", "Unreachable"]
__version__ = "0.1.0"
