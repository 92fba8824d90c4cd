#!/usr/bin/env python3
"""Faults on a real cluster of processes, and whether searches end as if there had been none.

    make faults                      # two hundred of them; an hour and a half on two cores
    scripts/faults.py [--faults 200] [--seed 1] [--evaluations 480] [--only kill,cut] [--json FILE]

Each search is done twice with the same seed: undisturbed, and while one fault after another befalls the cluster, at random:
- kill -9 of one of the two nodes that write programs and of which one keeps the archive (the other takes over), of one of the two that
  compile, verify and time, of the broker, of the store, or of the process that follows the run (which goes on by --resume);
- any of these stopped for 1 to 15 s;
- the network of a node cut for 1 to 30 s;
- the clock of a node off by up to ten minutes from then on, or by up to a day for some seconds (an S3 store refuses who is off by more
  than a quarter of an hour);
- the disk of broker or store full for 2 to 8 s, after which the broker is started again.
The broker syncs each message before it confirms it. The program under test is built with the feature `steady`, whose timers measure as
ever and then say numbers that follow from the program, so both searches have to try the same programs and find the same: every
sample of every step has exactly one outcome, no failure of the infrastructure, and the one that it has undisturbed. How long it takes
until the next outcome is there after the broker was started again, or after a worker was killed, is measured, too, and no other fault comes
meanwhile.

With --train these are trainings of the starter model, by the program as users have it, whose learner moves between the two keepers as
the archive does. No two trainings are the same, so each is done once, under faults: every sample has one outcome, the learner has learned
once from all samples of each step, each version of the policy follows the one before, and the trained model is there at the end."""

import argparse
import json
import random
import re
import statistics
import sys
import time
from collections import Counter

from faulty_cluster import Faulty, run_of
from local_cluster import ROOT, Failed, Processes, program, say, until

# Of one search, undisturbed or with its faults.
SEARCH_LIMIT = 1800
# Seconds to the next outcome, after the broker was started again and after a worker was killed: what that one held is given to others after
# ten, and has to be evaluated by them then.
RECOVERY_LIMITS = {"broker": 10, "worker": 15}
FIRST_LIMIT = 240
# The process that follows ends by itself, of all searches.
CLIENT_LIMIT = 5
# gcc 12 vectorizes some of the programs at -O3 so that they read beyond an array, which verification meets where the array ends at the end of a
# page: sometimes, by intention. Two searches could differ by that alone.
FLAGS = "-O2 -march=native -fopenmp"
SHAPE = (f"evaluate.flags={FLAGS}", "tasks=4", "group_size=4", "evaluate.finalists=1", "evaluate.quarantine=false")
SAMPLES_IN_STEP = 16
# Among the workers of one kind each is as likely as the other.
TARGETS = {
    "kill": ("nats", "s3", *Faulty.NODES, "client"),
    "stop": ("nats", "s3", *Faulty.NODES, "client"),
    "cut": Faulty.NODES,
    "clock": Faulty.NODES,
    "full": ("nats", "s3"),
}


