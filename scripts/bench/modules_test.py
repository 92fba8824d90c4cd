#!/usr/bin/env python3
"""Tests of modules.py that need neither a build nor PyTorch: outcomes that a script writes, and a compiler that only leaves a file."""
import contextlib
import io
import json
import math
import re
import sys
import tomllib
import types
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from module_parts import PARTS, chosen, steps  # noqa: E402
from module_parts import compiler  # noqa: E402
from module_parts.bench import all_measured, bench, followed, outcomes, refusal  # noqa: E402
from module_parts.compiler import PYTHON, compilation, compile_ratio, extensions, headers_of, source, takes_precompiled  # noqa: E402
from module_parts.overhead import BUDGET_MS, BURST_MS, BURSTS, SLOW_CALL_MS, calls, overhead_of, timed_seconds  # noqa: E402
from module_parts.problems import MODULES, as_candidate, copies, keyed, variant  # noqa: E402
from module_parts.ratios import pooled, ratio, relative  # noqa: E402
from module_parts.results import figure, summary, table  # noqa: E402
from module_parts.self_ratio import self_figures, self_ratios  # noqa: E402
from modules import arguments, code, is_finished, kept, main  # noqa: E402
from peers.cases import ROOT  # noqa: E402
from peers.tools import Missing  # noqa: E402
from rust_style import run as run_all  # noqa: E402

sys.path.insert(0, str(PYTHON))
from source_check import check  # noqa: E402

PROBED = {"python": "3.11.2", "torch": "2.11.0", "capability": "AVX512", "torch_include": "/torch/include", "torch_lib": "/torch/lib", "include": "/python"}


def speed(baseline, speedup, log_se=0.001, seconds=1e-3, rounds=10, stop="precise"):
    """The fields of a speed in an outcome, see crates/module/src/outcome.rs."""
    return {"baseline": baseline, "speedup": speedup, "low": speedup * math.exp(-1.96 * log_se), "high": speedup * math.exp(1.96 * log_se), "log_se": log_se,
            "candidate_seconds": seconds, "baseline_seconds": seconds * speedup, "rounds": rounds, "stop": stop}


def outcome(file="FILE", **workloads):
    found = [{"workload": name, "speeds": speeds} for name, speeds in workloads.items()]
    return {"outcome": "measured", "speedup": 1.0, "low": 0.9, "high": 1.1, "workloads": found, "techniques": [], "compile_seconds": 2.0, "largest_error": 0.1,
            "file": file, "problem": "softmax"}


BOTH = outcome(wide=[speed("eager", 4.0), speed("inductor", 1.5)], narrow=[speed("eager", 1.0), speed("inductor", 6.0)])
HEADER = {"problem": "softmax", "target": "module", "device": "cpu", "python": "3.11.2", "torch": "2.11.0", "triton": None, "capability": "AVX512"}
REFUSED = {"outcome": "refused", "fault": "left_running", "detail": "it used 9.0 ms", "compile_seconds": 0.0, "file": "FILE", "problem": "softmax"}


def refused(kind, words, call, *given):
    try:
        call(*given)
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"{given} was accepted")


def products(folder, said=BOTH, after=""):
    """A program that prints what `flopsmith bench` prints, notes its arguments, and leaves a precompiled header in the cache."""
    (folder / "outcome").write_text(json.dumps(said, ensure_ascii=False) + "\n")
    (folder / "header").write_text(json.dumps(HEADER) + "\n")
    program = folder / "flopsmith"
    program.write_text(f"""#!/bin/sh
echo "$FLOPSMITH_PYTHON $@" >> {folder}/calls
[ -z "$XDG_CACHE_HOME" ] || {{ mkdir -p $XDG_CACHE_HOME/flopsmith/torch-headers/key/torch; touch $XDG_CACHE_HOME/flopsmith/torch-headers/key/torch/extension.h.gch; }}
shift
cat {folder}/header
while [ "$1" != --problem ]; do
    echo "evaluating $1…" >&2
    sed "s|FILE|$1|" {folder}/outcome
    shift
done
{after}
""")
    program.chmod(0o755)
    return program


