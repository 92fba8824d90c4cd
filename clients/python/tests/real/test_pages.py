#!/usr/bin/env python3
"""Runs the blocks of the pages that need no other tool."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from pages import HOW_TO, README, block, blocks
from programs import FAST, WRONG


def printed(text, **names):
    """The words that a block prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "page", "exec"), names)
    return out.getvalue()


class Pages(unittest.TestCase):
    def test_the_first_block_of_the_readme_evaluates_a_program(self):
        outcome, reward, ratio = printed(blocks(README)[0][2]).split()[:3]
        self.assertIn(outcome, ("measured", "unconverged"))
        self.assertGreater(float(reward), 0)
        self.assertGreater(float(ratio), 0)

    @unittest.skipUnless(shutil.which("curl"), "curl not found")
    def test_the_commands_for_a_first_try_reach_the_service(self):
        [_, commands] = [text for heading, language, text in blocks(HOW_TO) if (heading, language) == ("Start the service", "sh")]
        commands = commands.replace("http://127.0.0.1:8765", os.environ["FLOPSMITH_URL"]).replace("curl ", "curl --noproxy '*' ")
        done = subprocess.run(["bash", "-eu", "-c", commands], text=True, capture_output=True, timeout=300)
        problem, answer = (json.loads(line) for line in done.stdout.replace("}{", "}\n{").splitlines())
        self.assertIn("void dgemm(", problem["prototype"])
        self.assertEqual((answer["problem"], answer["outcome"]), ("dgemm", "rejected"))

    def test_a_tool_of_ones_own_gets_results_as_they_come(self):
        right, wrong = printed(block(HOW_TO, "Your own tool", "python"), sources=[FAST, WRONG]).splitlines()
        self.assertRegex(right, r"^0 (measured|unconverged) \d")
        self.assertEqual(wrong, "1 rejected -0.1 None")


if __name__ == "__main__":
    unittest.main()
