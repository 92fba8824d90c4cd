//! The symbols that an extension takes from other libraries.
//!
//! PyTorch's C++ functions are inline and call an operator by its name, so the undefined symbols of an object name every
//! operator that it calls. Its libraries export other functions that compute, so an object may need no others than those in
//! a list.

use flopsmith_inspect::object_audit::is_openmp;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

use crate::check::Refusal;

/// Operators for memory and shapes. All others compute.
const OPERATORS: &[&str] = &[
    "as_strided",
    "chunk",
    "clone",
    "contiguous",
    "copy_",
    "detach",
    "empty",
    "empty_like",
    "empty_strided",
    "expand",
    "fill_",
    "flatten",
    "full",
    "full_like",
    "movedim",
    "narrow",
    "new_empty",
    "new_zeros",
    "ones",
    "ones_like",
    "permute",
    "reshape",
    "resize_",
    "select",
    "slice",
    "split",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
    "view",
    "zero_",
    "zeros",
    "zeros_like",
    "is_contiguous",
    "size",
    "stride",
    "numel",
    "item",
];

/// Functions of the C library and of the compiler's runtime libraries.
const PLAIN: &[&str] = &[
    "abort",
    "calloc",
    "fflush",
    "fprintf",
    "fputc",
    "fputs",
    "free",
    "fwrite",
    "malloc",
    "memchr",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "posix_memalign",
    "aligned_alloc",
    "realloc",
    "snprintf",
    "stderr",
    "strchr",
    "strcmp",
    "strdup",
    "strlen",
    "strncmp",
    "strstr",
    "strtol",
    "vsnprintf",
    "omp_get_max_threads",
    "omp_get_num_threads",
    "omp_get_thread_num",
    "omp_in_parallel",
];

/// Functions of the mathematics library, without the suffix for other types.
const MATHEMATICS: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "hypot",
    "ldexp",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logb",
    "lrint",
    "lround",
    "modf",
    "nearbyint",
    "nextafter",
    "pow",
    "remainder",
    "rint",
    "round",
    "scalbn",
    "sin",
    "sincos",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
    "llrint",
    "llround",
];

/// Functions of the CUDA runtime: launches, attributes of kernels and of the card, copies on the card. Sources may name those of
/// them that `source_cuda.py` lists; headers call the others.
const RUNTIME: &[&str] = &[
    "cudaDeviceGetAttribute",
    "cudaDeviceSynchronize",
    "cudaFuncGetAttributes",
    "cudaFuncSetAttribute",
    "cudaGetDevice",
    "cudaGetErrorName",
    "cudaGetErrorString",
    "cudaGetLastError",
    "cudaLaunchCooperativeKernel",
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cudaPeekAtLastError",
    "cudaStreamSynchronize",
];

/// Namespaces, classes and functions of PyTorch that extensions need, with all that lies within them. They are those that the
/// inline functions of its headers call for what [`OPERATORS`] permits, for data of tensors, for errors and for `at::parallel_for`,
/// and those that the binding to Python calls. libtorch exports tens of thousands of others, and some of them compute or load libraries.
const PYTORCH: &[&str] = &[
    "at::Tensor::item",
    "at::TensorBase::__dispatch_contiguous",
    "at::TensorBase::const_data_ptr",
    "at::TensorBase::data_ptr",
    "at::TensorBase::mutable_data_ptr",
    "at::TensorMaker::make_tensor",
    "at::get_num_threads",
    "at::get_thread_num",
    "at::in_parallel_region",
    "at::init_num_threads",
    "at::internal::set_thread_num",
    "c10::AutogradMetaInterface",
    "c10::AutogradState",
    "c10::Error",
    "c10::GradMode",
    "c10::IndexError",
    "c10::NotImplementedError",
    "c10::ParallelGuard",
    "c10::SmallVectorBase",
    "c10::StorageImpl::throw_data_ptr_access_error",
    "c10::SymBool",
    "c10::SymFloat",
    "c10::SymInt",
    "c10::SymbolicShapeMeta",
    "c10::TensorImpl",
    "c10::TypeError",
    "c10::UndefinedTensorImpl",
    "c10::ValueError",
    "c10::Warning",
    "c10::detail::maybe_wrap_dim_slow",
    "c10::detail::torchCheckFail",
    "c10::detail::torchInternalAssertFail",
    "c10::impl::ExcludeDispatchKeyGuard",
    "c10::impl::_force_tls_local_dispatch_key_set",
    "c10::impl::cow",
    "c10::impl::raw_local_dispatch_key_set",
    "c10::operator<<",
    "c10::report_overflow",
    "c10::throwNullDataPtrError",
    "c10::warn",
    "c10::warnDeprecatedDataPtr",
    "caffe2::TypeMeta",
    "pybind11::detail::type_caster",
    "torch::PyWarningHandler",
    "torch::autograd::AutogradMeta",
    "torch::translate_exception_to_python",
];

