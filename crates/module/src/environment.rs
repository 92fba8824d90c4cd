//! The Python interpreter with PyTorch that modules run on, and one that only reads sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::compile::COMPILER_AT;
use crate::cuda::Toolkit;
use crate::error::Error;

const PROBE: &str = include_str!("../python/probe.py");

/// The variable that names the interpreter.
const VARIABLE: &str = "FLOPSMITH_PYTHON";

/// The folder in a repository where a virtual environment with PyTorch may lie.
const BESIDE: &str = "target/torch/bin/python";

/// Files of packages, below a folder of packages. Not every version has each.
const OF_PACKAGES: [&str; 10] = [
    "torch/__init__.py",
    "torch/nn/functional.py",
    "numpy/__init__.py",
    "triton/__init__.py",
    "triton/language/__init__.py",
    "triton/runtime/interpreter.py",
    "triton/compiler/__init__.py",
    "triton/_C/libtriton.so",
    "triton/backends/nvidia/compiler.py",
    "triton/backends/nvidia/bin/ptxas",
];
/// PyTorch's libraries, below their folder.
const LIBRARIES: [&str; 3] = ["libc10.so", "libtorch_cpu.so", "libtorch_python.so"];
/// PyTorch's headers, below their folder.
const TORCH_HEADERS: [&str; 2] = ["ATen/ATen.h", "torch/csrc/api/include/torch/all.h"];

/// An interpreter, its folders and its PyTorch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Environment {
    /// The interpreter itself, not a link of a virtual environment.
    pub executable: PathBuf,
    /// Python's version.
    pub python: String,
    /// PyTorch's version.
    pub torch: String,
    /// Folders of the standard library.
    pub(crate) standard: Vec<PathBuf>,
    /// Folders of packages.
    pub(crate) site: Vec<PathBuf>,
    /// Python's C headers.
    pub(crate) include: PathBuf,
    /// PyTorch's headers.
    pub(crate) torch_include: PathBuf,
    /// PyTorch's libraries.
    pub(crate) torch_lib: PathBuf,
    /// Libraries outside of these folders that the interpreter maps.
    libraries: Vec<PathBuf>,
    /// The vector instructions that PyTorch uses here, such as `AVX2`.
    pub capability: String,
    /// Triton's version, if it is installed.
    #[serde(default)]
    pub triton: Option<String>,
    /// NumPy's version, if it is installed; Triton's interpreter computes with it.
    #[serde(default)]
    pub numpy: Option<String>,
    /// Files without which no program is judged, as far as they were there when the interpreter was found.
    #[serde(skip)]
    marks: Vec<PathBuf>,
}

