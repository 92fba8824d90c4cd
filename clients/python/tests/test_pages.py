#!/usr/bin/env python3
"""Tests that every block of code of the client's pages is one that a test runs."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from pages import HOW_TO, README, blocks

# Sections and languages of the blocks that the files in `real` run. A test of the program reads the commands that begin with `flopsmith`, and
# scripts/clients.sh installs the client.
RUN = {
    ("Start the service", "sh"), ("Modules of PyTorch", "sh"), ("On a cluster", "sh"), ("Beyond one machine", "sh"), ("The client", "sh"), ("TRL", "python"), ("verl", "python"), ("verl", ""),
    ("OpenRLHF and slime", ""), ("OpenEvolve", "yaml"), ("OpenEvolve", "sh"), ("ShinkaEvolve", "sh"), ("Your own tool", "python"),
}


class Pages(unittest.TestCase):
    def test_every_block_of_the_how_to_page_is_run(self):
        found = [(heading, language) for heading, language, _ in blocks(HOW_TO)]
        self.assertEqual(set(found), RUN)
        twice = [place for place in RUN - {("Start the service", "sh")} if found.count(place) > 1]
        self.assertEqual(twice, [])

    def test_the_readme_shows_the_blocks_of_the_how_to_page(self):
        first, *others = [text for _, _, text in blocks(README)]
        self.assertIn("Evaluator().evaluate(program", first)
        shown = [text for heading, _, text in blocks(HOW_TO) if heading in ("TRL", "verl", "OpenEvolve", "ShinkaEvolve")]
        self.assertEqual([text for text in others if text not in shown], [])
        self.assertEqual(len(others), 4)


if __name__ == "__main__":
    unittest.main()
