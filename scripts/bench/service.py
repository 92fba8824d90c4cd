#!/usr/bin/env python3
"""Compares the reward of 64 programs by `flopsmith serve` with `flopsmith bench` and with a plain script, in turns.

    make build
    python3 scripts/bench/service.py [--programs 64] [--clients 8] [--rounds 3] [--purpose rank] [--connections 1000] [--restart 200] [--output FILE.json]

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
open. The service closes a connection that is idle for 30 s; the script opens it again, and has some connections more than asked, so that as many are open all
the time. It counts the open ones by /metrics every second, and asks for /v1/health on each at the end.

After the rounds, a service at a fixed port gets one fresh program of each of --restart clients at once, for the purpose `screen`, each with an
`Idempotency-Key`. After a quarter of the answers the script kills the service (SIGKILL) and starts it again at the same port, on the same folder. Each client then
repeats its request, also for an answer that it has. A client without an answer of the second process is lost. A program is evaluated twice if both
processes together evaluated more programs than there are (/metrics of both, the first one's at the kill). --restart 0 leaves this part out, --rounds 0 the
others.

Prints one JSON object, a row for each table of docs/results/README.md, and whether each target is met. Ends with code 1 if one is missed.
"""
import argparse
import collections
import contextlib
import http.client
import json
import math
import os
import queue
import random
import resource
import shutil
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
from crowds import Clients, Crowd, Least, crossed, fixed_port, kept_answers, spare  # noqa: E402
from learning import revision  # noqa: E402
from ranking import programs as drawn  # noqa: E402
from sigterm import ends_what_it_started  # noqa: E402

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
# Connections beside the idle ones, while others are counted: that of the count, and that of the request.
OWN = 2
# Seconds until the service has accepted the idle connections, and until it answers after a restart.
ACCEPTED, RESTARTED = 10, 1800
EVALUATIONS = "flopsmith_serve_evaluations_total"
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


def restart_lot(count, seed):
    """The programs of the clients through a restart."""
    kinds = drawn(min(count, 64), seed)
    numbers = random.Random(f"{seed} restart").sample(range(1, 2**31), count)
    return [(f"{kinds[i % len(kinds)][0]}_{i}", numbered(kinds[i % len(kinds)][1], number)) for i, number in enumerate(numbers)]


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


