"""Checks a module candidate without executing any of it: reads the source on standard input, prints one JSON document.

The document has `refusals` (rule, line, detail) and `extensions` (name, functions, cpp, flags). Only the standard library is used. The
check is an allow-list: code that this program does not understand is refused. Functions other than `__init__` may move and view tensors and
call a compiled extension; all arithmetic on tensors must happen in the extension.
"""

import ast
import builtins
import json
import re
import sys

IMPORTS = {
    "torch": "torch",
    "torch.nn": "nn",
    "torch.nn.functional": "functional",
    "math": "math",
    "typing": "typing",
    "torch.utils.cpp_extension": "cpp_extension",
    "__future__": "future",
}
FROM_TORCH = {"nn": "nn", "Tensor": "annotation"}
BUILTINS = {
    "abs", "bool", "dict", "enumerate", "float", "int", "isinstance", "len", "list", "max", "min", "range", "reversed", "round", "str",
    "sum", "super", "tuple", "zip", "RuntimeError", "ValueError", "TypeError", "AssertionError", "NotImplementedError",
}
SCALAR_CALLS = {"abs", "bool", "float", "int", "len", "max", "min", "range", "round", "sum", "str", "isinstance"}
# Methods of tensors that look at a tensor, make a view of it or allocate memory.
METHODS = {
    "contiguous", "detach", "dim", "element_size", "expand", "expand_as", "flatten", "is_contiguous", "is_floating_point", "movedim",
    "narrow", "ndimension", "new_empty", "new_zeros", "numel", "permute", "reshape", "select", "size", "split", "chunk", "squeeze", "stride",
    "swapaxes", "t", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as", "requires_grad_", "items", "keys", "values", "get",
    "format", "join",
}
SCALAR_METHODS = {"dim", "element_size", "is_contiguous", "is_floating_point", "ndimension", "numel", "size", "stride"}
# Functions of torch that a call of the module may use: memory and views.
TORCH = {
    "empty", "empty_like", "zeros", "zeros_like", "empty_strided", "reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "split",
    "chunk", "unbind", "narrow", "movedim", "numel", "is_tensor", "no_grad", "inference_mode", "device", "Size",
}
SCALAR_ATTRIBUTES = {"shape", "ndim", "dtype", "device", "is_cpu", "layout", "requires_grad"}
DTYPES = {
    "float32", "float64", "float16", "bfloat16", "float", "double", "half", "int8", "int16", "int32", "int64", "uint8", "long", "int",
    "bool", "contiguous_format", "channels_last", "strided",
}
# Attributes that lead from an object to the interpreter, to files, or to memory by address.
FORBIDDEN_ATTRIBUTES = {
    "data", "data_ptr", "storage", "untyped_storage", "untyped", "numpy", "tolist", "item", "set_", "resize_", "ops", "jit", "compile", "hub",
    "multiprocessing", "distributed", "library", "overrides", "serialization", "load", "save", "backends", "cuda", "utils", "autograd",
    "f_globals", "f_locals", "f_back", "gi_frame", "cr_frame", "tb_frame", "register_forward_hook", "register_forward_pre_hook",
    "share_memory_", "from_file", "set_num_threads", "set_default_dtype", "manual_seed",
}
CFLAG = re.compile(
    r"-O[0123s]|-Ofast|-march=native|-mtune=native|-ffast-math|-fno-math-errno|-fopenmp|-fopenmp-simd|-funroll-loops|-ffp-contract=\w+"
    r"|-fno-trapping-math|-fassociative-math|-freciprocal-math|-fno-signed-zeros|-ffinite-math-only|-fno-finite-math-only"
    r"|-mprefer-vector-width=\d+|-ftree-vectorize|-mfma|-mavx2|-mavx512\w+|-Wall|-w|-g0|-DNDEBUG|-std=(c|gnu)\+\+(17|20)"
)
INCLUDES = {
    "algorithm", "array", "bit", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstring", "functional", "initializer_list", "iterator",
    "limits", "memory", "numeric", "optional", "string", "tuple", "type_traits", "utility", "vector", "immintrin.h", "omp.h", "arm_neon.h",
    "torch/extension.h", "torch/torch.h", "torch/types.h", "torch/all.h", "ATen/ATen.h", "ATen/Parallel.h", "ATen/cpu/vec/vec.h",
    "ATen/Dispatch.h", "c10/util/BFloat16.h", "c10/util/Half.h", "math.h", "stdint.h", "string.h", "float.h", "limits.h", "stddef.h",
}
# Words of C++ that no numeric kernel needs, with the rule that refuses them.
CPP_WORDS = {
    "machine_code": r"__asm__|__asm|asm|incbin|_emit|constructor|destructor|ifunc|section|init_priority|alias|weakref",
    "process": r"system|popen|fork|vfork|execl|execle|execlp|execv|execve|execvp|posix_spawn|clone|kill|raise|abort|_exit|exit|quick_exit"
    r"|ptrace|syscall|prctl|signal|sigaction|atexit|at_quick_exit",
    "thread": r"thread|jthread|async|pthread_create|pthread_t|future|promise|coroutine|launch|intraop_launch|sched_setaffinity|sched_yield",
    "file": r"fopen|open|openat|creat|ifstream|ofstream|fstream|read|pread|write|pwrite|unlink|remove|rename|mkdir|opendir|freopen|filesystem",
    "network": r"socket|connect|bind|listen|accept|sendto|recvfrom|getaddrinfo",
    "timing": r"chrono|clock|clock_gettime|gettimeofday|time|rdtsc|__rdtsc|__rdtscp|nanosleep|usleep|sleep|omp_get_wtime|times|steady_clock",
    "memory_map": r"mmap|munmap|mprotect|mremap|madvise|shm_open|memfd_create|dl_iterate_phdr|process_vm_readv",
    "loader": r"dlopen|dlsym|dlmopen|dladdr|dlclose|getenv|setenv|putenv|environ|secure_getenv",
    "interpreter": r"py|pybind11|PyObject|Py_\w+|Py[A-Z]\w*|PYBIND11_\w+|TORCH_LIBRARY\w*|jit|script|library|Library|Dispatcher|OperatorHandle"
    r"|redispatch|native|_ops|cpp_custom_type_hack|autograd",
}
CPP_WORDS = {rule: re.compile(r"(?<![\w.>])(?:" + words + r")(?!\w)") for rule, words in CPP_WORDS.items()}


