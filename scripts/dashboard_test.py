#!/usr/bin/env python3
"""Tests the dashboard and the alerts in docker/observability: starts a broker, nodes, a short search and a training of a few steps on loopback, while a
real Prometheus scrapes the nodes. Then it evaluates every query of the dashboard and every alert on the scraped data. Prometheus has to understand
each of them, and each query of the dashboard has to find something, except those that this file lists with a reason. At the end the script stops all
processes.

  scripts/dashboard_test.py                      the same as `make test-dashboard`
  scripts/dashboard_test.py --known-missing      for a program without the newer metrics

Needs prometheus and promtool (Debian: apt-get install prometheus), flopsmith with its harness, and nats-server."""

import argparse
import json
import re
import sys
import time
import urllib.parse

import local_cluster
from local_cluster import ROOT, Cluster, Failed, Processes, answers, free_port, program, say, until

FOLDER = ROOT / "docker" / "observability"
GUIDE = ROOT / "docs" / "reference" / "metrics.md"
# Every metric of a node with its labels. With --known-missing the new ones may be absent.
OLD, NEW = False, True
KNOWN = {
    "flopsmith_outcomes_total": ({"verdict", "cause"}, OLD),
    "flopsmith_retries_total": ({"stage"}, OLD),
    "flopsmith_quarantined": ({"stage"}, NEW),
    "flopsmith_stage_seconds_total": ({"stage"}, OLD),
    "flopsmith_core_time_seconds": ({"role"}, OLD),
    "flopsmith_held": (set(), OLD),
    "flopsmith_connected": (set(), OLD),
    "flopsmith_queue_waiting": ({"stage", "class"}, NEW),
    "flopsmith_queue_in_hand": ({"stage", "class"}, NEW),
    "flopsmith_queue_age_seconds": ({"stage", "class"}, NEW),
    "flopsmith_dead_letters": (set(), NEW),
    "flopsmith_run_step": (set(), NEW),
    "flopsmith_run_reward_mean": (set(), NEW),
    "flopsmith_run_correct_share": (set(), NEW),
    "flopsmith_run_best_gflops": (set(), NEW),
    "flopsmith_run_cells": (set(), NEW),
    "flopsmith_policy_version": (set(), NEW),
    "flopsmith_policy_staleness_versions": (set(), NEW),
    "flopsmith_gradient_steps_total": (set(), NEW),
    "flopsmith_process_cpu_seconds_total": (set(), NEW),
    "flopsmith_process_resident_memory_bytes": (set(), NEW),
    "flopsmith_gpu_utilization_ratio": ({"gpu"}, NEW),
    "flopsmith_gpu_memory_used_bytes": ({"gpu"}, NEW),
}
# Metrics and labels that Prometheus itself adds.
OF_PROMETHEUS = {"up", "ALERTS"}
LABELS_OF_PROMETHEUS = {"__name__", "job", "instance", "service"}
# Metrics that short runs may lack, with the reason; queries of them may find nothing.
MAY_BE_ABSENT = {
    "flopsmith_retries_total": "nothing fails here",
    "flopsmith_gpu_utilization_ratio": "this machine may have no GPU",
    "flopsmith_gpu_memory_used_bytes": "this machine may have no GPU",
    "flopsmith_run_best_gflops": "short runs may have confirmed no elite",
    # A separate check looks at each alert.
    "ALERTS": "no alert fires here",
}
# Other queries that may find nothing, by the panel's title.
MAY_BE_EMPTY = {"Not measured, by cause": "all programs may be right"}
MOST_VALUES = 60
# Values for Grafana's variables. The interval of rates has to hold several scrapes of one second each.
VARIABLES = {"$__rate_interval": "15s", "$__range": "5m", "$class": ".*"}


class Results:
    def __init__(self):
        self.failed = 0
        self.passed = 0

    def note(self, good, what, why=""):
        self.passed += good
        self.failed += not good
        print(f"{'PASS' if good else 'FAIL'}  {what}{': ' if why else ''}{why}", flush=True)
        return good

    def skip(self, what, why):
        print(f"SKIP  {what}: {why}", flush=True)


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries(board):
    """Titles of panels with their queries, with values for variables."""
    found = [(panel["title"], target["expr"]) for panel in panels(board) for target in panel["targets"]]
    found += [(note["name"], note["expr"]) for note in board["annotations"]["list"]]
    for variable, value in VARIABLES.items():
        found = [(title, query.replace(variable, value)) for title, query in found]
    return found


def metrics(query):
    """The names of metrics in a query: all words with Flopsmith's prefix, and Prometheus' own metrics."""
    bare = re.sub(r'"[^"]*"', '""', query)
    return {name for name in re.findall(r"[A-Za-z_:][A-Za-z0-9_:]*", bare) if name.startswith("flopsmith_") or name in OF_PROMETHEUS}


def alerts():
    """The names of the alerts. Python's standard library has no YAML parser, so this is a regular expression."""
    text = (FOLDER / "alerts.yml").read_text()
    return re.findall(r"- alert: (\S+)", text)


