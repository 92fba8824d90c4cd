#!/usr/bin/env python3
"""Sends the numbers of a run to Weights & Biases or Trackio: those of its TensorBoard event files, with the run's settings.

scripts/bridge.py wandb|trackio RUN [--project NAME] [--follow]

RUN is the folder of a run. A run that goes on is followed with --follow until it ends or is stopped. Needs the package of the tool (wandb
or trackio), and nothing else. Both tools work on this machine alone, too: WANDB_MODE=offline, and Trackio by default."""

import argparse
import fcntl
import importlib
import json
import pathlib
import struct
import sys
import time

PAUSE = 5
# Settings that may hold credentials or a whole program.
LEFT_OUT = ("nats", "store", "start")
NUMBER, TEXT, FIXED64, FIXED32 = 0, 2, 1, 5


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc_table()


def masked_crc(data):
    """The CRC-32C of some bytes, as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The whole records of an event file, and the number of bytes that they take. A record that is being written is left out."""
    found, at = [], 0
    while len(data) >= at + 12:
        (length,) = struct.unpack_from("<Q", data, at)
        end = at + 12 + length
        if len(data) < end + 4:
            break
        head, content = data[at:at + 8], data[at + 12:end]
        if struct.unpack_from("<I", data, at + 8)[0] != masked_crc(head) or struct.unpack_from("<I", data, end)[0] != masked_crc(content):
            raise ValueError(f"the record at byte {at} is damaged")
        found.append(content)
        at = end + 4
    return found, at


def fields(message):
    """The fields of a protocol buffer: number and value, which is an int, or the bytes of anything else."""
    at = 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        key = varint()
        if key & 7 == NUMBER:
            yield key >> 3, varint()
            continue
        sizes = {FIXED64: 8, FIXED32: 4}
        size = varint() if key & 7 == TEXT else sizes[key & 7]
        yield key >> 3, message[at:at + size]
        at += size


def scalars(record):
    """Step, time in seconds, and numbers by tag of an event; no numbers if it has none."""
    step, seconds, values = 0, 0.0, {}
    for field, value in fields(record):
        if field == 1:
            (seconds,) = struct.unpack("<d", value)
        elif field == 2:
            step = value
        elif field == 5:
            for _, one in fields(value):
                parts = dict(fields(one))
                if 1 in parts and 2 in parts:
                    values[parts[1].decode()] = struct.unpack("<f", parts[2])[0]
    return step, seconds, values


class Events:
    """The event files of a run, which may grow, and which a new session replaces."""

    def __init__(self, run):
        self.folder = run / "tensorboard"
        self.path, self.at = None, 0
        # The steps of each tag that were given: a new file begins with known steps, and one that came late is among them.
        self.given = {}

    def new(self):
        """The events that were not given before: step, seconds, numbers by tag."""
        paths = sorted(self.folder.glob("events.out.tfevents.*"))
        if not paths:
            return []
        if paths[-1] != self.path:
            self.path, self.at = paths[-1], 0
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                found, size = records(file.read())
        except FileNotFoundError:
            # A new session has replaced the file; the next look finds its own.
            return []
        self.at += size
        events = []
        for record in found:
            step, seconds, values = scalars(record)
            values = {tag: value for tag, value in values.items() if step not in self.given.setdefault(tag, set())}
            for tag in values:
                self.given[tag].add(step)
            if values:
                events.append((step, seconds, values))
        return events


def settings(run):
    """The settings of a run, without addresses that may hold credentials."""
    import tomllib

    found = tomllib.loads((run / "config.toml").read_text())
    return {name: value for name, value in found.items() if name not in LEFT_OUT}


def is_over(run):
    """True if the run has finished, or if it was stopped: then nobody holds its lock. A run without a lock has not begun."""
    try:
        if json.loads((run / "run.json").read_text()).get("finished"):
            return True
    except (FileNotFoundError, json.JSONDecodeError):
        pass
    try:
        with (run / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


class Wandb:
    def __init__(self, module, run, project):
        self.run = module.init(project=project, id=run.name, name=run.name, resume="allow", config=settings(run))
        # The tool's own steps have to grow; training and outcomes of a step come one after the other.
        self.run.define_metric("step")
        self.run.define_metric("*", step_metric="step")

    def log(self, step, values):
        self.run.log({"step": step, **values})

    def finish(self):
        self.run.finish()


class Trackio:
    def __init__(self, module, run, project):
        self.module = module
        module.init(project=project, name=run.name, config=settings(run))

    def log(self, step, values):
        self.module.log(values, step=step)

    def finish(self):
        self.module.finish()


TOOLS = {"wandb": Wandb, "trackio": Trackio}


def main():
    parser = argparse.ArgumentParser(description="Sends the numbers of a run to Weights & Biases or Trackio.")
    parser.add_argument("tool", choices=sorted(TOOLS), help="the tool, which is also the name of its package")
    parser.add_argument("run", type=pathlib.Path, help="the folder of the run")
    parser.add_argument("--project", default="flopsmith", help="the project that the run is added to")
    parser.add_argument("--follow", action="store_true", help="go on until the run ends or is stopped")
    args = parser.parse_args()
    run = args.run.resolve()
    if not (run / "config.toml").is_file():
        parser.error(f"{args.run} is no folder of a run: it has no config.toml")
    events = Events(run)
    if not args.follow and not list(events.folder.glob("events.out.tfevents.*")):
        parser.error(f"{args.run} has no event files in {events.folder.name}/: runs of earlier versions get them when they are resumed")
    try:
        module = importlib.import_module(args.tool)
    except ImportError as error:
        sys.exit(f"error: the package {args.tool} cannot be imported ({error}); install it with `pip install {args.tool}`")
    tool, sent = TOOLS[args.tool](module, run, args.project), 0
    try:
        while True:
            # Asked before the look, so that the last numbers are not missed.
            last = not args.follow or is_over(run)
            for step, _, values in events.new():
                tool.log(step, values)
                sent += 1
            if last:
                break
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        pass
    except ValueError as error:
        sys.exit(f"error: {events.path} cannot be read: {error}")
    finally:
        tool.finish()
    print(f"{sent} points of {run.name} are in project {args.project} of {args.tool}", file=sys.stderr)


if __name__ == "__main__":
    main()
