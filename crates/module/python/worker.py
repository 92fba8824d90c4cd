"""The process in the jail that builds and calls candidates. It holds no clock, no seed and no expected result.

It imports torch once and then forks for each candidate, so that a candidate costs no import and shares nothing with the next one. Commands
come as lines on descriptor 3, replies go as lines to descriptor 4, tensors lie in the memory of descriptor 5. The supervisor believes no
reply: a call counts only by the results that the supervisor finds in the memory.
"""

import ast
import ctypes
import inspect
import json
import mmap
import os
import sys
import types

COMMANDS, REPLIES, ARENA = 3, 4, 5
# The name of the module that the candidate's file becomes.
CANDIDATE = "candidate"
settings = json.loads(sys.argv[1])
sys.path[:0] = settings["paths"]

import torch  # noqa: E402
import torch.nn.functional  # noqa: E402

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from source_check import Check  # noqa: E402
from source_rules import METHODS, SCALAR_ATTRIBUTES  # noqa: E402

PLAIN = (bool, int, float, complex, str, bytes, range, type, torch.dtype, torch.device, torch.layout, torch.memory_format)
torch.set_num_threads(settings["threads"])
memory = mmap.mmap(ARENA, os.fstat(ARENA).st_size)


def read_line():
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(COMMANDS, 65536)
        if not part:
            os._exit(0)
        line += part
    return line


def reply(**answer):
    os.write(REPLIES, json.dumps(answer).encode() + b"\n")


def tensor(place):
    """The tensor at a place of the shared memory."""
    shape, dtype = place["shape"], getattr(torch, place["dtype"])
    count = 1
    for extent in shape:
        count *= extent
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=place["offset"]).view(shape)


def laid(place, form):
    """An input as `forward` gets it: a value, a dense tensor, or one that lies in memory in another form."""
    if "offset" not in place:
        return place["value"]
    view = place.get("views", {}).get(form)
    if view is None:
        return tensor(place)
    flat = tensor({**place, "offset": view["offset"], "shape": [view["length"]]})
    return flat.as_strided(place["shape"], view["strides"], flat.storage_offset() + view["begin"])


def restrict(path, every_thread):
    """Loads the stricter filter of system calls, under which this process can start no other; with `every_thread`, also for threads that it has."""
    with open(path, "rb") as file:
        program = file.read()
    kept = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    filled = Program(len(program) // 8, ctypes.cast(kept, ctypes.c_void_p))
    number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p]
    # SECCOMP_SET_MODE_FILTER, and SECCOMP_FILTER_FLAG_TSYNC.
    if call(number, 1, int(every_thread), ctypes.byref(filled)) != 0:
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


def knocked_out(function):
    """A function that leaves its arguments as they were and returns no numbers."""

    def call(*arguments, **named):
        tensors = [t for t in [*arguments, *named.values()] if isinstance(t, torch.Tensor)]
        before = [t.detach().clone() for t in tensors]
        result = function(*arguments, **named)
        for now, old in zip(tensors, before):
            now.detach().copy_(old)
        return without_numbers(result)

    return call


def without_numbers(result):
    if isinstance(result, torch.Tensor):
        empty = torch.empty_like(result)
        return empty.fill_(float("nan")) if empty.is_floating_point() else empty.zero_()
    if isinstance(result, (list, tuple)):
        return type(result)(without_numbers(each) for each in result)
    return result


