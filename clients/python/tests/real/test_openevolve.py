#!/usr/bin/env python3
"""Searches with OpenEvolve by the commands and the configuration of the how-to page. The search is left in target/clients/openevolve.md."""

import asyncio
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from flopsmith.evaluators import for_openevolve
from openevolve.config import EvaluatorConfig
from openevolve.evaluator import Evaluator
from pages import HOW_TO, block
from programs import BROKEN, FAST, PLAIN, WRONG, failing, fenced, model
from services import shown, transcript

LIMIT = 600


def shell(commands, folder, **more):
    """Runs commands of a page with the programs of this interpreter's environment."""
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OPENAI_API_KEY": "none"} | more
    return subprocess.run(["bash", "-eu", "-c", commands], cwd=folder, env=environment, text=True, capture_output=True, timeout=LIMIT)


class OpenEvolve(unittest.TestCase):
    def test_a_search_finds_the_fast_program(self):
        texts = [fenced(WRONG), "Try this:\n" + fenced(FAST), fenced(BROKEN), fenced(WRONG)]
        with tempfile.TemporaryDirectory() as place, model(*texts) as llm:
            folder = pathlib.Path(place)
            (folder / "start.c").write_text(PLAIN)
            (folder / "config.yaml").write_text(block(HOW_TO, "OpenEvolve", "yaml"))
            done = shell(block(HOW_TO, "OpenEvolve", "sh"), folder, MODEL_URL=f"{llm.url}/v1")
            said = done.stdout[-4000:] + done.stderr[-8000:]
            self.assertEqual(done.returncode, 0, said)
            self.assertEqual(len(llm.seen), 6, said)
            best = folder / "found" / "best"
            self.assertEqual((best / "best_program.c").read_text().strip(), FAST.strip(), said)
            metrics = json.loads((best / "best_program_info.json").read_text())["metrics"]
            [log] = (folder / "found" / "logs").iterdir()
            evaluated = re.findall(r"Evaluated program .*", log.read_text())
        parts = [("First program", PLAIN), ("Evaluations", "\n".join(evaluated))]
        for number, body in enumerate(llm.seen, 1):
            prompt = "\n\n".join(f"{message['role']}:\n{message['content']}" for message in body["messages"])
            parts += [(f"Prompt {number}", prompt), (f"Answer {number}", texts[min(number, len(texts)) - 1])]
        transcript("openevolve", "A search by OpenEvolve", [*parts, ("Best program", f"{FAST}\n{shown(metrics)}")])
        scores = re.findall(r": combined_score=([\d.]+), correct=([\d.]+),", "\n".join(evaluated))
        self.assertEqual(metrics["correct"], 1.0)
        self.assertGreater(metrics["combined_score"], 0)
        self.assertLessEqual(metrics["combined_score"], metrics["ratio"])
        # The first program, and four answers.
        self.assertEqual([correct for _, correct in scores[:5]], ["1.0000", "0.0000", "1.0000", "0.0000", "0.0000"], said)
        self.assertEqual({score for score, correct in scores if correct == "0.0000"}, {"0.0000"})
        # The model is told what became of the program that it has to improve.
        prompts = "".join(message["content"] for body in llm.seen for message in body["messages"])
        self.assertIsNotNone(re.search(r"### outcome\n```\n(measured|unconverged|wrong_result)\n```", prompts), prompts[:4000])

    def test_a_failure_of_the_machine_is_no_score(self):
        config = EvaluatorConfig(max_retries=1, cascade_evaluation=False)
        with failing() as service, mock.patch.dict(os.environ, FLOPSMITH_URL=service.url, FLOPSMITH_PROBLEM="dot"):
            evaluator = Evaluator(config, for_openevolve.__file__, suffix=".c")
            metrics = asyncio.run(evaluator.evaluate_program(FAST, "program"))
        self.assertEqual(metrics, {"error": 0.0})
        self.assertIn("jail", evaluator.get_pending_artifacts("program")["stderr"])
        self.assertEqual(len(service.seen), 6)


if __name__ == "__main__":
    unittest.main()