def options(folder, *given):
    return arguments(["--work", str(folder / "work"), "--flopsmith", str(folder / "flopsmith"), "--python", "python3", *given])


def quietly(call, *given):
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()) as out:
        result = call(*given)
    return result, out.getvalue()


def parts_choose_their_problems(_):
    assert len(chosen("versus", [])) == len(chosen("compile", [])) >= 12 and "matmul" not in chosen("versus", [])
    assert list(steps("overhead", ["softmax"])) == ["softmax, screen", "softmax, rank"] and len(steps("overhead", [])) == 6
    assert list(steps("self", ["softmax", "matmul"]).values()) == [("softmax", "itself"), ("softmax", "copies"), ("matmul", "itself")]
    refused(ValueError, "unknown module sofmax; known are argmax,", steps, "self", ["sofmax"])
    refused(ValueError, "matmul has none", chosen, "versus", ["matmul"])


def definitions_get_other_keys(folder):
    for name in chosen("versus", []):
        shipped = tomllib.loads((MODULES / name / "problem.toml").read_text())
        made = tomllib.loads((variant(folder / "one", name, baselines=["eager"], permit_torch=True) / "problem.toml").read_text())
        assert made == shipped | {"baselines": ["eager"], "permit_torch": True}, name
    text = 'id = "a"\nbaselines = ["eager", "inductor"]\n\n[[workload]]\nname = "w"\n'
    assert tomllib.loads(keyed(text, baselines=["eager"])) == {"id": "a", "baselines": ["eager"], "workload": [{"name": "w"}]}


def a_reference_becomes_a_candidate_that_the_check_accepts(_):
    for name, _purpose in {*steps("overhead", []).values()}:
        made = as_candidate((MODULES / name / "reference.py").read_text())
        assert "class ModelNew(nn.Module)" in made and "get_inputs" not in made and "class Model(" not in made, made
        found = check(made, permits_torch=True)
        assert not found["refusals"] and not found["extensions"] and not found["triton"], found
        # A shipped problem permits no plain PyTorch.
        assert check(made)["refusals"][0]["rule"] in ("torch_operator", "plain_torch"), check(made)


def constants_are_those_of_the_product(_):
    text = (ROOT / "crates/module/src/compile.rs").read_text()
    flags = re.search(r"const FLAGS: .*? = \[(.*?)\];", text, re.DOTALL)[1]
    assert tuple(re.findall(r'"(.*?)"', flags)) == compiler.FLAGS and f'"{compiler.COMPILER}"' in text
    build = text[text.index("pub fn build_one("):]
    words = re.findall(r'"(-[^"]*|extension\.[^"]*)"', build[build.index("let mut arguments"):build.index("let mut job")])
    assert [word for word in words if word not in ("-I", "-L{}")] == [*compiler.OUTPUT, *compiler.LIBRARIES], words
    environment = re.search(r"job\.env = \[(.*?)\]", text, re.DOTALL)[1]
    assert dict(re.findall(r'\("(\w+)", "(.*?)"\)', environment)) == compiler.ENVIRONMENT
    text = (ROOT / "crates/measure/src/time/decision.rs").read_text()
    for purpose, most in BUDGET_MS.items():
        assert re.search(rf"Purpose::{purpose.title()} => \(\d+, {most},", text), purpose
    for line in (f"SLOW_CALL: Duration = Duration::from_millis({SLOW_CALL_MS})", f"BURST: Duration = Duration::from_millis({BURST_MS})", f"BURSTS: u32 = {BURSTS};",
                 "fits * (0.7 + 0.6 * luck)", "clamp(2, 16)"):
        assert line in text, line


