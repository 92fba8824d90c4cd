#!/usr/bin/env python3
"""Rewards answers by verl's own reward worker, with verl's own configuration and the lines of the how-to page."""

import asyncio
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import hydra
import numpy
import policy
import torch
import transformers
import verl
from flopsmith import Error
from pages import HOW_TO, block
from programs import FAST, WRONG, failing, fenced
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker, migrate_legacy_reward_impl

CONFIG = pathlib.Path(verl.__file__).parent / "trainer" / "config"


def rewarded(folder, row, answers, more=()):
    """The rewards of these answers to a row of the data set, as verl's trainer asks for them."""
    lines = block(HOW_TO, "verl", "").split()
    with hydra.initialize_config_dir(str(CONFIG), version_base=None):
        config = hydra.compose("ppo_trainer", [*lines, f"actor_rollout_ref.model.path={folder}", *more])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = [tokenizer(answer, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id] for answer in answers]
    width = max(map(len, tokens))
    responses = torch.tensor([ids + [tokenizer.pad_token_id] * (width - len(ids)) for ids in tokens])
    prompts = torch.tensor([[2]] * len(answers))
    written = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in tokens])
    mask = torch.cat([torch.ones_like(prompts), written], 1)
    columns = {name: numpy.array([row[name]] * len(answers), dtype=object) for name in ("data_source", "reward_model")}
    columns["extra_info"] = numpy.array([dict(row["extra_info"]) for _ in answers], dtype=object)
    data = DataProto.from_dict(tensors={"prompts": prompts, "responses": responses, "attention_mask": mask}, non_tensors=columns)

    async def ask():
        worker = RewardLoopWorker(migrate_legacy_reward_impl(config))
        return await worker.compute_score_batch(data)

    return asyncio.run(ask())


class Verl(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name
        policy.write(pathlib.Path(self.folder))
        names = {}
        exec(compile(block(HOW_TO, "verl", "python"), "how-to page", "exec"), names)
        self.row = names["row"]

    def test_answers_get_the_rewards_of_the_service(self):
        fast, wrong, none = rewarded(self.folder, self.row, [fenced(FAST), fenced(WRONG), "no program"])
        self.assertGreater(fast["reward_score"], 0)
        self.assertEqual(fast["reward_extra_info"]["acc"], 1.0)
        self.assertGreater(fast["reward_extra_info"]["ratio"], 0)
        self.assertEqual((wrong["reward_score"], wrong["reward_extra_info"]), (-0.1, {"score": -0.1, "acc": 0.0, "ratio": 0.0}))
        self.assertEqual(none["reward_score"], -1.0)
        # verl takes the names of the first sample's numbers for all.
        self.assertEqual(len({tuple(result["reward_extra_info"]) for result in (fast, wrong, none)}), 1)

    def test_a_failure_of_the_machine_is_no_reward(self):
        with failing() as service, mock.patch.dict(os.environ, FLOPSMITH_URL=service.url):
            with self.assertRaisesRegex(Error, "jail"):
                rewarded(self.folder, self.row, [fenced(FAST)])
            # As the page says of this manager.
            [result] = rewarded(self.folder, self.row, [fenced(FAST)], ["reward.reward_manager.name=rate_limited"])
        self.assertEqual(result["reward_score"], 0.0)
        self.assertIn("jail", result["reward_extra_info"]["error"])


if __name__ == "__main__":
    unittest.main()
