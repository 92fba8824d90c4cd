"""Runs MetaSchedule on a task of `metaschedule.py`, in the interpreter of its own folder: run_metaschedule.py TASK.json

The last line of stdout is an object with the seconds of the fastest call and the number of trials."""

import contextlib
import json
import sys
import time
from pathlib import Path

import numpy
import tvm
# The search would load these for some seconds of its time.
import tvm.s_tir.tensor_intrin
from tvm import te
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.target import codegen

# Trials of one round: the clock is read between rounds.
ROUND = 32
# More than any search makes: the clock ends it.
TRIALS = 1_000_000


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


def corrections(of_processor, here):
    """Differences between the features of this machine and those of its processor's name: a virtual machine may hide some."""
    return [f"+{name}" for name, there in here.items() if there and name not in of_processor] + \
           [f"-{name}" for name, there in here.items() if not there and name in of_processor]


def this_machine():
    """The target, by what TVM's own LLVM sees: a compiler of the system may be too old to know the processor's name."""
    named = {"kind": "llvm", "mcpu": str(codegen.llvm_get_system_cpu()), "num-cores": 1}
    here = {str(name): bool(there) for name, there in tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")().items()}
    wrong = corrections({str(name) for name in codegen.llvm_get_cpu_features(tvm.target.Target(named))}, here)
    return tvm.target.Target({**named, "mattr": wrong} if wrong else named)


class OutOfTime(Exception):
    pass


def tuned(module, target, folder, seconds, cores):
    """A database with the records of one search, and the number of trials. The search ends with the round during which its time ends, so that it keeps its
    cost model from the first round to the last."""
    end, trials, database = time.monotonic() + seconds, [], ms.database.MemoryDatabase()

    @derived_object
    class Clock(ms.measure_callback.PyMeasureCallback):
        def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
            trials.append(len(runner_results))
            if time.monotonic() >= end:
                raise OutOfTime

    try:
        # Programs are built on all cores, and then timed one after the other.
        ms.tune_tir(
            mod=module, target=target, work_dir=str(folder), max_trials_global=TRIALS, num_trials_per_iter=ROUND, database=database, num_tuning_cores=cores,
            builder=ms.builder.LocalBuilder(max_workers=cores),
            runner=ms.runner.LocalRunner(evaluator_config=ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=20, enable_cpu_cache_flush=False)),
            measure_callbacks=[*ms.MeasureCallback.create("default"), Clock()], seed=1)
    except Exception:
        # The exception may come back as another class: it passes through C++.
        if not trials or time.monotonic() < end:
            raise
    return database, sum(trials)


def fastest(evaluator, given, seconds=0.5, calls=5000):
    """Seconds of the fastest of as many calls as the drivers of the libraries make."""
    first = min(evaluator(3)(*given).results)
    return min(first, *evaluator(max(3, min(calls, int(seconds / first))))(*given).results)


def main():
    task = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(task["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    tensors, right = EXPRESSIONS[task["problem"]](**task["params"])
    module = tvm.IRModule({"main": te.create_prim_func(tensors).with_attr("global_symbol", "main")})
    target = this_machine()
    with contextlib.redirect_stdout(sys.stderr):
        database, trials = tuned(module, target, folder, task["seconds"], task["cores"])
        schedule = ms.tir_integration.compile_tir(database, module, target)
        if schedule is None:
            sys.exit("MetaSchedule found no schedule")
        library = folder / "best.so"
        tvm.tirx.build(schedule.mod, target=target).export_library(str(library))
    loaded, device, random = tvm.runtime.load_module(str(library)), tvm.cpu(), numpy.random.default_rng(1)
    shapes = [(tuple(int(extent) for extent in tensor.shape), str(tensor.dtype)) for tensor in tensors]
    inputs = [random.uniform(-0.5, 0.5, shape).astype(kind) for shape, kind in shapes[:-1]]
    given = [tvm.runtime.tensor(one, device) for one in inputs] + [tvm.runtime.empty(*shapes[-1], device)]
    loaded[loaded.entry_name](*given)
    if not numpy.allclose(given[-1].numpy(), right(*inputs), rtol=1e-3, atol=1e-4):
        sys.exit("the results of MetaSchedule's best schedule are wrong")

    def evaluator(calls):
        return loaded.time_evaluator(loaded.entry_name, device, number=1, repeat=calls, min_repeat_ms=0)
    print(json.dumps({"seconds": fastest(evaluator, given), "tried": trials, "target": str(target)}))


if __name__ == "__main__":
    main()