def the_bare_command_is_that_of_the_product(_):
    for name in ("softmax", "gated_silu"):
        (one,) = extensions(name)
        assert one["name"] in source(one) and source(one).count("wrap_pybind_function") == len(one["functions"]) and "#include <torch/extension.h>" in source(one)
        command = compilation(PROBED, Path("/headers"), one, "-H")
        assert command[:4] == ["/usr/bin/g++", "-H", "-I", "/headers"] and command[-5:] == ["-L/torch/lib", *compiler.LIBRARIES], command
        at = command.index("-isystem")
        folders = ["-isystem", "/torch/include", "-isystem", "/torch/include/torch/csrc/api/include", "-isystem", "/python"]
        assert command[at:at + 6] == folders and command[at + 6:at + 6 + len(one["flags"])] == one["flags"], command
    assert takes_precompiled("! /headers/torch/extension.h.gch\n. /usr/include/math.h\n") and not takes_precompiled("x /headers/torch/extension.h.gch\n")
    of = compile_ratio([3.0, 2.6, 2.7], [2.0, 2.5, 1.9])
    assert of["product"] == 2.7 and of["bare"] == 2.0 and math.isclose(of["ratio"], 1.35)


def a_cache_has_one_precompiled_header(folder):
    assert headers_of(folder) is None
    for key in ("a", "b"):
        made = folder / f"flopsmith/torch-headers/{key}/torch"
        made.mkdir(parents=True)
        (made / "extension.h.gch").touch()
        if key == "a":
            assert headers_of(folder) == made.parent
    refused(Missing, "of several compilers", headers_of, folder)


def outcomes_come_with_their_seconds(folder):
    lines = [(1.0, "err", "evaluating /a b.py…"), (1.5, "out", json.dumps(HEADER)), (1.6, "err", "preparing…"), (3.5, "out", json.dumps(outcome("/a b.py"))),
             (4.0, "err", "evaluating /c.py…"), (4.25, "out", json.dumps(REFUSED | {"file": "/c.py"})), (5.0, "out", json.dumps({"levels": []})), (5.0, "out", "noise")]
    assert [(one["file"], one["wall_seconds"]) for one in outcomes(lines)] == [("/a b.py", 2.5), ("/c.py", 0.25)]
    assert outcomes([(1.0, "out", json.dumps(BOTH))])[0]["wall_seconds"] is None
    script = folder / "said"
    script.write_text("#!/bin/sh\necho one >&2\necho data\nexit 3\n")
    script.chmod(0o755)
    (said, ended_with), _ = quietly(followed, [script], {})
    assert {line[1:] for line in said} == {("err", "one"), ("out", "data")} and ended_with == 3, said
    refused(Missing, "could not be started", followed, [folder / "no such program"], {})
    script.write_text("#!/bin/sh\nexec sleep 30\n")
    refused(Missing, "did not end within 0.1 s", followed, [script], {}, 0.1)


def files_without_outcomes_have_a_reason(folder):
    products(folder, after="echo 'error: c.py could not be evaluated: no jail' >&2; echo bye >&2; exit 3")
    chosen_options = options(folder)
    (found, why), _ = quietly(bench, chosen_options, [folder / "a.py", folder / "b.py"], "softmax", "rank", "0", "--workload", "first")
    assert [one["file"] for one in found] == [str(folder / "a.py"), str(folder / "b.py")] and why == "error: c.py could not be evaluated: no jail"
    called = (folder / "calls").read_text()
    assert called == f"python3 bench {folder}/a.py {folder}/b.py --problem softmax --purpose rank --format jsonl --threads 1 --wait 0 --workload first\n", called
    refused(Missing, "ended with 3: error: c.py", quietly, bench, chosen_options, [], "softmax", "rank", "0")
    assert refusal(None, "why") == "why" and refusal(BOTH, "why") is None
    refused(Missing, "refused: left_running it used 9.0 ms", all_measured, [BOTH, REFUSED], "why")
    assert len(copies(folder / "copies", "x = 1\n", 3)) == 3 and (folder / "copies/copy_003.py").read_text() == "x = 1\n"


