"""Describes the interpreter that runs it: version, folders, torch, its headers, and the libraries that it maps. Prints one JSON document.

Without a torch that can be imported, the document has `missing`, the reason, and the folders of packages.
"""

import importlib.metadata
import json
import os
import sys
import sysconfig


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main():
    found = {
        "executable": os.path.realpath(sys.executable),
        "python": sys.version.split()[0],
        "prefix": sys.base_prefix,
        "standard": [os.path.dirname(os.path.realpath(os.__file__))],
        "include": sysconfig.get_path("include"),
        "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    }
    # A virtual environment runs the interpreter of its base.
    base = getattr(sys, "_base_executable", None) or sys.executable
    found["executable"] = os.path.realpath(base)
    paths = [os.path.realpath(p) for p in sys.path if p and os.path.isdir(p)]
    site = {p for p in paths if p not in found["standard"] and not p.endswith("lib-dynload")}
    found["site"] = sorted(site)
    try:
        import torch
        import torch.nn.functional
    except Exception as error:
        print(json.dumps({**found, "missing": f"{type(error).__name__}: {error}"}))
        return
    import bz2, ctypes, decimal, lzma, zlib  # noqa: E401, F401 - maps the libraries that later imports need

    root = os.path.dirname(os.path.dirname(os.path.realpath(torch.__file__)))
    own = tuple(p + os.sep for p in found["standard"] + [root])
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = {line.split(None, 5)[5].strip() for line in file if line.count("/") and len(line.split(None, 5)) == 6}
    libraries = sorted(p for p in mapped if ".so" in os.path.basename(p) and os.path.isfile(p) and not p.startswith(own))
    torch_root = os.path.dirname(os.path.realpath(torch.__file__))
    print(
        json.dumps(
            {
                **found,
                "torch": torch.__version__,
                "triton": version("triton"),
                "numpy": version("numpy"),
                "site": sorted(site | {root}),
                "libraries": libraries,
                "torch_include": os.path.join(torch_root, "include"),
                "torch_lib": os.path.join(torch_root, "lib"),
                "abi": int(torch._C._GLIBCXX_USE_CXX11_ABI),
                "capability": torch.backends.cpu.get_cpu_capability(),
            }
        )
    )


main()
