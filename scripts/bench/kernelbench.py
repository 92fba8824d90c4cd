#!/usr/bin/env python3
"""Compares the verdicts of `flopsmith bench` with those of KernelBench's own evaluator, on the shipped modules and on attacks.

    scripts/bench/kernelbench.py --kernelbench DIR [--python PYTHON] [--problem NAME]... [--language cpp]... [--output FILE.json]

DIR is your checkout of KernelBench, which the script reads and never changes. Each solution in `problems/modules` and each attack of a fixed
list is judged by both sides: here in the jail at all workloads, there in a process of PYTHON, without a jail, at the sizes of
`reference.py`. The attacks only give wrong or borrowed results; none touches files or the network. Without --python, the script installs
PyTorch and the packages that KernelBench's evaluator imports in target/kernelbench. Of the checkout it needs `eval.py`, `timing.py` and
`dataset.py` in `src/kernelbench`; older checkouts have `eval.py` and `utils.py` in `src`.

KernelBench's evaluator wants CUDA. Solutions in Triton and CUDA C++ are judged there only with a GPU. For inline C++ its parts are called on
the CPU as far as they go, and each row says how far that was: its `eval_kernel_against_ref`; or its loaders and its
`run_and_check_correctness`; or its loaders, seeds, conversions and tolerance in a loop of this script that compares as many trials.

The script prints a Markdown table, and writes docs/results/kernelbench.json. Interpreting Triton's kernels takes minutes for each solution:
--language cpp leaves them out. It needs `make build`."""
import argparse
import collections
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sigterm import ends_what_it_started

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "problems/modules"
CORPUS = ROOT / "crates/module/tests"
PACKAGES = ["torch==2.11.0", "numpy==2.4.6", "pydantic==2.11.7", "requests==2.32.5", "ninja==1.13.0", "setuptools==80.9.0"]
LANGUAGES = {"cpp": "C++", "cuda": "CUDA C++", "triton": "Triton"}
# Where an evaluator lies in checkouts of different age: its file, the folder that Python searches, and the module's name.
EVALUATORS = [("src/kernelbench/eval.py", "src", "kernelbench.eval"), ("src/eval.py", ".", "src.eval")]
# Functions of KernelBench's evaluator that this script calls.
NEEDED = ("load_original_model_and_inputs", "load_custom_model", "eval_kernel_against_ref", "run_and_check_correctness")
# Attacks by problem: files of the corpus, in folders by the stage that refuses them here.
ATTACKS = {
    "softmax": [
        "later/view_of_input", "later/kept_by_shape", "later/kept_by_address", "later/rounded_to_bfloat16", "later/operator_called",
        "later/operator_downgrades", "later/operator_by_pointer", "later/decoy", "later/decoy_for_a_part", "later/constant_by_two_names",
        "later/list_by_two_names", "later/state_among_numbers",
    ],
    "gated_silu": [
        "forms/wrong_gradient", "forms/zero_gradient", "forms/detached", "forms/detached_input", "forms/gradient_changes_upstream",
        "forms/strides_ignored", "forms/strides_of_upstream_ignored", "forms/aliased_input_as_memory", "forms/forward_computes",
    ],
}
SEED = 42

Case = collections.namedtuple("Case", "problem language file attack")
# `kind` is `right`, `wrong` or `none` (not judged).
Verdict = collections.namedtuple("Verdict", "kind words")


class Wrong(Exception):
    """A mistake of the user, with what to try."""


def find(folder):
    """The evaluator in a checkout."""
    folder = Path(folder)
    if not folder.is_dir():
        raise Wrong(f"{folder}: there is no such folder; clone https://github.com/ScalingIntelligence/KernelBench and name the clone")
    for file, path, module in EVALUATORS:
        if (folder / file).is_file():
            text = (folder / file).read_text(encoding="utf-8")
            missing = [name for name in NEEDED if f"def {name}(" not in text]
            if missing:
                raise Wrong(f"{folder / file} defines no {', no '.join(missing)}: this script knows no such version of KernelBench")
            commit = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True)
            known = commit.stdout.strip() if commit.returncode == 0 else None
            return {
                "path": str((folder / path).resolve()), "module": module, "file": file, "commit": known,
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
            }
    names = " nor ".join(file for file, _, _ in EVALUATORS)
    raise Wrong(f"{folder} has neither {names}; name the root of a checkout of KernelBench")


