"""Checks CUDA C++ of inline extensions: as C++, and by lists of its own for headers, names of the CUDA runtime and PTX."""

import re

from source_cpp import CPP_TOKENS, INCLUDES, check_cpp, joined, replaced
from source_rules import Refused

# The processor only launches kernels, so vectors and threads of its own are left out.
CUDA_INCLUDES = INCLUDES - {"immintrin.h", "omp.h", "arm_neon.h", "ATen/Parallel.h", "ATen/cpu/vec/vec.h"} | {
    "cuda.h", "cuda_bf16.h", "cuda_fp16.h", "cuda_fp8.h", "cuda_pipeline.h", "cuda_pipeline_primitives.h", "cuda_runtime.h",
    "cuda_runtime_api.h", "device_launch_parameters.h", "math_constants.h", "mma.h", "vector_types.h", "cooperative_groups.h",
    "cooperative_groups/memcpy_async.h", "cooperative_groups/reduce.h", "cooperative_groups/scan.h", "cuda/atomic", "cuda/barrier",
    "cuda/pipeline", "cuda/std/array", "cuda/std/cmath", "cuda/std/cstdint", "cuda/std/limits", "cuda/std/tuple", "cuda/std/type_traits",
    "cuda/std/utility", "cub/block/block_load.cuh", "cub/block/block_radix_sort.cuh", "cub/block/block_reduce.cuh",
    "cub/block/block_scan.cuh", "cub/block/block_store.cuh", "cub/warp/warp_reduce.cuh", "cub/warp/warp_scan.cuh",
    "ATen/cuda/CUDAContext.h", "c10/cuda/CUDAException.h", "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAStream.h",
}
# Names of the CUDA runtime: launches, attributes of kernels and of the card, copies on the card. The functions among them stand in
# crates/module/src/symbols.rs, too.
RUNTIME = {
    "cudaError", "cudaError_t", "cudaStream_t", "cudaDeviceProp", "cudaFuncAttribute", "cudaFuncAttributes", "cudaLaunchAttribute",
    "cudaLaunchConfig_t", "cudaSuccess", "cudaMemcpyDeviceToDevice", "cudaFuncAttributeMaxDynamicSharedMemorySize",
    "cudaFuncAttributeNonPortableClusterSizeAllowed", "cudaFuncAttributePreferredSharedMemoryCarveout", "cudaSharedmemCarveoutMaxShared",
    "cudaLaunchAttributeClusterDimension", "cudaLaunchAttributeCooperative", "cudaLaunchAttributeProgrammaticStreamSerialization",
    "cudaDevAttrComputeCapabilityMajor", "cudaDevAttrComputeCapabilityMinor", "cudaDevAttrMaxSharedMemoryPerBlock",
    "cudaDevAttrMaxSharedMemoryPerBlockOptin", "cudaDevAttrMaxSharedMemoryPerMultiprocessor", "cudaDevAttrMaxThreadsPerBlock",
    "cudaDevAttrMultiProcessorCount", "cudaDevAttrWarpSize", "cudaDeviceGetAttribute", "cudaDeviceSynchronize", "cudaFuncGetAttributes",
    "cudaFuncSetAttribute", "cudaGetDevice", "cudaGetErrorName", "cudaGetErrorString", "cudaGetLastError", "cudaLaunchCooperativeKernel",
    "cudaLaunchKernel", "cudaLaunchKernelEx", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cudaOccupancyMaxPotentialBlockSize", "cudaPeekAtLastError", "cudaStreamSynchronize", "cudaGridDependencySynchronize",
    "cudaTriggerProgrammaticLaunchCompletion",
}
# Names of the runtime, of its parts that the compiler calls, and of the driver.
NAMES = re.compile(r"(?<![\w$])(?:_*cu(?:da)?[A-Z]\w*|_+cuda\w*|CU[a-z]\w*|__managed__)")
# Words that no kernel needs, with the rule that refuses them; `$` is a letter to the compiler.
WORDS = {
    "cpp_timing": r"clock(?:64)?|__clock\w*|_{0,2}nanosleep|_{0,2}globaltimer\w*|__nv_clock\w*|__nvvm\w*|get_sreg_\w*clock\w*"
    r"|get_sreg_globaltimer\w*",
    "cuda_library": r"(?:cublas|cudnn|cusparse|cusolver|cufft|curand|cutensor|nccl|nvrtc|nvml|nvjit)\w*|thrust|cub\s*::\s*Device\w*"
    r"|\w*(?:Blas|BlasLt|Sparse|SolverDn)Handle",
    "cuda_stream": r"get(?:NonCapturing)?StreamFrom\w+|setCurrentCUDAStream|\w*StreamGuard|CUDAEvent\w*|CUDAGraph\w*|CUDACachingAllocator"
    r"|\w+_cast\s*<\s*cudaStream_t\b",
    "cuda_printing": r"v?printf",
    # Memory of the device's heap outlives a call.
    "cuda_runtime": r"new|malloc|calloc|realloc|\w*device_malloc",
}
WORDS = {rule: re.compile(r"(?<![\w$])(?:" + words + r")(?![\w$])") for rule, words in WORDS.items()}
# A number that stands for a stream: 2 is one beside the current one.
NUMBERED_STREAM = re.compile(r"\bcudaStream_t\s*\)?[({\s]*(?:0[xXbB\d']|[1-9])")
LAUNCH = re.compile(r"<<<|\bcudaLaunch(?:Cooperative)?Kernel")

