//! CUDA C++ of extensions: compiled by nvcc for GPUs that need not be in this machine.
//!
//! Nothing of it runs here: its kernels have no interpreter, so only a GPU could verify them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use flopsmith_protocol::CandidateFault;
use flopsmith_sandbox::{Exit, Finished, Job, Kind, Sandbox};

use crate::check::{Cuda, Extension};
use crate::compile::{Beside, Compiler, left, tail};
use crate::environment::{self, Environment};
use crate::error::Error;
use crate::gpu::{Architecture, CompiledKernel, Figures};
use crate::outcome::Failure;

/// The variable that names nvcc.
const VARIABLE: &str = "FLOPSMITH_NVCC";

/// The folder in a repository where `scripts/cuda.sh` installs packages, each version of Python in one of its own.
const BESIDE: &str = "target/cuda/lib";

/// The place of nvcc in a folder of packages.
const PACKAGED: &str = "nvidia/cu13/bin/nvcc";

/// Files that nvcc needs beneath the folder above its own; each may have one of several places.
const PARTS: [&[&str]; 5] = [
    &["bin/ptxas"],
    &["nvvm/bin/cicc"],
    &["include/cuda_runtime.h"],
    &["include/crt/host_config.h"],
    &["include/nv/target", "include/cccl/nv/target"],
];

/// Folders of libraries beneath the same folder.
const LIBRARIES: [&str; 3] = ["lib", "lib64", "targets/x86_64-linux/lib"];

/// Headers of ours that stand for PyTorch's own: those include all of its C++ interface or the headers of libraries.
const HEADERS: [(&str, &str); 5] = [
    ("torch/extension.h", EXTENSION),
    ("torch/torch.h", EXTENSION),
    ("torch/all.h", EXTENSION),
    (
        "ATen/cuda/CUDAContext.h",
        include_str!("../python/headers/cuda/ATen/cuda/CUDAContext.h"),
    ),
    (
        "c10/cuda/CUDAGuard.h",
        include_str!("../python/headers/cuda/c10/cuda/CUDAGuard.h"),
    ),
];
const EXTENSION: &str = include_str!("../python/headers/cuda/torch/extension.h");

/// Flags of every build, as PyTorch's `load_inline` has them. nvcc takes the last of two values of a flag, and a source's own
/// flags come last.
const FLAGS: [&str; 10] = [
    "-O3",
    "-std=c++17",
    "-Xcompiler=-fPIC",
    "-Xptxas=-v",
    "--expt-relaxed-constexpr",
    "-DTORCH_API_INCLUDE_EXTENSION_H",
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
];

/// The beginning of the lines that ptxas writes about what it compiled.
const PTXAS: &str = "ptxas info";

/// Folder inside the jail.
const SOURCE_AT: &str = "/source";

/// Longest wall-clock time of nvcc and g++ for all extensions of a candidate: nvcc reads PyTorch's headers once or twice for
/// each architecture.
const LIMIT: Duration = Duration::from_secs(600);

/// nvcc and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolkit {
    nvcc: PathBuf,
    /// The folder that has all parts.
    root: PathBuf,
    /// The shared library of the CUDA runtime.
    runtime: PathBuf,
}

/// The output of nvcc for one extension.
struct Object {
    /// The file for the linker.
    bytes: Vec<u8>,
    /// The figures of its kernels.
    kernels: Vec<CompiledKernel>,
}

impl Toolkit {
    /// Finds nvcc: the one that FLOPSMITH_NVCC names, one in `target/cuda` of the repository of this program or of the working
    /// directory, one beside PyTorch, one on the PATH, or that of `/usr/local/cuda`.
    ///
    /// # Errors
    /// [`Error::Cuda`] says what is missing, and how to install it.
    pub fn find(environment: &Environment) -> Result<Self, Error> {
        let header = environment.torch_include.join("c10/cuda/CUDAStream.h");
        if !header.is_file() {
            return Err(Error::Cuda {
                detail: format!(
                    "the PyTorch of {} was built without CUDA",
                    environment.executable.display()
                ),
            });
        }
        let named = environment::named(VARIABLE);
        let found = match &named {
            Some(path) => vec![path.clone()],
            None => installed(environment),
        };
        let mut tried = Vec::new();
        for nvcc in found {
            match Self::of(&nvcc) {
                Ok(toolkit) => return Ok(toolkit),
                Err(why) => tried.push(format!("{}: {why}", nvcc.display())),
            }
        }
        let tried = tried.join("; ");
        Err(Error::Cuda {
            detail: match (named, tried.as_str()) {
                (Some(_), _) => format!("{VARIABLE} names {tried}"),
                (None, "") => "no nvcc was found".into(),
                (None, _) => format!("no complete nvcc was found ({tried})"),
            },
        })
    }

