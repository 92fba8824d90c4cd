#!/usr/bin/env python3
"""Runs the batch scripts in slurm/ without Slurm, as a site would: keys, the job with broker and archive, a worker's job, and a search from
outside. Then the first job ends, and a second job starts a broker at another address. The worker has to leave the old broker, however long that
takes, and join the new one. At the end the script stops all jobs, and they have to end in order.

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
        """Writes a copy of site.env with this site's folders and port."""
        places = {"SHARED": self.shared, "BUILD": self.processes.folder / "build", "BROKER": self.processes.folder / "broker", "PORT": port, "DRAIN": 20}
        text = (SLURM / "site.env").read_text()
        for name, value in places.items():
            text, found = re.subn(rf"^{name}=.*$", f"{name}={value}", text, flags=re.M)
            if found != 1:
                raise Failed(f"slurm/site.env has {found} lines for {name}")
        self.env.write_text(text)

    def job(self, name, script, **more):
        """Starts a batch script as sbatch would."""
        return self.processes.start(name, ["bash", SLURM / script], FLOPSMITH_SITE=str(self.env), SLURMD_NODENAME=HOST, SLURM_JOB_ID=name, FLOPSMITH_ROLES="generator", **more)

    def address(self):
        file = self.shared / "address"
        return file.read_text().strip() if file.exists() else ""

    def client(self):
        keys = self.shared / "keys"
        return {"FLOPSMITH_NATS": self.address(), "FLOPSMITH_NATS_CA": str(keys / "ca.pem"), "FLOPSMITH_NATS_NKEY": str(keys / "client.nk"),
                "FLOPSMITH_STORE": str(self.shared / "store")}

    def moved(self, job, before):
        """Waits until a job writes its broker's address, which differs from the one before."""
        def elsewhere():
            self.processes.alive(job)
            return self.address() if self.address() not in ("", before) else None
        return until(f"the {job} job writes its broker's address", LIMIT, elsewhere)

    def search(self, name, *jobs):
        """Runs a search on these jobs, follows it to its end and returns its number of outcomes."""
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
        """Suspends the worker of a job that leaves its broker until the job has checked twice whether the worker has ended. The job must not
        signal it a second time: then the worker would drop its messages."""
        worker = until("the worker runs", LIMIT, lambda: children(self.processes.child(job).pid, "flopsmith"))[0]
        until("the worker leaves a broker that is gone", LIMIT, lambda: "stopping: finishing" in self.processes.log(job))
        try:
            os.kill(worker, signal.SIGSTOP)
        except ProcessLookupError:
            say("the worker had ended before it could be suspended; this check proves nothing")
            return
        try:
            looks = set()

            def looked():
                self.processes.alive(job)
                # The job sleeps between two checks.
                looks.update(children(self.processes.child(job).pid, "sleep"))
                return len(looks) > 2

            until("the job checks twice whether its worker has ended", LIMIT, looked)
            if waits(worker, signal.SIGTERM):
                raise Failed("the job signalled a slow worker a second time")
        finally:
            os.kill(worker, signal.SIGCONT)

    def ends(self, name):
        code = self.processes.stop(name, 60)
        if code != 0:
            raise Failed(f"{name} ended with {code}:\n{self.processes.log(name)[-3000:]}")


def children(parent, program):
    """The child processes of `parent` that run `program`."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # A name may contain brackets, so it ends at the last one.
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name == program and rest.split()[1] == str(parent):
            found.append(int(stat.parent.name))
    return found


def waits(process, number):
    """True if a signal is pending for a process."""
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    pending = [int(mask, 16) for mask in re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, flags=re.M)]
    return any(mask & 1 << number - 1 for mask in pending)


def course(site):
    made = run(["bash", SLURM / "keys.sh", site.env, HOST])
    if made.returncode != 0:
        raise Failed(f"keys.sh: {made.stderr}")
    # A killed job leaves such an address. A worker that starts then waits for the next broker.
    nobody = f"tls://{HOST}:1"
    (site.shared / "address").write_text(nobody)
    site.job("worker", "workers.sbatch")
    until("the worker finds no broker at the address", LIMIT, lambda: "error: " in site.processes.log("worker"))
    site.job("first", "cluster.sbatch")
    address = site.moved("first", nobody)
    # A site may start a second job before the first one has ended.
    rival = site.job("rival", "cluster.sbatch")
    until("a second broker on the same messages is refused", LIMIT, lambda: rival.poll() is not None)
    said = site.processes.log("rival")
    if site.processes.stop("rival") != 1 or "another job's broker runs on" not in said or site.address() != address:
        raise Failed(f"a second job on the messages of the first ended with {rival.returncode}:\n{said[-3000:]}")
    say(f"{site.search('one', 'first', 'worker')} outcomes under the first job")
    site.ends("first")
    if site.address():
        raise Failed("the job has ended and left its broker's address")
    say("the first job has ended in order")

    # Another port stands for another node.
    site.fill_in(free_port())
    site.job("second", "cluster.sbatch")
    site.moved("second", address)
    site.is_told_once("worker")
    say(f"{site.search('two', 'second', 'worker')} outcomes under the second job")
    # A job has to end with its broker, so that workers do not wait for it.
    pid = int((site.processes.folder / "broker" / "nats.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    second = site.processes.child("second")
    until("the second job ends with its broker", LIMIT, lambda: second.poll() is not None)
    say("the second job has ended with its broker")
    site.ends("worker")
    if site.address():
        raise Failed("the broker is dead and the job left its address")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flopsmith", help="the program under test")
    parser.add_argument("--nats-server", help="the broker")
    given = parser.parse_args()
    if not shutil.which("openssl"):
        print("skipped: the batch scripts, since openssl was not found", file=sys.stderr)
        return 0
    processes = Processes()
    failed = False
    try:
        home = clean_environment().get("FLOPSMITH_HOME", ".flopsmith")
        course(Site(processes, program(given.flopsmith, "flopsmith", ["target/release/flopsmith"]), program(given.nats_server, "nats-server", [f"{home}/bin/nats-server"])))
    except Failed as why:
        # Prints the logs before the processes end, which would add lines; on a build server the folder is gone afterwards.
        print(f"{processes.tails()}\nFAIL  {why}", file=sys.stderr)
        failed = True
    finally:
        groups = [child.pid for _, child in processes.running]
        processes.end(keep=failed)
        # A failed batch script may leave processes behind.
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
