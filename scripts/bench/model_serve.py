#!/usr/bin/env python3
"""Compares the speed of `flopsmith model serve` with the sampler that it is made of, and with `transformers serve`, in turns.

    python3 scripts/bench/model_serve.py [--requests 64] [--tokens 256] [--rounds 3] [--transformers PROGRAM] [--output FILE.json]

Each round starts every side anew, warms it up with two requests, and then sends all requests at once. A side's figure is the number of written
tokens divided by the time from the first request to the last answer; the sampler's is that of `sample_speed` with as many rows. All sides run on
the same --threads cores, the first that this process may use; the client runs on the others, if there are any. A side's figure is its median over the
rounds, and a ratio is the median of the rounds' own ratios of `serve` to the side.

`transformers serve` is left out if it is not installed; --transformers names its program. It knows no way to go on after an end token, so its
answers may be shorter; only written tokens count.

Asked is that `serve` is at least 0.9 times as fast as the sampler and 3 times as fast as `transformers serve`. The script ends with code 1 if a ratio misses
this. A side that was left out is not judged, and the output says so.
"""
import argparse
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

from against_torch import EXAMPLES, ROOT, cpu_model, figures, run

SERVE, SAMPLER, TRANSFORMERS = "serve", "sampler", "transformers serve"
# How many times as fast as these sides `serve` should be at least.
ASKED = {SAMPLER: 0.9, TRANSFORMERS: 3.0}
# Seconds for a service to start, and for an answer.
START, ANSWER = 180, 900


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


def post(address, path, body):
    """The answer to one request."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise ValueError(f"{path} answered {response.status}: {text[:500].decode(errors='replace')}")
        return json.loads(text)
    finally:
        connection.close()


def written(answer):
    """The number of tokens that an answer counts."""
    tokens = (answer.get("usage") or {}).get("completion_tokens")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise ValueError(f"the answer counts no tokens: {json.dumps(answer)[:500]}")
    return tokens


def rate(address, path, bodies):
    """Tokens a second of all requests together."""
    tokens, failures = [], []

    def one(body):
        try:
            tokens.append(written(post(address, path, body)))
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(body,)) for body in bodies]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begun
    if failures:
        sys.exit(f"{len(failures)} of {len(bodies)} requests failed: {failures[0]}")
    return sum(tokens) / seconds


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def measured(command, cores, path, bodies, address=None):
    """Starts a service, measures it, and ends it. Without an address, the first line of its output is its address."""
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
            # The first requests pack weights or load them.
            rate(address, path, bodies[:2])
            return rate(address, path, bodies)
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
    for name, default in {"requests": 64, "prompt": 32, "tokens": 256, "rounds": 3, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--output", type=Path, help="write all results as JSON to this file")
    a = parser.parse_args()
    sampler = EXAMPLES / "sample_speed"
    for needed, how in ((sampler, "cargo build --release --locked -p flopsmith-policy --example sample_speed"), (a.program, "make build")):
        if not needed.is_file():
            sys.exit(f"{needed} not found; build it: {how}")
    model = a.model.resolve()
    config = json.loads((model / "config.json").read_text())
    vocabulary = config["vocab_size"]
    allowed = sorted(os.sched_getaffinity(0))
    cores = allowed[:a.threads]
    others = allowed[a.threads:]
    prompts = [[1 + (row * 7919 + i * 104729) % (vocabulary - 1) for i in range(a.prompt)] for row in range(a.requests)]
    common = {"max_tokens": a.tokens, "temperature": 1.0}
    bodies = [common | {"model": "measured", "prompt": prompt, "ignore_eos": True, "seed": row} for row, prompt in enumerate(prompts)]
    serve = [a.program, "model", "serve", model, "--name", "measured", "--port", "0", "--rows", max(a.requests, 1)]
    shape = {"batch": a.requests, "prompt": a.prompt, "tokens": a.tokens}
    sizes = [x for key, value in shape.items() for x in (f"--{key}", value)]

    def by_sampler():
        out = run([sampler, model / "config.json", *sizes, "--prompts", a.requests, "--steps", 1, "--threads", a.threads], cores)
        try:
            return figures("sample_speed", out, shape, ["sample_tokens_per_s"])["sample_tokens_per_s"]
        except ValueError as wrong:
            sys.exit(str(wrong))

    sides = {SERVE: lambda: measured(serve, cores, "/v1/completions", bodies), SAMPLER: by_sampler}
    transformers = a.transformers or shutil.which("transformers")
    if transformers:
        texts = [common | {"model": str(model), "messages": [{"role": "user", "content": f"// dgemm: unroll simd {row}\n"}]} for row in range(a.requests)]

        def by_transformers():
            port = free_port()
            command = [transformers, "serve", "--host", "127.0.0.1", "--port", port]
            return measured(command, cores, "/v1/chat/completions", texts, f"127.0.0.1:{port}")

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
            said[name] = sides[name]()
        rounds.append({name: said[name] for name in names})
    found = summary(rounds)
    asked = judged(found)
    print(f"{a.model}, {a.requests} requests of {a.prompt} + {a.tokens} tokens, {len(cores)} threads, {cpu_model()}")
    print("\n".join([*table(found), *verdicts(asked)]))
    if a.output:
        told = {"cpu": cpu_model(), "shape": {**shape, "threads": len(cores)}, "rounds": rounds, "summary": found, "asked": asked}
        a.output.write_text(json.dumps(told, indent=1) + "\n")
    return code(asked)


if __name__ == "__main__":
    sys.exit(main())
