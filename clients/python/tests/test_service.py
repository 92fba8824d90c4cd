#!/usr/bin/env python3
"""Tests of the client against a real service at FLOPSMITH_URL that knows the problem dgemm. A test of the service starts it and runs this file."""

import asyncio
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "src"))

from flopsmith import Candidate, Evaluator, Refused, trl, verl
from flopsmith.evaluators import for_openevolve

GOOD = """void dgemm(int n,const double*A,const double*B,double*C){
for(int i=0;i<n*n;i++)C[i]=0;
for(int i=0;i<n;i++)for(int k=0;k<n;k++)for(int j=0;j<n;j++)C[i*n+j]+=A[i*n+k]*B[k*n+j];}
"""
IDLE = "void dgemm(int n,const double*A,const double*B,double*C){}\n"


class Service(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.environ.get("FLOPSMITH_URL"), "set FLOPSMITH_URL to a service that knows dgemm")
        os.environ["FLOPSMITH_PURPOSE"] = "screen"
        os.environ["FLOPSMITH_PROBLEM"] = "dgemm"
        self.evaluator = Evaluator()

    def test_programs_are_measured_or_refused(self):
        batch = [Candidate("dgemm", GOOD, id="good"), Candidate("dgemm", IDLE), Candidate("dgemm", answer="no program")]
        good, idle, none = self.evaluator.evaluate_many(batch)
        self.assertIn(good.outcome, ("measured", "unconverged"))
        self.assertTrue(good.correct)
        self.assertGreater(good.reward, 0)
        self.assertLessEqual(good.interval[0], good.ratio)
        self.assertEqual((good.id, idle.id), ("good", "1"))
        self.assertEqual((idle.reason, idle.reward), ("wrong_result", -0.1))
        self.assertEqual((none.reason, none.reward), ("format", -1.0))
        again = asyncio.run(self.evaluator.aevaluate(IDLE, "dgemm"))
        self.assertTrue(again.cached)

    def test_problems_and_refusals(self):
        self.assertIn("dgemm", [problem["problem"] for problem in self.evaluator.problems()])
        self.assertIn("void dgemm(", self.evaluator.problem("dgemm")["prototype"])
        self.assertEqual(self.evaluator.health()["status"], "ok")
        with self.assertRaises(Refused) as raised:
            self.evaluator.evaluate(GOOD, "dgem")
        self.assertIn("did you mean `dgemm`", str(raised.exception))

    def test_tools_get_their_scores(self):
        fenced = f"It is wrong.\n```c\n{IDLE}```\n"
        self.assertEqual(trl.reward_func(prompts=["p"], completions=[fenced], problem=["dgemm"]), [-0.1])
        self.assertEqual(verl.compute_score("d", fenced, "dgemm"), {"score": -0.1, "acc": 0.0, "ratio": 0.0})
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.c"
            program.write_text(GOOD, encoding="utf-8")
            self.assertGreater(for_openevolve.evaluate(str(program))["combined_score"], 0)


if __name__ == "__main__":
    unittest.main()
