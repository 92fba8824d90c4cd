#!/usr/bin/env python3
"""Tests of model_serve.py that need no build: services of its own that answer at once."""
import http.server
import json
import socket
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from model_serve import TEMPLATE, batch, code, decoded, encoded, exchanged, generation, judged, of_batches, shorter, summary, table, verdicts, with_template, written  # noqa: E402
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
        rate, tokens = batch(address, "/v1/completions", [{"max_tokens": n} for n in (5, 7, 9)])
        assert rate > 0 and tokens == 21, (rate, tokens)
        try:
            batch(address, "/v1/completions", [{"max_tokens": n} for n in (5, 0)])
        except SystemExit as ended:
            assert "1 of 2 requests failed" in str(ended), ended
        else:
            raise AssertionError("a refused request went unnoticed")
    finally:
        server.shutdown()
        server.server_close()


def the_clock_begins_after_all_connections_and_ends_with_the_last_byte(_):
    """A server that accepts all connections before it reads, and closes them late."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def serve():
            accepted = [listener.accept()[0] for _ in range(3)]
            for one in accepted:
                one.recv(1 << 16)
            for one in accepted[1:]:
                # In two pieces.
                one.sendall(reply[:9])
                one.sendall(reply[9:])
            time.sleep(1)
            for one in accepted:
                one.close()

        server = threading.Thread(target=serve)
        server.start()
        seconds, answers = exchanged(address, [encoded(address, "/v1/chat", {"row": row}) for row in range(3)])
        server.join()
    assert [bytes(answer) for answer in answers] == [b"", reply, reply] and seconds < 1, (seconds, answers)
    assert decoded(reply, "/v1/chat") == {}
    for wrong in (b"", reply[:-1], reply.replace(b"200", b"422")):
        try:
            decoded(wrong, "/v1/chat")
        except Exception:
            continue
        raise AssertionError(wrong)


def a_request_asks_for_the_end_of_its_connection(_):
    head, _, body = encoded("127.0.0.1:8000", "/v1/completions", {"prompt": "ü"}).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/completions HTTP/1.1" and "Host: 127.0.0.1:8000" in lines and "Connection: close" in lines, lines
    assert json.loads(body) == {"prompt": "ü"} and f"Content-Length: {len(body)}" in lines, lines


def a_figure_is_the_median_of_the_batches(_):
    of = of_batches([(30, 90), (10, 100), (20, 100)], 300)
    assert of == {"rate": 20, "batches": [30, 10, 20], "written": 290, "asked": 300}, of
    full = of_batches([(5, 300)], 300)
    assert list(shorter([{"serve": full, "other": of}, {"serve": full, "other": full}])) == ["other wrote 590 of 600 tokens; its figure is the rate of those that it wrote"]


def a_request_asks_for_all_tokens_from_the_whole_distribution(_):
    of = generation({"eos_token_id": 0, "pad_token_id": None}, {"eos_token_id": [0, 7]}, 256)
    assert (of["min_new_tokens"], of["max_new_tokens"], of["do_sample"], of["top_k"], of["eos_token_id"]) == (256, 256, True, 0, [0, 7]), of
    assert "pad_token_id" not in of and generation({"eos_token_id": 2}, {}, 1)["eos_token_id"] == 2


def a_model_without_a_chat_template_gets_a_plain_one(folder):
    model = folder / "plain"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    for name in ("first", "second", "third"):
        (folder / name).mkdir()
    place = with_template(model, folder / "first")
    assert json.loads((place / "tokenizer_config.json").read_text()) == {"eos_token": "<end>", "chat_template": TEMPLATE}
    # The model's own file is as before.
    assert json.loads((model / "tokenizer_config.json").read_text()) == {"eos_token": "<end>"} and (place / "config.json").read_text() == "{}"
    (model / "chat_template.jinja").write_text("own")
    assert "chat_template" not in json.loads((with_template(model, folder / "second") / "tokenizer_config.json").read_text())
    (model / "chat_template.jinja").unlink()
    (model / "tokenizer_config.json").unlink()
    assert json.loads((with_template(model, folder / "third") / "tokenizer_config.json").read_text()) == {"chat_template": TEMPLATE}


if __name__ == "__main__":
    tests = (ratios_are_those_of_rounds, both_ratios_are_judged, a_side_that_was_left_out_is_not_judged, an_answer_without_a_count_is_an_error, all_tokens_of_all_requests_count,
             the_clock_begins_after_all_connections_and_ends_with_the_last_byte, a_request_asks_for_the_end_of_its_connection, a_figure_is_the_median_of_the_batches,
             a_request_asks_for_all_tokens_from_the_whole_distribution, a_model_without_a_chat_template_gets_a_plain_one)
    sys.exit(run_all("model_serve", tests))
