#!/usr/bin/env python3
"""Asks for rewards by OpenRLHF's own code, and by a request as slime sends it: at the URLs of the how-to page, and by the client.

OpenRLHF's package imports deepspeed and vLLM, which need a GPU. Its file with the reward call needs neither. slime has no package; the request
is that of `remote_rm` in its `slime/rollout/rm_hub/__init__.py` (THUDM/slime at 0b420f1e).
"""

import asyncio
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import types
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import policy
import transformers
from flopsmith import openrlhf, slime
from pages import HOW_TO, block
from programs import FAST, WRONG, fenced


def url(route):
    """The URL of the page, with the address of the tested service."""
    [path] = re.findall(rf"http://127\.0\.0\.1:8765(/v1/{route}\S*)", block(HOW_TO, "OpenRLHF and slime", ""))
    return os.environ["FLOPSMITH_URL"] + path


def agent():
    """OpenRLHF's module `utils.agent`, without the packages around it."""
    [root] = importlib.util.find_spec("openrlhf").submodule_search_locations
    for name in ("openrlhf", "openrlhf.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(root).joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    return importlib.import_module("openrlhf.utils.agent")


class Engine:
    """An inference engine that gives one answer."""

    def __init__(self, tokens):
        self.output = types.SimpleNamespace(token_ids=tokens, finish_reason="stop", logprobs=None, text="")

    async def generate(self, prompt, parameters, multi_modal_data=None):
        return types.SimpleNamespace(outputs=[self.output])


class Calls(unittest.TestCase):
    def test_openrlhf_gets_reward_score_and_logs(self):
        with tempfile.TemporaryDirectory() as folder:
            policy.write(pathlib.Path(folder))
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        parameters = types.SimpleNamespace(max_tokens=64, logprobs=None)
        executor = agent().SingleTurnAgentExecutor
        for place in (url("openrlhf"), openrlhf.__file__):
            with self.subTest(place):
                self.check(executor([place]), tokenizer, parameters)

    def check(self, executor, tokenizer, parameters):
        def ask(text, prompt=fenced(WRONG), length=512):
            engine = Engine(tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id])
            # The prompt shows a program, which is not the answer.
            return asyncio.run(executor.execute(prompt, "dot", parameters, length, tokenizer, engine))

        fast, none = ask(fenced(FAST)), ask("<pad>")
        self.assertGreater(fast["reward"][0], 0, fast)
        self.assertEqual((fast["scores"], fast["extra_logs"]["correct"]), ([1.0], [1.0]))
        self.assertGreater(fast["extra_logs"]["ratio"][0], 0)
        self.assertEqual((none["reward"], none["scores"]), ([-1.0], [0.0]))
        # The length leaves room for the last token of the prompt, which is the second program.
        truncated = ask("<pad>", fenced(FAST) + fenced(WRONG), 65)
        self.assertEqual((truncated["reward"], truncated["scores"]), ([-1.0], [0.0]))

    def test_slime_gets_a_number(self):
        def ask(program):
            body = json.dumps({"prompt": "write", "response": fenced(program), "label": None}).encode()
            request = urllib.request.Request(url("slime"), body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)

        self.assertGreater(ask(FAST), 0)
        self.assertEqual(ask(WRONG), -0.1)
        samples = [types.SimpleNamespace(prompt="write", response=fenced(program), label="dot") for program in (FAST, WRONG)]
        fast, wrong = asyncio.run(slime.reward(None, samples))
        self.assertGreater(fast, 0)
        self.assertEqual(wrong, -0.1)


if __name__ == "__main__":
    unittest.main()
