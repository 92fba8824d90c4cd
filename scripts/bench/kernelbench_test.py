#!/usr/bin/env python3
"""Tests of kernelbench.py with small stand-ins for PyTorch, KernelBench's evaluator and `flopsmith`."""
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import kernelbench  # noqa: E402
from kernelbench import ATTACKS, CORPUS, MODULES, Case, Verdict, Wrong, cases, find, main, ours_of, row, short, table, theirs, theirs_of  # noqa: E402
from rust_style import run as run_all  # noqa: E402

TORCH = """
import contextlib
float32 = "float32"
no_grad = contextlib.nullcontext
class cuda:
    is_available = staticmethod(lambda: False)
class Number(float):
    shape = ()
def manual_seed(seed):
    pass
def randint(high, shape):
    return range(shape[0])
def allclose(a, b, atol, rtol):
    return abs(a - b) <= atol + rtol * abs(b)
"""
EVALUATOR = """
import torch
seeds = []
def set_seed(seed):
    seeds.append(seed)
def load_original_model_and_inputs(source, context):
    exec(source, context)
    return context["Model"], context["get_init_inputs"], context["get_inputs"]
def load_custom_model(source, context, build_directory=None):
    try:
        compile(source, "<string>", "exec")
    except SyntaxError:
        return None
    exec(source, context)
    return context["ModelNew"]
def get_tolerance_for_precision(precision):
    return 1e-4
def eval_kernel_against_ref(original_model_src, custom_model_src, seed_num=42, num_correct_trials=1, build_dir=None, device=None, backend="cuda"):
    assert torch.cuda.is_available(), "CUDA is not | available"
def run_and_check_correctness(*models, **named):
    raise RuntimeError("no driver")
"""
REFERENCE = """
import torch
class Model:
    def to(self, **_):
        return self
    def __call__(self, x):
        return torch.Number(2 * x)
calls = []
def get_inputs():
    calls.append(1)
    return [torch.Number(len(calls))]
def get_init_inputs():
    return []
"""
RIGHT = "print('noise')\nclass ModelNew(Model):\n    def __call__(self, x):\n        return torch.Number(x + x)\n"


def checkout(folder, text=EVALUATOR, at="src/kernelbench/eval.py"):
    file = folder / "checkout" / at
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return folder / "checkout"


