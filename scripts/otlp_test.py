#!/usr/bin/env python3
"""Tests the traces with a third-party collector: a short search and a training on nodes in their own processes send spans by OTLP to rotel,
which prints them. Every outcome has to end a trace that begins with its task and spans the processes that handled it, without a missing
parent, and every gradient step has to be linked to its samples.

Needs rotel (PyPI: rotel), flopsmith with its harness, and nats-server."""

import argparse
import importlib.util
import pathlib
import re
import sys
from collections import Counter

from local_cluster import Cluster, Failed, Processes, free_port, program, run, say, until

# From the task to the archive that receives the outcome. Equal programs are evaluated once: duplicates go from compile to archive.
WHOLE = ["task", "generate", "compile", "verify", "time", "archive"]
LIMIT = 30


def agent():
    """The path of the program in the Python package."""
    found = importlib.util.find_spec("rotel")
    return str(pathlib.Path(found.origin).parent / "rotel-agent") if found else None


class Collector:
    def __init__(self, processes, binary):
        self.processes = processes
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        processes.start(
            "rotel", [binary, "start", "--debug-log", "traces", "--debug-log-verbosity", "detailed", "--exporter", "blackhole",
                      "--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}",
                      "--pid-file", processes.folder / "rotel.pid", "--log-file", processes.folder / "rotel.own.log"],
        )

        def begun():
            processes.alive("rotel")
            return "Starting Rotel" in processes.log("rotel")

        until("rotel has begun", LIMIT, begun)

    def spans(self):
        """All printed spans, by trace and span."""
        found, resource, span = {}, {}, None
        for line in self.processes.log("rotel").splitlines():
            link = re.match(r"     -> (Trace ID|ID): ([0-9a-f]+)$", line)
            field = re.match(r"    (Trace ID|Parent ID|ID|Name) +: ?(.*)$", line)
            attribute = re.match(r" +-> ([^:]+): \w+\((.*)\)$", line)
            if line.startswith("ResourceSpans #"):
                resource, span = {}, None
            elif line.startswith("Span #"):
                span = {"process": resource.get("service.instance.id", "?"), "service": resource.get("service.name"), "attributes": {}, "links": []}
                linked = None
            elif link and span is not None:
                if link[1] == "Trace ID":
                    linked = link[2]
                else:
                    span["links"].append((linked, link[2]))
            elif field and span is not None:
                span[field[1]] = field[2].strip()
                if field[1] == "ID":
                    found[span["Trace ID"], span["ID"]] = span
            elif attribute:
                (resource if span is None else span["attributes"])[attribute[1].strip()] = attribute[2]
        return found


def lineage(spans, span):
    """The spans from the root of a span's trace down to the span."""
    path = [span]
    while path[0]["Parent ID"]:
        parent = spans.get((span["Trace ID"], path[0]["Parent ID"]))
        if parent is None:
            raise Failed(f"the parent {path[0]['Parent ID']} of {path[0]['Name']} is missing")
        path.insert(0, parent)
    return path


def check(spans, outcomes):
    for span in spans.values():
        lineage(spans, span)
    say(f"{len(spans)} spans in {len({trace for trace, _ in spans})} traces, every parent among them")
    say("by name: " + ", ".join(f"{name} {count}" for name, count in sorted(Counter(s["Name"] for s in spans.values()).items())))
    say("by process: " + ", ".join(f"{name} {count}" for name, count in sorted(Counter(s["process"] for s in spans.values()).items())))
    if {span["service"] for span in spans.values()} != {"flopsmith"}:
        raise Failed("a span belongs to another service than flopsmith")
    noted = {span["attributes"].get("candidate"): span for span in spans.values() if span["Name"] == "archive"}
    whole = 0
    for outcome in outcomes:
        candidate = outcome["candidate"]["id"]
        if candidate not in noted:
            raise Failed(f"the outcome of {candidate} has no archive span")
        path = lineage(spans, noted[candidate])
        names = [span["Name"] for span in path]
        processes = {span["process"] for span in path}
        if names[:3] != WHOLE[:3] or names[-1] != WHOLE[-1] or len(processes) < 2:
            raise Failed(f"{candidate}: {' > '.join(names)} in {sorted(processes)}")
        if names == WHOLE:
            whole += 1
            example = " > ".join(f"{span['Name']} ({span['process']})" for span in path)
    if not whole:
        raise Failed(f"no trace has the stages {' > '.join(WHOLE)}")
    say(f"{len(outcomes)} outcomes, each at the end of a trace from its task over at least two processes; {whole} of them with all stages")
    say(f"for example {example}")


def check_gradient_steps(spans, steps):
    """Checks that each gradient step is linked to as many samples as it reports, and that their traces begin with a task."""
    learned = [span for span in spans.values() if span["Name"] == "train"]
    if len(learned) != steps:
        raise Failed(f"{len(learned)} of {steps} gradient steps have a span")
    for span in learned:
        missing = [link for link in span["links"] if link not in spans]
        if missing:
            raise Failed(f"step {span['attributes'].get('step')} is linked to {len(missing)} missing spans")
        begun = {lineage(spans, spans[link])[0]["Name"] for link in span["links"]}
        samples = int(span["attributes"]["samples"])
        if len(set(span["links"])) < max(samples, 1) or begun != {"task"}:
            raise Failed(f"step {span['attributes'].get('step')}: {samples} samples, {len(span['links'])} links, to traces from {sorted(begun)}")
    links = sum(len(span["links"]) for span in learned)
    say(f"{steps} gradient steps, linked to {links} samples, each in the trace of its task")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flopsmith", help="the program (default: target/release/flopsmith, or the one on the PATH)")
    parser.add_argument("--nats-server", help="the broker (default: the set-up's, or the one on the PATH)")
    parser.add_argument("--rotel", help="rotel's agent (default: the Python package's)")
    parser.add_argument("--evaluations", type=int, default=16, help="number of programs of the search")
    parser.add_argument("--steps", type=int, default=2, help="number of gradient steps of the training")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs and rotel's output")
    given = parser.parse_args()
    processes = Processes()
    code = 0
    try:
        binary = program(given.rotel or agent(), "rotel-agent")
        said = run([binary, "version"])
        if said.returncode != 0:
            raise Failed(f"rotel does not start on this machine: {said.stderr.strip()}")
        collector = Collector(processes, binary)
        cluster = Cluster(processes, given.flopsmith, given.nats_server, otlp=collector.endpoint)
        cluster.start()
        summary = cluster.search(given.evaluations)
        say(f"{summary['run']}: {summary['seconds']:.0f} s")
        trained = cluster.train(given.steps)
        say(f"{trained['run']}: {trained['seconds']:.0f} s")
        # Nodes send their last spans before they end, and the collector prints its last ones.
        for name in [*cluster.nodes, "rotel"]:
            ended = processes.stop(name)
            if ended != 0:
                raise Failed(f"{name} ended with {ended}:\n{processes.log(name)[-2000:]}")
        # Second measurements of a program have no task of their own.
        outcomes = [one for one in cluster.outcomes() if not re.search(r"-m\d+$", one["candidate"]["id"])]
        spans = collector.spans()
        check(spans, [one for one in outcomes if one["candidate"]["purpose"] != "certify"])
        check_gradient_steps(spans, given.steps)
        print("PASS  a third-party collector has traces from task to outcome and to the gradient, over processes")
    except Failed as why:
        print(f"FAIL  {why}")
        code = 1
    finally:
        processes.end(given.keep)
        if given.keep:
            say(f"kept: {processes.folder}")
    sys.exit(code)


if __name__ == "__main__":
    main()
