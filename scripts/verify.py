#!/usr/bin/env python3
"""Runs every check that this machine can run, and writes docs/results/verify.json: commit, machine, and each part with its result (passed,
failed or skipped, with the reason), its commit, its seconds and its counts. Build, tests and the parts that judge measured times run first,
one after the other; the others then run several at a time (--beside). A failed part does not stop the others; the exit code is 1 if a part failed. target/verify/PART.log has the
output of a part. All parts take hours on two cores; `.ci/run` is the short form."""

import argparse
import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from devtools import BROWSERS

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULT = ROOT / "docs" / "results" / "verify.json"
LOGS = ROOT / "target" / "verify"
HOUR = 3600
CORPUS = "$(scripts/setup.sh --tool cargo-nextest) nextest run --profile whole --release --locked --workspace"


def have(*programs):
    """The reason to skip a part, if one of these programs is missing."""
    missing = [name for name in programs if shutil.which(name) is None]
    return f"{', '.join(missing)} not found" if missing else None


def have_one(*programs):
    """The reason to skip a part, if all of these programs are missing."""
    return None if any(map(shutil.which, programs)) else f"none of {', '.join(programs)} found"


def succeeds(command):
    return subprocess.run(command, shell=True, cwd=ROOT, capture_output=True).returncode == 0


def no_helm():
    there = os.environ.get("HELM") or shutil.which("helm") or (ROOT / "../shared/tools/helm/helm").exists()
    return None if there else "helm not found (set HELM to its path)"


def no_compose():
    if not succeeds("docker info"):
        return "Docker does not answer"
    if not succeeds("docker compose version || docker-compose version"):
        return "Compose not found"
    there = "docker image inspect flopsmith-worker flopsmith-trainer"
    if not succeeds(there) and (os.geteuid() != 0 or not shutil.which("debootstrap")):
        return "the images are missing (docker compose build); making them offline needs root and debootstrap"
    return None


def no_rotel():
    there = succeeds("scripts/python.sh rotel==0.0.1a15 && target/python/rotel/rotel-agent version")
    return None if there else "rotel, a collector from PyPI, could not be installed or started"


def no_packages():
    there = succeeds("python3 -m pip download --quiet --no-deps --dest target/verify/packages openevolve==0.4.1")
    return None if there else "pip cannot fetch packages from PyPI"


def no_torch():
    there = succeeds("scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6")
    return None if there else "PyTorch could not be installed from PyPI into target/torch"


def no_gpu():
    return None if succeeds("scripts/gpu_check.py --card") else "nvidia-smi reports no GPU"


def no_fuzzer():
    there = succeeds("scripts/setup.sh --tool cargo-fuzz")
    return None if there else "cargo-fuzz could not be built"


class Part:
    """A part with `beside` judges no measured times: it may run beside others of its kind, and then takes longer."""

    def __init__(self, name, what, command, lacks=lambda: None, limit=HOUR, sample=None, beside=False):
        self.name, self.what, self.command, self.lacks, self.limit = name, what, command, lacks, limit * (2 if beside else 1)
        self.sample, self.beside = sample, beside


