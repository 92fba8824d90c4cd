#!/usr/bin/env python3
"""Talks to `flopsmith model serve` by the `openai` package. The model is the starter; the tests start the service themselves."""

import asyncio
import contextlib
import json
import pathlib
import random
import struct
import tempfile
import unittest

import openai
from services import ROOT, served

PROMPT = "// dgemm: unroll simd\n"
TOKEN = "0123456789abcdef0123456789abcdef"
LIMIT = 120


def write_adapter(folder, seed):
    """An adapter of the starter in PEFT's layout, with random numbers: rank 2, on the query projections."""
    model = json.loads((ROOT / "models/starter/config.json").read_text(encoding="utf-8"))
    hidden, draw = model["hidden_size"], random.Random(seed)
    entries, data = {}, b""
    for layer in range(model["num_hidden_layers"]):
        for side, shape in (("A", [2, hidden]), ("B", [hidden, 2])):
            numbers = [draw.gauss(0, 0.5) for _ in range(2 * hidden)]
            packed = struct.pack(f"<{len(numbers)}f", *numbers)
            name = f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{side}.weight"
            entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
            data += packed
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")


class OpenAI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for seed, name in enumerate(["one", "other"]):
            write_adapter(place / name, seed)
        address, _ = stack.enter_context(served(
            "model", "serve", "models/starter", "--port", "0", "--adapter", f"one={place / 'one'}", "--adapter-folder", place, FLOPSMITH_SERVE_TOKEN=TOKEN,
        ))
        cls.url = f"{address}/v1"
        cls.client = stack.enter_context(openai.OpenAI(base_url=cls.url, api_key=TOKEN, max_retries=0, timeout=LIMIT))

    def completion(self, **more):
        wanted = {"model": "starter", "prompt": PROMPT, "max_tokens": 40, "seed": 5} | more
        return self.client.completions.create(**wanted)

    def test_the_models_are_listed(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["starter", "one"])
        self.assertEqual(self.client.models.retrieve("starter").owned_by, "flopsmith")

    def test_an_adapter_is_asked_for_by_its_name_also_one_that_came_later(self):
        def text(model):
            return self.completion(model=model, temperature=0).choices[0].text

        self.assertNotEqual(text("one"), text("starter"))
        with self.assertRaises(openai.NotFoundError):
            text("late")
        # vLLM's routes; they lie beside those of OpenAI.
        self.client.post("/load_lora_adapter", cast_to=object, body={"lora_name": "late", "lora_path": "other"})
        try:
            self.assertEqual(len({text("late"), text("one"), text("starter")}), 3)
            self.assertEqual(self.client.models.retrieve("late").parent, "starter")
        finally:
            self.client.post("/unload_lora_adapter", cast_to=object, body={"lora_name": "late"})
        with self.assertRaises(openai.NotFoundError):
            text("late")

    def test_a_seed_gives_the_same_completion_whole_and_streamed(self):
        whole = self.completion(n=2)
        again = self.completion(n=2)
        self.assertEqual([c.text for c in whole.choices], [c.text for c in again.choices])
        texts, usage = ["", ""], None
        for event in self.completion(n=2, stream=True, stream_options={"include_usage": True}):
            usage = event.usage or usage
            for choice in event.choices:
                texts[choice.index] += choice.text
        self.assertEqual(texts, [c.text for c in whole.choices])
        self.assertEqual(usage, whole.usage)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

    def test_token_ids_and_log_probabilities_are_of_the_same_tokens(self):
        ids = {"return_token_ids": True, "return_tokens_as_token_ids": True}
        [choice] = self.completion(logprobs=3, extra_body=ids).choices
        self.assertEqual(choice.logprobs.tokens, [f"token_id:{token}" for token in choice.token_ids])
        self.assertEqual(len(choice.logprobs.token_logprobs), len(choice.token_ids))
        self.assertTrue(all(logprob <= 0 for logprob in choice.logprobs.token_logprobs))
        [again] = self.completion(prompt=choice.prompt_token_ids).choices
        self.assertEqual(again.text, choice.text)

    def test_a_chat_is_answered_whole_and_streamed(self):
        wanted = {"model": "starter", "messages": [{"role": "user", "content": PROMPT}], "max_completion_tokens": 40, "temperature": 0, "logprobs": True, "top_logprobs": 2}
        whole = self.client.chat.completions.create(**wanted)
        [choice] = whole.choices
        self.assertEqual(choice.message.role, "assistant")
        self.assertEqual(len(choice.logprobs.content), whole.usage.completion_tokens)
        for token in choice.logprobs.content:
            # At temperature 0 the likeliest token is taken.
            self.assertAlmostEqual(token.logprob, token.top_logprobs[0].logprob, places=3)
        pieces, reasons = [], []
        for event in self.client.chat.completions.create(**wanted, stream=True):
            pieces.append(event.choices[0].delta.content or "")
            reasons.append(event.choices[0].finish_reason)
        self.assertEqual("".join(pieces), choice.message.content)
        self.assertEqual(reasons[-1], choice.finish_reason)
        self.assertEqual(set(reasons[:-1]), {None})

    def test_many_clients_at_once_get_what_each_gets_alone(self):
        async def all_at_once():
            async with openai.AsyncOpenAI(base_url=self.url, api_key=TOKEN, max_retries=0, timeout=LIMIT) as client:
                wanted = [client.completions.create(model="starter", prompt=PROMPT, max_tokens=5 + 3 * n, temperature=0) for n in range(12)]
                return await asyncio.gather(*wanted)

        for n, answer in enumerate(asyncio.run(all_at_once())):
            alone = self.completion(max_tokens=5 + 3 * n, temperature=0)
            self.assertEqual(answer.choices[0].text, alone.choices[0].text)

    def test_mistakes_have_the_packages_own_errors(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.completion(model="other")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.completion(max_tokens=1_000_000)
        self.assertEqual((caught.exception.code, caught.exception.param), ("context_length_exceeded", "prompt"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.completion(frequency_penalty=0.5)
        self.assertEqual(caught.exception.param, "frequency_penalty")
        stranger = openai.OpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=LIMIT)
        with stranger, self.assertRaises(openai.AuthenticationError):
            stranger.models.list()


if __name__ == "__main__":
    unittest.main()
