"""Extracts the native parts of wheels (which are zip archives); it neither keeps nor runs their Python code.

    unpack_wheels.py cpu  DEST WHEEL...   the five libraries that a machine without a GPU needs, and the headers
    unpack_wheels.py cuda DEST WHEEL...   all libraries and headers, in the layout in which the libraries find each other
    unpack_wheels.py file DEST WHEEL      the one member with the name of DEST

DEST must not exist yet.
"""

import shutil
import sys
import zipfile
from pathlib import Path

# libtorch_cpu.so is linked to the CUDA runtime and to CUPTI even when no GPU is ever used.
CPU_LIBRARIES = {
    "libtorch_cpu.so",
    "libc10.so",
    "libgomp.so.1",
    "libcudart.so.13",
    "libcupti.so.13",
}


def target_cpu(member):
    """The path of a member below DEST in the small layout, or None if the layout leaves it out."""
    if member.startswith("torch/include/"):
        return member[len("torch/") :]
    name = member.rsplit("/", 1)[-1]
    return f"lib/{name}" if name in CPU_LIBRARIES and "/lib/" in member else None


def target_cuda(member):
    """The same for the full layout: libtorch looks for its libraries in ../../nvidia beside its own folder."""
    for kept in ("torch/include/", "torch/lib/", "nvidia/"):
        if member.startswith(kept) and not member.endswith(".py"):
            return member
    return None


def unpack(wheels, dest, target):
    """Copies the members of all wheels for which `target` returns a path; returns these paths."""
    placed = set()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                place = None if info.is_dir() else target(info.filename)
                if place is None:
                    continue
                path = dest / place
                if dest.resolve() not in path.resolve().parents:
                    sys.exit(f"{wheel}: member {info.filename} points outside the archive")
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as source, open(path, "wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                placed.add(place)
    return placed


def main():
    mode, dest, wheels = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if mode == "file":
        place = dest.name
        placed = unpack(
            wheels, dest.parent, lambda m: place if m.rsplit("/", 1)[-1] == place else None
        )
        missing = {place} - placed
    elif mode == "cpu":
        placed = unpack(wheels, dest, target_cpu)
        missing = {f"lib/{name}" for name in CPU_LIBRARIES} - placed
    else:
        placed = unpack(wheels, dest, target_cuda)
        missing = {"torch/lib/libtorch.so", "torch/lib/libtorch_cuda.so"} - placed
    if missing:
        sys.exit(f"not in the wheels: {', '.join(sorted(missing))}")


main()
