#!/usr/bin/env python3
"""Runs the batch scripts in slurm/ as a site would, without Slurm: keys, the job with broker and archive, a job of a worker, and a search
that follows from outside. Then the first job ends, another one has the broker elsewhere, and the worker has to follow it, however long it takes to
leave. At last all are told to end, and have to do so in order.

Needs openssl, flopsmith with its harness, and nats-server."""

import argparse
import os
import pathlib
import re
import shutil
import signal
import sys

from local_cluster import ROOT, Failed, Processes, clean_environment, free_port, program, run, say, until

SLURM = ROOT / "slurm"
HOST = "127.0.0.1"
LIMIT = 90
SEARCH_LIMIT = 300


class Site:
    def __init__(self, processes, flopsmith, nats_server):
        self.processes = processes
        folder = processes.folder
        self.shared = folder / "shared"
        self.env = folder / "site.env"
        build = folder / "build" / "bin"
        build.mkdir(parents=True)
        for binary in (flopsmith, pathlib.Path(flopsmith).with_name("flopsmith-harness"), nats_server):
            (build / pathlib.Path(binary).name).symlink_to(binary)
        self.flopsmith = flopsmith
        self.fill_in(free_port())

    def fill_in(self, port):
        """A copy of site.env with this site's places."""
        places = {"SHARED": self.shared, "BUILD": self.processes.folder / "build", "BROKER": self.processes.folder / "broker", "PORT": port, "DRAIN": 20}
        text = (SLURM / "site.env").read_text()
        for name, value in places.items():
            text, found = re.subn(rf"^{name}=.*$", f"{name}={value}", text, flags=re.M)
            if found != 1:
                raise Failed(f"slurm/site.env has {found} lines for {name}")
        self.env.write_text(text)

    def job(self, name, script, **more):
        """What sbatch would start."""
        return self.processes.start(name, ["bash", SLURM / script], FLOPSMITH_SITE=str(self.env), SLURMD_NODENAME=HOST, SLURM_JOB_ID=name, FLOPSMITH_ROLES="generator", **more)

    def address(self):
        file = self.shared / "address"
        return file.read_text().strip() if file.exists() else ""

    def client(self):
        keys = self.shared / "keys"
        return {"FLOPSMITH_NATS": self.address(), "FLOPSMITH_NATS_CA": str(keys / "ca.pem"), "FLOPSMITH_NATS_NKEY": str(keys / "client.nk"),
                "FLOPSMITH_STORE": str(self.shared / "store")}

    def moved(self, job, before):
        """Waits until a job says where its broker is, which is not where it was before."""
        def elsewhere():
            self.processes.alive(job)
            return self.address() if self.address() not in ("", before) else None
        return until(f"the {job} job says where its broker is", LIMIT, elsewhere)

    def search(self, name, *jobs):
        """Leaves a search to these jobs and follows it to its end; how many outcomes it has."""
        child = self.processes.start(
            name, [self.flopsmith, "search", "--problem", "dgemm", "--workload", "n=256", "--evaluations", 16, "--budget", "10m", "--format", "json", "--cluster", "--set", "tasks=2", "--set", "group_size=4",
                   "--set", "evaluate.finalists=1", "--set", "evaluate.quarantine=false", "--runs", self.processes.folder / name], **self.client())

        def ended():
            for job in jobs:
                self.processes.alive(job)
            return child.poll() is not None

        until(f"the search {name} ends", SEARCH_LIMIT, ended)
        said = self.processes.log(name)
        if self.processes.stop(name) != 0:
            raise Failed(f"{name} ended with {child.returncode}:\n{said[-3000:]}")
        outcomes = [line for file in (self.processes.folder / name).glob("*/outcomes.jsonl") for line in file.read_text().splitlines()]
        bad = [line for line in outcomes if '"infrastructure"' in line]
        if len(outcomes) < 16 or bad:
            raise Failed(f"{name} has {len(outcomes)} outcomes, {len(bad)} of them failures of the infrastructure")
        return len(outcomes)

    def is_told_once(self, job):
        """Has the worker of a job that leaves its broker stand still for as long as the job looks twice whether it has left: told again it
        would drop what it has in hand."""
        worker = until("the worker runs", LIMIT, lambda: children(self.processes.child(job).pid, "flopsmith"))[0]
        until("the worker leaves a broker that is gone", LIMIT, lambda: "stopping: finishing" in self.processes.log(job))
        try:
            os.kill(worker, signal.SIGSTOP)
        except ProcessLookupError:
            say("the worker had left before it could be stopped, and may have been told twice")
            return
        try:
            looks = set()

            def looked():
                self.processes.alive(job)
                # Between two looks it sleeps.
                looks.update(children(self.processes.child(job).pid, "sleep"))
                return len(looks) > 2

            until("the job looks twice whether its worker has left", LIMIT, looked)
            if waits(worker, signal.SIGTERM):
                raise Failed("a worker that takes its time to leave is told a second time")
        finally:
            os.kill(worker, signal.SIGCONT)

    def ends(self, name):
        code = self.processes.stop(name, 60)
        if code != 0:
            raise Failed(f"{name} ended with {code}:\n{self.processes.log(name)[-3000:]}")