class Search:
    """One search that is left to the cluster, and the process that follows it."""

    def __init__(self, cluster, name, seed, evaluations, trains):
        self.cluster = cluster
        self.runs = cluster.processes.folder / name
        self.child = None
        if trains:
            steps = -(-evaluations // SAMPLES_IN_STEP)
            self.job, more = ("train", ROOT / "examples/dgemm.toml"), ("--set", f"max_steps={steps}", "--set", "evaluate_tasks=2")
        else:
            self.job, more = ("search", "--problem", "dgemm"), ("--workload", "n=256", "--evaluations", evaluations)
        self.start(*more, "--budget", "6h", "--seed", seed, "--cluster", *(word for setting in SHAPE for word in ("--set", setting)))

    def start(self, *command):
        cluster = self.cluster
        self.child = cluster.processes.start(
            "client", [cluster.flopsmith, *self.job, *command, "--format", "json", "--nats", cluster.url, "--store", cluster.store, "--runs", self.runs],
            **cluster.s3(cluster.ports["s3"]),
        )

    def again(self):
        self.start("--resume", run_of(self.runs).name)

    def lines(self):
        """Outcomes as they stand in the run's folder. The last line may not be whole yet."""
        found = []
        for file in self.runs.glob("*/outcomes.jsonl"):
            for line in file.read_text().splitlines():
                try:
                    found.append(json.loads(line))
                except json.JSONDecodeError:
                    continue
        return found

    def read(self, name):
        return [json.loads(line) for file in self.runs.glob(f"*/{name}.jsonl") for line in file.read_text().splitlines()]

    def counted(self):
        """The steps as the archive counted them: a program that counts twice is one too many there."""
        lines = self.read("metrics")
        # Sums of the same numbers in another order differ in their last digits.
        return [{name: round(value, 6) if isinstance(value, float) else value for name, value in line.items() if name != "ended_unix_ms"} for line in lines]

    def decided(self):
        return sum(1 for _ in self.lines())

    def ended(self):
        return self.child.poll() is not None

    def forget(self):
        """The process that follows has ended; its last words."""
        processes = self.cluster.processes
        said = processes.log("client")
        processes.running = [entry for entry in processes.running if entry[0] != "client"]
        if self.child.returncode != 0:
            raise Failed(f"the search ended with {self.child.returncode}:\n{said[-3000:]}")
        objects = [line for line in said.splitlines() if line.startswith("{")]
        return json.loads(objects[-1]) if objects else {}


def name_of(identity):
    """What a candidate is in any run of its seed: step, task, sample, and which measurement."""
    return re.search(r"-(s\d+-g\d+-c\d+.*)$", identity).group(1)


def said_of(outcome):
    """What came of a program, but for what differs from run to run."""
    verdict = outcome["verdict"]
    measured = verdict.get("measurement") or {}
    return {"source": outcome["source"], "verdict": verdict.get("type"), "techniques": outcome.get("techniques"), "gflops": measured.get("gflops")}


def result(lines, wrong):
    """What came of each candidate; to `wrong` what must not be, whatever befalls a cluster."""
    found = {}
    steps, wanted = Counter(), {}
    for outcome in lines:
        candidate = outcome["candidate"]
        name = name_of(candidate["id"])
        if name in found:
            wrong.append(f"{name} was counted twice")
        if outcome["verdict"].get("type") in ("infrastructure", "unknown"):
            wrong.append(f"{name} is a failure of the infrastructure: {json.dumps(outcome['verdict'])[:300]}")
        if not candidate.get("remeasures") and not candidate.get("finalist"):
            steps[candidate["step"]] += 1
            wanted[candidate["step"]] = candidate["tasks_in_step"] * candidate["group_size"]
        found[name] = said_of(outcome)
    wrong += [f"step {step} has {count} outcomes and not {wanted[step]}" for step, count in sorted(steps.items()) if count != wanted[step]]
    wrong += [f"step {step} is missing" for step in range(max(steps, default=0)) if step not in steps]
    return found


def learned(search, summary, wrong):
    """To `wrong` what a training must not have done."""
    noted = {line["step"]: line["samples"] for line in search.read("metrics")}
    trained = [line for line in search.read("training") if line["metrics"]]
    times = Counter(line["step"] for line in trained)
    wrong += [f"step {step} was learned from {count} times" for step, count in times.items() if count != 1]
    for line in trained:
        if line["metrics"]["samples"] != noted.get(line["step"]):
            wrong.append(f"step {line['step']} was learned from {line['metrics']['samples']} samples, and there are {noted.get(line['step'])}")
    versions = [line["version"] for line in search.read("training")]
    wrong += [f"version {after} of the policy follows {before}" for before, after in zip(versions, versions[1:]) if after not in (before, before + 1)]
    if not trained:
        wrong.append("nothing was learned")
    if not summary.get("finished"):
        wrong.append("the training is not finished")
    if not list(search.runs.glob("*/model/model.safetensors")):
        wrong.append("there is no trained model")


def compared(quiet, faulty, counts):
    """What a search under faults has otherwise than the undisturbed one, and what its archive counted otherwise."""
    differences = [f"{name} is lost" for name in quiet if name not in faulty]
    differences += [f"{name} is not there undisturbed" for name in faulty if name not in quiet]
    undisturbed, disturbed = counts
    if len(undisturbed) != len(disturbed):
        differences.append(f"{len(disturbed)} steps were counted, {len(undisturbed)} undisturbed")
    differences += [f"step {a['step']} was counted otherwise: {a} undisturbed, {b} now" for a, b in zip(undisturbed, disturbed) if a != b]
    for name in quiet.keys() & faulty.keys():
        if quiet[name] != faulty[name]:
            parts = [part for part in quiet[name] if quiet[name][part] != faulty[name][part]]
            differences.append(f"{name} has another {' and '.join(parts)}: {[quiet[name][p] for p in parts if p != 'source']} undisturbed, {[faulty[name][p] for p in parts if p != 'source']} now")
    return differences


class Campaign:
    def __init__(self, cluster, arguments):
        self.cluster = cluster
        self.arguments = arguments
        self.chance = random.Random(arguments.seed)
        kinds = arguments.only.split(",") if arguments.only else list(TARGETS)
        unknown = set(kinds) - set(TARGETS)
        if unknown:
            raise Failed(f"no such kind of fault: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
        self.kinds = [kind for kind in kinds if self.possible(kind)]
        if not self.kinds:
            raise Failed("none of these faults can be made here")
        self.done = Counter()
        self.begun_again = Counter()
        self.wrong = []
        self.samples = 0
        self.searches = 0
        self.seconds = {"undisturbed": [], "with faults": []}
        self.recovery = {"broker": [], "worker": []}

    def possible(self, kind):
        if kind == "full" and not all(disk.can_be_full for disk in self.cluster.disks.values()):
            say("skipped: disks that are full, as nothing can be mounted here (by root it can)")
            return False
        return True

    def run(self):
        number = 0
        while sum(self.done.values()) < self.arguments.faults:
            seed = self.arguments.seed * 1000 + number
            if self.arguments.train:
                faulty, _ = self.search(f"faulty-{number}", seed, True)
                self.samples += len(faulty)
                self.searches += 1
                number += 1
                say(f"seed {seed}: {len(faulty)} outcomes; {sum(self.done.values())} faults in all")
                continue
            quiet, undisturbed = self.search(f"quiet-{number}", seed, False)
            faulty, disturbed = self.search(f"faulty-{number}", seed, True)
            differences = compared(quiet, faulty, (undisturbed, disturbed))
            self.wrong += [f"seed {seed}: {words}" for words in differences]
            self.samples += len(faulty)
            self.searches += 1
            number += 1
            say(f"seed {seed}: {len(quiet)} outcomes undisturbed, {len(faulty)} with faults, {len(differences)} differences; "
                f"{sum(self.done.values())} faults in all")
            for words in differences[:5]:
                say(f"    {words}")

    def search(self, name, seed, disturbed):
        search = Search(self.cluster, name, seed, self.arguments.evaluations, self.arguments.train)
        began = time.monotonic()
        until("the first outcome", FIRST_LIMIT, lambda: search.ended() or search.decided() > 0)
        waited, pause = None, time.monotonic() + self.chance.uniform(0, 4)
        while not search.ended() or (disturbed and self.goes_on(search)):
            if time.monotonic() - began > SEARCH_LIMIT:
                raise Failed(f"{name} has not ended within {SEARCH_LIMIT} s: {search.decided()} outcomes\n{self.cluster.processes.log('client')[-2000:]}")
            if waited and search.decided() > waited[1]:
                took = time.monotonic() - waited[2]
                self.recovery[waited[0]].append(took)
                if took > RECOVERY_LIMITS[waited[0]]:
                    self.wrong.append(f"seed {seed}: {took:.1f} s to the next outcome after the {waited[0]}'s end")
                waited = None
                pause = time.monotonic() + self.chance.uniform(*self.arguments.pause)
            if disturbed and not waited and time.monotonic() > pause and sum(self.done.values()) < self.arguments.faults:
                waited = self.fault(search)
                pause = time.monotonic() + self.chance.uniform(*self.arguments.pause)
            for again in self.cluster.alive_or_again():
                self.begun_again[again] += 1
            time.sleep(0.1)
        summary = search.forget()
        self.seconds["with faults" if disturbed else "undisturbed"].append(time.monotonic() - began)
        wrong = []
        found = result(search.lines(), wrong)
        if self.arguments.train:
            learned(search, summary, wrong)
        self.wrong += [f"{name}, seed {seed}: {words}" for words in wrong]
        for words in wrong[:5]:
            say(f"    {words}")
        return found, search.counted()

    def goes_on(self, search):
        """Has the process that follows ended before its time, as one does whose broker has no room? Whoever runs it resumes."""
        # Three is the infrastructure's: anything else is a fault of its own, which the end of the search says.
        if search.child.returncode != 3 or self.begun_again["client"] >= CLIENT_LIMIT or not list(search.runs.glob("*/run.json")):
            return False
        self.begun_again["client"] += 1
        processes = self.cluster.processes
        processes.running = [entry for entry in processes.running if entry[0] != "client"]
        search.again()
        return True

    def fault(self, search):
        kind = self.chance.choice(self.kinds)
        target = self.chance.choice(TARGETS[kind])
        seconds = {"kill": self.chance.uniform(0, 3), "stop": self.chance.uniform(1, 15), "cut": self.chance.uniform(1, 30),
                   "clock": self.chance.choice([0, self.chance.uniform(2, 20)]), "full": self.chance.uniform(2, 8)}[kind]
        self.done[f"{kind} {target}"] += 1
        if self.arguments.verbose:
            say(f"{kind} {target} {seconds:.1f} s, {search.decided()} outcomes")
        cluster = self.cluster
        if kind == "kill":
            killed = time.monotonic()
            cluster.kill(target)
            time.sleep(seconds)
            began = time.monotonic()
            if target == "client":
                search.again()
                return None
            cluster.begin(target)
            # The broker is back when its process runs; a worker is gone when it is killed, and what it had in hand is somebody else's then.
            kind = {"nats": "broker", "bench-a": "worker", "bench-b": "worker"}.get(target)
            return kind and (kind, search.decided(), began if kind == "broker" else killed)
        if kind == "stop":
            cluster.stand_still(target, seconds)
        elif kind == "cut":
            cluster.cut(target, seconds)
        elif kind == "clock":
            if seconds:
                cluster.clock_jumps(target, self.chance.randint(-86400, 86400), seconds)
            else:
                cluster.clock_jumps(target, self.chance.randint(-600, 600), None)
        else:
            cluster.fill(target, seconds)
        return None

    def summary(self):
        medians = {k: {"median": round(statistics.median(v), 1), "most": round(max(v), 1), "times": len(v)} for k, v in self.recovery.items() if v}
        return {
            "faults": dict(sorted(self.done.items())), "faults_in_all": sum(self.done.values()), "searches": self.searches, "outcomes": self.samples,
            "wrong": self.wrong, "begun_again_because_they_had_ended": dict(self.begun_again), "recovery_seconds": medians,
            "search_seconds_median": {k: round(statistics.median(v)) for k, v in self.seconds.items() if v},
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--evaluations", type=int, default=480, help="programs of each search")
    parser.add_argument("--pause", type=float, nargs=2, default=(1, 8), metavar=("LEAST", "MOST"), help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", action="store_true", help="trainings, each done once, in place of searches done twice")
    parser.add_argument("--only", help=f"kinds of faults, of {','.join(TARGETS)}")
    parser.add_argument("--json", help="write what was found here")
    parser.add_argument("--flopsmith", help="the program under test, built with the feature `steady` unless it trains")
    parser.add_argument("--s3-server", help="an S3 server: the example `s3_server` of the crate flopsmith-store")
    parser.add_argument("--keep", action="store_true", help="keep the folder with all logs")
    parser.add_argument("--verbose", action="store_true", help="say each fault")
    arguments = parser.parse_args()
    processes = Processes()
    cluster, course, failed = None, None, False
    try:
        cluster = Faulty(
            processes, program(arguments.flopsmith, "flopsmith", ["target/release/flopsmith" if arguments.train else "target/steady/release/flopsmith"]),
            program(arguments.s3_server, "s3_server", ["target/steady/release/examples/s3_server", "target/release/examples/s3_server"]), arguments.train,
        )
        cluster.start()
        course = Campaign(cluster, arguments)
        course.run()
    except Failed as why:
        print(f"FAIL  {why}", file=sys.stderr)
        failed = True
    finally:
        if cluster:
            cluster.close()
        processes.end(arguments.keep or failed)
    if failed:
        print(f"all logs are in {processes.folder}", file=sys.stderr)
    if course:
        found = course.summary()
        print(json.dumps(found, indent=2))
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(found, file, indent=2)
        failed = failed or bool(course.wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
