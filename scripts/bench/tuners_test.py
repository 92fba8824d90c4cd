#!/usr/bin/env python3
"""Tests of tuners.py that need neither a build nor a tuner: they read what the tools print, and run gcc where it is installed."""
import contextlib
import importlib
import io
import json
import math
import os
import shutil
import subprocess
import sys
import time
import types
import xml.etree.ElementTree as xml
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from rust_style import run as run_all  # noqa: E402
from tuners import arguments, commands, digest, is_kept, judge, one_case, read, write  # noqa: E402
from peers import PEERS, TUNERS, libraries, metaschedule, parameters, search  # noqa: E402
from peers.cases import ROOT, Case, chosen, formula  # noqa: E402
from peers.compilers import newest_clang  # noqa: E402
from peers.results import COLOURS, NAMES, by_own_clock, figure, judged, plot, rows, summary, table  # noqa: E402
from peers.tools import Missing, ended, fresh, last_line, run  # noqa: E402

def case(name="dgemm", **params):
    folder = ROOT / "problems" / name
    listed = [{"problem": name, "folder": str(folder), "error": None, "workloads": [{"name": "small", "timed": params or {"n": 64}}]}]
    return chosen(listed, [name])[0]


def row(name, seconds, ratio, half=0.01, own=0.004, **more):
    """A line of `flopsmith bench --format json`, with the fields that tuners.py reads. The problem has a million operations a call."""
    interval = {"low": ratio * math.exp(-half), "high": ratio * math.exp(half)}
    return {"file": f"/tries/{name}.c", "problem": "dgemm", "outcome": "measured", "reason": None, "diagnostics": "", "techniques": [], "gflops": 1e-3 / seconds,
            "seconds_per_call": seconds, "ratio": ratio, "interval": interval, "log_ratio_se": own / 1.96, "reference_gflops": 1e-3 / seconds / ratio, **more}


REFUSED = row("wrong", 1, 1) | {"outcome": "rejected", "reason": "wrong_result", "gflops": None, "seconds_per_call": None, "ratio": None, "interval": None,
                                "log_ratio_se": None, "diagnostics": "n = 64: element 3 is 2 instead of 1"}
GCC = "\n".join(map(json.dumps, (row("baseline", 2e-4, 20.0), row("gcc", 4e-3, 1.0), REFUSED))) + "\n"
CLANG = json.dumps(row("clang", 1e-3, 1.1, half=0.2, own=0.003)) + "\n"


def refused(kind, words, call, *given, **named):
    try:
        call(*given, **named)
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"{given} {named} was accepted")


def every_peer_has_a_name_and_a_colour(_):
    assert set(PEERS) == set(NAMES) == set(COLOURS) and set(TUNERS) < set(PEERS)
    refused(SystemExit, "2", arguments, ["--peers", "gcc,icc"])
    refused(SystemExit, "2", arguments, ["--minutes", "-1"])
    quick = arguments(["--quick"])
    assert (quick.minutes, quick.purpose, quick.problems) == (0.5, "rank", "dgemm,transpose")
    assert arguments([]).minutes == 3 and arguments(["--quick", "--minutes", "2"]).minutes == 2


def cases_come_from_the_list_of_problems(_):
    def sizes(name, *params):
        return {"problem": name, "folder": f"problems/{name}", "error": None, "workloads": [{"name": n, "timed": p} for n, p in params]}
    listed = [sizes("dgemm", ("n=256", {"n": 256}), ("n=512", {"n": 512})), sizes("dgemv", ("m=768,n=768", {"m": 768, "n": 768}))]
    listed.append({"problem": "odd", "folder": "odd", "error": "line 3: no", "workloads": None})
    dgemm, gemv = chosen(listed, ["dgemm", "dgemv"])
    assert (dgemm.workload, dgemm.params, dgemm.several) == ("n=256", {"n": 256}, True), dgemm
    assert not gemv.several and [kind for _, kind, _ in gemv.arguments()][:2] == ["int", "int"]
    assert chosen(listed, ["dgemm"], "n=512")[0].params == {"n": 512}
    # Programs and shells take the name of its folder as one word.
    assert (dgemm.stem, gemv.stem) == ("dgemm-n256", "dgemv-m768-n768")
    refused(ValueError, "unknown problem dgem; known are", chosen, listed, ["dgem"])
    refused(ValueError, "the definition of odd is broken: line 3: no", chosen, listed, ["odd"])
    refused(ValueError, "dgemm has no workload tall; it has n=256", chosen, listed, ["dgemm"], "tall")
    assert formula("(n+1)*m/2", {"n": 3, "m": 5}) == 10 and formula("sqrt(n)", {"n": 16}) == 4


