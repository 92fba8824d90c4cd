"""Builds the archives that PyPI takes, as the package's backend does, and checks them: the source archive, and the wheel that is built from it."""

import email
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

CLIENT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = CLIENT / "src" / "flopsmith"
PROJECT = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))


def lacking():
    """The reason why this interpreter cannot build the package without the network, or None."""
    [needed] = PROJECT["build-system"]["requires"]
    name, least = needed.split(">=")
    try:
        module = __import__(name)
    except ImportError:
        return f"{needed} not found"
    return None if int(module.__version__.partition(".")[0]) >= int(least) else f"{needed} not found, but {module.__version__}"


def backend(call, source, output):
    """Calls a function of the backend in the folder `source`, as a frontend does. Returns the path of the archive."""
    code = f"import sys; from {PROJECT['build-system']['build-backend']} import {call}; print({call}(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, output], cwd=source, text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{call}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return output / done.stdout.splitlines()[-1]


def archives(place):
    """Builds both archives in an empty folder. Returns their paths: source archive, wheel."""
    # The backend leaves files of its own beside the sources.
    shutil.copytree(CLIENT, place / "source", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    packed = backend("build_sdist", place / "source", place)
    with tarfile.open(packed) as archive:
        archive.extractall(place / "unpacked", filter="data")
    [unpacked] = (place / "unpacked").iterdir()
    return packed, backend("build_wheel", unpacked, place)


def contents(path):
    """The files of an archive by name. Those of a source archive are named without its only folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2]: archive.extractfile(member).read() for member in archive if member.isfile()}


def check(test, packed, wheel):
    """Asserts by `test` that both archives have the files of the package and no others, and its metadata."""
    sources = {f"flopsmith/{file.relative_to(SOURCES).as_posix()}": file.read_bytes() for file in SOURCES.rglob("*") if file.suffix == ".py" or file.name == "py.typed"}
    test.assertIn("flopsmith/py.typed", sources)
    test.assertIn("flopsmith/evaluators/for_shinka.py", sources)
    licence = (CLIENT / "LICENSE").read_bytes()

    found = contents(wheel)
    of_wheel = {name: found.pop(name) for name in sorted(found) if ".dist-info/" in name}
    test.assertEqual(found.keys(), sources.keys())
    test.assertEqual(found, sources)
    [folder] = {name.partition("/")[0] for name in of_wheel}
    test.assertEqual({name.removeprefix(f"{folder}/") for name in of_wheel}, {"METADATA", "WHEEL", "RECORD", "top_level.txt", "licenses/LICENSE"})
    test.assertEqual(of_wheel[f"{folder}/licenses/LICENSE"], licence)

    found = contents(packed)
    of_source = {name: text for name, text in found.items() if ".egg-info/" not in name}
    test.assertEqual(of_source.keys(), {f"src/{name}" for name in sources} | {"LICENSE", "README.md", "MANIFEST.in", "pyproject.toml", "setup.cfg", "PKG-INFO"})
    test.assertEqual(of_source["LICENSE"], licence)
    test.assertEqual(of_source["PKG-INFO"], of_wheel[f"{folder}/METADATA"])
    check_metadata(test, of_source["PKG-INFO"].decode())


def check_metadata(test, text):
    """Asserts that the metadata are those of pyproject.toml, in a form that PyPI takes."""
    project, head = PROJECT["project"], email.message_from_string(text)
    single = {
        "Name": project["name"], "Version": project["version"], "Summary": project["description"], "Requires-Python": project["requires-python"],
        "License-Expression": project["license"], "Author": project["authors"][0]["name"], "Keywords": ",".join(project["keywords"]),
        "Description-Content-Type": "text/markdown",
    }
    test.assertEqual({name: head.get_all(name) for name in single}, {name: [value] for name, value in single.items()})
    # The first version that has an expression and files of the licence.
    test.assertGreaterEqual([int(number) for number in head["Metadata-Version"].split(".")], [2, 4])
    test.assertEqual(head.get_all("License-File"), project["license-files"])
    test.assertEqual(head.get_all("Classifier"), project["classifiers"])
    test.assertEqual((head.get_all("Requires-Dist"), head.get_all("License")), (None, None))
    test.assertEqual(head.get_payload().strip(), (CLIENT / project["readme"]).read_text(encoding="utf-8").strip())
    # PyPI refuses longer ones, and the classifiers that an expression replaces.
    test.assertLessEqual(len(head["Summary"]), 512)
    test.assertEqual([name for name in head.get_all("Classifier") if name.startswith("License ::")], [])
    test.assertTrue(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", head["Name"]), head["Name"])
    test.assertTrue(re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", head["Version"]), head["Version"])