PARTS = [
    Part("format", "formatting", "cargo fmt --all --check && cargo fmt --manifest-path fuzz/Cargo.toml --check"),
    Part("build", "the program, with libtorch and without", "make build node"),
    Part("tests", "unit and integration tests", "make test"),
    Part("lint", "clippy, warnings are errors", "make lint"),
    Part("corpus-gcc", "the whole corpus and all cheats, built by gcc", f"{CORPUS} --test corpus --success-output immediate -E 'not test(clang) and not test(/^a_sample_of_the_variants_/)'", limit=2 * HOUR, sample="all"),
    Part("variants", "all variants of the corpus, also of modules", f"{CORPUS} --test corpus --test module -E 'test(/^a_sample_of_the_variants_/) + binary(module) & test(/^variants::/)'", limit=2 * HOUR, sample="all"),
    Part("corpus-clang", "the whole corpus, built by clang", f"{CORPUS} --test corpus -E 'test(clang)'", lambda: have("clang"), sample="all"),
    Part("problems", "timed calls of all problems, and short calls that begin before the clock", f"{CORPUS} --test problems --test run --success-output immediate", sample="all"),
    Part("modules", "every test that needs PyTorch, with every shipped solution of a module", "make test-modules", no_torch, limit=2 * HOUR, sample="all"),
    # Behind the modules, whose part installs PyTorch.
    Part("harbor", "the reward of the oracle and of doing nothing for every exported task of Harbor", "make test-harbor", limit=3 * HOUR),
    Part("window", "the pages of flopsmith ui in a browser: themes, phone, keyboard, contrast, live steps; 200 ms a page and 150 MB at a million outcomes", "make test-ui ARGS=--large", lambda: have_one(*BROWSERS), limit=2 * HOUR),
    Part("long", "ten kills of a training, each resumed, and the timing precision of this machine", "make long"),
    Part("gpu", "what only a GPU runs", "make gpu-check", no_gpu),
    # The longest begin first.
    Part("fuzz", "an hour of fuzzing", "make fuzz", no_fuzzer, limit=2 * HOUR, beside=True),
    Part("faults", "sixty faults on a cluster of processes", 'make faults ARGS="--faults 60"', limit=2 * HOUR, beside=True),
    Part("compose", "a training on the compose cluster, with containers killed and cut off", "scripts/images.sh && make test-cluster", no_compose, beside=True),
    Part("parity", "models, sampling and learner compared with transformers, TRL and torch", "make parity", beside=True),
    Part("package", "the packages that users install, each with its program run from outside the repository", "make test-packages", beside=True),
    Part("slurm", "the batch scripts", "make test-slurm", beside=True),
    Part("faults-train", "faults on trainings", 'make faults ARGS="--train --faults 12"', limit=2 * HOUR, beside=True),
    Part("nests", "every loop nest of the schedule space, and programs of all affine problems", "make nests", sample="all", beside=True),
    Part("clients", "the program with tools from PyPI: trainers, searches, agents, model clients and readers", "make test-clients", no_packages, beside=True),
    Part("sanitizers", "sanitizers on all honest programs and all references", f"{CORPUS} --test sanitize", sample="all", beside=True),
    Part("docs", "the commands that README.md and docs/ show", "make test-docs", limit=3 * HOUR, beside=True),
    Part("traces", "traces at a third-party collector", "PYTHONPATH=target/python make test-traces", no_rotel, beside=True),
    Part("dashboard", "dashboard and alerts on a real Prometheus", "make test-dashboard", lambda: have("prometheus", "promtool"), beside=True),
    Part("chart", "the Helm chart", "scripts/chart.sh", no_helm, beside=True),
    Part("audit", "licences, sources and known weaknesses of the dependencies", "make audit", beside=True),
]


def output_of(command):
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True).stdout.strip()


# Results are not checked, so they can be committed while the checks run.
CHECKED = [".", ":(exclude)docs/results"]


def changed():
    """True if a checked file has uncommitted changes."""
    return bool(output_of(["git", "status", "--porcelain", "--", *CHECKED]))


def counts(text):
    """Counts of a part's tests: the runner's summary, or the sums of the result lines of Rust's test programs and our scripts."""
    found = {}

    def add(kind, number):
        found[kind] = found.get(kind, 0) + int(number)

    for line in re.findall(r"^ *Summary \[.*", text, re.M)[-1:]:
        for number, kind in re.findall(r"(\d+) (passed|failed|skipped|timed out)", line):
            add(kind, number)
    for passed, failed in re.findall(r"^test result: .*?(\d+) passed; (\d+) failed", text, re.M):
        add("passed", passed)
        add("failed", failed)
    return found


# The processes of parts, each with a session of its own, which Ctrl-C does not reach.
RUNNING = set()


# True once the parts are to end: no other process starts.
INTERRUPTED = threading.Event()
ONE = threading.Lock()


