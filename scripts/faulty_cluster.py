"""A cluster of processes for fault injection: the script can cut the links from nodes to broker and store, set the clocks of nodes, and fill
the disks of broker and store."""

import os
import secrets
import signal
import socket
import struct
import subprocess
import threading
import time

from local_cluster import ROOT, Cluster, Failed, answers, free_port, run, until

# Sizes of the disks of broker and store.
DISK_MIB = {"nats": 256, "s3": 512}
# A dead broker or store may hold its port for a moment longer.
START_LIMIT = 60
# A worker measures its machine before it times for a run, and finishes that measurement after a request to stop.
STOP_LIMIT = 90


class Link:
    """A port of this machine that forwards to another one. While the link is cut, it forwards nothing in either direction and reports no
    error, like a network that drops every packet: the bytes arrive once the link is whole again."""

    def __init__(self, port):
        self.target = port
        self.whole = threading.Event()
        self.whole.set()
        self.place = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.place.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                here, _ = self.place.accept()
            except OSError:
                return
            threading.Thread(target=self.join, args=(here,), daemon=True).start()

    def join(self, here):
        self.whole.wait()
        try:
            there = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            here.close()
            return
        for end in (here, there):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pair in ((here, there), (there, here)):
            threading.Thread(target=self.pass_on, args=pair, daemon=True).start()

    def pass_on(self, source, target):
        try:
            while data := source.recv(1 << 16):
                self.whole.wait()
                target.sendall(data)
        except OSError:
            pass
        self.whole.wait()
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.place.close()
        self.whole.set()


class Disk:
    """A file system of limited size if this process may mount one, otherwise an ordinary folder."""

    def __init__(self, folder, mib):
        self.folder = folder
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "flopsmith-faults", folder]
        self.can_be_full = os.getuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0

    def fill(self):
        with open(self.folder / "filler", "wb", buffering=0) as file:
            block = bytes(1 << 20)
            # Small last blocks leave no free space.
            for size in (1 << 20, 4096):
                try:
                    while file.write(block[:size]):
                        pass
                except OSError:
                    continue

    def free(self):
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self):
        if self.can_be_full:
            subprocess.run(["umount", "-l", self.folder], capture_output=True)


