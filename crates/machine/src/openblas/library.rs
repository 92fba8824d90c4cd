//! The libraries of OpenBLAS on this machine, and the newest of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The environment variable that names the library, instead of the newest one found.
pub const VARIABLE: &str = "FLOPSMITH_OPENBLAS";

/// The folders that Linux distributions use.
const SYSTEM: [&str; 9] = [
    "/usr/lib/x86_64-linux-gnu/openblas-pthread",
    "/usr/lib/x86_64-linux-gnu/openblas-serial",
    "/usr/lib/x86_64-linux-gnu/openblas-openmp",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/openblas-pthread",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

/// The folders in which wheels of PyPI keep OpenBLAS, below the folder of all packages.
const WHEELS: [&str; 4] = [
    "scipy_openblas64/lib",
    "scipy_openblas32/lib",
    "numpy.libs",
    "scipy.libs",
];

/// A library of OpenBLAS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Library {
    pub path: PathBuf,
    /// Its version, as in `0.3.34`; none if it does not say.
    pub version: Option<String>,
}

/// The library that the user named.
pub(super) fn named() -> Option<PathBuf> {
    std::env::var_os(VARIABLE)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Every library that may be OpenBLAS: the one that the user named alone; else those of the system first, so that a wheel
/// of the same version does not take the place of one.
pub(super) fn candidates(named: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(path) = named {
        return vec![path];
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    // Our own packages are beside the program, wherever it is started.
    let target = std::env::current_exe().ok().and_then(|program| {
        let mut folders = program.ancestors();
        folders.find(|f| f.ends_with("target")).map(Path::to_owned)
    });
    let mut prefixes: Vec<PathBuf> = variable("VIRTUAL_ENV").into_iter().collect();
    prefixes.extend(target.as_ref().map(|t| t.join("tuners/openblas")));
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
    prefixes.extend(variable("HOME").map(|home| home.join(".local")));
    let mut packages: Vec<PathBuf> = prefixes.iter().flat_map(|p| of_prefix(p)).collect();
    packages.extend(target.map(|t| t.join("python")));
    let system = SYSTEM.iter().flat_map(|folder| {
        ["libopenblas.so.0", "libopenblas.so"].map(|name| Path::new(folder).join(name))
    });
    let wheels = packages.iter().flat_map(|folder| of_packages(folder));
    let mut found: Vec<PathBuf> = system.chain(wheels).filter(|path| path.is_file()).collect();
    // Distributions link several names to one library.
    let mut seen = BTreeSet::new();
    found.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    found
}

/// The folders of the packages of each Python below a prefix.
fn of_prefix(prefix: &Path) -> Vec<PathBuf> {
    let pythons = ["lib", "lib64"].into_iter().flat_map(|lib| {
        let all = entries(&prefix.join(lib)).into_iter();
        all.filter(|path| name(path).starts_with("python3"))
    });
    pythons
        .flat_map(|python| ["site-packages", "dist-packages"].map(|kind| python.join(kind)))
        .collect()
}

/// The libraries in the wheels of a folder of packages.
fn of_packages(packages: &Path) -> Vec<PathBuf> {
    let all = WHEELS
        .iter()
        .flat_map(|folder| entries(&packages.join(folder)));
    all.filter(|path| {
        let name = name(path);
        let begins = ["libscipy_openblas", "libopenblas"];
        begins.iter().any(|begin| name.starts_with(begin)) && name.contains(".so")
    })
    .collect()
}

/// The entries of a folder in the order of their names; none where there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    all.sort();
    all
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The newest of these libraries, and of those as new the first.
pub(super) fn newest(libraries: Vec<Library>) -> Option<Library> {
    // The last of several maxima is taken.
    let reversed = libraries.into_iter().rev();
    reversed.max_by_key(|library| library.version.as_deref().map(numbers))
}

/// The version in what OpenBLAS says of itself: `0.3.34` of `OpenBLAS 0.3.34 DYNAMIC_ARCH Zen MAX_THREADS=64`. Old
/// libraries begin with their options and name none.
pub(super) fn version(config: &str) -> Option<String> {
    let mut words = config.split_whitespace();
    let version = words.find(|word| *word == "OpenBLAS").and(words.next())?;
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| version.to_owned())
}

/// The numbers of a version, which order versions. Text after a number does not count: `0.3.29.dev` is 0.3.29.
fn numbers(version: &str) -> Vec<u64> {
    version
        .split('.')
        .map_while(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit());
            part[..digits.unwrap_or(part.len())].parse().ok()
        })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn library(path: &str, version: Option<&str>) -> Library {
        Library {
            path: path.into(),
            version: version.map(str::to_owned),
        }
    }

    #[test]
    fn the_version_is_the_word_behind_the_name() {
        let said = "OpenBLAS 0.3.34  USE64BITINT DYNAMIC_ARCH NO_AFFINITY Zen MAX_THREADS=64\n";
        assert_eq!(version(said).as_deref(), Some("0.3.34"));
        assert_eq!(
            version("OpenBLAS 0.3.29.dev").as_deref(),
            Some("0.3.29.dev")
        );
        for nothing in [
            "",
            "OpenBLAS",
            "DYNAMIC_ARCH NO_AFFINITY Haswell",
            "OpenBLAS DYNAMIC_ARCH",
        ] {
            assert_eq!(version(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn the_newest_library_is_taken_and_of_equals_the_first() {
        let all = vec![
            library("silent", None),
            library("system", Some("0.3.21")),
            library("nine", Some("0.3.9")),
            library("wheel", Some("0.3.34")),
            library("other wheel", Some("0.3.34.dev")),
        ];
        let taken = |all: &[Library]| newest(all.to_vec()).unwrap().path;
        assert_eq!(taken(&all), Path::new("wheel"));
        assert_eq!(taken(&all[..3]), Path::new("system"));
        assert_eq!(taken(&all[..1]), Path::new("silent"));
        assert_eq!(newest(Vec::new()), None);
    }

    #[test]
    fn a_library_that_the_user_names_is_the_only_one() {
        let named = PathBuf::from("/opt/libopenblas.so");
        assert_eq!(candidates(Some(named.clone())), [named]);
    }

    #[test]
    fn wheels_are_found_below_a_prefix() {
        let prefix = tempfile::tempdir().unwrap();
        let packages = prefix.path().join("lib/python3.12/site-packages");
        let files = [
            "scipy_openblas64/lib/libscipy_openblas64_.so",
            "scipy_openblas64/lib/libgfortran.so.5",
            "scipy_openblas64/lib/cmake.txt",
            "numpy.libs/libscipy_openblas64_-8fb3d286.so",
            "numpy.libs/libopenblas64_p-r0-15028c96.3.21.so",
        ];
        for file in files {
            let path = packages.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let folders = of_prefix(prefix.path());
        assert!(folders.contains(&packages), "{folders:?}");
        let found: Vec<PathBuf> = folders.iter().flat_map(|f| of_packages(f)).collect();
        assert_eq!(
            found,
            [files[0], files[4], files[3]].map(|file| packages.join(file))
        );
    }

    proptest! {
        #[test]
        fn versions_are_ordered_by_their_numbers(one in prop::array::uniform3(0u64..50), other in prop::array::uniform3(0u64..50)) {
            let told = |v: [u64; 3]| format!("OpenBLAS {}.{}.{} DYNAMIC_ARCH", v[0], v[1], v[2]);
            let libraries = [one, other].map(|v| Library { path: told(v).into(), version: version(&told(v)) });
            let taken = newest(libraries.to_vec()).unwrap();
            prop_assert_eq!(taken.path, PathBuf::from(told(one.max(other))));
        }

        #[test]
        fn no_text_ends_the_search(config in "\\PC{0,40}") {
            if let Some(version) = version(&config) {
                numbers(&version);
            }
        }
    }
}
