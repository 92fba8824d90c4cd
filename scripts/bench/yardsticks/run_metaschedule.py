"""Runs MetaSchedule on a task of `metaschedule.py`, in the interpreter of its own folder: run_metaschedule.py TASK.json

The last line of stdout is an object with the seconds of the fastest call and the number of trials."""

import contextlib
import json
import sys
import time
from pathlib import Path

import numpy
import tvm
from tvm import te
from tvm.driver import build
from tvm.s_tir import meta_schedule as ms

# Trials of one round: the clock is read between rounds.
ROUND = 32


def product(kind):
    def expression(n):
        a, b = (te.placeholder((n, n), kind, name) for name in "AB")
        k = te.reduce_axis((0, n), "k")
        return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")], lambda a, b: a @ b
    return expression


def dgemv(m, n):
    a, x = te.placeholder((m, n), "float64", "A"), te.placeholder((n,), "float64", "x")
    j = te.reduce_axis((0, n), "j")
    return [a, x, te.compute((m,), lambda i: te.sum(a[i, j] * x[j], axis=j), "y")], lambda a, x: a @ x


def transpose(m, n):
    a = te.placeholder((m, n), "float64", "A")
    return [a, te.compute((n, m), lambda j, i: a[i, j], "B")], lambda a: a.T


def conv2d(h, w, k):
    image, weight = te.placeholder((h + k - 1, w + k - 1), "float32", "in"), te.placeholder((k, k), "float32", "weight")
    p, q = te.reduce_axis((0, k), "p"), te.reduce_axis((0, k), "q")
    out = te.compute((h, w), lambda i, j: te.sum(weight[p, q] * image[i + p, j + q], axis=[p, q]), "out")

    def right(image, weight):
        return sum(weight[p, q] * image[p:p + h, q:q + w] for p in range(k) for q in range(k))
    return [image, weight, out], right


EXPRESSIONS = {"dgemm": product("float64"), "sgemm": product("float32"), "dgemv": dgemv, "transpose": transpose, "conv2d": conv2d}


def tuned(module, target, folder, seconds):
    """A database with the records of all rounds, and the number of trials."""
    end, trials, database = time.monotonic() + seconds, 0, "json"
    while trials == 0 or time.monotonic() < end:
        database = ms.tune_tir(
            mod=module, target=target, work_dir=str(folder), max_trials_global=ROUND, num_trials_per_iter=ROUND, database=database, num_tuning_cores=1,
            builder=ms.builder.LocalBuilder(max_workers=1),
            runner=ms.runner.LocalRunner(evaluator_config=ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=20, enable_cpu_cache_flush=False)),
            seed=1 + trials)
        trials += ROUND
    return database, trials


def main():
    task = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(task["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    tensors, right = EXPRESSIONS[task["problem"]](**task["params"])
    module = tvm.IRModule({"main": te.create_prim_func(tensors).with_attr("global_symbol", "main")})
    target = tvm.target.Target({"kind": "llvm", "mcpu": task["processor"], "num-cores": 1})
    with contextlib.redirect_stdout(sys.stderr):
        database, trials = tuned(module, target, folder, task["seconds"])
        schedule = ms.tir_integration.compile_tir(database, module, target)
        if schedule is None:
            sys.exit("MetaSchedule found no schedule")
        library = folder / "best.so"
        build(schedule.mod, target=target).export_library(str(library))
    loaded, device, random = tvm.runtime.load_module(str(library)), tvm.cpu(), numpy.random.default_rng(1)
    shapes = [(tuple(int(extent) for extent in tensor.shape), tensor.dtype) for tensor in tensors]
    inputs = [random.uniform(-0.5, 0.5, shape).astype(kind) for shape, kind in shapes[:-1]]
    given = [tvm.runtime.tensor(one, device) for one in inputs] + [tvm.runtime.empty(*shapes[-1], device)]
    loaded[loaded.entry_name](*given)
    if not numpy.allclose(given[-1].numpy(), right(*inputs), rtol=1e-3, atol=1e-4):
        sys.exit("the results of MetaSchedule's best schedule are wrong")
    calls = loaded.time_evaluator(loaded.entry_name, device, number=1, repeat=200, min_repeat_ms=0)(*given)
    print(json.dumps({"seconds": min(calls.results), "tried": trials}))


if __name__ == "__main__":
    main()
