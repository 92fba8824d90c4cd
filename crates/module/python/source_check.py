"""Checks a module candidate without executing any of it: reads the source on standard input, prints one JSON document.

The document has `refusals` (rule, line, detail), `extensions` (name, functions, cpp, flags and, with CUDA C++, cuda: source, flags), for a
source with Triton kernels `triton` (kernels, source, kernel_source), and of an accepted source `techniques` without those of its C++. Only
the standard library is used. The check is an allow-list: code that this program does not understand is refused. Functions other than
`__init__` may move and view tensors, call a compiled extension and launch kernels; all arithmetic on tensors must happen in these.
"""

import ast
import json
import os
import re
import sys

# The interpreter runs isolated, without the folder of this file.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from source_body import Body  # noqa: E402
from source_cpp import check_cpp  # noqa: E402
from source_cuda import check_cuda  # noqa: E402
from source_gradient import Differentiable, is_function, members  # noqa: E402
from source_rules import (  # noqa: E402
    BUILTINS,
    CFLAG,
    CUDA_CFLAG,
    DECORATORS,
    DTYPES,
    FORBIDDEN_ATTRIBUTES,
    FROM_TORCH,
    FROM_TYPING,
    IMPORTS,
    METHODS,
    PRIVATE,
    SCALAR_ATTRIBUTES,
    Refused,
    annotation,
    dotted,
)
from source_techniques import techniques  # noqa: E402
from source_triton import Kernel, normalised  # noqa: E402

# The reference beside this file, if the caller has put it there; what the source does is compared with it.
REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference.txt")
# The compiler may take minutes for each of them.
MAX_EXTENSIONS = 8