/// The same for extensions in CUDA C++: the current stream, properties of the card, checks of errors.
const PYTORCH_CUDA: &[&str] = &[
    "at::cuda",
    "c10::Stream",
    "c10::cuda",
    "c10::impl::device_guard_impl_registry",
];

/// Namespaces of the standard library of C++ and of the compiler.
const STANDARD: &[&str] = &["__cxxabiv1", "__gnu_cxx", "std"];

/// Beginnings of the global operators `new` and `delete`, and of the type information of types without a class.
const GLOBAL: &[&str] = &["_Znw", "_Zna", "_Zdl", "_Zda", "_ZTI", "_ZTS"];

/// Parts of mangled names that lead to threads, files, clocks or to PyTorch's tables of operators, in namespaces that are
/// permitted otherwise.
const FORBIDDEN: &[&str] = &[
    "10Dispatcher",
    "14OperatorHandle",
    "at6native",
    "2at6native",
    "2at3cpu",
    "2at4meta",
    "compositeexplicitautograd",
    "compositeimplicitautograd",
    "9functorch",
    "17functionalization",
    "12VariableType",
    "5torch2nn",
    "5torch4lazy",
    "6fbgemm",
    // Pools that run functions after a call has returned.
    "2at6launch",
    "intraop_launch",
    "launch_no_thread_state",
    "3jit",
    "8autograd8Function",
    "_ZNSt6thread",
    "6chrono",
    "basic_ifstream",
    "basic_ofstream",
    "basic_fstream",
    "basic_filebuf",
    "10filesystem",
    "6future",
    "13__future_base",
    "18condition_variable",
    "5async",
    "random_device",
    "ThreadPool",
    "4mkldnn",
    "4blas",
    "2at4blas",
    "10TensorIterator",
    "18TensorIteratorBase",
    // Streams beside the current one, and memory beside that of tensors.
    "getStreamFrom",
    "StreamFromPool",
    "setCurrentCUDAStream",
    "CUDACachingAllocator",
    "9CUDAGraph",
    "9CUDAEvent",
    "BlasHandle",
    "BlasLtHandle",
    "SparseHandle",
    "SolverDnHandle",
];

/// Beginnings of functions that run Python; the binding needs none of them.
const INTERPRETER: &[&str] = &[
    "PyRun_",
    "PyEval_EvalCode",
    "Py_CompileString",
    "PyImport_Exec",
];

/// Checks the undefined symbols of a shared object, which may need the CUDA runtime if it is `with_cuda`.
///
/// # Errors
/// The first symbol that no extension needs, with the rule `operator` or `symbol`.
pub(crate) fn audit(object: &[u8], with_cuda: bool) -> Result<(), Refusal> {
    let refused = |rule: &str, detail: String| Refusal {
        rule: rule.into(),
        line: 0,
        detail,
    };
    let file = ElfFile64::<Endianness>::parse(object)
        .map_err(|e| refused("symbol", format!("the object cannot be read: {e}")))?;
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_undefined) {
        let name = symbol.name().unwrap_or("?");
        if let Some(operator) = operator(name) {
            if !OPERATORS.contains(&operator) {
                return Err(refused(
                    "operator",
                    format!(
                        "the extension calls PyTorch's operator `{operator}`; it may only use those for shapes and memory"
                    ),
                ));
            }
        } else if !(permitted(name, with_cuda) || with_cuda && of_runtime(name)) {
            return Err(refused(
                "symbol",
                format!("the extension needs the symbol `{name}`, which is not permitted"),
            ));
        }
    }
    Ok(())
}

