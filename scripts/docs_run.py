#!/usr/bin/env python3
"""Runs the commands that README.md and the pages of docs/ show: each command of their `sh` and `console` blocks that needs neither a GPU, a
network, a foreign model, another machine nor hours. Each page has a fresh folder with the repository's `problems`, `examples` and `models`, in
which its commands run in their order, with the small budgets and the reader's files of docs_commands.py, and with a stand-in for a chat model.
That file also lists each command that is left out, with the reason: a command that is neither run nor listed is an error, and so is a listed
one that no page shows. Needs `make build`."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import docs_commands as tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Programs that the tests run. All others change the machine, need a network or have tests of their own: docs_commands.py lists them.
RUN = {"flopsmith", "nats-server", "curl", "mkdir", "cp", "export"}
# The longest time that a command may take, and a server may take to answer, seconds.
LIMIT = 600
# Ports of servers in the pages, each of which becomes a free one, and that of the chat model, which becomes the stand-in's.
PORTS = re.compile(r"(:|--port |-p )(4222|8000|8765|8766|9000|MODELPORT)\b")
# Of the caller's variables the commands see neither folders of the user nor settings of the program, except these of the machine (KEPT).
PRIVATE = ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
KEPT = ("FLOPSMITH_ALLOW_WEAKER_JAIL", "FLOPSMITH_NATS_SERVER")


@dataclass(frozen=True)
class Command:
    page: str
    line: int
    text: str

    def __str__(self):
        return f"{self.page}:{self.line}: {self.text}"


def without_comment(line):
    """The line without a comment, which begins with a `#` that follows a blank and is not quoted."""
    quote = None
    for place, letter in enumerate(line):
        if quote:
            quote = None if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place].rstrip()
    return line.rstrip()


def commands(page, text):
    """The commands of the `sh` and `console` blocks of a page. A backslash at the end of a line joins it with the next one; of a console
    block only lines that begin with `$ ` are commands."""
    found, language, held, begun = [], None, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("```"):
            language = line[3:].strip() if language is None else None
            continue
        if language not in ("sh", "console"):
            continue
        if language == "console" and not held:
            if not line.startswith("$ "):
                continue
            line = line[2:]
        held, begun = (f"{held} {line}", begun) if held else (line, number)
        if held.endswith("\\"):
            held = held[:-1].rstrip()
            continue
        if command := without_comment(held):
            found.append(Command(page, begun, command))
        held = ""
    return found


def shown(root=ROOT):
    """All commands of the pages, in order."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [command for page in pages for command in commands(str(page.relative_to(root)), page.read_text())]


def programs(text):
    """The programs that a command starts, without the settings before them."""
    parts = re.split(r"\s(?:&&|\|\|?|;)\s", text)
    words = [re.sub(r"^(?:[A-Z_]+=(?:\$\([^)]*\)|\S*)\s+)*", "", part).split()[0] for part in parts]
    return [word.removeprefix(".flopsmith/bin/") for word in words]


def reason(command):
    """The reason why a command is left out, or None. An entry is a command, or `PAGE: COMMAND` for that of one page."""
    listed = reasons()
    return listed.get(f"{command.page}: {command.text}") or listed.get(command.text)


def reasons():
    return {entry: why for why, entries in tables.LEFT_OUT.items() for entry in entries}


def small(text):
    """The command with small budgets."""
    for pattern, replacement in tables.SMALL:
        text = re.sub(pattern, replacement, text)
    return text


def mentions(command, word):
    """True if the command has this file or folder as a word of its own or as the beginning of one."""
    return re.search(rf"(?<![\w./-]){re.escape(word)}(?![\w-])", small(command.text)) is not None


def given(page, run):
    """The scripts that make the files which a page takes for granted, each once."""
    wanted = [script for pages, word, script in tables.GIVEN
              if (pages is None or page in pages) and any(mentions(command, word) for command in run)]
    return list(dict.fromkeys(wanted))


def mistakes(all_commands):
    """Entries of the tables that fit no command, and commands that no table knows."""
    found = []
    run = [command for command in all_commands if reason(command) is None]
    for command in run:
        unknown = [program for program in programs(command.text) if program not in RUN]
        if unknown:
            found.append(f"{command}\n  is neither run ({', '.join(unknown)} is not one of {', '.join(sorted(RUN))}) nor listed in LEFT_OUT of scripts/docs_commands.py")
    texts = {command.text for command in all_commands}
    both = texts | {f"{command.page}: {command.text}" for command in all_commands}
    entries = [entry for listed in tables.LEFT_OUT.values() for entry in listed]
    found += [f"LEFT_OUT lists what no page shows: {entry}" for entry in entries if entry not in both]
    found += [f"LEFT_OUT lists twice: {entry}" for entry in sorted(set(entries)) if entries.count(entry) > 1]
    run_texts = {command.text for command in run}
    found += [f"CODES names a command that is not run: {text}" for text in tables.CODES if text not in run_texts]
    for name, patterns in (("SMALL", [pattern for pattern, _ in tables.SMALL]), ("NEEDS", [pattern for pattern, _ in tables.NEEDS]), ("ENDLESS", [pattern for pattern, *_ in tables.ENDLESS])):
        found += [f"{name} has a pattern that fits no command that is run: {pattern}" for pattern in patterns if not any(re.search(pattern, text) for text in run_texts)]
    for pages, word, _ in tables.GIVEN:
        if not any(mentions(command, word) for command in run if pages is None or command.page in pages):
            found.append(f"GIVEN has a file that no command needs: {word}")
    return found


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


