#!/usr/bin/env python3
"""Tests of service.py that need no build: a service of its own, and gcc where it is installed."""
import contextlib
import http.server
import io
import json
import resource
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from crowds import Clients, Crowd, Least, crossed, fixed_port, is_same, kept_answers, spare  # noqa: E402
from rust_style import run as run_all  # noqa: E402
from service import (FIRST, MOST_CONNECTIONS, arguments, ask, beside_a_crowd, bench_times, by_clients, checked, code, figures, files_allowed, held, lots, metric,  # noqa: E402
                     numbered, one_by_one, plain_seconds, restart_lot, restart_row, row, targets, through_a_restart, unmeasured, verdicts)

LOT = [("a", "int a;"), ("b", "int b;"), ("c", "int c;")]


class Fake(http.server.BaseHTTPRequestHandler):
    """Knows no program, and counts 100 s for each evaluation; a program without a source is refused."""
    evaluated = 0
    counting = threading.Lock()

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        name = "flopsmith_serve_evaluation_seconds_total"
        counted = f'{name}{{purpose="rank"}} {100 * Fake.evaluated}\n' if Fake.evaluated else ""
        self.answer(200, f"# TYPE {name} counter\n{counted}flopsmith_serve_connections 96\n# EOF\n")

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not all(one["source"] for one in request["candidates"]):
            self.answer(422, '{"detail": "a program is missing"}')
            return
        with Fake.counting:
            Fake.evaluated += len(request["candidates"])
        self.answer(200, json.dumps([{"id": one["id"], "cached": False, "outcome": "measured"} for one in request["candidates"]]))

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    # All connections of a test may come at once.
    request_queue_size = 128


@contextlib.contextmanager
def service():
    Fake.evaluated = 0
    server = Server(("127.0.0.1", 0), Fake)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def refusal(work):
    """The words with which `work` refuses."""
    try:
        work()
    except ValueError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def no_program_comes_twice(_):
    rounds = [lots(64, 5, True, 1, number) for number in range(3)]
    programs = [source for lot in rounds for part in lot.values() for _, source in part]
    assert len(programs) == len(set(programs)) == 3 * (1 + 64 + 64 + 5 + 64)
    # The first request, the single ones and the repetition have the same kinds of programs.
    kinds = [[name for name, _ in rounds[0][part]] for part in ("batch", "clients", "crowd")]
    assert kinds[0] == kinds[1] == kinds[2] and len(set(kinds[0])) == 64
    assert rounds[0]["first"][0][0] == FIRST == min([FIRST, *kinds[0]])
    assert "crowd" not in lots(3, 5, False, 1, 0) and lots(3, 5, True, 1, 0) == lots(3, 5, True, 1, 0)
    assert numbered("void f(int n)\n{\n    n = 0;\n}\n", 7) == "void f(int n)\n{\n    if (n == -7) return;\n    n = 0;\n}\n"
    refusal(lambda: numbered("int x;\n", 7))


def a_metric_is_the_sum_over_its_labels(_):
    text = '# HELP a_total Time, by purpose\na_total{purpose="rank"} 1.5\na_total{purpose="screen"} 2e-1\na_total_more 9\nb 3\n# EOF\n'
    assert (metric(text, "a_total"), metric(text, "b"), metric(text, "a")) == (1.7, 3, 0)


def overheads_are_without_the_evaluations(_):
    with service() as address:
        seconds, answers = ask(address, LOT, "rank")
        assert seconds > 0 and [answer["id"] for answer in answers] == ["a", "b", "c"]
        overheads, answers = one_by_one(address, LOT, "rank")
        # The service says 100 s of each, which no request took.
        assert len(overheads) == len(answers) == 3 and all(-100_000 < ms < 0 for ms in overheads), overheads
        seconds, answers = by_clients(address, LOT, "rank", 2)
        assert seconds > 0 and sorted(answer["id"] for answer in answers) == ["a", "b", "c"]
        assert Fake.evaluated == 9
        assert "a program is missing" in refusal(lambda: by_clients(address, [*LOT, ("d", "")], "rank", 2))
        # The service has 96 connections, two of them for the count and for another request.
        assert held(address) == 94


