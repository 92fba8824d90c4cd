#!/usr/bin/env python3
"""Compares `flopsmith search` with compilers, tuners and libraries: the same problems, the same size, the same minutes, one core.

    make build
    python3 scripts/bench/tuners.py [--problems dgemm,transpose] [--minutes 3] [--peers gcc,flopsmith] [--resume] [--quick]

Peers: gcc and clang with -O3 -march=native and clang with Polly on the plain reference, the problem's hand-written baseline, Kernel Tuner (the kernels with
parameters in scripts/bench/peers/kernels), TVM MetaSchedule, OpenBLAS and MKL, and `flopsmith search`. The packages of PyPI have pinned versions, each in a
folder of its own under target/tuners.

First each tuner has its minutes. Then `flopsmith bench` judges all programs of a problem in one command (programs for clang in a second one, directly after it):
verified on secret inputs, timed beside the same baseline, with 95 % intervals. A library is no source that `bench` could judge: it has its fastest call, by its
own clock. A tool that is missing or does not apply is named with its reason.

The script writes --output (JSON) and a plot beside it (SVG), and prints a table in Markdown. Run nothing else on the machine. With --resume, finished pairs of
problem and peer are kept: programs of the same minutes are not tuned again, and a problem whose programs have not changed is not judged again.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from peers import PEERS, TUNERS  # noqa: E402
from peers.cases import ROOT, chosen, listed, words  # noqa: E402
from peers.results import NAMES, by_own_clock, judged, plot, rows, table  # noqa: E402
from peers.tools import Missing, ended, last_line  # noqa: E402
from sigterm import ends_what_it_started  # noqa: E402

# Kernels of several kinds; `all` stands for every problem.
PROBLEMS = ("dgemm,sgemm,dgemv,dsyrk,dtrsm,transpose,conv2d,stencil2d,cholesky,lu,polybench_gemm,polybench_syrk,polybench_2mm,polybench_jacobi_2d,"
            "polybench_seidel_2d,polybench_fdtd_2d")
QUICK = "dgemm,transpose"
JUDGING = 3600


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def read(file):
    return json.loads(file.read_text()) if file.is_file() else {}


def write(file, what):
    """Writes a file at once, so that an interruption leaves the old one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(file.name + ".new")
    fresh.write_text(what if isinstance(what, str) else json.dumps(what, indent=1) + "\n")
    fresh.replace(file)


def is_kept(name, made, minutes):
    """True if an earlier result of this peer needs no repetition: it is finished, and a tuner had as much time."""
    if made.get("state") not in ("source", "timed"):
        return False
    if made["state"] == "source" and not Path(made["file"]).is_file():
        return False
    return name not in TUNERS or made.get("minutes") == minutes


def make(case, name, folder, options):
    """The result of a peer, with its reason if there is none."""
    try:
        made = PEERS[name](case, folder, options)
    except Missing as why:
        made = {"state": "skipped", "reason": str(why)}
    return made | ({"minutes": options.minutes} if name in TUNERS else {})


def commands(made):
    """The programs by compiler and flags, those of gcc and the problem's own flags first."""
    groups = {(None, None): []}
    for one in made.values():
        if one["state"] == "source":
            groups.setdefault((one.get("compiler"), one.get("flags")), []).append(one["file"])
    return groups


def bench(options, case, files, compiler, flags):
    command = [options.flopsmith, "bench", *files, "--problem", case.folder, "--purpose", options.purpose, "--format", "json", "--wait", options.wait]
    command += ["--workload", case.workload] if case.several else []
    command += ["--compiler", compiler] if compiler else []
    command += ["--flags", flags] if flags else []
    done = ended(command, limit=JUDGING)
    found = rows(done.stdout)
    if not found:
        raise Missing(f"flopsmith bench ended with {done.returncode}: {last_line(done.stderr)}")
    return found


def judge(case, made, options):
    """The pairs of a case."""
    by_command, refused = [], {}
    for (compiler, flags), files in commands(made).items():
        try:
            by_command.append(bench(options, case, files, compiler, flags) if files else {})
        except Missing as why:
            by_command.append({})
            refused |= {Path(file).stem: {"state": "failed", "reason": str(why)} for file in files}
    pairs, facts = judged(by_command)
    pairs |= refused
    for name, one in made.items():
        if one["state"] == "timed":
            pairs[name] = by_own_clock(one, facts)
        elif one["state"] != "source":
            pairs[name] = {"state": one["state"], "reason": one["reason"]}
        elif name not in pairs:
            pairs[name] = {"state": "failed", "reason": "flopsmith bench did not report it"}
        kept = ("version", "minutes", "tuning_seconds", "tried", "configuration", "core_type")
        pairs[name] |= {key: one[key] for key in kept if one.get(key) is not None}
        if one["state"] == "source":
            pairs[name]["source"] = Path(one["file"]).read_text()
    return {name: pairs[name] for name in NAMES if name in pairs}


