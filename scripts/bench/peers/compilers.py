"""Compilers: the plain reference, built by each."""

import os
import re
import shutil
from pathlib import Path

from .tools import Missing, run

FLAGS = "-O3 -march=native"


def version_line(compiler):
    return run([compiler, "--version"]).splitlines()[0].strip()


def newest_clang(names=None):
    """The clang of the highest version on the PATH; the one without a version counts by what it says."""
    if names is None:
        folders = [Path(folder) for folder in os.environ.get("PATH", "").split(":")]
        names = {file.name for folder in folders if folder.is_dir() for file in folder.glob("clang*")}
    numbered = [(int(found[1]), name) for name in names if (found := re.fullmatch(r"clang-(\d+)", name))]
    if numbered:
        return max(numbered)[1]
    if "clang" in names:
        return "clang"
    raise Missing("clang is not installed (Debian: apt install clang-22)")


def copied(case, folder, name, file="reference.c"):
    target = folder / f"{name}.c"
    shutil.copyfile(case.folder / file, target)
    return target


def gcc(case, folder, options):
    return {"state": "source", "file": str(copied(case, folder, "gcc")), "version": version_line("gcc")}


def baseline(case, folder, options):
    if not (case.folder / "baseline.c").is_file():
        raise Missing("the problem has no hand-written baseline.c")
    return {"state": "source", "file": str(copied(case, folder, "baseline", "baseline.c")), "version": "hand-written"}


def clang(case, folder, options):
    name = newest_clang()
    return {"state": "source", "file": str(copied(case, folder, "clang")), "compiler": shutil.which(name), "flags": FLAGS,
            "version": version_line(name)}


def polly(case, folder, options):
    name = newest_clang()
    driver = wrapped(name, Path(options.work).resolve() / "polly")
    return {"state": "source", "file": str(copied(case, folder, "polly")), "compiler": str(driver), "flags": FLAGS,
            "version": f"{version_line(name)}, {' '.join(POLLY)}"}


# `bench` takes no flags that load code or name passes, so the compiler is a script that adds them.
POLLY = ("-mllvm", "-polly", "-mllvm", "-polly-vectorizer=stripmine")


def wrapped(clang, place):
    """A compiler with Polly, after a try. Older versions of clang load Polly from a plug-in and do not know its options."""
    probe = place / "probe.c"
    place.mkdir(parents=True, exist_ok=True)
    probe.write_text("void probe(int n, double *a) { for (int i = 0; i < n; i++) a[i] *= 2; }\n")
    try:
        run([clang, *FLAGS.split(), *POLLY, "-c", "-o", place / "probe.o", probe])
    except Missing as why:
        raise Missing(f"{clang} has no Polly ({why}); Debian's clang-22 has it") from None
    driver = place / "bin/clang"
    driver.parent.mkdir(exist_ok=True)
    # Questions such as --version have no passes, and clang would warn of unused arguments.
    driver.write_text(f"#!/bin/sh\nexec {shutil.which(clang)} -Wno-unused-command-line-argument {' '.join(POLLY)} \"$@\"\n")
    driver.chmod(0o755)
    return driver
