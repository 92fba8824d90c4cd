#!/usr/bin/env python3
"""Measures modules of PyTorch on a machine without a GPU: what an evaluation costs, how well it repeats, and how the shipped C++ solutions compare.

    make build
    scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6
    python3 scripts/bench/modules.py [--only PART]... [--problem NAME]... [--repeats N] [--json FILE] [--resume]

Four parts run one after the other:

overhead  The time of a candidate that no compiler builds, above that of its own timed calls. Asked is at most 1.5 s. The candidate is the module's own
          `Model` under the name `ModelNew`. No shipped problem permits that, so the part takes copies of problems with `permit_torch = true`. The time
          runs from the line "evaluating FILE" to the outcome, at all workloads, against both baselines. It includes the source check, a look of 0.16 s
          at the machine, verification, fresh inputs, and comparison. The first candidate of a command starts the processes and TorchInductor; it is
          shown apart. Outcomes have no sum of calls: the script reckons it from rounds, seconds of a call, and the planned calls of a burst. That sum
          leaves out calls of verification, so the overhead is rather too large. A second figure also takes off the timed calls of the baselines.
compile   The field `compile_seconds` of each shipped C++ solution (jail, g++, audit of the object) against the same g++ command without a jail, with the
          precompiled header of the same cache. Asked is at most 1.3 times over all solutions. The problems are copies with the eager baseline alone, and
          the cache is one of this script: the first run precompiles PyTorch's headers in a minute or two. `flopsmith bench` keeps g++ off the timed core;
          the bare command may use all cores.
self      Two self-ratios by `flopsmith bench --purpose rank`, each of copies of one file at the first workload beside the eager module. Asked is a ratio
          within 1 % in 95 of 100. `itself`: the candidate is the reference, as in `overhead`, so that its speedup is the ratio. `copies`: the ratio of
          the speedups of one copy of the C++ solution and the next; it has the errors of two measurements.
versus    `flopsmith bench --purpose certify` of each shipped C++ solution at all workloads: its ratios to TorchInductor and to the eager module. Asked is
          that at least 8 solutions are faster than TorchInductor, by the lower ends of their intervals.

The script prints rows for the table of docs/results/README.md, then a table for each part. It writes --json after each step. With --resume, it keeps the
finished steps of the same commit, processor and PyTorch; without, only those of parts that --only leaves out. It ends with code 1 if a figure is not as asked or
a step failed. All parts take an hour or more; `--problem softmax --repeats 1` tries each of them once. Run nothing else on the machine.
"""
import argparse
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from against_torch import cpu_model  # noqa: E402
from evaluation_cost import left  # noqa: E402
from learning import revision  # noqa: E402
from module_parts import PARTS, RUN, steps  # noqa: E402
from module_parts.compiler import COMPILER, probed  # noqa: E402
from module_parts.overhead import PROBLEMS as OVERHEAD_PROBLEMS  # noqa: E402
from module_parts.results import MEASURED, summary, table  # noqa: E402
from module_parts.self_ratio import PROBLEMS as SELF_PROBLEMS  # noqa: E402
from peers.cases import ROOT  # noqa: E402
from peers.tools import Missing  # noqa: E402
from service import whole_number  # noqa: E402
from sigterm import ends_what_it_started  # noqa: E402
from tuners import read, say, write  # noqa: E402


def facts(of):
    """The machine and the interpreter that results depend on."""
    return {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "revision": revision(), **{key: of[key] for key in ("python", "torch", "capability")}}


def kept(earlier, options, now):
    """The results of an earlier run by parts that stay: of the same facts, and without --resume only those of other parts."""
    if any(earlier.get(key) != value for key, value in now.items()):
        return {}
    return {part: results for part, results in earlier.get("parts", {}).items() if options.resume or part not in options.only}


def is_finished(one, repeats):
    return one.get("state") == MEASURED and one.get("repeats") == repeats