class ChatModel(BaseHTTPRequestHandler):
    """A stand-in for a chat model: answers every request of chat completions with the same program."""

    program = (ROOT / "problems/dgemm/baseline.c").read_text()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text, usage = f"Here it is:\n```c\n{self.program}```\n", {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
        if asked.get("stream"):
            events = [{"choices": [{"index": 0, "delta": {"content": text}}]}, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
            kind, body = "text/event-stream", "".join(f"data: {json.dumps({'model': asked['model']} | event)}\n\n" for event in events) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            kind, body = "application/json", json.dumps({"model": asked["model"], "choices": [choice], "usage": usage})
        self.send_response(200 if self.path.endswith("/v1/chat/completions") else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def chat_model():
    """Starts the stand-in and returns its port. It ends with this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ChatModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


class Page:
    """Runs the commands of a page in a folder of its own."""

    def __init__(self, name, folder, root=ROOT, limit=LIMIT):
        self.name, self.folder, self.limit = name, folder, limit
        # Each server with the port that it listens at, or with its process number where the command names none.
        self.ports, self.servers, self.passed, self.failed = {}, [], 0, 0
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in PRIVATE and (name in KEPT or not name.startswith("FLOPSMITH_"))}
        home = folder / "home"
        home.mkdir(parents=True)
        self.environment |= tables.SETTINGS | {"HOME": str(home), "PATH": f"{root / 'target/release'}:{root / '.flopsmith/bin'}:{os.environ['PATH']}"}
        for name in ("problems", "examples"):
            (folder / name).symlink_to(root / name)
        # Trainings write new models beside the shipped ones.
        (folder / "models").mkdir()
        for model in (root / "models").iterdir():
            (folder / "models" / model.name).symlink_to(model)

    def prepared(self, text):
        """The command with small budgets, free ports, and the newest run in place of NAME."""
        text = PORTS.sub(lambda found: f"{found[1]}{self.port(found[2])}", small(text))
        runs = [run for run in self.folder.glob("runs/*") if run.is_dir()]
        if "runs/NAME" in text and runs:
            text = text.replace("runs/NAME", f"runs/{max(runs, key=lambda run: run.stat().st_mtime).name}")
        return text

    def port(self, name):
        if name not in self.ports:
            self.ports[name] = chat_model() if name == "MODELPORT" else free_port()
        return self.ports[name]

    def start(self, text, log):
        return subprocess.Popen(["bash", "-eo", "pipefail", "-c", text], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, text, original=None):
        """Runs a command to its end, or starts a server and leaves it until another one needs its port or the page ends. Returns the fault, or
        None."""
        text = self.prepared(text)
        if text.startswith("export "):
            return self.export(text)
        endless = [(words, stays) for pattern, words, stays in tables.ENDLESS if re.search(pattern, text)]
        port = re.search(r"(?:--listen \S+:|--port |-p )(\d+)", text) if endless else None
        if port and (fault := self.stop(port[1])):
            return fault
        path = self.folder / f"output-{self.passed}.log"
        with path.open("wb") as log:
            child = self.start(text, log)
        if endless:
            [(words, stays)] = endless
            server = (port[1] if port else str(child.pid), child)
            self.servers.append(server)
            if fault := self.await_words(child, path, words):
                self.servers.remove(server)
                end(child)
                return fault
            return None if stays else self.stop(server[0])
        try:
            code = child.wait(timeout=self.limit)
        except subprocess.TimeoutExpired:
            return fault_of(f"did not end within {self.limit} s", path)
        finally:
            # Not even an interrupt leaves it behind.
            if child.poll() is None:
                end(child)
        permitted = tables.CODES.get(original, (0,))
        return None if code in permitted else fault_of(f"exit code {code}", path)

    def export(self, text):
        """Keeps variables for the commands behind this one. Returns the fault, or None."""
        shell = subprocess.run(["bash", "-ec", f"{text}; env -0"], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if shell.returncode != 0:
            return f"  exit code {shell.returncode}: {shell.stderr}"
        self.environment = dict(pair.split("=", 1) for pair in shell.stdout.split("\0") if pair)
        return None

    def await_words(self, child, path, words):
        deadline = time.monotonic() + self.limit
        while words not in path.read_text(errors="replace"):
            if child.poll() is not None:
                return fault_of(f"ended with exit code {child.returncode}", path)
            if time.monotonic() > deadline:
                return fault_of(f"did not say `{words}` within {self.limit} s", path)
            time.sleep(0.02)
        return None

    def stop(self, port=None):
        """Ends the server at this port, or all, the newest first. Returns the fault, or None."""
        ending = [server for server in self.servers if port is None or server[0] == port]
        self.servers = [server for server in self.servers if server not in ending]
        faults = []
        for _, child in reversed(ending):
            code = child.poll()
            if code is not None:
                faults.append(f"  {child.args[-1]}: the server ended by itself with exit code {code}")
            # Some releases of nats-server end with code 1 on request.
            elif (code := end(child)) not in (0, 1, 130, 143, -signal.SIGTERM):
                faults.append(f"  {child.args[-1]}: the server ended on request with exit code {code}")
        return "\n".join(faults) or None

    def judge(self, run):
        """Runs the commands of the page, until one fails."""
        try:
            for script in given(self.name, run):
                if fault := self.run(script):
                    self.report(f"{self.name}: {script}", 0, fault)
                    return
            for place, command in enumerate(run):
                lacking = [program for pattern, program in tables.NEEDS if re.search(pattern, command.text) and not shutil.which(program, path=self.environment["PATH"])]
                if lacking:
                    print(f"skipped: {command}: {', '.join(lacking)} not found", flush=True)
                    continue
                began = time.monotonic()
                fault = self.run(command.text, command.text)
                self.report(command, time.monotonic() - began, fault)
                if fault:
                    for left in run[place + 1:]:
                        print(f"not run: {left}", flush=True)
                    return
        finally:
            if fault := self.stop():
                self.report(f"{self.name}: servers", 0, fault)

    def report(self, what, seconds, fault):
        self.failed, self.passed = self.failed + bool(fault), self.passed + (not fault)
        print(f"{'FAILED' if fault else 'ok':6} {seconds:7.1f} s  {what}", flush=True)
        if fault:
            print(fault, flush=True)


def end(child):
    """Ends a command with all its processes, unless it has ended, and returns its exit code."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        code = child.wait(timeout=60)
    except subprocess.TimeoutExpired:
        code = None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    return child.wait() if code is None else code


def fault_of(words, path):
    lines = path.read_text(errors="replace").splitlines()[-25:]
    return "\n".join([f"  {words}", *(f"  | {line}" for line in lines)])


def by_page(all_commands):
    pages = {}
    for command in all_commands:
        pages.setdefault(command.page, []).append(command)
    return pages


def listing(pages):
    """What is run and what is left out, by page."""
    lines = []
    for page, all_commands in pages.items():
        lines.append(page)
        for script in given(page, [command for command in all_commands if reason(command) is None]):
            lines.append(f"  given     {script}")
        for command in all_commands:
            why = reason(command)
            if why:
                lines.append(f"  left out  {command.text}    ({why})")
            else:
                lines.append(f"  run       {small(command.text)}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="only these pages, e.g. docs/how-to/search.md")
    parser.add_argument("--list", action="store_true", help="print by page what is run and what is left out, and run nothing")
    given_arguments = parser.parse_args()
    all_commands = shown()
    if found := mistakes(all_commands):
        print("\n".join(found), file=sys.stderr)
        return 1
    pages = by_page(all_commands)
    if unknown := [page for page in given_arguments.pages if page not in pages]:
        parser.error(f"{', '.join(unknown)}: no page of this name shows a command")
    pages = {page: found for page, found in pages.items() if not given_arguments.pages or page in given_arguments.pages}
    if given_arguments.list:
        print("\n".join(listing(pages)))
        return 0
    if not (ROOT / "target/release/flopsmith").exists():
        print("there is no target/release/flopsmith; run make build", file=sys.stderr)
        return 2
    passed = failed = left_out = 0
    with tempfile.TemporaryDirectory(prefix="flopsmith-docs-") as place:
        for number, (name, found) in enumerate(pages.items()):
            run = [command for command in found if reason(command) is None]
            left_out += len(found) - len(run)
            if run:
                page = Page(name, pathlib.Path(place) / str(number))
                page.judge(run)
                passed, failed = passed + page.passed, failed + page.failed
                shutil.rmtree(page.folder, ignore_errors=True)
    print(f"\n{left_out} commands are left out; scripts/docs_run.py --list names them with the reasons")
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out")
    return int(failed > 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