class Refused(Exception):
    def __init__(self, rule, node, detail):
        super().__init__(detail)
        self.rule, self.line, self.detail = rule, getattr(node, "lineno", 0), detail


def dotted(node):
    """The names of a chain `a.b.c`, or None for another expression."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id] + names[::-1]


class Check:
    def __init__(self, tree, permits_torch):
        self.tree, self.permits_torch = tree, permits_torch
        self.modules, self.functions, self.classes, self.constants = {}, {}, {}, {}
        self.extensions, self.aliases, self.names, self.graph = {}, {}, set(), {}

    # Module level

    def run(self):
        for statement in self.tree.body:
            self.statement(statement)
        model = self.classes.get("ModelNew")
        if model is None:
            raise Refused("no_model", self.tree, "the source defines no class `ModelNew`")
        # The attributes of all classes are known before any other method is read.
        for name, found in self.classes.items():
            self.members(name, found)
        for name, found in self.classes.items():
            for method, node in found.methods.items():
                if method != "__init__":
                    self.body(name, method, node)
        for name, node in self.functions.items():
            self.body(None, name, node)
        if "forward" not in model.methods:
            raise Refused("no_model", model.node, "`ModelNew` has no method `forward`")
        if not self.permits_torch and not self.launches(("ModelNew", "forward")):
            detail = "`ModelNew.forward` calls no function of a compiled extension"
            raise Refused("plain_torch" if not self.extensions else "unreachable_kernel", model.node, detail)

    def body(self, owner, name, node):
        body = Body(self, owner, node, building=False)
        body.check()
        self.graph[(owner, name)] = body

    def launches(self, key):
        """True if a call of this function reaches a call of an extension."""
        waiting, seen = [key], set()
        while waiting:
            key = waiting.pop()
            if key in seen or key not in self.graph:
                continue
            seen.add(key)
            if self.graph[key].launches:
                return True
            waiting.extend(self.graph[key].calls)
        return False

    def bind(self, name, node):
        taken = name in self.names or name in BUILTINS or name.startswith("__")
        if taken:
            raise Refused("rebinding", node, f"`{name}` is bound twice or is a name of Python")
        self.names.add(name)

    def statement(self, node):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name not in IMPORTS or alias.name == "__future__" or "." in alias.name and not alias.asname:
                    if not (alias.name.startswith("torch.") and alias.name in IMPORTS):
                        raise Refused("import", node, f"`import {alias.name}` is not permitted")
                    if "torch" not in self.names:
                        self.bind("torch", node)
                        self.modules["torch"] = "torch"
                    continue
                name = alias.asname or alias.name
                if not (name == "torch" and self.modules.get("torch") == "torch"):
                    self.bind(name, node)
                self.modules[name] = IMPORTS[alias.name]
        elif isinstance(node, ast.ImportFrom):
            self.import_from(node)
        elif isinstance(node, ast.FunctionDef):
            self.bind(node.name, node)
            self.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            self.bind(node.name, node)
            self.classes[node.name] = Class(node)
            self.bases(node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.assign(node.targets[0].id, node.value, node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self.assign(node.target.id, node.value, node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            pass
        else:
            raise Refused("module_statement", node, f"`{type(node).__name__}` is not permitted at the top of the file")

    def import_from(self, node):
        if node.level:
            raise Refused("import", node, "relative imports are not permitted")
        for alias in node.names:
            name = alias.asname or alias.name
            if node.module == "__future__" and alias.name == "annotations":
                continue
            self.bind(name, node)
            if node.module == "torch.utils.cpp_extension" and alias.name == "load_inline":
                self.modules[name] = "load_inline"
            elif node.module == "typing":
                self.modules[name] = "annotation"
            elif node.module == "torch" and alias.name in FROM_TORCH:
                self.modules[name] = FROM_TORCH[alias.name]
            elif node.module == "torch.nn" and alias.name == "functional":
                self.modules[name] = "functional"
            elif node.module == "torch.nn" and alias.name in ("Module", "Parameter"):
                self.modules[name] = "nn." + alias.name
            elif node.module == "math":
                self.modules[name] = "math_function"
            else:
                raise Refused("import", node, f"`from {node.module} import {alias.name}` is not permitted")

    def assign(self, name, value, node):
        self.bind(name, node)
        if isinstance(value, ast.Call) and self.is_load_inline(value.func):
            self.extensions[name] = self.extension(value)
            return
        target = dotted(value)
        if target and target[0] in self.extensions:
            self.aliases[name] = self.launched(target, value)
            return
        self.constants[name] = self.constant(value)

    def is_load_inline(self, function):
        names = dotted(function)
        if not names:
            return False
        if self.modules.get(names[0]) == "load_inline":
            return len(names) == 1
        return self.modules.get(names[0]) == "torch" and names[1:] == ["utils", "cpp_extension", "load_inline"] or (
            self.modules.get(names[0]) == "cpp_extension" and names[1:] == ["load_inline"]
        )

    def constant(self, node):
        """Evaluates a constant expression: numbers, text, lists, tuples, dictionaries, other constants, sums and products of these."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.constant(e) for e in node.elts]
        if isinstance(node, ast.Dict) and all(k is not None for k in node.keys):
            return {str(self.constant(k)): self.constant(v) for k, v in zip(node.keys, node.values)}
        if isinstance(node, ast.Name) and node.id in self.constants:
            return self.constants[node.id]
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.FormattedValue) else p for p in node.values]
            plain = all(p.conversion == -1 and p.format_spec is None for p in node.values if isinstance(p, ast.FormattedValue))
            if plain:
                return "".join(str(self.constant(p)) for p in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.constant(node.operand)
            if isinstance(value, (int, float)):
                return -value
        if isinstance(node, ast.BinOp):
            left, right = self.constant(node.left), self.constant(node.right)
            numbers = all(isinstance(v, (int, float)) for v in (left, right))
            if isinstance(node.op, ast.Add) and (numbers or type(left) is type(right) and isinstance(left, (str, list))):
                return left + right
            if isinstance(node.op, ast.Mult) and numbers:
                return left * right
            if isinstance(node.op, ast.Sub) and numbers:
                return left - right
            if isinstance(node.op, (ast.Div, ast.FloorDiv)) and numbers and right:
                return left / right if isinstance(node.op, ast.Div) else left // right
        names = dotted(node)
        if names and self.modules.get(names[0]) == "torch" and len(names) == 2 and names[1] in DTYPES:
            return "torch." + names[1]
        if names and self.modules.get(names[0]) == "math" and len(names) == 2 and names[1] in ("pi", "e", "inf"):
            return {"pi": 3.141592653589793, "e": 2.718281828459045, "inf": float("inf")}[names[1]]
        raise Refused("not_constant", node, f"`{ast.unparse(node)[:80]}` is not a constant that can be read without running the program")

    def extension(self, call):
        if call.args:
            raise Refused("extension", call, "`load_inline` takes its arguments by keyword here")
        given = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise Refused("extension", call, "`load_inline(**…)` cannot be read without running the program")
            given[keyword.arg] = self.constant(keyword.value)
        known = {"name", "cpp_sources", "functions", "extra_cflags", "extra_ldflags", "verbose", "with_cuda", "no_implicit_headers"}
        for key in given:
            if key not in known:
                raise Refused("extension", call, f"the argument `{key}` of `load_inline` is not permitted")
        name = given.get("name")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name):
            raise Refused("extension", call, "the `name` of `load_inline` must be a constant identifier")
        if name in IMPORTS or name in ("torch", "sys", "os") or any(e["name"] == name for e in self.extensions.values()):
            raise Refused("extension", call, f"the name `{name}` of an extension is taken")
        if given.get("with_cuda") or given.get("no_implicit_headers"):
            raise Refused("extension", call, "only C++ for the CPU with the implicit headers is permitted")
        sources, functions = given.get("cpp_sources"), given.get("functions")
        sources = [sources] if isinstance(sources, str) else sources
        functions = [functions] if isinstance(functions, str) else functions
        functions = list(functions) if isinstance(functions, (list, dict)) else functions
        if not sources or not all(isinstance(s, str) for s in sources):
            raise Refused("extension", call, "`cpp_sources` must be a constant text or a list of them")
        if not functions or not all(isinstance(f, str) and re.fullmatch(r"[A-Za-z]\w*", f) for f in functions):
            raise Refused("extension", call, "`functions` must list the names of the extension's functions")
        flags = given.get("extra_cflags") or []
        for flag in flags + (given.get("extra_ldflags") or []):
            if not isinstance(flag, str) or not CFLAG.fullmatch(flag):
                raise Refused("extension", call, f"the compiler flag `{flag}` is not permitted")
        cpp = "\n".join(sources)
        self.cpp(cpp, call)
        return {"name": name, "functions": functions, "cpp": cpp, "flags": flags}

    def cpp(self, text, node):
        if "??" in text or re.search(r"\\\s*\n\s*(include|define)|%:", text):
            raise Refused("cpp_preprocessor", node, "trigraphs, digraphs and spliced directives are not permitted")
        if re.search(r'R"[^()\\ ]{0,16}\(', text):
            raise Refused("cpp_preprocessor", node, "raw string literals are not permitted in C++ sources")
        code = strip_cpp(text)
        for line in code.replace("\\\n", " ").split("\n"):
            directive = re.match(r"\s*#\s*(\w*)\s*(.*)", line)
            if not directive:
                continue
            word, rest = directive.groups()
            if word == "include":
                header = re.fullmatch(r"[<\"]([\w./+]+)[>\"]\s*", rest)
                if not header or header.group(1) not in INCLUDES:
                    raise Refused("cpp_include", node, f"`#include {rest.strip()[:60]}` is not permitted")
            elif word == "pragma":
                if not re.match(r"(omp|GCC\s+(ivdep|unroll|optimize|target)|once|unroll)\b", rest):
                    raise Refused("cpp_preprocessor", node, f"`#pragma {rest.strip()[:60]}` is not permitted")
            elif word not in ("define", "undef", "if", "ifdef", "ifndef", "else", "elif", "endif", ""):
                raise Refused("cpp_preprocessor", node, f"`#{word}` is not permitted")
            if "##" in rest:
                raise Refused("cpp_preprocessor", node, "`##` joins words that this check would have to know")
        code = re.sub(r"#\s*include[^\n]*", "", re.sub(r'"(?:\\.|[^"\\\n])*"', '""', code))
        for rule, words in CPP_WORDS.items():
            found = words.search(code)
            if found:
                raise Refused("cpp_" + rule, node, f"`{found.group()}` is not permitted in C++ sources")

    # Classes and functions

    def bases(self, node):
        if node.keywords or node.decorator_list:
            raise Refused("class", node, "keywords and decorators of classes are not permitted")
        for base in node.bases:
            names = dotted(base) or []
            kind = self.modules.get(names[0]) if names else None
            module = kind == "nn" and names[1:] == ["Module"] or kind == "torch" and names[1:] == ["nn", "Module"] or kind == "nn.Module" and len(names) == 1
            if not module:
                raise Refused("class", node, f"`{ast.unparse(base)}` is not a permitted base class; use torch.nn.Module")
        if not node.bases:
            raise Refused("class", node, "a class must be a torch.nn.Module")

    def members(self, name, found):
        for member in found.node.body:
            if isinstance(member, ast.FunctionDef):
                if member.name.startswith("__") and member.name != "__init__":
                    raise Refused("special_method", member, f"the method `{member.name}` is not permitted")
                if member.name in found.methods or member.name in METHODS or member.name in FORBIDDEN_ATTRIBUTES:
                    raise Refused("rebinding", member, f"`{member.name}` is bound twice or is a method of tensors")
                found.methods[member.name] = member
            elif not (isinstance(member, ast.Expr) and isinstance(member.value, ast.Constant) or isinstance(member, ast.Pass)):
                raise Refused("class", member, "a class may only have methods and a text that describes it")
        if "__init__" in found.methods:
            Body(self, name, found.methods["__init__"], building=True).check()

    def launched(self, names, node):
        extension = self.extensions[names[0]]
        if len(names) == 1:
            return ("extension", names[0])
        if len(names) == 2 and names[1] in extension["functions"]:
            return ("function", names[0])
        raise Refused("unknown_name", node, f"the extension has no function `{'.'.join(names[1:])}`")


