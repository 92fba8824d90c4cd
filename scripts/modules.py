#!/usr/bin/env python3
"""Checks the solutions of the module problems without the jail and without a GPU: results for each distribution of inputs against a float64 run
of the reference, by the rules of docs/reference/modules.md. Triton's interpreter runs kernels at smaller workloads, which are shown. With --aot,
kernels are compiled for sm_80 and sm_90 as they are launched at the whole workloads. Solutions in CUDA C++ are left out, since only a GPU
could run them.   scripts/modules.py [--aot] [NAME...]
Run it with the interpreter that `scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6` prints."""

import argparse
import importlib.util
import json
import math
import mmap
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON, BUILT = ROOT / "crates/module/python", ROOT / "target/modules"
sys.path.insert(0, str(PYTHON))

import torch  # noqa: E402
import worker_triton  # noqa: E402
from source_check import check  # noqa: E402

DISTRIBUTIONS = ["plain", "large", "tiny", "shifted", "sparse", "rows"]
# Largest constants for the interpreter, which takes milliseconds for each program of a grid.
INTERPRETED = {"BATCH": 2, "ROWS": 70, "TOKENS": 140, "HEADS": 6, "SIDE": 20, "PIXELS": 300, "COLUMNS": 3000, "CLASSES": 9000}
# Those of crates/module/src/compile.rs.
FLAGS = ["-O3", "-std=c++17", "-fPIC", "-march=native", "-fopenmp", "-fno-math-errno", "-DTORCH_API_INCLUDE_EXTENSION_H"]