def timed_calls_are_reckoned_from_rounds(_):
    assert calls(0.02, "rank") == calls(0.01, "screen") == 1 and calls(1e-8, "rank") == 16 and calls(9e-3, "rank") == 2
    # 3 ms hold 6 calls of half a millisecond, from 4 to 7 by luck; 1.5 ms hold half of that.
    assert 5.3 < calls(5e-4, "rank") < 5.7 and 2.4 < calls(5e-4, "screen") < 2.8
    own, other = timed_seconds(outcome(w=[speed("eager", 3.0, seconds=0.02, rounds=4), speed("inductor", 2.0, seconds=0.01, rounds=5)]), "rank")
    assert math.isclose(own, 0.08 + 0.05) and math.isclose(other, 0.24 + 0.1)
    one = outcome(w=[speed("eager", 2.0, seconds=0.02, rounds=5)])
    of = overhead_of([one | {"wall_seconds": seconds} for seconds in (60.0, 1.0, 1.4, 1.2)], "rank")
    assert of["first_seconds"] == 60.0 and math.isclose(of["overhead"], 1.1) and math.isclose(of["above_all_calls"], 0.9), of
    refused(Missing, "did not say when", overhead_of, [one | {"wall_seconds": None}, one], "rank")


def self_ratios_are_within_a_per_cent_or_not(_):
    sessions = [[[0.005, 0.001], None, [-0.02, 0.002]], [[0.0, None]]]
    itself = self_ratios(sessions, "itself")
    assert itself == [(0.005, 0.001), None, (-0.02, 0.002), (0.0, math.inf)], itself
    of = self_figures(itself)
    assert (of["ratios"], of["lost"], of["within"], of["share"], of["covered"]) == (4, 1, 2, 0.5, 1) and math.isclose(of["median"], 1.0), of
    # Copies of two commands make no pair.
    pairs = self_ratios([[[0.7, 3e-3], [0.695, 4e-3], None, [0.7, 1e-3]], [[0.1, 1e-3], [0.1, 1e-3]]], "copies")
    assert pairs[1:3] == [None, None] and len(pairs) == 4 and math.isclose(pairs[0][0], 0.005) and math.isclose(pairs[0][1], 5e-3), pairs
    assert self_figures(pairs)["within"] == 2 and self_figures([])["share"] is None and self_figures([None])["median"] is None


def speeds_are_averaged_over_workloads_and_runs(_):
    log, error = relative(BOTH, "inductor")
    assert math.isclose(math.exp(log), 3.0) and math.isclose(error, 0.001 / math.sqrt(2))
    assert relative(BOTH, "max-autotune") is None and relative(outcome(), "eager") is None
    assert relative(outcome(w=[speed("eager", 2.0) | {"log_se": None}]), "eager")[1] == math.inf
    log, error = pooled([(0.1, 0.03), (0.1, 0.04)])
    assert math.isclose(log, 0.1) and math.isclose(error, 0.025)
    assert math.isclose(pooled([(0.0, 0.01), (0.2, 0.01)])[1], 0.1)
    assert figure(ratio(math.log(2.0), 0.0)) == "2.00 [2.00, 2.00]" and figure(ratio(0.0, math.inf)) == "1.00, interval unknown" and figure(ratio(math.log(150.2), 0.0)) == "150 [150, 150]"


def versus_of(inductor, log_se=0.001):
    made = {"state": "measured", "repeats": 1, "runs": [], "busy": 0, "unconverged": 0}
    for baseline, value in (("eager", 2 * inductor), ("inductor", inductor)):
        made[baseline] = ratio(math.log(value), log_se) | {"log": math.log(value), "log_se": log_se}
    return made