def run_part(options, part, results, store):
    """Measures the steps of a part that are not finished; `results` gets each. Steps of other problems stay."""
    wanted, repeats, done = steps(part, options.problem), options.repeats or PARTS[part], []
    remaining = [name for name in wanted if not is_finished(results.get(name, {}), repeats)]
    if len(remaining) < len(wanted):
        say(f"{part}: {len(wanted) - len(remaining)} steps are kept")
    for at, name in enumerate(remaining):
        say(f"{part}, {at + 1} of {len(remaining)}: {name}{left(len(remaining) - at, done)}")
        earlier, begun = results.get(name, {}), time.monotonic()

        def keep(one, name=name):
            results[name] = one
            store()

        try:
            made = RUN[part](options, *wanted[name], repeats, earlier, keep)
            keep(made | {"state": MEASURED, "repeats": repeats})
        except Missing as why:
            # Earlier measurements stay, for --resume.
            keep(results.get(name, {}) | {"state": "failed", "reason": str(why)})
            say(f"{name}: {why}")
        done.append(time.monotonic() - begun)


def code(parts):
    """The exit code: 1 if a part is not as asked, or a step of it failed."""
    return int(any(summary(part, results)["met"] is False for part, results in parts.items()))


def interpreter():
    """The interpreter that the product finds in the repository."""
    beside = ROOT / "target/torch/bin/python"
    return os.environ.get("FLOPSMITH_PYTHON") or (str(beside) if beside.exists() else "python3")


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(PARTS), metavar="PART", help=f"only this part ({', '.join(PARTS)}); may come several times")
    parser.add_argument("--problem", action="append", default=[], metavar="NAME", help="only this module, e.g. softmax; may come several times (default: those with "
                        f"a C++ solution; {', '.join(OVERHEAD_PROBLEMS)} for overhead; {', '.join(SELF_PROBLEMS)} for self)")
    parser.add_argument("--repeats", type=whole_number(1, 10_000), metavar="N", help="candidates of overhead besides the first, builds of each solution by each side, "
                        f"self-ratios of each kind, certifications of each solution (default: {', '.join(f'{part} {number}' for part, number in PARTS.items())})")
    parser.add_argument("--resume", action="store_true", help="keep finished steps of the last run, and go on with an unfinished one")
    parser.add_argument("--wait", default="2m", metavar="TIME", help="how long a command of self or versus waits for a quiet machine (default: 2m)")
    parser.add_argument("--python", default=interpreter(), help="an interpreter with PyTorch (default: FLOPSMITH_PYTHON, or that of target/torch, or python3)")
    parser.add_argument("--flopsmith", type=Path, default=ROOT / "target/release/flopsmith", metavar="FILE")
    parser.add_argument("--work", type=Path, default=ROOT / "target/bench-modules", metavar="FOLDER", help="for copies of problems and the precompiled headers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="results (default: results.json in --work)")
    options = parser.parse_args(given)
    # In the order of the parts, each once.
    options.only = [part for part in PARTS if not options.only or part in options.only]
    options.work = options.work.resolve()
    options.json = options.json or options.work / "results.json"
    # The product runs in the repository. A virtual environment is known by the link that is its interpreter.
    options.python = str(Path(options.python).absolute()) if os.sep in options.python else options.python
    return options


def main(given=None):
    options = arguments(given)
    if not options.flopsmith.is_file():
        sys.exit(f"{options.flopsmith} not found; build it: make build")
    options.flopsmith = options.flopsmith.resolve()
    if "compile" in options.only and not shutil.which(COMPILER):
        sys.exit(f"{COMPILER} not found; the compile stage is that of g++ (Debian: apt-get install g++)")
    try:
        for part in options.only:
            steps(part, options.problem)
        # Before anything takes minutes.
        of = probed(options.python)
    except (ValueError, Missing) as wrong:
        sys.exit(str(wrong))
    now, earlier = facts(of), read(options.json)
    parts = kept(earlier, options, now)
    if options.resume and earlier and not parts:
        say(f"nothing is kept: {options.json} has nothing of this commit, machine and PyTorch")
    # Parts that are kept stand in their usual order.
    parts = {part: parts.get(part, {}) for part in PARTS if part in parts or part in options.only}

    def whole():
        return now | {"summary": {part: summary(part, results) for part, results in parts.items()}, "parts": parts}

    for part in options.only:
        # After each step, so that an interruption loses one at most.
        run_part(options, part, parts[part], lambda: write(options.json, whole()))
    print("\n".join(table(whole())))
    say(f"results are in {options.json}")
    return code({part: parts[part] for part in options.only})


if __name__ == "__main__":
    ends_what_it_started()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted; the same command with --resume goes on")
        sys.exit(130)