def shape(results, board):
    """Checks that need no Prometheus."""
    ids = [panel["id"] for panel in board["panels"]]
    results.note(len(ids) == len(set(ids)), f"{len(panels(board))} panels have distinct ids")
    bare = [panel["title"] for panel in panels(board) if not panel.get("description") or not panel["fieldConfig"]["defaults"].get("unit")]
    results.note(not bare, "each panel has a description and a unit", ", ".join(bare))
    taken = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                taken.setdefault((x, y), []).append(panel["title"])
    crossed = {tuple(titles) for titles in taken.values() if len(titles) > 1}
    wide = [panel["title"] for panel in board["panels"] if panel["gridPos"]["x"] + panel["gridPos"]["w"] > 24]
    results.note(not crossed and not wide, "no panel overlaps another or leaves the page", f"{crossed or ''}{wide or ''}")
    provisioned = set(re.findall(r"^    uid: (\S+)", (FOLDER / "grafana/datasources/flopsmith.yml").read_text(), re.M))
    named = {thing["datasource"]["uid"] for panel in panels(board) for thing in [panel, *panel["targets"]]}
    results.note(named <= provisioned, "each datasource is provisioned", ", ".join(named - provisioned))
    text = json.dumps(board) + (FOLDER / "alerts.yml").read_text()
    used = set(re.findall(r"\bflopsmith_[a-z_]+", text))
    results.note(used <= set(KNOWN), f"the {len(used)} used metrics are known", ", ".join(sorted(used - set(KNOWN))))
    unused = set(KNOWN) - used
    results.note(not unused, "a panel or alert uses each metric", ", ".join(sorted(unused)))
    guide = GUIDE.read_text()
    missing = [name for name in KNOWN if f"`{name}`" not in guide] + [name for name in alerts() if f"`{name}`" not in guide]
    results.note(not missing, "each metric and alert is in docs/reference/metrics.md", ", ".join(missing))


def promtool(results, tool, *arguments):
    done = local_cluster.run([tool, *arguments])
    why = "" if done.returncode == 0 else f"\n{done.stdout}{done.stderr}"
    results.note(done.returncode == 0, f"promtool {' '.join(map(str, arguments[:2]))}", why)


