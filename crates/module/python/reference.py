"""The trusted process of a problem: makes inputs and parameters, computes expected results, and is timed as a baseline.

The candidate never shares a process with it. Commands come as lines on standard input, replies go as lines to standard output (what the
problem's file prints goes to standard error), tensors lie in the memory of the file named in the settings.
"""

import ast
import contextlib
import importlib.util
import inspect
import json
import math
import mmap
import os
import sys
import types

settings = json.loads(sys.argv[1])
replies = os.dup(1)
os.dup2(2, 1)
sys.path[:0] = settings["paths"]
if settings["cores"]:
    os.sched_setaffinity(0, settings["cores"])

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import flop_registry  # noqa: E402

torch.set_num_threads(settings["threads"])
ALIGN = 64
# The forms of inputs that `strides` permits, and the elements between rows of the sliced one.
FORMS, PADDING = ["transposed", "sliced", "stepped"], 3


def reply(**answer):
    text = json.dumps(answer).encode() + b"\n"
    while text:
        text = text[os.write(replies, text) :]


class Invalid(Exception):
    """The problem's files do not keep the contract."""


def load(path, constants):
    """Runs the problem's file with other values for constants that it assigns at its top."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    left = dict(constants)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in left:
                statement.value = ast.copy_location(ast.Constant(left.pop(name)), statement.value)
    if left:
        raise Invalid(f"reference.py assigns no constant `{next(iter(left))}` at its top")
    module = types.ModuleType("reference")
    sys.modules["reference"] = module
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), module.__dict__)
    for name in ("Model", "get_inputs", "get_init_inputs"):
        if not hasattr(module, name):
            raise Invalid(f"reference.py defines no `{name}`")
    return module


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


class Places:
    """Hands out offsets in the shared memory."""

    def __init__(self, begin=0):
        self.next = begin

    def take(self, value):
        place = {"offset": self.next, "shape": list(value.shape), "dtype": name_of(value.dtype)}
        self.skip(value.numel() * value.element_size())
        return place

    def skip(self, size):
        self.next += (size + ALIGN - 1) // ALIGN * ALIGN

    def views(self, place):
        """Gives a tensor room in which it can lie in each of the other forms."""
        found = {form: {"offset": self.next, **view} for form, view in views(place["shape"]).items()}
        self.skip(max(view["length"] for view in found.values()) * getattr(torch, place["dtype"]).itemsize)
        return found


def steps(extents):
    """The strides of a dense tensor, and its number of elements."""
    found, step = [], 1
    for extent in reversed(extents):
        found.append(step)
        step *= extent
    return found[::-1], step


def views(shape):
    """How a tensor can lie in memory otherwise: by form its strides, where it begins, and the length of the memory, all in elements.

    `transposed` has its last two axes in the other order, `sliced` is a part of longer rows, and `stepped` every other element of rows.
    """
    found = {}
    strides, length = steps([*shape[:-1], shape[-1] + PADDING])
    found["sliced"] = {"strides": strides, "begin": 1, "length": length}
    strides, length = steps([*shape[:-1], 2 * shape[-1]])
    found["stepped"] = {"strides": [*strides[:-1], 2], "begin": 1, "length": length}
    if len(shape) == 1:
        return {**found, "transposed": found["stepped"]}
    strides, length = steps([*shape[:-2], shape[-1], shape[-2]])
    return {**found, "transposed": {"strides": [*strides[:-2], strides[-1], strides[-2]], "begin": 0, "length": length}}


def targets(asked, inputs, model):
    """The inputs and parameters whose gradients a problem asks for; `true` asks for all that can have one."""
    if not asked:
        return []
    taken = [p for p in inspect.signature(model.forward).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in taken][: len(inputs)]
    names += [f"input {position}" for position in range(len(names), len(inputs))]
    parameters = dict(model.named_parameters())

    def continuous(value):
        return isinstance(value, torch.Tensor) and value.is_floating_point()

    if asked is True:
        found = [{"name": name, "input": position} for position, name in enumerate(names) if continuous(inputs[position])]
        found += [{"name": name, "parameter": name} for name, value in parameters.items() if value.requires_grad and continuous(value)]
        if not found:
            raise Invalid("`gradients = true`, but Model has neither floating-point inputs nor parameters that take gradients")
        return found
    found = []
    for name in asked:
        if name in names:
            value = inputs[names.index(name)]
            if not continuous(value):
                kind = name_of(value.dtype) if isinstance(value, torch.Tensor) else type(value).__name__
                raise Invalid(f"`gradients` names `{name}`, which is {kind}: only floating-point tensors have gradients")
            found.append({"name": name, "input": names.index(name)})
        elif name in parameters:
            if not parameters[name].requires_grad:
                raise Invalid(f"`gradients` names `{name}`, a parameter that takes no gradient")
            found.append({"name": name, "parameter": name})
        else:
            raise Invalid(f"`gradients` names `{name}`; Model has {', '.join([*names, *parameters]) or 'no inputs and no parameters'}")
    return found


def same_kind(one, other):
    return "offset" in one and "offset" in other and one["shape"] == other["shape"] and one["dtype"] == other["dtype"]


def describe(inputs, model, outputs, wanted, strides, aliasing):
    """Where inputs, parameters, outputs and expected values lie; the offsets begin at 0 with the inputs.

    `wanted` are the gradients that the problem asks for. Each floating-point result then has an upstream gradient, which is made with the inputs.
    With `strides` and `aliasing`, inputs have further forms.
    """
    places = Places()
    laid = []
    for value in inputs:
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.device.type != "cpu":
                raise Invalid("get_inputs must give dense tensors on the CPU")
            laid.append(places.take(value))
        elif value is None or isinstance(value, (bool, int, float, str)):
            laid.append({"value": value})
        else:
            raise Invalid(f"get_inputs gives a {type(value).__name__}; tensors, numbers, text and None are permitted")
    parameters_at = places.next
    parameters = [{"name": n, **places.take(v)} for n, v in model.state_dict().items()]
    upstream_at = places.next
    upstream = [places.take(o) if wanted and o.is_floating_point() else None for o in outputs]
    forms = []
    if strides:
        viewed = [place for place in [*laid, *upstream] if place and place.get("shape") and math.prod(place["shape"])]
        for place in viewed:
            place["views"] = places.views(place)
        if not any(place is each for place in laid for each in viewed):
            raise Invalid("`strides = true`, but no input is a tensor with axes and elements")
        forms += FORMS
    if aliasing:
        for position, place in enumerate(laid):
            alike = [first for first in range(position) if same_kind(laid[first], place)]
            if alike:
                place["alias"] = alike[0]
        if not any("alias" in place for place in laid):
            raise Invalid("`aliasing = true`, but no two inputs have the same shape and data type in every workload")
        forms.append("aliased")
    outputs_at = places.next
    laid_outputs = [places.take(o) for o in outputs]
    of_parameters = dict(model.named_parameters())
    values = [inputs[one["input"]] if "input" in one else of_parameters[one["parameter"]] for one in wanted]
    gradients = [{**one, **places.take(value)} for one, value in zip(wanted, values)]
    expected_at = places.next
    expected = [places.take(o.double()) for o in outputs]
    expected_gradients = [places.take(value.double()) for value in values]
    return {
        "inputs": laid,
        "parameters": parameters,
        "upstream": upstream,
        "outputs": laid_outputs,
        "gradients": gradients,
        "expected": expected,
        "expected_gradients": expected_gradients,
        "forms": forms,
        "parameters_at": parameters_at,
        "upstream_at": upstream_at,
        "outputs_at": outputs_at,
        "expected_at": expected_at,
        "bytes": places.next,
    }


def flat(results):
    single = isinstance(results, torch.Tensor)
    results = [results] if single else results
    if not isinstance(results, (tuple, list)) or not all(type(r) is torch.Tensor for r in results):
        raise Invalid("Model.forward must return a tensor, or a tuple or list of tensors")
    return list(results), single


def spread(value, kind, make):
    """The same tensor with another distribution: breaks programs that rely on values of one kind. `make` is a generator."""
    if not value.is_floating_point() or kind == "plain":
        return value
    if kind == "large":
        return value * 24
    if kind == "tiny":
        return value * 2.0**-12
    if kind == "shifted":
        return value + 5
    if kind == "sparse":
        return value * (torch.rand(value.shape, generator=make) < 0.3)
    if kind == "signed":
        return value * (1 - 2 * torch.randint(0, 2, value.shape, generator=make)).to(value.dtype)
    if kind == "extremes":
        # Even the third powers of the largest ones are finite, and sums of many of them.
        scale = torch.finfo(value.dtype).max ** 0.25
        drawn = torch.rand(value.shape, generator=make)
        return torch.where(drawn < 1 / 64, value * scale, torch.where(drawn > 63 / 64, value / scale, value))
    if kind == "constant":
        return value[..., :1].expand_as(value) if value.dim() else value
    if kind == "rows":
        rows = torch.exp2(torch.randint(-8, 5, value.shape[:-1] + (1,), generator=make).to(value.dtype)) if value.dim() > 1 else 1
        return value * rows
    raise Invalid(f"unknown distribution `{kind}`")


@contextlib.contextmanager
def in_double():
    """Numbers that the module makes are float64 within."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(default)