def cases(problems=(), languages=()):
    """Shipped solutions, then attacks; all of them without names."""
    known = {folder.name for folder in MODULES.iterdir()}
    for name in problems:
        if name not in known:
            raise Wrong(f"there is no module `{name}`; there are {', '.join(sorted(known))}")
    wanted = lambda problem, language: (not problems or problem in problems) and (not languages or language in languages)  # noqa: E731
    found = []
    for file in sorted(MODULES.glob("*/solution_*.py")):
        language = file.stem.removeprefix("solution_")
        if language in LANGUAGES and wanted(file.parent.name, language):
            found.append(Case(file.parent.name, language, file, None))
    for problem, names in ATTACKS.items():
        found += [Case(problem, "cpp", CORPUS / f"{name}.py", name.split("/")[1]) for name in names if wanted(problem, "cpp")]
    return found


# Our side


def ours_of(code, stdout, stderr):
    """The verdict in the output of `flopsmith bench --format json`."""
    outcome = None
    for line in stdout.splitlines():
        try:
            said = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(said, dict) and "outcome" in said:
            outcome = said
    if outcome is None:
        last = stderr.strip().splitlines()[-1:] or [f"exit code {code}"]
        return Verdict("none", f"not judged: {last[0]}")
    if outcome["outcome"] in ("measured", "verified"):
        return Verdict("right", "right")
    if outcome["outcome"] == "compiled":
        return Verdict("none", "compiled, not verified")
    return Verdict("wrong", f"refused: {outcome.get('rule') or outcome.get('fault')}")


def ours(flopsmith, case, limit):
    command = [flopsmith, "bench", case.file, "--problem", MODULES / case.problem, "--purpose", "screen", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return Verdict("none", f"not judged: more than {limit} s")
    return ours_of(done.returncode, done.stdout, done.stderr)


# Their side


def theirs_of(said):
    """The verdict in an answer of `judge`."""
    kind = {"right": "right", "wrong": "wrong", "no_compile": "wrong"}.get(said["status"], "none")
    words = {"right": "right", "wrong": "wrong", "no_compile": "does not compile"}.get(said["status"], "not judged")
    return Verdict(kind, words), "; ".join(said["notes"])


def theirs(python, evaluator, case, trials, limit):
    with tempfile.TemporaryDirectory() as build:
        job = {
            "path": evaluator["path"], "module": evaluator["module"], "reference": (MODULES / case.problem / "reference.py").read_text(),
            "source": case.file.read_text(), "language": case.language, "trials": trials, "build": build,
        }
        command = [python, Path(__file__).resolve(), "--judge"]
        # PyTorch looks for ninja on the path; that of a virtual environment lies beside its interpreter.
        beside = Path(shutil.which(python) or python).absolute().parent
        environment = {**os.environ, "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"}
        try:
            done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, timeout=limit, cwd=build, env=environment)
        except subprocess.TimeoutExpired:
            return Verdict("none", "not judged"), f"more than {limit} s"
    lines = done.stdout.strip().splitlines()
    try:
        return theirs_of(json.loads(lines[-1]))
    except (IndexError, ValueError, KeyError, TypeError):
        # A candidate that ends the process ends their evaluator, too.
        last = done.stderr.strip().splitlines()[-1:] or [""]
        return Verdict("none", "not judged"), f"the process ended with code {done.returncode}: {short(last[0])}".rstrip(": ")


