#!/usr/bin/env python3
"""Injects faults into a real cluster of processes, and checks that searches end as without faults.

    make faults                      # two hundred faults; an hour and a half on two cores
    scripts/faults.py [--faults 200] [--seed 1] [--evaluations 480] [--only kill,cut] [--json FILE]

Each search runs twice with the same seed: undisturbed, and with one random fault after another:
- kill -9 of one of the two nodes that write programs, one of which keeps the archive (the other takes over), of one of the two nodes that
  compile, verify and time, of the broker, of the store, or of the process that follows the run (the script resumes the run by --resume);
- a stop of any of these for 1 to 15 s;
- a cut network of a node for 1 to 30 s;
- a clock of a node that is wrong by up to ten minutes from then on, or by up to a day for some seconds (an S3 store refuses clients whose clock
  is wrong by more than a quarter of an hour);
- a full disk of broker or store for 2 to 8 s, after which the script restarts the broker.
The broker syncs each message before it confirms it. The program under test is built with the feature `steady`: its timers measure as usual
and then report numbers that follow from the program alone. So both searches have to try the same programs and find the same: every sample of
every step has exactly one outcome, no failure of the infrastructure, and the same outcome as in the undisturbed search. After a restart of the
broker and after a kill of a worker, the script also measures the time to the next outcome; until then it injects no other fault.

With --train the script runs trainings of the starter model instead, by the released program. Their learner moves between the two keepers like
the archive. Trainings differ from each other, so each runs once, under faults: every sample has one outcome, the learner has trained once on
all samples of each step, each policy version follows the one before, and the trained model exists at the end."""

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

# Seconds for one search, undisturbed or with faults.
SEARCH_LIMIT = 1800
# Seconds to the next outcome after a restart of the broker and after a kill of a worker: the broker gives a dead worker's messages to others
# after ten seconds, and these still have to evaluate them.
RECOVERY_LIMITS = {"broker": 10, "worker": 15}
FIRST_LIMIT = 240
# Number of times, over all searches, that the following process may end by itself.
CLIENT_LIMIT = 5
# gcc 12 at -O3 vectorizes some of the programs so that they read beyond an array. Verification detects this only if the array ends at the end of
# a page, which it does at random, on purpose. With -O3 two searches could differ by that alone.
FLAGS = "-O2 -march=native -fopenmp"
SHAPE = (f"evaluate.flags={FLAGS}", "tasks=4", "group_size=4", "evaluate.finalists=1", "evaluate.quarantine=false")
SAMPLES_IN_STEP = 16
# Workers of one kind are equally likely.
TARGETS = {
    "kill": ("nats", "s3", *Faulty.NODES, "client"),
    "stop": ("nats", "s3", *Faulty.NODES, "client"),
    "cut": Faulty.NODES,
    "clock": Faulty.NODES,
    "full": ("nats", "s3"),
}


class Search:
    """One search that the cluster performs, and the process that follows it."""

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
        """The outcomes in the run's folder. Its last line may be incomplete."""
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
        """The steps as the archive counted them: a program that counts twice would show here."""
        lines = self.read("metrics")
        # Sums of the same numbers in different orders differ in their last digits.
        return [{name: round(value, 6) if isinstance(value, float) else value for name, value in line.items() if name != "ended_unix_ms"} for line in lines]

    def decided(self):
        return sum(1 for _ in self.lines())

    def ended(self):
        return self.child.poll() is not None

    def forget(self):
        """Forgets the following process, which has ended; returns its last JSON object."""
        processes = self.cluster.processes
        said = processes.log("client")
        processes.running = [entry for entry in processes.running if entry[0] != "client"]
        if self.child.returncode != 0:
            raise Failed(f"the search ended with {self.child.returncode}:\n{said[-3000:]}")
        objects = [line for line in said.splitlines() if line.startswith("{")]
        return json.loads(objects[-1]) if objects else {}


