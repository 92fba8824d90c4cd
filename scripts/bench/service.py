#!/usr/bin/env python3
"""Compares the reward of 64 programs by `flopsmith serve` with `flopsmith bench` and with a plain script, in turns.

    make build
    python3 scripts/bench/service.py [--programs 64] [--clients 8] [--rounds 3] [--purpose rank] [--connections 1000] [--output FILE.json]

The programs are matrix multiplications in plain C (those of ranking.py), timed at n = 256. Each round draws fresh ones: a random number in each is part of
its code, and each service has an empty folder, so nothing is known from before. A round has three sides in turns:

- service: one request with all programs; as many single requests by --clients at once; --alone single requests, one after the other.
- bench: `flopsmith bench` on a folder with the programs of the first request, for the same --purpose.
- plain: compiles each of these programs with gcc -O3 -march=native and a main function that times it, and reads its fastest call. Neither a jail nor a check.

Service and bench measure the machine and the reference beside a program of their own before the others; `start` has this time, and ratios leave it out unless
they say otherwise. Neither of them waits for a quiet machine (--wait), so run nothing else. `bench` ends a screening early if a program is clearly slower
than one before it; the service does not.

The overhead of a request is its time for the client, less the time that the service counts for its evaluation (/metrics). It is taken of the requests
one after the other, because others wait in the queue. With --connections the first request is repeated, with other numbers, while so many idle connections are
open. The service closes a connection that is idle for 30 s; the script opens it again.

Prints one JSON object, and a row for the table of docs/results/README.md.
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import queue
import random
import resource
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from against_torch import ROOT, cpu_model  # noqa: E402
from learning import revision  # noqa: E402
from ranking import programs as drawn  # noqa: E402

SIDES = ("service", "bench", "plain")
PROBLEM, SIZE = "dgemm", 256
WORKLOAD = f"n={SIZE}"
# Sorts before the names of all other programs.
FIRST = "0_first"
# Most times the time of `bench`, and most milliseconds that a request may add.
ASKED_RATIO, ASKED_MS = 1.1, 2.0
# Seconds for one answer, for the end of a service, and for one plain program.
ANSWER, STOP, PLAIN = 3600, 120, 120
# The service answers 2048 connections at once; some are left for requests.
MOST_CONNECTIONS = 2000
# Files that the service and this script have open beside the connections.
OTHER_FILES = 500
# Seconds over which the idle connections are opened, so that the service does not close all of them in one moment.
SPREAD = 20.0
# Variables that change neither what is measured nor where the service keeps it.
KEPT = ("FLOPSMITH_ALLOW_WEAKER_JAIL", "FLOPSMITH_PROBLEMS")

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void dgemm(int n, const double *A, const double *B, double *C);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(void)
{
    size_t count = (size_t)SIZE * SIZE;
    double *A = aligned_alloc(64, count * sizeof *A), *B = aligned_alloc(64, count * sizeof *B), *C = aligned_alloc(64, count * sizeof *C);
    if (!A || !B || !C) return 1;
    for (size_t i = 0; i < count; i++) { A[i] = (double)(i % 7) - 3; B[i] = (double)(i % 5) - 2; }
    double least = 1e9, begun = now(), ended;
    do {
        double call = now();
        dgemm(SIZE, A, B, C);
        ended = now();
        if (ended - call < least) least = ended - call;
    } while (ended - begun < SECONDS);
    printf("%.9f %g\n", least, C[count - 1]);
    return 0;
}
"""


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def numbered(source, number):
    """The program with a condition of its own, which holds for no size: so no result of another one fits it."""
    head, brace, body = source.partition("{\n")
    if not brace:
        raise ValueError("the program has no line that ends with an opening brace")
    return f"{head}{brace}    if (n == -{number}) return;\n{body}"


def lots(count, alone, crowd, seed, number):
    """The programs of a round as pairs of name and source. `bench` and `plain` get the lot `batch`."""
    draw = random.Random(f"{seed} {number}")
    kinds = drawn(count, seed)
    sizes = {"first": 1, "batch": count, "clients": count, "alone": alone} | ({"crowd": count} if crowd else {})
    numbers = iter(draw.sample(range(1, 2**31), sum(sizes.values())))
    chosen = {name: [kinds[i % count] for i in range(size)] for name, size in sizes.items()}
    found = {name: [(f"{kind}_{i}", numbered(source, next(numbers))) for i, (kind, source) in enumerate(lot)] for name, lot in chosen.items()}
    found["first"] = [(FIRST, found["first"][0][1])]
    return found


