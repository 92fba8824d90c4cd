"""Runs Kernel Tuner on a task of `parameters.py`, in the interpreter of its own folder: run_kernel_tuner.py TASK.json

The last line of stdout is an object with the names of the parameters and the results of all configurations."""

import contextlib
import json
import sys

import numpy
from kernel_tuner import tune_kernel

TYPES = {"f64": numpy.float64, "f32": numpy.float32, "i32": numpy.int32, "int": numpy.int32}


def value(kind, what, random):
    if isinstance(what, list):
        return random.uniform(-0.5, 0.5, what).astype(TYPES[kind]).reshape(-1)
    return TYPES[kind](what)


def main():
    with open(sys.argv[1]) as file:
        task = json.load(file)
    random = numpy.random.default_rng(1)
    arguments = [value(kind, what, random) for kind, what in task["arguments"]]
    # It prints every configuration that it tries.
    with contextlib.redirect_stdout(sys.stderr):
        results, _ = tune_kernel(task["name"], task["source"], 1, arguments, task["parameters"], restrictions=task["restrictions"] or None, lang="C",
                                 compiler="g++", compiler_options=task["flags"], strategy=task["strategy"],
                                 strategy_options={**task["options"], "time_limit": task["seconds"]})
    names = list(task["parameters"])
    # A configuration that fails has an error and no time.
    kept = [{**{name: result[name] for name in names}, "time": None if "__error__" in result else result["time"]} for result in results]
    print(json.dumps({"parameters": names, "results": kept}, default=lambda number: number.item() if hasattr(number, "item") else str(number)))


if __name__ == "__main__":
    main()
