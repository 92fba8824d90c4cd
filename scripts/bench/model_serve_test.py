#!/usr/bin/env python3
"""Tests of model_serve.py that need no build: a service of its own that answers at once."""
import http.server
import json
import sys
import threading
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from model_serve import rate, summary, table, written  # noqa: E402
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
    tests = (ratios_are_those_of_rounds, an_answer_without_a_count_is_an_error, all_tokens_of_all_requests_count)
    sys.exit(run_all("model_serve", tests))