def name_of(identity):
    """The part of a candidate's id that all runs of a seed share: step, task, sample, and number of the measurement."""
    return re.search(r"-(s\d+-g\d+-c\d+.*)$", identity).group(1)


def said_of(outcome):
    """The parts of an outcome that do not differ from run to run."""
    verdict = outcome["verdict"]
    measured = verdict.get("measurement") or {}
    return {"source": outcome["source"], "verdict": verdict.get("type"), "techniques": outcome.get("techniques"), "gflops": measured.get("gflops")}


def result(lines, wrong):
    """The outcome of each candidate; appends to `wrong` what no fault may cause."""
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
    """Appends to `wrong` what a training must not have done."""
    noted = {line["step"]: line["samples"] for line in search.read("metrics")}
    trained = [line for line in search.read("training") if line["metrics"]]
    times = Counter(line["step"] for line in trained)
    wrong += [f"the learner trained {count} times on step {step}" for step, count in times.items() if count != 1]
    for line in trained:
        if line["metrics"]["samples"] != noted.get(line["step"]):
            wrong.append(f"step {line['step']}: the learner trained on {line['metrics']['samples']} samples, and the archive counted {noted.get(line['step'])}")
    versions = [line["version"] for line in search.read("training")]
    wrong += [f"version {after} of the policy follows {before}" for before, after in zip(versions, versions[1:]) if after not in (before, before + 1)]
    if not trained:
        wrong.append("the learner made no step")
    if not summary.get("finished"):
        wrong.append("the training is not finished")
    if not list(search.runs.glob("*/model/model.safetensors")):
        wrong.append("the trained model is missing")


def compared(quiet, faulty, counts):
    """The differences between a search under faults and the undisturbed one, in outcomes and in the counts of the archive."""
    differences = [f"{name} is lost" for name in quiet if name not in faulty]
    differences += [f"{name} exists only under faults" for name in faulty if name not in quiet]
    undisturbed, disturbed = counts
    if len(undisturbed) != len(disturbed):
        differences.append(f"the archive counted {len(disturbed)} steps, and {len(undisturbed)} undisturbed")
    differences += [f"the archive counted step {a['step']} differently: {a} undisturbed, {b} now" for a, b in zip(undisturbed, disturbed) if a != b]
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
            raise Failed(f"unknown kind of fault: {', '.join(unknown)}; the kinds are {', '.join(TARGETS)}")
        self.kinds = [kind for kind in kinds if self.possible(kind)]
        if not self.kinds:
            raise Failed("this machine cannot make any of these faults")
        self.done = Counter()
        self.begun_again = Counter()
        self.wrong = []
        self.samples = 0
        self.searches = 0
        self.seconds = {"undisturbed": [], "with faults": []}
        self.recovery = {"broker": [], "worker": []}

    def possible(self, kind):
        if kind == "full" and not all(disk.can_be_full for disk in self.cluster.disks.values()):
            say("skipped: full disks, since this process cannot mount a file system (run as root)")
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
        """Resumes the run if the following process ended early, for example because the broker's disk was full; returns whether it did."""
        # Exit code 3 means the infrastructure. Any other code is a defect, which the end of the search reports.
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
            # The time of a broker counts from the start of its process, that of a worker from its kill: from then on others have to take its work.
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
    parser.add_argument("--evaluations", type=int, default=480, help="number of programs of each search")
    parser.add_argument("--pause", type=float, nargs=2, default=(1, 8), metavar=("LEAST", "MOST"), help="seconds between two faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", action="store_true", help="run trainings (once each) instead of searches (twice each)")
    parser.add_argument("--only", help=f"inject only these kinds of faults, separated by commas: {','.join(TARGETS)}")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--flopsmith", help="the program under test, built with the feature `steady` unless it trains")
    parser.add_argument("--s3-server", help="the S3 server (the example `s3_server` of the crate flopsmith-store)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with all logs")
    parser.add_argument("--verbose", action="store_true", help="print each fault")
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
