#!/usr/bin/env python3
"""Tests the compose cluster: starts it, tests the jail in a worker's container with hostile programs, trains for some steps while it kills
containers and cuts them off, and checks that no outcome was lost or counted twice. At the end it removes the cluster.

With --search it starts only broker, store and workers, and kills a worker during a search.

Needs Docker with Compose, and the images (`make images-offline`, or `docker compose build`; `scripts/images.sh --worker` for --search)."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SERVICES = {"nats": 1, "store": 1, "archive": 1, "trainer": 1, "worker": 2}
# The services of a search that keeps its own archive.
OF_SEARCH = {"nats": 1, "store": 1, "worker": 2}
# Number of programs of that search.
EVALUATIONS = 48
STARTED = time.monotonic()


def say(words):
    print(f"{time.monotonic() - STARTED:6.1f} s  {words}", flush=True)


# Docker's messages if it cannot pull.
UNREACHED = ("pull access denied", "dial tcp", "i/o timeout", "no such host", "failed to resolve", "TLS handshake", "proxyconnect", "Client.Timeout", "manifest unknown")


def run(command, check=True, **more):
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=600, **more)
    if check and done.returncode != 0:
        unreached = any(words in done.stdout + done.stderr for words in UNREACHED)
        hint = "\nIf an image is missing and no image registry can be reached: `make images-offline` makes all images on this machine." if unreached else ""
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}{hint}")
    return done


def until(what, limit, condition):
    end = time.monotonic() + limit
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            sys.exit(f"not within {limit} s: {what}")
        time.sleep(0.2)


class Cluster:
    """The services of docker-compose.yml under another name and other ports."""

    def __init__(self, hostile):
        self.hostile = hostile
        plugin = run(["docker", "compose", "version"], check=False).returncode == 0
        self.project = f"flopsmith-test-{os.getpid()}"
        self.base = (["docker", "compose"] if plugin else ["docker-compose"]) + ["-p", self.project]
        self.environment = os.environ | {"FLOPSMITH_NATS_PORT": "0", "FLOPSMITH_STORE_PORT": "0"}

    def compose(self, *arguments, **more):
        return run([*self.base, *arguments], env=self.environment, **more)

    def containers(self, service):
        return self.compose("ps", "-q", service).stdout.split()

    def health(self, container):
        shape = "{{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}"
        return run(["docker", "inspect", "-f", shape, container]).stdout.strip()

    def wait(self, services=SERVICES):
        for service, count in services.items():
            def healthy():
                states = [self.health(one) for one in self.containers(service)]
                return len(states) == count and all(state == "running healthy" for state in states)
            until(f"{count} healthy {service}", 90, healthy)

    def kill(self, service, number=0):
        container = self.containers(service)[number]
        say(f"kill -9 {service}")
        run(["docker", "kill", "-s", "KILL", container])
        run(["docker", "start", container])

    def cut(self, service, seconds):
        container = self.containers(service)[0]
        network = f"{self.project}_default"
        say(f"{service} is cut off for {seconds} s")
        run(["docker", "network", "disconnect", network, container])
        time.sleep(seconds)
        run(["docker", "network", "connect", "--alias", service, network, container])


class Run:
    """A run, and the container that follows it."""

    def __init__(self, cluster, command):
        more = ["--format", "json", "--set", "evaluate.finalists=1", "--set", "lost_after_seconds=60"]
        self.child = subprocess.Popen(
            [*cluster.base, "run", "--rm", "-T", *command, *more],
            cwd=ROOT, env=cluster.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.lines, self.out = [], []
        readers = [(self.child.stderr, self.lines), (self.child.stdout, self.out)]
        self.readers = [threading.Thread(target=self.read, args=reader, daemon=True) for reader in readers]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line)

    def steps(self):
        return sum(line.startswith("step ") for line in self.lines)

    def reaches(self, steps, limit=240):
        def there():
            if self.child.poll() is not None:
                sys.exit(f"the run ended with {self.child.returncode}:\n{''.join(self.lines)[-6000:]}")
            return self.steps() >= steps
        until(f"{steps} steps of the run:\n{''.join(self.lines)[-3000:]}", limit, there)

    def end(self, limit):
        try:
            self.child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            self.child.kill()
            sys.exit(f"the run did not end:\n{''.join(self.lines)[-6000:]}")
        for reader in self.readers:
            reader.join(10)
        if self.child.returncode != 0:
            sys.exit(f"the run ended with {self.child.returncode}:\n{''.join(self.lines)[-6000:]}")
        return json.loads(self.out[-1])


def hostile_programs(cluster, program):
    """Runs the tests of the jail in a worker's container."""
    done = cluster.compose(
        "run", "--rm", "-T", "--no-deps", "-v", f"{program}:/hostile:ro", "--entrypoint", "/hostile", "worker",
        "--test-threads", "2", check=False,
    )
    result = [line for line in done.stdout.splitlines() if line.startswith("test result")]
    if done.returncode != 0 or not result or " 0 passed" in result[0]:
        sys.exit(f"the jail does not hold in the container:\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
    say(f"hostile programs in the worker's container: {result[0]}")


# Limits in megabytes: of the slim image beyond its base with the compiler, and of a worker that waits for work.
MOST_ADDED, MOST_IDLE = 60, 60


def is_small(cluster):
    layers = run(["docker", "history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", "flopsmith-worker"]).stdout.splitlines()
    added = 0
    for layer in layers:
        size, made = layer.split(" ", 1)
        if "install -y --no-install-recommends gcc" in made:
            break
        added += int(size) / 1e6
    else:
        sys.exit("no layer of the image installs the compiler")
    idle = 0
    for container in cluster.containers("worker"):
        processes = run(["docker", "top", container, "-o", "pid,rss,args"]).stdout.splitlines()[1:]
        idle = max(idle, sum(int(line.split()[1]) for line in processes) / 1000)
    say(f"the slim image adds {added:.1f} MB to its base with gcc, an idle worker takes {idle:.1f} MB")
    if not 0 < added <= MOST_ADDED or not 0 < idle <= MOST_IDLE:
        sys.exit(f"the limits are {MOST_ADDED} MB and {MOST_IDLE} MB")


def lines_of(cluster, run_id, file):
    read = cluster.compose("run", "--rm", "-T", "--no-deps", "--entrypoint", "cat", "flopsmith", f"/runs/{run_id}/{file}.jsonl")
    return [json.loads(line) for line in read.stdout.splitlines() if line.startswith("{")]


def check(cluster, summary):
    """Checks that each sample of each step has one outcome, that the learner trained once on each, and that the infrastructure never failed."""
    all_outcomes = lines_of(cluster, summary["run"], "outcomes")
    ids = [outcome["candidate"]["id"] for outcome in all_outcomes]
    twice = len(ids) - len(set(ids))
    samples = {}
    for outcome in all_outcomes:
        candidate = outcome["candidate"]
        if candidate["purpose"] != "certify":
            want = candidate["tasks_in_step"] * candidate["group_size"]
            samples.setdefault(candidate["step"], [want, 0])[1] += 1
    lost = sum(want - found for want, found in samples.values())
    # The learner reads the log independently of the archive, and counts its samples.
    noted = {line["step"]: line["samples"] for line in lines_of(cluster, summary["run"], "metrics")}
    learned = {line["step"]: line["metrics"]["samples"] for line in lines_of(cluster, summary["run"], "training") if line["metrics"]}
    otherwise = {step: (count, noted.get(step)) for step, count in learned.items() if count != noted.get(step)}
    if not learned or otherwise:
        sys.exit(f"the learner trained on another number of samples than the archive counted (step: trained, counted): {otherwise or 'no step'}")
    failures = summary["infrastructure_errors"]
    say(f"{summary['run']}: {len(samples)} steps, {len(ids)} outcomes, {lost} lost, {twice} counted twice, {failures} failures of the infrastructure")
    if not summary["finished"] or twice or lost or failures or len(samples) < 4:
        sys.exit("the run differs from an undisturbed one")


def training(cluster):
    """Tests all services; kills each of them or cuts it off."""
    cluster.compose("up", "-d")
    cluster.wait()
    say("all services are healthy")
    is_small(cluster)
    hostile_programs(cluster, cluster.hostile)
    train = Run(cluster, ["flopsmith", "train", "examples/dgemm.toml", "--budget", "30m", "--set", "max_steps=7"])
    train.reaches(1)
    cluster.kill("worker")
    # For longer than the broker waits for a message's confirmation (10 s): the other worker gets this one's messages.
    cluster.cut("worker", 15)
    train.reaches(2)
    cluster.kill("trainer")
    cluster.kill("archive")
    train.reaches(3)
    # For longer than a lease lasts: the archive finds a successor, or continues its own work.
    cluster.cut("archive", 15)
    cluster.cut("trainer", 15)
    cluster.kill("nats")
    cluster.compose("up", "-d", "--no-deps", "--scale", "worker=3", "worker")
    say("a third worker has joined")
    cluster.kill("store")
    summary = train.end(600)
    check(cluster, summary)
    cluster.wait(SERVICES | {"worker": 3})
    say("all services are healthy")


def search(cluster):
    """Tests broker, store and workers, and kills a worker. The process that follows the search keeps its archive and writes its programs."""
    cluster.compose("up", "-d", *OF_SEARCH)
    cluster.wait(OF_SEARCH)
    say("all services are healthy")
    is_small(cluster)
    hostile_programs(cluster, cluster.hostile)
    token = os.environ.get("FLOPSMITH_TOKEN", "flopsmith")
    # With --cluster the nodes would need archive and generator.
    joins = ["--nats", f"nats://{token}@nats:4222", "--store", "s3://flopsmith/cluster", "--set", "evaluate.workers=true"]
    wanted = ["--evaluations", str(EVALUATIONS), "--budget", "10m", "--runs", "/tmp/runs", *joins]
    follows = Run(cluster, ["--no-deps", "archive", "search", "--problem", "dgemm", "--workload", "n=256", *wanted])
    follows.reaches(1)
    cluster.kill("worker")
    summary = follows.end(300)
    failures, found = summary["infrastructure_errors"], sum(summary["outcomes"].values())
    say(f"{summary['run']}: {found} outcomes, {failures} failures of the infrastructure")
    if not summary["finished"] or failures or found < EVALUATIONS or not summary["best"]:
        sys.exit(f"the search differs from an undisturbed one: {summary}")
    cluster.wait(OF_SEARCH)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hostile", type=pathlib.Path, help="the test program of the jail (default: build it)")
    parser.add_argument("--search", action="store_true", help="test a search with broker, store and workers only")
    parser.add_argument("--keep", action="store_true", help="keep the cluster running at the end")
    given = parser.parse_args()
    program = given.hostile or build_hostile()
    cluster = Cluster(program.resolve())
    try:
        (search if given.search else training)(cluster)
    except SystemExit:
        logs = cluster.compose("logs", "--no-color", "--tail", "25", check=False)
        print(logs.stdout[-20000:], file=sys.stderr)
        raise
    finally:
        if not given.keep:
            cluster.compose("down", "-v", "--timeout", "45", check=False)
            say("the cluster is removed")


def build_hostile():
    done = run(["cargo", "test", "--release", "--locked", "--workspace", "--test", "hostile", "--no-run", "--message-format", "json"])
    made = [json.loads(line) for line in done.stdout.splitlines() if '"executable"' in line]
    return pathlib.Path(next(m["executable"] for m in made if m.get("executable")))


if __name__ == "__main__":
    main()
