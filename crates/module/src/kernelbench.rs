//! Problems from a user's checkout of KernelBench: a file in its contract becomes a folder with `problem.toml` and the file
//! itself as `reference.py`.
//!
//! Files are parsed, never executed, so a Python without PyTorch imports them, too. A new folder of a problem appears whole
//! or not at all; in one that is there, the files are replaced one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use flopsmith_protocol::text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::environment::Interpreter;
use crate::error::Error;

const SCRIPT: &str = include_str!("../python/kernelbench.py");

/// A file larger than this is left out unread, bytes.
const LARGEST: u64 = 1 << 20;

/// The packages that an interpreter without PyTorch gets with it.
const WITH_TORCH: [&str; 2] = ["torch", "numpy"];

/// The request for an import.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The checkout, or its folder `KernelBench`, which has `level1` to `level4`.
    pub checkout: &'a Path,
    /// The levels; all that are there if there is none.
    pub levels: &'a [u8],
    /// The folder that gets a folder for each problem.
    pub output: &'a Path,
    /// True if `problem.toml` and `reference.py` of problems that exist are replaced.
    pub force: bool,
}

/// A file that gave no problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The file, such as `level1/19_ReLU.py`.
    pub file: String,
    /// The reason.
    pub why: String,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Identifiers of the problems, which are the names of their folders.
    pub problems: Vec<String>,
    /// Files that gave no problem.
    pub left_out: Vec<LeftOut>,
}

/// Imports problems.
///
/// # Errors
/// [`Error::Problem`] if the checkout has no such levels, a problem exists already, or the output cannot be written;
/// [`Error::Interpreter`] without a Python; [`Error::Process`] if the interpreter fails.
pub fn import(order: &Order) -> Result<Imported, Error> {
    let listed = files(order)?;
    import_by(order, listed, &Interpreter::find()?)
}

/// Imports the listed files by an interpreter.
fn import_by(
    order: &Order,
    (found, mut left_out): (Vec<Found>, Vec<LeftOut>),
    python: &Interpreter,
) -> Result<Imported, Error> {
    let described = describe(python, &found)?;
    let mut usable = Vec::new();
    for (file, described) in found.into_iter().zip(described) {
        match described {
            Described::Unusable { problem } => left_out.push(LeftOut {
                file: file.name,
                why: problem,
            }),
            Described::Usable { constants } => usable.push((file, constants)),
        }
    }
    let places = usable.iter().map(|(file, _)| order.output.join(&file.id));
    let mut taken = places.filter(|path| path.exists() && !order.force);
    if let Some(path) = taken.next() {
        return Err(Error::Problem {
            path,
            detail: "it exists already, so nothing was imported; add --force to replace its problem.toml and reference.py, or name another --output".into(),
        });
    }
    if !usable.is_empty() {
        write(order.output, &usable).map_err(|e| Error::Problem {
            path: order.output.to_owned(),
            detail: format!("cannot be written: {e}"),
        })?;
    }
    Ok(Imported {
        problems: usable.into_iter().map(|(file, _)| file.id).collect(),
        left_out,
    })
}

/// KernelBench's number of an imported problem, by its identifier and level; none of other problems.
pub fn number(id: &str, level: u8) -> Option<u32> {
    let rest = id.strip_prefix(&format!("level{level}_"))?;
    rest.split('_').next()?.parse().ok()
}

/// A file in KernelBench's contract.
struct Found {
    level: u8,
    number: u32,
    /// The file below the folder of levels.
    name: String,
    id: String,
    title: String,
    source: String,
}