    /// The compiler itself.
    pub fn nvcc(&self) -> &Path {
        &self.nvcc
    }

    /// The toolkit of one nvcc.
    fn of(nvcc: &Path) -> Result<Self, String> {
        let nvcc = nvcc.canonicalize().map_err(|e| e.to_string())?;
        let root = nvcc.parent().and_then(Path::parent);
        let root = root.ok_or("it lies in no folder of a toolkit")?.to_owned();
        let there = |part: &&str| root.join(part).exists();
        if let Some([first, ..]) = PARTS.iter().find(|places| !places.iter().any(there)) {
            return Err(format!("{} is missing", root.join(first).display()));
        }
        let runtime = runtime(&root).ok_or("its libcudart.so is missing")?;
        Ok(Toolkit {
            nvcc,
            root,
            runtime,
        })
    }

    /// Compiles the CUDA C++ of an extension. `end` is that of all compilations of the candidate.
    fn object(
        &self,
        sandbox: &Sandbox,
        compiler: &Compiler,
        cuda: &Cuda,
        architectures: &[Architecture],
        end: Instant,
    ) -> Result<Result<Object, Failure>, Error> {
        let left = match left(end) {
            Ok(left) => left,
            Err(failure) => return Ok(Err(failure)),
        };
        let failed = Error::system("write the files of a compilation");
        let folder = tempfile::Builder::new()
            .prefix("cuda-")
            .tempdir_in(sandbox.scratch())
            .map_err(&failed)?;
        for (name, text) in HEADERS {
            let path = folder.path().join("include").join(name);
            if let Some(above) = path.parent() {
                fs::create_dir_all(above).map_err(&failed)?;
            }
            fs::write(path, text).map_err(&failed)?;
        }
        fs::write(folder.path().join("extension.cu"), source(cuda)).map_err(&failed)?;
        let mut job = self.job(arguments(compiler.include(), cuda, architectures));
        job.limits.wall = left;
        compiler.show(&mut job);
        job.read_only.push((self.root.clone(), self.root.clone()));
        job.read_write = vec![(folder.path().to_owned(), SOURCE_AT.into())];
        let finished = sandbox.run(&job)?;
        if let Some(failure) = failure(&finished)? {
            return Ok(Err(failure));
        }
        let bytes = fs::read(folder.path().join("extension.o")).map_err(failed)?;
        let kernels = figures(&said(&finished));
        if kernels.is_empty() {
            let detail = "nvcc compiled no kernel: the source has none, or uses no instance of its templates";
            return Ok(Err(Failure::new(CandidateFault::SkippedWork, detail)));
        }
        Ok(Ok(Object { bytes, kernels }))
    }

