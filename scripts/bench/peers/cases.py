"""Cases: a problem at one of its workloads."""

import json
import math
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
C_TYPES = {"f64": "double", "f32": "float", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t"}


@dataclass
class Case:
    name: str
    folder: Path
    workload: str
    params: dict
    entry: dict
    # True if commands have to name the workload.
    several: bool = False
    techniques: list = field(default_factory=list)

    @property
    def key(self):
        return f"{self.name} at {self.workload}"

    @property
    def stem(self):
        return self.key.replace(" at ", "-").replace("=", "").replace(",", "-").replace(" ", "")

    def reference(self):
        return (self.folder / "reference.c").read_text()

    def arguments(self):
        """The arguments of the entry with their values: (name, kind, value); the value of an array is its shape."""
        for argument in self.entry["args"]:
            if "int" in argument:
                yield argument["name"], "int", int(formula(argument["int"], self.params))
            elif "scalar" in argument:
                low, high = (formula(argument[side], self.params) for side in ("low", "high"))
                yield argument["name"], argument["scalar"], low + 0.3 * (high - low)
            else:
                shape = [int(formula(extent, self.params)) for extent in argument["shape"]]
                yield argument["name"], argument, shape


def formula(text, params):
    """The value of a formula of `problem.toml`."""
    known = {"sqrt": math.sqrt, "log2": math.log2, "__builtins__": {}}
    return eval(text, known, dict(params))  # noqa: S307: definitions are this repository's or the user's own


def words(params):
    return ", ".join(f"{name}={value}" for name, value in params.items())


def chosen(listed, wanted, workload=None):
    """The cases of the wanted problems, by the output of `flopsmith problem list --format json`. Without a workload, each problem is timed at its
    first one. Unknown names are an error that lists the known ones."""
    by_name = {entry["problem"]: entry for entry in listed}
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise ValueError(f"unknown problem {', '.join(unknown)}; known are {', '.join(sorted(by_name))}")
    cases = []
    for name in wanted:
        entry = by_name[name]
        if entry["error"]:
            raise ValueError(f"the definition of {name} is broken: {entry['error']}")
        workloads = {w["name"]: w["timed"] for w in entry["workloads"]}
        if workload and workload not in workloads:
            raise ValueError(f"{name} has no workload {workload}; it has {'; '.join(workloads)}")
        first = workload or next(iter(workloads))
        folder = ROOT / entry["folder"]
        definition = tomllib.loads((folder / "problem.toml").read_text())
        cases.append(Case(name, folder, first, workloads[first], definition["entry"], len(workloads) > 1, definition["techniques"]))
    return cases


def listed(flopsmith):
    said = subprocess.run([flopsmith, "problem", "list", "--format", "json"], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(said.stdout)
