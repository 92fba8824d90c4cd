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
    "machine_code": r"__asm__|__asm|asm|incbin|_emit|constructor|destructor|ifunc|weakref|(?:section|init_priority|alias)" + CALL,
    "process": r"(?:system|popen|fork|vfork|exec[lv]p?e?|posix_spawnp?|clone|kill|raise|abort|_?exit|_Exit|quick_exit|ptrace|syscall|prctl"
    r"|signal|sigaction|atexit|at_quick_exit)" + CALL,
    "thread": r"std\s*::\s*(?:thread|jthread|async|future|promise|launch)|pthread_\w+|sched_\w+|intraop_launch|co_await|co_yield",
    "file": r"ifstream|ofstream|fstream|filesystem|(?:fopen|freopen|open|openat|creat|p?read|p?write|unlink|remove|rename|mkdir|opendir)" + CALL,
    "network": r"(?:socket|connect|bind|listen|accept|sendto|recvfrom|getaddrinfo)" + CALL,
    "timing": r"chrono|_{0,2}rdtscp?|steady_clock|(?:clock|clock_gettime|gettimeofday|time|nanosleep|usleep|sleep|omp_get_wtime|times)" + CALL,
    "memory_map": r"(?:mmap|munmap|mprotect|mremap|madvise|shm_open|memfd_create|dl_iterate_phdr|process_vm_readv|process_vm_writev)" + CALL,
    "loader": r"environ|(?:dlm?open|dlv?sym|dladdr1?|dlclose|(?:secure_)?getenv|setenv|putenv)" + CALL,
    "interpreter": r"py|pybind11|PyObject|Py_\w+|Py[A-Z]\w*|PYBIND11_\w+|TORCH_LIBRARY\w*|Dispatcher|OperatorHandle|redispatch|_ops"
    r"|cpp_custom_type_hack|(?:native|jit|script|autograd)\s*::",
}
CPP_WORDS = {rule: re.compile(r"(?<![\w.>])(?:" + words + r")(?:(?<=[(:])|(?!\w))") for rule, words in CPP_WORDS.items()}


def strip_cpp(text):
    """C++ without comments; strings keep their length, so that a comment mark in a string is not taken for one."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: m.group() if m.group()[0] in "\"'" else " ", text, flags=re.S)


def check_cpp(text, node):
    """Refuses directives, headers and words of C++ that no numeric kernel needs."""
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
