#!/usr/bin/env python3
"""Tests of packages_check.py with a small program in place of the installed ones. They need no build."""
import contextlib
import io
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import packages_check  # noqa: E402
from rust_style import run as run_all  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
DOCTOR = [{"what": "gcc", "state": "good", "found": "12"}, {"what": "harness", "state": "good", "found": "PLACE/bin/flopsmith-harness"}]


def findings(place, **states):
    """The findings of `doctor` with these states."""
    found = [one | {"found": one["found"].replace("PLACE", str(place)), "state": states.pop(one["what"], one["state"])} for one in DOCTOR]
    return found + [{"what": what, "state": state, "found": "the reason"} for what, state in states.items()]


def installs(said=None, code=0):
    """A package whose program says what the real one would."""
    def install(place):
        folder = place / "bin"
        folder.mkdir()
        listed = [{"problem": name, "folder": f"{place}/problems/{name}", "error": None} for name in sorted(packages_check.kernels(ROOT / "problems"))]
        answers = {"--version": f"flopsmith {packages_check.version()}", "problem": json.dumps(listed), "doctor": json.dumps({"findings": findings(place)})}
        for name, text in (answers | (said or {})).items():
            (folder / name.strip("-")).write_text(text)
        (folder / "flopsmith").write_text(f'#!/bin/sh\n[ -z "$FLOPSMITH_PROBLEMS$LD_LIBRARY_PATH" ] || exit 9\ncat "{folder}/${{1#--}}"\nexit {code}\n')
        (folder / "flopsmith").chmod(0o755)
        return folder / "flopsmith"
    return install


def run_with(packages, arguments=()):
    """The exit code and the output with these packages."""
    saved, packages_check.PACKAGES = packages_check.PACKAGES, packages
    sys.argv, said = ["packages_check.py", *arguments], io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            return packages_check.main(), said.getvalue()
    finally:
        packages_check.PACKAGES = saved


def each_package_is_checked_and_the_checks_are_counted(_):
    code, said = run_with({"one": ("the one", installs(), lambda: None), "two": ("the other", installs(), lambda: "dpkg not found")})
    assert code == 0, said
    for line in ("test packages::one::doctor ... ok", "skipped: the other, since dpkg not found", "4 passed; 0 failed"):
        assert line in said, said
    code, said = run_with({"two": ("the other", installs(), lambda: "dpkg not found")})
    assert code == 3, said


def a_bad_package_fails_and_stops_no_other(_):
    def broken(_):
        raise packages_check.Failed("`cargo install` ended with exit code 101")

    bad = {"broken": ("", broken, lambda: None), "old": ("", installs(said={"--version": "flopsmith 0.0.1"}), lambda: None), "ends": ("", installs(code=3), lambda: None), "good": ("", installs(), lambda: None)}
    code, said = run_with(bad)
    assert code == 1, said
    for words in ("exit code 101", "it says `flopsmith 0.0.1`", "packages::ends::version ... FAILED", "packages::good::problems ... ok"):
        assert words in said, said


def problems_are_those_of_the_package(place):
    one = lambda name, folder=place, error=None: {"problem": name, "folder": f"{folder}/problems/{name}", "error": error}
    fault = lambda listed: packages_check.list_fault(listed, {"dot", "lu"}, place)
    assert fault([one("dot"), one("lu")]) is None
    assert "too few: ['lu']" in fault([one("dot")])
    assert "mistakes: ['lu']" in fault([one("dot"), one("lu", error="no title")])
    assert "outside" in fault([one("dot"), one("lu", ROOT)])


def kernels_are_those_of_the_repository(_):
    found = packages_check.kernels(ROOT / "problems")
    assert {"dgemm", "polybench_lu"} <= found and "rms_norm" not in found and len(found) > 50


def a_machine_that_lacks_something_is_no_fault_of_a_package(place):
    fault = lambda code, **states: packages_check.doctor_fault(code, findings(place, **states), place)
    assert fault(0) is None and fault(3, gcc="missing") is None and fault(3, jail="missing", timing="missing") is None
    assert "exit code 3" in fault(3) and "exit code 0" in fault(0, gcc="missing") and fault(101) == "exit code 101"
    assert "no harness" in fault(3, harness="missing")
    assert "times nothing here: the reason" in fault(3, timing="missing")
    assert "not that of the package" in packages_check.doctor_fault(0, findings(ROOT), place)
    assert "no harness" in packages_check.doctor_fault(0, [], place)


def the_commands_are_those_of_the_page(_):
    """The page names what this script runs, apart from the folders."""
    page, script = (ROOT / "docs/how-to/install.md").read_text(), Path(packages_check.__file__).read_text()
    for words in ("cargo install --path crates/flopsmith --no-default-features --locked", "cargo install --path crates/harness --locked", "scripts/package.sh static"):
        assert words in page, words
    assert '"flopsmith", ["--no-default-features"]' in script and '"harness", []' in script and 'packed("static")' in script and 'packed("deb")' in script
    makefile = (ROOT / "Makefile").read_text()
    assert f"--no-default-features --locked --target-dir {packages_check.TARGET} " in makefile


if __name__ == "__main__":
    sys.exit(run_all("packages_check", (
        each_package_is_checked_and_the_checks_are_counted, a_bad_package_fails_and_stops_no_other, problems_are_those_of_the_package,
        kernels_are_those_of_the_repository, a_machine_that_lacks_something_is_no_fault_of_a_package, the_commands_are_those_of_the_page,
    )))