/// The operator that a symbol calls: `_ZN2at4_ops10empty_like4call…` calls `empty_like`, and `_ZN2at4_ops14transpose_int…`
/// an overload of `transpose`. None if the symbol is no operator.
fn operator(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("_ZN2at4_ops")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = rest[..digits].parse().ok()?;
    let name = rest.get(digits..digits + length)?;
    // An overload's name follows the operator's after an underscore; several operators have underscores themselves.
    let known = |o: &&&str| {
        name == **o
            || name
                .strip_prefix(**o)
                .and_then(|suffix| suffix.strip_prefix('_'))
                .is_some_and(|overload| OVERLOADS.contains(&overload))
    };
    Some(OPERATORS.iter().find(known).map_or(name, |o| *o))
}

/// Overloads of the permitted operators.
const OVERLOADS: &[&str] = &[
    "memory_format",
    "int",
    "Tensor",
    "Scalar",
    "sizes",
    "dim",
    "dims",
    "using_ints",
    "dtype",
    "Dimname",
    "start_length",
    "Tensor_Scalar",
    "int_int",
];

/// The function that nvcc calls in the host's body of each function for the card that is neither `inline` nor `static`. A candidate that
/// reaches it gains nothing: a process that ends in a call is the fault `exited`, whatever its code.
const HOST_BODY: &str = "exit";

/// True for a function of the CUDA runtime that is in the list, and for those that only code of nvcc calls: sources may not
/// call them.
fn of_runtime(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    RUNTIME.contains(&name) || name.starts_with("__cuda") || name == HOST_BODY
}

/// The qualified name at the beginning of a mangled one, as far as it consists of plain identifiers: `at::TensorBase::data_ptr` for
/// `_ZNK2at10TensorBase8data_ptrIfEEPT_v`, and the class for a constructor, a table of functions or a type information.
fn qualified(name: &str) -> String {
    let mut rest = name.strip_prefix("_Z").unwrap_or_default();
    if let Some(of) = rest.strip_prefix('T') {
        rest = of.get(1..).unwrap_or_default();
    }
    rest = rest.strip_prefix('N').unwrap_or(rest);
    rest = rest.trim_start_matches(['r', 'V', 'K', 'R', 'O']);
    let mut parts = Vec::new();
    if let Some(of) = rest.strip_prefix("St") {
        parts.push("std");
        rest = of;
    } else if ["Sa", "Sb", "Ss", "Si", "So", "Sd"]
        .iter()
        .any(|short| rest.starts_with(short))
    {
        // Abbreviations of classes in `std`, such as `So` for `std::ostream`.
        parts.push("std");
        rest = "";
    }
    loop {
        let (digits, text) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let Some((part, after)) = digits.parse().ok().and_then(|n| text.split_at_checked(n)) else {
            break;
        };
        parts.push(part);
        rest = after;
    }
    if rest.starts_with("ls") {
        parts.push("operator<<");
    }
    parts.join("::")
}

