#!/usr/bin/env python3
"""Builds the packages that users install (docs/how-to/install.md), installs each into a temporary folder outside the repository, and runs the
installed program there: its version, its problems and `flopsmith doctor`. A package whose tools this machine lacks is skipped with the reason.
The exit code is 1 if a check failed, and 3 if every package was skipped.   scripts/packages_check.py [--only cargo|static|deb]"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# That of `make node`: the same crates with the same features and profile, so cargo compiles nothing again.
TARGET = "target/node"
# Installed programs are to do without the settings of this shell. LD_LIBRARY_PATH and LIBTORCH could lend them a library.
UNSET = ("FLOPSMITH_", "XDG_", "OTEL_", "LD_LIBRARY_PATH", "LIBTORCH")
COMPLETIONS = ("bash-completion/completions/flopsmith", "zsh/vendor-completions/_flopsmith", "fish/vendor_completions.d/flopsmith.fish")
# Seconds for a command of an installed program. `doctor` measures the machine.
LIMIT = 600


class Failed(Exception):
    """A package is not as it should be; the message is for people."""


def call(command):
    """Runs a command of the build; returns what it prints to stdout."""
    command = [str(word) for word in command]
    print(f"== {' '.join(command)}", flush=True)
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failed(f"`{' '.join(command)}` ended with exit code {done.returncode}; the lines above say why")
    return done.stdout


def missing(*programs):
    """The reason to skip a package if one of these programs is missing."""
    names = [name for name in programs if shutil.which(name) is None]
    return f"{', '.join(names)} not found" if names else None


def no_static_library():
    """The reason to skip a static program: the C compiler names a file that it has by its whole path."""
    found = subprocess.run(["cc", "-print-file-name=libc.a"], capture_output=True, text=True).stdout.strip()
    return None if os.path.isabs(found) else "the static C library was not found (Debian: libc6-dev; Fedora: glibc-static)"


def packed(kind):
    """The file of a package."""
    return ROOT / call(["scripts/package.sh", kind]).strip().splitlines()[-1]


def by_cargo(place):
    for crate, options in (("flopsmith", ["--no-default-features"]), ("harness", [])):
        call(["cargo", "install", "--path", f"crates/{crate}", *options, "--locked", "--root", place / "installed", "--target-dir", TARGET])
    shutil.copytree(ROOT / "problems", place / "home/.local/share/flopsmith/problems")
    return place / "installed/bin/flopsmith"


def by_tarball(place):
    call(["tar", "-xzf", packed("static"), "-C", place])
    [folder] = place.glob("flopsmith-*")
    link = place / "bin/flopsmith"
    link.parent.mkdir()
    link.symlink_to(folder / "flopsmith")
    return link


def by_deb(place):
    call(["dpkg-deb", "-x", packed("deb"), place / "root"])
    share = place / "root/usr/share"
    pages = [*share.glob("man/man1/flopsmith*.1.gz"), *(share / name for name in COMPLETIONS)]
    empty = [str(page.relative_to(share)) for page in pages if not page.is_file() or not page.stat().st_size]
    if empty or len(pages) < 1 + len(COMPLETIONS):
        raise Failed(f"the package lacks {', '.join(empty) or 'man pages'}")
    return place / "root/usr/bin/flopsmith"


# By name: what it is, how it is installed, and the reason to skip it on this machine.
PACKAGES = {
    "cargo": ("the program by cargo install", by_cargo, lambda: missing("cargo")),
    "static": ("the static program", by_tarball, lambda: missing("cargo", "cc", "readelf", "tar", "gzip") or no_static_library()),
    "deb": ("the Debian package", by_deb, lambda: missing("cargo", "cc", "readelf", "dpkg", "dpkg-deb") or no_static_library()),
}


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def kernels(problems):
    """The names of the kernels in a folder of problems and in its suites, as `problem list` finds them."""
    files = [*problems.glob("*/problem.toml"), *problems.glob("*/*/problem.toml")]
    return {file.parent.name for file in files if file.parent.parent.name != "modules"}


def version_fault(text, wanted):
    words = text.split()
    return None if words[:2] == ["flopsmith", wanted] else f"it says `{text.strip()}` instead of `flopsmith {wanted}`"


def list_fault(listed, wanted, place):
    """Why the problems that a program lists are not those of its package, which lies in `place`."""
    names = {one["problem"] for one in listed}
    if names != wanted:
        return f"too few: {sorted(wanted - names)}, too many: {sorted(names - wanted)}"
    broken = [one["problem"] for one in listed if one["error"]]
    if broken:
        return f"definitions with mistakes: {broken}"
    foreign = [one["folder"] for one in listed if place not in pathlib.Path(one["folder"]).resolve().parents]
    return f"problems from outside the package: {foreign[:3]}" if foreign else None


def doctor_fault(code, findings, place):
    """Why the package is at fault for what `doctor` found; a machine that lacks something (exit code 3) is none."""
    if code not in (0, 3):
        return f"exit code {code}"
    [harness] = [one for one in findings if one["what"] == "harness"] or [None]
    if harness is None or harness["state"] != "good":
        return f"no harness: {harness and harness['found']}"
    if place not in pathlib.Path(harness["found"]).resolve().parents:
        return f"the harness is not that of the package: {harness['found']}"
    lacks = lacking(findings)
    if (code == 3) != bool(lacks):
        return f"exit code {code}, and it misses {lacks}"
    # With gcc and the jail at hand, a timing that fails is the harness' fault.
    return "the harness times nothing here: " + next(one["found"] for one in findings if one["what"] == "timing") if lacks == ["timing"] else None


def lacking(findings):
    """What a machine lacks by `doctor`."""
    return [one["what"] for one in findings if one["state"] == "missing"]


def environment(home, program):
    """That of a user who has installed the program."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(UNSET)}
    return kept | {"HOME": str(home), "PATH": f"{program.parent}:{os.environ['PATH']}"}


