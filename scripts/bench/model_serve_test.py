#!/usr/bin/env python3
"""Tests of model_serve.py that need no build: a service of its own that answers at once."""
import http.server
import json
import sys
import threading
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from model_serve import code, judged, rate, summary, table, verdicts, written  # noqa: E402
from rust_style import run as run_all  # noqa: E402

ROUNDS = [{"serve": 20, "sampler": 25, "other": 5}, {"serve": 90, "sampler": 60, "other": 10}, {"serve": 30, "sampler": 30, "other": 10}]


class Answers(http.server.BaseHTTPRequestHandler):
    """Counts as many tokens as asked for; refuses a request for none."""

    def do_POST(self):
        tokens = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["max_tokens"]
        body = json.dumps({"usage": {"completion_tokens": tokens}}).encode()
        self.send_response(200 if tokens else 400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def ratios_are_those_of_rounds(_):
    of = summary(ROUNDS)
    assert (of["serve"]["rate"], of["serve"]["ratio"]) == (30, 1), of
    # The ratios are 0.8, 1.5 and 1; and 4, 9 and 3.
    assert (of["sampler"]["ratio"], of["other"]["ratio"]) == (1, 4), of
    assert len(list(table(of))) == 4


def both_ratios_are_judged(_):
    def of(sampler, transformers):
        rounds = [{"serve": 90, "sampler": 90 / sampler, "transformers serve": 90 / transformers}]
        return judged(summary(rounds))

    for sampler, transformers, met in ((0.95, 3.5, (True, True)), (0.85, 3.5, (False, True)), (0.95, 2.9, (True, False)), (0.5, 1, (False, False))):
        asked = of(sampler, transformers)
        assert tuple(one["met"] for one in asked.values()) == met and code(asked) == int(not all(met)), asked
        assert [line.partition(":")[0] for line in verdicts(asked)] == ["met" if one else "MISSED" for one in met], asked
    # The ratio itself is enough.
    assert code(judged({"sampler": {"ratio": 0.9}, "transformers serve": {"ratio": 3.0}})) == 0
    assert json.loads(json.dumps(of(0.95, 2.5)))["transformers serve"] == {"at_least": 3.0, "ratio": 2.5, "met": False}


def a_side_that_was_left_out_is_not_judged(_):
    asked = judged(summary(ROUNDS))
    assert asked["transformers serve"] == {"at_least": 3.0, "ratio": None, "met": None} and asked["sampler"]["met"] and code(asked) == 0, asked
    assert "not judged" in list(verdicts(asked))[1]
    assert code(judged({"sampler": {"ratio": 0.8}})) == 1


def an_answer_without_a_count_is_an_error(_):
    assert written({"usage": {"completion_tokens": 3}}) == 3
    for wrong in ({}, {"usage": None}, {"usage": {"completion_tokens": 0}}, {"usage": {"completion_tokens": True}}):
        try:
            written(wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


def all_tokens_of_all_requests_count(_):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_address[1]}"
    try:
        assert rate(address, "/v1/completions", [{"max_tokens": n} for n in (5, 7, 9)]) > 0
        try:
            rate(address, "/v1/completions", [{"max_tokens": n} for n in (5, 0)])
        except SystemExit as ended:
            assert "1 of 2 requests failed" in str(ended), ended
        else:
            raise AssertionError("a refused request went unnoticed")
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    tests = (ratios_are_those_of_rounds, both_ratios_are_judged, a_side_that_was_left_out_is_not_judged, an_answer_without_a_count_is_an_error, all_tokens_of_all_requests_count)
    sys.exit(run_all("model_serve", tests))