/// The kernel's text about this machine's processors; empty where it cannot be read.
pub(crate) fn cpuinfo() -> String {
    fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// An interpreter that may lack PyTorch.
#[derive(Debug, Deserialize)]
pub(crate) struct Interpreter {
    /// The interpreter itself, not a link of a virtual environment.
    pub(crate) executable: PathBuf,
    /// Folders of packages.
    pub(crate) site: Vec<String>,
    /// The reason why it cannot import PyTorch; none if it can.
    pub(crate) missing: Option<String>,
}

impl Interpreter {
    /// Finds the interpreter of [`Environment::find`] or, without one, the first of the same places that runs.
    ///
    /// # Errors
    /// [`Error::Interpreter`] says which interpreters were tried.
    pub(crate) fn find() -> Result<Self, Error> {
        let (mut bare, mut tried) = (None, Vec::new());
        for python in candidates() {
            match Self::of(&python) {
                Ok(found) if found.missing.is_none() => return Ok(found),
                Ok(found) => bare = bare.or(Some(found)),
                Err(why) => tried.push(format!("{}: {why}", python.display())),
            }
        }
        bare.ok_or_else(|| Error::Interpreter {
            detail: unfit("Python", &tried),
        })
    }

    /// Describes one interpreter.
    fn of(python: &Path) -> Result<Self, String> {
        read(&description(python)?)
    }
}

impl Environment {
    /// Finds an interpreter with PyTorch: the one that FLOPSMITH_PYTHON names, one in `target/torch` of the repository
    /// of this program or of the working directory, or `python3`. It imports PyTorch once in a process.
    ///
    /// # Errors
    /// [`Error::Python`] says which interpreters were tried, and how to install PyTorch.
    pub fn find() -> Result<Self, Error> {
        static FOUND: OnceLock<Environment> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Ok(found.clone());
        }
        let mut tried = Vec::new();
        for python in candidates() {
            match Self::of(&python) {
                Ok(found) => return Ok(FOUND.get_or_init(|| found.marked()).clone()),
                Err(why) => tried.push(format!("{}: {why}", python.display())),
            }
        }
        Err(Error::Python {
            detail: unfit("Python with PyTorch", &tried),
        })
    }

    /// Describes one interpreter.
    fn of(python: &Path) -> Result<Self, String> {
        let line = description(python)?;
        match read::<Interpreter>(&line)?.missing {
            Some(why) => Err(why),
            None => read(&line),
        }
    }

    /// Notes the files that have to stay where they are.
    fn marked(self) -> Self {
        let mut marks = vec![self.executable.clone()];
        for folder in &self.standard {
            marks.extend(below(folder, &["os.py"]));
        }
        for folder in &self.site {
            marks.extend(below(folder, &OF_PACKAGES));
        }
        marks.extend(below(&self.torch_lib, &LIBRARIES));
        marks.extend(below(&self.torch_include, &TORCH_HEADERS));
        marks.extend(below(&self.include, &["Python.h"]));
        marks.retain(|file| file.exists());
        Self { marks, ..self }
    }

    /// Makes sure that the interpreter and its packages are where they were found: no program is to be blamed for a package
    /// that was removed meanwhile.
    ///
    /// # Errors
    /// [`Error::Gone`] names the first file that is missing.
    pub(crate) fn still_there(&self) -> Result<(), Error> {
        match self.marks.iter().find(|file| !file.exists()) {
            None => Ok(()),
            Some(file) => Err(Error::Gone {
                python: self.executable.clone(),
                file: file.clone(),
            }),
        }
    }

    /// All versions that outcomes depend on: those of Python and its packages, of g++, and of nvcc if it is complete. Each of
    /// the two compilers is started once.
    pub fn versions(&self) -> String {
        let nvcc = Toolkit::find(self).ok();
        let nvcc = nvcc.and_then(|toolkit| version(toolkit.nvcc()));
        let gxx = version(Path::new(COMPILER_AT));
        self.versions_with(gxx.as_deref(), nvcc.as_deref())
    }

    fn versions_with(&self, gxx: Option<&str>, nvcc: Option<&str>) -> String {
        format!(
            "{} {} {} {:?} {:?} {gxx:?} {nvcc:?}",
            self.python, self.torch, self.capability, self.triton, self.numpy
        )
    }

    /// Makes sure that kernels of Triton can be interpreted and compiled.
    ///
    /// # Errors
    /// [`Error::Triton`] names the package that is missing.
    pub(crate) fn needs_triton(&self) -> Result<(), Error> {
        let missing = match (&self.triton, &self.numpy) {
            (None, _) => "Triton",
            (_, None) => "NumPy",
            _ => return Ok(()),
        };
        Err(Error::Triton {
            python: self.executable.display().to_string(),
            missing,
        })
    }

    /// The paths that a jail shows read-only at their own places, so that the interpreter works in it.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        let above = self.libraries.iter().filter_map(|l| l.parent());
        let mut all: Vec<PathBuf> = above.map(Path::to_owned).collect();
        all.extend(self.standard.iter().chain(&self.site).cloned());
        all.push("/sys/devices/system/cpu".into());
        all.sort();
        all.dedup();
        let covered = |path: &PathBuf| all.iter().any(|p| p != path && path.starts_with(p));
        let mut mounts: Vec<PathBuf> = all.iter().filter(|p| !covered(p)).cloned().collect();
        mounts.retain(|path| path.exists());
        if !mounts.iter().any(|p| self.executable.starts_with(p)) {
            mounts.push(self.executable.clone());
        }
        mounts
    }

    /// The folders of packages, as Python's `sys.path` takes them.
    pub(crate) fn paths(&self) -> Vec<String> {
        let shown = self.site.iter().map(|p| p.to_string_lossy().into_owned());
        shown.collect()
    }
}

/// The paths of these files below a folder.
fn below(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.join(name)).collect()
}