def short(error):
    """An error in one line for a table."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= 120 else line[:117] + "…"


def judge(job):
    """Asks KernelBench's evaluator for a verdict. Runs in a process of its own, beside PyTorch and without a jail."""
    # This file has the name of KernelBench's package, which is a folder without a file of its own and would stand behind it.
    here = Path(__file__).resolve().parent
    sys.path[:] = [job["path"]] + [path for path in sys.path if Path(path or ".").resolve() != here]
    import torch

    evaluator = importlib.import_module(job["module"])
    backend = "triton" if job["language"] == "triton" else "cuda"
    device = 0 if torch.cuda.is_available() and job["language"] != "cpp" else "cpu"
    try:
        said = evaluator.eval_kernel_against_ref(
            job["reference"], job["source"], seed_num=SEED, num_correct_trials=job["trials"], build_dir=job["build"], device=device, backend=backend
        )
        return {"status": of_result(said), "notes": ["by its whole evaluator"]}
    except Exception as error:  # its refusal of a machine, which is what the row shows
        notes = [f"its evaluator refuses: {short(error)}"]
    if job["language"] != "cpp":
        return {"status": "none", "notes": notes}
    return by_parts(evaluator, job, notes)


def of_result(said):
    if said is None:
        return "none"
    return "right" if said.correctness else "wrong" if said.compiled else "no_compile"


def by_parts(evaluator, job, notes):
    """The parts of the evaluator that run on the CPU, in its order."""
    import torch

    precision, device, context = torch.float32, "cpu", {}

    def converted(values):
        convert = getattr(evaluator, "_process_input_tensor", None)
        return [convert(v, device, "cuda", precision) for v in values] if convert else list(values)

    try:
        model, init_inputs, inputs = evaluator.load_original_model_and_inputs(job["reference"], context)
        evaluator.set_seed(SEED)
        arguments = converted(init_inputs())
        with torch.no_grad():
            evaluator.set_seed(SEED)
            original = model(*arguments)
    except Exception as error:
        return {"status": "none", "notes": [*notes, f"the reference fails there: {short(error)}"]}
    try:
        custom = evaluator.load_custom_model(job["source"], context, job["build"])
    except Exception as error:
        return {"status": "no_compile", "notes": [*notes, short(error)]}
    if custom is None:
        return {"status": "no_compile", "notes": notes}
    try:
        with torch.no_grad():
            evaluator.set_seed(SEED)
            custom = custom(*arguments)
            original, custom = (each.to(device=device, dtype=precision) for each in (original, custom))
    except Exception as error:
        return {"status": "wrong", "notes": [*notes, short(error)]}
    try:
        said = evaluator.run_and_check_correctness(
            original, custom, inputs, metadata={}, num_correct_trials=job["trials"], seed=SEED, device=device, backend="cuda", precision=precision
        )
        return {"status": of_result(said), "notes": [*notes, "by its loaders and its comparison"]}
    except Exception as error:
        notes = [*notes, f"its comparison refuses: {short(error)}", "by its loaders, seeds, conversions and tolerance"]
    tolerance = getattr(evaluator, "get_tolerance_for_precision", lambda _: 1e-2)(precision)
    torch.manual_seed(SEED)
    seeds = [int(seed) for seed in torch.randint(2**32 - 1, (job["trials"],))]
    for trial, seed in enumerate(seeds):
        try:
            with torch.no_grad():
                evaluator.set_seed(seed)
                given = converted(inputs())
                expected = original(*given)
        except Exception as error:
            return {"status": "none", "notes": [*notes, f"the reference fails there: {short(error)}"]}
        try:
            with torch.no_grad():
                found = custom(*given)
                same = expected.shape == found.shape and torch.allclose(expected, found, atol=tolerance, rtol=tolerance)
        except Exception as error:
            return {"status": "wrong", "notes": [*notes, short(error)]}
        if not same:
            return {"status": "wrong", "notes": [*notes, f"trial {trial + 1} of {job['trials']} differs"]}
    return {"status": "right", "notes": notes}


# Both


def row(case, here, there, how):
    fooled = case.attack is not None and there.kind == "right"
    return {
        "problem": case.problem, "language": LANGUAGES[case.language], "attack": case.attack, "ours": here.words, "theirs": there.words,
        "alike": here.kind == there.kind if "none" not in (here.kind, there.kind) else None, "fooled": fooled, "note": how,
    }