def answers_of_known_programs_are_void(_):
    fresh = [{"id": name, "cached": False} for name, _ in LOT]
    assert checked(fresh, LOT) == fresh
    assert "knew 1 of 3" in refusal(lambda: checked([*fresh[:2], fresh[2] | {"cached": True}], LOT))
    for wrong in (fresh[:2], {"detail": "stopping"}, fresh[::-1]):
        assert "did not answer all of 3" in refusal(lambda wrong=wrong: checked(wrong, LOT))


def closed_idle_connections_are_opened_again(_):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with Crowd(address, 3, spread=0) as crowd:
            accepted = [listener.accept()[0] for _ in range(3)]
            accepted.pop().close()
            accepted.append(listener.accept()[0])
            for one in accepted:
                one.close()
        assert crowd.reopened >= 1 and crowd.failed is None
    with socket.socket() as silent:
        # It has the port, so nobody else listens there.
        silent.bind(("127.0.0.1", 0))
        try:
            with Crowd(f"127.0.0.1:{silent.getsockname()[1]}", 1, spread=0):
                raise AssertionError("nothing listens there")
        except OSError:
            pass


def idle_connections_are_counted_and_asked(_):
    with service() as address:
        with Crowd(address, 4, spread=0) as crowd:
            # As if the service closed it.
            next(iter(crowd.selector.get_map().values())).fileobj.shutdown(socket.SHUT_RDWR)
            assert crowd.healthy() == 4 and crowd.reopened == 1 and crowd.failed is None, crowd.reopened
        with mock.patch("service.Crowd", lambda address, number: Crowd(address, number, spread=0)), contextlib.redirect_stderr(io.StringIO()):
            found, answers = beside_a_crowd(arguments(["--connections", "50"]), address, LOT)
        assert (found["wanted"], found["opened"], found["connections"], found["healthy"], len(answers)) == (50, 60, 94, 60, 3), found
    # More than asked are open, and the service still has places for requests.
    assert spare(1000) == 20 and MOST_CONNECTIONS + spare(MOST_CONNECTIONS) <= 2048 - 8


def the_least_of_all_counts_is_told(_):
    numbers, seen = [7, 3], threading.Event()

    def count():
        number = numbers.pop(0) if numbers else 9
        if number == 3:
            seen.set()
        return number

    with Least(count, pause=0.001) as least:
        assert seen.wait(30)
    assert least.number == 3 and least.failed is None
    calls = []

    def fails():
        calls.append(len(calls))
        if len(calls) == 2:
            raise ValueError("no such metric")
        return 5

    with Least(fails, pause=0.001) as least:
        least.thread.join(30)
    assert "no such metric" in str(least.failed) and least.number == 5


def an_answer(name, **more):
    return {"id": name, "outcome": "measured", "reason": None, "gflops": 4.5, **more}


def every_client_asks_again_after_the_restart(_):
    names = list("abcdef")
    process, asked = [1], []

    def ask(name, source):
        asked.append((process[0], name, source))
        if process[0] == 1 and name not in "ab":
            raise ConnectionResetError("killed")
        if (process[0], name) == (2, "c") and asked.count((2, "c", "int c;")) < 3:
            raise ConnectionRefusedError("not yet")
        if (process[0], name) == (2, "d"):
            raise ValueError("answered by 409")
        return an_answer("x" if (process[0], name) == (2, "e") else name, gflops=process[0] if name == "b" else 4.5)

    clients = Clients([(name, f"int {name};") for name in names], ask, limit=30, pause=0.001)
    clients.start()
    clients.wait_for(2)
    while len(clients.broken) < 4:
        time.sleep(0.001)
    process[0] = 2
    clients.go_on()
    found = crossed(names, clients.before, clients.after, clients.lost, [2, 5])
    told = {name: found[name] for name in ("clients", "answers", "wrong_ids", "lost", "before_kill", "changed", "evaluated_twice", "why_lost", "outcomes")}
    assert told == {"clients": 6, "answers": 4, "wrong_ids": 1, "lost": 1, "before_kill": 2, "changed": 1, "evaluated_twice": 1, "why_lost": ["answered by 409"],
                    "outcomes": {"measured": 5}}, found

    def silent(*_):
        raise ConnectionRefusedError("nobody listens")

    clients = Clients([(name, "") for name in names], silent, limit=0.05, pause=0.001)
    clients.start()
    assert "nobody listens" in refusal(lambda: clients.wait_for(2))
    clients.go_on()
    found = crossed(names, clients.before, clients.after, clients.lost, [0, 0])
    assert (found["lost"], found["answers"], found["evaluated_twice"]) == (6, 0, 0), found