def exchange(address, method, path, body=None, headers=()):
    """The body of the answer to one request on a connection of its own. Raises ValueError with the service's words if it refuses."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", "Accept": "application/json", **dict(headers)} if body else {})
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
        raise ValueError(f"--connections and --restart need {needed} open files, and the limit is {hard}: raise it with `ulimit -Hn {needed}` as root, or ask for fewer")
    return soft if soft == unlimited else max(soft, needed)


class Running:
    """A process of the service, and its address."""

    def __init__(self, process):
        self.process, self.address, self.is_killed = process, "", False

    def kill(self):
        """Ends the process at once, by SIGKILL."""
        self.is_killed = True
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def serving(options, folder, port=0):
    """A service on a folder. It ends with the block."""
    command = [str(options.flopsmith), "serve", "--listen", f"127.0.0.1:{port}", "--folder", str(folder), "--wait", options.wait]
    with tempfile.TemporaryFile("w+") as log:
        service = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True)
        running = Running(service)
        try:
            running.address = urllib.parse.urlsplit(service.stdout.readline().strip()).netloc
            if not running.address:
                service.wait(STOP)
                raise ValueError(f"{' '.join(command)} did not start")
            yield running
        finally:
            if service.poll() is not None and not running.is_killed:
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
    with serving(options, folder) as running:
        address = running.address
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
            found["crowd"], again = beside_a_crowd(options, address, lot["crowd"])
            answers += again
        # More than one if the service measured its reference again meanwhile, which takes seconds.
        found["references"] = len({answer["reference"]["id"] for answer in answers if answer["reference"]})
        return found


def held(address):
    """The number of idle connections that are open by the service; one too few while no other request is under way."""
    return int(metric(scrape(address), "flopsmith_serve_connections")) - OWN


def beside_a_crowd(options, address, lot):
    """The figures of a request beside idle connections, and its answers."""
    total = options.connections + spare(options.connections)
    say(f"opening {total} idle connections")
    with Crowd(address, total) as crowd:
        deadline = time.monotonic() + ACCEPTED
        while held(address) < options.connections and time.monotonic() < deadline:
            time.sleep(0.1)
        with Least(lambda: held(address)) as least:
            (seconds, answers), evaluation = counted(address, lambda: ask(address, lot, options.purpose))
        healthy = crowd.healthy()
    failed = crowd.failed or least.failed
    if failed:
        raise ValueError(f"the idle connections could not be held or counted: {failed}")
    held_told = {"wanted": options.connections, "opened": total, "connections": least.number, "reopened": crowd.reopened, "healthy": healthy}
    return part(seconds, evaluation, answers) | held_told, answers


def answer_by_key(address, name, source, purpose="screen"):
    """The answer to a request for one program by a key of its own."""
    answers = json.loads(exchange(address, "POST", "/v1/evaluate", asked([(name, source)], purpose), {"Idempotency-Key": name}))
    if not isinstance(answers, list) or len(answers) != 1:
        raise ValueError(f"the service did not answer one program: {json.dumps(answers)[:500]}")
    return answers[0]


def through_a_restart(options, folder):
    """The counts of clients whose service is killed after a quarter of the answers, and started again."""
    lot, port = restart_lot(options.restart, options.seed), fixed_port()
    address = f"127.0.0.1:{port}"
    clients = Clients(lot, lambda name, source: answer_by_key(address, name, source), RESTARTED)
    with serving(options, folder, port) as first:
        clients.start()
        clients.wait_for(math.ceil(options.restart / 4))
        evaluated = int(metric(scrape(address), EVALUATIONS))
        first.kill()
    # An evaluation that ended between the count and the kill left its answer in the folder.
    evaluated = max(evaluated, kept_answers(folder))
    begun = time.monotonic()
    with serving(options, folder, port):
        say(f"started again after {evaluated} evaluations")
        clients.go_on()
        seconds = time.monotonic() - begun
        again = int(metric(scrape(address), EVALUATIONS))
    return crossed([name for name, _ in lot], clients.before, clients.after, clients.lost, [evaluated, again]) | {"seconds_after_kill": seconds}


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
        crowds = [r["service"]["crowd"] for r in rounds]
        found["crowd"] = {name: crowds[0][name] for name in ("wanted", "opened")} | {name: min(crowd[name] for crowd in crowds) for name in ("connections", "healthy")}
        found["crowd"]["reopened"] = sum(crowd["reopened"] for crowd in crowds)
    ratios = [found[name] for name in ("batch_over_bench", "clients_over_bench", "crowd_over_bench") if name in found]
    found["asked"] = {"ratio": ASKED_RATIO, "worst_ratio": max(ratios), "ratio_met": max(ratios) <= ASKED_RATIO,
                      "overhead_ms": ASKED_MS, "overhead_met": found["request_overhead_ms"] <= ASKED_MS}
    return found


def targets(summary, restart, failed=None):
    """Each target with what was measured, and whether it is met. Parts that were left out have none."""
    if summary:
        of = summary["asked"]
        yield f"at most {of['ratio']} times the time of `bench`; measured {of['worst_ratio']:.2f} times", of["ratio_met"]
        yield f"a request adds at most {of['overhead_ms']:g} ms at the median; measured {summary['request_overhead_ms']:.2f} ms", of["overhead_met"]
        if "crowd" in summary:
            crowd = summary["crowd"]
            yield f"{crowd['wanted']:,} idle connections are held; at least {crowd['connections']:,} were open", crowd["connections"] >= crowd["wanted"]
            yield f"all of {crowd['opened']:,} idle connections are answered at the end; {crowd['healthy']:,} were", crowd["healthy"] == crowd["opened"]
    if restart:
        whole = restart["answers"] == restart["clients"] and restart["lost"] == 0
        yield f"{restart['clients']} answers and none lost through a restart; {restart['answers']} answers, {restart['lost']} lost", whole
    if failed:
        yield failed, False


def verdicts(judged):
    return [f"{'met' if is_met else 'MISSED'}: {words}" for words, is_met in judged]


def code(judged):
    """The exit code: 1 if a target is missed."""
    return int(not all(is_met for _, is_met in judged))


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
        idle = of["crowd"]
        crowd = (f"; beside at least {idle['connections']:,} open idle connections (asked: {idle['wanted']:,}; {idle['reopened']:,} opened again; {idle['healthy']:,} of "
                 f"{idle['opened']:,} answered at the end) {of['crowd_seconds']:.1f} s, {of['crowd_over_batch']:.2f} times")
    words = (f"one request {of['batch_seconds']:.1f} s, {shape['clients']} clients {of['clients_seconds']:.1f} s, `bench` {of['bench_seconds']:.1f} s: "
             f"{of['batch_over_bench']:.2f} and {of['clients_over_bench']:.2f} times (asked: at most {ASKED_RATIO}), {of['batch_over_bench_with_starts']:.2f} with the starts of both; "
             f"plain script {of['plain_seconds']:.1f} s: {of['batch_over_plain']:.2f} times; "
             f"a request adds {of['request_overhead_ms']:.2f} ms at the median (asked: at most {ASKED_MS:g}){crowd}")
    command = "python3 scripts/bench/service.py" + (f" --connections {shape['connections']}" if shape["connections"] else "")
    return f"| the reward of {shape['programs']} fresh programs by the service, purpose `{shape['purpose']}`, {shape['rounds']} rounds in turns | `{command}` | {told['cpu']} | {words} |"


def restart_row(told):
    """The row of the clients through a restart."""
    of = told["restart"]
    words = (f"{of['answers']} answers, {of['wrong_ids']} with the id of another program, {of['lost']} lost (asked: {of['clients']} answers, 0 lost); "
             f"{of['before_kill']} came before the kill, and {of['changed']} of these changed; "
             f"{of['evaluated'][0]} and {of['evaluated'][1]} programs evaluated by the two processes, {of['evaluated_twice']} of them twice")
    command = f"python3 scripts/bench/service.py --restart {of['clients']}"
    return f"| {of['clients']} clients through a SIGKILL of the service after a quarter of the answers | `{command}` | {told['cpu']} | {words} |"


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
    parser.add_argument("--rounds", type=whole_number(0, 100), default=3, help="rounds of the three sides; 0 leaves them out (default: 3)")
    # A certification of 64 programs takes half an hour.
    parser.add_argument("--purpose", choices=["screen", "rank"], default="rank", help="of service and bench (default: rank)")
    parser.add_argument("--plain-seconds", type=float, default=0.1, help="how long the plain script calls each program (default: 0.1)")
    parser.add_argument("--connections", type=whole_number(0, MOST_CONNECTIONS), default=0, help="idle connections during a repetition of the first request")
    parser.add_argument("--restart", type=whole_number(0, 1000), default=200, help="clients whose service is killed and started again; 0 leaves them out (default: 200)")
    parser.add_argument("--wait", default="0", help="how long service and bench wait for a quiet machine (default: 0)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="write all results as JSON to this file")
    options = parser.parse_args(given)
    if not options.rounds and not options.restart:
        parser.error("--rounds 0 and --restart 0 leave nothing to measure")
    if not options.rounds and options.connections:
        parser.error("--connections needs a round")
    return options


def main():
    options = arguments()
    if not options.flopsmith.is_file():
        sys.exit(f"{options.flopsmith} not found; build it: make build")
    options.flopsmith = options.flopsmith.resolve()
    if options.rounds and not shutil.which("gcc"):
        sys.exit("gcc not found; the plain script needs it (Debian: apt-get install gcc)")
    work = {"service": by_service, "bench": by_bench, "plain": by_plain}
    rounds, restart, failed = [], None, None
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = max(options.connections + spare(options.connections) if options.connections else 0, options.restart) + OTHER_FILES
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_allowed(needed, soft, hard), hard))
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
    if options.restart:
        say(f"{options.restart} clients through a restart")
        try:
            with tempfile.TemporaryDirectory() as folder:
                restart = through_a_restart(options, Path(folder))
        except (OSError, ValueError, http.client.HTTPException) as error:
            # The rounds are measured, and are told.
            failed = f"the restart ended early: {error}"
    shape = {name: getattr(options, name) for name in ("programs", "clients", "alone", "rounds", "purpose", "plain_seconds", "connections", "restart", "wait", "seed")}
    told = {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "revision": revision(), "shape": shape, "summary": figures(rounds) if rounds else None,
            "unmeasured": unmeasured(rounds), "restart": restart, "restart_failed": failed}
    judged = list(targets(told["summary"], restart, failed))
    told["targets"] = [{"target": words, "met": is_met} for words, is_met in judged]
    for side, lost in told["unmeasured"].items():
        say(f"{lost} programs of {side} have no time, so its figures are too good")
    if any(one["service"]["references"] > 1 for one in rounds):
        say("the service measured its reference again during a round, so its time is too long")
    if restart and restart["why_lost"]:
        say(f"lost through the restart: {'; '.join(restart['why_lost'])}")
    if options.output:
        options.output.write_text(json.dumps(told | {"rounds": rounds}, indent=1) + "\n")
    print(json.dumps(told))
    print("\n".join(([row(told)] if rounds else []) + ([restart_row(told)] if restart else []) + verdicts(judged)))
    return code(judged)


if __name__ == "__main__":
    ends_what_it_started()
    sys.exit(main())
