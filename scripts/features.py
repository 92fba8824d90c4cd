#!/usr/bin/env python3
"""Does cargo build the same libraries for the program and for its tests? What tests alone use may ask for more features of a library than the
program does; cargo then builds it, and all that stands on it, once for each. And does the build of the workspace without libtorch leave it out?
One crate that turns the feature `torch` on does so for all. `make lint` runs this."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tree(edges, *more):
    """What cargo builds for all crates of the workspace, a line each: crate|features."""
    command = ["cargo", "tree", "--workspace", "--locked", "--edges", edges, "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}", *more]
    listed = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if listed.returncode != 0:
        sys.exit(f"cargo tree failed:\n{listed.stderr}")
    return set(listed.stdout.splitlines())


def features(edges):
    """The features of each library, as cargo chooses them for all crates of the workspace."""
    found = {}
    for line in tree(edges):
        name, _, wanted = line.partition("|")
        # A library may be built twice, for build scripts and for the program.
        if name and "(/" not in name:
            found.setdefault(name.removesuffix(" (*)").removesuffix(" (proc-macro)"), set()).add(frozenset(wanted.replace(" (*)", "").split(",")) - {""})
    return found


def main():
    program, tests = features("normal,build"), features("normal,build,dev")
    wrong = []
    for name in sorted(program.keys() & tests.keys()):
        for more in tests[name] - program[name]:
            nearest = min(program[name], key=lambda known: len(known ^ more))
            wrong.append(f"{name}: {', '.join(sorted(more - nearest)) or 'fewer features'}")
    if wrong:
        sys.exit("tests ask for features that the program does not, so these libraries are built twice:\n  " + "\n  ".join(wrong)
                 + "\nadd the features to crates/test-support/Cargo.toml")
    with_torch = sorted(line.split(" ")[0] for line in tree("normal", "--no-default-features") if "torch" in line.partition("|")[2].split(","))
    if with_torch:
        sys.exit(f"the build of the workspace without default features has libtorch in {', '.join(with_torch)}\n"
                 "a crate asks for the feature `torch` that may only pass on its own")


main()
