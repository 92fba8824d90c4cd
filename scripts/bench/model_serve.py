#!/usr/bin/env python3
"""Compares the speed of `flopsmith model serve` with the sampler that it is made of, and with `transformers serve`, in turns.

    python3 scripts/bench/model_serve.py [--requests 64] [--tokens 256] [--batches 3] [--rounds 3] [--transformers PROGRAM] [--output FILE.json]

Each round starts every side anew, warms it up with one batch that does not count, and then sends --batches batches of --requests requests at once, one
after the other, each with prompts of its own. The rate of a batch is the number of written tokens divided by the time from the first request to the last byte of
the last answer. The client connects and encodes before that time, and reads the answers as JSON after it. A side's figure of a round is the median of its
batches; the sampler's is the median of as many steps of `sample_speed` with as many rows, after one that warms up. All sides run on the same --threads cores,
the first that this process may use; the client runs on the others, if there are any. A side's figure is its median over the rounds, and a ratio is the
median of the rounds' own ratios of `serve` to the side.

`transformers serve` is left out if it is not installed; --transformers names its program. It answers chats alone, so it reads a copy of the model with a plain
chat template if the model has none. Each request asks it for exactly --tokens tokens from the whole distribution by `generation_config`. The script counts
the tokens that the server reports, so a server that ends answers early has the rate of the tokens that it wrote, and the output says so.

Asked is that `serve` is at least 0.9 times as fast as the sampler and 3 times as fast as `transformers serve`. The script ends with code 1 if a ratio misses
this. A side that was left out is not judged, and the output says so.
"""
import argparse
import contextlib
import http.client
import io
import json
import os
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

from against_torch import EXAMPLES, ROOT, cpu_model, figures, run
from sigterm import ends_what_it_started

SERVE, SAMPLER, TRANSFORMERS = "serve", "sampler", "transformers serve"
# How many times as fast as these sides `serve` should be at least.
ASKED = {SAMPLER: 0.9, TRANSFORMERS: 3.0}
# Seconds for a service to start, and for an answer.
START, ANSWER = 180, 900
# The chat template of a model that has none: the messages as they are.
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def summary(rounds):
    """For each side, the median of its figures, and that of the rounds' ratios of `serve` to the side."""
    return {side: {"rate": statistics.median(r[side] for r in rounds), "ratio": statistics.median(r[SERVE] / r[side] for r in rounds)}
            for side in rounds[0]}


def judged(found):
    """For each side with a least ratio: this ratio, the measured one, and whether that is met; None without a measurement."""
    ratios = {side: found[side]["ratio"] if side in found else None for side in ASKED}
    return {side: {"at_least": least, "ratio": ratios[side], "met": None if ratios[side] is None else ratios[side] >= least} for side, least in ASKED.items()}


def verdicts(asked):
    """A sentence for each judged side."""
    for side, of in asked.items():
        least = f"at least {of['at_least']:g} times {side}"
        if of["met"] is None:
            yield f"not judged, since it was left out: {least}"
        else:
            yield f"{'met' if of['met'] else 'MISSED'}: {least}; measured {of['ratio']:.2f} times"


def code(asked):
    """The exit code: 1 if a ratio misses what is asked."""
    return int(any(of["met"] is False for of in asked.values()))


def table(found):
    yield f"{'side':<20}{'tokens/s':>10}{'serve is':>10}"
    for side, of in found.items():
        yield f"{side:<20}{of['rate']:>10,.0f}{of['ratio']:>10.2f}"


def encoded(address, path, body):
    """The bytes of one request, after whose answer the server closes the connection."""
    text = json.dumps(body).encode()
    head = (f"POST {path} HTTP/1.1", f"Host: {address}", "Content-Type: application/json", "Accept: application/json", f"Content-Length: {len(text)}", "Connection: close")
    return "\r\n".join((*head, "", "")).encode() + text


class Received:
    """Received bytes in place of the socket from which http.client reads."""

    def __init__(self, data):
        self.data = data

    def makefile(self, *_, **__):
        return io.BytesIO(self.data)


def decoded(data, path):
    """The answer in the bytes that a server sent. Raises ValueError with the server's words if it refuses."""
    response = http.client.HTTPResponse(Received(data))
    response.begin()
    text = response.read()
    if response.status != 200:
        raise ValueError(f"{path} answered {response.status}: {text[:500].decode(errors='replace')}")
    return json.loads(text)


