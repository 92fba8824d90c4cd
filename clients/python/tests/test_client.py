#!/usr/bin/env python3
"""Tests of the client against a server of this process that misbehaves as it is told."""

import asyncio
import json
import pathlib
import sys
import tempfile
import threading
import types
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "src"))

from flopsmith import Candidate, Error, Evaluator, Program, Refused, Unreachable, client, openrlhf, slime, trl, verl
from flopsmith.evaluators import for_openevolve, for_shinka


def answer(index, reward=0.5, **more):
    measured = {"reward": reward, "outcome": "measured", "correct": True, "ratio": 4.0, "interval": {"low": 3.5, "high": 4.5, "confidence": 0.95}, "gflops": 8.0}
    failed = {"reward": None, "outcome": "infrastructure", "reason": "jail", "correct": None, "diagnostics": "no jail"}
    return {"index": index, "id": str(index), "problem": "dgemm"} | (measured if reward is not None else failed) | more


class Server:
    """Answers the n-th request with the n-th item of `script`: a function of the handler."""

    def __init__(self, *script):
        self.seen = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append((self.path, dict(self.headers), body))
                script[len(outer.seen) - 1](self)

            def do_GET(self):
                outer.seen.append((self.path, dict(self.headers), None))
                script[len(outer.seen) - 1](self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def lines(*answers):
    """Sends these answers, and ends."""

    def send(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write("".join(json.dumps(a) + "\n" for a in answers).encode())

    return send


def refuse(status, kind, **headers):
    def send(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        errors = [{"pointer": "/candidates/0/problem", "detail": "there is no problem `x`"}]
        details = {"type": f"urn:flopsmith:error:{kind}", "detail": "why", "errors": errors if status == 422 else []}
        handler.wfile.write(json.dumps(details).encode())

    return send


def cut(*answers):
    """Sends these answers and a part of another one."""

    def send(handler):
        lines(*answers)(handler)
        handler.wfile.write(b'{"index": 1, "id"')

    return send


def silent(then=None):
    """Reads nothing more and sends nothing, until the client has gone; `then` is sent first."""

    def send(handler):
        if then is not None:
            then(handler)
            handler.wfile.flush()
        handler.connection.settimeout(60)
        try:
            handler.connection.recv(1)
        except OSError:
            pass

    return send


class Answers(unittest.TestCase):
    def setUp(self):
        pauses = mock.patch.object(client.time, "sleep")
        self.pauses = pauses.start()
        self.addCleanup(pauses.stop)

    def test_a_batch_keeps_its_order_and_a_candidate_names_only_what_it_has(self):
        with Server(lines(answer(0, 0.1), answer(1, 0.2))) as server:
            batch = [Candidate("dgemm", "a", workloads=("n=256",)), Candidate("lu", answer="b", language="c++", id="x")]
            results = Evaluator(server.url, token="secret-token-0123", purpose="screen").evaluate_many(batch)
        self.assertEqual([result.reward for result in results], [0.1, 0.2])
        self.assertEqual(results[0].interval, (3.5, 4.5))
        path, headers, body = server.seen[0]
        self.assertEqual((path, headers["Authorization"]), ("/v1/evaluate", "Bearer secret-token-0123"))
        candidates = [{"problem": "dgemm", "source": "a", "workloads": ["n=256"]}, {"problem": "lu", "answer": "b", "language": "c++", "id": "x"}]
        self.assertEqual(body, {"candidates": candidates, "purpose": "screen"})

    def test_a_request_is_repeated_with_its_key_and_no_answer_comes_twice(self):
        stopping = {"type": "urn:flopsmith:error:unavailable", "detail": "the service is stopping"}
        script = cut(answer(0)), refuse(503, "unavailable", Retry_After="7"), lines(answer(0), stopping), lines(answer(0), answer(1))
        with Server(*script) as server:
            batch = [Candidate("dgemm", "a"), Candidate("dgemm", "b")]
            results = list(Evaluator(server.url).stream(batch))
        self.assertEqual([result.index for result in results], [0, 1])
        self.assertEqual(len({headers["Idempotency-Key"] for _, headers, _ in server.seen}), 1)
        self.assertEqual(len(server.seen), 4)
        self.assertIn(mock.call(7.0), self.pauses.mock_calls)

    def test_candidates_that_the_machine_failed_to_evaluate_are_sent_again(self):
        script = lines(answer(0), answer(1, None), answer(2, None)), lines(answer(0, 0.9), answer(1, None)), lines(answer(0, None))
        with Server(*script) as server:
            results = Evaluator(server.url).evaluate_many([Candidate("dgemm", source) for source in "abc"])
        self.assertEqual([result.reward for result in results], [0.5, 0.9, None])
        self.assertEqual([result.index for result in results], [0, 1, 2])
        sources = [[candidate["source"] for candidate in body["candidates"]] for _, _, body in server.seen]
        self.assertEqual(sources, [["a", "b", "c"], ["b", "c"], ["c"]])
        self.assertEqual(len({headers["Idempotency-Key"] for _, headers, _ in server.seen}), 3)

    def test_a_refusal_is_raised_at_once(self):
        with Server(refuse(422, "invalid")) as server:
            with self.assertRaises(Refused) as raised:
                Evaluator(server.url).evaluate("a", "x")
        self.assertEqual((raised.exception.status, raised.exception.kind), (422, "invalid"))
        self.assertIn("/candidates/0/problem: there is no problem `x`", str(raised.exception))
        self.pauses.assert_not_called()

    def test_a_quota_that_is_used_up_is_raised_at_once(self):
        with Server(refuse(429, "quota", Retry_After="86400")) as server:
            with self.assertRaises(Refused) as raised:
                Evaluator(server.url).evaluate("a", "dgemm")
        self.assertEqual(raised.exception.kind, "quota")
        self.pauses.assert_not_called()

    def test_a_service_that_is_gone_is_unreachable_in_the_end(self):
        with Server() as server:
            pass
        with self.assertRaisesRegex(Unreachable, "in 3 tries.*flopsmith serve"):
            Evaluator(server.url, tries=3).evaluate("a", "dgemm")
        self.assertEqual(len(self.pauses.mock_calls), 2)
        for wrong in ("localhost:8765", "ftp://localhost", "http://"):
            with self.assertRaisesRegex(ValueError, "no address"):
                Evaluator(wrong)

    def test_silence_of_a_long_queue_is_no_failed_try(self):
        script = silent(), silent(), silent(lines(answer(0))), silent(), lines(answer(0), answer(1))
        with Server(*script) as server:
            evaluator = Evaluator(server.url, silence=0.1, tries=1)
            results = evaluator.evaluate_many([Candidate("dgemm", "a"), Candidate("dgemm", "b")])
        self.assertEqual([result.index for result in results], [0, 1])
        self.assertEqual(len({headers["Idempotency-Key"] for _, headers, _ in server.seen}), 1)
        with Server(silent(), silent(), lambda handler: lines({"rewards": [1.0]})(handler)) as server:
            self.assertEqual(Evaluator(server.url, silence=0.1, tries=1).post("/v1/openrlhf", {}), {"rewards": [1.0]})
        # Only evaluations may take long.
        with Server(silent(), silent()) as server, self.assertRaises(Unreachable):
            Evaluator(server.url, silence=0.1, tries=2).health()

    def test_results_come_without_blocking_the_event_loop(self):
        async def both():
            evaluator = Evaluator(server.url)
            return await asyncio.gather(evaluator.aevaluate("a", "dgemm"), evaluator.aevaluate_many([Candidate("dgemm", "b")]))

        with Server(lines(answer(0)), lines(answer(0))) as server:
            one, many = asyncio.run(both())
        self.assertEqual((one.reward, many[0].reward), (0.5, 0.5))

    def test_candidates_are_compared_with_a_program(self):
        beside = {"ratio_to_against": 2.0, "interval_to_against": {"low": 1.8, "high": 2.2, "confidence": 0.95}}
        foretold = lines({"evaluations": 2})
        with Server(lines(answer(0, **beside)), lines(answer(0, None)), lines(answer(0)), foretold) as server:
            evaluator = Evaluator(server.url)
            result = evaluator.evaluate("a", "dgemm", against=Program("b", language="c++"))
            batch = [Candidate("dgemm", "a")]
            asyncio.run(evaluator.aevaluate_many(batch, against="best"))
            evaluator.dry_run(batch, against=Program("b"))
        self.assertEqual((result.ratio, result.ratio_to_against, result.interval_to_against), (4.0, 2.0, (1.8, 2.2)))
        sent = [body["against"] for _, _, body in server.seen]
        # A candidate that is sent again is compared, too.
        self.assertEqual(sent, [{"source": "b", "language": "c++"}, "best", "best", {"source": "b"}])

    def test_a_dry_run_is_one_object(self):
        foretold = {"problems": ["dgemm"], "purpose": "rank", "candidates": 1, "evaluations": 1, "position": 0, "expected_wait_seconds": 2.0}
        with Server(cut(), lines(foretold)) as server:
            self.assertEqual(Evaluator(server.url).dry_run([Candidate("dgemm", "a")]), foretold)
        path, headers, body = server.seen[1]
        self.assertEqual((path, headers["Content-Type"]), ("/v1/evaluate", "application/json"))
        self.assertEqual(body, {"candidates": [{"problem": "dgemm", "source": "a"}], "purpose": "rank", "dry_run": True})

    def test_problems_are_asked_for_by_name(self):
        def send(handler):
            lines({"problem": "a b"})(handler)

        with Server(send) as server:
            self.assertEqual(Evaluator(server.url + "/prefix/").problem("a b"), {"problem": "a b"})
        self.assertEqual(server.seen[0][0], "/prefix/v1/problems/a%20b")


class Tools(unittest.TestCase):
    def test_trl_gets_a_reward_or_none_for_each_completion(self):
        script = [lines(answer(0), answer(1, None))] + [lines(answer(0, None))] * 2
        logged = {}
        with Server(*script) as server:
            reward_func = trl.make_reward_func(Evaluator(server.url))
            chat = [{"role": "assistant", "content": "first"}, {"role": "assistant", "content": [{"type": "text", "text": "second"}]}]
            rewards = reward_func(
                prompts=["p", "q"], completions=["text", chat], completion_ids=[[1], [2]], problem=["dgemm", "lu"], workload=["n=256", None],
                trainer_state=None, log_metric=logged.__setitem__, log_extra=logged.__setitem__,
            )
        self.assertEqual(rewards, [0.5, None])
        candidates = [{"problem": "dgemm", "answer": "text", "workloads": ["n=256"]}, {"problem": "lu", "answer": "second"}]
        self.assertEqual(server.seen[0][2]["candidates"], candidates)
        self.assertEqual(logged["flopsmith/failed_by_machine"], 0.5)
        self.assertEqual(logged["flopsmith/outcome"], ["measured", "jail"])
        self.assertEqual(trl.reward_func.__name__, "reward_func")
        with self.assertRaisesRegex(ValueError, "no problem is named"):
            trl.make_reward_func()(completions=["x"])

    def test_trl_trains_on_while_the_service_is_gone(self):
        with Server() as server:
            url = server.url
        reward = trl.make_reward_func(Evaluator(url, tries=2), problem="dgemm")
        logged = {}
        with self.assertWarnsRegex(RuntimeWarning, "did not answer in 2 tries"):
            rewards = reward(completions=["a", "b"], log_metric=logged.__setitem__)
        self.assertEqual(rewards, [None, None])
        self.assertEqual(logged, {"flopsmith/failed_by_machine": 1.0})

    def test_verl_gets_a_score_or_an_exception(self):
        with Server(lines(answer(0))) as server, mock.patch.dict("os.environ", FLOPSMITH_URL=server.url):
            score = verl.compute_score(data_source="d", solution_str="s", ground_truth="dgemm", extra_info={"index": 1})
        self.assertEqual(score, {"score": 0.5, "acc": 1.0, "ratio": 4.0})
        self.assertEqual(server.seen[0][2]["candidates"], [{"problem": "dgemm", "answer": "s"}])
        with Server(*[lines(answer(0, None))] * 3) as server, mock.patch.dict("os.environ", FLOPSMITH_URL=server.url):
            with self.assertRaisesRegex(Error, "jail"):
                asyncio.run(verl.compute_score_async(solution_str="s", extra_info={"problem": "lu"}))

    def test_openrlhf_gets_rewards_or_an_exception(self):
        rewards = {"rewards": [0.5], "scores": [1.0], "extra_logs": {"correct": [1.0], "ratio": [4.0]}}
        script = refuse(503, "infrastructure", Retry_After="5"), lines(rewards), refuse(422, "invalid")
        with Server(*script) as server, mock.patch.dict("os.environ", FLOPSMITH_URL=server.url, FLOPSMITH_PURPOSE="screen", FLOPSMITH_SERVE_TOKEN="t" * 16):
            with mock.patch.object(client.time, "sleep") as pause:
                self.assertEqual(openrlhf.reward_func(["p a"], ["p"], ["dgemm"]), rewards)
            pause.assert_called_once_with(5.0)
            with self.assertRaisesRegex(ValueError, "no problem is named"):
                openrlhf.reward_func(["p a"], ["p"], [None])
            with mock.patch.dict("os.environ", FLOPSMITH_PROBLEM="lu", FLOPSMITH_WORKLOAD="n=256"), self.assertRaises(Refused):
                openrlhf.reward_func(["p a", "p b"], ["p", "p"], ["", "dgemm"])
        path, headers, body = server.seen[1]
        self.assertEqual((path, headers["Authorization"]), ("/v1/openrlhf?purpose=screen", "Bearer " + "t" * 16))
        self.assertEqual(body, {"query": ["p a"], "prompts": ["p"], "labels": ["dgemm"]})
        self.assertEqual(server.seen[2][0], "/v1/openrlhf?purpose=screen&workload=n%3D256")
        self.assertEqual(server.seen[2][2]["labels"], ["lu", "dgemm"])

    def test_slime_gets_a_number_for_each_sample_or_an_exception(self):
        def sample(response, label="dgemm"):
            return types.SimpleNamespace(prompt=[{"role": "user", "content": "p"}], response=response, label=label)

        with Server(lines(0.25)) as server, mock.patch.dict("os.environ", FLOPSMITH_URL=server.url):
            self.assertEqual(asyncio.run(slime.reward(None, sample("a"), evaluation=False)), 0.25)
        path, _, body = server.seen[0]
        self.assertEqual(path, "/v1/slime?purpose=rank")
        self.assertEqual(body, {"prompt": [{"role": "user", "content": "p"}], "response": "a", "label": "dgemm"})
        with mock.patch.object(slime, "_reward", lambda one: float(one.response)):
            self.assertEqual(asyncio.run(slime.reward(None, [sample("0.5"), sample("-0.1")])), [0.5, -0.1])
        with Server(*[refuse(503, "infrastructure")] * 8) as server, mock.patch.dict("os.environ", FLOPSMITH_URL=server.url):
            with mock.patch.object(client.time, "sleep"), self.assertRaisesRegex(Unreachable, "in 8 tries: 503 infrastructure"):
                asyncio.run(slime.reward(None, sample("x")))

    def test_openevolve_gets_the_lower_end_of_the_interval(self):
        wrong = answer(0, -0.1, outcome="rejected", reason="wrong_result", correct=False, ratio=None, interval=None, gflops=None)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.cpp"
            program.write_text("int x;", encoding="utf-8")
            with Server(lines(answer(0)), lines(wrong)) as server:
                with mock.patch.dict("os.environ", FLOPSMITH_URL=server.url, FLOPSMITH_PROBLEM="dgemm"):
                    right, refused = for_openevolve.evaluate(str(program)), for_openevolve.evaluate(str(program))
        self.assertEqual(right, {"combined_score": 3.5, "correct": 1.0, "ratio": 4.0, "gflops": 8.0})
        self.assertEqual(refused["combined_score"], 0.0)
        self.assertEqual(server.seen[0][2]["candidates"], [{"problem": "dgemm", "source": "int x;", "language": "c++"}])

    def test_shinka_gets_its_files_unless_the_machine_failed(self):
        wrong = answer(0, -0.1, outcome="rejected", reason="wrong_result", correct=False, ratio=None, interval=None, gflops=None, diagnostics="n = 1")
        script = lines(answer(0)), lines(wrong), *[lines(answer(0, None))] * 3
        with tempfile.TemporaryDirectory() as folder, Server(*script) as server:
            program = pathlib.Path(folder) / "main.cpp"
            program.write_text("int x;", encoding="utf-8")

            def evaluated(results):
                for_shinka.main(["--program_path", str(program), "--results_dir", results])
                return [json.loads(pathlib.Path(results, name).read_text(encoding="utf-8")) for name in ("metrics.json", "correct.json")]

            with mock.patch.dict("os.environ", FLOPSMITH_URL=server.url, FLOPSMITH_PROBLEM="dgemm", FLOPSMITH_WORKLOAD="n=256"):
                right, refused = evaluated(f"{folder}/right"), evaluated(f"{folder}/wrong")
                with self.assertRaisesRegex(Error, "jail"):
                    evaluated(f"{folder}/failed")
            self.assertFalse(pathlib.Path(folder, "failed").exists())
        public = {"correct": 1.0, "ratio": 4.0, "gflops": 8.0, "techniques": ""}
        private = {"reward": 0.5, "reward_se": None}
        self.assertEqual(right[0], {"combined_score": 3.5, "public": public, "private": private, "text_feedback": "measured"})
        self.assertEqual(right[1], {"correct": True, "error": None})
        self.assertEqual((refused[0]["combined_score"], refused[0]["text_feedback"]), (0.0, "wrong_result\nn = 1"))
        self.assertEqual(refused[1], {"correct": False, "error": "wrong_result: n = 1"})
        self.assertEqual(server.seen[0][2]["candidates"], [{"problem": "dgemm", "source": "int x;", "language": "c++", "workloads": ["n=256"]}])


if __name__ == "__main__":
    unittest.main()
