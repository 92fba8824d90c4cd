#!/usr/bin/env python3
"""Tests of torch_tests.py with a command in place of the tests."""
import contextlib
import io
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import torch_tests  # noqa: E402
from rust_style import run as run_all  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
NO_TORCH = "modules::a_test: no Python with PyTorch was found (python3: No module named 'torch'); modules need Python with PyTorch: run `scripts/python.sh`"
NO_NVCC = "modules::a_test: no nvcc was found; CUDA C++ needs nvcc and a PyTorch that was built with CUDA: run `scripts/cuda.sh` in the repository"


def judged(place, command):
    """The exit code after this command, and the messages."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = torch_tests.judged(["bash", "-c", command], place / "skipped")
    return code, said.getvalue()


def a_test_that_is_skipped_for_lack_of_a_package_is_a_failure(place):
    code, said = judged(place, f'echo "{NO_TORCH.replace("`", "")}" >>"$FLOPSMITH_SKIPPED"')
    assert code == 1 and "1 tests were skipped" in said and "left out: modules::a_test" in said, said
    # Reports of earlier programs are theirs.
    assert judged(place, "true") == (0, "")
    for words in ("python has no Triton, which kernels of Triton need beside PyTorch", "the Python with PyTorch has no Triton or no NumPy"):
        assert torch_tests.lacking(f"a_test: {words}\n") == [f"a_test: {words}"]


def a_missing_nvcc_is_none(place):
    code, said = judged(place, f'echo "{NO_NVCC.replace("`", "")}" >>"$FLOPSMITH_SKIPPED"')
    assert code == 0 and "left out: modules::a_test: no nvcc" in said, said
    assert torch_tests.lacking(NO_NVCC) == [] and torch_tests.lacking(NO_TORCH) == [NO_TORCH]


def a_failure_of_the_tests_stays_one(place):
    assert judged(place, "exit 4")[0] == 4


def all_cases_run_unless_others_are_named(place):
    saved = os.environ.pop("FLOPSMITH_SAMPLE", None)
    try:
        assert judged(place, '[ "$FLOPSMITH_SAMPLE" = all ]')[0] == 0
        os.environ["FLOPSMITH_SAMPLE"] = "3"
        assert judged(place, '[ "$FLOPSMITH_SAMPLE" = 3 ]')[0] == 0
    finally:
        os.environ.pop("FLOPSMITH_SAMPLE", None)
        if saved is not None:
            os.environ["FLOPSMITH_SAMPLE"] = saved


def every_test_that_skips_without_pytorch_is_run(_):
    """Sources that look for PyTorch and skip belong to the chosen test programs."""
    skips = set()
    for file in (ROOT / "crates").glob("*/tests/**/*.rs"):
        text = file.read_text()
        if "skipped(" in text and re.search(r"Error::Python\b|need Python with PyTorch\"|flopsmith_evaluate::missing\(", text):
            skips.add(str(file.relative_to(ROOT / "crates")))
    in_evaluate = {file for file in skips if file.startswith("evaluate/tests/it/")}
    assert {"evaluate/tests/it/modules.rs", "evaluate/tests/it/admission.rs"} <= in_evaluate, in_evaluate
    # Files beside modules.rs open their stages by its `open`.
    rest = skips - in_evaluate - {"flopsmith/tests/cli/modules.rs"}
    assert rest == {"actors/tests/roles/modules.rs", "flopsmith/tests/cli/module_service.rs"}, rest


def the_packages_are_those_that_the_program_names(_):
    error = (ROOT / "crates/module/src/error.rs").read_text()
    assert " ".join(torch_tests.INSTALL) in error


if __name__ == "__main__":
    sys.exit(run_all("torch_tests", (
        a_test_that_is_skipped_for_lack_of_a_package_is_a_failure, a_missing_nvcc_is_none, a_failure_of_the_tests_stays_one,
        all_cases_run_unless_others_are_named, every_test_that_skips_without_pytorch_is_run, the_packages_are_those_that_the_program_names,
    )))
