"""Programs for the problem `dot`, and servers of this process: one that answers as a language model would, and one whose machine fails."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HEAD = "void dot(int n, const double *x, const double *y, double *result)\n"
PLAIN = HEAD + "{\n    double sum = 0;\n    for (int i = 0; i < n; i++)\n        sum += x[i] * y[i];\n    result[0] = sum;\n}\n"
# Sixteen sums at a time: the compiler may not reorder the one sum of the plain program, so this is several times as fast. Vectors of 256 bits are
# fast on every processor with AVX2; those of 512 bits are not without AVX-512.
FAST = HEAD + """{
    typedef double vec __attribute__((vector_size(32), aligned(8)));
    vec s = {0}, t = {0}, u = {0}, v = {0};
    int whole = n - n % 16;
    for (int i = 0; i < whole; i += 16) {
        s += *(const vec *)&x[i] * *(const vec *)&y[i];
        t += *(const vec *)&x[i + 4] * *(const vec *)&y[i + 4];
        u += *(const vec *)&x[i + 8] * *(const vec *)&y[i + 8];
        v += *(const vec *)&x[i + 12] * *(const vec *)&y[i + 12];
    }
    s += t;
    u += v;
    s += u;
    double sum = (s[0] + s[1]) + (s[2] + s[3]);
    for (int i = whole; i < n; i++)
        sum += x[i] * y[i];
    result[0] = sum;
}
"""
WRONG = HEAD + "{\n    result[0] = 0;\n}\n"
BROKEN = HEAD + "{\n    this does not compile;\n}\n"


def fenced(program, language="c"):
    return f"```{language}\n{program}```\n"


class Server:
    """Answers the JSON of POST requests by a function of path and body."""

    def __init__(self, answer):
        self.seen = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append(body)
                kind, content = answer(self.path, body, len(outer.seen))
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def model(*texts):
    """A model that says these texts in turn, by chat completions; the last one again and again."""

    def answer(path, body, number):
        assert path == "/v1/chat/completions" and not body.get("stream"), (path, body)
        message = {"role": "assistant", "content": texts[min(number, len(texts)) - 1]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {"id": str(number), "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice], "usage": usage}
        return "application/json", json.dumps(whole).encode()

    return Server(answer)


def failing(*, unless="\0"):
    """A service whose machine fails for all programs but those that contain a text. These have the length of the answer as their reward."""

    def answer(path, body, _):
        assert path == "/v1/evaluate", path
        lines = []
        for index, candidate in enumerate(body["candidates"]):
            text = candidate.get("source") or candidate.get("answer") or ""
            measured = {"reward": len(text) / 1000, "outcome": "measured", "correct": True}
            if unless not in text:
                measured = {"reward": None, "outcome": "infrastructure", "reason": "jail"}
            lines.append(json.dumps({"index": index, "id": str(index), "problem": candidate["problem"], "diagnostics": "no jail"} | measured))
        return "application/x-ndjson", "".join(f"{line}\n" for line in lines).encode()

    return Server(answer)