def exchanged(address, requests):
    """Seconds from the first request to the last byte of the answers, and the bytes of each answer. All connections are open before that."""
    host, port = address.rsplit(":", 1)
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        connections = [stack.enter_context(socket.create_connection((host, int(port)), ANSWER)) for _ in requests]
        for number, connection in enumerate(connections):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, number)
        answers = [bytearray() for _ in requests]
        begun = ended = time.monotonic()
        for connection, request in zip(connections, requests, strict=True):
            connection.sendall(request)
        while selector.get_map():
            ready = selector.select(ANSWER)
            if not ready:
                raise ValueError(f"no byte came in {ANSWER} s")
            for key, _ in ready:
                try:
                    piece = key.fileobj.recv(1 << 16)
                except ConnectionError:
                    piece = b""
                if piece:
                    answers[key.data] += piece
                    ended = time.monotonic()
                else:
                    selector.unregister(key.fileobj)
    return ended - begun, answers


def written(answer):
    """The number of tokens that an answer counts."""
    tokens = (answer.get("usage") or {}).get("completion_tokens")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise ValueError(f"the answer counts no tokens: {json.dumps(answer)[:500]}")
    return tokens


def batch(address, path, bodies):
    """Tokens a second of all requests together, and the number of tokens that they wrote."""
    requests = [encoded(address, path, body) for body in bodies]
    try:
        seconds, answers = exchanged(address, requests)
    except (OSError, ValueError) as error:
        sys.exit(f"{address} does not answer: {error}")
    tokens, failures = 0, []
    for data in answers:
        try:
            tokens += written(decoded(bytes(data), path))
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures.append(error)
    if failures:
        sys.exit(f"{len(failures)} of {len(bodies)} requests failed: {failures[0]}")
    return tokens / seconds, tokens


def of_batches(batches, asked):
    """A side's figures of a round: the rate of each batch, their median, and the numbers of written and asked tokens."""
    rates = [rate for rate, _ in batches]
    return {"rate": statistics.median(rates), "batches": rates, "written": sum(tokens for _, tokens in batches), "asked": asked}


def shorter(rounds):
    """A sentence for each side that wrote fewer tokens than it was asked for."""
    for side in rounds[0]:
        written, asked = (sum(r[side][name] for r in rounds) for name in ("written", "asked"))
        if written < asked:
            yield f"{side} wrote {written:,} of {asked:,} tokens; its figure is the rate of those that it wrote"


def generation(config, own, tokens):
    """The `generation_config` of a request for exactly so many tokens from the whole distribution, by the model's config.json and generation_config.json."""
    ends = {name: own.get(name, config.get(name)) for name in ("eos_token_id", "pad_token_id")}
    drawn = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_new_tokens": tokens, "max_new_tokens": tokens}
    return drawn | {name: value for name, value in ends.items() if value is not None}


