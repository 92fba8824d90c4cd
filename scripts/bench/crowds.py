"""Crowds of clients for service.py: idle connections, and clients whose service is killed and started again."""
import contextlib
import http.client
import math
import random
import selectors
import socket
import threading
import time
from pathlib import Path

# Seconds over which the idle connections are opened, so that the service does not close all of them in one moment.
SPREAD = 20.0
# Seconds between two counts of the open connections.
PAUSE = 1.0
# Errors of a request whose service ends, and those of one that it refuses.
BROKEN, REFUSED = (OSError, http.client.HTTPException), (ValueError,)
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def spare(number):
    """How many connections more than `number` keep `number` open while some are being opened again."""
    return max(10, number // 50)


class Crowd:
    """Idle connections, as many all the time."""

    def __init__(self, address, number, spread=SPREAD):
        host, port = address.rsplit(":", 1)
        self.place = (host, int(port))
        self.number, self.spread = number, spread
        self.reopened, self.failed = 0, None
        self.selector = selectors.DefaultSelector()
        self.stopping = threading.Event()
        self.keeper = threading.Thread(target=self.keep, daemon=True)

    def __enter__(self):
        try:
            for _ in range(self.number):
                self.open()
                time.sleep(self.spread / self.number)
        except BaseException:
            self.close()
            raise
        self.keeper.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self.close()

    def open(self):
        connection = socket.create_connection(self.place, 10)
        self.selector.register(connection, selectors.EVENT_READ)
        return connection

    def keep(self):
        """Opens again what the service closes: nothing else arrives on an idle connection."""
        while not self.stopping.is_set():
            for key, _ in self.selector.select(0.2):
                try:
                    self.open_again(key.fileobj)
                except OSError as error:
                    self.failed = error
                    return

    def open_again(self, connection):
        self.selector.unregister(connection)
        connection.close()
        fresh = self.open()
        self.reopened += 1
        return fresh

    def healthy(self):
        """The number of connections on which the service answers /v1/health. No connection is kept open any more; one that the service closes in this
        moment is opened again and asked once more."""
        self.stop()
        number = 0
        for key in list(self.selector.get_map().values()):
            reply = self.reply(key.fileobj)
            if not reply:
                with contextlib.suppress(OSError):
                    reply = self.reply(self.open_again(key.fileobj))
            number += reply.split(b" ", 2)[1:2] == [b"200"]
        return number

    def reply(self, connection):
        """The answer to /v1/health; nothing if the connection is closed."""
        request = f"GET /v1/health HTTP/1.1\r\nHost: {self.place[0]}:{self.place[1]}\r\nConnection: close\r\n\r\n"
        received = b""
        try:
            connection.sendall(request.encode())
            while piece := connection.recv(1 << 16):
                received += piece
        except OSError:
            return b""
        return received

    def stop(self):
        self.stopping.set()
        if self.keeper.is_alive():
            self.keeper.join()

    def close(self):
        for key in list((self.selector.get_map() or {}).values()):
            key.fileobj.close()
        self.selector.close()


class Least:
    """The least of the numbers that `count` gives before, during and after a block."""

    def __init__(self, count, pause=PAUSE):
        self.count, self.pause = count, pause
        self.number, self.failed = math.inf, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        self.look()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        self.look()

    def look(self):
        self.number = min(self.number, self.count())

    def watch(self):
        while not self.stopping.wait(self.pause):
            try:
                self.look()
            except (*BROKEN, *REFUSED) as error:
                self.failed = error
                return


def fixed_port():
    """A port at which nothing listens. No outgoing connection gets it, so it is free again for the second process."""
    low = int(PORT_RANGE.read_text().split()[0])
    numbers = range(max(1024, low - 8000), low) or range(1024, 65536)
    for port in random.sample(numbers, min(64, len(numbers))):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ValueError("no port is free for a service that is started twice")


class Clients:
    """A client for each program. It asks the first process once, waits for the second one, and asks until that answers: also for an answer that it has."""

    def __init__(self, lot, ask, limit, pause=0.2):
        """`ask(name, source)` gives the answer to one program; `limit` is the number of seconds that the second process has."""
        self.lot, self.ask, self.limit, self.pause = lot, ask, limit, pause
        # By name of the program: the answers of both processes, and why a client has none.
        self.before, self.after, self.broken, self.lost = {}, {}, {}, {}
        self.noted = threading.Condition()
        self.restarted = threading.Event()
        self.threads = [threading.Thread(target=self.client, args=program, daemon=True) for program in lot]

    def start(self):
        for thread in self.threads:
            thread.start()

    def note(self, place, name, what):
        with self.noted:
            place[name] = what
            self.noted.notify_all()

    def client(self, name, source):
        try:
            self.note(self.before, name, self.ask(name, source))
        except (*BROKEN, *REFUSED) as error:
            self.note(self.broken, name, f"{type(error).__name__}: {error}")
        self.restarted.wait()
        deadline = time.monotonic() + self.limit
        while True:
            try:
                self.note(self.after, name, self.ask(name, source))
                return
            except REFUSED as error:
                self.note(self.lost, name, str(error))
                return
            except BROKEN as error:
                if time.monotonic() >= deadline:
                    self.note(self.lost, name, f"{type(error).__name__}: {error}")
                    return
            time.sleep(self.pause)

    def wait_for(self, number):
        """Waits until the first process has given so many answers. Raises ValueError if it cannot."""
        with self.noted:
            most = len(self.lot) - number
            if not self.noted.wait_for(lambda: len(self.before) >= number or len(self.broken) > most, self.limit):
                raise ValueError(f"the service gave {len(self.before)} of {number} answers in {self.limit} s")
            if len(self.before) < number:
                raise ValueError(f"{len(self.broken)} requests failed before the kill: {next(iter(self.broken.values()))}")

    def go_on(self):
        """Lets all clients ask the second process, and waits for the end of all."""
        self.restarted.set()
        deadline = time.monotonic() + self.limit
        for (name, _), thread in zip(self.lot, self.threads, strict=True):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self.note(self.lost, name, f"no answer in {self.limit} s")


def kept_answers(folder):
    """The number of answers that a service without a process has in its folder."""
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("jobs/*/*/answers.jsonl"))


def is_same(first, second):
    """True if two answers have the same result, but for the last digits of a number that was written and read."""
    numbers = [answer.get("gflops") for answer in (first, second)]
    is_near = numbers[0] == numbers[1] or None not in numbers and math.isclose(*numbers, rel_tol=1e-9)
    return is_near and all(first.get(name) == second.get(name) for name in ("id", "outcome", "reason"))


def crossed(names, before, after, lost, evaluated):
    """The counts of a restart, by the answers of both processes and the numbers of programs that each has evaluated."""
    wrong = sum(answer.get("id") != name for answers in (before, after) for name, answer in answers.items())
    right = sum(name in after and after[name].get("id") == name for name in names)
    changed = sum(name in after and not is_same(answer, after[name]) for name, answer in before.items())
    outcomes = {}
    for answer in after.values():
        outcomes[answer.get("outcome")] = outcomes.get(answer.get("outcome"), 0) + 1
    return {"clients": len(names), "answers": right, "wrong_ids": wrong, "lost": len(names) - len(after), "why_lost": sorted(set(lost.values()))[:3],
            "before_kill": len(before), "changed": changed, "evaluated": evaluated, "evaluated_twice": max(0, sum(evaluated) - len(names)), "outcomes": outcomes}