@contextlib.contextmanager
def world(folder):
    """PyTorch's stand-in, and one module `twice` instead of the shipped ones."""
    (folder / "torch").mkdir()
    (folder / "torch/__init__.py").write_text(TORCH)
    twice, corpus = folder / "modules/twice", folder / "corpus/later"
    for made in (twice, corpus):
        made.mkdir(parents=True)
    (twice / "reference.py").write_text(REFERENCE)
    (twice / "solution_cpp.py").write_text(RIGHT)
    (twice / "solution_triton.py").write_text(RIGHT)
    (corpus / "constant.py").write_text(RIGHT.replace("x + x", "2.0"))
    (corpus / "copied.py").write_text(RIGHT)
    replaced = {"MODULES": folder / "modules", "CORPUS": folder / "corpus", "ATTACKS": {"twice": ["later/constant", "later/copied"]}}
    with mock.patch.multiple(kernelbench, **replaced), mock.patch.dict(os.environ, PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1"):
        yield


def judged(folder, source, evaluator=EVALUATOR, language="cpp"):
    file = folder / "candidate.py"
    file.write_text(source)
    with world(folder):
        found = find(checkout(folder, evaluator))
        return theirs(sys.executable, found, Case("twice", language, file, None), 3, 60)


def refused(call, *parts):
    try:
        call()
    except Wrong as error:
        assert all(part in str(error) for part in parts), error
        return
    raise AssertionError("it was accepted")


def a_wrong_folder_is_named_with_what_to_try(folder):
    refused(lambda: find(folder / "none"), "no such folder", "clone")
    refused(lambda: find(folder), "src/kernelbench/eval.py nor src/eval.py", "root of a checkout")
    old = find(checkout(folder, at="src/eval.py"))
    assert (old["module"], old["file"]) == ("src.eval", "src/eval.py") and old["path"].endswith("/checkout"), old
    found = find(checkout(folder))
    assert found["module"] == "kernelbench.eval" and found["path"].endswith("/checkout/src") and len(found["sha256"]) == 64, found


def an_unknown_version_is_refused(folder):
    text = EVALUATOR.replace("def load_custom_model(", "def load_model(")
    refused(lambda: find(checkout(folder, text)), "defines no load_custom_model", "version")


def every_shipped_solution_and_attack_is_a_case(_folder):
    found = cases()
    attacks = [case for case in found if case.attack]
    assert len(attacks) == sum(len(names) for names in ATTACKS.values()) >= 20
    for case in found:
        assert case.file.is_file(), case
    for case in attacks:
        first = case.file.read_text().split("\n")[0]
        assert first.startswith("# expect: ") and first != "# expect: verified", case
    solutions = {case.file for case in found if not case.attack}
    assert solutions == set(MODULES.glob("*/solution_*.py")) and CORPUS.is_dir()
    # A name or a language leaves out the others.
    assert {case.problem for case in cases(["softmax"])} == {"softmax"}
    assert {case.language for case in cases(languages=["triton"])} == {"triton"}
    refused(lambda: cases(["sotfmax"]), "`sotfmax`", "softmax")


def our_verdict_is_read_from_the_output(_folder):
    say = json.dumps
    assert ours_of(0, "words\n" + say({"outcome": "measured", "speedup": 2}), "") == Verdict("right", "right")
    assert ours_of(0, say({"outcome": "verified"}), "").kind == "right"
    assert ours_of(1, say({"outcome": "refused", "fault": "wrong_result", "rule": None}), "").words == "refused: wrong_result"
    assert ours_of(1, say({"outcome": "refused", "fault": "skipped_work", "rule": "decoy"}), "").words == "refused: decoy"
    assert ours_of(3, say({"outcome": "compiled"}), "") == Verdict("none", "compiled, not verified")
    assert ours_of(3, "", "first\nerror: no PyTorch\n") == Verdict("none", "not judged: error: no PyTorch")
    assert ours_of(3, "", "").words == "not judged: exit code 3"


def their_words_are_few(_folder):
    assert theirs_of({"status": "no_compile", "notes": ["a", "b"]}) == (Verdict("wrong", "does not compile"), "a; b")
    assert theirs_of({"status": "none", "notes": []}) == (Verdict("none", "not judged"), "")
    assert short(ValueError("a | b\n  c")) == "ValueError: a / b c"
    assert len(short("x" * 500)) == 118


def their_parts_judge_where_their_evaluator_refuses(folder):
    verdict, how = judged(folder, RIGHT)
    assert verdict == Verdict("right", "right"), how
    for part in ("its evaluator refuses: AssertionError: CUDA is not / available", "its comparison refuses: RuntimeError: no driver", "tolerance"):
        assert part in how, how


def a_wrong_trial_is_named(folder):
    verdict, how = judged(folder, RIGHT.replace("x + x", "2.0"))
    # The first of the three inputs is 1.
    assert verdict.words == "wrong" and "trial 2 of 3 differs" in how, how


def a_candidate_that_fails_is_wrong(folder):
    verdict, how = judged(folder, RIGHT.replace("x + x", "none"))
    assert verdict.words == "wrong" and "NameError" in how, how


def a_candidate_that_cannot_be_loaded_does_not_compile(folder):
    verdict, _ = judged(folder, "class ModelNew(:")
    assert verdict.words == "does not compile"


def a_candidate_that_ends_the_process_is_not_judged(folder):
    verdict, how = judged(folder, "import os\nos._exit(7)\n")
    assert verdict == Verdict("none", "not judged") and "code 7" in how, how


def their_comparison_decides_where_it_runs(folder):
    says = "    import types\n    return types.SimpleNamespace(compiled=True, correctness=False)\n"
    verdict, how = judged(folder, RIGHT, EVALUATOR.replace('    raise RuntimeError("no driver")\n', says))
    assert verdict.words == "wrong" and "its loaders and its comparison" in how, how


def their_whole_evaluator_decides_where_it_runs(folder):
    says = "    import types\n    return types.SimpleNamespace(compiled=True, correctness=device == 'cpu')\n"
    begin = EVALUATOR.index("    assert torch.cuda")
    end = EVALUATOR.index("def run_and_check")
    verdict, how = judged(folder, "none", EVALUATOR[:begin] + says + EVALUATOR[end:])
    assert verdict.words == "right" and how == "by its whole evaluator", how


def triton_is_not_judged_without_cuda(folder):
    verdict, how = judged(folder, RIGHT, language="triton")
    assert verdict.words == "not judged" and how.startswith("its evaluator refuses"), how


def the_table_says_where_theirs_is_fooled(_folder):
    right, wrong, none = Verdict("right", "right"), Verdict("wrong", "refused: wrong_result"), Verdict("none", "not judged")
    rows = [
        row(Case("softmax", "cpp", None, None), right, right, "how"),
        row(Case("softmax", "triton", None, None), right, none, ""),
        row(Case("argmax", "cpp", None, None), right, Verdict("wrong", "wrong"), "how"),
        row(Case("softmax", "cpp", None, "kept"), wrong, right, "how"),
        row(Case("softmax", "cpp", None, "lazy"), wrong, Verdict("wrong", "wrong"), "how"),
    ]
    lines = list(table(rows))
    assert lines[2] == "| softmax | C++ | right | right | how |"
    assert lines[3] == "| softmax | Triton | right | not judged | |"
    assert lines[5] == "| softmax, attack `kept` | C++ | refused: wrong_result | right | **fooled**; how |"
    assert [one["alike"] for one in rows] == [True, None, False, False, True]
    assert lines[-1].startswith("1 of 2 solutions"), lines[-1]
    assert "1 more" in lines[-1] and "1 of 2 attacks fool" in lines[-1] and lines[-1].endswith("and 0 this one."), lines[-1]


def said(given):
    """The exit code and both outputs of a call."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(part) for part in given])
    return code, out.getvalue(), err.getvalue()


def a_run_prints_a_table_and_writes_its_rows(folder):
    program = folder / "flopsmith"
    program.write_text("#!/bin/sh\ncase $2 in *corpus*) echo '{\"outcome\": \"refused\", \"rule\": \"decoy\"}'; exit 1 ;; esac\necho '{\"outcome\": \"measured\"}'\n")
    program.chmod(0o755)
    output = folder / "rows.json"
    with world(folder):
        given = ["--kernelbench", checkout(folder), "--python", sys.executable, "--flopsmith", program, "--output", output, "--trials", 2]
        code, out, err = said(given)
        assert code == 0, err
        few, _, _ = said([*given, "--language", "triton"])
        assert few == 0 and len(json.loads(output.read_text())["rows"]) == 1
        code, out, err = said(given)
    kept = json.loads(output.read_text())
    assert kept["trials"] == 2 and kept["kernelbench"]["file"] == "src/kernelbench/eval.py" and "path" not in kept["kernelbench"], kept
    found = [(one["attack"], one["language"], one["ours"], one["theirs"], one["fooled"]) for one in kept["rows"]]
    assert found == [
        (None, "C++", "right", "right", False), (None, "Triton", "right", "not judged", False),
        ("constant", "C++", "refused: decoy", "wrong", False), ("copied", "C++", "refused: decoy", "right", True),
    ], found
    assert "1 of 2 attacks fool KernelBench's evaluator, and 0 this one." in out, out
    assert not list(folder.glob("rows.json.*"))


def mistakes_end_with_code_2(folder):
    place = checkout(folder)
    for given, part in [
        (["--kernelbench", folder / "none"], "no such folder"),
        (["--kernelbench", place, "--flopsmith", folder / "none"], "make build"),
        (["--kernelbench", place, "--problem", "none"], "there is no module `none`"),
        (["--kernelbench", place, "--problem", "conv2d", "--language", "cuda"], "leave out --problem"),
        (["--kernelbench", place, "--flopsmith", __file__, "--output", folder / "none/rows.json"], "--output FILE"),
        (["--kernelbench", place, "--flopsmith", __file__, "--trials", 0], "at least 1"),
    ]:
        code, out, err = said(given)
        assert code == 2 and out == "" and err.startswith("error: ") and part in err, (code, out, err)


def the_help_names_the_evaluators_files(_folder):
    script = Path(__file__).with_name("kernelbench.py")
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "timing.py" in done.stdout and "--language" in done.stdout, done.stderr


if __name__ == "__main__":
    sys.exit(
        run_all(
            "kernelbench_test",
            [
                a_wrong_folder_is_named_with_what_to_try, an_unknown_version_is_refused, every_shipped_solution_and_attack_is_a_case,
                our_verdict_is_read_from_the_output, their_words_are_few, their_parts_judge_where_their_evaluator_refuses, a_wrong_trial_is_named,
                a_candidate_that_fails_is_wrong, a_candidate_that_cannot_be_loaded_does_not_compile,
                a_candidate_that_ends_the_process_is_not_judged, their_comparison_decides_where_it_runs,
                their_whole_evaluator_decides_where_it_runs, triton_is_not_judged_without_cuda, the_table_says_where_theirs_is_fooled,
                a_run_prints_a_table_and_writes_its_rows, mistakes_end_with_code_2, the_help_names_the_evaluators_files,
            ],
        )
    )