def parts_are_judged(_):
    fast = {f"m{at}": versus_of(1.5) for at in range(8)}
    of = summary("versus", fast | {"slow": versus_of(0.5), "close": versus_of(1.001)})
    assert of["met"] and len(of["faster"]) == 8 and of["above_1"] == 9, of
    assert summary("versus", {"m": versus_of(1.5)})["met"] is None and summary("versus", {})["met"] is None
    assert summary("versus", fast | {"m7": versus_of(1.001)})["met"] is False
    lost = {"state": "failed", "reason": "no jail"}
    assert summary("versus", fast | {"m9": lost})["met"] is False and summary("self", {"a": lost})["met"] is False
    built = {name: compile_ratio([product], [2.0]) | {"state": "measured", "precompiled": True} for name, product in (("a", 3.0), ("b", 2.0))}
    of = summary("compile", built)
    assert of["met"] and math.isclose(of["ratio"], 1.25) and of["above"] == ["a"], of
    slow = {"state": "measured", "wall_seconds": [2.0], "candidate_seconds": [0.1], "baseline_seconds": [0.2], "overhead": 1.9, "above_all_calls": 1.7,
            "first_seconds": 30.0}
    whole = {"cpu": "a processor", "cores": 2, "torch": "2.11.0",
             "parts": {"overhead": {"softmax, rank": slow}, "compile": built, "self": {"softmax, itself": lost | {"reasons": {"refused: crash": 2}}}, "versus": fast}}
    text = "\n".join(table(whole))
    for part in ("softmax, rank: 1.90 s of 2.00 s (1.70 s without the baselines' timed calls): MISSED |", "1.25 times over 2 solutions; above at 1: met |",
                 "| a | 3.00 | 2.00 | 1.50 | read |", "nothing measured |", "8 of 8 faster than TorchInductor", "geometric mean 1.50 [1.50, 1.50] times TorchInductor",
                 "| a processor, 2 cores, torch 2.11.0 |", "- self, softmax, itself: failed: no jail", "2 copies without a speed: refused: crash"):
        assert part in text, f"{part}\n{text}"
    assert code(whole["parts"]) == 1 and code({"versus": fast, "compile": built}) == 0


def finished_steps_of_the_same_machine_are_kept(folder):
    now = {"cpu": "x", "revision": "abc", "torch": "2.11.0"}
    earlier = now | {"parts": {"self": {"a": 1}, "versus": {"b": 2}}}
    assert kept(earlier, options(folder, "--only", "self"), now) == {"versus": {"b": 2}}
    assert kept(earlier, options(folder, "--resume"), now) == earlier["parts"] and kept(earlier, options(folder), now) == {} == kept({}, options(folder, "--resume"), now)
    assert kept(earlier, options(folder, "--resume"), now | {"revision": "abd"}) == {}
    assert is_finished({"state": "measured", "repeats": 3}, 3) and not is_finished({"state": "measured", "repeats": 2}, 3) and not is_finished({}, 1)
    given = options(folder, "--only", "versus", "--only", "self", "--only", "self")
    assert given.only == ["self", "versus"] and given.json == folder / "work/results.json" and list(PARTS) == options(folder).only
    for wrong in (["--repeats", "0"], ["--only", "speed"]):
        refused(SystemExit, "2", quietly, arguments, wrong)


@contextlib.contextmanager
def world(folder):
    """A compiler that only leaves a file, and an interpreter with PyTorch."""
    gcc = folder / "g++"
    gcc.write_text("#!/bin/sh\n[ \"$1\" != -H ] || echo '! /headers/torch/extension.h.gch' >&2\necho built > extension.so\n")
    gcc.chmod(0o755)
    with mock.patch.multiple(compiler, COMPILER=str(gcc), probed=lambda _: PROBED), mock.patch("modules.COMPILER", str(gcc)), \
            mock.patch("modules.probed", lambda _: PROBED), mock.patch("modules.revision", lambda: "abc"), mock.patch("modules.cpu_model", lambda: "a processor"):
        yield


