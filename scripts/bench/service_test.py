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
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from rust_style import run as run_all  # noqa: E402
from service import (Crowd, FIRST, arguments, ask, bench_times, by_clients, checked, crowded, figures, files_allowed, lots, metric,  # noqa: E402
                     numbered, one_by_one, plain_seconds, row, unmeasured)

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


@contextlib.contextmanager
def service():
    Fake.evaluated = 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake)
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
        # 96 are open by the service.
        assert crowded(address, 100) == 96 and "only 96 of 200" in refusal(lambda: crowded(address, 200))


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


def one_round(batch, clients, bench, plain, overheads, crowd=None):
    def part(seconds, **more):
        return {"seconds": seconds, "beyond_evaluation_ms": 1.0, "outcomes": {"measured": 63, "unconverged": 1}, **more}

    service = {"start_seconds": 5.0, "batch": part(batch), "clients": part(clients), "alone": {"overhead_ms": overheads, "outcomes": {"measured": 2}}, "references": 1}
    if crowd:
        service["crowd"] = part(crowd, connections=1000, reopened=7)
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
    assert unmeasured(rounds) == {}
    rounds[0]["bench"]["outcomes"] = {"measured": 60, "infrastructure": 4}
    rounds[1]["service"]["alone"]["outcomes"] = {"rejected": 2}
    assert unmeasured(rounds) == {"bench": 4, "service": 2}


def the_row_has_all_figures(_):
    shape = {"programs": 64, "clients": 8, "rounds": 3, "purpose": "rank", "connections": 1000}
    text = row({"summary": figures([one_round(50, 55, 50, 25, [1, 2], 52)]), "shape": shape, "cpu": "a processor"})
    assert text.count(" | ") == 3 and text.startswith("| ") and text.endswith(" |") and "\n" not in text, text
    for words in ("--connections 1000", "a processor", "1.00 and 1.10 times", "plain script 25.0 s: 2.00 times", "1.50 ms", "1,000 idle connections 52.0 s, 1.04 times"):
        assert words in text, (words, text)


def wrong_numbers_are_refused(_):
    assert arguments(["--connections", "1000"]).connections == 1000 and arguments([]).connections == 0
    for wrong in (["--connections", "2001"], ["--programs", "80"], ["--rounds", "0"], ["--purpose", "certify"]):
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
             closed_idle_connections_are_opened_again, the_limit_of_files_is_raised_or_told, bench_times_leave_out_the_first_program,
             figures_are_medians_of_the_rounds, the_row_has_all_figures, wrong_numbers_are_refused, a_plain_program_is_timed)
    sys.exit(run_all("service", tests))
