"""Asks a Flopsmith service to evaluate programs.

A request has an idempotency key. When a connection ends early, or the service restarts, the client sends the same request again: the service goes on
with the job that it has, and repeats the answers that it gave.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import random
import time
import urllib.parse
import uuid
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Literal, Optional, Sequence, Tuple, Type, TypeVar, Union

T = TypeVar("T")

LOG = logging.getLogger("flopsmith")

URL = "http://127.0.0.1:8765"
"""The address of a service that was started without `--listen`."""

LONGEST_PAUSE = 30.0
"""Longest pause between two tries, seconds, unless the service asks for more."""

MOST_CANDIDATES = 4096
"""The most candidates of one request; a larger batch is several requests."""


class Error(Exception):
    """The service gave no answers."""


class Unreachable(Error):
    """The service could not be reached, or ended too often before it answered."""


class Refused(Error):
    """The service refused a request (RFC 9457): `kind` is the last part of the problem's type, e.g. `invalid`."""

    def __init__(self, status: int, details: Dict[str, Any]) -> None:
        self.status = status
        self.kind = str(details.get("type", "")).rpartition(":")[2]
        self.detail = str(details.get("detail", ""))
        self.errors: List[Dict[str, str]] = list(details.get("errors", []))
        # The service's detail of a single mistake has its words.
        others = [mistake for mistake in self.errors if str(mistake.get("detail")) not in self.detail]
        mistakes = "".join(f"\n  {mistake.get('pointer')}: {mistake.get('detail')}" for mistake in others)
        super().__init__(f"{status} {self.kind or details.get('title', '')}: {self.detail}{mistakes}")


@dataclass(frozen=True)
class Candidate:
    """A program to evaluate: either `source`, or `answer`, a model's text whose last fenced block is the program."""

    problem: str
    source: Optional[str] = None
    answer: Optional[str] = None
    language: Optional[str] = None
    workloads: Sequence[str] = ()
    id: Optional[str] = None

    def as_json(self) -> Dict[str, Any]:
        """The candidate as the service reads it."""
        fields = asdict(self)
        fields["workloads"] = list(self.workloads)
        return {name: value for name, value in fields.items() if value is not None and value != []}


@dataclass(frozen=True)
class Program:
    """A program to compare candidates with. It solves the problem of all of them; `language` is that of the problem without it."""

    source: str
    language: Optional[str] = None


Against = Union[Literal["reference", "best"], Program]
"""The program that candidates are compared with: the plain reference, the fastest one that the service has measured, or one of the caller's."""


@dataclass(frozen=True)
class Result:
    """The result of a candidate. `raw` has all fields of the answer."""

    index: int
    id: str
    problem: str
    outcome: str
    """`measured`, `unconverged`, `rejected`, `infrastructure` or `unknown`."""
    reason: Optional[str]
    """The fault of the program, or the part of the machine that failed."""
    correct: Optional[bool]
    """None if the machine failed."""
    reward: Optional[float]
    """None if the machine failed."""
    reward_se: Optional[float]
    ratio: Optional[float]
    """The plain reference's time divided by the program's."""
    interval: Optional[Tuple[float, float]]
    """The 95 % interval of `ratio`."""
    gflops: Optional[float]
    techniques: Optional[List[str]]
    diagnostics: str
    cached: bool
    raw: Dict[str, Any] = field(repr=False, compare=False)
    ratio_to_against: Optional[float] = None
    """The time of the program of `against` divided by the program's; None without such a program."""
    interval_to_against: Optional[Tuple[float, float]] = None
    """The 95 % interval of `ratio_to_against`."""

    @classmethod
    def of(cls, raw: Dict[str, Any], index: Optional[int] = None) -> "Result":
        """Reads an answer of the service; `index` is its place in the caller's batch."""

        def ends(name: str) -> Optional[Tuple[float, float]]:
            interval = raw.get(name)
            return (interval["low"], interval["high"]) if interval else None

        return cls(
            index=raw["index"] if index is None else index,
            id=raw["id"],
            problem=raw["problem"],
            outcome=raw["outcome"],
            reason=raw.get("reason"),
            correct=raw.get("correct"),
            reward=raw.get("reward"),
            reward_se=raw.get("reward_se"),
            ratio=raw.get("ratio"),
            interval=ends("interval"),
            gflops=raw.get("gflops"),
            techniques=raw.get("techniques"),
            diagnostics=raw.get("diagnostics", ""),
            cached=bool(raw.get("cached")),
            raw=raw,
            ratio_to_against=raw.get("ratio_to_against"),
            interval_to_against=ends("interval_to_against"),
        )