def table(rows):
    """The lines of a Markdown table and of its summary."""
    yield "| problem | language | ours | theirs | note |"
    yield "|---|---|---|---|---|"
    for one in rows:
        name = one["problem"] if one["attack"] is None else f"{one['problem']}, attack `{one['attack']}`"
        note = "; ".join(part for part in ("**fooled**" if one["fooled"] else "", one["note"]) if part)
        yield f"| {name} | {one['language']} | {one['ours']} | {one['theirs']} | {note} |".replace("  |", " |")
    solutions, attacks = ([r for r in rows if (r["attack"] is not None) == wanted] for wanted in (False, True))
    judged = [r for r in solutions if r["alike"] is not None]
    yield ""
    yield (
        f"{sum(r['alike'] for r in judged)} of {len(judged)} solutions that both sides judge have the same verdict; {len(solutions) - len(judged)} more"
        f" are not judged by both. {sum(r['fooled'] for r in attacks)} of {len(attacks)} attacks fool KernelBench's evaluator, and"
        f" {sum(r['ours'] == 'right' for r in attacks)} this one."
    )


def write(output, evaluator, trials, rows):
    """Writes what is known so far: a run takes hours, and each row shall outlive the next."""
    known = {"kernelbench": {key: evaluator[key] for key in ("file", "commit", "sha256")}, "trials": trials, "rows": rows}
    beside = output.with_name(output.name + ".part")
    beside.write_text(json.dumps(known, indent=1) + "\n")
    os.replace(beside, output)


def interpreter(named):
    if named is not None:
        # Both sides run in folders of their own.
        return str(Path(named).absolute()) if os.sep in named else named
    print("installing PyTorch and the packages of KernelBench's evaluator in target/kernelbench", file=sys.stderr)
    command = [ROOT / "scripts/python.sh", "--venv", "target/kernelbench", *PACKAGES]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Wrong("the packages cannot be installed; name an interpreter that has them: --python PYTHON")
    return done.stdout.strip()


def arguments(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernelbench", required=True, type=Path, metavar="DIR", help="your checkout of KernelBench")
    parser.add_argument("--python", metavar="PYTHON", help=f"an interpreter with {', '.join(p.split('==')[0] for p in PACKAGES)}")
    parser.add_argument("--flopsmith", type=Path, default=ROOT / "target/release/flopsmith", metavar="FILE", help="the program, built already")
    parser.add_argument("--problem", action="append", default=[], metavar="NAME", help="only this module; may come several times")
    parser.add_argument("--language", action="append", default=[], choices=LANGUAGES, help="only this language; may come several times")
    parser.add_argument("--trials", type=int, default=5, metavar="N", help="inputs for each candidate in KernelBench's evaluator")
    parser.add_argument("--timeout", type=int, default=3600, metavar="SECONDS", help="longest time of one side for one candidate")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/results/kernelbench.json", metavar="FILE")
    return parser.parse_args(given)


def main(given):
    given = arguments(given)
    try:
        evaluator, chosen = find(given.kernelbench), cases(given.problem, given.language)
        if not chosen:
            raise Wrong("no solution and no attack has these names and languages; leave out --problem or --language")
        if not given.flopsmith.is_file():
            raise Wrong(f"{given.flopsmith}: there is no such file; run `make build`, or name the program: --flopsmith FILE")
        if not given.output.absolute().parent.is_dir():
            raise Wrong(f"{given.output}: there is no such folder; make it, or name another file: --output FILE")
        if given.trials < 1 or given.timeout < 1:
            raise Wrong("--trials and --timeout must be at least 1")
        python = interpreter(given.python)
    except Wrong as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    rows = []
    for case in chosen:
        print(f"{case.problem}: {case.file.name}…", file=sys.stderr)
        here = ours(given.flopsmith.absolute(), case, given.timeout)
        rows.append(row(case, here, *theirs(python, evaluator, case, given.trials, given.timeout)))
        write(given.output, evaluator, given.trials, rows)
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    ends_what_it_started()
    if sys.argv[1:] == ["--judge"]:
        # KernelBench's evaluator and candidates print to standard output, too.
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        answers.write(json.dumps(judge(json.load(sys.stdin))) + "\n")
        answers.flush()
        # Threads that a candidate has left running do not hold this process.
        os._exit(0)
    sys.exit(main(sys.argv[1:]))
