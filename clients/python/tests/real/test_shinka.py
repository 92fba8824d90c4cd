#!/usr/bin/env python3
"""Searches with ShinkaEvolve by the commands of the how-to page."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from flopsmith.evaluators import for_shinka
from pages import HOW_TO, block
from programs import FAST, PLAIN, WRONG, failing, fenced, model
from shinka.utils import load_results

LIMIT = 600


def marked(program):
    return f"// EVOLVE-BLOCK-START\n{program}// EVOLVE-BLOCK-END\n"


def said(name, program):
    return f"<NAME>\n{name}\n</NAME>\n<DESCRIPTION>\nA program.\n</DESCRIPTION>\n<CODE>\n{fenced(marked(program), 'cpp')}</CODE>\n"


def shell(commands, folder, **more):
    """Runs commands of a page with the programs of this interpreter's environment."""
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path} | more
    return subprocess.run(["bash", "-eu", "-c", commands], cwd=folder, env=environment, text=True, capture_output=True, timeout=LIMIT)


class Shinka(unittest.TestCase):
    def test_a_search_finds_the_fast_program(self):
        with tempfile.TemporaryDirectory() as place, model(said("zero", WRONG), said("lanes", FAST), said("zero_again", WRONG)) as llm:
            folder = pathlib.Path(place)
            (folder / "start.cpp").write_text(marked(PLAIN))
            done = shell(block(HOW_TO, "ShinkaEvolve", "sh"), folder, MODEL_URL=f"{llm.url}/v1")
            log = done.stdout[-8000:] + done.stderr[-8000:]
            self.assertEqual(done.returncode, 0, log)
            found = {}
            for file in folder.glob("found/gen_*/results/correct.json"):
                program = file.parent.parent / "main.cpp"
                found[program.read_text()] = json.loads(file.read_text()), json.loads(file.with_name("metrics.json").read_text())
            best = (folder / "found" / "best" / "main.cpp").read_text()
        self.assertEqual(set(found), {marked(PLAIN), marked(WRONG), marked(FAST)}, log)
        right, metrics = found[marked(FAST)]
        self.assertEqual(right, {"correct": True, "error": None})
        self.assertGreater(metrics["combined_score"], 0)
        self.assertLessEqual(metrics["combined_score"], metrics["public"]["ratio"])
        right, metrics = found[marked(WRONG)]
        self.assertFalse(right["correct"])
        self.assertIn("wrong_result", right["error"])
        self.assertEqual((metrics["combined_score"], metrics["private"]["reward"]), (0.0, -0.1))
        self.assertEqual(best, marked(FAST))

    def test_a_failure_of_the_machine_is_no_score(self):
        with tempfile.TemporaryDirectory() as place, failing() as service:
            program, results = pathlib.Path(place) / "main.cpp", pathlib.Path(place) / "results"
            program.write_text(FAST)
            command = [sys.executable, for_shinka.__file__, "--program_path", str(program), "--results_dir", str(results)]
            environment = os.environ | {"FLOPSMITH_URL": service.url, "FLOPSMITH_PROBLEM": "dot"}
            done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=LIMIT)
            read = load_results(str(results))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("jail", done.stderr)
        self.assertEqual((read["correct"], read["metrics"]), ({"correct": False}, {}))


if __name__ == "__main__":
    unittest.main()
