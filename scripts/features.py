#!/usr/bin/env python3
"""Checks that cargo builds the same libraries for the program and for its tests, and that the build without libtorch leaves it out.

If a dependency of tests enables more features of a library than the program does, cargo builds this library, and all that depend on it, twice.
If one crate enables the feature `torch`, all crates have it. `make lint` runs this."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tree(edges, *more):
    """The crates that cargo builds for the workspace, a line each: crate|features."""
    command = ["cargo", "tree", "--workspace", "--locked", "--edges", edges, "--prefix", "none", "--format", "{p}|{f}", *more]
    listed = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if listed.returncode != 0:
        sys.exit(f"cargo tree failed:\n{listed.stderr}")
    # cargo marks what it has printed before.
    return {line.removesuffix(" (*)") for line in listed.stdout.splitlines()}


def features(edges):
    """The features that cargo chooses for each library, over all crates of the workspace."""
    found = {}
    for line in tree(edges):
        name, _, wanted = line.partition("|")
        # cargo may build a library twice, for build scripts and for the program.
        if name and "(/" not in name:
            found.setdefault(name.removesuffix(" (proc-macro)"), set()).add(frozenset(wanted.split(",")) - {""})
    return found


def main():
    program, tests = features("normal,build"), features("normal,build,dev")
    wrong = []
    for name in sorted(program.keys() & tests.keys()):
        for more in tests[name] - program[name]:
            nearest = min(program[name], key=lambda known: len(known ^ more))
            wrong.append(f"{name}: {', '.join(sorted(more - nearest)) or 'fewer features'}")
    if wrong:
        sys.exit("tests enable features that the program does not enable, so cargo builds these libraries twice:\n  " + "\n  ".join(wrong)
                 + "\nadd the features to crates/test-support/Cargo.toml")
    with_torch = sorted(line.split(" ")[0] for line in tree("normal", "--no-default-features") if "torch" in line.partition("|")[2].split(","))
    if with_torch:
        sys.exit(f"the build of the workspace without default features has libtorch in {', '.join(with_torch)}\n"
                 "a crate enables the feature `torch` of a dependency; it may only forward its own feature `torch`")


main()
