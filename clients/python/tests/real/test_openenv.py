#!/usr/bin/env python3
"""Plays episodes by OpenEnv's own client, which connects a WebSocket."""

import os
import unittest

from openenv import GenericEnvClient
from programs import FAST, WRONG, fenced


def connected():
    """A client with a time limit that covers the evaluations that wait, as the how-to page asks."""
    return GenericEnvClient(base_url=os.environ["FLOPSMITH_URL"], message_timeout_s=300).sync()


class Episodes(unittest.TestCase):
    def test_an_episode_has_steps_with_rewards_and_ends(self):
        with connected() as env:
            begun = env.reset(problem="dot", max_steps=2)
            self.assertIn("void dot(int n", begun.observation["prompt"])
            self.assertEqual((begun.reward, begun.done), (None, False))
            wrong = env.step({"source": WRONG})
            self.assertEqual((wrong.reward, wrong.done), (-0.1, False))
            self.assertEqual(wrong.observation["outcome"], "rejected")
            fast = env.step({"answer": fenced(FAST)})
            self.assertGreater(fast.reward, 0)
            self.assertTrue(fast.done)
            self.assertEqual(fast.observation["correct"], True)
            state = env.state()
            self.assertEqual((state["step_count"], state["problem"], state["done"]), (2, "dot", True))
            # A socket is a session: the next episode begins on the same one.
            again = env.reset(seed=3, problem="dot")
            self.assertNotEqual(again.observation["episode_id"], begun.observation["episode_id"])

    def test_a_mistake_is_raised_and_ends_no_session(self):
        with connected() as env:
            with self.assertRaisesRegex(RuntimeError, "dott"):
                env.reset(problem="dott")
            env.reset(problem="dot")
            with self.assertRaises(RuntimeError):
                env.step({"code": WRONG})
            self.assertEqual(env.step({"source": WRONG}).reward, -0.1)


if __name__ == "__main__":
    unittest.main()
