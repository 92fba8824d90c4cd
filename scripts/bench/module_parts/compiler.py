"""The compile stage of C++ extensions against the same command without a jail."""

import json
import statistics
import subprocess
import sys
import time

from peers.cases import ROOT
from peers.tools import Missing, ended, fresh, last_line
from tuners import say

from .bench import all_measured, bench
from .problems import EAGER, copies, definition, solution, variant

PYTHON = ROOT / "crates/module/python"
# Those of crates/module/src/compile.rs.
COMPILER = "/usr/bin/g++"
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-march=native", "-fopenmp", "-fno-math-errno", "-DTORCH_API_INCLUDE_EXTENSION_H")
OUTPUT = ("-shared", "-pipe", "extension.cpp", "-o", "extension.so", "-Wl,--as-needed,-z,now")
LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": "/tmp"}
LIMIT = 300
PYTORCH = "run `scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6`, or name an interpreter that has PyTorch: --python PYTHON"


def probed(python):
    """The interpreter's description of itself, which the product reads as well."""
    ran = ended([python, "-I", "-B", "-c", (PYTHON / "probe.py").read_text()], limit=120)
    try:
        found = json.loads(last_line(ran.stdout))
    except json.JSONDecodeError:
        raise Missing(f"{python} cannot be asked for PyTorch: {last_line(ran.stderr)}; {PYTORCH}") from None
    if "missing" in found:
        raise Missing(f"{python} cannot import PyTorch: {found['missing']}; {PYTORCH}")
    return found


def extensions(name):
    """The extensions of the shipped solution, as the product's check reads them."""
    permitted = ["--gradients"] if definition(name).get("gradients") else []
    command = [sys.executable, "-I", "-S", "-B", PYTHON / "source_check.py", *permitted]
    said = subprocess.run(command, input=solution(name).read_text(), capture_output=True, text=True, check=True).stdout
    found = json.loads(said)
    if found["refusals"]:
        raise Missing(f"the check refuses {solution(name).name} of {name}: {found['refusals'][0]}")
    return found["extensions"]


def source(extension):
    """The text of an extension with its binding to Python, as crates/module/src/compile.rs writes it."""
    bound = "".join(f'm.def("{function}", torch::wrap_pybind_function({function}), "{function}");\n' for function in extension["functions"])
    return f"#include <torch/extension.h>\n{extension['cpp']}\nPYBIND11_MODULE({extension['name']}, m) {{\n{bound}}}\n"


def compilation(of, headers, extension, *more):
    """The bare command that builds an extension, with the precompiled header in the folder `headers`."""
    include = (of["torch_include"], f"{of['torch_include']}/torch/csrc/api/include", of["include"])
    folders = [word for folder in include for word in ("-isystem", folder)]
    return [COMPILER, *more, "-I", str(headers), *FLAGS, *folders, *extension["flags"], *OUTPUT, f"-L{of['torch_lib']}", *LIBRARIES]


def compiled(of, headers, found, folder, *more):
    """Seconds in which the bare compiler builds all extensions of a solution, and its messages."""
    said, begun = "", time.monotonic()
    for extension in found:
        place = fresh(folder / extension["name"])
        (place / "extension.cpp").write_text(source(extension))
        ran = ended(compilation(of, headers, extension, *more), limit=LIMIT, env=ENVIRONMENT, cwd=place)
        if ran.returncode:
            raise Missing(f"bare g++ ended with {ran.returncode}: {last_line(ran.stderr)}")
        said += ran.stderr
    return time.monotonic() - begun, said


def takes_precompiled(said):
    """True if g++ has read the precompiled header, by its messages with -H: it marks one that fits by an exclamation mark."""
    return any(line.startswith("! ") and line.endswith("extension.h.gch") for line in said.splitlines())


def headers_of(cache):
    """The folder of the precompiled header in a cache; None before the product has made it. Raises Missing if it cannot be known."""
    found = sorted((cache / "flopsmith/torch-headers").glob("*/torch/extension.h.gch"))
    if len(found) > 1:
        raise Missing(f"{cache} has the headers of several compilers or versions of PyTorch; remove it, and run this again")
    return found[0].parents[1] if found else None


def compile_ratio(product, bare):
    return {"product_seconds": product, "bare_seconds": bare, "product": statistics.median(product), "bare": statistics.median(bare),
            "ratio": statistics.median(product) / statistics.median(bare)}


def compiling(options, name, _, repeats, earlier, keep):
    work, cache = fresh(options.work / "compile"), options.work / "cache"
    of, found = probed(options.python), extensions(name)
    problem = variant(work, name, baselines=[EAGER])
    text = solution(name).read_text()

    def product(number, folder):
        made = bench(options, copies(work / folder, text, number), problem, "screen", "0", "--workload", "first", cache=cache)
        return [outcome["compile_seconds"] for outcome in all_measured(*made)]

    if headers_of(cache) is None:
        say("precompiling PyTorch's headers in a cache of this script; this takes a minute or two, once")
        product(1, "warm")
    headers = headers_of(cache)
    if headers is None:
        raise Missing(f"flopsmith bench left no precompiled header in {cache}")
    # Not timed: g++ reads the header from the disk.
    precompiled = takes_precompiled(compiled(of, headers, found, work / "bare", "-H")[1])
    bare = lambda number: [compiled(of, headers, found, work / "bare")[0] for _ in range(number)]  # noqa: E731
    # Half of the bare builds come first, so that a slow drift of the machine affects both sides alike.
    before = bare(repeats - repeats // 2)
    return compile_ratio(product(repeats, "copies"), before + bare(repeats // 2)) | {"precompiled": precompiled}