def answers_are_the_same_but_for_a_last_digit(_):
    first = an_answer("a")
    assert is_same(first, first | {"gflops": 4.5 * (1 + 1e-15), "cached": True}) and is_same(an_answer("a", gflops=None), an_answer("a", gflops=None))
    for other in ({"gflops": 4.6}, {"gflops": None}, {"outcome": "rejected"}, {"id": "b"}, {"reason": "crash"}):
        assert not is_same(first, first | other), other


def a_port_is_free_for_two_processes(folder):
    port = fixed_port()
    with socket.create_server(("127.0.0.1", port)):
        pass
    for text in ("32768\t60999\n", "1024\t65535\n"):
        file = folder / "range"
        file.write_text(text)
        with mock.patch("crowds.PORT_RANGE", file):
            assert 1024 <= fixed_port() < (32768 if text.startswith("3") else 65536)


# Stands for `flopsmith`: evaluates one program at a time and keeps its answer by the key of the request. A second process forgets answers if it is told so.
SERVE = r"""#!/usr/bin/env python3
import http.server, json, pathlib, sys, threading, time
address, folder = (sys.argv[sys.argv.index(option) + 1] for option in ("--listen", "--folder"))
folder = pathlib.Path(folder) / "jobs/done"
forgets = FORGETS and folder.is_dir()
folder.mkdir(parents=True, exist_ok=True)
one, evaluated = threading.Lock(), []

class Service(http.server.BaseHTTPRequestHandler):
    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        self.answer(f'flopsmith_serve_evaluations_total{{outcome="measured"}} {len(evaluated)}\n')

    def do_POST(self):
        [program] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["candidates"]
        place = folder / self.headers["Idempotency-Key"]
        with one:
            if forgets or not (place / "answers.jsonl").exists():
                time.sleep(0.005)
                place.mkdir(exist_ok=True)
                (place / "part").write_text(json.dumps({"id": program["id"], "outcome": "measured", "gflops": 1.5}) + "\n")
                (place / "part").rename(place / "answers.jsonl")
                evaluated.append(program["id"])
        self.answer("[" + (place / "answers.jsonl").read_text() + "]")

    def log_message(self, *_):
        pass

class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64

host, port = address.split(":")
server = Server((host, int(port)), Service)
print(f"http://{address}", flush=True)
server.serve_forever()
"""


def a_killed_service_is_started_again_on_its_folder(folder):
    program = folder / "flopsmith"
    options = arguments(["--restart", "16", "--rounds", "0", "--flopsmith", str(program)])
    for forgets in (False, True):
        program.write_text(SERVE.replace("FORGETS", str(forgets)))
        program.chmod(0o755)
        place = folder / str(forgets)
        place.mkdir()
        with contextlib.redirect_stderr(io.StringIO()):
            found = through_a_restart(options, place)
        assert (found["clients"], found["answers"], found["lost"], found["wrong_ids"], found["changed"]) == (16, 16, 0, 0, 0), found
        assert found["before_kill"] >= 4 and found["evaluated"][0] >= found["before_kill"] and kept_answers(place) == 16, found
        # All that the first process had done, if the second one does not know it.
        assert found["evaluated_twice"] == (found["evaluated"][0] if forgets else 0), found