def children(parent, program):
    """The processes that `parent` has started and that run `program`."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # A name may have anything in it, so it ends with the last bracket.
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name == program and rest.split()[1] == str(parent):
            found.append(int(stat.parent.name))
    return found


def waits(process, number):
    """Was a signal sent to a process that has not taken it yet?"""
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    pending = [int(mask, 16) for mask in re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, flags=re.M)]
    return any(mask & 1 << number - 1 for mask in pending)


def course(site):
    made = run(["bash", SLURM / "keys.sh", site.env, HOST])
    if made.returncode != 0:
        raise Failed(f"keys.sh: {made.stderr}")
    # As a job leaves it that was killed. Who comes then waits for the next one.
    nobody = f"tls://{HOST}:1"
    (site.shared / "address").write_text(nobody)
    site.job("worker", "workers.sbatch")
    until("the worker finds nobody at an address", LIMIT, lambda: "error: " in site.processes.log("worker"))
    site.job("first", "cluster.sbatch")
    address = site.moved("first", nobody)
    # Queued without waiting for the first one's end, as a site may allow.
    rival = site.job("rival", "cluster.sbatch")
    until("a second broker on the same messages is refused", LIMIT, lambda: rival.poll() is not None)
    said = site.processes.log("rival")
    if site.processes.stop("rival") != 1 or "another job's broker runs on" not in said or site.address() != address:
        raise Failed(f"a second job on the messages of the first ended with {rival.returncode}:\n{said[-3000:]}")
    say(f"{site.search('one', 'first', 'worker')} outcomes under the first job")
    site.ends("first")
    if site.address():
        raise Failed("the broker's address stays where its job has ended")
    say("the first job has ended in order")

    # On another node, which here is another port.
    site.fill_in(free_port())
    site.job("second", "cluster.sbatch")
    site.moved("second", address)
    site.is_told_once("worker")
    say(f"{site.search('two', 'second', 'worker')} outcomes under the second job")
    # A broker that dies takes its job with it: nobody is to wait for it.
    pid = int((site.processes.folder / "broker" / "nats.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    second = site.processes.child("second")
    until("the second job ends with its broker", LIMIT, lambda: second.poll() is not None)
    say("the second job has ended with its broker")
    site.ends("worker")
    if site.address():
        raise Failed("the broker's address stays where it is dead")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flopsmith", help="the program under test")
    parser.add_argument("--nats-server", help="the broker")
    given = parser.parse_args()
    if not shutil.which("openssl"):
        print("skipped: the batch scripts, as there is no openssl here", file=sys.stderr)
        return 0
    processes = Processes()
    failed = False
    try:
        home = clean_environment().get("FLOPSMITH_HOME", ".flopsmith")
        course(Site(processes, program(given.flopsmith, "flopsmith", ["target/release/flopsmith"]), program(given.nats_server, "nats-server", [f"{home}/bin/nats-server"])))
    except Failed as why:
        # Before they are ended, of which they say more. Where this runs by itself nobody can look into the folder afterwards.
        print(f"{processes.tails()}\nFAIL  {why}", file=sys.stderr)
        failed = True
    finally:
        groups = [child.pid for _, child in processes.running]
        processes.end(keep=failed)
        # What a batch script left behind, where it failed.
        for group in groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
    if failed:
        print(f"all logs are in {processes.folder}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