def load(order):
    """Runs the candidate's file. `load_inline` gives the extensions that were compiled before."""
    import importlib.machinery
    import importlib.util

    if order["triton"]:
        worker_triton().prepare(order["knock_out"])
    ready = {}
    for extension in order["extensions"]:
        name, path = extension["name"], extension["path"]
        loader = importlib.machinery.ExtensionFileLoader(name, path)
        module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
        loader.exec_module(module)
        functions = {f: getattr(module, f) for f in extension["functions"]}
        if order.get("profile"):
            functions = {f: worker_profile().recorded(f"{name}.{f}", function) for f, function in functions.items()}
        if order["knock_out"]:
            functions = {f: knocked_out(function) for f, function in functions.items()}
        ready[name] = types.SimpleNamespace(**functions)

    def load_inline(name, *_, **__):
        return ready[name]

    stand_in = types.ModuleType("torch.utils.cpp_extension")
    stand_in.load_inline = load_inline
    sys.modules["torch.utils.cpp_extension"] = stand_in
    torch.utils.cpp_extension = stand_in
    with open(order["source"], encoding="utf-8") as file:
        text = file.read()
    module = types.ModuleType(CANDIDATE)
    sys.modules[CANDIDATE] = module
    # The same text was accepted before, so no rule refuses it here.
    found = Check(ast.parse(text), permits_torch=True, gradients=True)
    found.run()
    # Triton reads the text of kernels again, from the file of this name.
    exec(compile(text, order["source"], "exec"), module.__dict__)
    return module, found


def worker_triton():
    """The part for Triton's kernels. Its import takes time, so it is made before the first candidate that has any."""
    import worker_triton

    return worker_triton


def worker_profile():
    """The part that profiles a call."""
    import worker_profile

    return worker_profile


def prepare_gradients():
    """Imports what PyTorch imports in the first call for gradients. That takes a second, and would be done by each candidate."""
    try:
        import torch.fx.experimental.symbolic_shapes  # noqa: F401
    except ImportError:  # another version of PyTorch needs it no more
        pass


def check_names(model, found):
    """Refuses modules and containers that give a method of tensors another meaning, or hold tensors in what counts as numbers.

    The check of sources lets a call use these methods and attributes on everything. Attributes of PyTorch's modules may be
    anything, by names that the candidate chose. It also lets a call compute with numbers, and cannot follow a list that
    `__init__` reaches by two names.
    """
    numbers = {name: [n for n, kind in one.attributes.items() if kind == "scalar"] for name, one in found.classes.items()}
    names = METHODS | SCALAR_ATTRIBUTES
    waiting, seen = [model], []
    known = set()
    while waiting:
        part = waiting.pop()
        if id(part) in known:
            continue
        known.add(id(part))
        # These objects must live as long as their numbers are known.
        seen.append(part)
        if isinstance(part, torch.nn.Module):
            held = {**vars(part), **part._parameters, **part._buffers, **part._modules}
            for name in names & set(held):
                if not plain(held[name]):
                    raise Mismatch(f"a {type(part).__name__} of ModelNew has something of its own by the name `{name}`")
            if type(part).__module__ == CANDIDATE:
                for name in numbers[type(part).__name__]:
                    if not plain(held.get(name)):
                        raise Mismatch(f"`{name}` of {type(part).__name__} is no number, no text and no list of these; do not put tensors into lists of numbers")
            waiting.extend(held.values())
        elif isinstance(part, (torch.Tensor, str, range)):
            continue
        elif isinstance(part, dict):
            waiting.extend([*part.keys(), *part.values()])
        elif hasattr(type(part), "__next__"):
            raise Mismatch(f"ModelNew keeps a {type(part).__name__}; keep a list")
        elif hasattr(type(part), "__iter__"):
            waiting.extend(part)


def check_constants(module, found):
    """Refuses a file whose constants `__init__` has filled with tensors."""
    for name in found.constants:
        if not plain(vars(module).get(name)):
            raise Mismatch(f"the constant `{name}` of the file is no number and no text any more")
    for one in found.classes:
        for name, value in vars(vars(module)[one]).items():
            if found.classes[one].attributes.get(name) == "scalar" and not plain(value):
                raise Mismatch(f"the constant `{name}` of {one} is no number and no text any more")


def plain(value):
    """True for numbers, text, types and devices, and lists of these."""
    if isinstance(value, (list, tuple, set, type({}.keys()), type({}.values()), type({}.items()))):
        return all(plain(each) for each in value)
    if isinstance(value, dict):
        return plain(value.items())
    if type(value).__name__ == "constexpr" and type(value).__module__.startswith("triton."):
        return plain(value.value)
    return value is None or value is ... or isinstance(value, PLAIN)


