#!/usr/bin/env python3
"""Tests that the client needs the standard library alone, that the package says what it is, and what PyPI would get. Where the package's
backend is too old or missing, the archives are not built: `make test-clients ARGS=types` installs it and builds them."""

import ast
import fnmatch
import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import built
from built import CLIENT, PROJECT, SOURCES

# Packages that a file imports within `try`, as its callers have them.
OPTIONAL = {"evaluators/for_openevolve.py": {"openevolve"}}


def imported(tree):
    """The packages that a file imports, but for those of `try: … except ImportError`, and those."""
    needed, optional = set(), set()

    def visit(node, found):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("flopsmith" if node.level else node.module.partition(".")[0])
        handlers = node.handlers if isinstance(node, ast.Try) else []
        guarded = any(isinstance(handler.type, ast.Name) and handler.type.id == "ImportError" for handler in handlers)
        body = set(node.body) if guarded else ()
        for child in ast.iter_child_nodes(node):
            visit(child, optional if child in body else found)

    visit(tree, needed)
    return needed, optional


class Package(unittest.TestCase):
    def test_the_client_needs_the_standard_library_alone(self):
        files = sorted(SOURCES.rglob("*.py"))
        self.assertGreater(len(files), 5)
        for file in files:
            name = file.relative_to(SOURCES).as_posix()
            with self.subTest(name):
                needed, optional = imported(ast.parse(file.read_text(encoding="utf-8")))
                self.assertEqual(needed - set(sys.stdlib_module_names), needed & {"flopsmith"})
                self.assertEqual(optional, OPTIONAL.get(name, set()))

    def test_an_import_of_another_package_is_seen(self):
        text = "def f():\n    import json, numpy.linalg\ntry:\n    from a.b import c\nexcept ImportError:\n    import d\nfrom . import e\n"
        self.assertEqual(imported(ast.parse(text)), ({"json", "numpy", "d", "flopsmith"}, {"a"}))

    def test_the_package_says_what_it_is(self):
        project = PROJECT["project"]
        for field in ("name", "description", "readme", "requires-python", "license", "license-files", "authors", "keywords", "classifiers"):
            self.assertTrue(project.get(field), field)
        self.assertNotIn("dependencies", project)
        self.assertTrue((CLIENT / project["readme"]).is_file())
        self.assertTrue((SOURCES / "py.typed").is_file())
        [version] = re.findall(r'^__version__ = "(.*)"$', (SOURCES / "__init__.py").read_text(encoding="utf-8"), re.M)
        self.assertEqual(project["version"], version)

    def test_the_licence_is_that_of_the_repository(self):
        [name] = PROJECT["project"]["license-files"]
        self.assertEqual((CLIENT / name).read_bytes(), (CLIENT.parent.parent / "LICENSE").read_bytes())
        # A build in another folder would not find what a link leads to.
        self.assertFalse((CLIENT / name).is_symlink())

    def test_no_file_of_the_sources_is_left_out(self):
        files = [file for file in SOURCES.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
        patterns = PROJECT["tool"]["setuptools"]["package-data"]["flopsmith"]
        others = [file.relative_to(SOURCES).as_posix() for file in files if file.suffix != ".py"]
        self.assertEqual([name for name in others if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)], [])
        self.assertEqual([file for file in files if not (file.parent / "__init__.py").is_file()], [])

    def test_the_archives_for_pypi_have_all_files_and_valid_metadata(self):
        if reason := built.lacking():
            # scripts/verify.py reads this line.
            print(f"skipped: the archives of the Python client, since {reason}")
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as place:
            built.check(self, *built.archives(pathlib.Path(place)))


if __name__ == "__main__":
    unittest.main()