def programs_of_one_command_are_compared_with_one_reference(_):
    gcc = rows(GCC)
    assert set(gcc) == {"gcc", "baseline", "wrong"}, set(gcc)
    pairs, facts = judged([gcc])
    low, high = pairs["gcc"]["interval"]
    assert low < 1 < high and math.isclose(facts["reference_seconds"], gcc["gcc"]["seconds_per_call"] * gcc["gcc"]["ratio"])
    assert pairs["baseline"]["ratio"] == gcc["baseline"]["ratio"] > 2
    assert pairs["wrong"]["state"] == "refused" and "wrong_result" in pairs["wrong"]["reason"]


def programs_of_another_compiler_are_compared_by_seconds(_):
    gcc, clang = rows(GCC), rows(CLANG)
    pairs, facts = judged([gcc, clang])
    assert math.isclose(pairs["clang"]["ratio"], facts["reference_seconds"] / clang["clang"]["seconds_per_call"])
    low, high = pairs["clang"]["interval"]
    assert math.isclose(math.sqrt(low * high), pairs["clang"]["ratio"]), (low, high)
    # Its interval has the errors of both programs, and not that of the reference built by clang.
    assert math.isclose(pairs["clang"]["ratio"], 4.0) and math.isclose(math.log(high / low) / 2, math.sqrt(0.003**2 + 0.01**2 - 0.004**2)), (low, high)
    alone, _ = judged([{}, clang])
    assert "ratio" not in alone["clang"], "there is no reference of gcc to compare with"
    library = by_own_clock({"seconds": facts["reference_seconds"] / 4}, facts)
    assert math.isclose(library["ratio"], 4) and library["judge"] == "own clock"
    assert math.isclose(library["gflops"], 4 * gcc["gcc"]["reference_gflops"], rel_tol=1e-6)


def pair(ratio, low=None, high=None, **more):
    return {"state": "measured", "ratio": ratio, "interval": low and [low, high], **more}


RESULTS = {
    "dgemm at n=256": {"gcc": pair(1, 0.98, 1.02), "flopsmith": pair(60, 58, 62), "openblas": pair(50, judge="own clock"),
                       "polly": {"state": "skipped", "reason": "clang-14 has no Polly"}},
    "transpose at small": {"gcc": pair(1, 0.97, 1.03), "flopsmith": pair(2, 1.9, 2.1), "kernel_tuner": pair(2.5, 2.4, 2.6)},
}


def tables_name_who_is_ahead_and_what_is_missing(_):
    found = summary(RESULTS)
    assert found["gcc"]["problems"] == found["gcc"]["ahead"] == 2 and math.isclose(found["gcc"]["mean"], math.sqrt(120))
    expected = {"problems": 1, "mean": 2 / 2.5, "polybench": None, "at_least": 0, "ahead": 0, "behind": ["transpose at small"]}
    assert found["kernel_tuner"] == expected, found
    assert found["openblas"]["ahead"] == 1 and "polly" not in found
    text = "\n".join(table(RESULTS))
    assert "| dgemm at n=256 | 1 [0.98, 1.02] | skipped |  | †50 | 60 [58, 62] |" in text, text
    assert "behind at transpose at small" in text and "Polly: skipped: clang-14 has no Polly" in text, text
    assert figure({"state": "unconverged", "ratio": 3.0, "interval": [2, 4]}) == "~3 [2, 4]" and figure(None) == ""


