"""A small cluster of processes on this machine's loopback, for tests that watch nodes from outside: a broker, a node that keeps archives
and writes programs, a node that evaluates them, and a short search on both.

All processes have their own folder and ports, and the tests end them by process id."""

import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
STARTED = time.monotonic()
# Seconds for a search of few programs, with the machine's own measurements before it.
SEARCH_LIMIT = 300
# These requests stay on this machine, so they must not use a proxy.
LOOPBACK = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Failed(Exception):
    """The test cannot continue; the message is for people."""


def say(words):
    print(f"{time.monotonic() - STARTED:6.1f} s  {words}", flush=True)


def run(command, limit=120):
    return subprocess.run(list(map(str, command)), cwd=ROOT, env=clean_environment(), text=True, capture_output=True, timeout=limit)


def until(what, limit, condition):
    end = time.monotonic() + limit
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"not within {limit} s: {what}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def answers(url, limit=2):
    """The answer of a server at an address, or None if no server answers."""
    try:
        with LOOPBACK.open(url, timeout=limit) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, OSError):
        return None


def program(given, name, where=()):
    """Finds a program: the given path, else in usual folders, else on the PATH."""
    places = [given] if given else [*(ROOT / place for place in where), shutil.which(name)]
    for place in places:
        if place and pathlib.Path(place).is_file():
            return str(pathlib.Path(place).resolve())
    raise Failed(f"{name} not found; searched {', '.join(str(place) for place in places if place) or 'the PATH'}")