class Faulty(Cluster):
    """Broker, S3 store, two nodes that write programs, and two that compile, verify and time. One of the first two keeps archives (and trains);
    the other takes over when it dies."""

    NODES = ("keeper", "spare", "bench-a", "bench-b")
    KEEPERS = ("keeper", "spare")

    def __init__(self, processes, flopsmith, s3_server, trains=False):
        super().__init__(processes, flopsmith)
        self.s3_server = s3_server
        self.keeps = "archive,generator,learner" if trains else "archive,generator"
        self.secret = secrets.token_hex(8)
        self.links = {}
        self.disks = {}

    def start(self):
        folder = self.processes.folder
        # A preloaded library makes the clocks wrong.
        self.wrong_clock = folder / "clock.so"
        made = run(["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", self.wrong_clock, ROOT / "scripts" / "clock.c", "-ldl"])
        if made.returncode:
            raise Failed(f"gcc could not build the library for wrong clocks: {made.stderr}")
        self.disks = {name: Disk(folder / name, mib) for name, mib in DISK_MIB.items()}
        (folder / "s3" / "flopsmith").mkdir()
        self.ports = {name: free_port() for name in ("nats", "monitor", "s3")}
        self.config = folder / "nats.conf"
        self.config.write_text(
            f'listen: "127.0.0.1:{self.ports["nats"]}"\nhttp: "127.0.0.1:{self.ports["monitor"]}"\n'
            f'authorization {{ token: "{self.token}" }}\n'
            f'jetstream {{ store_dir: "{folder / "nats"}", sync_interval: always }}\n'
        )
        self.url = f"nats://{self.token}@127.0.0.1:{self.ports['nats']}"
        self.store = "s3://flopsmith/faults"
        self.begin("nats")
        self.begin("s3")
        for name in self.NODES:
            self.links[name] = {what: Link(self.ports[what]) for what in ("nats", "s3")}
            self.begin(name)

    def begin(self, name):
        """Starts or restarts one of the processes."""
        if name == "nats":
            self.processes.start("nats", [self.nats_server, "-c", self.config])
            until("the broker is set up", START_LIMIT, self.set_up)
        elif name == "s3":
            self.processes.start(
                "s3", [self.s3_server, "server", self.processes.folder / "s3", "--address", f"127.0.0.1:{self.ports['s3']}"],
                MINIO_ROOT_USER="flopsmith", MINIO_ROOT_PASSWORD=self.secret,
            )
            until("the store answers", START_LIMIT, lambda: answers(f"http://127.0.0.1:{self.ports['s3']}/minio/health/live") is not None)
        elif name in self.KEEPERS:
            self.worker(name, self.keeps)
        else:
            self.worker(name, "compiler,verifier,timer", "--cores", "1", "--claims", self.processes.folder / "cores")

    def worker(self, name, roles, *more):
        links = self.links[name]
        self.set_clock(name, 0)
        clock = {"LD_PRELOAD": str(self.wrong_clock), "FAULTS_CLOCK": str(self.clock(name))}
        self.processes.start(
            name, [self.flopsmith, "worker", "--nats", f"nats://{self.token}@127.0.0.1:{links['nats'].port}", "--store", self.store,
                   "--node", name, "--roles", roles, "--listen", "127.0.0.1:0", *more], **self.s3(links["s3"].port), **clock,
        )

    def s3(self, port):
        """The environment by which a process finds the store."""
        return {"AWS_ENDPOINT": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "flopsmith", "AWS_SECRET_ACCESS_KEY": self.secret}

    def clock(self, name):
        return self.processes.folder / f"{name}.clock"

    def set_clock(self, name, seconds):
        # The process maps the file, so the script changes it in place and in one write.
        file = os.open(self.clock(name), os.O_WRONLY | os.O_CREAT)
        os.pwrite(file, struct.pack("=q", seconds), 0)
        os.close(file)

    def clock_jumps(self, name, jump, seconds):
        """Sets a clock wrong by `jump` seconds; if `seconds` is given, sets it right after that time, as a time service would."""
        self.set_clock(name, jump)
        if seconds:
            time.sleep(seconds)
            self.set_clock(name, 0)

    def process(self, name):
        return next(child for called, child in self.processes.running if called == name)

    def kill(self, name):
        child = self.process(name)
        self.processes.running = [entry for entry in self.processes.running if entry[1] is not child]
        child.kill()
        child.wait(10)

    def stand_still(self, name, seconds):
        child = self.process(name)
        child.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        child.send_signal(signal.SIGCONT)

    def cut(self, name, seconds):
        for link in self.links[name].values():
            link.whole.clear()
        time.sleep(seconds)
        for link in self.links[name].values():
            link.whole.set()

    def fill(self, name, seconds):
        self.disks[name].fill()
        time.sleep(seconds)
        self.disks[name].free()
        # After a failed write, nats-server accepts nothing for that stream until a restart, and its health check does not show this. So an
        # operator who frees the disk has to restart it.
        if name == "nats":
            self.kill("nats")
            self.begin("nats")

    def alive_or_again(self):
        """Restarts nodes that have ended since their broker or store was away for too long, as an operator would; returns their names."""
        ended = [name for name in ("nats", "s3", *self.NODES) if self.process(name).poll() is not None]
        for name in ended:
            child = self.process(name)
            self.processes.running = [entry for entry in self.processes.running if entry[1] is not child]
            self.begin(name)
        return ended

    def close(self):
        for name in reversed(self.NODES):
            if any(called == name for called, _ in self.processes.running):
                self.processes.stop(name, STOP_LIMIT)
        for links in self.links.values():
            for link in links.values():
                link.close()
        for name in ("s3", "nats"):
            if any(called == name for called, _ in self.processes.running):
                self.processes.stop(name)
        for disk in self.disks.values():
            disk.close()

    def set_up(self):
        return run([self.flopsmith, "cluster", "init", "--nats", self.url]).returncode == 0


def run_of(folder):
    """The newest run under a folder."""
    runs = sorted(folder.glob("*/run.json"), key=lambda file: file.stat().st_mtime)
    if not runs:
        raise Failed(f"no run under {folder}")
    return runs[-1].parent