class Candidate:
    def __init__(self):
        self.module = self.found = self.model = self.inputs = self.outputs = self.order = None
        self.parameters, self.state = [], {}
        self.triton = None

    def load(self, order):
        self.module, self.found = load(order)
        self.triton = worker_triton() if order["triton"] else None
        if self.triton and order.get("profile"):
            self.triton.state["around"] = worker_profile().record_function

    def build(self, order):
        """Makes a `ModelNew`, which must have the parameters and buffers of the reference, by name and shape. A workload with a data type converts them, as `Model`."""
        arguments = order["init"]
        with torch.no_grad():
            kind = self.module.ModelNew
            self.model = kind(**arguments) if isinstance(arguments, dict) else kind(*arguments)
            if order["dtype"]:
                torch.nn.Module.to(self.model, getattr(torch, order["dtype"]))
        self.model.eval()
        check_names(self.model, self.found)
        check_constants(self.module, self.found)
        found = self.state = {k: v for k, v in self.model.state_dict(keep_vars=True).items()}
        wanted = {p["name"]: p for p in order["parameters"]}
        if set(found) != set(wanted):
            only = sorted(set(found) ^ set(wanted))
            raise Mismatch(f"ModelNew has other parameters than Model: {', '.join(only[:8])}")
        self.parameters = []
        for name, place in wanted.items():
            value = found[name].detach()
            if list(value.shape) != place["shape"] or value.dtype != getattr(torch, place["dtype"]):
                raise Mismatch(f"the parameter `{name}` is {value.dtype} {list(value.shape)}, not {place['dtype']} {place['shape']}")
            self.parameters.append((value, place))
        self.set_parameters()

    def set_parameters(self):
        with torch.no_grad():
            for value, place in self.parameters:
                value.copy_(tensor(place))

    def workload(self, order):
        self.order = order
        self.inputs = self.given()
        self.outputs = [tensor(o) for o in order["outputs"]]
        self.single = order["single"]
        # The check lets a method compute with what its annotation calls a number.
        for parameter, value in zip(inspect.signature(self.model.forward).parameters.values(), self.inputs):
            if isinstance(value, torch.Tensor) and parameter.annotation in (int, float, bool, str, "int", "float", "bool", "str"):
                raise Mismatch(f"`forward` says that `{parameter.name}` is a number or text, but it gets a tensor")

    def given(self):
        """The inputs. In the aliased form one tensor stands for all of its shape and type."""
        form = self.order["form"]
        inputs = [laid(place, form) for place in self.order["inputs"]]
        if form == "aliased":
            return [inputs[place["alias"]] if "alias" in place else value for place, value in zip(self.order["inputs"], inputs)]
        return inputs

    def call(self):
        for to, result in zip(self.outputs, self.results(self.inputs)):
            to.copy_(result)
        if self.triton:
            self.triton.state["turn"] += 1

    def again(self, call):
        """Repeats a call. Kernels of Triton keep their configurations, and their programs run in the opposite order."""
        if self.triton:
            self.triton.state.update(again=True, turn=self.triton.state["turn"] - 1)
        call()
        if self.triton:
            self.triton.state["again"] = False

    def gradients(self):
        """A call with gradients. Tensors of the inference mode take none, so all are made anew."""
        order = self.order
        inputs, wanted = self.given(), []
        for gradient in order["gradients"]:
            if "input" in gradient:
                wanted.append(inputs[gradient["input"]].requires_grad_())
            else:
                wanted.append(self.state[gradient["parameter"]])
                if not wanted[-1].requires_grad:
                    raise Mismatch(f"`{gradient['parameter']}` of ModelNew takes no gradient; make it an nn.Parameter")
        results = self.results(inputs)
        for place, result in zip(order["outputs"], results):
            tensor(place).copy_(result.detach())
        ways = [(r, laid(u, order["form"])) for r, u in zip(results, order["upstream"]) if u is not None and r.requires_grad]
        if not ways:
            raise Mismatch("no gradient leads from the results to inputs or parameters; call a torch.autograd.Function with a `backward`")
        found = torch.autograd.grad([r for r, _ in ways], wanted, [u for _, u in ways], allow_unused=True)
        for place, gradient in zip(order["gradients"], found):
            # Without a way the gradient is zero.
            to = tensor(place)
            to.zero_() if gradient is None else to.copy_(gradient.detach())
        if self.triton:
            self.triton.state["turn"] += 1

    def profile(self):
        """The operators of a call on the present inputs. Its results go nowhere."""
        return worker_profile().operators(lambda: self.results(self.inputs))

    def results(self, inputs):
        results = self.model(*inputs)
        if self.single:
            results = (results,)
        elif not isinstance(results, (tuple, list)):
            raise Mismatch(f"the result is a {type(results).__name__}, not a tuple")
        results = [*results]
        if len(results) != len(self.outputs):
            raise Mismatch(f"{len(results)} results instead of {len(self.outputs)}")
        for to, result in zip(self.outputs, results):
            if type(result) is not torch.Tensor:
                raise Mismatch(f"the result is a {type(result).__name__}, not a tensor")
            if result.shape != to.shape or result.dtype != to.dtype:
                raise Mismatch(f"the result is {result.dtype} {list(result.shape)}, not {to.dtype} {list(to.shape)}")
        return results


