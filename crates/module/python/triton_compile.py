"""Compiles Triton's kernels for GPUs that need not be there: reads one JSON document on standard input, prints one.

The input has `paths`, `source` (the kernels without decorators that tune them), `launches` as `worker_triton.py` notes them, and
`architectures` (compute capabilities such as 90). The output has `compiled`: for each launch and architecture the figures of the compiler, or
its `error`, at which it ends.
"""

import contextlib
import io
import json
import linecache
import os
import re
import sys
import types

settings = json.load(sys.stdin)
sys.path[:0] = settings["paths"]
# Nothing but the document may appear on standard output.
answer = os.dup(1)
os.dup2(2, 1)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402


def value_of(constant):
    if "type" in constant:
        return tl.str_to_ty(constant["type"], None)
    return float(constant["float"]) if "float" in constant else constant["value"]


def figure(pattern, log):
    found = re.search(pattern, log)
    return int(found.group(1)) if found else 0


def compiled(module, launch, architecture):
    kernel = getattr(module, launch["kernel"])
    names = kernel.arg_names
    signature = {name: launch["signature"][name] for name in names}
    source = ASTSource(
        kernel,
        signature=signature,
        constexprs={name: value_of(constant) for name, constant in launch["constants"].items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in launch["aligned"]},
    )
    log = io.StringIO()
    with contextlib.redirect_stdout(log):
        built = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=launch["options"])
    said = log.getvalue()
    return {
        "registers": figure(r"Used (\d+) registers", said),
        "shared_bytes": built.metadata.shared,
        "spill_store_bytes": figure(r"(\d+) bytes spill stores", said),
        "spill_load_bytes": figure(r"(\d+) bytes spill loads", said),
        "num_warps": built.metadata.num_warps,
        "num_stages": built.metadata.num_stages,
    }


def words(error):
    """The words of Triton or ptxas, without the program that they repeat."""
    text = str(error) or type(error).__name__
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("Repro command")]
    causes = [f"{type(error.__cause__).__name__}: {error.__cause__}"] if error.__cause__ is not None else []
    said = "\n".join([f"{type(error).__name__}: " + "\n".join(lines[:12]), *causes])[:4000]
    # A text of the program may hold halves of characters, which no JSON can.
    return said.encode("utf-8", "replace").decode()


def main():
    # The compiler's words with the figures are printed, and read above.
    triton.knobs.nvidia.dump_ptxas_log = True
    module = types.ModuleType("kernels")
    sys.modules["kernels"] = module
    text = settings["source"]
    linecache.cache["kernels.py"] = (len(text), None, text.splitlines(keepends=True), "kernels.py")
    results = []
    try:
        exec(compile(text, "kernels.py", "exec"), module.__dict__)
    except Exception as error:
        results.append({"launch": 0, "architecture": settings["architectures"][0], "error": words(error)})
    for number, launch in enumerate(settings["launches"]):
        for architecture in settings["architectures"]:
            if results and "error" in results[-1]:
                break
            result = {"launch": number, "architecture": architecture}
            try:
                result.update(compiled(module, launch, architecture))
            except Exception as error:
                result["error"] = words(error)
            results.append(result)
    os.write(answer, json.dumps({"compiled": results}).encode())


main()
