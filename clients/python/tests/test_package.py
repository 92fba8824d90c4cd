#!/usr/bin/env python3
"""Tests that the client needs the standard library alone, and that the package says what it is."""

import ast
import pathlib
import re
import sys
import tomllib
import unittest

CLIENT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = CLIENT / "src" / "flopsmith"
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
        project = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for field in ("name", "description", "readme", "requires-python", "license", "authors", "keywords", "classifiers"):
            self.assertTrue(project.get(field), field)
        self.assertNotIn("dependencies", project)
        self.assertTrue((CLIENT / project["readme"]).is_file())
        self.assertTrue((SOURCES / "py.typed").is_file())
        [version] = re.findall(r'^__version__ = "(.*)"$', (SOURCES / "__init__.py").read_text(encoding="utf-8"), re.M)
        self.assertEqual(project["version"], version)


if __name__ == "__main__":
    unittest.main()
