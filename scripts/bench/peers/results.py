"""Ratios, tables and the plot of `scripts/bench/tuners.py`."""

import json
import math
from html import escape

SIGMAS = 1.96

# The order in tables and in the legend, and the colours of the plot.
NAMES = {"gcc": "gcc -O3", "clang": "clang -O3", "polly": "Polly", "baseline": "hand-written baseline", "kernel_tuner": "Kernel Tuner",
         "metaschedule": "TVM MetaSchedule", "openblas": "OpenBLAS", "mkl": "MKL", "flopsmith": "flopsmith search"}
COLOURS = {"gcc": "#7b828c", "clang": "#b8860b", "polly": "#d2691e", "baseline": "#2e8b57", "kernel_tuner": "#8a4fbf", "metaschedule": "#c2447a",
           "openblas": "#3b7dd8", "mkl": "#17a2a2", "flopsmith": "#d02020"}


def rows(stdout):
    """The objects of `flopsmith bench --format json` by the names of their files without endings."""
    found = {}
    for line in stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            found[row["file"].rsplit("/", 1)[-1].rsplit(".", 1)[0]] = row
    return found


def half_width(row):
    """Half of the 95 % interval of ln(ratio), by its standard error: (whole, without the reference's part)."""
    interval = row["interval"]
    whole = math.log(interval["high"] / interval["low"]) / 2 if interval else math.nan
    return whole, SIGMAS * row["log_ratio_se"]


def judged(by_command):
    """The pairs of a case that `bench` judged. `by_command` has the rows of each command, that of gcc first. Ratios are to the plain reference as gcc builds
    it. A program of another compiler was measured beside that compiler's reference: its ratio is that of the seconds of a call, and its interval has the
    errors of both sides, but not a change of the machine between the commands."""
    pairs, gcc = {}, by_command[0]
    measured = next((row for row in gcc.values() if row["ratio"]), None)
    reference = measured and measured["seconds_per_call"] * measured["ratio"]
    error = 0.0
    if measured:
        whole, own = half_width(measured)
        error = math.sqrt(max(0.0, whole**2 - own**2)) if math.isfinite(whole) else math.nan
    for number, found in enumerate(by_command):
        for name, row in found.items():
            if row["outcome"] not in ("measured", "unconverged"):
                pairs[name] = {"state": "refused", "reason": f"{row['outcome']}: {row['reason']}", "diagnostics": row["diagnostics"]}
                continue
            pair = {"state": row["outcome"], "judge": "bench", "seconds": row["seconds_per_call"], "gflops": row["gflops"], "techniques": row["techniques"]}
            if number == 0:
                pair |= {"ratio": row["ratio"], "interval": [row["interval"]["low"], row["interval"]["high"]] if row["interval"] else None}
            elif reference:
                ratio, half = reference / row["seconds_per_call"], math.hypot(half_width(row)[1], error)
                pair |= {"ratio": ratio, "interval": [ratio * math.exp(-half), ratio * math.exp(half)] if math.isfinite(half) else None}
            pairs[name] = pair
    return pairs, {"reference_seconds": reference, "work_gflop": measured and measured["gflops"] * measured["seconds_per_call"]}


def by_own_clock(made, facts):
    """The pair of a library: its fastest call beside the reference's undisturbed one."""
    pair = {"state": "measured", "judge": "own clock", "seconds": made["seconds"], "interval": None}
    if facts["reference_seconds"]:
        pair |= {"ratio": facts["reference_seconds"] / made["seconds"], "gflops": facts["work_gflop"] / made["seconds"]}
    return pair


def figure(pair):
    """A cell of the table."""
    if pair is None:
        return ""
    if not pair.get("ratio"):
        return pair["state"]
    text = f"{pair['ratio']:.3g}"
    if pair.get("interval"):
        text += f" [{pair['interval'][0]:.3g}, {pair['interval'][1]:.3g}]"
    mark = {"unconverged": "~"}.get(pair["state"], "") + ("†" if pair.get("judge") == "own clock" else "")
    return mark + text