def with_template(model, folder):
    """The path of a folder in `folder` with links to the model's files, and with a plain chat template if the model has none."""
    place = folder / "model"
    shutil.copytree(model.resolve(), place, copy_function=os.symlink)
    file = place / "tokenizer_config.json"
    config = json.loads(file.read_text()) if file.is_file() else {}
    if not config.get("chat_template") and not any((place / name).exists() for name in ("chat_template.jinja", "chat_template.json")):
        file.unlink(missing_ok=True)
        file.write_text(json.dumps(config | {"chat_template": TEMPLATE}, indent=2) + "\n")
    return place


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def measured(command, cores, path, batches, address=None):
    """The rate and the tokens of each batch after the first one, which warms the service up. Starts the service, and ends it. Without an address,
    the first line of its output is its address."""
    environment = os.environ | {"OMP_NUM_THREADS": str(len(cores)), "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile("w+") as log:
        service = subprocess.Popen([str(c) for c in command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True,
                                   preexec_fn=lambda: os.sched_setaffinity(0, cores))
        try:
            if address is None:
                address = urllib.parse.urlsplit(service.stdout.readline().strip()).netloc
            else:
                deadline = time.monotonic() + START
                while service.poll() is None and time.monotonic() < deadline:
                    try:
                        host, port = address.split(":")
                        socket.create_connection((host, int(port)), 1).close()
                        break
                    except OSError:
                        time.sleep(0.2)
            if not address or service.poll() is not None:
                log.seek(0)
                sys.exit(f"{' '.join(map(str, command))} did not start:\n{log.read()[-3000:]}")
            first, *others = batches
            batch(address, path, first)
            return [batch(address, path, bodies) for bodies in others]
        finally:
            service.terminate()
            try:
                service.wait(60)
            except subprocess.TimeoutExpired:
                service.kill()
                service.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models/starter", help="a folder in Hugging Face layout")
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/flopsmith")
    parser.add_argument("--transformers", help="the program `transformers`, with serve's requirements")
    for name, default in {"requests": 64, "prompt": 32, "tokens": 256, "batches": 3, "rounds": 3, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--output", type=Path, help="write all results as JSON to this file")
    a = parser.parse_args()
    sampler = EXAMPLES / "sample_speed"
    for needed, how in ((sampler, "cargo build --release --locked -p flopsmith-policy --example sample_speed"), (a.program, "make build")):
        if not needed.is_file():
            sys.exit(f"{needed} not found; build it: {how}")
    with tempfile.TemporaryDirectory() as folder:
        return compared(a, sampler, Path(folder))


def compared(a, sampler, folder):
    model = a.model.resolve()
    config = json.loads((model / "config.json").read_text())
    vocabulary = config["vocab_size"]
    allowed = sorted(os.sched_getaffinity(0))
    cores = allowed[:a.threads]
    others = allowed[a.threads:]
    common = {"max_tokens": a.tokens, "temperature": 1.0}

    def completion(row):
        prompt = [1 + (row * 7919 + i * 104729) % (vocabulary - 1) for i in range(a.prompt)]
        return common | {"model": "measured", "prompt": prompt, "ignore_eos": True, "seed": row}

    def batches(body):
        """The bodies of each batch, the one that warms up first; no prompt comes twice."""
        return [[body(number * a.requests + row) for row in range(a.requests)] for number in range(1 + a.batches)]

    serve = [a.program, "model", "serve", model, "--name", "measured", "--port", "0", "--rows", max(a.requests, 1)]
    shape = {"batch": a.requests, "prompt": a.prompt, "tokens": a.tokens}
    sizes = [x for key, value in shape.items() for x in (f"--{key}", value)]
    whole = a.requests * a.tokens

    def by_sampler():
        out = run([sampler, model / "config.json", *sizes, "--prompts", a.requests, "--steps", a.batches, "--threads", a.threads], cores)
        try:
            return [(figures("sample_speed", out, shape, ["median_tokens_per_s"])["median_tokens_per_s"], a.batches * whole)]
        except ValueError as wrong:
            sys.exit(str(wrong))

    sides = {SERVE: lambda: measured(serve, cores, "/v1/completions", batches(completion)), SAMPLER: by_sampler}
    transformers = a.transformers or shutil.which("transformers")
    if transformers:
        own = model / "generation_config.json"
        drawn = json.dumps(generation(config, json.loads(own.read_text()) if own.is_file() else {}, a.tokens))
        place = with_template(model, folder)

        def chat(row):
            return common | {"model": str(place), "messages": [{"role": "user", "content": f"// dgemm: unroll simd {row}\n"}], "generation_config": drawn}

        def by_transformers():
            port = free_port()
            command = [transformers, "serve", "--host", "127.0.0.1", "--port", port]
            return measured(command, cores, "/v1/chat/completions", batches(chat), f"127.0.0.1:{port}")

        sides[TRANSFORMERS] = by_transformers
    else:
        print("transformers is not installed, so `transformers serve` is left out; name its program with --transformers", file=sys.stderr)
    if others:
        os.sched_setaffinity(0, others)
    rounds = []
    names = list(sides)
    for number in range(a.rounds):
        turn = number % len(names)
        said = {}
        for name in names[turn:] + names[:turn]:
            print(f"round {number + 1} of {a.rounds}: {name}", file=sys.stderr)
            said[name] = of_batches(sides[name](), a.batches * whole)
        rounds.append({name: said[name] for name in names})
    found = summary([{name: of["rate"] for name, of in one.items()} for one in rounds])
    asked = judged(found)
    print(f"{a.model}, {a.requests} requests of {a.prompt} + {a.tokens} tokens, {a.batches} batches a round, {len(cores)} threads, {cpu_model()}")
    print("\n".join([*table(found), *shorter(rounds), *verdicts(asked)]))
    if a.output:
        told = {"cpu": cpu_model(), "shape": {**shape, "batches": a.batches, "threads": len(cores)}, "rounds": rounds, "summary": found, "asked": asked}
        a.output.write_text(json.dumps(told, indent=1) + "\n")
    return code(asked)


if __name__ == "__main__":
    ends_what_it_started()
    sys.exit(main())