def the_limit_of_files_is_raised_or_told(_):
    unlimited = resource.RLIM_INFINITY
    assert files_allowed(1500, 1024, 4096) == 1500 and files_allowed(1500, 2048, 4096) == 2048
    assert files_allowed(1500, 1024, unlimited) == 1500 and files_allowed(1500, unlimited, unlimited) == unlimited
    words = refusal(lambda: files_allowed(1500, 1024, 1024))
    assert "ulimit" in words and "1500" in words and "1024" in words, words


def bench_times_leave_out_the_first_program(_):
    def line(name, outcome="measured"):
        return {"type": "row", "file": f"/x/{name}.c", "outcome": outcome}

    lines = [(15, {"type": "run"}), (15, line(FIRST)), (18, line("a")), (25, line("b", "rejected")), (26, {"type": "summary"})]
    found = bench_times(lines, 10, 27)
    assert found == {"start_seconds": 5, "seconds": 10, "whole_seconds": 17, "outcomes": {"measured": 1, "rejected": 1}}, found
    refusal(lambda: bench_times(lines[2:], 10, 27))
    refusal(lambda: bench_times([], 10, 27))


def one_round(batch, clients, bench, plain, overheads, crowd=None, least=1003):
    def part(seconds, **more):
        return {"seconds": seconds, "beyond_evaluation_ms": 1.0, "outcomes": {"measured": 63, "unconverged": 1}, **more}

    service = {"start_seconds": 5.0, "batch": part(batch), "clients": part(clients), "alone": {"overhead_ms": overheads, "outcomes": {"measured": 2}}, "references": 1}
    if crowd:
        service["crowd"] = part(crowd, wanted=1000, opened=1020, connections=least, reopened=7, healthy=1020)
    timed = {"start_seconds": 4.0, "seconds": bench, "whole_seconds": bench + 5, "outcomes": {"measured": 64}}
    return {"service": service, "bench": timed, "plain": {"seconds": plain, "fastest_call_seconds": 1e-3}}


def figures_are_medians_of_the_rounds(_):
    rounds = [one_round(50, 55, 50, 25, [1, 9], 55), one_round(110, 100, 100, 25, [2, 3], 121), one_round(90, 95, 100, 30, [1, 1], 90)]
    found = figures(rounds)
    assert (found["batch_seconds"], found["bench_seconds"], found["batch_over_bench"], found["clients_over_bench"]) == (90, 100, 1.0, 1.0), found
    # (50 + 5) / 55, 115 / 105 and 95 / 105; 2, 4.4 and 3 times the plain script.
    assert (found["batch_over_bench_with_starts"], found["batch_over_plain"], found["crowd_over_batch"]) == (1.0, 3.0, 1.1), found
    assert found["request_overhead_ms"] == 1.5 and found["asked"]["overhead_met"] and found["asked"]["ratio_met"], found
    slow = figures([one_round(50, 60, 50, 25, [2.5])])
    assert not slow["asked"]["ratio_met"] and not slow["asked"]["overhead_met"] and "crowd_seconds" not in slow, slow
    assert found["crowd"] == {"wanted": 1000, "opened": 1020, "connections": 1003, "reopened": 21, "healthy": 1020}, found
    assert unmeasured(rounds) == {}
    rounds[0]["bench"]["outcomes"] = {"measured": 60, "infrastructure": 4}
    rounds[1]["service"]["alone"]["outcomes"] = {"rejected": 2}
    assert unmeasured(rounds) == {"bench": 4, "service": 2}


def the_row_has_all_figures(_):
    shape = {"programs": 64, "clients": 8, "rounds": 3, "purpose": "rank", "connections": 1000}
    text = row({"summary": figures([one_round(50, 55, 50, 25, [1, 2], 52)]), "shape": shape, "cpu": "a processor"})
    assert text.count(" | ") == 3 and text.startswith("| ") and text.endswith(" |") and "\n" not in text, text
    for words in ("--connections 1000", "a processor", "1.00 and 1.10 times", "plain script 25.0 s: 2.00 times", "1.50 ms",
                  "at least 1,003 open idle connections (asked: 1,000; 7 opened again; 1,020 of 1,020 answered at the end) 52.0 s, 1.04 times"):
        assert words in text, (words, text)