# An assembler statement with constant text, found beside the other tokens: in a string it is none.
PTX_STATEMENT = r"(?P<ptx>(?<![\w$])(?:asm|__asm__|__asm)\s*(?:(?:volatile|__volatile__)\s*)?\(\s*(?P<text>(?:\"(?:\\.|[^\"\\\n])*\"\s*)+)(?=[:)]))"
PTX_TOKENS = re.compile(PTX_STATEMENT + "|" + CPP_TOKENS.pattern, re.S)
# Instructions for numbers, memory, synchronisation and matrices. Those that sleep, end a kernel or call functions are left out.
PTX = {
    ".reg", "abs", "activemask", "add", "and", "atom", "bar", "barrier", "bfe", "bfi", "bfind", "bra", "brev", "clz", "copysign", "cos", "cp",
    "createpolicy", "cvt", "cvta", "div", "dp2a", "dp4a", "elect", "ex2", "fence", "fma", "fns", "getctarank", "griddepcontrol", "ld", "ldmatrix",
    "ldu", "lg2", "lop3", "mad", "mapa", "match", "max", "mbarrier", "membar", "min", "mma", "mov", "movmatrix", "mul", "neg", "not", "or",
    "popc", "prefetch", "prefetchu", "prmt", "rcp", "red", "redux", "rem", "rsqrt", "sad", "selp", "set", "setmaxnreg", "setp", "shf", "shfl",
    "shl", "shr", "sin", "slct", "sqrt", "st", "stmatrix", "sub", "szext", "tanh", "testp", "vote", "wgmma", "xor",
}
# Special registers that name the place of a thread; others are clocks, counters or belong to the driver.
PTX_REGISTERS = re.compile(
    r"\d+|(?:p|r|rd|rs|f|fd|h)\d*|laneid|warpid|n?tid|n?ctaid|(?:is_explicit_cluster|n?clusterid|cluster_n?ctaid|cluster_n?ctarank)"
    r"|lanemask_(?:eq|le|lt|ge|gt)|(?:dynamic|total)_smem_size"
)
PTX_INSTRUCTION = re.compile(r"(?:@!?%?\w+\s+)?(\.?[a-z]\w*)((?:\.|::)\w+)*(?:\s[\w%.,:\[\]{}()<>+*|!\s-]*)?")
# The beginning of a line that continues the operands of the line before. A name must be a register that the statement declares.
PTX_OPERANDS = re.compile(r"[\s\[\]{}(),]*(?:%\w|-?\d+\s*(?:[,}\])]|$)|(?P<name>[A-Za-z]\w*)\s*,|$)")
# The constraints that may follow the text, their expressions taken out. Other ones paste text or addresses into the PTX.
PTX_OPERAND = r"\"[=+]?[hrlqfdn]\"\s*\(\)\s*"
PTX_OPERAND_LIST = rf":\s*(?:{PTX_OPERAND}(?:,\s*{PTX_OPERAND})*)?"
PTX_CLOBBERS = r":\s*(?:\"(?:memory|cc)\"\s*(?:,\s*\"(?:memory|cc)\"\s*)*)?"
PTX_REST = re.compile(rf"\s*(?:{PTX_OPERAND_LIST}(?:{PTX_OPERAND_LIST}(?:{PTX_CLOBBERS})?)?)?")
PARENTHESES = re.compile(CPP_TOKENS.pattern + r"|(?P<sign>[()#])", re.S)