/// The files of the levels in the order of their numbers, and those whose names or bytes are of no problem.
fn files(order: &Order) -> Result<(Vec<Found>, Vec<LeftOut>), Error> {
    let wrong = |path: &Path, detail: String| Error::Problem {
        path: path.to_owned(),
        detail,
    };
    let nested = order.checkout.join("KernelBench");
    let root = match nested.is_dir() {
        true => nested,
        false => order.checkout.to_owned(),
    };
    let folder = |level: u8| root.join(format!("level{level}"));
    let mut levels: Vec<u8> = (1..=4).filter(|level| folder(*level).is_dir()).collect();
    if levels.is_empty() {
        let detail = "there is no folder KernelBench/level1; name a checkout of KernelBench";
        return Err(wrong(order.checkout, detail.into()));
    }
    if let Some(level) = order.levels.iter().find(|level| !levels.contains(level)) {
        let detail = format!("there is no such folder; the levels there are {levels:?}");
        return Err(wrong(&folder(*level), detail));
    }
    levels.retain(|level| order.levels.is_empty() || order.levels.contains(level));
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let mut taken = BTreeSet::new();
    for level in levels {
        let folder = folder(level);
        let unreadable = |e: io::Error| wrong(&folder, format!("cannot be read: {e}"));
        let mut paths = Vec::new();
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            paths.push(entry.map_err(unreadable)?.path());
        }
        let stem = |path: &Path| {
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        // Files such as `__init__.py` are no problems of any benchmark.
        paths.retain(|p| p.extension().is_some_and(|e| e == "py") && !stem(p).starts_with("__"));
        paths.sort_by_cached_key(|path| (parsed(&stem(path)), path.clone()));
        for path in paths {
            let name = format!("level{level}/{}.py", stem(&path));
            match one(level, &name, &path, parsed(&stem(&path))) {
                Ok(file) if !taken.insert(file.id.clone()) => left_out.push(LeftOut {
                    file: name,
                    why: format!("another file gave the problem {} already", file.id),
                }),
                Ok(file) => found.push(file),
                Err(why) => left_out.push(LeftOut { file: name, why }),
            }
        }
    }
    Ok((found, left_out))
}

/// Reads a file; an error is the reason to leave it out.
fn one(level: u8, file: &str, path: &Path, parsed: Option<(u32, String)>) -> Result<Found, String> {
    let Some((number, name)) = parsed else {
        return Err("its name is not NUMBER_NAME.py with letters, digits, `_` and `-`".into());
    };
    let unreadable = |e: io::Error| format!("it cannot be read: {e}");
    // A link may lead to a device, and neither that nor a pipe need have an end.
    if !fs::symlink_metadata(path).map_err(unreadable)?.is_file() {
        return Err("it is no plain file".into());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    let source = text::decode(bytes);
    Ok(Found {
        level,
        number,
        name: file.to_owned(),
        id: format!("level{level}_{number}_{}", name.to_ascii_lowercase()),
        title: name.replace('_', " "),
        source: source.map_err(|e| e.to_string())?,
    })
}

/// Number and name in a file's name such as `19_ReLU`.
fn parsed(stem: &str) -> Option<(u32, String)> {
    let (number, name) = stem.split_once('_')?;
    let number = number.parse().ok()?;
    let name = name.replace('-', "_").trim_matches('_').to_owned();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(word)).then_some((number, name))
}

/// The findings about a file.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Described {
    /// It gives no problem.
    Unusable {
        /// The reason.
        problem: String,
    },
    /// It gives a problem.
    Usable {
        /// The constants at its top.
        constants: BTreeMap<String, Value>,
    },
}

