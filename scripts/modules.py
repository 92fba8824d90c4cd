#!/usr/bin/env python3
"""Checks the solutions of the module problems without the jail and without a GPU: results at each distribution of inputs against a float64 run
of the reference, by the rules of docs/reference/modules.md. Triton runs in its interpreter, at smaller workloads. With --aot, Triton's kernels
are compiled for sm_80 and sm_90 instead, and do not run.   scripts/modules.py [--aot] [NAME...]
It needs PyTorch and Triton: run it with the interpreter that `scripts/python.sh --venv target/torch torch==2.11.0` prints."""

import argparse
import json
import math
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / "crates/module/python"
BUILT = ROOT / "target/modules"
DISTRIBUTIONS = ["plain", "large", "tiny", "shifted", "sparse", "rows"]
# What the interpreter leaves of these constants: it takes milliseconds for each program of a grid.
INTERPRETED = {"BATCH": 2, "ROWS": 70, "TOKENS": 200, "PIXELS": 1300, "COLUMNS": 3000}
FLAGS = ["-O3", "-std=c++17", "-fPIC", "-march=native", "-fopenmp", "-fno-math-errno", "-DTORCH_API_INCLUDE_EXTENSION_H"]


class Reference:
    """The process that makes inputs, parameters and expected results; its memory is mapped here."""

    def __init__(self, problem, folder, constants):
        self.arena = tempfile.NamedTemporaryFile()
        settings = {"paths": [], "cores": [], "threads": torch.get_num_threads(), "arena": self.arena.name}
        command = [sys.executable, "-I", PYTHON / "reference.py", json.dumps(settings)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answer()
        loaded = self.order("load", reference=str(folder / "reference.py"), constants=constants, seed=1)
        self.layout, self.init, self.single = loaded["layout"], loaded["init"], loaded["single"]
        self.arena.truncate(max(self.layout["bytes"], 1))
        self.memory = mmap.mmap(self.arena.fileno(), 0)
        self.order("map")

    def answer(self):
        line = json.loads(self.child.stdout.readline())
        if "error" in line:
            raise RuntimeError(line["error"])
        return line

    def order(self, do, **more):
        self.child.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
        self.child.stdin.flush()
        return self.answer()

    def call(self):
        began = time.perf_counter()
        self.child.stdin.write(b"c\n")
        self.child.stdin.flush()
        self.child.stdout.readline()
        return time.perf_counter() - began

    def tensors(self, part):
        def one(place):
            if "offset" not in place:
                return place["value"]
            count, dtype = math.prod(place["shape"]), getattr(torch, place["dtype"])
            return torch.frombuffer(self.memory, dtype=dtype, count=count, offset=place["offset"]).view(place["shape"]).clone()

        return [one(place) for place in self.layout[part]]

    def end(self):
        self.child.stdin.close()
        self.child.wait()


def compiled(extension):
    """The functions of an inline extension, compiled as crates/module/src/compile.rs does, with the precompiled header."""
    base = pathlib.Path(torch.__file__).parent
    headers = BUILT / f"headers-{torch.__version__}"
    flags = [*FLAGS]
    for folder in (base / "include", base / "include/torch/csrc/api/include", sysconfig.get_path("include")):
        flags += ["-isystem", str(folder)]
    if not (headers / "torch/extension.h.gch").exists():
        shutil.copytree(PYTHON / "headers", headers, dirs_exist_ok=True)
        subprocess.run(["g++", *flags, "-x", "c++-header", "torch/extension.h", "-o", "torch/extension.h.gch"], cwd=headers, check=True)
    name = extension["name"]
    source, built = BUILT / f"{name}.cpp", BUILT / f"{name}.so"
    bound = "".join(f'm.def("{f}", torch::wrap_pybind_function({f}), "{f}");\n' for f in extension["functions"])
    source.write_text(f"#include <torch/extension.h>\n{extension['cpp']}\nPYBIND11_MODULE({name}, m) {{\n{bound}}}\n")
    libraries = [f"-L{base}/lib", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    subprocess.run(["g++", "-I", headers, *flags, *extension["flags"], "-shared", source, "-o", built, "-Wl,--as-needed,-z,now", *libraries], check=True)
    spec = importlib.util.spec_from_file_location(name, built)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model_of(file, reference):
    """The `ModelNew` of a solution with the reference's present parameters."""
    ready = {}
    if file.name == "solution_cpp.py":
        checked = check(file.read_text())
        if checked["refusals"]:
            raise RuntimeError(f"the source check refuses {file}: {checked['refusals']}")
        ready = {e["name"]: compiled(e) for e in checked["extensions"]}
    sys.modules["torch.utils.cpp_extension"] = types.SimpleNamespace(load_inline=lambda name, **_: ready[name])
    spec = importlib.util.spec_from_file_location("candidate", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ModelNew(*reference.init).eval()


def share(problem, reference, results):
    """The largest error as a share of the permitted one."""
    figures, worst = reference.order("expect"), 0.0
    if not figures["finite"]:
        raise RuntimeError("the float64 results are not all finite")
    for found, exact, scale, eager, place in zip(results, reference.tensors("expected"), figures["scale"], figures["eager_error"], reference.layout["outputs"]):
        tolerance = problem["tolerance"].get(place["dtype"], {"absolute": 0.0, "relative": 0.0})
        if list(found.shape) != place["shape"] or str(found.dtype) != "torch." + place["dtype"]:
            raise RuntimeError(f"the result is {found.dtype} {list(found.shape)} instead of {place}")
        bound = (tolerance["absolute"] * scale + tolerance["relative"] * exact.abs()).clamp(min=max(4 * eager, 1e-300))
        worst = max(worst, ((found.double() - exact).abs() / bound).nan_to_num(math.inf).max().item())
    return worst


def verify(problem, folder, workload, file):
    triton = file.name == "solution_triton.py"
    constants = {k: min(v, INTERPRETED.get(k, v)) if triton else v for k, v in workload["constants"].items()}
    reference = Reference(problem, folder, constants)
    model, worst, began = model_of(file, reference), ("", 0.0), time.perf_counter()
    for seed, kind in enumerate(problem.get("distributions") or DISTRIBUTIONS):
        reference.order("make_inputs", seed=seed, distribution=kind)
        reference.order("make_parameters", seed=seed, noise=True)
        with torch.no_grad():
            model.load_state_dict(dict(zip([p["name"] for p in reference.layout["parameters"]], reference.tensors("parameters"))))
        inputs = reference.tensors("inputs")
        with torch.inference_mode():
            results = model(*inputs)
        error = share(problem, reference, [results] if reference.single else results)
        worst = max(worst, (kind, error), key=lambda w: w[1])
        if any(isinstance(a, torch.Tensor) and not torch.equal(a, b) for a, b in zip(inputs, reference.tensors("inputs"))):
            raise RuntimeError("the call changed its inputs")
    text = f"error {worst[1]:6.3f} ({worst[0]})"
    if triton:
        return worst[1], f"{text}, {time.perf_counter() - began:.1f} s interpreted at {constants}"
    with torch.inference_mode():
        times = [min(reference.call() for _ in range(7))]
        for _ in range(7):
            began = time.perf_counter()
            model(*inputs)
            times.append(time.perf_counter() - began)
    reference.end()
    return worst[1], f"{text}, eager {1e3 * times[0]:.2f} ms, C++ {1e3 * min(times[1:]):.2f} ms"


def compile_only(self, *args, grid, warmup, **options):
    """Stands for the launch of a kernel: compiles it as a launch would, for two generations of GPUs."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptxas
    from triton.compiler import ASTSource, make_backend
    from triton.runtime.jit import create_function_from_signature

    for generation in (80, 90):
        target = GPUTarget("cuda", generation, 32)
        backend, options = make_backend(target), {"debug": False, "instrumentation_mode": "", **options}
        bound, kinds, given = create_function_from_signature(self.signature, self.params, backend)(*args, **options)
        given, signature, constants, attributes = self._pack_args(backend, options, bound, kinds, given)
        kernel = triton.compile(ASTSource(self, signature, constants, attributes), target=target, options=given.__dict__)
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as ptx:
            ptx.write(kernel.asm["ptx"])
            ptx.flush()
            name = "sm_90a" if generation == 90 else "sm_80"
            command = [get_ptxas(generation).path, "-v", f"--gpu-name={name}", ptx.name, "-o", os.devnull]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        registers, spilled = re.search(r"Used (\d+) registers", said).group(1), re.search(r"(\d+) bytes spill stores", said).group(1)
        print(f"    {self.__name__} {name}: {registers} registers, {spilled} bytes spilled, {kernel.metadata.shared} bytes shared")


def main():
    failed = False
    for folder in sorted((ROOT / "problems/modules").iterdir()):
        if given.names and folder.name not in given.names:
            continue
        problem = tomllib.loads((folder / "problem.toml").read_text())
        for file in sorted(folder.glob("solution_*.py")):
            for workload in problem["workload"]:
                print(f"{folder.name} {file.stem} {workload['name']}", end=": " if not given.aot else "\n", flush=True)
                try:
                    if given.aot and "triton" in file.name:
                        reference = Reference(problem, folder, workload["constants"])
                        reference.order("make_inputs", seed=1, distribution="plain")
                        with torch.inference_mode():
                            model_of(file, reference)(*reference.tensors("inputs"))
                        reference.end()
                    elif not given.aot:
                        error, text = verify(problem, folder, workload, file)
                        failed |= not error <= 1.0
                        print(text if error <= 1.0 else f"WRONG: {text}")
                except Exception as error:  # a solution may raise anything
                    failed = True
                    print(f"WRONG: {type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="problems; all if there are none")
    parser.add_argument("--aot", action="store_true", help="compile Triton's kernels for sm_80 and sm_90")
    given = parser.parse_args()
    if not given.aot:
        os.environ["TRITON_INTERPRET"] = "1"
    sys.path.insert(0, str(PYTHON))
    import importlib.util

    import torch
    import triton
    from source_check import check

    if given.aot:
        triton.runtime.jit.JITFunction.run = compile_only
    sys.exit(main())