def geometric(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(results):
    """For each peer, over the problems where both have a ratio: how many times as fast the search is, over PolyBench alone as well if there are some, at how
    many it is at least as fast, and where it is ahead with intervals apart."""
    found = {}
    for name in NAMES:
        both = [(case, pairs["flopsmith"], pairs[name]) for case, pairs in results.items()
                if name != "flopsmith" and pairs.get(name, {}).get("ratio") and pairs.get("flopsmith", {}).get("ratio")]
        if not both:
            continue

        def bounds(pair):
            return pair.get("interval") or [pair["ratio"]] * 2
        times = {case: own["ratio"] / other["ratio"] for case, own, other in both}
        polybench = [ratio for case, ratio in times.items() if case.startswith("polybench_")]
        found[name] = {
            "problems": len(both), "mean": geometric(times.values()),
            "polybench": {"problems": len(polybench), "mean": geometric(polybench)} if polybench else None,
            "at_least": sum(ratio >= 1 for ratio in times.values()),
            "ahead": sum(bounds(own)[0] > bounds(other)[1] for _, own, other in both),
            "behind": [case for case, own, other in both if bounds(own)[1] < bounds(other)[0]],
        }
    return found


def sentence(name, of):
    """How the search compares with a peer, by an entry of the summary."""
    suite = of["polybench"]
    suite = f", and {suite['mean']:.3g} times over the {suite['problems']} of PolyBench" if suite else ""
    behind = f"; behind at {', '.join(of['behind'])}" if of["behind"] else ""
    return (f"- flopsmith search is {of['mean']:.3g} times as fast as {NAMES[name]} over {of['problems']} problems (geometric mean){suite}, "
            f"at least as fast at {of['at_least']} ({of['at_least'] / of['problems']:.0%}), ahead with intervals apart at {of['ahead']}{behind}")


def table(results):
    """The lines of a table in Markdown, the means, and what is missing with its reasons."""
    shown = [name for name in NAMES if any(name in pairs for pairs in results.values())]
    yield "| problem | " + " | ".join(NAMES[name] for name in shown) + " |"
    yield "|---" * (len(shown) + 1) + "|"
    for case, pairs in results.items():
        yield f"| {case} | " + " | ".join(figure(pairs.get(name)) for name in shown) + " |"
    yield ""
    yield "Times as fast as the plain reference built by gcc, with 95 % intervals. † by its own clock, the fastest call. ~ did not converge."
    for name, of in summary(results).items():
        yield sentence(name, of)
    for case, pairs in results.items():
        for name in shown:
            reason = pairs.get(name, {}).get("reason")
            if reason:
                yield f"- {case}, {NAMES[name]}: {pairs[name]['state']}: {reason}"


STYLE = """
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1b1d21}.note{font-size:12px;fill:#5a5f68}.line{stroke:#dcdcd6}
@media(prefers-color-scheme:dark){text{fill:#e7e9ec}.note{fill:#a2a9b3}.line{stroke:#31363d}}
"""
LEFT, WIDTH, ROW, TOP = 210, 940, 30, 84


def plot(results, title):
    """An SVG: a row for each problem, a dot for each peer on a logarithmic axis of ratios, with its interval."""
    ratios = [bound for pairs in results.values() for pair in pairs.values() if pair.get("ratio")
              for bound in (pair["ratio"], *(pair.get("interval") or []))]
    low, high = (math.floor(math.log10(min(ratios))), math.ceil(math.log10(max(ratios)))) if ratios else (0, 1)
    high = max(high, low + 1)

    def x(ratio):
        return LEFT + (WIDTH - LEFT - 30) * (math.log10(ratio) - low) / (high - low)
    height = TOP + ROW * len(results) + 46
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"><style>{STYLE}</style>', f'<text x="12" y="24">{escape(title)}</text>']
    shown = [name for name in NAMES if any(pairs.get(name, {}).get("ratio") for pairs in results.values())]
    for number, name in enumerate(shown):
        at, line = 12 + number % 5 * 184, 46 + number // 5 * 18
        out.append(f'<circle cx="{at + 5}" cy="{line - 4}" r="5" fill="{COLOURS[name]}"/><text class="note" x="{at + 15}" y="{line}">{escape(NAMES[name])}</text>')
    for power in range(low, high + 1):
        at, bottom = x(10.0**power), TOP + ROW * len(results)
        out.append(f'<line class="line" x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}"/>'
                   f'<text class="note" x="{at:.1f}" y="{bottom + 17}" text-anchor="middle">{10.0**power:g}</text>')
    out.append(f'<text class="note" x="{(LEFT + WIDTH) / 2}" y="{height - 10}" text-anchor="middle">times as fast as the plain reference built by gcc</text>')
    for number, (case, pairs) in enumerate(results.items()):
        y = TOP + ROW * number + ROW / 2
        out.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(case)}</text><line class="line" x1="{LEFT}" y1="{y}" x2="{WIDTH - 30}" y2="{y}"/>')
        for name in shown:
            pair = pairs.get(name, {})
            if not pair.get("ratio"):
                continue
            words = escape(f"{NAMES[name]}: {figure(pair)}")
            if pair.get("interval"):
                ends = [x(bound) for bound in pair["interval"]]
                out.append(f'<line x1="{ends[0]:.1f}" y1="{y}" x2="{ends[1]:.1f}" y2="{y}" stroke="{COLOURS[name]}" stroke-width="3"/>')
            out.append(f'<circle cx="{x(pair["ratio"]):.1f}" cy="{y}" r="5" fill="{COLOURS[name]}"><title>{words}</title></circle>')
    return "\n".join([*out, "</svg>"]) + "\n"
