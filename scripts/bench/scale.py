#!/usr/bin/env python3
"""Computes the load of a cluster of many nodes on its broker and its store from the measured costs of one job.

    scripts/bench/scale.py [--nodes 10 100 1000 10000] [--name VALUE ...] [--json]

Each unit cost is an option; docs/explanation/scale.md has the defaults and their measurements. The table marks each resource whose load exceeds
its capacity: it limits the cluster first.
"""
import argparse
import json

COSTS = {
    # name: (default, unit, meaning)
    "programs_per_node": (9.0, "1/s", "fresh programs a two-core node compiles, verifies and times"),
    "duplicates": (2.5, "1/program", "samples that equal an earlier program, for each fresh one"),
    "broker_jobs": (12300.0, "1/s", "jobs that a two-core machine with broker and no-op workers passes on, syncing every second"),
    "broker_jobs_synced": (870.0, "1/s", "the same if the broker syncs every message before it confirms it"),
    "store_requests": (2.0, "1/program", "store requests of a program: one put and one get"),
    "object_bytes": (16500.0, "B", "a compiled program"),
    "messages": (2.0, "1/program", "messages of a fresh program beyond those of every sample"),
    "sample_messages": (3.0, "1/sample", "messages of a sample: candidate, rollout, outcome"),
    "remembered_bytes": (100.0, "B", "the broker's memory for the name of a message, by which it refuses a duplicate"),
    "remembered_seconds": (7200.0, "s", "time for which it remembers a name (`cluster init --remember`)"),
    "trainer_samples": (49.0, "1/s", "samples that one trainer writes and trains on"),
    "store_rate": (600.0, "1/s", "requests of 16 kB that one S3 server answers"),
}


def rows(cost, nodes):
    for count in nodes:
        fresh = count * cost["programs_per_node"]
        samples = fresh * (1 + cost["duplicates"])
        # A duplicate passes the first hop only, and its outcome is published like any other.
        hops = fresh + samples * 0.4
        store = fresh * cost["store_requests"]
        names = fresh * cost["messages"] + samples * cost["sample_messages"]
        yield {
            "nodes": count,
            "names_gb": names * cost["remembered_seconds"] * cost["remembered_bytes"] / 1e9,
            "trainer": samples / cost["trainer_samples"],
            "programs": fresh,
            "broker": hops / cost["broker_jobs"],
            "broker_synced": hops / cost["broker_jobs_synced"],
            "store": store / cost["store_rate"],
            "store_mb": store * cost["object_bytes"] / 1e6,
        }


def share(value):
    text = f"{value:.2g}" if value < 10 else f"{value:.0f}"
    return f"**{text}**" if value > 1 else text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000, 10000])
    parser.add_argument("--json", action="store_true")
    for name, (default, unit, what) in COSTS.items():
        parser.add_argument("--" + name.replace("_", "-"), type=float, default=default, metavar=unit, help=f"{what} (default {default:g})")
    given = vars(parser.parse_args())
    table = list(rows({name: given[name] for name in COSTS}, given["nodes"]))
    if given["json"]:
        print(json.dumps(table))
        return
    print("| nodes | fresh programs/s | trainers | broker | broker, each message synced | broker's memory for names, GB | store | store, MB/s |")
    print("|---|---|---|---|---|---|---|---|")
    for row in table:
        print(
            f"| {row['nodes']:,} | {row['programs']:,.0f} | {share(row['trainer'])} | {share(row['broker'])} | {share(row['broker_synced'])} | {row['names_gb']:.2g} | "
            f"{share(row['store'])} | {row['store_mb']:.3g} |"
        )


if __name__ == "__main__":
    main()
