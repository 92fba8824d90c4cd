#!/usr/bin/env python3
"""Compares the time of `flopsmith eval` with the bare cost of compiling the same programs, problem by problem.

    make build
    python3 scripts/bench/evaluation_cost.py [--model models/starter] [--problems dgemm,transpose] [--samples 20] [--resume] [--output FILE.json]

For each problem (by default every kernel that the repository ships) one `flopsmith eval` lets the model answer --samples times and evaluates the distinct programs
among the answers: jail, techniques, verification, timing at all workloads. --model schedule draws random programs of the schedule space instead; a problem
without one has no programs and is left out. Then gcc compiles the same distinct programs with the problem's own flags, without a jail, --jobs at a time: `eval`
evaluates one program after the other, so the default is one. The bare cost is the median of three repetitions.

The time of `eval` leaves out the model's answers and has everything after them, also the measurement of machine and reference, which does not depend on the
number of programs; `between` is the time from the end of the first program to that of the last one. Asked is that the time over all problems is at most twice the
bare cost. The script ends with code 1 if it is more, or if a problem could not be measured.

The script writes --output (JSON) after each problem, and prints a table in Markdown. Run nothing else on the machine; `eval` does not wait for a quiet one (--wait).
With --resume, finished problems of the same options and the same commit are kept.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from against_torch import cpu_model  # noqa: E402
from learning import revision  # noqa: E402
from peers.cases import ROOT, listed  # noqa: E402
from peers.tools import Missing, fresh, last_line  # noqa: E402
from service import environment, whole_number  # noqa: E402
from sigterm import ends_what_it_started  # noqa: E402
from tuners import read, say, write  # noqa: E402

# How many times as long as the bare compiler the evaluation may take.
ASKED = 2.0
# Seconds of one `flopsmith eval`, and repetitions of the bare compiler.
LIMIT, REPEATS = 2 * 3600, 3
# Options under which finished problems are kept.
SHAPE = ("model", "samples", "purpose", "jobs", "seed", "wait")
MEASURED, EMPTY, FAILED = "measured", "no programs", "failed"


def definition(folder):
    return tomllib.loads((folder / "problem.toml").read_text())


def kernels(found, wanted=()):
    """The folders of the wanted problems by name; without names, all kernels in C, by the output of `flopsmith problem list --format json`. Raises ValueError for
    unknown names, broken definitions and what is no kernel in C."""
    by_name = {entry["problem"]: entry for entry in found}
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise ValueError(f"unknown problem {', '.join(unknown)}; known are {', '.join(sorted(by_name))}")
    chosen = {}
    for name in wanted or by_name:
        entry = by_name[name]
        if entry["error"]:
            raise ValueError(f"the definition of {name} is broken: {entry['error']}")
        folder = ROOT / entry["folder"]
        if definition(folder).get("language") == "c":
            chosen[name] = folder
        elif wanted:
            raise ValueError(f"{name} is no kernel in C, which gcc could compile")
    return chosen


def evaluation(options, name, folder):
    """The command that evaluates the answers to a problem."""
    command = [options.flopsmith, "eval", options.model, "--problem", name, "--samples", options.samples, "--purpose", options.purpose, "--seed", options.seed,
               "--wait", options.wait, "--compiler", "gcc", "--threads", 1, "--output", folder, "--format", "json"]
    return [str(word) for word in command]


def compilation(of, source, built):
    """The bare command that builds a program."""
    compile_ = of["compile"]
    return ["gcc", *compile_["flags"], "-shared", "-fPIC", "-w", str(source), "-o", str(built), *(["-lm"] if "math.h" in compile_["includes"] else [])]


def heard(command, limit=LIMIT):
    """The lines that a command writes to stderr, each with the moment at which it came, begin and end, and the exit code. Raises Missing if it cannot be started or
    does not end in time."""
    lines, begun = [], time.monotonic()
    try:
        process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise Missing(f"{command[0]} could not be started: {error.strerror}") from None
    late = threading.Event()

    def end():
        late.set()
        process.terminate()

    timer = threading.Timer(limit, end)
    try:
        with process:
            try:
                timer.start()
                lines = [(time.monotonic(), line.rstrip("\n")) for line in process.stderr]
            except BaseException:
                process.terminate()
                raise
    finally:
        timer.cancel()
    if late.is_set():
        raise Missing(f"{Path(command[0]).name} did not end within {limit:g} s")
    return lines, begun, time.monotonic(), process.returncode


def times(lines, begun, ended):
    """The parts of an evaluation's time by its messages; None if no program was evaluated."""
    asked = next((at for at, line in lines if re.search(r"\d distinct programs? to evaluate for ", line)), None)
    if asked is None:
        return None
    done = [at for at, line in lines if re.match(r"\[\d+/\d+\] ", line)]
    return {"whole_seconds": ended - begun, "answering_seconds": asked - begun, "eval_seconds": ended - asked, "between_seconds": done[-1] - done[0] if done else 0.0}


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def programs(folder):
    """The distinct programs of an evaluation, in the order of their answers, and the number of answers."""
    answers = lines_of(folder / "samples.jsonl")
    return list(dict.fromkeys(answer["program"] for answer in answers if answer["program"] is not None)), len(answers)


