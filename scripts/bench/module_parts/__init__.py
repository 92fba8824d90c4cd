"""The parts of `scripts/bench/modules.py`.

A part has steps. The function of a part measures one: it takes the options, the problem, the purpose or kind, the number of repetitions, the result of an
unfinished run of the step, and a function that keeps an unfinished result. It returns the figures, or raises Missing with the reason why there are none.
"""

from .compiler import compiling
from .overhead import PROBLEMS as OVERHEAD_PROBLEMS
from .overhead import PURPOSES, overhead
from .problems import MODULES, solution
from .self_ratio import PROBLEMS as SELF_PROBLEMS
from .self_ratio import self_ratio
from .versus import versus

# The parts with their repetitions, and the functions that measure a step.
PARTS = {"overhead": 10, "compile": 3, "self": 100, "versus": 1}
RUN = {"overhead": overhead, "compile": compiling, "self": self_ratio, "versus": versus}


def chosen(part, wanted):
    """The problems of a part. Raises ValueError for unknown names."""
    known = sorted(file.parent.name for file in MODULES.glob("*/problem.toml"))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"unknown module {', '.join(unknown)}; known are {', '.join(known)}")
    if part in ("compile", "versus"):
        found = [name for name in wanted or known if solution(name).is_file()]
        if not found:
            raise ValueError(f"{part} measures C++ solutions, and {', '.join(wanted)} has none; name another module, or another part: --only PART")
        return found
    return list(wanted or (OVERHEAD_PROBLEMS if part == "overhead" else SELF_PROBLEMS))


def steps(part, wanted):
    """The steps of a part by their names: (problem, purpose of `overhead` or kind of `self`)."""
    problems = chosen(part, wanted)
    if part == "overhead":
        return {f"{name}, {purpose}": (name, purpose) for name in problems for purpose in PURPOSES}
    if part == "self":
        kinds = lambda name: ("itself", "copies") if solution(name).is_file() else ("itself",)  # noqa: E731
        return {f"{name}, {kind}": (name, kind) for name in problems for kind in kinds(name)}
    return {name: (name, None) for name in problems}
