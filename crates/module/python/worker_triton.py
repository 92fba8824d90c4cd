"""Runs Triton's kernels by Triton's interpreter in the process of a candidate, and notes how they were launched.

The supervisor compiles the kernels as they were launched. It believes nothing else of what is noted: results in shared memory decide.
"""

import contextlib
import json
import os
import types

os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.runtime import interpreter  # noqa: E402
from triton.runtime.jit import mangle_type  # noqa: E402

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# More ways to launch kernels than this are not compiled.
MOST = 64
# The largest grid that a GPU takes.
GRID = (2**31 - 1, 65535, 65535)

# `around` makes a context for each launch from the name of its kernel.
noted, state = {}, {"knock_out": False, "turn": 0, "again": False, "around": lambda _: contextlib.nullcontext()}


class Kept:
    def restore(self):
        pass


# The interpreter changes Triton's language in each call of a function, which takes a hundred times as long as the call. Once is enough.
interpreter._patch_lang(types.SimpleNamespace(__globals__={"language": tl, "core": tl.core}))
interpreter._patch_lang = lambda _: Kept()
# NumPy 2.4 no longer makes a whole number of an array with one element by itself.
tl.tensor.__index__ = lambda self: int(self.handle.data.item())


def prepare(knock_out):
    """Puts stand-ins of ours in the place of Triton's decorators."""
    state["knock_out"] = knock_out
    triton.jit, triton.autotune, triton.heuristics = Kernel, autotune, heuristics
    builder = interpreter.interpreter_builder
    within = builder.set_grid_idx

    def set_grid_idx(*at):
        # A GPU runs programs in any order, so they run from the last to the first after each configuration had its turn.
        within(*((n - 1 - i for i, n in zip(at, builder.grid_dim)) if state["backwards"] else at))

    builder.set_grid_idx = set_grid_idx


def autotune(configs, key=None, **_):
    def decorate(kernel):
        kernel.configurations = [each.all_kwargs() for each in configs]
        return kernel

    return decorate


def heuristics(values):
    def decorate(kernel):
        kernel.values = {**values, **kernel.values}
        return kernel

    return decorate


def launches():
    """The launches so far, each kind once."""
    return {"launches": list(noted.values()), "complete": len(noted) < MOST}


class Kernel(interpreter.InterpretedFunction):
    """A kernel: the stand-in for `triton.jit`."""

    def __init__(self, function):
        super().__init__(function)
        self.configurations, self.values = [{}], {}
        self.defaults = dict(zip(self.arg_names[::-1], (function.__defaults__ or ())[::-1]))
        constant = lambda kind: "constexpr" in str(kind)  # noqa: E731
        self.constants = {name for name, kind in function.__annotations__.items() if constant(getattr(kind, "__name__", kind))}

    def run(self, *arguments, grid, warmup=False, **named):
        # The configurations take turns from call to call of the module, so that each is verified in every launch of the
        # kernel: which one is fastest is not known here.
        count = len(self.configurations)
        configuration = self.configurations[state["turn"] % count]
        by_position = set(self.arg_names[: len(arguments)])
        if by_position & (set(named) | set(configuration)) or set(configuration) & set(named):
            raise ValueError(f"{self.__name__}: a launch or its configurations give a value twice")
        state["backwards"] = (state["turn"] // count % 2 == 1) != state["again"]
        named.update(configuration)
        given = {**self.defaults, **dict(zip(self.arg_names, arguments)), **named}
        for name, value in self.values.items():
            given[name] = named[name] = value(given)
        grid = tuple(grid(given) if callable(grid) else grid)
        # A parameter may have the name of an option, which gets the same value.
        options = {name: named[name] for name in OPTIONS if name in named}
        given = {name: value for name, value in given.items() if name not in OPTIONS or name in self.arg_names}
        if not 1 <= len(grid) <= 3 or not all(type(n) is int and 0 <= n <= most for n, most in zip(grid, GRID)):
            raise ValueError(f"{self.__name__}: a GPU takes no grid {grid}")
        missing = set(self.arg_names) ^ set(given)
        if missing:
            raise TypeError(f"{self.__name__}: no such parameter, or no value of {', '.join(sorted(missing))}")
        if len(noted) < MOST:
            note = self.note(given, options)
            noted.setdefault(json.dumps(note, sort_keys=True), note)
        if not state["knock_out"]:
            # A program takes whole numbers and tensors in the order of the parameters.
            with state["around"](self.__name__):
                super().run(*(given[name] for name in self.arg_names), grid=grid, warmup=False)

    def note(self, given, options):
        """The types of the arguments, and the values that the compiler knows, as Triton would specialise the kernel."""
        signature, constants, aligned = {}, {}, []
        for name in self.arg_names:
            value = given[name]
            if name in self.constants or value is None or type(value) is int and value == 1:
                signature[name], constants[name] = "constexpr", constant(value)
                continue
            if not isinstance(value, (torch.Tensor, bool, int, float)):
                raise TypeError(f"{self.__name__}: `{name}` is a {type(value).__name__}; a kernel takes tensors and numbers")
            signature[name] = mangle_type(value)
            # Tensors on a GPU begin at multiples of 256 bytes.
            at = value.storage_offset() * value.element_size() if isinstance(value, torch.Tensor) else value
            if isinstance(at, int) and not isinstance(at, bool) and at % 16 == 0:
                aligned.append(name)
        return {"kernel": self.__name__, "signature": signature, "constants": constants, "aligned": aligned, "options": options}


def constant(value):
    """A value that the compiler knows, for JSON."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, float):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value}
    if isinstance(value, tl.dtype):
        return {"type": str(value)}
    raise TypeError(f"a `tl.constexpr` is a number, a text or a type, not a {type(value).__name__}")
