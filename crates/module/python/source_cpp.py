"""Checks the C++ of inline extensions by words: comments and strings do not count."""

import re

from source_rules import Refused

INCLUDES = {
    "algorithm", "array", "bit", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstring", "functional", "initializer_list", "iterator",
    "limits", "memory", "numeric", "optional", "string", "tuple", "type_traits", "utility", "vector", "immintrin.h", "omp.h", "arm_neon.h",
    "torch/extension.h", "torch/torch.h", "torch/types.h", "torch/all.h", "ATen/ATen.h", "ATen/Parallel.h", "ATen/cpu/vec/vec.h",
    "ATen/Dispatch.h", "c10/util/BFloat16.h", "c10/util/Half.h", "math.h", "stdint.h", "string.h", "float.h", "limits.h", "stddef.h",
}
# Words of C++ that no numeric kernel needs, with the rule that refuses them. Common words count only as calls, since kernels name their
# variables so; a function that is reached without a call in the text is an undefined symbol of the object, which is checked too.
CALL = r"\s*\("
CPP_WORDS = {
    "machine_code": r"_Pragma|__pragma|__asm__|__asm|asm|incbin|_emit|constructor|destructor|ifunc|weakref|(?:section|init_priority|alias)" + CALL,
    "process": r"(?:system|popen|fork|vfork|exec[lv]p?e?|posix_spawnp?|clone|kill|raise|abort|_?exit|_Exit|quick_exit|ptrace|syscall|prctl"
    r"|signal|sigaction|atexit|at_quick_exit)" + CALL,
    "thread": r"std\s*::\s*(?:thread|jthread|async|future|promise|launch)|pthread_\w+|sched_\w+|intraop_launch|co_await|co_yield",
    "file": r"ifstream|ofstream|fstream|filesystem|(?:fopen|freopen|open|openat|creat|p?read|p?write|unlink|remove|rename|mkdir|opendir)" + CALL,
    "network": r"(?:socket|connect|bind|listen|accept|sendto|recvfrom|getaddrinfo)" + CALL,
    "timing": r"chrono|\w*rdtscp?\w*|steady_clock|(?:clock|clock_gettime|gettimeofday|time|nanosleep|usleep|sleep|omp_get_wtime|times)" + CALL,
    "memory_map": r"(?:mmap|munmap|mprotect|mremap|madvise|shm_open|memfd_create|dl_iterate_phdr|process_vm_readv|process_vm_writev)" + CALL,
    "loader": r"environ|(?:dlm?open|dlv?sym|dladdr1?|dlclose|(?:secure_)?getenv|setenv|putenv)" + CALL,
    "interpreter": r"py|pybind11|PyObject|Py_\w+|Py[A-Z]\w*|PYBIND11_\w+|TORCH_LIBRARY\w*|Dispatcher|OperatorHandle|redispatch|_ops"
    r"|cpp_custom_type_hack|THP\w*|toPyObject|(?:native|jit|script|autograd)\s*::",
}
# A member of that name is no such word; `>` alone would excuse an operand of a comparison, too.
CPP_WORDS = {rule: re.compile(r"(?<![\w.])(?<!->)(?:" + words + r")(?:(?<=[(:])|(?!\w))") for rule, words in CPP_WORDS.items()}
# Members that lead from a tensor to its Python object.
CPP_MEMBERS = re.compile(r"\b(?:\w*pyobj\w*|ob_type)\b")
# Numbers come first, since a quotation mark may separate their digits. The last alternative is a mark that ends nowhere.
CPP_TOKENS = re.compile(
    r"(?P<number>(?<![\w$])\.?[0-9](?:[eEpP][+-]|'?[\w$]|\.)*)|(?P<string>\"(?:\\.|[^\"\\\n])*\")|(?P<char>'(?:\\.|[^'\\\n])*')"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<open>[\"']|/\*)",
    re.S,
)


def replaced(text, node, string):
    """C++ without comments; `string` gives the text that stands for a string or a character."""

    def one(match):
        if match.lastgroup == "open":
            raise Refused("cpp_preprocessor", node, "a quotation mark or a comment has no end")
        if match.lastgroup in ("string", "char"):
            return string(match.group())
        return " " if match.lastgroup == "comment" else match.group()

    return CPP_TOKENS.sub(one, text)


def check_words(code, node):
    """Refuses words in C++ whose comments and strings were taken out."""
    for rule, words in CPP_WORDS.items():
        found = words.search(code) or rule == "interpreter" and CPP_MEMBERS.search(code)
        if found:
            raise Refused("cpp_" + rule, node, f"`{found.group()}` is not permitted in C++ sources")


def joined(text, node):
    """C++ whose words are those that the compiler sees; refuses literals and signs by which they could be others."""
    # The compiler joins lines before it looks for words, also where spaces follow the backslash.
    text = re.sub(r"\\[ \t\r\f\v]*\n", "", text)
    if "??" in text or "%:" in text:
        raise Refused("cpp_preprocessor", node, "trigraphs and digraphs are not permitted")
    if re.search(r'R"[^()\\ ]{0,16}\(', text):
        raise Refused("cpp_preprocessor", node, "raw string literals are not permitted in C++ sources")
    return text


def check_cpp(text, functions, node, includes=INCLUDES):
    """Refuses directives, headers and words of C++ that no numeric kernel needs. The binding calls `functions`. Returns the code without
    headers, comments, strings and characters."""
    text = joined(text, node)
    code = replaced(text, node, lambda literal: literal)
    for line in code.split("\n"):
        directive = re.match(r"\s*#\s*(\w*)\s*(.*)", line)
        if not directive:
            continue
        word, rest = directive.groups()
        if word == "include":
            header = re.fullmatch(r"[<\"]([\w./+]+)[>\"]\s*", rest)
            if not header or header.group(1) not in includes:
                raise Refused("cpp_include", node, f"`#include {rest.strip()[:60]}` is not permitted")
        elif word == "pragma":
            if not re.match(r"(omp|GCC\s+(ivdep|unroll|optimize|target)|once|unroll)\b", rest):
                raise Refused("cpp_preprocessor", node, f"`#pragma {rest.strip()[:60]}` is not permitted")
        elif word == "define":
            # The binding, which is ours, is compiled after the source: a macro must not change its words.
            name = re.match(r"\w*", rest).group()
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or name in functions:
                raise Refused("cpp_preprocessor", node, f"`#define {name[:60]}`: names of macros are in capital letters here")
        elif word not in ("define", "undef", "if", "ifdef", "ifndef", "else", "elif", "endif", ""):
            raise Refused("cpp_preprocessor", node, f"`#{word}` is not permitted")
        if "##" in rest:
            raise Refused("cpp_preprocessor", node, "`##` joins words that this check would have to know")
    code = re.sub(r"#\s*include[^\n]*", "", replaced(text, node, lambda literal: literal[0] * 2))
    check_words(code, node)
    check_words("\n".join(f"{f}(" for f in functions), node)
    return code