class Reference:
    """The trusted process of a problem, as the supervisor uses it."""

    def __init__(self, folder, constants, dtype):
        self.arena = tempfile.NamedTemporaryFile()
        settings = json.dumps({"paths": sys.path, "cores": [], "threads": torch.get_num_threads(), "arena": self.arena.name})
        self.child = subprocess.Popen([sys.executable, PYTHON / "reference.py", settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.child.stdout.readline()
        loaded = self.order("load", reference=str(folder / "reference.py"), constants=constants, dtype=dtype, seed=1)
        self.layout, self.init, self.single = loaded["layout"], loaded["init"], loaded["single"]
        self.arena.truncate(self.layout["bytes"])
        self.memory = mmap.mmap(self.arena.fileno(), 0)
        self.order("map")

    def say(self, line):
        self.child.stdin.write(line + b"\n")
        self.child.stdin.flush()
        return self.child.stdout.readline()

    def order(self, do, **more):
        answer = json.loads(self.say(json.dumps({"do": do, **more}).encode()))
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def fresh(self, seed, distribution):
        self.order("make_inputs", seed=seed, distribution=distribution)
        self.order("make_parameters", seed=seed, noise=True)
        return [self.tensor(place) for place in self.layout["inputs"]]

    def tensor(self, place):
        if "offset" not in place:
            return place["value"]
        count, dtype = math.prod(place["shape"]), getattr(torch, place["dtype"])
        return torch.frombuffer(self.memory, dtype=dtype, count=count, offset=place["offset"]).view(place["shape"])


def module(file, name):
    spec = importlib.util.spec_from_file_location(name, file)
    sys.modules[name] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def compiled(extension):
    """An inline extension, compiled as crates/module/src/compile.rs does."""
    base, name = pathlib.Path(torch.__file__).parent, extension["name"]
    headers, source, built = BUILT / f"headers-{torch.__version__}", BUILT / f"{name}.cpp", BUILT / f"{name}.so"
    folders = [base / "include", base / "include/torch/csrc/api/include", sysconfig.get_path("include")]
    flags = FLAGS + [part for folder in folders for part in ("-isystem", str(folder))]
    if not (headers / "torch/extension.h.gch").exists():
        shutil.copytree(PYTHON / "headers", headers, dirs_exist_ok=True)
        subprocess.run(["g++", *flags, "-w", "-x", "c++-header", "torch/extension.h", "-o", "torch/extension.h.gch"], cwd=headers, check=True)
    bound = "".join(f'm.def("{f}", torch::wrap_pybind_function({f}));\n' for f in extension["functions"])
    source.write_text(f"#include <torch/extension.h>\n{extension['cpp']}\nPYBIND11_MODULE({name}, m) {{\n{bound}}}\n")
    linked = ["-shared", source, "-o", built, f"-L{base}/lib", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    subprocess.run(["g++", "-I", headers, *flags, *extension["flags"], *linked], check=True)
    return module(built, name)


def share(tolerances, reference, results):
    """The largest error as a share of the permitted one, by the rules of crates/module/src/compare.rs."""
    figures, worst, layout = reference.order("expect"), 0.0, reference.layout
    for found, place, to, scale, eager in zip(results, layout["outputs"], layout["expected"], figures["scale"], figures["eager_error"], strict=True):
        if list(found.shape) != place["shape"] or str(found.dtype) != "torch." + place["dtype"] or not figures["finite"]:
            raise RuntimeError(f"{found.dtype} {list(found.shape)} instead of {place}, or float64 results that are not finite")
        tolerance, exact = tolerances.get(place["dtype"], {"absolute": 0.0, "relative": 0.0}), reference.tensor(to)
        bound = (tolerance["absolute"] * scale + tolerance["relative"] * exact.abs()).clamp(min=max(4 * eager, 1e-300))
        worst = max(worst, ((found.double() - exact).abs() / bound).nan_to_num(math.inf).max().item())
    return worst


def fastest(call):
    def seconds():
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    return f"{1e3 * min(seconds() for _ in range(9)):.2f} ms"


def compiled_kernels(source):
    """The compiler's figures for the kernels that calls have launched, with a fresh cache: kernels from a cache have no figures."""
    order = json.dumps({"paths": sys.path, "source": source, "architectures": [80, 90], **worker_triton.launches()})
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": cache}
        command = [sys.executable, PYTHON / "triton_compile.py"]
        said = subprocess.run(command, input=order, capture_output=True, text=True, check=True, env=environment).stdout
    for one in json.loads(said)["compiled"]:
        if "error" in one:
            raise RuntimeError(one["error"])
        yield f"sm_{one['architecture']} {one['registers']} registers, {one['spill_store_bytes']} B spilled, {one['shared_bytes']} B shared"


@torch.inference_mode()
def run(aot, problem, file, constants, dtype):
    """Checks a solution at one workload, in its data type if it states one; returns what is to be said of it."""
    triton = file.name == "solution_triton.py"
    if triton and not aot:  # odd values stay odd
        constants = {k: min(v, INTERPRETED.get(k, v) + (v - INTERPRETED.get(k, v)) % 2) for k, v in constants.items()}
    checked, worst = check(file.read_text(), gradients=bool(problem.get("gradients"))), (0.0, "")
    if checked["refusals"]:
        raise RuntimeError(checked["refusals"][0])
    ready = {e["name"]: compiled(e) for e in checked["extensions"]}
    sys.modules["torch.utils.cpp_extension"] = types.SimpleNamespace(load_inline=lambda name, **_: ready[name])
    reference = Reference(file.parent, constants, dtype)
    try:
        worker_triton.noted.clear()
        model = module(file, "candidate").ModelNew(*reference.init).eval()
        model = model.to(getattr(torch, dtype)) if dtype else model
        if aot:
            model(*reference.fresh(1, "plain"))
            return "; ".join(compiled_kernels(checked["triton"]["kernel_source"]))
        for seed, distribution in enumerate(problem.get("distributions") or DISTRIBUTIONS):
            inputs = reference.fresh(seed, distribution)
            model.load_state_dict({place["name"]: reference.tensor(place) for place in reference.layout["parameters"]})
            results = model(*inputs)
            worker_triton.state["turn"] += 1
            worst = max(worst, (share(problem["tolerance"], reference, [results] if reference.single else results), distribution))
        if worst[0] > 1.0:
            raise RuntimeError(f"an error is {worst[0]:.2f} times the permitted one (inputs: {worst[1]})")
        times = f"at {constants}" if triton else f"eager {fastest(lambda: reference.say(b'c'))}, C++ {fastest(lambda: model(*inputs))}"
        return f"error {worst[0]:.3f} ({worst[1]}), {times}"
    finally:
        reference.child.stdin.close()
        reference.child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="problems; all if there are none")
    parser.add_argument("--aot", action="store_true", help="compile Triton's kernels instead of interpreting them")
    given, failed = parser.parse_args(), 0
    worker_triton.prepare(given.aot)
    for file in sorted((ROOT / "problems/modules").glob("*/solution_triton.py" if given.aot else "*/solution_*.py")):
        if given.names and file.parent.name not in given.names or file.name == "solution_cuda.py":
            continue
        problem = tomllib.loads((file.parent / "problem.toml").read_text())
        for workload in problem["workload"]:
            try:
                said = run(given.aot, problem, file, workload["constants"], workload.get("dtype"))
            except Exception as error:  # a solution may raise anything
                said, failed = f"WRONG: {type(error).__name__}: {error}", failed + 1
            print(f"{file.parent.name} {file.stem} {workload['name']}: {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
