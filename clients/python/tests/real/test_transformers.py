#!/usr/bin/env python3
"""Meets `transformers serve` from both sides: the client of `transformers chat` asks `flopsmith model serve`, and `flopsmith eval` and
`flopsmith search` ask a model that `transformers serve` serves."""

import asyncio
import contextlib
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading
import unittest

# Offline, the client would refuse to ask this machine, too. The tests give it no other address.
OFFLINE = {"HF_HUB_OFFLINE": os.environ.pop("HF_HUB_OFFLINE", "1")}

import policy
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from programs import PLAIN, fenced
from services import command, records, served

MESSAGES = [{"role": "user", "content": "// dgemm: unroll simd\n"}]
TOKEN = "0123456789abcdef0123456789abcdef"
LIMIT = 120


class ServedByFlopsmith(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        address, _ = stack.enter_context(served("model", "serve", "models/starter", "--port", "0", FLOPSMITH_SERVE_TOKEN=TOKEN))
        cls.place = {"base_url": f"{address}/v1", "api_key": TOKEN, "timeout": LIMIT}
        cls.client = InferenceClient(**cls.place)

    def chat(self, **more):
        return self.client.chat_completion(**{"messages": MESSAGES, "model": "starter", "max_tokens": 40, "temperature": 0} | more)

    def test_a_chat_is_answered_whole_and_streamed(self):
        whole = self.chat(logprobs=True, top_logprobs=2)
        [choice] = whole.choices
        self.assertEqual((choice.message.role, whole.model), ("assistant", "starter"))
        self.assertEqual(len(choice.logprobs.content), whole.usage.completion_tokens)
        events = list(self.chat(stream=True, stream_options={"include_usage": True}))
        deltas = [choice for event in events for choice in event.choices]
        self.assertEqual("".join(delta.delta.content or "" for delta in deltas), choice.message.content)
        self.assertEqual(deltas[-1].finish_reason, choice.finish_reason)
        self.assertEqual(events[-1].usage.completion_tokens, whole.usage.completion_tokens)

    def test_clients_at_once_get_what_each_gets_alone(self):
        async def all_at_once():
            async with AsyncInferenceClient(**self.place) as client:
                asked = [client.chat_completion(MESSAGES, model="starter", max_tokens=5 + 3 * n, temperature=0) for n in range(6)]
                return await asyncio.gather(*asked)

        for n, answer in enumerate(asyncio.run(all_at_once())):
            self.assertEqual(answer.choices[0].message.content, self.chat(max_tokens=5 + 3 * n).choices[0].message.content)

    def test_mistakes_are_errors_of_the_client(self):
        for status, more in ((404, {"model": "other"}), (400, {"frequency_penalty": 0.5})):
            with self.subTest(status), self.assertRaises(HfHubHTTPError) as caught:
                self.chat(**more)
            self.assertEqual(caught.exception.response.status_code, status)


@contextlib.contextmanager
def transformers_serve():
    """Starts `transformers serve` at a free port. Gives its address, and ends it."""
    serve = [pathlib.Path(sys.executable).with_name("transformers"), "serve", "--host", "127.0.0.1", "--port", "0", "--log-level", "info"]
    service = subprocess.Popen(serve, env=os.environ | OFFLINE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines, addresses = [], queue.Queue()

    def read():
        for line in service.stdout:
            lines.append(line)
            found = re.search(r"running on (http://\S+)", line)
            if found:
                addresses.put(found[1])
        addresses.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        address = addresses.get(timeout=LIMIT)
        if address is None:
            raise RuntimeError(f"transformers serve did not start:\n{''.join(lines)[-4000:]}")
        yield address
    finally:
        service.terminate()
        try:
            service.wait(60)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()
        reader.join()
        service.stdout.close()


class ServedByTransformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cls.model = cls.folder / "model"
        policy.write(cls.model, always=fenced(PLAIN))
        cls.address = stack.enter_context(transformers_serve())

    def endpoint(self, stream):
        """A file of settings for this server."""
        file = self.folder / "endpoint.toml"
        settings = {"url": f"{self.address}/v1", "model": str(self.model), "concurrency": 2, "omit": ["stream_options"], "stream": stream}
        # Values of JSON are values of TOML.
        file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
        return file

    def test_an_evaluation_gets_its_answers(self):
        for stream in (True, False):
            with self.subTest(stream=stream):
                folder = self.folder / f"evaluation-{stream}"
                task = ["--problem", "dot", "--workload", "small", "--samples", 2, "--purpose", "screen", "--output", folder]
                command("eval", f"endpoint:{self.endpoint(stream)}", *task)
                [judged] = json.loads((folder / "eval.json").read_text())["models"]
                self.assertEqual((judged["all"]["counts"]["answers"], judged["all"]["counts"]["correct"]), (2, 2), judged)
                answers = records(folder / "samples.jsonl")
                self.assertEqual([(answer["answer"], answer["finished"]) for answer in answers], [(fenced(PLAIN), True)] * 2)
                requests = [request for request in records(folder / "requests.jsonl") if request["event"] != "reserved"]
                self.assertEqual([request["event"] for request in requests], ["answered"] * 2)
                # The program is a token, and the end of the answer is one. A stream need not say so without `stream_options`.
                if not stream:
                    self.assertEqual([(request["output_tokens"], request.get("assumed", False)) for request in requests], [(2, False)] * 2)

    def test_a_search_gets_its_programs(self):
        settings = ["max_steps=1", "tasks=2", "group_size=4", "evaluate.finalists=0", "evaluate.quarantine=false", "generator.max_tokens=512"]
        runs = self.folder / "runs"
        task = ["--problem", "dot", "--workload", "small", "--budget", "10m", "--runs", runs, *(f"--set={one}" for one in settings)]
        said = command("search", "--endpoint", self.endpoint(True), "--format", "json", *task)
        summary = json.loads(said.splitlines()[-1])
        self.assertTrue(summary["finished"])
        self.assertEqual(summary["best"]["source"].strip(), PLAIN.strip())
        self.assertEqual((summary["endpoint"]["requests"], summary["endpoint"]["failed"], summary["infrastructure_errors"]), (8, 0, 0))
        [run] = runs.glob("*/answers.jsonl")
        self.assertEqual([answer["answer"] for answer in records(run)], [fenced(PLAIN)] * 8)


if __name__ == "__main__":
    unittest.main()
