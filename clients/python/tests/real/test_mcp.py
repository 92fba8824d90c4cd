#!/usr/bin/env python3
"""Talks to `flopsmith mcp`, and to `/mcp` of the service, by the package `mcp`. The sessions are left in target/clients/mcp.md."""

import asyncio
import os
import tempfile
import unittest

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from programs import FAST, PLAIN, WRONG
from services import ROOT, program, shown, transcript

TOOLS = {"evaluate", "compare", "explain_refusal", "problem", "problems", "best_programs", "roofline", "explain_build"}
# The way in which the client begins, and the revision of the protocol that both sides have then.
MODES = [("auto", "2026-07-28"), ("legacy", "2025-11-25")]
TASK = {"problem": "dot", "workloads": ["small"], "purpose": "screen"}


class Mcp(unittest.TestCase):
    said = []

    @classmethod
    def tearDownClass(cls):
        transcript("mcp", "Sessions of the package `mcp` with the server of Flopsmith", cls.said)

    async def session(self, place, server, mode, revision):
        """A session of an agent, which the package checks by the schemas of the tools. Gives the result of a right program and its progress."""
        async with Client(server, mode=mode) as client:
            self.assertEqual((client.server_info.name, client.protocol_version), ("flopsmith", revision))
            tools = (await client.list_tools()).tools
            self.assertEqual({tool.name for tool in tools}, TOOLS)
            self.assertTrue(all(tool.output_schema for tool in tools))
            about = "\n".join(f"{tool.name}: {tool.description}" for tool in tools)
            self.said.append((f"{place}, revision {revision}: the tools", f"{client.instructions}\n\n{about}"))

            async def call(tool, **arguments):
                progress = []

                async def told(*words):
                    progress.append(words)

                result = await client.call_tool(tool, arguments, progress_callback=told)
                answer = result.structured_content or "".join(block.text for block in result.content)
                self.said.append((f"{place}: {tool}", f"{shown(arguments)}\n\nanswer:\n{shown(answer)}"))
                self.assertEqual(result.is_error, not isinstance(answer, dict), answer)
                return answer, progress

            described, _ = await call("problem", problem="dot")
            self.assertIn("void dot(", described["prototype"])
            right, progress = await call("evaluate", **TASK, source=FAST)
            self.assertIn(right["outcome"], ("measured", "unconverged"))
            self.assertTrue(right["correct"])
            self.assertGreater(right["ratio"], 0)
            wrong, _ = await call("evaluate", **TASK, source=WRONG)
            self.assertEqual((wrong["outcome"], wrong["reason"]), ("rejected", "wrong_result"))
            why, _ = await call("explain_refusal", reason=wrong["reason"])
            self.assertEqual(why["fault_of"], "program")
            entrants = [{"name": "plain", "source": PLAIN}, {"name": "fast", "source": FAST}]
            compared, _ = await call("compare", **TASK, programs=entrants)
            self.assertEqual([(one["name"], one["result"]["correct"]) for one in compared["programs"]], [("plain", True), ("fast", True)])
            [beside] = compared["beside_first"]
            self.assertEqual(beside["program"], 1)
            self.assertGreater(beside["times_as_fast"], 1)
            mistake, _ = await call("evaluate", problem="../dot", source=FAST)
            self.assertIsInstance(mistake, str)
            with self.assertRaises(MCPError):
                await client.call_tool("evaluate_all", {})
            return right, progress

    def test_an_agent_starts_the_server_itself(self):
        for mode, revision in MODES:
            with self.subTest(mode), tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
                arguments = ["mcp", "--folder", folder, "--max-evaluations", "5"]
                server = StdioServerParameters(command=program(), args=arguments, env=os.environ | {"FLOPSMITH_WAIT": "0"}, cwd=ROOT)
                right, progress = asyncio.run(self.session("stdio", stdio_client(server, errlog=log), mode, revision))
                self.assertEqual(right["budget"]["evaluations"], 4)
                # The first program waits for the measurement of the reference.
                self.assertTrue(progress)

    def test_an_agent_connects_to_a_service(self):
        for mode, revision in MODES:
            with self.subTest(mode):
                right, _ = asyncio.run(self.session("HTTP", f"{os.environ['FLOPSMITH_URL']}/mcp", mode, revision))
                self.assertIsNone(right["budget"])


if __name__ == "__main__":
    unittest.main()