def polybench_has_a_mean_of_its_own_and_the_share_at_least_as_fast_is_said(_):
    results = {
        "dgemm at n=256": {"baseline": pair(100, 99, 101), "flopsmith": pair(25, 24, 26)},
        "polybench_2mm at small": {"baseline": pair(4, 3.9, 4.1), "flopsmith": pair(8, 7.9, 8.1)},
        "polybench_lu at small": {"baseline": pair(2, 1.9, 2.1), "flopsmith": pair(16, 15, 17)},
        "polybench_mvt at small": {"baseline": pair(3, 2.9, 3.1), "flopsmith": pair(3, 2.9, 3.1)},
        "polybench_adi at small": {"baseline": {"state": "refused", "reason": "wrong_result"}, "flopsmith": pair(2, 1.9, 2.1)},
    }
    of = summary(results)["baseline"]
    assert of["problems"] == 4 and math.isclose(of["mean"], (0.25 * 2 * 8 * 1) ** 0.25), of
    assert of["polybench"]["problems"] == 3 and math.isclose(of["polybench"]["mean"], 16 ** (1 / 3)), of
    assert (of["at_least"], of["ahead"], of["behind"]) == (3, 2, ["dgemm at n=256"]), of
    text = "\n".join(table(results))
    assert "2.52 times over the 3 of PolyBench, at least as fast at 3 (75%), ahead with intervals apart at 2; behind at dgemm at n=256" in text, text


def the_plot_has_a_dot_for_each_ratio(_):
    tree = xml.fromstring(plot(RESULTS, "a machine & its core"))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in tree.iter(f"{space}title")]
    assert len(titles) == 6 and "OpenBLAS: †50" in titles, titles
    places = {circle.find(f"{space}title").text: float(circle.get("cx")) for circle in tree.iter(f"{space}circle") if circle.find(f"{space}title") is not None}
    assert places["gcc -O3: 1 [0.98, 1.02]"] < places["OpenBLAS: †50"] < places["flopsmith search: 60 [58, 62]"], places
    assert xml.fromstring(plot({}, "nothing")) is not None


def finished_pairs_are_kept(folder):
    file = folder / "gcc.c"
    made = {"state": "source", "file": str(file), "minutes": 3}
    assert not is_kept("flopsmith", made, 3), "the program is gone"
    file.write_text("int x;\n")
    assert is_kept("flopsmith", made, 3) and not is_kept("flopsmith", made, 5) and is_kept("gcc", made, 5)
    assert is_kept("mkl", {"state": "timed", "seconds": 1}, 3) and not is_kept("mkl", {"state": "skipped"}, 3) and not is_kept("mkl", {}, 3)
    options = arguments(["--quick"])
    before = digest({"gcc": made}, options)
    assert digest({"gcc": made}, options) == before != digest({"gcc": made}, arguments([]))
    file.write_text("int y;\n")
    assert digest({"gcc": made}, options) != before
    write(folder / "a/b.json", {"x": 1})
    assert read(folder / "a/b.json") == {"x": 1} and read(folder / "none.json") == {}


def a_resumed_case_is_not_judged_again(folder):
    """The whole of a case, with a program that prints lines as `flopsmith bench` does."""
    if not shutil.which("gcc"):
        print("skipped: there is no gcc")
        return
    program = folder / "flopsmith"
    (folder / "said").write_text(GCC)
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {folder}/calls\ncat {folder}/said\n")
    program.chmod(0o755)
    results = {}
    given = ["--flopsmith", str(program), "--work", str(folder / "work"), "--peers", "gcc,baseline"]
    for more in ([], ["--resume"]):
        one_case(case(n=256), ["gcc", "baseline"], arguments([*given, *more]), results)
    calls = (folder / "calls").read_text().splitlines()
    assert len(calls) == 1, calls
    assert "--purpose certify --format json" in calls[0] and "--compiler" not in calls[0] and calls[0].count(".c ") == 2, calls
    pairs = results["dgemm at small"]["pairs"]
    assert pairs["baseline"]["ratio"] > 2 and "void dgemm" in pairs["gcc"]["source"], pairs
    one_case(case(n=256), ["gcc"], arguments([*given, "--resume"]), results)
    assert len((folder / "calls").read_text().splitlines()) == 1 and set(results["dgemm at small"]["pairs"]) == {"gcc", "baseline"}
    one_case(case(n=256), ["gcc"], arguments([*given, "--resume", "--purpose", "rank"]), results)
    assert len((folder / "calls").read_text().splitlines()) == 2, "another purpose is another judgement"