def start(command, environment, out):
    with ONE:
        if INTERRUPTED.is_set():
            return None
        child = subprocess.Popen(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        RUNNING.add(child)
        return child


def stop(child):
    # Another thread may have waited for it in the meantime.
    with contextlib.suppress(ProcessLookupError):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
    child.wait()


def stop_all():
    with ONE:
        INTERRUPTED.set()
    for child in list(RUNNING):
        stop(child)


def run(part):
    log, skips = LOGS / f"{part.name}.log", LOGS / f"{part.name}.skipped"
    skips.write_text("")
    environment = os.environ | {"FLOPSMITH_SKIPPED": str(skips)}
    if part.sample:
        environment["FLOPSMITH_SAMPLE"] = part.sample
    began = time.monotonic()
    result = {"part": part.name, "what": part.what, "result": "passed"}
    with log.open("w") as out:
        child = start(part.command, environment, out)
        if child is None:
            return result
        try:
            code = child.wait(timeout=part.limit)
            if code != 0:
                result |= {"result": "failed", "reason": f"exit code {code}"}
        except subprocess.TimeoutExpired:
            result |= {"result": "failed", "reason": f"it did not end within {part.limit} s"}
        finally:
            stop(child)
            RUNNING.discard(child)
    result["seconds"] = round(time.monotonic() - began, 1)
    text = log.read_text(errors="replace")
    if found := counts(text):
        result["counts"] = found
    left_out = sorted(set(skips.read_text().splitlines()) | set(re.findall(r"^skipped: (.*)$", text, re.M)))
    if left_out:
        result["left_out"] = left_out
    return result


def line(result):
    words = f"{result['result']:8} {result['part']:13} {result.get('seconds', 0):8.1f} s"
    found = ", ".join(f"{number} {kind}" for kind, number in result.get("counts", {}).items())
    return "  ".join(part for part in (words, found, result.get("reason", "")) if part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PART", choices=[part.name for part in PARTS], help="run only this part (repeatable; on a committed tree several verify.py may run different parts at once, but a part that measures needs the machine alone)")
    parser.add_argument("--resume", action="store_true", help="keep the parts that passed for the same commit, and run the rest")
    parser.add_argument("--beside", metavar="N", type=int, default=3, help="so many of the parts that measure nothing run at a time (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="list the parts, and run none")
    given = parser.parse_args()
    if given.beside < 1:
        parser.error("--beside needs a number of 1 or more")
    if given.list:
        for part in PARTS:
            print(f"{part.name:13} {part.what}")
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    commit = output_of(["git", "log", "-1", "--format=%H", "--", *CHECKED])
    dirty = changed()
    if dirty:
        print("warning: the tree has uncommitted changes; the result records that", file=sys.stderr)

    def earlier():
        """Results of committed trees by part, each with its commit."""
        if not (given.resume or given.only) or dirty or not RESULT.exists():
            return {}
        found = json.loads(RESULT.read_text())
        if found["uncommitted_changes"]:
            return {}
        return {result["part"]: {"commit": found["commit"]} | result for result in found["parts"]}

    def of_this_tree(found):
        return {name: result for name, result in found.items() if result["commit"] == commit}

    kept = of_this_tree(earlier())
    if given.resume and not kept and RESULT.exists():
        print("warning: the earlier results are of other commits or of uncommitted changes; all parts run", file=sys.stderr)
    results = {}

    def write():
        # Another verify.py may run other parts at the same time (--only).
        with (LOGS / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            save(earlier() | results)

    def save(all_results):
        parts = [all_results[part.name] for part in PARTS if part.name in all_results]
        machine = {"processors": os.cpu_count(), "system": platform.platform(), "machine": platform.machine()}
        # The whole has a commit only if all parts have the same one.
        one = commit if all(part["commit"] == commit for part in parts) else None
        whole = {
            "commit": one, "uncommitted_changes": dirty, "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": machine,
            "seconds": round(sum(part.get("seconds", 0) for part in parts), 1),
            "parts": parts, "not_run": [part.name for part in PARTS if part.name not in all_results],
        }
        new = RESULT.with_suffix(".new")
        new.write_text(json.dumps(whole, indent=1) + "\n")
        new.replace(RESULT)

    chosen = [part for part in PARTS if not given.only or part.name in given.only]
    open_parts = []
    for part in chosen:
        if given.resume and kept.get(part.name, {}).get("result") == "passed":
            print(line(kept[part.name]) + "  (earlier)", flush=True)
        else:
            open_parts.append(part)
    one = threading.Lock()

    def do(part):
        reason = part.lacks()
        result = {"part": part.name, "what": part.what, "result": "skipped", "reason": reason} if reason else run(part)
        with one:
            if INTERRUPTED.is_set():
                return
            results[part.name] = result | {"commit": commit}
            write()
            print(line(result), flush=True)
            if result["result"] == "failed":
                print(f"         see {LOGS.relative_to(ROOT) / part.name}.log", flush=True)

    for part in open_parts:
        if not part.beside:
            do(part)
    with concurrent.futures.ThreadPoolExecutor(given.beside) as pool:
        try:
            for done in [pool.submit(do, part) for part in open_parts if part.beside]:
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise
    # Another verify.py may have written results meanwhile.
    known = kept | of_this_tree(earlier()) | results
    failed = [name for name, result in known.items() if result["result"] == "failed"]
    print(f"{sum(r['result'] == 'passed' for r in known.values())} parts passed, {len(failed)} failed, "
          f"{sum(r['result'] == 'skipped' for r in known.values())} skipped: {RESULT.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