def all_parts_run_and_an_interrupted_one_goes_on(folder):
    products(folder, outcome(wide=[speed("eager", 1.001), speed("inductor", 1.2)]))
    given = ["--work", str(folder / "work"), "--flopsmith", str(folder / "flopsmith"), "--python", "python3", "--problem", "softmax", "--repeats", "2"]
    with world(folder):
        ended_with, out = quietly(main, given)
        # The compiler of this world takes less time than the outcomes say.
        assert ended_with == 1 and "MISSED" in out and "2 of 2 within 1 %" in out and "| softmax | 1.20 [1.20, 1.20] | 1.00 [1.00, 1.00] | 0 |" in out, out
        whole = json.loads((folder / "work/results.json").read_text())
        assert list(whole["parts"]) == list(PARTS) == list(whole["summary"]) and whole["torch"] == "2.11.0" and whole["parts"]["compile"]["softmax"]["precompiled"], whole
        called = (folder / "calls").read_text().splitlines()
        # Two purposes; a precompiled header and a build; two kinds of self-ratios; two certifications.
        assert len(called) == 8 and sum("--purpose certify" in line for line in called) == 2, called
        assert [line.count("/copy_") for line in called] == [3, 3, 1, 2, 2, 3, 0, 0], called
        # All is kept, then one step is missing and another one was interrupted.
        quietly(main, [*given, "--resume"])
        assert len((folder / "calls").read_text().splitlines()) == 8
        del whole["parts"]["versus"]["softmax"]
        step = whole["parts"]["self"]["softmax, itself"]
        step |= {"state": "unfinished", "sessions": [step["sessions"][0][:1]]}
        (folder / "work/results.json").write_text(json.dumps(whole))
        quietly(main, [*given, "--resume"])
        called = (folder / "calls").read_text().splitlines()[8:]
        assert [line.count("/copy_") for line in called] == [1, 0, 0], called
        assert json.loads((folder / "work/results.json").read_text())["parts"]["self"]["softmax, itself"]["ratios"] == 2


def a_refusal_of_a_copy_counts_and_a_failure_of_the_machine_does_not(folder):
    products(folder, REFUSED)
    given = ["--work", str(folder / "work"), "--flopsmith", str(folder / "flopsmith"), "--python", "python3", "--problem", "matmul", "--repeats", "2", "--only", "self"]
    with world(folder):
        ended_with, out = quietly(main, given)
        assert ended_with == 1 and "matmul, itself: 0 of 2 within 1 %" in out and "2 copies without a speed: refused: left_running it used 9.0 ms" in out, out
        products(folder, outcome(wide=[speed("eager", 1.0)]), after="exit 3")
        # The second file has no outcome.
        program = folder / "flopsmith"
        program.write_text(program.read_text().replace("    shift\ndone", "    shift 2\ndone").replace("exit 3", "echo 'error: the reference: it ended' >&2; exit 3"))
        ended_with, out = quietly(main, given)
        assert ended_with == 1 and "- self, matmul, itself: failed: error: the reference: it ended" in out, out
        step = json.loads((folder / "work/results.json").read_text())["parts"]["self"]["matmul, itself"]
        assert step["ratios"] == 1 and step["lost"] == 0, step


def mistakes_are_told_before_anything_is_measured(folder):
    given = ["--work", str(folder / "work"), "--flopsmith", str(folder / "flopsmith")]
    refused(SystemExit, "build it: make build", main, given)
    products(folder)
    with world(folder):
        refused(SystemExit, "unknown module sofmax", main, [*given, "--problem", "sofmax"])
    ran = types.SimpleNamespace(stdout='{"missing": "no module named torch"}\n', stderr="")
    with mock.patch.object(compiler, "ended", lambda *_, **__: ran):
        refused(SystemExit, "cannot import PyTorch: no module named torch; run `scripts/python.sh", main, [*given, "--only", "self"])
    assert not (folder / "calls").exists()


if __name__ == "__main__":
    tests = (parts_choose_their_problems, definitions_get_other_keys, a_reference_becomes_a_candidate_that_the_check_accepts, constants_are_those_of_the_product,
             the_bare_command_is_that_of_the_product, a_cache_has_one_precompiled_header, outcomes_come_with_their_seconds, files_without_outcomes_have_a_reason,
             timed_calls_are_reckoned_from_rounds, self_ratios_are_within_a_per_cent_or_not, speeds_are_averaged_over_workloads_and_runs, parts_are_judged,
             finished_steps_of_the_same_machine_are_kept, all_parts_run_and_an_interrupted_one_goes_on,
             a_refusal_of_a_copy_counts_and_a_failure_of_the_machine_does_not, mistakes_are_told_before_anything_is_measured)
    sys.exit(run_all("modules", tests))