    fn job(&self, arguments: Vec<String>) -> Job {
        let mut program = vec![self.nvcc.clone().into_os_string()];
        program.extend(arguments.into_iter().map(OsString::from));
        let mut job = Job::new(Kind::Compile, program);
        job.workdir = SOURCE_AT.into();
        job.tmpfs_bytes = 1 << 30;
        job.env = [
            ("PATH", "/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("TMPDIR", "/tmp"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        job.limits.cpu = LIMIT;
        job.limits.memory_bytes = 12 << 30;
        job.limits.file_bytes = 1 << 30;
        job.limits.open_files = 128;
        job.limits.output_bytes = 4 << 20;
        job
    }
}

/// Compiles all extensions of a candidate for each architecture, links them with their bindings and audits the objects.
///
/// # Errors
/// `Ok(Err(_))` is the candidate's fault.
pub(crate) fn compile(
    sandbox: &Sandbox,
    compiler: &Compiler,
    toolkit: &Toolkit,
    extensions: &[Extension],
    architectures: &[Architecture],
) -> Result<Result<Vec<CompiledKernel>, Failure>, Error> {
    let end = Instant::now() + LIMIT;
    let mut all = Vec::new();
    for extension in extensions {
        let mut beside = Beside {
            object: None,
            folders: vec![toolkit.root.clone()],
            arguments: vec![
                "-isystem".into(),
                toolkit.root.join("include").display().to_string(),
                "-lc10_cuda".into(),
                toolkit.runtime.display().to_string(),
            ],
        };
        if let Some(cuda) = &extension.cuda {
            match toolkit.object(sandbox, compiler, cuda, architectures, end)? {
                Ok(object) => {
                    beside.object = Some(object.bytes);
                    all.extend(object.kernels);
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
        if let Err(failure) = compiler.build_one(sandbox, extension, &beside, end)? {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(all))
}

/// The places of nvcc on this machine, the nearest first.
fn installed(environment: &Environment) -> Vec<PathBuf> {
    let mut packages: Vec<PathBuf> = Vec::new();
    for folder in environment::beside(BESIDE) {
        let versions = fs::read_dir(folder).into_iter().flatten().flatten();
        packages.extend(versions.map(|version| version.path().join("site-packages")));
    }
    packages.extend(environment.site.iter().cloned());
    let mut all: Vec<PathBuf> = packages.iter().map(|p| p.join(PACKAGED)).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    all.extend(std::env::split_paths(&path).map(|folder| folder.join("nvcc")));
    all.push("/usr/local/cuda/bin/nvcc".into());
    all.retain(|nvcc| nvcc.is_file());
    all.dedup();
    all
}

/// The shared library of the CUDA runtime in a toolkit.
fn runtime(root: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in LIBRARIES {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
        found.extend(entries.flatten().map(|entry| entry.path()));
    }
    let is_runtime = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("libcudart.so"))
    };
    found.retain(is_runtime);
    found.sort();
    found.into_iter().next()
}

/// The source with the headers that PyTorch's `load_inline` writes before it.
fn source(cuda: &Cuda) -> String {
    format!(
        "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n{}\n",
        cuda.source
    )
}

fn arguments(include: &[PathBuf], cuda: &Cuda, architectures: &[Architecture]) -> Vec<String> {
    let fixed = [
        "-c",
        "extension.cu",
        "-o",
        "extension.o",
        "-ccbin",
        "/usr/bin/g++",
        "-I",
        "include",
    ];
    let mut all: Vec<String> = fixed.map(str::to_owned).to_vec();
    for folder in include {
        all.push("-isystem".into());
        all.push(folder.display().to_string());
    }
    for architecture in architectures {
        let number = architecture.own();
        all.push("-gencode".into());
        all.push(format!("arch=compute_{number},code=sm_{number}"));
    }
    all.extend(FLAGS.map(str::to_owned));
    all.extend(cuda.flags.iter().cloned());
    all
}

/// All words of nvcc and its parts.
fn said(finished: &Finished) -> String {
    let [out, err] = [&finished.stdout, &finished.stderr].map(|s| String::from_utf8_lossy(s));
    format!("{out}\n{err}")
}

/// The failure of a compilation; none if it has worked.
fn failure(finished: &Finished) -> Result<Option<Failure>, Error> {
    // The jail's filter is ours, and so is a part of nvcc that does not start in it.
    let is_ours =
        matches!(finished.exit, Exit::ForbiddenSyscall) || a_part_was_ended(&said(finished));
    match finished.exit {
        exit if exit.success() => Ok(None),
        _ if is_ours => Err(Error::Process {
            process: "nvcc",
            detail: format!(
                "a system call that the jail forbids ended it\n{}",
                tail(finished)
            ),
        }),
        Exit::Code(_) => Ok(Some(Failure::new(
            CandidateFault::CompileError,
            tail(finished),
        ))),
        exit => Ok(Some(Failure::new(
            CandidateFault::CompileLimit,
            format!("nvcc ended with {exit:?}"),
        ))),
    }
}

/// True if nvcc says that a forbidden system call ended one of its parts. Messages about a source may quote any words of it,
/// but begin with the name of a file or with blanks.
fn a_part_was_ended(said: &str) -> bool {
    said.lines()
        .any(|line| line.starts_with("nvcc error   :") && line.contains("died due to signal 31"))
}

/// The figures of each kernel for each architecture in the words of ptxas, which `-v` asks for: a line that names both, one
/// about spills, and one about registers and shared memory. Functions that a kernel calls have the last two lines as well.
fn figures(said: &str) -> Vec<CompiledKernel> {
    let mut all: Vec<CompiledKernel> = Vec::new();
    let mut of_kernel = false;
    // The line on spills has no prefix, and follows the one that names its function.
    let mut after_name = false;
    for line in said.lines() {
        let is_spills = std::mem::take(&mut after_name) && line.starts_with(' ');
        // Warnings quote words of the source, which may read like those of ptxas.
        if !is_spills && !line.starts_with(PTXAS) {
            continue;
        }
        if let Some((symbol, architecture)) = entry(line) {
            of_kernel = true;
            all.push(CompiledKernel {
                kernel: name(symbol).to_owned(),
                symbol: Some(symbol.to_owned()),
                architecture,
                constants: BTreeMap::new(),
                figures: Figures::default(),
            });
            continue;
        }
        let Some(kernel) = all.last_mut() else {
            continue;
        };
        if let Some((_, function)) = line.split_once("Function properties for ") {
            after_name = true;
            let function = function.trim().trim_matches('\'');
            of_kernel = kernel.symbol.as_deref() == Some(function);
        }
        if !of_kernel {
            continue;
        }
        let figures = &mut kernel.figures;
        if let Some(bytes) = before(line, " bytes spill stores") {
            figures.spill_store_bytes = bytes;
        }
        if let Some(bytes) = before(line, " bytes spill loads") {
            figures.spill_load_bytes = bytes;
        }
        if let Some(registers) = before(line, " registers") {
            figures.registers = registers;
        }
        if let Some(bytes) = before(line, " bytes smem") {
            figures.shared_bytes = bytes;
        }
    }
    all
}

/// Symbol and architecture of a line such as `ptxas info : Compiling entry function '_Z4halfPf' for 'sm_90a'`.
fn entry(line: &str) -> Option<(&str, Architecture)> {
    let (_, rest) = line.split_once("Compiling entry function '")?;
    let (symbol, rest) = rest.split_once("' for 'sm_")?;
    let number = rest
        .split('\'')
        .next()?
        .trim_end_matches(char::is_alphabetic);
    Some((symbol, Architecture::of(number.parse().ok()?)))
}

/// The number before `words`: 32 before ` registers` in `Used 32 registers`.
fn before<N: FromStr>(line: &str, words: &str) -> Option<N> {
    let (head, _) = line.split_once(words)?;
    head.rsplit(' ').next()?.parse().ok()
}

/// The name of a kernel without its namespaces, parameters and template arguments: `half` of `_ZN4mine4halfILi4EEEvPf`.
fn name(symbol: &str) -> &str {
    let Some(mangled) = symbol.strip_prefix("_Z") else {
        return symbol;
    };
    let nested = mangled.strip_prefix('N');
    let (mut rest, mut found) = (nested.unwrap_or(mangled), symbol);
    loop {
        // The mark of a function that no other file sees.
        rest = rest.strip_prefix('L').unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (length, after) = rest.split_at(digits);
        let part = length.parse::<usize>().ok().and_then(|n| after.get(..n));
        let Some(part) = part else {
            return found;
        };
        found = part;
        rest = &after[part.len()..];
        if nested.is_none() {
            return found;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The words of ptxas about two kernels, one of which calls a function that is no part of it.
    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN49_GLOBAL__N__4c0d31cf_12_extension_cu_1f2e3d4c_1239half_rowsILi256EEEvPKfPfi' for 'sm_80'
ptxas info    : Function properties for _ZN49_GLOBAL__N__4c0d31cf_12_extension_cu_1f2e3d4c_1239half_rowsILi256EEEvPKfPfi
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 37 registers, used 1 barriers, 16 bytes stack frame, 4096 bytes smem, 384 bytes cmem[0]
ptxas info    : Function properties for _Z6helperf
    32 bytes stack frame, 24 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 99 registers, used 0 barriers, 8 bytes smem
ptxas info    : Compile time = 4.332 ms
ptxas info    : Compiling entry function '_Z4halfPKfPfi' for 'sm_90a'
ptxas info    : Function properties for _Z4halfPKfPfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
";

    #[test]
    fn figures_are_read_from_the_words_of_ptxas() {
        let kernels = figures(SAID);
        let named = |k: &CompiledKernel| format!("{} {}", k.architecture, k.kernel);
        let named: Vec<String> = kernels.iter().map(named).collect();
        assert_eq!(named, ["sm_80 half_rows", "sm_90 half"]);
        let (first, second) = (kernels[0].figures, kernels[1].figures);
        assert_eq!((first.registers, first.shared_bytes), (37, 4096));
        assert_eq!((first.spill_store_bytes, first.spill_load_bytes), (8, 4));
        assert_eq!((second.registers, second.shared_bytes), (10, 0));
        let shown = serde_json::to_value(&kernels[1]).unwrap();
        assert_eq!(shown["symbol"], "_Z4halfPKfPfi");
        assert_eq!(shown.get("num_warps"), None);
        assert!(figures("ptxas info    : 0 bytes gmem\n    9 registers\n").is_empty());
    }

    #[test]
    fn kernels_have_the_names_of_the_source() {
        for (symbol, expected) in [
            ("_Z4halfPKfPfi", "half"),
            ("_ZL4half3Row", "half"),
            ("_ZN4mine4halfILi4EEEvPf", "half"),
            ("_ZN12_GLOBAL__N_14halfEPf", "half"),
            ("half", "half"),
            ("_Z99half", "_Z99half"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(name(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn a_source_has_the_last_word_about_flags_and_none_about_architectures() {
        let cuda = Cuda {
            source: "int one();".into(),
            flags: vec!["-O2".into()],
        };
        let all = arguments(&["/torch".into()], &cuda, &Architecture::DEFAULT);
        let targets: Vec<&String> = all.iter().filter(|a| a.starts_with("arch=")).collect();
        let expected = ["arch=compute_80,code=sm_80", "arch=compute_90a,code=sm_90a"];
        assert_eq!(targets, expected);
        let place = |flag: &str| all.iter().position(|a| a == flag);
        assert!(place("-O3") < place("-O2") && place("-Xptxas=-v").is_some());
        // Our headers come before PyTorch's.
        assert!(place("include") < place("/torch"));
        assert!(source(&cuda).ends_with("#include <cuda_runtime.h>\nint one();\n"));
    }

    #[test]
    fn warnings_that_quote_a_source_name_no_kernel_and_give_no_figures() {
        let quoted = [
            "extension.cu(5): warning #1444-D: function \"f\" was declared deprecated (\"Compiling entry function '_Z4fakef' for 'sm_80'\")",
            "    __attribute__((deprecated(\"Used 1 registers, 0 bytes spill stores, 1 bytes smem\")))",
            "extension.cu(6): warning: Function properties for _Z4halfPKfPfi",
            "    0 bytes spill stores, 0 bytes spill loads",
        ];
        let quoted = quoted.join("\n");
        assert!(figures(&quoted).is_empty());
        assert_eq!(figures(&format!("{SAID}{quoted}\n")), figures(SAID));
        let lines: Vec<&str> = SAID.lines().collect();
        let [before, after] = [&lines[..4], &lines[4..]].map(|part| part.join("\n"));
        let between = format!("{before}\n{quoted}\n{after}\n");
        assert_eq!(figures(&between), figures(SAID));
    }

    #[test]
    fn only_nvcc_itself_says_that_a_part_of_it_was_ended() {
        let ended = "nvcc error   : 'cicc' died due to signal 31 (Invalid system call)";
        assert!(a_part_was_ended(&format!("one line\n{ended}\n")));
        for quoted in [
            format!("extension.cu(5): error: static assertion failed with \"{ended}\""),
            format!("  static_assert(false, \"{ended}\");"),
            "nvcc error   : 'cicc' died due to signal 9 (Kill signal)".into(),
        ] {
            assert!(!a_part_was_ended(&quoted), "{quoted}");
        }
    }

    #[test]
    fn a_missing_part_of_nvcc_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let nvcc = root.join("bin/nvcc");
        let files = PARTS.map(|places| places[0]);
        for file in files.iter().chain(&["bin/nvcc", "lib/libcudart.so.13"]) {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let toolkit = Toolkit::of(&nvcc).unwrap();
        assert_eq!(toolkit.runtime, root.join("lib/libcudart.so.13"));
        for (file, part) in [
            ("lib/libcudart.so.13", "libcudart.so is missing"),
            ("nvvm/bin/cicc", "nvvm/bin/cicc is missing"),
            ("bin/nvcc", "No such file"),
        ] {
            fs::remove_file(root.join(file)).unwrap();
            let why = Toolkit::of(&nvcc).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        let error = Error::Cuda {
            detail: "no nvcc was found".into(),
        };
        let text = error.to_string();
        assert!(text.contains("scripts/cuda.sh") && text.contains(VARIABLE));
        assert!(!error.is_of_the_input());
    }
}