class Class:
    def __init__(self, node):
        self.node, self.methods = node, {}
        # Attributes that `__init__` sets: "scalar", "tensor", ("class", name), ("extension", name), ("function", name).
        self.attributes = {}


def strip_cpp(text):
    """C++ without comments; strings keep their length, so that a comment mark in a string is not taken for one."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: m.group() if m.group()[0] in "\"'" else " ", text, flags=re.S)


class Body:
    """The statements of one function. `building` is True in `__init__`, where parameters may be made with any initialisation."""

    STATEMENTS = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.If, ast.For, ast.While, ast.Assert, ast.Raise, ast.Pass, ast.With, ast.Break, ast.Continue)

    def __init__(self, check, owner, node, building):
        self.all, self.owner, self.node, self.building = check, owner, node, building
        self.local, self.launches, self.calls = {}, False, set()

    def refuse(self, rule, node, detail):
        raise Refused(rule, node, detail)

    def check(self):
        for decorator in self.node.decorator_list:
            names = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or [""]
            torch = self.all.modules.get(names[0]) == "torch" and names[1:] in (["no_grad"], ["inference_mode"])
            if not torch and names != ["staticmethod"]:
                self.refuse("decorator", decorator, f"the decorator `{ast.unparse(decorator)}` is not permitted")
        arguments = self.node.args
        defaults = arguments.defaults + [d for d in arguments.kw_defaults if d is not None]
        for default in defaults:
            self.all.constant(default)
        every = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
        for argument in every:
            note = ast.unparse(argument.annotation) if argument.annotation else ""
            scalar = self.building or note in ("int", "float", "bool", "str")
            self.local[argument.arg] = "scalar" if scalar else "tensor"
        for extra in (arguments.vararg, arguments.kwarg):
            if extra:
                self.local[extra.arg] = "scalar" if self.building else "tensor"
        if self.owner and every and "staticmethod" not in [ast.unparse(d) for d in self.node.decorator_list]:
            self.local[every[0].arg] = "self"
        self.block(self.node.body)

    def block(self, body):
        for statement in body:
            if not isinstance(statement, self.STATEMENTS):
                rule = {"Try": "fallback", "TryStar": "fallback", "Import": "import", "ImportFrom": "import", "Global": "state", "Nonlocal": "state"}
                kind = type(statement).__name__
                self.refuse(rule.get(kind, "statement"), statement, f"`{kind}` is not permitted in a function")
            getattr(self, "do_" + type(statement).__name__)(statement)

    def do_Pass(self, node):
        pass

    do_Break = do_Continue = do_Pass

    def do_Expr(self, node):
        if not isinstance(node.value, ast.Constant):
            self.kind(node.value)

    def do_Return(self, node):
        if node.value is not None:
            self.kind(node.value)

    def do_Assert(self, node):
        self.kind(node.test)

    def do_Raise(self, node):
        if node.exc is not None:
            self.kind(node.exc)

    def do_If(self, node):
        if isinstance(node.test, ast.Constant):
            return self.block(node.body if node.test.value else node.orelse)
        self.kind(node.test)
        self.block(node.body)
        self.block(node.orelse)

    def do_While(self, node):
        self.kind(node.test)
        if not (isinstance(node.test, ast.Constant) and not node.test.value):
            self.block(node.body)
        self.block(node.orelse)

    def do_For(self, node):
        kind = self.kind(node.iter)
        self.target(node.target, "scalar" if kind == "scalar" else "tensor")
        self.block(node.body)
        self.block(node.orelse)

    def do_With(self, node):
        for item in node.items:
            names = dotted(item.context_expr.func) if isinstance(item.context_expr, ast.Call) else None
            if not names or self.all.modules.get(names[0]) != "torch" or names[1:] not in (["no_grad"], ["inference_mode"]):
                self.refuse("statement", node, "`with` is permitted for torch.no_grad() and torch.inference_mode() only")
        self.block(node.body)

    def do_Assign(self, node):
        kind = self.kind(node.value)
        for target in node.targets:
            self.target(target, kind)

    def do_AnnAssign(self, node):
        if node.value is not None:
            self.target(node.target, self.kind(node.value))

    def do_AugAssign(self, node):
        if isinstance(node.target, ast.Name) and self.local.get(node.target.id) == "scalar" and self.kind(node.value) == "scalar":
            return
        self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` computes with a tensor outside of the extension")

    def target(self, target, kind):
        if isinstance(target, ast.Name):
            if target.id in self.all.names or target.id in BUILTINS:
                self.refuse("rebinding", target, f"`{target.id}` hides a name of the file or of Python")
            if self.local.get(target.id, kind) == "self":
                self.refuse("rebinding", target, f"`{target.id}` is bound twice")
            # A name that holds a tensor anywhere counts as a tensor everywhere.
            self.local[target.id] = kind if self.local.get(target.id, kind) == kind else "tensor"
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self.target(each.value if isinstance(each, ast.Starred) else each, "scalar" if kind == "scalar" else "tensor")
        elif isinstance(target, ast.Attribute):
            mine = isinstance(target.value, ast.Name) and self.local.get(target.value.id) == "self"
            if not mine:
                self.refuse("monkey_patch", target, f"`{ast.unparse(target)}` changes an object that is not the module itself")
            if not self.building:
                self.refuse("state", target, f"`{ast.unparse(target)}` keeps something from one call to the next")
            if target.attr.startswith("_") or target.attr in METHODS or target.attr in FORBIDDEN_ATTRIBUTES or target.attr in self.all.classes[self.owner].methods or target.attr == "forward":
                self.refuse("monkey_patch", target, f"the attribute `{target.attr}` has a meaning of its own")
            attributes = self.all.classes[self.owner].attributes
            if attributes.get(target.attr, kind) != kind:
                self.refuse("rebinding", target, f"`{target.attr}` is bound to things of different kinds")
            attributes[target.attr] = kind
        else:
            self.refuse("torch_operator" if isinstance(target, ast.Subscript) else "statement", target, f"`{ast.unparse(target)[:80]}` cannot be assigned to")

    # Expressions: each returns the kind of its value

    def kind(self, node):
        method = getattr(self, "of_" + type(node).__name__, None)
        if method is None:
            rule = {"Lambda": "closure", "Yield": "statement", "Await": "statement", "NamedExpr": "statement"}.get(type(node).__name__, "expression")
            self.refuse(rule, node, f"`{ast.unparse(node)[:80]}` is not permitted")
        return method(node)

    def of_Constant(self, node):
        return "scalar"

    def of_JoinedStr(self, node):
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.kind(part.value)
        return "scalar"

    def of_Name(self, node):
        name = node.id
        if name in self.local:
            return self.local[name]
        if name in self.all.constants or name in BUILTINS:
            return "scalar"
        if name in self.all.extensions:
            return ("extension", name)
        if name in self.all.aliases:
            return self.all.aliases[name]
        if name in self.all.classes:
            return ("class", name)
        if self.all.modules.get(name) in ("annotation", "math_function"):
            return "scalar"
        if name in self.all.modules or name in self.all.functions:
            return ("name", name)
        rule = "forbidden_name" if hasattr(builtins, name) else "unknown_name"
        self.refuse(rule, node, f"the name `{name}` is not permitted here")

    def of_Tuple(self, node):
        kinds = [self.kind(e.value if isinstance(e, ast.Starred) else e) for e in node.elts]
        return "scalar" if all(k == "scalar" for k in kinds) else "tensor"

    of_List = of_Tuple

    def of_Dict(self, node):
        kinds = [self.kind(e) for e in node.keys + node.values if e is not None]
        return "scalar" if all(k == "scalar" for k in kinds) else "tensor"

    def of_Starred(self, node):
        return self.kind(node.value)

    def comprehension(self, node):
        for each in node.generators:
            kind = self.kind(each.iter)
            self.target(each.target, "scalar" if kind == "scalar" else "tensor")
            for test in each.ifs:
                self.kind(test)
        return self.kind(node.elt)

    of_ListComp = of_GeneratorExp = comprehension

    def of_IfExp(self, node):
        self.kind(node.test)
        kinds = {str(self.kind(e)) for e in (node.body, node.orelse)}
        return "scalar" if kinds == {"scalar"} else "tensor"

    def of_BoolOp(self, node):
        for value in node.values:
            self.kind(value)
        return "scalar"

    def of_UnaryOp(self, node):
        if self.kind(node.operand) != "scalar" and not isinstance(node.op, ast.Not) and not self.free():
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` computes with a tensor outside of the extension")
        return "scalar"

    def of_BinOp(self, node):
        kinds = [self.kind(node.left), self.kind(node.right)]
        if all(k == "scalar" for k in kinds):
            return "scalar"
        if not self.free():
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` computes with a tensor outside of the extension")
        return "tensor"

    def of_Compare(self, node):
        kinds = [self.kind(e) for e in [node.left] + node.comparators]
        identity = all(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops)
        if not identity and any(k == "tensor" for k in kinds) and not self.free():
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` compares tensors outside of the extension")
        return "scalar"

    def of_Subscript(self, node):
        kind = self.kind(node.value)
        index = self.kind(node.slice)
        if index != "scalar" and not self.free():
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` gathers by a tensor outside of the extension")
        return kind if kind in ("scalar", "tensor") else "tensor"

    def of_Slice(self, node):
        for part in (node.lower, node.upper, node.step):
            if part is not None and self.kind(part) != "scalar":
                return "tensor"
        return "scalar"

    def of_Attribute(self, node):
        self.attribute(node)
        names = dotted(node)
        if names and names[0] not in self.local:
            module = self.all.modules.get(names[0])
            if names[0] in self.all.extensions:
                return self.all.launched(names, node)
            if module == "torch" and len(names) == 2 and names[1] in DTYPES:
                return "scalar"
            if module == "math" and len(names) == 2:
                return "scalar"
            if module == "torch" and names[1:] in (["Tensor"], ["nn", "Module"]) or module == "nn" and names[1:] == ["Module"]:
                return "scalar"
            if module is not None:
                self.refuse("torch_operator", node, f"`{'.'.join(names)}` is not permitted here")
        kind = self.kind(node.value)
        if isinstance(kind, tuple) and kind[0] == "extension":
            extension = self.all.extensions[kind[1]]
            if node.attr not in extension["functions"]:
                self.refuse("unknown_name", node, f"the extension has no function `{node.attr}`")
            return ("function", kind[1])
        if kind == "self":
            found = self.all.classes[self.owner].attributes.get(node.attr)
            return found if found is not None else "scalar" if node.attr == "training" else "tensor"
        return "scalar" if node.attr in SCALAR_ATTRIBUTES or kind == "scalar" else "tensor"

    def attribute(self, node):
        special = node.attr.startswith("__") and not (node.attr == "__init__" and self.building)
        if special or node.attr in FORBIDDEN_ATTRIBUTES or node.attr.startswith("_") and node.attr != "__init__":
            self.refuse("forbidden_attribute", node, f"the attribute `{node.attr}` is not permitted")

    def free(self):
        """True where tensors may be computed by torch: in `__init__`, and in problems that permit it."""
        return self.building or self.all.permits_torch

    def of_Call(self, node):
        arguments = [a.value if isinstance(a, ast.Starred) else a for a in node.args] + [k.value for k in node.keywords]
        kinds = [self.kind(a) for a in arguments]
        function = node.func
        if isinstance(function, ast.Name):
            return self.call_name(function, node, kinds)
        if not isinstance(function, ast.Attribute):
            self.refuse("call", node, f"`{ast.unparse(function)[:80]}` cannot be called")
        self.attribute(function)
        names = dotted(function)
        module = self.all.modules.get(names[0]) if names and names[0] not in self.local else None
        if module is not None:
            return self.call_module(module, names, node)
        super_call = isinstance(function.value, ast.Call) and isinstance(function.value.func, ast.Name) and function.value.func.id == "super"
        if super_call and self.building and function.attr == "__init__":
            return "scalar"
        if self.self_call(function):
            return self.call_own(function, node)
        kind = self.kind(function)
        if isinstance(kind, tuple) and kind[0] == "function":
            return self.launch()
        if function.attr in METHODS or self.free():
            self.kind(function.value)
            return "scalar" if function.attr in SCALAR_METHODS else self.plain(function.value)
        self.refuse("torch_operator", node, f"the method `{function.attr}` is not in the list for shapes and memory")

    def plain(self, node):
        return "scalar" if self.kind(node) == "scalar" else "tensor"

    def self_call(self, function):
        return isinstance(function.value, ast.Name) and self.local.get(function.value.id) == "self"

    def call_own(self, function, node):
        found = self.all.classes[self.owner]
        if function.attr in found.methods:
            self.calls.add((self.owner, function.attr))
            return "tensor"
        kind = found.attributes.get(function.attr)
        if isinstance(kind, tuple) and kind[0] == "function":
            return self.launch()
        if isinstance(kind, tuple) and kind[0] == "instance":
            self.calls.add((kind[1], "forward"))
            return "tensor"
        if self.building and function.attr in ("register_buffer", "register_parameter", "eval", "train", "add_module"):
            return "scalar"
        if self.free():
            return "tensor"
        self.refuse("torch_operator", node, f"`self.{function.attr}` is no function of the extension and no module of this file")

    def launch(self):
        self.launches = True
        return "tensor"

    def call_name(self, function, node, kinds):
        name = function.id
        if name in self.local and self.local[name] not in (("class", name),):
            kind = self.local[name]
            if isinstance(kind, tuple) and kind[0] == "function":
                return self.launch()
            self.refuse("call", node, f"`{name}` is a value that this check does not know")
        if name in self.all.aliases and self.all.aliases[name][0] == "function":
            return self.launch()
        if name in self.all.functions:
            self.calls.add((None, name))
            return "tensor"
        if name in self.all.classes:
            if not self.building:
                self.refuse("call", node, f"`{name}` is made in every call; make it in `__init__`")
            return ("instance", name)
        if name == "super":
            return "scalar"
        if name in BUILTINS:
            if name == "sum" and any(k != "scalar" for k in kinds) and not self.free():
                self.refuse("torch_operator", node, "`sum` of tensors computes outside of the extension")
            if name in SCALAR_CALLS:
                if name in ("float", "int", "bool", "abs", "max", "min", "round") and any(k != "scalar" for k in kinds) and not self.free():
                    self.refuse("torch_operator", node, f"`{name}` of a tensor computes outside of the extension")
                return "scalar"
            return "scalar" if all(k == "scalar" for k in kinds) else "tensor"
        if self.all.modules.get(name) == "math_function":
            return "scalar"
        if self.all.modules.get(name) == "nn.Parameter" and self.building:
            return "tensor"
        rule = "forbidden_name" if hasattr(builtins, name) else "unknown_name"
        self.refuse(rule, node, f"the function `{name}` is not permitted")

    def call_module(self, module, names, node):
        if module == "math":
            return "scalar"
        rest = names[1:]
        if module == "torch" and rest[:1] == ["nn"]:
            module, rest = "nn", rest[1:]
        if module == "nn" and self.building and rest[:1] != ["utils"]:
            return "tensor"
        if module == "torch" and len(rest) == 1 and (rest[0] in TORCH or self.building):
            return "scalar" if rest[0] in ("numel", "is_tensor", "device", "Size") else "tensor"
        if self.all.permits_torch and module in ("torch", "nn", "functional"):
            return "tensor"
        self.refuse("torch_operator", node, f"`{'.'.join(names)}` is not in the list for shapes and memory")


def check(source, permits_torch=False):
    extensions = []
    try:
        found = Check(ast.parse(source), permits_torch)
        found.run()
        extensions = list(found.extensions.values())
        refusals = []
    except Refused as refused:
        refusals = [{"rule": refused.rule, "line": refused.line, "detail": refused.detail}]
    except SyntaxError as error:
        refusals = [{"rule": "syntax", "line": error.lineno or 0, "detail": error.msg}]
    except (RecursionError, MemoryError, ValueError) as error:
        refusals = [{"rule": "syntax", "line": 0, "detail": f"the source cannot be read: {error}"}]
    return {"refusals": refusals, "extensions": extensions}


if __name__ == "__main__":
    text = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    print(json.dumps(check(text, permits_torch="--permit-torch" in sys.argv)))
