#!/usr/bin/env python3
"""Trains a tiny model with TRL by the code of the how-to page. The training is left in target/clients/trl.md."""

import contextlib
import math
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import policy
import torch
import transformers
from flopsmith import Evaluator, trl
from pages import HOW_TO, block
from programs import FAST, WRONG, failing, fenced
from services import transcript


def told(step, call):
    """A step for people to read: its numbers, and each sample with its reward and the end of its answer."""
    lines = [f"{name}: {step.get(name)}" for name in ("loss", "grad_norm", "rewards/reward_func/mean", "flopsmith/correct")]
    for text, result in call:
        for name, program in (("[the fast program]", FAST), ("[the wrong program]", WRONG)):
            text = text.replace(fenced(program), name)
        lines += ["", f"reward {result.reward} ({result.reason or result.outcome}, ratio {result.ratio}):", f"... {text[-200:]}"]
    return "\n".join(lines)


class Trl(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(place.name)
        policy.write(pathlib.Path("policy"))

    @contextlib.contextmanager
    def recorded(self):
        """Records the answers of each call of the reward function, and their results."""
        calls = []

        def evaluate_many(evaluator, batch, *more, inner=Evaluator.evaluate_many):
            results = inner(evaluator, batch, *more)
            calls.append([(candidate.answer, result) for candidate, result in zip(batch, results, strict=True)])
            return results

        with mock.patch.object(Evaluator, "evaluate_many", evaluate_many):
            yield calls

    def steps(self, trainer, calls):
        """The steps in the trainer's log. Their mean rewards have to be those of the calls."""
        steps = [entry for entry in trainer.state.log_history if "rewards/reward_func/mean" in entry]
        self.assertEqual(len(steps), len(calls))
        for step, call in zip(steps, calls):
            self.assertEqual(len(call), 8)
            rewards = [result.reward for _, result in call if result.reward is not None]
            self.assertAlmostEqual(step["rewards/reward_func/mean"], sum(rewards) / len(rewards), places=4)
            self.assertAlmostEqual(step["flopsmith/failed_by_machine"], 1 - len(rewards) / 8)
            self.assertTrue(math.isfinite(step["loss"]), step)
        self.assertTrue(any(step["grad_norm"] > 0 for step in steps), steps)
        before = transformers.AutoModelForCausalLM.from_pretrained("policy").state_dict()
        after = trainer.model.state_dict()
        self.assertTrue(all(torch.isfinite(value).all() for value in after.values()))
        self.assertTrue(any(not torch.equal(before[name].float(), after[name].float().cpu()) for name in before))
        return steps

    def test_a_training_step_follows_the_rewards_of_the_service(self):
        names = {}
        with self.recorded() as calls:
            exec(compile(block(HOW_TO, "TRL", "python"), "how-to page", "exec"), names)
        steps = self.steps(names["trainer"], calls)
        self.assertEqual(len(steps), 5)
        programs = [("The fast program", FAST), ("The wrong program", WRONG)]
        parts = [(f"Step {number}", told(step, call)) for number, (step, call) in enumerate(zip(steps, calls), 1)]
        transcript("trl", "Five steps of GRPO by TRL", [("Prompt", names["question"]["content"]), *programs, *parts])
        self.assertTrue(any(step.get("flopsmith/best_ratio", 0) > 0 for step in steps), steps)
        seen = set()
        for text, result in [pair for call in calls for pair in call]:
            # The last program of an answer counts.
            place, program = max((text.rfind(program), program) for program in policy.PROGRAMS)
            if place < 0:
                self.assertEqual((result.reason, result.reward), ("format", -1.0), text)
            elif WRONG in program:
                self.assertEqual((result.reason, result.reward), ("wrong_result", -0.1), text)
            else:
                self.assertIn(result.outcome, ("measured", "unconverged"), text)
                self.assertGreater(result.reward, 0)
            seen.add(program if place >= 0 else None)
        self.assertEqual(seen, {None, *policy.PROGRAMS})

    def test_a_sample_that_the_machine_failed_to_evaluate_is_left_out(self):
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        settings = GRPOConfig(
            output_dir="trained", max_steps=3, logging_steps=1, num_generations=8, per_device_train_batch_size=8, max_completion_length=64, bf16=False,
            report_to="none",
        )
        data = Dataset.from_dict({"prompt": ["write"], "problem": ["dot"]})
        with failing(unless=WRONG) as service, mock.patch.dict(os.environ, FLOPSMITH_URL=service.url), self.recorded() as calls:
            trainer = GRPOTrainer(model="policy", reward_funcs=trl.reward_func, args=settings, train_dataset=data)
            trainer.train()
        steps = self.steps(trainer, calls)
        self.assertTrue(any(0 < step["flopsmith/failed_by_machine"] < 1 for step in steps), steps)


if __name__ == "__main__":
    unittest.main()