class Check:
    def __init__(self, tree, permits_torch, gradients=False):
        self.tree, self.permits_torch, self.gradients = tree, permits_torch, gradients
        # Classes that give a function and its gradient.
        self.differentiable = {}
        self.modules, self.functions, self.classes, self.constants = {}, {}, {}, {}
        self.extensions, self.aliases, self.names, self.graph = {}, {}, set(), {}
        self.kernels = {}

    # Module level

    def run(self):
        for statement in self.tree.body:
            self.statement(statement)
        model = self.classes.get("ModelNew")
        if model is None:
            raise Refused("no_model", self.tree, "the source defines no class `ModelNew`")
        # The methods of all classes are known before any is read, and their attributes before any but `__init__`.
        for found in self.classes.values():
            self.members(found)
        for found in self.differentiable.values():
            members(found)
        for name, found in self.classes.items():
            if "__init__" in found.methods:
                Body(self, name, found.methods["__init__"], building=True).check()
        for name, found in self.classes.items():
            for method, node in found.methods.items():
                if method != "__init__":
                    self.body(name, method, node)
        for name, node in self.functions.items():
            self.body(None, name, node)
        for name, found in self.differentiable.items():
            # `backward` may read the numbers that `forward` keeps.
            for method in ("forward", "backward"):
                self.graph[(name, method)] = body = Differentiable(self, found, found.methods[method])
                body.check()
        for kernel in self.kernels.values():
            kernel.check()
        with_cuda = {extension["cuda"] is not None for extension in self.extensions.values()}
        if len(with_cuda) + bool(self.kernels) > 1:
            raise Refused("extension", self.tree, "a source has inline C++, inline CUDA C++ or Triton kernels, and one of these only")
        if "forward" not in model.methods:
            raise Refused("no_model", model.node, "`ModelNew` has no method `forward`")
        if not self.permits_torch and not self.launches(("ModelNew", "forward")):
            detail = "`ModelNew.forward` calls no function of a compiled extension and launches no kernel"
            raise Refused("unreachable_kernel" if self.extensions or self.kernels else "plain_torch", model.node, detail)

    def host(self, node):
        """A check of expressions that run on the host beside a kernel."""
        return Body(self, None, node, building=False)

    def body(self, owner, name, node):
        body = Body(self, owner, node, building=False)
        body.check()
        self.graph[(owner, name)] = body

    def launches(self, key):
        """True if a call of this function reaches a call of an extension or a launch."""
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
        # Triton's interpreter looks up names of its own among those of the file.
        taken = name in self.names or name in BUILTINS | DECORATORS or name.startswith(("__", "interpreter_"))
        if taken:
            raise Refused("rebinding", node, f"`{name}` is bound twice or is a name of Python or of Triton's interpreter")
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
            if any(self.is_of_triton(decorator) for decorator in node.decorator_list):
                self.kernels[node.name] = Kernel(self, node)
            else:
                self.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            self.bind(node.name, node)
            if is_function(self, node):
                self.differentiable[node.name] = Class(node)
                return
            self.classes[node.name] = Class(node)
            self.bases(node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.assign(node.targets[0].id, node.value, node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            annotation(node.annotation)
            self.assign(node.target.id, node.value, node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            pass
        else:
            raise Refused("module_statement", node, f"`{type(node).__name__}` is not permitted at the top of the file")

    def is_of_triton(self, decorator):
        names = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or [""]
        return self.modules.get(names[0]) == "triton"

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
            elif node.module == "torch.utils" and alias.name == "cpp_extension":
                self.modules[name] = "cpp_extension"
            elif node.module == "typing" and alias.name in FROM_TYPING:
                self.modules[name] = "annotation"
            elif node.module == "torch" and alias.name in FROM_TORCH:
                self.modules[name] = FROM_TORCH[alias.name]
            elif node.module == "torch.nn" and alias.name == "functional":
                self.modules[name] = "functional"
            elif node.module == "torch.nn" and alias.name in ("Module", "Parameter"):
                self.modules[name] = "nn." + alias.name
            elif node.module == "torch.autograd" and alias.name == "Function" and self.gradients:
                self.modules[name] = "autograd.Function"
            elif node.module == "math":
                self.modules[name] = "math_function"
            elif node.module == "triton" and alias.name == "language":
                self.modules[name] = "triton.language"
            else:
                raise Refused("import", node, f"`from {node.module} import {alias.name}` is not permitted")

    def assign(self, name, value, node):
        self.bind(name, node)
        if isinstance(value, ast.Call) and self.is_load_inline(value.func):
            if len(self.extensions) == MAX_EXTENSIONS:
                raise Refused("extension", node, f"a source has at most {MAX_EXTENSIONS} extensions; put several functions into one")
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
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            names, value = dotted(node.func) or [""], self.constant(node.args[0])
            if names == ["float"] and value in ("inf", "-inf"):
                return float(value)
            if self.modules.get(names[0]) == "triton.language" and names[1:] == ["constexpr"]:
                return value
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
        known = {"name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags", "extra_ldflags", "verbose"}
        known |= {"with_cuda", "no_implicit_headers"}
        for key in given:
            if key not in known:
                raise Refused("extension", call, f"the argument `{key}` of `load_inline` is not permitted")
        name = given.get("name")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name):
            raise Refused("extension", call, "the `name` of `load_inline` must be a constant identifier")
        if name in IMPORTS or name in ("torch", "sys", "os") or any(e["name"] == name for e in self.extensions.values()):
            raise Refused("extension", call, f"the name `{name}` of an extension is taken")
        if given.get("no_implicit_headers"):
            raise Refused("extension", call, "only extensions with the implicit headers are permitted")
        cuda = self.texts(given.get("cuda_sources") or None, "cuda_sources", call)
        with_cuda = given.get("with_cuda")
        if with_cuda is not None and bool(with_cuda) != bool(cuda) or given.get("extra_cuda_cflags") and not cuda:
            raise Refused("extension", call, "`with_cuda` and `extra_cuda_cflags` belong to an extension with `cuda_sources`")
        cpp, functions = self.texts(given.get("cpp_sources") or "", "cpp_sources", call), given.get("functions")
        functions = [functions] if isinstance(functions, str) else functions
        functions = list(functions) if isinstance(functions, (list, dict)) else functions
        if not cpp.strip():
            raise Refused("extension", call, "`cpp_sources` must define the functions, or declare those of `cuda_sources`")
        if not functions or not all(isinstance(f, str) and re.fullmatch(r"[A-Za-z]\w*", f) for f in functions):
            raise Refused("extension", call, "`functions` must list the names of the extension's functions")
        flags, cuda_flags = given.get("extra_cflags") or [], given.get("extra_cuda_cflags") or []
        given_flags = [(flags, CFLAG), (given.get("extra_ldflags") or [], CFLAG), (cuda_flags, CUDA_CFLAG)]
        for flag, permitted in [(flag, permitted) for listed, permitted in given_flags for flag in listed]:
            if not isinstance(flag, str) or not permitted.fullmatch(flag):
                raise Refused("extension", call, f"the compiler flag `{flag}` is not permitted")
        extension = {"name": name, "functions": functions, "cpp": cpp, "flags": flags, "cuda": None}
        if cuda is None:
            check_cpp(cpp, functions, call)
        else:
            check_cuda(cpp, cuda, functions, call)
            extension["cuda"] = {"source": cuda, "flags": cuda_flags}
        return extension

    @staticmethod
    def texts(given, argument, call):
        """The text of an argument that is one text or a list of them; None for none."""
        if given is None or isinstance(given, str):
            return given
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise Refused("extension", call, f"`{argument}` must be a constant text or a list of them")
        return "\n".join(given)

    # Classes and functions

    def bases(self, node):
        if node.keywords or node.decorator_list or getattr(node, "type_params", None):
            raise Refused("class", node, "keywords and decorators of classes are not permitted")
        for base in node.bases:
            names = dotted(base) or []
            kind = self.modules.get(names[0]) if names else None
            module = kind == "nn" and names[1:] == ["Module"] or kind == "torch" and names[1:] == ["nn", "Module"] or kind == "nn.Module" and len(names) == 1
            if not module:
                raise Refused("class", node, f"`{ast.unparse(base)}` is not a permitted base class; use torch.nn.Module")
        if not node.bases:
            raise Refused("class", node, "a class must be a torch.nn.Module")

    def members(self, found):
        for member in found.node.body:
            if isinstance(member, ast.FunctionDef):
                if member.name.startswith("__") and member.name != "__init__":
                    raise Refused("special_method", member, f"the method `{member.name}` is not permitted")
                if PRIVATE.match(member.name) and member.name != "__init__":
                    raise Refused("monkey_patch", member, f"`{member.name}` is a name of torch.nn.Module")
                self.member(found, member.name, member)
                found.methods[member.name] = member
            elif isinstance(member, ast.Assign) and len(member.targets) == 1 and isinstance(member.targets[0], ast.Name):
                self.class_constant(found, member.targets[0].id, member)
            elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and member.value is not None:
                annotation(member.annotation)
                self.class_constant(found, member.target.id, member)
            elif not (isinstance(member, ast.Expr) and isinstance(member.value, ast.Constant) or isinstance(member, ast.Pass)):
                raise Refused("class", member, "a class may only have methods, constants and a text that describes it")

    @staticmethod
    def member(found, name, node):
        # Annotations, defaults and decorators of a class look its own names up first.
        other = METHODS | SCALAR_ATTRIBUTES | FORBIDDEN_ATTRIBUTES | BUILTINS | DECORATORS
        if name in found.methods or name in found.attributes or name in other:
            raise Refused("rebinding", node, f"`{name}` is bound twice or is a name of tensors or of Python")

    def class_constant(self, found, name, node):
        if PRIVATE.match(name) or name in ("forward", "training"):
            raise Refused("monkey_patch", node, f"`{name}` is a name of torch.nn.Module")
        self.member(found, name, node)
        self.constant(node.value)
        found.attributes[name] = "scalar"

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
        # Attributes that `__init__` sets, constants of the class, and numbers that a `forward` keeps for its gradient: "scalar", "tensor", ("class", name), ("extension", name), ("function", name).
        self.attributes = {}


def check(source, permits_torch=False, reference=None, gradients=False):
    extensions, triton, seen = [], None, []
    try:
        tree = ast.parse(source)
        found = Check(tree, permits_torch, gradients)
        found.run()
        if found.kernels:
            whole, kernels = normalised(tree, found)
            listed = [{"name": name, "configurations": kernel.configurations} for name, kernel in found.kernels.items()]
            triton = {"kernels": listed, "source": whole, "kernel_source": kernels}
        extensions = list(found.extensions.values())
        seen = techniques(found, reference)
        refusals = []
    except Refused as refused:
        refusals = [{"rule": refused.rule, "line": refused.line, "detail": refused.detail}]
    except SyntaxError as error:
        refusals = [{"rule": "syntax", "line": error.lineno or 0, "detail": error.msg}]
    except (RecursionError, MemoryError, ValueError) as error:
        refusals = [{"rule": "syntax", "line": 0, "detail": f"the source cannot be read: {error}"}]
    return {"refusals": refusals, "extensions": extensions, "triton": triton, "techniques": seen}


def reference():
    if not os.path.exists(REFERENCE):
        return None
    with open(REFERENCE, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    text = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    permitted = {"permits_torch": "--permit-torch" in sys.argv, "gradients": "--gradients" in sys.argv}
    print(json.dumps(check(text, reference=reference(), **permitted)))
