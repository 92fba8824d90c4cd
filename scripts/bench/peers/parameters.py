"""Kernel Tuner: chooses the parameters of a kernel that somebody wrote for the problem.

The kernels lie in `kernels/`. Their first line has the parameters and restrictions as JSON. Kernel Tuner times each configuration that it tries by the kernel's
own clock; `flopsmith bench` judges the best one."""

import itertools
import json
import time
from pathlib import Path

from .compilers import FLAGS
from .tools import Missing, one_thread, private_python, run

PACKAGES = ("kernel-tuner==1.5.0", "python-constraint2==2.9.0", "numpy==2.4.6", "scipy==1.17.1")
KERNELS = Path(__file__).resolve().parent / "kernels"
# The start of the interpreter and the end of the last compilation.
BESIDES = 180
# Configurations that are compiled and timed in a second, at least.
PACE = 1


def space(text):
    """Parameters and restrictions of a kernel, from its first line."""
    first = text.split("\n", 1)[0].strip()
    if not (first.startswith("/* tune ") and first.endswith("*/")):
        raise ValueError("the first line of a kernel has to be /* tune {...} */")
    return json.loads(first.removeprefix("/* tune ").removesuffix("*/"))


def configurations(space):
    """The number of permitted configurations."""
    names = list(space["parameters"])
    each = (dict(zip(names, values)) for values in itertools.product(*space["parameters"].values()))
    return sum(all(eval(rule, {"__builtins__": {}}, one) for rule in space["restrictions"]) for one in each)  # noqa: S307: kernels are this repository's own


def strategy(size, seconds):
    """The strategy for a space of that many configurations, and its options. Where the time suffices for all of them, each is tried once, in random order. The
    genetic algorithm counts repetitions as trials, and would end with a part of a small space."""
    if size <= seconds * PACE:
        return "random_sample", {"fraction": 1.0}
    # It would reduce a population of more than half of the space to two.
    return "genetic_algorithm", {"maxiter": 10_000, "popsize": max(2, min(20, size // 2))}


def configured(text, configuration):
    """The program of a configuration."""
    defines = "".join(f"#define {name} {value}\n" for name, value in configuration.items())
    return defines + text.split("\n", 1)[1]


def timed_kernel(text, entry):
    """The kernel with a function that times it, in C and C++: Kernel Tuner compiles it as C++ and takes the returned milliseconds."""
    name = entry["name"]
    names = ", ".join(argument["name"] for argument in entry["args"])
    timed = entry["prototype"].rstrip().rstrip(";").replace(f"void {name}(", f"float timed_{name}(", 1)
    return (f"#include <time.h>\n{text}\n{timed}\n{{\n    float best = 1e30f;\n    for (int call = 0; call < 3; call++) {{\n"
            f"        struct timespec a, b;\n        clock_gettime(CLOCK_MONOTONIC, &a);\n        {name}({names});\n        clock_gettime(CLOCK_MONOTONIC, &b);\n"
            f"        float ms = (float)((b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) * 1e-6);\n        if (ms < best)\n            best = ms;\n    }}\n"
            f"    return best;\n}}\n")


def best_of(said):
    """The fastest configuration, from the last line that the tuner's process prints."""
    results = json.loads(said.splitlines()[-1])
    # A configuration that does not compile or run has no time.
    right = [result for result in results["results"] if isinstance(result["time"], (int, float))]
    if not right:
        raise Missing("Kernel Tuner found no configuration that runs")
    best = min(right, key=lambda result: result["time"])
    return {name: best[name] for name in results["parameters"]}, len(results["results"])


def kernel_tuner(case, folder, options):
    kernel = KERNELS / f"{case.name}.c"
    if not kernel.is_file():
        raise Missing(f"there is no kernel with parameters for {case.name} (scripts/bench/peers/kernels)")
    text = kernel.read_text()
    python = private_python("kernel_tuner", *PACKAGES)
    begun = time.monotonic()
    known = space(text)
    chosen, options_of_it = strategy(configurations(known), options.minutes * 60)
    task = {**known, "strategy": chosen, "options": options_of_it, "source": timed_kernel(text, case.entry), "name": f"timed_{case.entry['name']}", "flags": FLAGS.split(),
            "seconds": options.minutes * 60,
            "arguments": [[kind["element"], value] if isinstance(kind, dict) else [kind, value] for _, kind, value in case.arguments()]}
    file = folder / "kernel_tuner.json"
    file.write_text(json.dumps(task))
    said = run([python, Path(__file__).with_name("run_kernel_tuner.py"), file], limit=options.minutes * 60 + BESIDES, env=one_thread(), cwd=folder)
    configuration, tried = best_of(said)
    source = folder / "kernel_tuner.c"
    source.write_text(configured(text, configuration))
    return {"state": "source", "file": str(source), "version": f"{PACKAGES[0]}, {chosen}", "configuration": configuration, "tried": tried,
            "tuning_seconds": round(time.monotonic() - begun, 1)}