def programs_are_grouped_by_compiler(_):
    made = {"clang": {"state": "source", "file": "c.c", "compiler": "/usr/bin/clang", "flags": "-O3"}, "gcc": {"state": "source", "file": "g.c"},
            "mkl": {"state": "timed", "seconds": 1}}
    assert commands(made) == {(None, None): ["g.c"], ("/usr/bin/clang", "-O3"): ["c.c"]}
    assert list(commands(made))[0] == (None, None)


def the_newest_clang_is_taken(_):
    assert newest_clang({"clang-14", "clang-22", "clang-19", "clang-format-22", "clang++-22", "clang"}) == "clang-22"
    assert newest_clang({"clang", "clang-format"}) == "clang"
    refused(Missing, "clang is not installed", newest_clang, {"clang-tidy"})


def a_search_gets_the_minutes(_):
    options = arguments(["--minutes", "0.5", "--flopsmith", "flopsmith"])
    command = search.command(options, case(), "best.c", "runs", 30)
    assert command[:2] == ["flopsmith", "search"] and command[command.index("--budget") + 1] == "30s" and "--workload" not in command
    several = case()
    several.several = True
    assert search.command(options, several, "best.c", "runs", 30)[-2:] == ["--workload", "small"]


def failures_are_reasons(_):
    assert last_line("a\n\nb \n\n") == "b" and last_line("") == "it printed nothing"
    refused(Missing, "sh ended with 3: no", run, ["sh", "-c", "echo no >&2; exit 3"])
    refused(Missing, "could not be started", run, ["/nowhere/tool"])
    refused(Missing, "did not end within", run, ["sleep", "5"], limit=0.05)
    refused(Missing, "no tensor expression for lu", metaschedule.metaschedule, Case("lu", ROOT, "n", {}, {}), None, None)
    refused(Missing, "no kernel with parameters for lu", parameters.kernel_tuner, Case("lu", ROOT, "n", {}, {}), None, None)


def a_limit_ends_all_processes_of_a_command(folder):
    """A process that the command left behind would hold its output open, and use the core under the next measurement."""
    begun = time.monotonic()
    refused(Missing, "sh did not end within 0.2 s", run, ["sh", "-c", "sleep 30 & echo $! > left; wait"], limit=0.2, cwd=folder)
    assert time.monotonic() - begun < 15, "the command was waited for"
    left = int((folder / "left").read_text())
    for _ in range(1000):
        # The process that adopted it may not have taken note of its end yet.
        state = Path(f"/proc/{left}/stat")
        if not state.is_file() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
        os.sched_yield()
    else:
        raise AssertionError(f"process {left} still runs")
    assert ended(["sh", "-c", "echo right; exit 2"]).returncode == 2


def a_judgement_has_a_limit(folder):
    program = folder / "flopsmith"
    program.write_text("#!/bin/sh\nexec sleep 30\n")
    program.chmod(0o755)
    options = arguments(["--flopsmith", str(program)])
    made = {"gcc": {"state": "source", "file": str(folder / "gcc.c")}}
    (folder / "gcc.c").write_text("int x;\n")
    with mock.patch("tuners.JUDGING", 0.2):
        pairs = judge(case(n=64), made, options)
    assert pairs["gcc"]["state"] == "failed" and "did not end within 0.2 s" in pairs["gcc"]["reason"], pairs