class Prometheus:
    def __init__(self, processes, binary, nodes):
        self.processes = processes
        place = processes.folder / "prometheus"
        place.mkdir()
        targets = [{"targets": [address], "labels": {"service": name}} for name, address in nodes.items()]
        # JSON is YAML.
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(FOLDER / "alerts.yml")],
            "scrape_configs": [{"job_name": "flopsmith", "static_configs": targets}],
        }
        (place / "prometheus.yml").write_text(json.dumps(configuration))
        self.url = f"http://127.0.0.1:{free_port()}"
        self.begun = time.time()
        self.count = len(nodes)
        processes.start(
            "prometheus", [binary, f"--config.file={place / 'prometheus.yml'}", f"--storage.tsdb.path={place / 'data'}",
                           f"--web.listen-address={self.url.removeprefix('http://')}"],
        )

        def ready():
            processes.alive("prometheus")
            return answers(f"{self.url}/-/ready")

        until("Prometheus is ready", 60, ready)
        until("Prometheus has scraped every node", 30, self.has_scraped)

    def ask(self, path, **parameters):
        """An answer of the API; None and the reason if it refuses the request."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with local_cluster.LOOPBACK.open(url, timeout=30) as answer:
                return json.load(answer)["data"], ""
        except local_cluster.urllib.error.HTTPError as error:
            return None, error.read().decode(errors="replace")

    def has_scraped(self):
        found, _ = self.ask("query", query='sum(up{job="flopsmith"})')
        return found and found["result"] and float(found["result"][0]["value"][1]) == self.count

    def over_time(self, query):
        """The series of a query over all scrapes, as Grafana asks for them; None and the reason if it fails. Leaves out series without a number."""
        found, why = self.ask("query_range", query=query, start=self.begun, end=time.time(), step="1s")
        if found is None:
            return None, why
        return [one for one in found["result"] if any(value not in ("NaN", "+Inf", "-Inf") for _, value in one["values"])], ""


def look(results, prometheus, board, known_missing):
    """Evaluates every query and alert on the scraped data."""
    for title, query in queries(board):
        series, why = prometheus.over_time(query)
        if series is None:
            results.note(False, title, f"{query}\n      {why}")
            continue
        reasons = [MAY_BE_EMPTY[title]] if title in MAY_BE_EMPTY else []
        reasons += [MAY_BE_ABSENT[name] for name in sorted(metrics(query)) if name in MAY_BE_ABSENT]
        new = sorted(name for name in metrics(query) if KNOWN.get(name, (set(), OLD))[1])
        if series:
            results.note(True, title, f"{len(series)} series")
        elif reasons:
            results.skip(title, f"understood, found nothing: {reasons[0]}")
        elif known_missing and new:
            results.skip(title, f"understood; the program has no {', '.join(new)} (--known-missing)")
        else:
            results.note(False, title, f"no series: {query}")

    # The rules as Prometheus has loaded and evaluated them.
    def evaluated():
        groups, _ = prometheus.ask("rules")
        rules = [rule for group in groups["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

    rules = until("the alerts are evaluated", 30, evaluated)
    results.note({rule["name"] for rule in rules} == set(alerts()), f"{len(rules)} alerts are loaded")
    for rule in rules:
        found, why = prometheus.ask("query", query=rule["query"])
        good = found is not None and rule["health"] == "ok" and rule["state"] != "firing"
        results.note(good, f"alert {rule['name']}", why or rule.get("lastError") or rule["state"])


def scraped(results, prometheus, known_missing):
    """Checks the scraped metrics: all of them are known, with the right labels and few values of these."""
    found, _ = prometheus.ask("series", **{"match[]": '{__name__=~"flopsmith_.*"}', "start": prometheus.begun, "end": time.time()})
    names, values = {}, {}
    for series in found:
        names.setdefault(series["__name__"], set()).update(set(series) - LABELS_OF_PROMETHEUS)
        for label, value in series.items():
            if label not in ("__name__", "instance"):
                values.setdefault(label, set()).add(value)
    unknown = sorted(set(names) - set(KNOWN))
    results.note(not unknown, f"the {len(names)} scraped metrics, in {len(found)} series, are known", ", ".join(unknown))
    absent = set(KNOWN) - set(names) - set(MAY_BE_ABSENT)
    if known_missing:
        absent = {name for name in absent if not KNOWN[name][1]}
    results.note(not absent, "the scrapes have every metric of such runs", ", ".join(sorted(absent)))
    for name, labels in sorted(names.items()):
        want = KNOWN.get(name, (labels, OLD))[0]
        # Prometheus treats an empty label as absent.
        lacks = labels < want and not (known_missing or name == "flopsmith_outcomes_total")
        if labels - want or lacks:
            results.note(False, name, f"has the labels {sorted(labels)}, not {sorted(want)}")
    many = {label: len(of) for label, of in values.items() if len(of) > MOST_VALUES}
    counts = ", ".join(f"{label} {len(of)}" for label, of in sorted(values.items()))
    results.note(not many, f"labels have at most {MOST_VALUES} values", counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flopsmith", help="the program (default: target/release/flopsmith, or the one on the PATH)")
    parser.add_argument("--nats-server", help="the broker (default: the set-up's, or the one on the PATH)")
    parser.add_argument("--prometheus", help="prometheus (default: the one on the PATH)")
    parser.add_argument("--promtool", help="promtool (default: the one on the PATH)")
    parser.add_argument("--known-missing", action="store_true", help="permit that newer metrics are absent")
    parser.add_argument("--evaluations", type=int, default=24, help="number of programs of the search")
    parser.add_argument("--steps", type=int, default=2, help="number of gradient steps of the training")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs and Prometheus' data")
    parser.add_argument("--hold", type=float, default=0, metavar="SECONDS", help="keep everything running for this time at the end")
    given = parser.parse_args()
    results = Results()
    board = json.loads((FOLDER / "dashboard.json").read_text())
    processes = Processes()
    try:
        shape(results, board)
        tool = program(given.promtool, "promtool")
        promtool(results, tool, "check", "rules", FOLDER / "alerts.yml")
        promtool(results, tool, "check", "config", FOLDER / "prometheus.yml")
        promtool(results, tool, "test", "rules", FOLDER / "alerts_test.yml")
        binary = program(given.prometheus, "prometheus")
        cluster = Cluster(processes, given.flopsmith, given.nats_server)
        cluster.start()
        say(f"nodes answer: {cluster.nodes}")
        prometheus = Prometheus(processes, binary, cluster.nodes)
        say(f"Prometheus has scraped both ({prometheus.url})")
        for summary in (cluster.search(given.evaluations), cluster.train(given.steps)):
            say(f"{summary['run']}: ended after {summary['seconds']:.0f} s")
        decided = len(cluster.outcomes())
        counted = "sum(flopsmith_outcomes_total)"

        def all_counted():
            found, _ = prometheus.ask("query", query=counted)
            return found and found["result"] and float(found["result"][0]["value"][1]) >= decided

        until(f"Prometheus counts {decided} outcomes", 30, all_counted)
        results.note(True, f"Prometheus counts all {decided} outcomes of the runs")
        look(results, prometheus, board, given.known_missing)
        scraped(results, prometheus, given.known_missing)
        if given.hold:
            say(f"everything keeps running for {given.hold:.0f} s: {prometheus.url}")
            until("never", given.hold, lambda: False)
    except Failed as why:
        if not (given.hold and str(why).endswith("never")):
            results.note(False, str(why))
    finally:
        processes.end(given.keep)
        if given.keep:
            say(f"kept: {processes.folder}")
        say("all processes of this test have ended")
    print(f"{results.passed} passed, {results.failed} failed")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
