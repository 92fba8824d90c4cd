#!/usr/bin/env python3
"""Tests of bridge.py with packages that write down what they are called with."""
import fcntl
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "bench"))
import bridge  # noqa: E402
from rust_style import run as run_all  # noqa: E402

# The record of one scalar, learner/loss = 0.5 at step 300, by the format: the Rust program has to write these bytes as well.
GOLDEN = "2300000000000000b09f77430900001060b813da4110ac022a150a130a0c6c6561726e65722f6c6f7373150000003f08f861ee"

PACKAGE = '''
import json, os

def note(**call):
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps(call) + "\\n")

class Run:
    def define_metric(self, *names, **more): note(call="define_metric", names=names, **more)
    def log(self, values, **more): note(call="log", values=values, **more)
    def finish(self): note(call="finish")

def init(**more):
    note(call="init", **more)
    return Run()

def log(values, **more): Run().log(values, **more)
def finish(): Run().finish()
'''


def masked(data):
    """CRC-32C bit by bit, by its definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(content):
    length = struct.pack("<Q", len(content))
    return length + masked(length) + content + masked(content)


def part(field, content):
    assert len(content) < 128
    return bytes([field << 3 | 2, len(content)]) + content


def event(step, values):
    """The record of some scalars of a step below 128."""
    ones = b"".join(part(1, part(1, tag.encode()) + b"\x15" + struct.pack("<f", value)) for tag, value in values.items())
    return record(b"\x09" + struct.pack("<d", 1000.0 + step) + bytes([0x10, step]) + part(5, ones))


VERSION = record(b"\x09" + struct.pack("<d", 1000.0) + part(3, b"brain.Event:2"))


def make_run(folder, *events):
    run = folder / "r-1"
    (run / "tensorboard").mkdir(parents=True)
    (run / "config.toml").write_text('problem = "dgemm"\nnats = "nats://user:secret@broker"\n')
    (run / "tensorboard/events.out.tfevents.0000001000.flopsmith.0000").write_bytes(VERSION + b"".join(events))
    return run


def call(folder, *arguments, package=None):
    """Runs the script; returns the process, and the calls of the package."""
    calls = folder / "calls"
    if package:
        (folder / f"{package}.py").write_text(PACKAGE)
    done = subprocess.run([sys.executable, "-B", "-S", HERE / "bridge.py", *arguments], text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(folder), "CALLS": str(calls)}, timeout=60)
    return done, [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []


def the_golden_record_is_read(_):
    found, size = bridge.records(bytes.fromhex(GOLDEN))
    assert size == len(GOLDEN) // 2
    assert [bridge.scalars(one) for one in found] == [(300, 1750000000.25, {"learner/loss": 0.5})]


def a_record_that_is_cut_off_waits_and_a_damaged_one_is_refused(_):
    whole = VERSION + event(3, {"a": 1.0})
    for end in range(len(VERSION), len(whole)):
        assert bridge.records(whole[:end])[1] == len(VERSION)
    for place in range(len(VERSION), len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        try:
            assert len(bridge.records(bytes(damaged))[0]) == 1, place
        except ValueError:
            pass


def a_new_session_gives_no_step_again(folder):
    run = make_run(folder, event(0, {"a": 1.0}))
    events = bridge.Events(run)
    assert [(step, values) for step, _, values in events.new()] == [(0, {"a": 1.0})]
    assert events.new() == []
    first = next((run / "tensorboard").iterdir())
    first.unlink()
    later = event(0, {"a": 1.0}) + event(0, {"b": 2.0}) + event(2, {"a": 3.0})
    (run / "tensorboard/events.out.tfevents.0000002000.flopsmith.0000").write_bytes(VERSION + later)
    assert [(step, values) for step, _, values in events.new()] == [(0, {"b": 2.0}), (2, {"a": 3.0})]
    # A step that came late: the run writes all steps in their order into another file.
    (run / "tensorboard/events.out.tfevents.0000003000.flopsmith.0000").write_bytes(VERSION + later + event(1, {"a": 4.0}))
    assert [(step, values) for step, _, values in events.new()] == [(1, {"a": 4.0})]


def both_tools_get_all_numbers_and_no_credentials(folder):
    run = make_run(folder, event(0, {"samples/count": 4.0}), event(1, {"learner/loss": 0.5, "learner/kl": 0.25}))
    for tool in ("wandb", "trackio"):
        done, calls = call(folder, tool, run, "--project", "mine", package=tool)
        assert done.returncode == 0, done.stderr
        (folder / "calls").unlink()
        assert calls[0]["call"] == "init" and calls[0]["project"] == "mine" and calls[0]["name"] == "r-1"
        assert calls[0]["config"] == {"problem": "dgemm"}
        assert calls[-1]["call"] == "finish"
        logged = [(one.get("step", one["values"].get("step")), {tag: v for tag, v in one["values"].items() if tag != "step"}) for one in calls if one["call"] == "log"]
        assert logged == [(0, {"samples/count": 4.0}), (1, {"learner/loss": 0.5, "learner/kl": 0.25})], logged
        assert "2 points" in done.stderr


def a_run_that_ended_is_followed_no_further(folder):
    run = make_run(folder, event(0, {"a": 1.0}))
    (run / "run.json").write_text('{"finished": true}')
    done, calls = call(folder, "trackio", run, "--follow", package="trackio")
    assert done.returncode == 0 and sum(one["call"] == "log" for one in calls) == 1, done.stderr


def a_run_that_was_stopped_is_followed_no_further(folder):
    run = make_run(folder, event(0, {"a": 1.0}))
    assert not bridge.is_over(run)
    (run / "run.json").write_text('{"finished": false}')
    with (run / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not bridge.is_over(run)
    done, calls = call(folder, "trackio", run, "--follow", package="trackio")
    assert done.returncode == 0 and sum(one["call"] == "log" for one in calls) == 1, done.stderr


def missing_parts_are_said_in_one_line(folder):
    run = make_run(folder)
    done, _ = call(folder, "wandb", run)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "pip install wandb" in done.stderr, done.stderr
    done, _ = call(folder, "wandb", folder)
    assert done.returncode == 2 and "no folder of a run" in done.stderr, done.stderr
    next((run / "tensorboard").iterdir()).unlink()
    done, _ = call(folder, "wandb", run)
    assert done.returncode == 2 and "no event files" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(run_all("bridge", (
        the_golden_record_is_read, a_record_that_is_cut_off_waits_and_a_damaged_one_is_refused, a_new_session_gives_no_step_again,
        both_tools_get_all_numbers_and_no_credentials, a_run_that_ended_is_followed_no_further, a_run_that_was_stopped_is_followed_no_further, missing_parts_are_said_in_one_line,
    )))