def environment():
    """This process' variables without those that would change the options of Flopsmith."""
    return {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith("FLOPSMITH_")}


def metric(text, name):
    """The sum of a metric over its labels, in Prometheus' text format; 0 if it is not there, as a counter before its first event."""
    total = 0.0
    for line in text.splitlines():
        words, _, value = line.rpartition(" ")
        if words.split("{", 1)[0] == name:
            total += float(value)
    return total


def evaluated_seconds(text):
    return metric(text, "flopsmith_serve_evaluation_seconds_total")


def exchange(address, method, path, body=None):
    """The body of the answer to one request on a connection of its own. Raises ValueError with the service's words if it refuses."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", "Accept": "application/json"} if body else {})
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
        if response.status != 200:
            raise ValueError(f"{method} {path} was answered by {response.status}: {text[:500]}")
        return text
    finally:
        connection.close()


def scrape(address):
    return exchange(address, "GET", "/metrics")


def asked(lot, purpose):
    """The body of the request for these programs."""
    of = {"problem": PROBLEM, "workloads": [WORKLOAD]}
    return json.dumps({"purpose": purpose, "candidates": [of | {"id": name, "source": source} for name, source in lot]})


def checked(answers, lot):
    """The answers of a request. Raises ValueError if they are not those of fresh evaluations of these programs."""
    if not isinstance(answers, list) or [answer.get("id") for answer in answers] != [name for name, _ in lot]:
        raise ValueError(f"the service did not answer all of {len(lot)} programs: {json.dumps(answers)[:500]}")
    known = sum(answer["cached"] for answer in answers)
    if known:
        raise ValueError(f"the service knew {known} of {len(lot)} programs from before, so their times are void")
    return answers


def ask(address, lot, purpose):
    """Seconds of one request for these programs, and its answers."""
    body = asked(lot, purpose)
    begun = time.monotonic()
    text = exchange(address, "POST", "/v1/evaluate", body)
    seconds = time.monotonic() - begun
    return seconds, checked(json.loads(text), lot)


def by_clients(address, lot, purpose, clients):
    """Seconds of single requests for these programs by so many clients at once, and the answers."""
    left = queue.SimpleQueue()
    for program in lot:
        left.put(program)
    answers, failures = [], []

    def client():
        with contextlib.suppress(queue.Empty):
            while not failures:
                program = left.get_nowait()
                try:
                    answers.extend(ask(address, [program], purpose)[1])
                except (OSError, ValueError, http.client.HTTPException) as error:
                    failures.append(error)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begun
    if failures:
        raise ValueError(f"a single request failed: {failures[0]}")
    return seconds, answers


def counted(address, work):
    """What `work` returns, and the seconds that the service counts for the evaluations of it."""
    before = evaluated_seconds(scrape(address))
    found = work()
    return found, evaluated_seconds(scrape(address)) - before


def one_by_one(address, lot, purpose):
    """Milliseconds that each request took beyond its evaluation, one request after the other, and the answers."""
    overheads, answers = [], []
    for program in lot:
        (seconds, answer), evaluation = counted(address, lambda program=program: ask(address, [program], purpose))
        overheads.append(1000 * (seconds - evaluation))
        answers += answer
    return overheads, answers


def files_allowed(needed, soft, hard):
    """The soft limit of open files for so many. Raises ValueError if the hard limit is below."""
    unlimited = resource.RLIM_INFINITY
    if hard != unlimited and hard < needed:
        raise ValueError(f"--connections needs {needed} open files, and the limit is {hard}: raise it with `ulimit -Hn {needed}` as root, or ask for fewer connections")
    return soft if soft == unlimited else max(soft, needed)


class Crowd:
    """Idle connections, as many all the time."""

    def __init__(self, address, number, spread=SPREAD):
        host, port = address.rsplit(":", 1)
        self.place = (host, int(port))
        self.number, self.spread = number, spread
        self.reopened, self.failed = 0, None
        self.selector = selectors.DefaultSelector()
        self.stopping = threading.Event()
        self.keeper = threading.Thread(target=self.keep, daemon=True)

    def __enter__(self):
        try:
            for _ in range(self.number):
                self.open()
                time.sleep(self.spread / self.number)
        except BaseException:
            self.close()
            raise
        self.keeper.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.keeper.join()
        self.close()

    def open(self):
        self.selector.register(socket.create_connection(self.place, 10), selectors.EVENT_READ)

    def keep(self):
        """Opens again what the service closes: nothing else arrives on an idle connection."""
        while not self.stopping.is_set():
            for key, _ in self.selector.select(0.2):
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                try:
                    self.open()
                except OSError as error:
                    self.failed = error
                    return
                self.reopened += 1

    def close(self):
        for key in list((self.selector.get_map() or {}).values()):
            key.fileobj.close()
        self.selector.close()


@contextlib.contextmanager
def serving(options, folder):
    """The address of a service with an empty folder. It ends with the block."""
    command = [str(options.flopsmith), "serve", "--listen", "127.0.0.1:0", "--folder", str(folder), "--wait", options.wait]
    with tempfile.TemporaryFile("w+") as log:
        service = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            address = urllib.parse.urlsplit(service.stdout.readline().strip()).netloc
            if not address:
                service.wait(STOP)
                raise ValueError(f"{' '.join(command)} did not start")
            yield address
        finally:
            if service.poll() is not None:
                log.seek(0)
                say(f"the service ended with {service.returncode}:\n{log.read()[-3000:]}")
            service.terminate()
            try:
                service.wait(STOP)
            except subprocess.TimeoutExpired:
                service.kill()
                service.wait()
            service.stdout.close()


def outcomes(rows):
    return dict(collections.Counter(row["outcome"] for row in rows))


def part(seconds, evaluation, answers):
    """The figures of some programs by the service: seconds, and milliseconds a program beyond the evaluations."""
    return {"seconds": seconds, "beyond_evaluation_ms": 1000 * (seconds - evaluation) / len(answers), "outcomes": outcomes(answers)}


def by_service(options, lot, folder):
    begun = time.monotonic()
    with serving(options, folder) as address:
        ask(address, lot["first"], options.purpose)
        found = {"start_seconds": time.monotonic() - begun}
        (seconds, batch), evaluation = counted(address, lambda: ask(address, lot["batch"], options.purpose))
        found["batch"] = part(seconds, evaluation, batch)
        (seconds, clients), evaluation = counted(address, lambda: by_clients(address, lot["clients"], options.purpose, options.clients))
        found["clients"] = part(seconds, evaluation, clients)
        overheads, alone = one_by_one(address, lot["alone"], options.purpose)
        found["alone"] = {"overhead_ms": overheads, "outcomes": outcomes(alone)}
        answers = batch + clients + alone
        if options.connections:
            say(f"opening {options.connections} idle connections")
            with Crowd(address, options.connections) as crowd:
                is_open = crowded(address, options.connections)
                (seconds, again), evaluation = counted(address, lambda: ask(address, lot["crowd"], options.purpose))
                is_open = min(is_open, crowded(address, options.connections))
            if crowd.failed:
                raise ValueError(f"an idle connection could not be opened again: {crowd.failed}")
            found["crowd"] = part(seconds, evaluation, again) | {"connections": is_open, "reopened": crowd.reopened}
            answers += again
        # More than one if the service measured its reference again meanwhile, which takes seconds.
        found["references"] = len({answer["reference"]["id"] for answer in answers if answer["reference"]})
        return found


def crowded(address, number):
    """The number of open connections by the service. Raises ValueError if more than some that are being opened again are missing."""
    is_open = int(metric(scrape(address), "flopsmith_serve_connections"))
    if is_open < 0.95 * number:
        raise ValueError(f"only {is_open} of {number} idle connections are open")
    return is_open


def bench_times(lines, begun, ended):
    """The times of `bench` by its lines, each with the moment at which it came: seconds until the first program is done, seconds of the other
    programs, and of the whole command."""
    rows = [(at, line) for at, line in lines if line.get("type") == "row"]
    if not rows or Path(rows[0][1]["file"]).stem != FIRST:
        raise ValueError("flopsmith bench did not begin with the first program")
    times = [at for at, _ in rows]
    return {"start_seconds": times[0] - begun, "seconds": times[-1] - times[0], "whole_seconds": ended - begun, "outcomes": outcomes(row for _, row in rows[1:])}


def by_bench(options, lot, folder):
    programs = lot["first"] + lot["batch"]
    for name, source in programs:
        (folder / f"{name}.c").write_text(source)
    command = [str(options.flopsmith), "bench", str(folder), "--problem", PROBLEM, "--workload", WORKLOAD, "--purpose", options.purpose, "--format", "jsonl",
               "--wait", options.wait, "--resolve", "0"]
    with tempfile.TemporaryFile("w+") as log:
        begun = time.monotonic()
        with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True) as process:
            lines = [(time.monotonic(), json.loads(line)) for line in process.stdout]
        ended = time.monotonic()
        rows = sum(line.get("type") == "row" for _, line in lines)
        if rows != len(programs):
            log.seek(0)
            raise ValueError(f"{' '.join(command)} ended with {process.returncode} and {rows} of {len(programs)} programs:\n{log.read()[-3000:]}")
    return bench_times(lines, begun, ended)


def plain_seconds(source, folder, seconds):
    """Compiles and runs one program. Returns the seconds of its fastest call."""
    (folder / "program.c").write_text(source)
    (folder / "main.c").write_text(MAIN)
    program = folder / "program"
    command = ["gcc", "-O3", "-march=native", "-w", f"-DSIZE={SIZE}", f"-DSECONDS={seconds}", folder / "program.c", folder / "main.c", "-o", program]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
        done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=PLAIN)
    except subprocess.SubprocessError as error:
        raise ValueError(f"the plain script failed: {error}\n{getattr(error, 'stderr', None) or ''}") from None
    return float(done.stdout.split()[0])


def by_plain(options, lot, folder):
    begun = time.monotonic()
    fastest = [plain_seconds(source, folder, options.plain_seconds) for _, source in lot["batch"]]
    return {"seconds": time.monotonic() - begun, "fastest_call_seconds": min(fastest)}


def figures(rounds):
    """The medians over the rounds, those of the rounds' own ratios, and whether they are as good as asked."""
    def median(of):
        return statistics.median(of(r["service"], r["bench"], r["plain"]) for r in rounds)

    found = {
        "batch_seconds": median(lambda s, b, p: s["batch"]["seconds"]), "clients_seconds": median(lambda s, b, p: s["clients"]["seconds"]),
        "bench_seconds": median(lambda s, b, p: b["seconds"]), "plain_seconds": median(lambda s, b, p: p["seconds"]),
        "service_start_seconds": median(lambda s, b, p: s["start_seconds"]), "bench_start_seconds": median(lambda s, b, p: b["start_seconds"]),
        "batch_over_bench": median(lambda s, b, p: s["batch"]["seconds"] / b["seconds"]),
        "clients_over_bench": median(lambda s, b, p: s["clients"]["seconds"] / b["seconds"]),
        "batch_over_bench_with_starts": median(lambda s, b, p: (s["start_seconds"] + s["batch"]["seconds"]) / b["whole_seconds"]),
        "batch_over_plain": median(lambda s, b, p: s["batch"]["seconds"] / p["seconds"]),
        "beyond_evaluation_ms": median(lambda s, b, p: s["batch"]["beyond_evaluation_ms"]),
        "request_overhead_ms": statistics.median(ms for r in rounds for ms in r["service"]["alone"]["overhead_ms"]),
    }
    if all("crowd" in r["service"] for r in rounds):
        found["crowd_seconds"] = median(lambda s, b, p: s["crowd"]["seconds"])
        found["crowd_over_batch"] = median(lambda s, b, p: s["crowd"]["seconds"] / s["batch"]["seconds"])
        found["crowd_over_bench"] = median(lambda s, b, p: s["crowd"]["seconds"] / b["seconds"])
    ratios = [found[name] for name in ("batch_over_bench", "clients_over_bench", "crowd_over_bench") if name in found]
    found["asked"] = {"ratio": ASKED_RATIO, "ratio_met": max(ratios) <= ASKED_RATIO, "overhead_ms": ASKED_MS, "overhead_met": found["request_overhead_ms"] <= ASKED_MS}
    return found


