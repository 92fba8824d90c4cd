"""Checks classes that give a function and its gradient: `torch.autograd.Function` with `forward` and `backward`.

Only problems that ask for gradients permit them. Both methods keep the rules of all functions: they may move and view tensors, call a
compiled extension and launch kernels. Their first parameter holds what `forward` keeps for `backward`, for one call: tensors by
`save_for_backward`, and numbers as attributes.
"""

import ast

from source_body import Body
from source_rules import FORBIDDEN_ATTRIBUTES, Refused, dotted

# Methods of the first parameter that `forward` may call.
NOTES = {"save_for_backward", "mark_non_differentiable"}
# Names that PyTorch gives the first parameter.
NAMES = NOTES | {
    "apply", "backward", "dirty_tensors", "forward", "jvp", "mark_dirty", "mark_shared_storage", "materialize_grads", "maybe_clear_saved_tensors",
    "metadata", "name", "needs_input_grad", "next_functions", "non_differentiable", "register_hook", "register_prehook", "save_for_forward",
    "saved_for_forward", "saved_tensors", "saved_variables", "set_materialize_grads", "setup_context", "to_save", "vjp", "vmap",
}
NUMBERS = ("int", "float", "bool", "str")


def is_function(check, node):
    """True for a class that gives a function and its gradient."""
    names = dotted(node.bases[0]) if len(node.bases) == 1 else None
    if not names or not check.gradients:
        return False
    kind = check.modules.get(names[0])
    return kind == "torch" and names[1:] == ["autograd", "Function"] or kind == "autograd.Function" and len(names) == 1


def members(found):
    """Notes the methods of such a class, and refuses one with anything else."""
    node = found.node
    if node.keywords or node.decorator_list or getattr(node, "type_params", None):
        raise Refused("class", node, "keywords and decorators of classes are not permitted")
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name in ("forward", "backward") and member.name not in found.methods:
            method(member)
            found.methods[member.name] = member
        elif not (isinstance(member, ast.Expr) and isinstance(member.value, ast.Constant) or isinstance(member, ast.Pass)):
            raise Refused("class", member, "a torch.autograd.Function may only have one `forward`, one `backward` and a text that describes it")
    if len(found.methods) != 2:
        raise Refused("class", node, "a torch.autograd.Function needs `forward` and `backward`")


def method(node):
    if [ast.unparse(decorator) for decorator in node.decorator_list] != ["staticmethod"]:
        raise Refused("decorator", node, f"`{node.name}` of a torch.autograd.Function has the decorator `staticmethod` and no other")
    given = node.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or not given.args:
        raise Refused("class", node, f"`{node.name}` of a torch.autograd.Function lists its parameters by name, `ctx` first")
    # PyTorch passes tensors to `backward`, whatever it says.
    for argument in given.args if node.name == "backward" else given.args[:1]:
        if argument.annotation is not None and ast.unparse(argument.annotation) in NUMBERS:
            raise Refused("torch_operator", node, f"`{argument.arg}` of `{node.name}` is no number")


class Differentiable(Body):
    """The statements of `forward` or `backward`. `found` is the class."""

    def __init__(self, check, found, node):
        super().__init__(check, None, node, building=False)
        self.found, self.context = found, node.args.args[0].arg

    def given(self):
        return {self.context: "context"}

    def is_context(self, node):
        return isinstance(node, ast.Name) and node.id == self.context

    def target(self, target, kind):
        if self.is_context(target):
            self.refuse("rebinding", target, f"`{self.context}` is bound twice")
        if not (isinstance(target, ast.Attribute) and self.is_context(target.value)):
            return super().target(target, kind)
        if self.node.name != "forward" or kind != "scalar":
            self.refuse("state", target, f"`{ast.unparse(target)}` may only be set by `forward`, to a number; keep tensors by `save_for_backward`")
        if target.attr.startswith("_") or target.attr in NAMES | FORBIDDEN_ATTRIBUTES:
            self.refuse("monkey_patch", target, f"the attribute `{target.attr}` has a meaning of its own")
        self.found.attributes[target.attr] = "scalar"

    def of_Name(self, node):
        if self.is_context(node):
            self.refuse("state", node, f"`{self.context}` may only keep and give what one call needs")
        return super().of_Name(node)

    def of_Attribute(self, node):
        if not self.is_context(node.value):
            return super().of_Attribute(node)
        if node.attr == "saved_tensors":
            return "tensor"
        if node.attr == "needs_input_grad" or node.attr in self.found.attributes:
            return "scalar"
        self.refuse("forbidden_attribute", node, f"`forward` keeps nothing by the name `{node.attr}`")

    def of_Call(self, node):
        function = node.func
        if not (isinstance(function, ast.Attribute) and self.is_context(function.value)):
            return super().of_Call(node)
        if self.node.name != "forward" or function.attr not in NOTES or node.keywords:
            self.refuse("call", node, f"`{ast.unparse(node)[:80]}` is not permitted")
        for argument in node.args:
            self.kind(argument)
        return "tensor"