def a_tuner_does_not_find_an_earlier_run(folder):
    (folder / "runs/old").mkdir(parents=True)
    assert fresh(folder / "runs") == folder / "runs" and not list((folder / "runs").iterdir())
    assert fresh(folder / "new/tvm").is_dir()
    # A search that finds nothing has no result, although an earlier one had.
    program = folder / "flopsmith"
    program.write_text(f"#!/bin/sh\nls {folder}/flopsmith.c {folder}/runs/* > {folder}/seen 2>&1\ntrue\n")
    program.chmod(0o755)
    (folder / "flopsmith.c").write_text("int old;\n")
    (folder / "runs/old").mkdir()
    refused(Missing, "the search found no right program", search.flopsmith, case(), folder, arguments(["--flopsmith", str(program)]))
    seen = (folder / "seen").read_text()
    assert seen.count("No such file") == 2, seen


def small_spaces_are_tried_in_full(_):
    kernel = parameters.space((parameters.KERNELS / "dgemv.c").read_text())
    assert parameters.configurations(kernel) == 3 * 4 * 3 - 3
    assert parameters.configurations({"parameters": {"A": [1, 2, 3], "B": [1, 2]}, "restrictions": ["A > B", "A + B < 5"]}) == 2
    assert parameters.strategy(33, 180) == ("random_sample", {"fraction": 1.0})
    assert parameters.strategy(576, 180) == ("genetic_algorithm", {"maxiter": 10_000, "popsize": 20})
    # Kernel Tuner takes a population only up to half of the space, and two otherwise.
    assert parameters.strategy(27, 6)[1]["popsize"] == 13


@contextlib.contextmanager
def stand_ins(module, known):
    """A script of another interpreter, with objects that stand for the modules of its packages."""
    name = f"peers.{module}"
    with mock.patch.dict(sys.modules, known):
        sys.modules.pop(name, None)
        yield importlib.import_module(name)


def a_configuration_that_fails_has_no_time(folder):
    """Kernel Tuner 1.5 gives a failed configuration an error, and no time at all."""
    given = {}

    def tune_kernel(name, source, size, arguments, parameters, **more):
        given.update(more)
        print("TI=4, time=0.5ms")
        return [{"TI": 4, "time": 0.5, "times": [0.5]}, {"TI": 8, "__error__": object()}], {}
    task = {"name": "timed_transpose", "source": "", "arguments": [["int", 3]], "parameters": {"TI": [4, 8]}, "restrictions": [], "flags": ["-O3"],
            "strategy": "random_sample", "options": {"fraction": 1.0}, "seconds": 30}
    (folder / "task.json").write_text(json.dumps(task))
    known, said = {"numpy": mock.MagicMock(), "kernel_tuner": types.SimpleNamespace(tune_kernel=tune_kernel)}, io.StringIO()
    with stand_ins("run_kernel_tuner", known) as script:
        with mock.patch.object(sys, "argv", ["run_kernel_tuner.py", str(folder / "task.json")]), contextlib.redirect_stdout(said), \
                contextlib.redirect_stderr(io.StringIO()):
            script.main()
    assert parameters.best_of(said.getvalue()) == ({"TI": 4}, 2), said.getvalue()
    assert given["strategy"] == "random_sample" and given["strategy_options"] == {"fraction": 1.0, "time_limit": 30}, given


def parts_of(tvm):
    tvm.ir.utils.derived_object = lambda one: one
    return {"numpy": mock.MagicMock(), "tvm": tvm, "tvm.ir": tvm.ir, "tvm.ir.utils": tvm.ir.utils, "tvm.s_tir": tvm.s_tir,
            "tvm.s_tir.tensor_intrin": tvm.s_tir.tensor_intrin, "tvm.target": tvm.target}


