#!/usr/bin/env python3
"""Measures the cost of traces: programs a second of searches of the same programs, in turns with and without sent traces.

    cargo build --release --locked -p flopsmith-telemetry --example span_cost
    scripts/bench/telemetry.py [--pairs 6] [--evaluations 128] [--json FILE]

The collector is a server of this script that reads spans and drops them. The order alternates from pair to pair. Programs a second are
those of the search's loop, from its first outcome to its last. Processor time is that of the whole machine (/proc/stat), with compilers,
programs and the collector, so run nothing else. With a program that was built with the feature `flopsmith/steady` (see `make faults`), both
searches of a pair try the same programs, so the difference shows in fewer pairs.

The scatter of searches is larger than the cost of traces. So the script also measures the cost of a span, made and sent as by the roles
(example `span_cost`), and multiplies it by the spans of a program: the result is the share of the machine's time that traces take."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sigterm import ends_what_it_started

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Collector(BaseHTTPRequestHandler):
    received = 0

    def do_POST(self):
        size = int(self.headers["content-length"])
        self.rfile.read(size)
        Collector.received += size
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def processor_seconds():
    """Processor time of all processes so far."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _waiting, interrupts, soft = fields[:7]
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


# A group has the spans task and generate, and a program at most compile, verify, time and archive.
SPANS_PER_PROGRAM = 6


def span_cost(arguments, endpoint):
    """Microseconds of processor time of a span, sent and not sent: medians of some turns."""
    costs = {True: [], False: []}
    for _ in range(5):
        for where in (endpoint, None):
            before = Collector.received
            done = subprocess.run([arguments.span_cost, *([where] if where else []), "--spans", "50000"], text=True, capture_output=True)
            if done.returncode != 0 or "dropped" in done.stderr.lower():
                sys.exit(f"{arguments.span_cost} ended with {done.returncode}:\n{done.stderr[-2000:]}")
            found = json.loads(done.stdout)
            # A span has some hundred bytes; fewer bytes mean that some were not sent.
            if where and Collector.received - before < 100 * found["spans"]:
                sys.exit(f"of {found['spans']} spans only {Collector.received - before} bytes arrived")
            costs[found["sent"]].append(found["microseconds_per_span"])
    return {sent: statistics.median(found) for sent, found in costs.items()}


def search(arguments, seed, endpoint):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "FLOPSMITH_"))} | {"FLOPSMITH_WAIT": "0"}
    if endpoint:
        environment["FLOPSMITH_OTLP_ENDPOINT"] = endpoint
    with tempfile.TemporaryDirectory() as folder:
        before = processor_seconds()
        child = subprocess.Popen(
            [arguments.flopsmith, "search", "--cold", "--problem", "dgemm", "--workload", "n=256", "--evaluations", str(arguments.evaluations), "--budget", "30m", "--seed", str(seed),
             "--set", "evaluate.finalists=1", "--set", "evaluate.quarantine=false", "--format", "json", "--runs", folder],
            cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        try:
            words = list(child.stderr)
        except BaseException:
            child.kill()
            raise
        finally:
            child.wait()
        used = processor_seconds() - before
        if child.returncode != 0:
            sys.exit(f"the search ended with {child.returncode}:\n{b''.join(words[-20:]).decode()}")
        outcomes = [json.loads(line) for file in pathlib.Path(folder).glob("*/outcomes.jsonl") for line in file.read_text().splitlines()]
        times = sorted(o["decided_unix_ms"] for o in outcomes if not o["candidate"].get("finalist"))
        return {"per_second": (len(times) - 1) / ((times[-1] - times[0]) / 1000), "processor_ms_per_program": 1000 * used / len(times)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=6, help="pairs of searches; 0 measures spans only")
    parser.add_argument("--evaluations", type=int, default=128)
    parser.add_argument("--flopsmith", default=str(ROOT / "target/release/flopsmith"))
    parser.add_argument("--span-cost", default=str(ROOT / "target/release/examples/span_cost"))
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    costs = span_cost(arguments, endpoint)
    print(f"a span takes {costs[True]:.2f} us of processor time when it is sent, {costs[False]:.2f} us when not", flush=True)
    if not arguments.pairs:
        return
    pairs = []
    for number in range(arguments.pairs):
        order = (endpoint, None) if number % 2 else (None, endpoint)
        found = {bool(where): search(arguments, 1 + number, where) for where in order}
        pairs.append({"on": found[True], "off": found[False]})
        print(f"pair {number + 1}: {found[True]['per_second']:.3f} programs a second with traces, {found[False]['per_second']:.3f} without; "
              f"{found[True]['processor_ms_per_program']:.1f} and {found[False]['processor_ms_per_program']:.1f} ms of processor time for each", flush=True)
    ratios = sorted(p["on"]["per_second"] / p["off"]["per_second"] for p in pairs)
    extra = sorted(p["on"]["processor_ms_per_program"] / p["off"]["processor_ms_per_program"] for p in pairs)
    program = statistics.median(p["off"]["processor_ms_per_program"] for p in pairs)
    result = {
        "span_us_sent": costs[True], "span_us_unsent": costs[False],
        "spans_share_of_processor_time": round(SPANS_PER_PROGRAM * (costs[True] - costs[False]) / 1000 / program, 6),
        "throughput_on_over_off_median": round(statistics.median(ratios), 4), "least": round(ratios[0], 4), "most": round(ratios[-1], 4),
        "processor_time_on_over_off_median": round(statistics.median(extra), 4), "processor_time_least": round(extra[0], 4),
        "processor_time_most": round(extra[-1], 4), "bytes_sent": Collector.received, "pairs": pairs,
    }
    print(json.dumps({k: v for k, v in result.items() if k != "pairs"}, indent=2))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")
    if Collector.received == 0:
        sys.exit("no trace arrived, so the comparison is void")


if __name__ == "__main__":
    ends_what_it_started()
    main()