def check_ptx(text, node):
    """Refuses instructions and special registers of PTX that are not in the lists."""
    text = text.replace("\\n", "\n").replace("\\t", " ").replace("%%", "%")
    if "\\" in text:
        raise Refused("cuda_ptx", node, "escaped characters but line ends and tabs are not permitted in PTX")
    for register in re.findall(r"%(\w+)", text):
        if not PTX_REGISTERS.fullmatch(register):
            raise Refused("cuda_ptx", node, f"the register `%{register}` of PTX is not permitted")
    declared = {name for listed in re.findall(r"\.reg\s([^;]*)", text) for name in re.findall(r"\w+", listed)}
    for statement in text.split(";"):
        # Braces open and close blocks, and labels may stand before an instruction.
        statement = re.sub(r"^(?:[\s{}]|\$?\w+:(?!:))+", "", statement).rstrip()
        found = PTX_INSTRUCTION.fullmatch(statement)
        if statement and not (found and found.group(1) in PTX):
            raise Refused("cuda_ptx", node, f"`{statement[:60]}` is not in the list of PTX instructions")
        # In a function of the host, the assembler takes each line as an instruction of the processor.
        for line in statement.split("\n")[1:]:
            found = PTX_OPERANDS.match(line)
            if not found or found.group("name") and found.group("name") not in declared:
                raise Refused("cuda_ptx", node, f"the line `{line.strip()[:60]}` of PTX does not continue operands; end instructions with `;`")


def check_operands(code, at, node):
    """Refuses operands of an assembler statement with other constraints than those for registers and numbers."""
    rest, depth = "", 0
    for token in PARENTHESES.finditer(code, at):
        sign = token.group("sign")
        if depth == 0:
            rest += code[at : token.start()]
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth < 0 or sign == "#":
            break
        # Expressions are checked as the rest of the source is.
        if depth == 0 or depth == 1 and sign == "(":
            rest += token.group()
        at = token.end()
    if depth >= 0 or not PTX_REST.fullmatch(rest):
        raise Refused("cuda_ptx", node, "operands of PTX have the constraints h, r, l, q, f, d and n, no names, and clobber memory only")


def check_macros(code, node):
    """Refuses macros that close parentheses which they do not open, since they would end the operand of a statement."""
    for body in re.findall(r"(?m)^\s*#\s*define\b([^\n]*)", code):
        depth = 0
        for token in PARENTHESES.finditer(body):
            depth += {"(": 1, ")": -1}.get(token.group("sign"), 0)
            if depth < 0:
                break
        if depth:
            raise Refused("cuda_ptx", node, f"`#define{body[:60]}`: macros open and close the same parentheses beside PTX")


def without_ptx(text, node):
    """The source without comments, and without assembler statements that were checked. Others stay, and are refused as in C++."""
    code = replaced(joined(text, node), node, lambda literal: literal)
    statements = 0

    def one(match):
        nonlocal statements
        if match.group("ptx") is None:
            return match.group()
        statements += 1
        check_ptx("".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group("text"))), node)
        check_operands(code, match.end(), node)
        return "("

    checked = PTX_TOKENS.sub(one, code)
    if statements:
        check_macros(code, node)
    return checked


def check_names(code, node):
    """Refuses names of the CUDA runtime and words that are not permitted in code without comments and strings."""
    for rule, words in WORDS.items():
        found = words.search(code)
        if found:
            raise Refused(rule, node, f"`{found.group()}` is not permitted in CUDA sources")
    if NUMBERED_STREAM.search(code):
        raise Refused("cuda_stream", node, "a number does not stand for a stream here; take c10::cuda::getCurrentCUDAStream()")
    for name in NAMES.findall(code):
        if name not in RUNTIME:
            raise Refused("cuda_runtime", node, f"`{name}` is not in the list of names of the CUDA runtime")


def check_cuda(cpp, cuda, functions, node):
    """Refuses what no kernel needs in the C++ and the CUDA C++ of an extension, and one that launches no kernel."""
    check_names(check_cpp(cpp, functions, node, CUDA_INCLUDES), node)
    code = check_cpp(without_ptx(cuda, node), functions, node, CUDA_INCLUDES)
    check_names(code, node)
    if "__global__" not in code or not LAUNCH.search(code):
        raise Refused("unreachable_kernel", node, "the CUDA source launches no kernel")
