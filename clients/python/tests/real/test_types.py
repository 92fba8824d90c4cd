#!/usr/bin/env python3
"""Checks the types of the client by `mypy --strict`, and by `twine check --strict` the archives that PyPI would get."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import built
from built import CLIENT, PROJECT
from trove_classifiers import classifiers


class Types(unittest.TestCase):
    def test_the_client_is_typed(self):
        self.module("mypy", "--strict", "--cache-dir=/dev/null", "src/flopsmith")

    def test_the_archives_for_pypi_are_complete_and_valid(self):
        self.assertIsNone(built.lacking())
        with tempfile.TemporaryDirectory() as place:
            packed, wheel = built.archives(pathlib.Path(place))
            built.check(self, packed, wheel)
            self.module("twine", "check", "--strict", packed, wheel)

    def test_pypi_knows_the_classifiers(self):
        self.assertLessEqual(set(PROJECT["project"]["classifiers"]), classifiers)

    def module(self, *command):
        done = subprocess.run([sys.executable, "-m", *command], cwd=CLIENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