def all_targets_are_judged(_):
    good = figures([one_round(50, 55, 50, 25, [1, 2], 52)])
    restart = crossed(["a", "b"], {"a": an_answer("a")}, {name: an_answer(name) for name in "ab"}, {}, [1, 1])
    judged = list(targets(good, restart))
    assert len(judged) == 5 and code(judged) == 0 and all(line.startswith("met: ") for line in verdicts(judged)), judged
    lost = crossed(["a", "b"], {}, {"a": an_answer("a")}, {"b": "no answer"}, [0, 2])
    wrong = crossed(["a", "b"], {}, {"a": an_answer("a"), "b": an_answer("a")}, {}, [0, 2])
    slow, late = figures([one_round(50, 60, 50, 25, [1], 52)]), figures([one_round(50, 50, 50, 25, [2.5], 52)])
    few, silent = figures([one_round(50, 50, 50, 25, [1], 52, least=999)]), figures([one_round(50, 50, 50, 25, [1], 52)])
    silent["crowd"]["healthy"] = 1019
    for number, parts in enumerate(((slow, restart), (late, restart), (few, restart), (silent, restart), (good, lost), (good, wrong))):
        judged = list(targets(*parts))
        assert [is_met for _, is_met in judged] == [place != min(number, 4) for place in range(5)] and code(judged) == 1, (number, judged)
    assert list(targets(None, None, "it ended early")) == [("it ended early", False)]
    # Parts that were left out have no target.
    assert len(list(targets(None, restart))) == 1 and len(list(targets(figures([one_round(50, 55, 50, 25, [1])]), None))) == 2
    text = restart_row({"restart": restart, "cpu": "a processor"})
    assert text.count(" | ") == 3 and "--restart 2" in text and "2 answers, 0 with the id of another program, 0 lost (asked: 2 answers, 0 lost)" in text, text


def each_client_of_a_restart_has_a_program_of_its_own(_):
    lot = restart_lot(200, 1)
    assert len({name for name, _ in lot}) == len({source for _, source in lot}) == 200 and restart_lot(3, 2) == restart_lot(3, 2)


def wrong_numbers_are_refused(_):
    assert arguments(["--connections", "1000"]).connections == 1000 and arguments([]).connections == 0 and arguments([]).restart == 200
    assert arguments(["--rounds", "0"]).rounds == 0
    for wrong in (["--connections", "2001"], ["--programs", "80"], ["--rounds", "-1"], ["--purpose", "certify"], ["--restart", "1001"],
                  ["--rounds", "0", "--restart", "0"], ["--rounds", "0", "--connections", "9"]):
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                arguments(wrong)
            except SystemExit as ended:
                assert ended.code == 2
            else:
                raise AssertionError(wrong)


def a_plain_program_is_timed(folder):
    if not shutil.which("gcc"):
        print("skipped: there is no gcc")
        return
    _, source = lots(1, 1, False, 1, 0)["batch"][0]
    assert 0 < plain_seconds(source, folder, 0) < 60
    assert "the plain script failed" in refusal(lambda: plain_seconds("int x\n", folder, 0))


if __name__ == "__main__":
    tests = (no_program_comes_twice, a_metric_is_the_sum_over_its_labels, overheads_are_without_the_evaluations, answers_of_known_programs_are_void,
             closed_idle_connections_are_opened_again, idle_connections_are_counted_and_asked, the_least_of_all_counts_is_told,
             every_client_asks_again_after_the_restart, answers_are_the_same_but_for_a_last_digit, a_port_is_free_for_two_processes,
             a_killed_service_is_started_again_on_its_folder, all_targets_are_judged, each_client_of_a_restart_has_a_program_of_its_own, the_limit_of_files_is_raised_or_told, bench_times_leave_out_the_first_program,
             figures_are_medians_of_the_rounds, the_row_has_all_figures, wrong_numbers_are_refused, a_plain_program_is_timed)
    sys.exit(run_all("service", tests))
