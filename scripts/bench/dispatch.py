#!/usr/bin/env python3
"""Compares dispatch with other systems: jobs a second through three stages that do nothing, in turns with commands that measure the others.
Then it measures the time of a hand-over at half the jobs a second that Flopsmith reached.

    cargo build --release --locked -p flopsmith-bus --example three_hops
    scripts/bench/dispatch.py [--pairs 5] [--workers 1] [--peer NAME=COMMAND]... [--json FILE]

A peer is a command whose standard output ends with words of the form `13800 jobs/s`; it starts its servers itself or finds them running.
The order of the sides alternates from round to round, and the script compares only numbers of one round, since a machine is faster at
one time than at another."""

import argparse
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

from sigterm import ends_what_it_started

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS_A_SECOND = re.compile(r"([0-9][0-9_,.]*)\s*jobs/s")


def said(command):
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def rate_in(text):
    """The last `N jobs/s` of a text; None where there is none."""
    found = JOBS_A_SECOND.findall(text)
    return float(found[-1].replace(",", "").replace("_", "")) if found else None


def of_peer(name, command):
    text = said(command)
    rate = rate_in(text)
    if rate is None:
        sys.exit(f"{name} printed no `N jobs/s`:\n{text[-2000:]}")
    return rate


def ours(arguments, *more):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        slots = ["--slots", str(arguments.slots)] if arguments.slots else []
        said([arguments.three_hops, "--jobs", str(arguments.jobs), "--workers", str(arguments.workers), *slots, "--json", file.name, *more])
        return json.loads(pathlib.Path(file.name).read_text())


def named(text):
    name, mark, command = text.partition("=")
    if not mark or not name or not shlex.split(command):
        raise argparse.ArgumentTypeError(f"`{text}` is not NAME=COMMAND")
    return name, shlex.split(command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="rounds")
    parser.add_argument("--jobs", type=int, default=20000)
    parser.add_argument("--workers", type=int, default=1, help="connections, each a worker of every stage")
    parser.add_argument("--slots", type=int, help="jobs that a worker holds at each stage")
    parser.add_argument("--peer", type=named, action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--three-hops", default=str(ROOT / "target/release/examples/three_hops"))
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    rounds = []
    for number in range(arguments.pairs):
        turns = [("flopsmith", None), *arguments.peer]
        found = {}
        for name, command in turns if number % 2 == 0 else reversed(turns):
            found[name] = of_peer(name, command) if command else ours(arguments)["jobs_per_second"]
        rounds.append(found)
        print(f"round {number + 1}: " + ", ".join(f"{name} {found[name]:,.0f} jobs/s" for name, _ in turns), flush=True)
    medians = {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}
    ratios = {name: statistics.median(found["flopsmith"] / found[name] for found in rounds) for name, _ in arguments.peer}
    half = medians["flopsmith"] / 2
    handing_over = ours(arguments, "--rate", str(round(half)))
    for name, rate in medians.items():
        beside = f", flopsmith does {ratios[name]:.2f} times as many" if name in ratios else ""
        print(f"{name}: median {rate:,.0f} jobs/s{beside}")
    print(f"hand-over at {half:,.0f} jobs/s: median {handing_over['median_ms']:.2f} ms, 99 % {handing_over['p99_ms']:.2f} ms")
    if arguments.json:
        result = {"medians": medians, "times_as_many": ratios, "hand_over_at_half": handing_over, "rounds": rounds}
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    ends_what_it_started()
    main()