def one_search_of_metaschedule_has_all_the_time(folder):
    """Its cost model learns from a hundred trials on, so that a search that begins again each round never has one."""
    tvm, ms, clock, rounds = mock.MagicMock(), mock.MagicMock(), [0.0], []

    def tune_tir(database, measure_callbacks, max_trials_global, num_trials_per_iter, **_):
        while clock[0] < 1000:
            clock[0] += 25
            rounds.append(database)
            for callback in measure_callbacks:
                callback.apply(None, 0, [], [], [None] * num_trials_per_iter)

    ms.measure_callback.PyMeasureCallback, ms.MeasureCallback.create.return_value, ms.tune_tir = object, [mock.MagicMock()], tune_tir
    tvm.s_tir.meta_schedule = ms
    with stand_ins("run_metaschedule", parts_of(tvm)) as script, mock.patch.object(script.time, "monotonic", lambda: clock[0]):
        database, trials = script.tuned(None, None, folder, 60, 2)
        assert trials == 3 * script.ROUND and rounds == [database] * 3 and ms.database.MemoryDatabase.call_count == 1, (trials, rounds)
        assert ms.builder.LocalBuilder.call_args.kwargs == {"max_workers": 2}
        # A fault of the search is no end of its time.
        ms.tune_tir = mock.Mock(side_effect=ValueError("no space"))
        refused(ValueError, "no space", script.tuned, None, None, folder, 60, 2)
        # It gets the fastest of many calls.
        asked = []

        def evaluator(calls):
            asked.append(calls)
            return lambda *given: types.SimpleNamespace(results=[0.002 + at * 0.001 for at in range(calls)])
        assert script.fastest(evaluator, [1]) == 0.002 and asked == [3, 250], asked


def metaschedule_builds_for_this_machine(_):
    """gcc 12 calls a Zen 4 core znver3, which has no AVX-512; and a virtual machine may hide what the name promises."""
    tvm = mock.MagicMock()
    tvm.target.codegen.llvm_get_system_cpu.return_value, tvm.target.codegen.llvm_get_cpu_features.return_value = "znver4", ["avx2", "avx512f", "pku"]
    tvm.get_global_func.return_value.return_value = {"avx2": True, "avx512f": True, "pku": False, "amx-tile": False, "gfni": True}
    tvm.target.Target = lambda what: what
    with stand_ins("run_metaschedule", parts_of(tvm)) as script:
        target = script.this_machine()
    assert target == {"kind": "llvm", "mcpu": "znver4", "num-cores": 1, "mattr": ["+gfni", "-pku"]}, target


def packages_are_pinned(_):
    packages = [*metaschedule.PACKAGES, *parameters.PACKAGES, libraries.OPENBLAS, libraries.MKL]
    assert all(package.count("==") == 1 for package in packages), packages
    # TVM 0.27 was built for this version of its runtime, and crashes with the next.
    assert {"apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post0"} <= set(metaschedule.PACKAGES)


def the_fastest_configuration_is_taken(_):
    said = [{"TI": 4, "TJ": 8, "time": 0.5}, {"TI": 32, "TJ": 8, "time": 0.25}, {"TI": 64, "TJ": 8, "time": None}]
    configuration, tried = parameters.best_of("tuned\n" + json.dumps({"parameters": ["TI", "TJ"], "results": said}))
    assert configuration == {"TI": 32, "TJ": 8} and tried == 3, (configuration, tried)
    none = json.dumps({"parameters": ["TI"], "results": [{"TI": 4, "time": None}]})
    refused(Missing, "no configuration that runs", parameters.best_of, none)