/// Describes each file without executing any.
fn describe(python: &Interpreter, found: &[Found]) -> Result<Vec<Described>, Error> {
    let failed = Error::system("start the reader of KernelBench's files");
    let sources: Vec<&str> = found.iter().map(|file| file.source.as_str()).collect();
    let later = if python.missing.is_some() {
        &WITH_TORCH[..]
    } else {
        &[]
    };
    let asked = json!({ "paths": python.site, "later": later, "sources": sources }).to_string();
    let mut reader = Command::new(&python.executable)
        .args(["-I", "-S", "-B", "-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(&failed)?;
    if let Some(mut stdin) = reader.stdin.take() {
        // A reader that ended too early is found by its missing lines.
        let _ = stdin.write_all(asked.as_bytes());
    }
    let output = reader.wait_with_output().map_err(&failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text
        .lines()
        .map_while(|line| serde_json::from_str(line).ok());
    let described: Vec<Described> = lines.collect();
    match found.get(described.len()) {
        None => Ok(described),
        Some(file) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim().lines().last().unwrap_or("it said nothing");
            Err(Error::Process {
                process: "the reader of KernelBench's files",
                detail: format!(
                    "{} while it read {} ({last}); move this file away and try again",
                    output.status, file.name
                ),
            })
        }
    }
}

/// Writes the folders of problems. Each is made in a folder of its own and then moved.
fn write(output: &Path, problems: &[(Found, BTreeMap<String, Value>)]) -> io::Result<()> {
    fs::create_dir_all(output)?;
    let scratch = tempfile::Builder::new()
        .prefix(".import-")
        .tempdir_in(output)?;
    for (file, constants) in problems {
        let made = scratch.path().join(&file.id);
        fs::create_dir(&made)?;
        fs::write(made.join("problem.toml"), definition(file, constants))?;
        fs::write(made.join("reference.py"), &file.source)?;
    }
    for (file, _) in problems {
        let place = output.join(&file.id);
        if fs::symlink_metadata(&place).is_ok_and(|found| !found.is_dir()) {
            let why = format!("{} exists and is no folder", place.display());
            return Err(io::Error::other(why));
        }
    }
    for (file, _) in problems {
        let (made, place) = (scratch.path().join(&file.id), output.join(&file.id));
        if !place.exists() {
            fs::rename(made, place)?;
            continue;
        }
        // Other files of the folder stay, such as the user's programs.
        for name in ["reference.py", "problem.toml"] {
            fs::rename(made.join(name), place.join(name))?;
        }
    }
    Ok(())
}

/// The text of `problem.toml`.
fn definition(file: &Found, constants: &BTreeMap<String, Value>) -> String {
    let text = |text: String| toml::Value::String(text).to_string();
    let constants: Vec<String> = constants
        .iter()
        .filter_map(|(name, value)| {
            let value = match value {
                Value::Bool(truth) => toml::Value::Boolean(*truth),
                Value::Number(number) => match number.as_i64() {
                    Some(whole) => toml::Value::Integer(whole),
                    None => toml::Value::Float(number.as_f64()?),
                },
                _ => return None,
            };
            Some(format!("{name} = {value}"))
        })
        .collect();
    let constants = match constants.is_empty() {
        true => String::new(),
        false => format!("constants = {{ {} }}\n", constants.join(", ")),
    };
    let mut definition = format!(
        "kind = \"module\"\nid = {}\ntitle = {}\nlevel = {}\n\n[[workload]]\nname = \"kernelbench\"\n{constants}",
        text(file.id.clone()),
        text(format!(
            "{} (KernelBench, level {}, problem {})",
            file.title, file.level, file.number
        )),
        file.level,
    );
    for (dtype, bound) in [
        ("float32", "1e-4"),
        ("float16", "1e-2"),
        ("bfloat16", "1e-2"),
    ] {
        definition.push_str(&format!(
            "\n[tolerance.{dtype}]\nabsolute = {bound}\nrelative = {bound}\nsource = \"KernelBench's tolerance for {dtype}\"\n"
        ));
    }
    definition
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::symlink;

    use flopsmith_test_support::skipped;

    use super::*;
    use crate::problem::Problem;

    const RELU: &str = "\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

batch = 16
slope = -1e-05
exact = True
rows = batch * 2
again = 1
again = 2

def get_inputs():
    return [torch.rand(rows, batch)]

def get_init_inputs():
    return []
";

    /// A checkout with files, a folder of packages with a `torch` that notes its execution, and a place for the output.
    fn checkout(files: &[(&str, &str)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let torch = place.path().join("packages/torch");
        fs::create_dir_all(&torch).unwrap();
        let note = place.path().join("executed").display().to_string();
        fs::write(torch.join("__init__.py"), format!("open({note:?}, 'w')")).unwrap();
        for (name, text) in files {
            let path = place.path().join("checkout/KernelBench").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        place
    }

    /// Imports by the system's Python; none where there is none.
    fn imported(place: &Path, levels: &[u8], force: bool) -> Option<Result<Imported, Error>> {
        let there = Command::new("python3").arg("--version").output();
        if !there.is_ok_and(|said| said.status.success()) {
            skipped("python3 is not installed");
            return None;
        }
        let order = Order {
            checkout: &place.join("checkout"),
            levels,
            output: &place.join("problems"),
            force,
        };
        let python = Interpreter {
            executable: "python3".into(),
            site: vec![place.join("packages").display().to_string()],
            missing: None,
        };
        Some(import_by(&order, files(&order).unwrap(), &python))
    }

    #[test]
    fn files_become_problems_and_each_other_file_has_its_reason() {
        let other = RELU.replace("import torch\n", "import torch, transformers\n");
        let marked = format!("\u{feff}{RELU}");
        let place = checkout(&[
            ("level1/19_ReLU.py", &marked),
            ("level1/2_Mat-mul_.py", RELU),
            ("level1/02_mat_mul.py", RELU),
            ("level1/3_a b.py", RELU),
            ("level1/4_broken.py", "def f(:"),
            ("level1/5_empty.py", "import torch"),
            ("level1/__init__.py", ""),
            ("level1/notes.txt", ""),
            ("level4/1_gpt.py", &other),
        ]);
        let Some(imported) = imported(place.path(), &[], false) else {
            return;
        };
        let imported = imported.unwrap();
        assert_eq!(imported.problems, ["level1_2_mat_mul", "level1_19_relu"]);
        let mut why: Vec<_> = imported
            .left_out
            .iter()
            .map(|l| (l.file.as_str(), l.why.as_str()))
            .collect();
        why.sort_unstable();
        for ((file, why), (expected, part)) in why.iter().zip([
            ("level1/02_mat_mul.py", "level1_2_mat_mul"),
            ("level1/3_a b.py", "NUMBER_NAME.py"),
            ("level1/4_broken.py", "line 1"),
            ("level1/5_empty.py", "`Model`"),
            ("level4/1_gpt.py", "`transformers`"),
        ]) {
            assert_eq!(*file, expected);
            assert!(why.contains(part), "{file}: {why}");
        }
        assert_eq!(why.len(), 5, "{why:?}");
        let folder = place.path().join("problems/level1_19_relu");
        let problem = Problem::load(&folder).unwrap();
        assert_eq!(
            (problem.level, number(&problem.id, problem.level)),
            (1, Some(19))
        );
        let constants = json!({ "batch": 16, "slope": -1e-05, "exact": true });
        assert_eq!(json!(problem.workloads[0].constants), constants);
        assert_eq!(problem.tolerance["float32"].absolute, 1e-4);
        assert_eq!(problem.tolerance["bfloat16"].relative, 1e-2);
        assert_eq!(fs::read_to_string(problem.reference()).unwrap(), RELU);
        assert!(
            !place.path().join("executed").exists(),
            "Python was executed"
        );
        // Nothing but the problems is left.
        assert_eq!(
            fs::read_dir(place.path().join("problems")).unwrap().count(),
            2
        );
    }

    #[test]
    fn nothing_is_overwritten_without_force_and_programs_stay_with_it() {
        let place = checkout(&[("level2/1_a.py", RELU), ("level2/2_b.py", RELU)]);
        let folder = place.path().join("problems/level2_2_b");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("reference.py"), "mine").unwrap();
        fs::write(folder.join("solution.py"), "mine").unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let Some(refused) = imported(place.path(), &[2], false) else {
            return;
        };
        let refused = refused.unwrap_err();
        assert!(
            refused.is_of_the_input() && refused.to_string().contains("--force"),
            "{refused}"
        );
        assert_eq!(read("reference.py"), "mine");
        assert!(!place.path().join("problems/level2_1_a").exists());
        let forced = imported(place.path(), &[2], true).unwrap().unwrap();
        assert_eq!(forced.problems.len(), 2);
        assert_eq!(
            (read("reference.py").as_str(), read("solution.py").as_str()),
            (RELU, "mine")
        );
        Problem::load(&folder).unwrap();
    }

    #[test]
    fn links_are_neither_read_nor_written_through() {
        let long = "#".repeat(LARGEST as usize + 1);
        let place = checkout(&[("level1/1_a.py", RELU), ("level1/2_long.py", &long)]);
        let zero = place.path().join("checkout/KernelBench/level1/3_zero.py");
        symlink("/dev/zero", zero).unwrap();
        fs::create_dir(place.path().join("problems")).unwrap();
        let order = Order {
            checkout: &place.path().join("checkout"),
            levels: &[],
            output: &place.path().join("problems"),
            force: true,
        };
        let (found, left_out) = files(&order).unwrap();
        let why: Vec<_> = left_out.iter().map(|l| l.why.as_str()).collect();
        assert_eq!(found.len(), 1);
        assert!(why[0].contains("more than") && why[1].contains("no plain file"));
        symlink("nowhere", order.output.join("level1_1_a")).unwrap();
        let problems: Vec<_> = found.into_iter().map(|f| (f, BTreeMap::new())).collect();
        let refused = write(order.output, &problems).unwrap_err();
        assert!(refused.to_string().contains("no folder"), "{refused}");
        // The scratch folder is gone, too.
        assert_eq!(fs::read_dir(order.output).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_without_levels_is_refused() {
        let place = checkout(&[("level3/1_a.py", RELU)]);
        for (path, levels, part) in [
            ("checkout", &[1][..], "[3]"),
            ("packages", &[][..], "checkout of KernelBench"),
        ] {
            let order = Order {
                checkout: &place.path().join(path),
                levels,
                output: &place.path().join("problems"),
                force: false,
            };
            let error = files(&order).err().unwrap();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