class _Again(Exception):
    """The request may be sent again after `pause` seconds; None lets the client choose. It counts as a failed try unless it is `silent`."""

    def __init__(self, why: str, pause: Optional[float] = None, silent: bool = False) -> None:
        super().__init__(why)
        self.pause = pause
        self.silent = silent


class Evaluator:
    """A service.

    `silence` is the time, seconds, after which a connection that brings nothing is made anew. `tries` is the number of tries in a row that bring
    nothing before `Unreachable` is raised. `repeats` is the number of times that a candidate is sent again if the machine failed to evaluate it.
    The methods may be called by several threads at once.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        token: Optional[str] = None,
        purpose: Optional[str] = None,
        silence: float = 120.0,
        tries: int = 8,
        repeats: int = 2,
    ) -> None:
        self.url = url or os.environ.get("FLOPSMITH_URL") or URL
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is no address of a service; write e.g. {URL}")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port
        self._path = parts.path.rstrip("/")
        self._token = token or os.environ.get("FLOPSMITH_SERVE_TOKEN") or None
        self.purpose = purpose or os.environ.get("FLOPSMITH_PURPOSE") or "rank"
        self.silence = silence
        self.tries = tries
        self.repeats = repeats

    def __repr__(self) -> str:
        return f"Evaluator({self.url!r})"

    def evaluate(
        self,
        source: str,
        problem: str,
        *,
        language: Optional[str] = None,
        workloads: Sequence[str] = (),
        purpose: Optional[str] = None,
        against: Against = "reference",
    ) -> Result:
        """Evaluates one program. A program of `against` that is refused or wrong raises `Refused`."""
        candidate = Candidate(problem, source, language=language, workloads=workloads)
        return self.evaluate_many([candidate], purpose, against)[0]

    def evaluate_many(
        self, candidates: Iterable[Candidate], purpose: Optional[str] = None, against: Against = "reference"
    ) -> List[Result]:
        """Evaluates programs; the results are in the order of the candidates. With a program of `against` all have one problem."""
        batch = list(candidates)
        results: List[Optional[Result]] = [None] * len(batch)
        for result in self.stream(batch, purpose, against):
            results[result.index] = result
        for _ in range(self.repeats):
            failed = [result.index for result in results if result is not None and result.reward is None]
            if not failed:
                break
            for result in self.stream([batch[index] for index in failed], purpose, against):
                index = failed[result.index]
                results[index] = Result.of(result.raw, index)
        return [result for result in results if result is not None]

    def stream(
        self, candidates: Iterable[Candidate], purpose: Optional[str] = None, against: Against = "reference"
    ) -> Iterator[Result]:
        """Evaluates programs; yields the results in the order of the candidates, each as soon as it is there."""
        batch = list(candidates)
        for first in range(0, len(batch), MOST_CANDIDATES):
            part = batch[first : first + MOST_CANDIDATES]
            body = self._body(part, purpose, against)
            for raw in self._answers(body, len(part)):
                yield Result.of(raw, first + raw["index"])

    async def aevaluate(self, source: str, problem: str, **more: Any) -> Result:
        """As `evaluate`, in a thread of its own."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: self.evaluate(source, problem, **more))

    async def aevaluate_many(
        self, candidates: Iterable[Candidate], purpose: Optional[str] = None, against: Against = "reference"
    ) -> List[Result]:
        """As `evaluate_many`, in a thread of its own."""
        batch = list(candidates)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: self.evaluate_many(batch, purpose, against))

    def dry_run(
        self, candidates: Iterable[Candidate], purpose: Optional[str] = None, against: Against = "reference"
    ) -> Dict[str, Any]:
        """Checks one request of these candidates, and says what it would do: number of evaluations, place in the queue, expected wait."""
        plan: Dict[str, Any] = self._json("POST", "/v1/evaluate", self._body(candidates, purpose, against, dry_run=True))
        return plan

    def post(self, path: str, body: Dict[str, Any]) -> Any:
        """The answer of a route that may be asked again, and that answers with one JSON value."""
        return self._json("POST", path, json.dumps(body).encode())

    def problems(self) -> List[Dict[str, Any]]:
        """All problems of the service."""
        problems: List[Dict[str, Any]] = self._json("GET", "/v1/problems")
        return problems

    def problem(self, name: str) -> Dict[str, Any]:
        """A problem, with its prototype and the prompt for a model."""
        problem: Dict[str, Any] = self._json("GET", "/v1/problems/" + urllib.parse.quote(name, safe=""))
        return problem

    def health(self) -> Dict[str, Any]:
        """The state of the service."""
        health: Dict[str, Any] = self._json("GET", "/v1/health")
        return health

    def _body(self, candidates: Iterable[Candidate], purpose: Optional[str], against: Against, **more: Any) -> bytes:
        if isinstance(against, Program):
            more["against"] = {name: value for name, value in asdict(against).items() if value is not None}
        elif against != "reference":
            more["against"] = against
        fields = {"candidates": [c.as_json() for c in candidates], "purpose": purpose or self.purpose, **more}
        return json.dumps(fields).encode()

    def _json(self, method: str, path: str, body: Optional[bytes] = None) -> Any:
        """The answer to a request, one JSON value. The request is sent again after each failure that may pass."""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"

        def once() -> Any:
            connection = self._connection()
            try:
                response = self._request(connection, method, path, body, headers)
                return json.loads(self._waiting(response.read))
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _Again(str(error) or type(error).__name__) from error
            finally:
                connection.close()

        failures = 0
        while True:
            try:
                return once()
            except _Again as again:
                failures += 0 if again.silent and body is not None else 1
                self._rest(again, failures)

    def _answers(self, body: bytes, count: int) -> Iterator[Dict[str, Any]]:
        """The answers to a request of `count` candidates, whatever happens to connections meanwhile."""
        headers = {"Idempotency-Key": str(uuid.uuid4()), "Accept": "application/x-ndjson", "Content-Type": "application/json"}
        seen, failures = 0, 0
        while seen < count:
            connection = self._connection()
            try:
                response = self._request(connection, "POST", "/v1/evaluate", body, headers)
                while seen < count:
                    line = self._waiting(response.readline)
                    if not line.endswith(b"\n"):
                        raise _Again("the answers ended early")
                    answer = json.loads(line)
                    if "outcome" not in answer:
                        raise _Again(str(answer.get("detail", "the service is stopping")), 1.0)
                    if answer["index"] < seen:
                        continue
                    # The caller may keep the generator for long; the next try begins with no failure.
                    seen, failures = answer["index"] + 1, 0
                    yield answer
            except (OSError, http.client.HTTPException, ValueError) as error:
                failures += 1
                self._rest(_Again(str(error) or type(error).__name__), failures)
            except _Again as again:
                failures += 0 if again.silent else 1
                self._rest(again, failures)
            finally:
                connection.close()

    @staticmethod
    def _waiting(read: Callable[[], T]) -> T:
        """Waits for a part of a response. A service whose queue is long may be silent for long."""
        try:
            return read()
        except TimeoutError as error:
            raise _Again("no answer came for long", 0.0, silent=True) from error

    def _rest(self, again: _Again, failures: int) -> None:
        if failures >= self.tries:
            raise Unreachable(f"{self.url} did not answer in {failures} tries: {again}; is `flopsmith serve` running there?") from again
        pause = again.pause
        if pause is None:
            pause = min(0.25 * 2**failures, LONGEST_PAUSE) * random.uniform(0.5, 1.0)
        if not again.silent:
            LOG.warning("%s: %s; try %d of %d follows in %.1f s", self.url, again, failures + 1, self.tries, pause)
        time.sleep(pause)

    def _connection(self) -> http.client.HTTPConnection:
        kind: Type[http.client.HTTPConnection] = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self.silence)

    def _request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Optional[bytes], headers: Dict[str, str]
    ) -> http.client.HTTPResponse:
        """Sends a request. Raises `_Again` if it may be sent again, and `Refused` if not."""
        more = dict(headers)
        if self._token:
            more["Authorization"] = f"Bearer {self._token}"
        connection.request(method, self._path + path, body, more)
        response = self._waiting(connection.getresponse)
        if response.status < 400:
            return response
        text = response.read()
        try:
            details = json.loads(text)
        except ValueError:
            details = {"detail": text.decode(errors="replace")[:200]}
        refused = Refused(response.status, details if isinstance(details, dict) else {})
        # A quota may last for a day, and no caller waits so long without a word.
        if refused.kind != "quota" and response.status in (429, 500, 502, 503, 504):
            after = response.headers.get("Retry-After", "")
            raise _Again(str(refused), float(after) if after.isdigit() else None)
        raise refused