def digest(made, options):
    """Changes if a judgement has to be repeated."""
    texts = {name: Path(one["file"]).read_text() if one["state"] == "source" else one for name, one in sorted(made.items())}
    return hashlib.sha256(json.dumps([options.purpose, texts], sort_keys=True).encode()).hexdigest()


def one_case(case, names, options, results):
    """Runs all peers of a case and judges them. `results` has the earlier cases, and gets this one."""
    folder = Path(options.work).resolve() / case.stem
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "made.json"
    earlier = read(state) if options.resume else {}
    made = {name: one for name, one in earlier.items() if is_kept(name, one, options.minutes)}
    for name in names:
        if name in made:
            continue
        say(f"{case.key}: {NAMES[name]}" + (f", {options.minutes:g} minutes" if name in TUNERS else ""))
        made[name] = make(case, name, folder, options)
        if made[name]["state"] == "skipped":
            say(f"{case.key}: {NAMES[name]} is left out: {made[name]['reason']}")
        # After each peer, so that an interruption loses one at most.
        write(state, made)
    fingerprint = digest(made, options)
    if options.resume and results.get(case.key, {}).get("digest") == fingerprint:
        return
    say(f"{case.key}: judging {sum(one['state'] == 'source' for one in made.values())} programs")
    results[case.key] = {"problem": case.name, "workload": case.workload, "params": case.params, "digest": fingerprint, "pairs": judge(case, made, options)}


def facts_of_machine():
    cpu = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), None)
    revision = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "revision": revision}


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", help=f"names, with commas, or `all` (default: {PROBLEMS})")
    parser.add_argument("--workload", help="time all problems at the workload of this name instead of each one's first")
    parser.add_argument("--minutes", type=float, help="time of each tuner for each problem (default: 3)")
    parser.add_argument("--peers", default=",".join(PEERS), help="names, with commas (default: all)")
    parser.add_argument("--quick", action="store_true", help=f"try the script: {QUICK}, half a minute for each tuner, --purpose rank")
    parser.add_argument("--resume", action="store_true", help="keep finished pairs of the last run")
    parser.add_argument("--purpose", choices=["certify", "rank"], help="of the judgement (default: certify)")
    parser.add_argument("--wait", default="2m", help="how long each judgement waits for a quiet machine")
    parser.add_argument("--flopsmith", default=ROOT / "target/release/flopsmith")
    parser.add_argument("--work", default=ROOT / "target/tuners", help="folder for programs, packages and unfinished results")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/tuners.json")
    options = parser.parse_args(given)
    options.problems = options.problems or (QUICK if options.quick else PROBLEMS)
    options.minutes = (0.5 if options.quick else 3) if options.minutes is None else options.minutes
    options.purpose = options.purpose or ("rank" if options.quick else "certify")
    options.peers = [name for name in options.peers.split(",") if name]
    unknown = [name for name in options.peers if name not in PEERS]
    if unknown:
        parser.error(f"unknown peer {', '.join(unknown)}; known are {', '.join(PEERS)}")
    if options.minutes <= 0:
        parser.error("--minutes must be positive")
    return options


def main():
    options = arguments()
    if not Path(options.flopsmith).is_file():
        sys.exit(f"{options.flopsmith} not found; build it: make build")
    known = listed(options.flopsmith)
    wanted = [entry["problem"] for entry in known] if options.problems == "all" else options.problems.split(",")
    try:
        cases = chosen(known, wanted, options.workload)
    except ValueError as wrong:
        sys.exit(str(wrong))
    kept = read(options.output) if options.resume else {}
    results = kept.get("cases", {})
    for case in cases:
        say(f"{case.key} ({words(case.params)})")
        one_case(case, options.peers, options, results)
        whole = {**facts_of_machine(), "minutes": options.minutes, "purpose": options.purpose, "cases": results}
        write(options.output, whole)
        pairs = {key: result["pairs"] for key, result in results.items()}
        write(options.output.with_suffix(".svg"), plot(pairs, f"{whole['cpu']}, one core, {options.minutes:g} minutes for each tuner"))
    print("\n".join(table({key: result["pairs"] for key, result in results.items()})))


if __name__ == "__main__":
    ends_what_it_started()
    main()