/// The words of a compiler about its version; none if it does not start.
fn version(compiler: &Path) -> Option<String> {
    let asked = Command::new(compiler)
        .arg("--version")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output();
    let output = asked.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The description that an interpreter prints of itself.
fn description(python: &Path) -> Result<String, String> {
    let output = Command::new(python)
        .args(["-I", "-B", "-c", PROBE])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().map(str::to_owned).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.trim().lines().last().unwrap_or("it printed nothing");
        last.to_owned()
    })
}

fn read<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|e| format!("its answer cannot be read: {e}"))
}

/// The program that a variable names.
pub(crate) fn named(variable: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|v| !v.is_empty());
    named.map(PathBuf::from)
}

/// The paths of this name in the working directory, beside this program and in the folders above both, the nearest first.
pub(crate) fn beside(name: &str) -> Vec<PathBuf> {
    let here = std::env::current_dir().ok();
    let program = std::env::current_exe().ok();
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in [here, program].into_iter().flatten() {
        all.extend(folder.ancestors().map(|above| above.join(name)));
    }
    all.retain(|path| fs::metadata(path).is_ok());
    all.dedup();
    all
}

/// The words about interpreters of which none was of the needed kind.
fn unfit(kind: &str, tried: &[String]) -> String {
    let tried = tried.join("; ");
    match named(VARIABLE) {
        Some(_) => format!("{VARIABLE} names {tried}"),
        None => format!("no {kind} was found ({tried})"),
    }
}

/// Interpreters to try, the nearest first; only the named one, if there is one.
fn candidates() -> Vec<PathBuf> {
    if let Some(named) = named(VARIABLE) {
        return vec![named];
    }
    let mut all = beside(BESIDE);
    all.push("python3".into());
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn folders_below_others_are_not_mounted_twice_and_missing_packages_are_named() {
        let environment = Environment {
            executable: "/opt/bin/python3".into(),
            python: "3.11".into(),
            torch: "2.11".into(),
            standard: vec!["/usr/lib".into()],
            site: vec!["/usr/lib/locale".into(), "/no/such/folder".into()],
            include: "/".into(),
            torch_include: "/".into(),
            torch_lib: "/".into(),
            libraries: vec!["/usr/lib/libz.so.1".into()],
            capability: "AVX2".into(),
            triton: Some("3.6".into()),
            numpy: None,
            marks: Vec::new(),
        };
        let missing = environment.needs_triton().err().map(|e| e.to_string());
        assert!(missing.is_some_and(|text| text.contains("no NumPy")));
        let with_numpy = Environment {
            numpy: Some("2.4".into()),
            ..environment.clone()
        };
        let all = [
            environment.versions_with(None, None),
            environment.versions_with(Some("12"), None),
            environment.versions_with(Some("13"), None),
            environment.versions_with(None, Some("13")),
            with_numpy.versions_with(None, None),
        ];
        let different: BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        assert_eq!(version(Path::new("/no/such/compiler")), None);
        let mounts = environment.mounts();
        assert!(mounts.contains(&PathBuf::from("/usr/lib")));
        assert!(mounts.contains(&environment.executable));
        assert!(mounts.iter().all(|p| !p.starts_with("/usr/lib/locale")));
        assert!(mounts.iter().all(|p| !p.starts_with("/no")));
    }

    #[test]
    fn a_package_that_was_removed_meanwhile_is_missed() {
        let place = tempfile::tempdir().expect("a folder");
        let site = place.path().join("site");
        let file = site.join("triton/__init__.py");
        fs::create_dir_all(site.join("triton")).expect("a folder");
        fs::write(&file, "").expect("a file");
        let found: Environment = serde_json::from_value(serde_json::json!({
            "executable": "/no/such/python", "python": "3.11", "torch": "2.11", "standard": [], "site": [site],
            "include": "/no", "torch_include": "/no", "torch_lib": "/no", "libraries": [], "capability": "AVX2",
        }))
        .expect("an environment");
        let found = found.marked();
        assert_eq!(found.marks, std::slice::from_ref(&file));
        assert!(found.still_there().is_ok());
        fs::remove_file(&file).expect("it is there");
        let gone = found.still_there().err().map(|e| e.to_string());
        let name = file.display().to_string();
        assert!(gone.is_some_and(|words| words.contains(&name)));
    }
}