class Mismatch(Exception):
    """The candidate has another interface than the problem."""


def serve_candidate(profile):
    """The forked process: one candidate, until `end`. With `profile`, its calls can be profiled."""
    if profile:
        worker_profile().prepare()
    if settings["filter"]:
        restrict(settings["filter"], every_thread=profile)
    candidate = Candidate()
    reply(forked=True)
    guard = torch.inference_mode()
    guard.__enter__()
    while True:
        line = read_line()
        try:
            if line == b"c\n":
                candidate.call()
                os.write(REPLIES, b"d\n")
                continue
            if line == b"e\n":
                os.write(REPLIES, b"d\n")
                continue
            order = json.loads(line)
            if order["do"] == "end":
                os._exit(0)
            if order["do"] == "load":
                # Parameters are made outside of the inference mode, so that they can be copied into later.
                with torch.inference_mode(False):
                    candidate.load(order)
            elif order["do"] == "build":
                with torch.inference_mode(False):
                    candidate.build(order)
            elif order["do"] == "parameters":
                with torch.inference_mode(False):
                    candidate.set_parameters()
            elif order["do"] == "workload":
                candidate.workload(order)
            elif order["do"] == "gradients":
                with torch.inference_mode(False), torch.enable_grad():
                    candidate.again(candidate.gradients) if order.get("again") else candidate.gradients()
            elif order["do"] == "call":
                candidate.again(candidate.call)
            elif order["do"] == "launches":
                reply(done="launches", **worker_triton().launches())
                continue
            elif order["do"] == "profile":
                reply(done="profile", **candidate.profile())
                continue
            reply(done=order["do"])
        except Mismatch as error:
            reply(error=str(error)[:2000], fault="wrong_signature")
        except BaseException as error:  # the candidate may raise anything
            reply(error=f"{type(error).__name__}: {error}"[:2000], fault="crash")


def main():
    reply(ready=torch.__version__, capability=torch.backends.cpu.get_cpu_capability())
    while True:
        order = json.loads(read_line())
        if order["do"] != "fork":
            reply(error=f"unknown order {order['do']}", fault="harness")
            continue
        if order.get("triton"):
            worker_triton()
        if order.get("gradients"):
            prepare_gradients()
        child = os.fork()
        if child == 0:
            serve_candidate(profile=bool(order.get("profile")))
        _, status = os.waitpid(child, 0)
        reply(ended=os.waitstatus_to_exitcode(status))


main()