/// True for a mangled name of C++ that an extension may need.
fn permitted_in_cpp(name: &str, with_cuda: bool) -> bool {
    if FORBIDDEN.iter().any(|part| name.contains(part)) {
        return false;
    }
    let qualified = qualified(name);
    if qualified.is_empty() {
        return GLOBAL.iter().any(|begin| name.starts_with(begin));
    }
    let within = |place: &&str| {
        qualified
            .strip_prefix(*place)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    STANDARD.iter().chain(PYTORCH).any(&within) || with_cuda && PYTORCH_CUDA.iter().any(within)
}

fn permitted(name: &str, with_cuda: bool) -> bool {
    // The linker may keep the version of a symbol.
    let name = name.split('@').next().unwrap_or(name);
    // Vector versions of the mathematics library.
    if name.starts_with("_ZGV") {
        return true;
    }
    if name.starts_with("_Z") {
        return permitted_in_cpp(name, with_cuda);
    }
    // The binding, which is ours, calls Python; sources may not name these functions.
    if name.starts_with("Py") || name.starts_with("_Py") {
        return !INTERPRETER.iter().any(|begin| name.starts_with(begin));
    }
    let runtime = [
        "__cxa_", "_Unwind_", "_ITM_", "Sleef_", "__mulsc3", "__muldc3", "__divsc3", "__divdc3",
    ];
    let single = [
        "__gmon_start__",
        "__gxx_personality_v0",
        "__dynamic_cast",
        "__assert_fail",
        "__tls_get_addr",
        "__libc_single_threaded",
        "__stack_chk_fail",
        "__errno_location",
        "__memcpy_chk",
        "__memset_chk",
        "__fprintf_chk",
        "__snprintf_chk",
        "__vsnprintf_chk",
        "__memmove_chk",
        "__cpu_model",
        "__cpu_indicator_init",
    ];
    let mathematics = |name: &str| {
        let plain = name
            .strip_prefix("__")
            .and_then(|n| n.strip_suffix("_finite"));
        let name = plain.unwrap_or(name);
        let base = name.strip_suffix(['f', 'l']);
        MATHEMATICS.contains(&name) || base.is_some_and(|base| MATHEMATICS.contains(&base))
    };
    name.is_empty()
        || runtime.iter().any(|prefix| name.starts_with(prefix))
        || single.contains(&name)
        || PLAIN.contains(&name)
        || name.starts_with("GOMP_") && is_openmp(name)
        || mathematics(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_read_from_mangled_names() {
        for (symbol, expected) in [
            (
                "_ZN2at4_ops10empty_like4callERKNS_6TensorE",
                Some("empty_like"),
            ),
            (
                "_ZN2at4_ops13transpose_int4callERKNS_6TensorEll",
                Some("transpose"),
            ),
            (
                "_ZN2at4_ops11softmax_int4callERKNS_6TensorE",
                Some("softmax_int"),
            ),
            ("_ZN2at4_ops6matmul4callERKNS_6TensorES4_", Some("matmul")),
            ("_ZN2at4_ops4view4callERKNS_6TensorE", Some("view")),
            ("_ZN2at4_ops12view_as_real4callE", Some("view_as_real")),
            ("_ZNK2at10TensorBase8data_ptrIfEEPT_v", None),
            ("_ZN2at4_ops99x", None),
        ] {
            assert_eq!(operator(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn libraries_for_work_or_escape_are_refused_and_plain_ones_are_not() {
        for name in [
            "expf",
            "tanh",
            "memcpy",
            "GOMP_parallel",
            "PyList_New",
            "_ZGVdN8v_expf",
            "_Znwm",
            "__cxa_throw",
            "_ZNSt13runtime_errorC1EPKc",
            "_ZNSolsEi",
            "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc",
            "_ZTIPKc",
            "_ZTVN10__cxxabiv117__class_type_infoE",
            "_ZTVN5torch8autograd12AutogradMetaE",
            "_ZNK2at10TensorBase8data_ptrIfEEPT_v",
            "_ZN3c106detail14torchCheckFailEPKcS2_jS2_",
            "_ZN3c10lsERSoRKNS_6DeviceE",
            "_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb",
            "_ZTHN3c104impl26raw_local_dispatch_key_setE",
            "memcpy@GLIBC_2.14",
        ] {
            assert!(permitted(name, false), "{name}");
        }
        for name in [
            "system",
            "dlsym",
            "open",
            "write",
            "clock_gettime",
            "pthread_create",
            "cblas_sgemm",
            "sgemm_",
            "fork",
            "_ZNSt6chrono3_V212steady_clock3nowEv",
            "_ZNSt6thread15_M_start_threadE",
            "_ZN3c1010Dispatcher9singletonEv",
            "_ZN2at6native3mulE",
            "_ZN2at25compositeimplicitautograd6matmulERKNS_6TensorES3_",
            "_ZN2at4meta8_softmaxERKNS_6TensorElb",
            "_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE",
            "_ZN5torch8inductor15_mm_plus_mm_outERN2at6TensorERKS2_S5_S5_S5_",
            "_ZN5torch8autograd9generated12MulBackward05applyEOSt6vectorIN2at6TensorESaIS5_EE",
            "_ZN2at14DynamicLibrary3symEPKc",
            "_ZN14DynamicLibrary3symEPKc",
            "_ZTVN2at14DynamicLibraryE",
            "_ZN2at15set_num_threadsEi",
            "_ZNK2at10TensorBase2toEN3c1013TensorOptionsEbbSt8optionalINS1_12MemoryFormatEE",
            "_ZN3c1013ErrorReporterC1Ev",
            "_ZN8onnx_c2212optimization8OptimizeEv",
            "_ZN4gloo6socket6listenEv",
            "_ZN6helperEv",
            "_Z16THPVariable_WrapRKN2at10TensorBaseE",
            "_ZN3c104cuda20getCurrentCUDAStreamEa",
            "_ZN99999999999999999999x",
            "_ZN2at99x",
            "_Z",
            "_ZT",
            "GOMP_parallel_start",
            "GOMP_parallel_loop_static_start",
            "GOMP_target_ext",
            "_ZN2at6launchESt8functionIFvvEE",
            "PyRun_SimpleString",
            "mmap",
            "getenv",
            "syscall",
            "cudaLaunchKernel",
            "_ZN3c104cuda17getStreamFromPoolEba",
            "_ZN2at4cuda24getCurrentCUDABlasHandleEb",
        ] {
            assert!(!permitted(name, false), "{name}");
        }
    }

    #[test]
    fn cuda_extensions_reach_launches_and_no_events_streams_or_memory() {
        for name in [
            "cudaLaunchKernel",
            "cudaGetErrorString@libcudart.so.13",
            "__cudaRegisterFatBinary",
            "__cudaPushCallConfiguration",
            "__cudaGetKernel",
            "__cudaLaunchKernel",
            "__cudaRegisterVar",
            "exit",
            "exit@GLIBC_2.2.5",
        ] {
            assert!(of_runtime(name) && !permitted(name, true), "{name}");
        }
        // C++ alone has no such body, and nothing of nvcc ends a process in another way.
        for name in [
            "_exit",
            "_Exit",
            "quick_exit",
            "at_quick_exit",
            "exit_group",
        ] {
            assert!(!of_runtime(name) && !permitted(name, true), "{name}");
        }
        assert!(permitted("_ZN3c104cuda20getCurrentCUDAStreamEa", true));
        assert!(!permitted("_ZN2at14DynamicLibrary3symEPKc", true));
        for name in [
            "cudaEventRecord",
            "cudaStreamCreate",
            "cudaMalloc",
            "cudaDeviceReset",
            "cudaGraphLaunch",
            "cudaLaunchHostFunc",
            "cuLaunchKernel",
            "cublasSgemm_v2",
        ] {
            assert!(!of_runtime(name) && !permitted(name, true), "{name}");
        }
        // Both lists have the same functions, but for those that inline functions of the headers call, and for those that are
        // inline themselves or run on the card.
        let sources = include_str!("../python/source_cuda.py");
        let called = [
            "cudaLaunchKernelExC",
            "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        ];
        let no_symbols = [
            "cudaLaunchKernelEx",
            "cudaOccupancyMaxPotentialBlockSize",
            "cudaGridDependencySynchronize",
            "cudaTriggerProgrammaticLaunchCompletion",
        ];
        // Names of types and of constants begin like this; functions that ask for attributes begin with `cudaFuncGet` or
        // `cudaFuncSet`.
        let others = [
            "cudaError",
            "cudaStream_t",
            "cudaSuccess",
            "cudaDeviceProp",
            "cudaDevAttr",
            "cudaFuncAttribute",
            "cudaLaunchAttribute",
            "cudaLaunchConfig",
            "cudaMemcpyDeviceToDevice",
            "cudaSharedmem",
        ];
        let (_, list) = sources.split_once("\nRUNTIME = {").expect("the list");
        let (list, _) = list.split_once('}').expect("its end");
        let mut named: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        named.retain(|name| !others.iter().any(|begin| name.starts_with(begin)));
        named.retain(|name| !no_symbols.contains(name));
        named.sort_unstable();
        let mut linked: Vec<&str> = RUNTIME.to_vec();
        linked.retain(|name| !called.contains(name));
        linked.sort_unstable();
        assert_eq!(named, linked);
    }

    #[test]
    fn a_file_that_is_no_object_is_refused() {
        let refusal = audit(b"no object", false).expect_err("it is text");
        assert_eq!(refusal.rule, "symbol");
    }
}