def compiled(of, sources, folder, jobs):
    """Seconds in which gcc compiles all programs, `jobs` at a time. Wrong programs take their time, too."""
    commands = []
    for number, source in enumerate(sources):
        file = folder / f"{number}.c"
        file.write_text(source)
        commands.append(compilation(of, file, file.with_suffix(".so")))
    begun = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda command: subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False), commands))
    return time.monotonic() - begun


def measured(options, name, folder):
    """The pair of evaluation and bare compiler for a problem, with its reason if there is none."""
    work = fresh(options.work / name.replace("/", "-"))
    try:
        lines, begun, ended, code = heard(evaluation(options, name, work / "evaluation"))
    except Missing as why:
        return {"state": FAILED, "reason": str(why)}
    sources, answers = programs(work / "evaluation")
    outcomes = lines_of(work / "evaluation/outcomes.jsonl")
    if code:
        return {"state": FAILED, "reason": f"flopsmith eval ended with {code}: {last_line(chr(10).join(line for _, line in lines))}"}
    parts = times(lines, begun, ended)
    if not sources:
        return {"state": EMPTY, "reason": f"none of {answers} answers has a program"}
    if parts is None or len(outcomes) != len(sources):
        return {"state": FAILED, "reason": f"flopsmith eval evaluated {len(outcomes)} of {len(sources)} programs"}
    of = definition(folder)
    bare = [compiled(of, sources, fresh(work / "bare"), options.jobs) for _ in range(REPEATS)]
    seconds = statistics.median(bare)
    return {"state": MEASURED, "answers": answers, "programs": len(sources), "outcomes": dict(Counter(outcome["outcome"] for outcome in outcomes)), **parts,
            "bare_seconds": seconds, "bare_repeats": bare, "ratio": parts["eval_seconds"] / seconds}


def summary(results):
    """The sums over the measured problems, and whether they are as good as asked."""
    of = {name: pair for name, pair in results.items() if pair["state"] == MEASURED}
    lost = sorted(name for name, pair in results.items() if pair["state"] == FAILED)
    found = {"asked": ASKED, "problems": len(of), "failed": lost}
    for name in ("programs", "eval_seconds", "answering_seconds", "between_seconds", "bare_seconds"):
        found[name] = sum(pair[name] for pair in of.values())
    found["ratio"] = found["eval_seconds"] / found["bare_seconds"] if of else None
    # The first program of each problem is not between.
    rest = sum(pair["bare_seconds"] * (pair["programs"] - 1) / pair["programs"] for pair in of.values())
    found["between_ratio"] = found["between_seconds"] / rest if rest else None
    found["above"] = sorted(name for name, pair in of.items() if pair["ratio"] > ASKED)
    found["met"] = bool(of) and not lost and found["ratio"] <= ASKED
    return found