def checked(name, program, place):
    """Runs the installed program; yields each check with its fault, or none."""
    work = place / "work"
    work.mkdir()
    (place / "home").mkdir(exist_ok=True)
    variables = environment(place / "home", program)

    def ask(*arguments):
        print(f"== {name}: flopsmith {' '.join(arguments)}", flush=True)
        return subprocess.run(["flopsmith", *arguments], cwd=work, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=LIMIT)

    def said(arguments, fault):
        """The fault of a command that has to succeed."""
        done = ask(*arguments)
        return f"exit code {done.returncode}" if done.returncode else fault(done.stdout)

    yield "version", said(["--version"], lambda text: version_fault(text, version()))
    yield "problems", said(["problem", "list", "--format", "json"], lambda text: list_fault(json.loads(text), kernels(ROOT / "problems"), place))
    done = ask("doctor", "--format", "json")
    findings = json.loads(done.stdout)["findings"] if done.returncode in (0, 3) else []
    yield "doctor", doctor_fault(done.returncode, findings, place)
    for what in lacking(findings):
        print(f"skipped: a finding of doctor about {what}, which this machine lacks")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PACKAGE", choices=list(PACKAGES), help=f"only this package ({', '.join(PACKAGES)}); may come several times")
    given = parser.parse_args()
    passed = failed = 0

    def note(name, fault):
        nonlocal passed, failed
        passed, failed = passed + (fault is None), failed + (fault is not None)
        print(f"test packages::{name} ... {'ok' if fault is None else 'FAILED'}", flush=True)
        if fault is not None:
            print(f"    {fault}", flush=True)

    for name, (what, install, lacks) in PACKAGES.items():
        if given.only and name not in given.only:
            continue
        if reason := lacks():
            print(f"skipped: {what}, since {reason}", flush=True)
            continue
        # Outside the repository, whose problems its programs would find.
        with tempfile.TemporaryDirectory(prefix="flopsmith-packages-") as folder:
            place = pathlib.Path(folder).resolve()
            try:
                program = install(place)
                note(f"{name}::install", None)
                for check, fault in checked(name, program, place):
                    note(f"{name}::{check}", fault)
            except (Failed, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                note(name, str(error))
    print(f"\ntest result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out")
    if failed:
        return 1
    return 0 if passed else 3


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
