#!/usr/bin/env python3
"""Checks the types of the client by `mypy --strict`."""

import pathlib
import subprocess
import sys
import unittest

CLIENT = pathlib.Path(__file__).resolve().parents[2]


class Types(unittest.TestCase):
    def test_the_client_is_typed(self):
        check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "src/flopsmith"]
        done = subprocess.run(check, cwd=CLIENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