def table(results):
    """The lines of a table in Markdown, the judgement, and what is missing with its reason."""
    yield "| problem | answers | programs | eval, s | between, s | bare gcc, s | times |"
    yield "|---|---|---|---|---|---|---|"
    for name, pair in results.items():
        if pair["state"] == MEASURED:
            yield (f"| {name} | {pair['answers']} | {pair['programs']} | {pair['eval_seconds']:.1f} | {pair['between_seconds']:.1f} | {pair['bare_seconds']:.2f} | "
                   f"{pair['ratio']:.2f} |")
    yield ""
    of = summary(results)
    if of["ratio"] is not None:
        between = "" if of["between_ratio"] is None else f", {of['between_ratio']:.2f} times without the first program of each problem and what comes before it"
        yield (f"{'met' if of['ratio'] <= ASKED else 'MISSED'}: at most {ASKED:g} times the bare compiler; {of['ratio']:.2f} times over {of['problems']} problems and "
               f"{of['programs']} programs{between}; above at {len(of['above'])} problems.")
    for name, pair in results.items():
        if pair["state"] != MEASURED:
            yield f"- {name}: {pair['state']}: {pair['reason']}"


def code(of):
    """The exit code: 1 unless the whole is as good as asked."""
    return int(not of["met"])


def left(remaining, done):
    """How long the remaining problems take, in words, by the seconds of those that are done."""
    if not done:
        return ""
    return f"; about {max(1, round(remaining * statistics.mean(done) / 60))} minutes are left"


def shape(options):
    return {name: getattr(options, name) for name in SHAPE}


def kept(earlier, options, commit):
    """The finished problems of an earlier output, if it has the same options and commit."""
    if earlier.get("shape") != shape(options) or earlier.get("revision") != commit:
        return {}
    return {name: pair for name, pair in earlier["problems"].items() if pair["state"] != FAILED}


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="models/starter", help="as for flopsmith eval: a folder, or schedule (default: models/starter)")
    parser.add_argument("--problems", default="", help="names, with commas (default: every kernel)")
    parser.add_argument("--samples", type=whole_number(1, 10_000), default=20, help="answers to each problem (default: 20)")
    parser.add_argument("--purpose", choices=["screen", "rank", "certify"], default="rank", help="of the evaluation (default: rank)")
    parser.add_argument("--jobs", type=whole_number(1, 1024), default=1, help="programs that the bare compiler builds at a time (default: 1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wait", default="0", help="how long each evaluation waits for a quiet machine (default: 0)")
    parser.add_argument("--resume", action="store_true", help="keep finished problems of the last run")
    parser.add_argument("--flopsmith", type=Path, default=ROOT / "target/release/flopsmith")
    parser.add_argument("--work", type=Path, default=ROOT / "target/evaluation-cost", help="folder for evaluations and programs")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/evaluation-cost.json")
    options = parser.parse_args(given)
    options.work = options.work.resolve()
    # The evaluation runs in the repository, and results name no folder of this machine.
    if Path(options.model).exists():
        options.model = os.path.relpath(Path(options.model).resolve(), ROOT)
    return options


def main():
    options = arguments()
    if not options.flopsmith.is_file():
        sys.exit(f"{options.flopsmith} not found; build it: make build")
    options.flopsmith = options.flopsmith.resolve()
    if not shutil.which("gcc"):
        sys.exit("gcc not found; the bare compiler is gcc (Debian: apt-get install gcc)")
    try:
        chosen = kernels(listed(options.flopsmith), [name for name in options.problems.split(",") if name])
    except ValueError as wrong:
        sys.exit(str(wrong))
    commit = revision()
    known = kept(read(options.output), options, commit) if options.resume else {}
    results, done = {name: known[name] for name in chosen if name in known}, []
    if results:
        say(f"{len(results)} problems are kept")
    for name, folder in chosen.items():
        if name in results:
            continue
        say(f"{len(results) + 1} of {len(chosen)}: {name}{left(len(chosen) - len(results), done)}")
        begun = time.monotonic()
        results[name] = measured(options, name, folder)
        done.append(time.monotonic() - begun)
        if results[name]["state"] != MEASURED:
            say(f"{name}: {results[name]['reason']}")
        # After each problem, so that an interruption loses one at most.
        whole = {"cpu": cpu_model(), "revision": commit, "shape": shape(options), "summary": summary(results), "problems": results}
        write(options.output, whole)
    print("\n".join(table(results)))
    return code(summary(results))


if __name__ == "__main__":
    ends_what_it_started()
    sys.exit(main())