def unmeasured(rounds):
    """The number of programs without a time, by side. They are faster to evaluate, so they make its figure too good."""
    found = {}
    for one in rounds:
        parts = [("bench", one["bench"])] + [("service", part) for part in one["service"].values() if isinstance(part, dict)]
        for side, of in parts:
            lost = sum(number for outcome, number in of["outcomes"].items() if outcome not in ("measured", "unconverged"))
            found[side] = found.get(side, 0) + lost
    return {side: lost for side, lost in found.items() if lost}


def row(told):
    """The row for the table of docs/results/README.md."""
    of, shape = told["summary"], told["shape"]
    crowd = ""
    if "crowd_seconds" in of:
        crowd = f"; with {shape['connections']:,} idle connections {of['crowd_seconds']:.1f} s, {of['crowd_over_batch']:.2f} times"
    words = (f"one request {of['batch_seconds']:.1f} s, {shape['clients']} clients {of['clients_seconds']:.1f} s, `bench` {of['bench_seconds']:.1f} s: "
             f"{of['batch_over_bench']:.2f} and {of['clients_over_bench']:.2f} times (asked: at most {ASKED_RATIO}), {of['batch_over_bench_with_starts']:.2f} with the starts of both; "
             f"plain script {of['plain_seconds']:.1f} s: {of['batch_over_plain']:.2f} times; "
             f"a request adds {of['request_overhead_ms']:.2f} ms at the median (asked: at most {ASKED_MS:g}){crowd}")
    command = "python3 scripts/bench/service.py" + (f" --connections {shape['connections']}" if shape["connections"] else "")
    return f"| the reward of {shape['programs']} fresh programs by the service, purpose `{shape['purpose']}`, {shape['rounds']} rounds in turns | `{command}` | {told['cpu']} | {words} |"