class Processes:
    """All started processes, and the folder of their files."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="flopsmith-test-"))
        self.running = []
        # After SIGTERM or Ctrl-C the script has to end its processes. A shell may have set SIGINT to be ignored.
        for told in (signal.SIGTERM, signal.SIGINT):
            signal.signal(told, self.interrupted)

    @staticmethod
    def interrupted(number, _frame):
        raise Failed(f"ended by {signal.Signals(number).name}")

    def start(self, name, command, **environment):
        log = open(self.folder / f"{name}.log", "wb")
        # In its own session the process does not get Ctrl-C; this script gets it and ends all processes in order.
        child = subprocess.Popen(
            list(map(str, command)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            env=clean_environment() | environment, start_new_session=True,
        )
        log.close()
        self.running.append((name, child))
        return child

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def tails(self, lines=40):
        """The last lines of every log, for tests that do not keep the folder."""
        ends = []
        for file in sorted(self.folder.glob("**/*.log")):
            text = file.read_text(errors="replace").splitlines()
            ends += [f"--- {file.relative_to(self.folder)}, {len(text)} lines", *text[-lines:]]
        return "\n".join(ends)

    def child(self, name):
        return next(child for called, child in self.running if called == name)

    def alive(self, name):
        child = self.child(name)
        if child.poll() is not None:
            raise Failed(f"{name} ended with {child.returncode}:\n{self.log(name)[-3000:]}")

    def stop(self, name, limit=30):
        """Ends one process and returns its exit code."""
        called, child = next(entry for entry in self.running if entry[0] == name)
        self.running.remove((called, child))
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait(10)

    def end(self, keep=False):
        for told in (signal.SIGTERM, signal.SIGINT):
            signal.signal(told, signal.SIG_IGN)
        # In reverse order, so that nodes still have their broker when they stop.
        for name in [name for name, _ in reversed(self.running)]:
            self.stop(name)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def clean_environment():
    """This process' environment without the variables that would connect nodes or their traces to other servers."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "FLOPSMITH_", "ROTEL_"))}
    # The tests themselves keep the machine busy, so nodes must not wait for an idle one.
    more = {"FLOPSMITH_WAIT": "0", "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    # The folders of the program's parts, if the environment sets them.
    named = {k: os.environ[k] for k in ("FLOPSMITH_HOME", "FLOPSMITH_HARNESS", "FLOPSMITH_PROBLEMS") if k in os.environ}
    return keep | more | named


class Cluster:
    """Broker and nodes. All of them send their traces to `otlp`, if given."""

    def __init__(self, processes, flopsmith=None, nats_server=None, otlp=None):
        self.processes = processes
        self.flopsmith = program(flopsmith, "flopsmith", ["target/release/flopsmith"])
        home = os.environ.get("FLOPSMITH_HOME", ".flopsmith")
        self.nats_server = program(nats_server, "nats-server", [f"{home}/bin/nats-server"])
        self.token = secrets.token_hex(8)
        self.store = (processes.folder / "store").as_uri()
        self.runs = processes.folder / "runs"
        self.otlp = otlp
        self.nodes = {}

    def start(self):
        folder = self.processes.folder
        ports = folder / "ports"
        ports.mkdir()
        # Port -1 takes a free port, and the file names it.
        self.processes.start(
            "nats", [self.nats_server, "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder / "nats", "--auth", self.token,
                     "--ports_file_dir", ports],
        )

        def listening():
            self.processes.alive("nats")
            for file in ports.glob("*.ports"):
                try:
                    return json.loads(file.read_text())["nats"][0]
                except (json.JSONDecodeError, KeyError, IndexError):
                    return None

        address = until("the broker's port", 20, listening)
        self.url = address.replace("nats://", f"nats://{self.token}@")
        until("the broker is set up", 20, self.set_up)
        self.node("keeper", "archive,generator,learner")
        self.node("bench", "compiler,verifier,timer", "--cores", "1", "--claims", folder / "cores")

    def set_up(self):
        return run([self.flopsmith, "cluster", "init", "--nats", self.url]).returncode == 0

    def traces(self, name):
        """The environment that makes a process send its traces, with its name in them."""
        if not self.otlp:
            return {}
        return {"FLOPSMITH_OTLP_ENDPOINT": self.otlp, "OTEL_RESOURCE_ATTRIBUTES": f"service.instance.id={name}"}

    def node(self, name, roles, *more):
        self.processes.start(
            name, [self.flopsmith, "worker", "--nats", self.url, "--store", self.store, "--node", name, "--roles", roles,
                   "--listen", "127.0.0.1:0", *more], **self.traces(name),
        )

        def address():
            self.processes.alive(name)
            for line in self.processes.log(name).splitlines():
                if line.strip().startswith("answers at http://"):
                    return line.strip().removeprefix("answers at http://")

        self.nodes[name] = until(f"{name} prints its address", 60, address)
        until(f"{name} is ready", 60, lambda: answers(f"http://{self.nodes[name]}/ready"))

    def search(self, evaluations, watch=lambda: None):
        """Leaves a search to the nodes and follows it to its end; its summary. `watch` is called now and then meanwhile."""
        small = ["--problem", "dgemm", "--workload", "n=256", "--evaluations", evaluations]
        return self.follow("search", small, watch)

    def train(self, steps, watch=lambda: None):
        """The same with a training of the starter model for `steps` steps."""
        return self.follow("train", [ROOT / "examples/dgemm.toml", "--set", f"max_steps={steps}", "--set", "evaluate_tasks=1"], watch)

    def follow(self, command, arguments, watch):
        child = self.processes.start(
            command,
            [self.flopsmith, command, *arguments, "--budget", "10m", "--format", "json", "--cluster",
             "--set", "tasks=2", "--set", "group_size=4", "--set", "evaluate.finalists=1", "--set", "evaluate.quarantine=false", "--nats", self.url, "--store", self.store,
             "--runs", self.runs], **self.traces(command),
        )

        def ended():
            for name in self.nodes:
                self.processes.alive(name)
            watch()
            return child.poll() is not None

        try:
            until(f"the {command} ends", SEARCH_LIMIT, ended)
        except Failed as why:
            raise Failed(f"{why}\n{self.processes.log(command)[-2000:]}") from None
        said = self.processes.log(command)
        if self.processes.stop(command) != 0:
            raise Failed(f"the {command} ended with {child.returncode}:\n{said[-3000:]}")
        objects = [line for line in said.splitlines() if line.startswith("{")]
        return json.loads(objects[-1])

    def outcomes(self):
        """The outcomes in the run's folder."""
        found = []
        for file in self.runs.glob("*/outcomes.jsonl"):
            found += [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]
        return found