class Problem:
    def __init__(self):
        self.memory = self.module = self.model = self.exact = self.run = self.layout = self.dtype = None
        self.wanted = []

    def tensor(self, place):
        shape, dtype = place["shape"], getattr(torch, place["dtype"])
        count = math.prod(shape)
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self.memory, dtype=dtype, count=count, offset=place["offset"]).view(shape)

    def load(self, order):
        """Loads one workload, and describes its tensors and how much memory they need."""
        self.module = load(order["reference"], order["constants"])
        self.init = self.module.get_init_inputs()
        if isinstance(self.init, dict):
            make = lambda: self.module.Model(**self.init)  # noqa: E731
        else:
            make = lambda: self.module.Model(*self.init)  # noqa: E731
        try:
            init = json.loads(json.dumps(self.init))
        except TypeError:
            raise Invalid("get_init_inputs must give numbers, text, lists and dictionaries only") from None
        torch.manual_seed(order["seed"])
        self.dtype = order.get("dtype") and getattr(torch, order["dtype"])
        self.model = make().eval()
        self.model = self.model.to(self.dtype) if self.dtype else self.model
        self.exact = make().eval().double()
        # Values of constants that `Model` reads while it runs are float64 too, so defaults do not round.
        inputs = self.typed(self.module.get_inputs())
        try:
            with torch.inference_mode():
                outputs, self.single = flat(self.model(*inputs))
                again, _ = flat(self.model(*inputs))
        except RuntimeError as error:
            if not self.dtype:
                raise
            raise Invalid(f"Model cannot compute in {order['dtype']} on the CPU: {error}"[:4000]) from None
        if not all(torch.equal(a, b) or a.isnan().any() for a, b in zip(outputs, again)):
            raise Invalid("Model gives different results for the same inputs: it is random")
        self.wanted = targets(order.get("gradients", False), inputs, self.model)
        ones = [torch.ones(o.shape, dtype=o.dtype) if o.is_floating_point() else None for o in outputs]
        for one, gradient in zip(self.wanted, self.differentiate(self.model, inputs, ones)):
            if gradient is None:
                raise Invalid(f"no gradient reaches `{one['name']}` through Model; leave it out of `gradients`")
        self.layout = describe(inputs, self.model, outputs, self.wanted, order.get("strides", False), order.get("aliasing", False))
        self.run = self.model
        return {"layout": self.layout, "single": self.single, "init": init}

    def typed(self, inputs):
        """The inputs in the data type of the workload: floating-point tensors are rounded to it, all else stays."""
        if not self.dtype:
            return inputs
        return [i.to(self.dtype) if isinstance(i, torch.Tensor) and i.is_floating_point() else i for i in inputs]

    def map(self, order):
        """Maps the shared memory, which the supervisor has made as large as `load` asked for."""
        arena = os.open(settings["arena"], os.O_RDWR)
        self.memory = mmap.mmap(arena, os.fstat(arena).st_size)
        os.close(arena)
        layout = self.layout
        self.inputs = [self.tensor(i) if "offset" in i else i["value"] for i in layout["inputs"]]
        self.upstream = [self.tensor(o) if o else None for o in layout["upstream"]]
        self.outputs = [self.tensor(o) for o in layout["outputs"]]
        self.expected = [self.tensor(o) for o in layout["expected"]]
        self.expected_gradients = [self.tensor(g) for g in layout["expected_gradients"]]
        self.parameters = [(p["name"], self.tensor(p)) for p in layout["parameters"]]
        return {}

    def make_inputs(self, order):
        torch.manual_seed(order["seed"])
        made = self.typed(self.module.get_inputs())
        # With the same seed, it would draw the inputs again: the smallest ones would be those that stay in sparse ones.
        make = torch.Generator().manual_seed(order["seed"] ^ 0x5DEECE66D)
        for to, value in zip(self.inputs, made):
            if isinstance(to, torch.Tensor):
                if value.shape != to.shape or value.dtype != to.dtype:
                    raise Invalid("get_inputs gives tensors of other shapes in another call")
                to.copy_(spread(value, order["distribution"], make))
        for to in self.upstream:
            # Numbers after those of the inputs: another generator with the same seed would give the inputs again.
            if to is not None:
                to.copy_(torch.randn(to.shape))
        self.lay_inputs(order.get("form", "dense"))
        return {}

    def lay_inputs(self, form):
        """Puts inputs and upstream gradients into memory in another form, too. The dense ones stay, for this process."""
        for place, to in zip(self.layout["inputs"], self.inputs):
            if form == "aliased" and "alias" in place:
                to.copy_(self.inputs[place["alias"]])
        for place in [*self.layout["inputs"], *self.layout["upstream"]]:
            view = (place or {}).get("views", {}).get(form)
            if view is None:
                continue
            dense, flat = self.tensor(place), self.tensor({**place, "offset": view["offset"], "shape": [view["length"]]})
            # Whole numbers between the elements are ones of the tensor, so that a candidate that takes them for indices stays within bounds.
            flat.fill_(math.nan if dense.is_floating_point() else dense.flatten()[0].item())
            flat.as_strided(place["shape"], view["strides"], flat.storage_offset() + view["begin"]).copy_(dense)

    def make_parameters(self, order):
        """Draws fresh parameters: those of a fresh Model, with noise, so that ones and zeros do not stay what they are."""
        torch.manual_seed(order["seed"])
        fresh = self.module.Model(**self.init) if isinstance(self.init, dict) else self.module.Model(*self.init)
        state = fresh.state_dict()
        for name, to in self.parameters:
            value = state[name]
            if value.is_floating_point() and order["noise"]:
                scale = value.std().item() if value.numel() > 1 else 0.0
                scale = scale if scale > 1e-6 else 0.25
                value = value + 0.5 * scale * torch.randn(value.shape).to(value.dtype)
                # Buffers such as a running variance stay positive.
                if "var" in name.rsplit(".", 1)[-1]:
                    value = value.abs() + 0.1
            to.copy_(value)
        return self.set_parameters(order)

    def set_parameters(self, order):
        state = {name: value for name, value in self.parameters}
        self.model.load_state_dict(state)
        self.exact.load_state_dict({n: v.double() if v.is_floating_point() else v for n, v in state.items()})
        return {}

    def expect(self, order):
        """Computes the results in float64, and the largest error of the eager module beside it."""
        with in_double(), torch.inference_mode():
            exact, _ = flat(self.exact(*self.exact_inputs()))
        with torch.inference_mode():
            eager, _ = flat(self.model(*[i.clone() if isinstance(i, torch.Tensor) else i for i in self.inputs]))
        return self.figures(self.expected, exact, eager)

    def expect_gradients(self, order):
        """Computes the gradients in float64, and the largest error of those of the eager module beside it."""
        with in_double():
            exact = self.differentiate(self.exact, self.exact_inputs(), self.upstream)
        eager = self.differentiate(self.model, self.inputs, self.upstream)
        zeros = [torch.zeros_like(to) for to in self.expected_gradients]
        exact, eager = ([zero if g is None else g for g, zero in zip(found, zeros)] for found in (exact, eager))
        return self.figures(self.expected_gradients, exact, eager)

    def exact_inputs(self):
        return [i.double() if isinstance(i, torch.Tensor) and i.is_floating_point() else i for i in self.inputs]

    def differentiate(self, model, inputs, upstream):
        """The gradients that the problem asks for; None for one to which no way leads."""
        if not self.wanted:
            return []
        leaves = list(inputs)
        for one in self.wanted:
            if "input" in one:
                leaves[one["input"]] = leaves[one["input"]].detach().clone().requires_grad_()
        parameters = dict(model.named_parameters())
        of = [leaves[one["input"]] if "input" in one else parameters[one["parameter"]] for one in self.wanted]
        with torch.enable_grad():
            outputs, _ = flat(model(*leaves))
            ways = [(o, u.to(o.dtype)) for o, u in zip(outputs, upstream) if u is not None and o.requires_grad]
            if not ways:
                return [None] * len(of)
            found = torch.autograd.grad([o for o, _ in ways], of, [u for _, u in ways], allow_unused=True)
        return [g.to_dense() if g is not None and g.layout != torch.strided else g for g in found]

    @staticmethod
    def figures(places, exact, eager):
        """Writes exact values, and gives the largest error of the eager ones and the root mean square of each tensor."""
        errors, scales, overflows = [], [], False
        for to, value, rounded in zip(places, exact, eager):
            to.copy_(value)
            finite = value.isfinite() & rounded.isfinite()
            error = (rounded.double() - value.double())[finite].abs()
            overflows |= bool((value.isfinite() & ~rounded.isfinite()).any())
            errors.append(error.max().item() if error.numel() else 0.0)
            kept = value.double()[value.isfinite()]
            scales.append(kept.square().mean().sqrt().item() if kept.numel() else 0.0)
        return {"eager_error": errors, "scale": scales, "finite": all(bool(v.isfinite().all()) for v in exact), "overflows": overflows}

    def statistics(self, order):
        """Figures for the admission of a problem, of the present inputs and parameters."""
        with torch.inference_mode():
            outputs, _ = flat(self.model(*self.inputs))
        found = []
        for output in outputs:
            # JSON has no infinities, and elements that are not finite are a finding of their own.
            value = output.double().nan_to_num(0.0, 0.0, 0.0)
            axes = [value.std(dim=d, unbiased=False).mean().item() if n > 1 else None for d, n in enumerate(value.shape)]
            found.append({"largest": value.abs().max().item(), "deviation": value.std(unbiased=False).item(), "axes": axes, "elements": value.numel()})
        return {"outputs": found}

    def count(self, order):
        """The useful operations of a call on the present inputs.

        PyTorch's own counter knows those of products, convolutions and attention. Any other operator counts one for each element that it
        makes, and views count nothing.
        """
        total = 0

        class Counter(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                nonlocal total
                out = function(*args, **(kwargs or {}))
                packet = function._overloadpacket
                if packet in flop_registry:
                    total += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
                elif not getattr(function, "is_view", False):
                    made = out if isinstance(out, (tuple, list)) else [out]
                    total += sum(value.numel() for value in made if isinstance(value, torch.Tensor))
                return out

        # In inference mode operators that consist of others are not taken apart.
        with torch.no_grad(), Counter():
            self.model(*self.inputs)
        return {"operations": total}

    def compile(self, order):
        """Compiles the module by TorchInductor and calls it until it is compiled."""
        self.run = torch.compile(self.model, mode=order["mode"])
        with torch.inference_mode():
            self.run(*self.inputs)
            self.run(*self.inputs)
        return {}

    def call(self):
        with torch.inference_mode():
            results = self.run(*self.inputs)
            results = (results,) if self.single else results
            for to, value in zip(self.outputs, results):
                to.copy_(value)


def lacks(error):
    """The words about a package that the problem's file imports and that is missing; none if a part of one is."""
    package, _, part = (error.name or "").partition(".")
    if not package or part and importlib.util.find_spec(package):
        return None
    return f"it needs the package `{package}`, which the Python with PyTorch does not have; install it there (`python -m pip install {package}`), or write the module without it"


def main():
    problem = Problem()
    reply(ready=torch.__version__, capability=torch.backends.cpu.get_cpu_capability())
    pending = b""
    while True:
        while b"\n" not in pending:
            part = os.read(0, 65536)
            if not part:
                return
            pending += part
        line, _, pending = pending.partition(b"\n")
        try:
            if line == b"c":
                problem.call()
                os.write(replies, b"d\n")
                continue
            if line == b"e":
                os.write(replies, b"d\n")
                continue
            order = json.loads(line)
            reply(done=order["do"], **getattr(problem, order["do"])(order))
        except Invalid as error:
            reply(error=str(error), fault="problem")
        except ModuleNotFoundError as error:
            reply(error=lacks(error) or f"ModuleNotFoundError: {error}", fault="problem")
        except BaseException as error:  # anything that the problem's file raises
            reply(error=f"{type(error).__name__}: {error}"[:4000], fault="problem")


main()