def kernels_with_parameters_are_right(folder):
    """Each kernel with its first and its last permitted configuration, as C and as C++, beside the reference."""
    kernels = sorted(parameters.KERNELS.glob("*.c"))
    sizes = {"dgemm": {"n": 128}, "dgemv": {"m": 37, "n": 45}, "transpose": {"m": 37, "n": 21}, "conv2d": {"h": 21, "w": 37, "k": 3}}
    assert {kernel.stem for kernel in kernels} == set(sizes)
    for kernel in kernels:
        text = kernel.read_text()
        space = parameters.space(text)
        first, last = ({name: values[at] for name, values in space["parameters"].items()} for at in (0, -1))
        permitted = [c for c in (first, {**first, **dict(list(last.items())[:1])}, last) if all(eval(r, {}, dict(c)) for r in space["restrictions"])]
        assert len(permitted) >= 2, kernel
        if not shutil.which("gcc"):
            print("skipped: there is no gcc")
            return
        one = case(kernel.stem, **sizes[kernel.stem])
        for configuration in permitted:
            program = parameters.configured(text, configuration)
            # The driver of the libraries compares a function with the reference.
            start, rest = libraries.driver(one, "").rsplit(one.entry["prototype"].rstrip(";"), 1)
            end = rest.split("}\n", 1)[1]
            source = folder / "kernel.c"
            source.write_text(f"{start}\n{program}\n{end}")
            subprocess.run(["gcc", "-O1", "-w", "-o", folder / "kernel", source, "-lm"], check=True)
            assert subprocess.run([folder / "kernel"], stdout=subprocess.DEVNULL).returncode == 0, (kernel.stem, configuration)
        timed = folder / "timed.cc"
        timed.write_text("extern \"C\" {\n" + parameters.timed_kernel(program, one.entry) + "}\n")
        subprocess.run(["g++", "-O0", "-w", "-c", "-o", folder / "timed.o", timed], check=True) if shutil.which("g++") else None


def a_library_is_timed_only_if_it_is_right(folder):
    if not shutil.which("gcc"):
        print("skipped: there is no gcc")
        return
    plain = ("void cblas_dgemm(int o, int s, int t, int m, int n, int k, double alpha, const double *A, int a, const double *B, int b, double beta, double *C, int c)\n"
             "{\n    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {\n        double sum = 0;\n"
             "        for (int p = 0; p < k; p++) sum += A[i * a + p] * B[p * b + j];\n        C[i * c + j] = FACTOR * alpha * sum + (beta ? beta * C[i * c + j] : 0);\n    }\n}\n")
    (folder / "plain.c").write_text(plain)
    for name, factor, params in (("dgemm", 1, {"n": 48}), ("polybench/polybench_gemm", 1, {"ni": 5, "nj": 7, "nk": 9}), ("dgemm", 2, {"n": 48})):
        library = folder / "libplain.so"
        subprocess.run(["gcc", "-O1", f"-DFACTOR={factor}", "-shared", "-fPIC", "-o", library, folder / "plain.c"], check=True)
        one = case(name, **params)
        one.name = one.name.rsplit("/", 1)[-1]
        if factor == 1:
            made = libraries.timed(one, folder, library, ("",))
            assert made["state"] == "timed" and 0 < made["seconds"] < 1, made
        else:
            refused(Missing, "ended with 6", libraries.timed, one, folder, library, ("",))
    names = libraries.driver(case(), "CBLAS(dgemm)();", prefix="scipy_cblas_", suffix="64_", integer="int64_t")
    assert "#define PASTE(name) scipy_cblas_##name##64_" in names and "#define INT int64_t" in names
    for known in libraries.CALLS:
        assert any((ROOT / "problems" / place / known).is_dir() for place in (".", "polybench")), known


if __name__ == "__main__":
    sys.exit(run_all("tuners", (
        every_peer_has_a_name_and_a_colour, cases_come_from_the_list_of_problems, programs_of_one_command_are_compared_with_one_reference,
        programs_of_another_compiler_are_compared_by_seconds, tables_name_who_is_ahead_and_what_is_missing,
        polybench_has_a_mean_of_its_own_and_the_share_at_least_as_fast_is_said, the_plot_has_a_dot_for_each_ratio,
        finished_pairs_are_kept, a_resumed_case_is_not_judged_again, programs_are_grouped_by_compiler, the_newest_clang_is_taken, a_search_gets_the_minutes,
        failures_are_reasons, a_limit_ends_all_processes_of_a_command, a_judgement_has_a_limit, a_tuner_does_not_find_an_earlier_run,
        small_spaces_are_tried_in_full, a_configuration_that_fails_has_no_time, one_search_of_metaschedule_has_all_the_time,
        metaschedule_builds_for_this_machine, packages_are_pinned, the_fastest_configuration_is_taken, kernels_with_parameters_are_right, a_library_is_timed_only_if_it_is_right)))
