#!/usr/bin/env python3
"""Measures the time of a benchmark node from its start to its first program: the script fills a broker's queues with work and starts workers
one after another, each until it holds a program.

    make build
    scripts/bench/start.py [--times 10]

All processes run on this machine's loopback. A node checks its jail, its tools, the store and the broker before it asks for work."""

import argparse
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from local_cluster import Cluster, Failed, Processes, answers, say, until  # noqa: E402

HELD = re.compile(r"^flopsmith_held(?:\{[^}]*\})? (\d+)", re.M)
WAITING = re.compile(r'^flopsmith_queue_waiting\{[^}]*compile[^}]*\} (\d+)', re.M)


def seconds(cluster, number):
    name = f"bench-{number}"
    began = time.monotonic()
    cluster.processes.start(name, [cluster.flopsmith, "worker", "--nats", cluster.url, "--store", cluster.store, "--node", name,
                                   "--roles", "compiler,verifier,timer", "--listen", "127.0.0.1:0"])
    found = {}

    def has_a_program():
        if "at" not in found:
            line = re.search(r"answers at (http://\S+)", cluster.processes.log(name))
            if not line:
                cluster.processes.alive(name)
                return False
            found["at"] = line[1]
        held = HELD.search(answers(f"{found['at']}/metrics") or "")
        return held and int(held[1]) > 0

    until(f"{name} holds a program", 30, has_a_program)
    took = time.monotonic() - began
    cluster.processes.stop(name, 60)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="number of nodes to start (default: %(default)s)")
    parser.add_argument("--flopsmith", help="the program under test (default: target/release/flopsmith)")
    given = parser.parse_args()
    processes = Processes()
    try:
        cluster = Cluster(processes, given.flopsmith)
        cluster.start()
        # The cluster's own worker has shown that everything works; it ends, so that the search's programs wait.
        processes.stop("bench", 60)
        processes.start("search", [cluster.flopsmith, "search", "--problem", "dgemm", "--workload", "n=256", "--evaluations", 4096, "--budget", "30m", "--cluster", "--set", "tasks=64",
                                   "--set", "evaluate.quarantine=false", "--nats", cluster.url, "--store", cluster.store, "--runs", cluster.runs])

        def waiting():
            found = WAITING.search(answers(f"http://{cluster.nodes['keeper']}/metrics") or "")
            return found and int(found[1]) >= 8 * given.times

        until("programs wait for a compiler", 120, waiting)
        took = []
        for number in range(given.times):
            took.append(seconds(cluster, number))
            say(f"{took[-1]:.2f} s from the start of a node to its first program")
        print(f"median {statistics.median(took):.2f} s, most {max(took):.2f} s, of {len(took)}")
    except Failed as why:
        print(f"error: {why}", file=sys.stderr)
        return 1
    finally:
        processes.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
