"""The names that a module candidate may use, and the refusal that names a rule."""

import ast
import re

IMPORTS = {
    "torch": "torch",
    "torch.nn": "nn",
    "torch.nn.functional": "functional",
    "math": "math",
    "typing": "typing",
    "torch.utils.cpp_extension": "cpp_extension",
    "triton": "triton",
    "triton.language": "triton.language",
    "__future__": "future",
}
FROM_TORCH = {"nn": "nn", "Tensor": "annotation"}
# The module `typing` holds modules, too.
FROM_TYPING = {
    "Any", "Callable", "Dict", "Final", "FrozenSet", "Iterable", "List", "Literal", "Mapping", "NamedTuple", "Optional", "Sequence", "Set", "Tuple",
    "Type", "Union",
}
BUILTINS = {
    "abs", "bool", "dict", "enumerate", "float", "int", "isinstance", "len", "list", "max", "min", "range", "reversed", "round", "str",
    "sum", "super", "tuple", "zip", "RuntimeError", "ValueError", "TypeError", "AssertionError", "NotImplementedError",
}
# Decorators of methods that stand for themselves; a file or a class with such a name of its own would mean something else.
DECORATORS = {"property", "staticmethod"}
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
SCALAR_ATTRIBUTES = {"shape", "ndim", "dtype", "device", "is_cpu", "is_cuda", "layout", "requires_grad"}
DTYPES = {
    "float32", "float64", "float16", "bfloat16", "float", "double", "half", "int8", "int16", "int32", "int64", "uint8", "long", "int",
    "bool", "contiguous_format", "channels_last", "strided",
}
# Attributes that lead from an object to the interpreter, to files, or to memory by address.
FORBIDDEN_ATTRIBUTES = {
    "data", "data_ptr", "storage", "untyped_storage", "untyped", "numpy", "tolist", "item", "set_", "resize_", "ops", "jit", "compile", "hub",
    "multiprocessing", "distributed", "library", "overrides", "serialization", "load", "save", "backends", "cuda", "utils", "autograd",
    "f_globals", "f_locals", "f_back", "gi_frame", "cr_frame", "tb_frame", "register_forward_hook", "register_forward_pre_hook",
    "share_memory_", "from_file", "set_num_threads", "set_default_dtype", "manual_seed", "get_device_module", "builtins", "importlib", "inspect",
    "sys", "os", "ctypes", "exec", "eval", "system", "CompilationUnit",
}
CFLAG = re.compile(
    r"-O[0123s]|-Ofast|-march=native|-mtune=native|-ffast-math|-fno-math-errno|-fopenmp|-fopenmp-simd|-funroll-loops|-ffp-contract=\w+"
    r"|-fno-trapping-math|-fassociative-math|-freciprocal-math|-fno-signed-zeros|-ffinite-math-only|-fno-finite-math-only"
    r"|-mprefer-vector-width=\d+|-ftree-vectorize|-mfma|-mavx2|-mavx512\w+|-Wall|-w|-g0|-DNDEBUG|-std=(c|gnu)\+\+(17|20)"
)
# The GPUs are the evaluator's choice, so flags that name them are left out.
CUDA_CFLAG = re.compile(
    r"-O[0-3]|--?use_fast_math|-lineinfo|--generate-line-info|--?maxrregcount=\d{1,3}|--(ftz|fmad|prec-div|prec-sqrt)=(true|false)"
    r"|(-Xptxas|--ptxas-options)(=-v|=-O[0-3])?|-v|--(expt-relaxed-constexpr|expt-extended-lambda|extended-lambda)|-DNDEBUG|-std=c\+\+(17|20)"
    r"|-U__CUDA_NO_(HALF|HALF2|BFLOAT16|BFLOAT162)_(OPERATORS|CONVERSIONS)__"
)
# Beginnings of the private names of torch.nn.Module.
PRIVATE = re.compile(
    r"_(apply|backward|buffers|call|compiled|forward|get|infer|is_|load|maybe|modules|named|non|parameters|register|replicate|save|slow"
    r"|state|version|wrapped|_)"
)
ANNOTATION = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.BitOr, ast.Load)


def annotation(node):
    """Refuses an annotation that does more than name types: Python evaluates it when it defines a function."""
    for part in ast.walk(node) if node is not None else ():
        private = isinstance(part, ast.Attribute) and part.attr.startswith("_")
        if not isinstance(part, ANNOTATION) or private:
            raise Refused("expression", part if hasattr(part, "lineno") else node, f"the annotation `{ast.unparse(node)[:80]}` is not permitted")


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