def whole_number(least, most):
    def read(text):
        number = int(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{number} is not in {least} to {most}")
        return number
    return read


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flopsmith", type=Path, default=ROOT / "target/release/flopsmith")
    parser.add_argument("--programs", type=whole_number(1, 79), default=64, help="programs of a request (default: 64)")
    parser.add_argument("--clients", type=whole_number(1, 256), default=8, help="clients that send single requests at once (default: 8)")
    parser.add_argument("--alone", type=whole_number(1, 1000), default=32, help="single requests one after the other (default: 32)")
    parser.add_argument("--rounds", type=whole_number(1, 100), default=3)
    # A certification of 64 programs takes half an hour.
    parser.add_argument("--purpose", choices=["screen", "rank"], default="rank", help="of service and bench (default: rank)")
    parser.add_argument("--plain-seconds", type=float, default=0.1, help="how long the plain script calls each program (default: 0.1)")
    parser.add_argument("--connections", type=whole_number(0, MOST_CONNECTIONS), default=0, help="idle connections during a repetition of the first request")
    parser.add_argument("--wait", default="0", help="how long service and bench wait for a quiet machine (default: 0)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="write all results as JSON to this file")
    return parser.parse_args(given)


def main():
    options = arguments()
    if not options.flopsmith.is_file():
        sys.exit(f"{options.flopsmith} not found; build it: make build")
    options.flopsmith = options.flopsmith.resolve()
    if not shutil.which("gcc"):
        sys.exit("gcc not found; the plain script needs it (Debian: apt-get install gcc)")
    work = {"service": by_service, "bench": by_bench, "plain": by_plain}
    rounds = []
    try:
        if options.connections:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (files_allowed(options.connections + OTHER_FILES, soft, hard), hard))
        for number in range(options.rounds):
            lot = lots(options.programs, options.alone, options.connections > 0, options.seed, number)
            turn = number % len(SIDES)
            found = {}
            for side in SIDES[turn:] + SIDES[:turn]:
                say(f"round {number + 1} of {options.rounds}: {side}")
                with tempfile.TemporaryDirectory() as folder:
                    found[side] = work[side](options, lot, Path(folder))
            rounds.append({side: found[side] for side in SIDES})
    except (OSError, ValueError, http.client.HTTPException) as error:
        sys.exit(f"the measurement ended early: {error}")
    shape = {name: getattr(options, name) for name in ("programs", "clients", "alone", "rounds", "purpose", "plain_seconds", "connections", "wait", "seed")}
    told = {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "revision": revision(), "shape": shape, "summary": figures(rounds), "unmeasured": unmeasured(rounds)}
    for side, lost in told["unmeasured"].items():
        say(f"{lost} programs of {side} have no time, so its figures are too good")
    if any(one["service"]["references"] > 1 for one in rounds):
        say("the service measured its reference again during a round, so its time is too long")
    if options.output:
        options.output.write_text(json.dumps(told | {"rounds": rounds}, indent=1) + "\n")
    print(json.dumps(told))
    print(row(told))


if __name__ == "__main__":
    main()
