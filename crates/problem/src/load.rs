//! Reading `problem.toml`: every mistake with its line, several at once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use flopsmith_protocol::{Digest, ProblemId, Technique, TechniqueSet};
use serde::Deserialize;
use toml::Spanned;

use crate::keys::{self, nearest};
use crate::{
    Arg, ArgKind, Distribution, Element, Entry, ErrorBound, Formula, HiddenSizes, Language, Params,
    Problem, Role, VerifyPlan,
};

/// Why there is no problem.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The definition has mistakes.
    #[error("{}", Mistakes(path, mistakes))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line (from 1; 0 where there is none) and what is wrong.
        mistakes: Vec<(usize, String)>,
    },
    /// No folder of that name holds a problem.
    #[error("there is no problem `{name}`{}; looked in {}", near.as_ref().map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default(), places.join(", "))]
    NotFound {
        /// The name.
        name: String,
        /// The nearest name that exists.
        near: Option<String>,
        /// Where it was looked for.
        places: Vec<String>,
    },
}

struct Mistakes<'a>(&'a Path, &'a [(usize, String)]);

impl fmt::Display for Mistakes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.1.len() == 1 {
            "a mistake"
        } else {
            "mistakes"
        };
        write!(f, "{} has {plural}:", self.0.display())?;
        for (line, text) in self.1 {
            match line {
                0 => write!(f, "\n  {text}")?,
                line => write!(f, "\n  line {line}: {text}")?,
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Raw {
    title: String,
    language: Option<Language>,
    entry: RawEntry,
    timed: BTreeMap<String, i64>,
    verify: RawVerify,
    compile: RawCompile,
    cost: RawCost,
    bound: RawBound,
    techniques: Spanned<Vec<Spanned<String>>>,
    threads: Option<Spanned<Vec<u32>>>,
    deterministic: Option<bool>,
    max_source_bytes: Option<Spanned<usize>>,
    prompt: Option<String>,
}

#[derive(Deserialize)]
struct RawEntry {
    name: Spanned<String>,
    prototype: Spanned<String>,
    args: Spanned<Vec<Spanned<RawArg>>>,
}

#[derive(Deserialize)]
struct RawArg {
    name: String,
    int: Option<Spanned<String>>,
    element: Option<Element>,
    role: Option<Role>,
    shape: Option<Vec<Spanned<String>>>,
    align: Option<Spanned<usize>>,
}

#[derive(Deserialize)]
struct RawVerify {
    visible: Vec<Spanned<BTreeMap<String, i64>>>,
    hidden: Spanned<HiddenSizes>,
    distributions: Spanned<Vec<Distribution>>,
}

#[derive(Deserialize)]
struct RawCompile {
    includes: Vec<String>,
    flags: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
struct RawCost {
    work: Spanned<String>,
    bytes: Spanned<String>,
}

#[derive(Deserialize)]
struct RawBound {
    kind: Spanned<String>,
    c: Spanned<f64>,
}

impl Problem {
    /// Reads the problem in `dir`.
    pub fn load(dir: &Path) -> Result<Problem, Error> {
        let path = dir.join("problem.toml");
        let text = read(&path)?;
        let reference = read(&dir.join("reference.c"))?;
        let baseline = match dir.join("baseline.c") {
            path if path.exists() => Some(read(&path)?),
            _ => None,
        };
        let name = dir
            .canonicalize()
            .ok()
            .and_then(|d| Some(d.file_name()?.to_str()?.to_owned()))
            .unwrap_or_default();
        let id = ProblemId::new(name).map_err(|e| Error::Wrong {
            path: path.clone(),
            mistakes: vec![(0, e.to_string())],
        })?;
        parse(&text, id, dir, reference, baseline)
            .map_err(|mistakes| Error::Wrong { path, mistakes })
    }

    /// A problem by the path of its folder, or by its name in one of `roots`.
    pub fn find(name: &str, roots: &[PathBuf]) -> Result<Problem, Error> {
        let direct = Path::new(name);
        if direct.join("problem.toml").is_file() {
            return Problem::load(direct);
        }
        let mut known = Vec::new();
        for root in roots {
            let dir = root.join(name);
            if ProblemId::new(name).is_ok() && dir.join("problem.toml").is_file() {
                return Problem::load(&dir);
            }
            for entry in std::fs::read_dir(root)
                .into_iter()
                .flatten()
                .filter_map(Result::ok)
            {
                if entry.path().join("problem.toml").is_file() {
                    known.extend(entry.file_name().to_str().map(str::to_owned));
                }
            }
        }
        let near = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        let places = roots.iter().map(|r| r.display().to_string()).collect();
        Err(Error::NotFound {
            name: name.to_owned(),
            near,
            places,
        })
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// The digest of a definition's files; none for one that is not there.
fn digest(files: [Option<&str>; 3]) -> Digest {
    let mut content = Vec::new();
    for file in files {
        // The lengths keep one file's end from passing for the next one's beginning.
        let length = file.map_or(u64::MAX, |f| f.len() as u64);
        content.extend(length.to_le_bytes());
        content.extend(file.unwrap_or_default().as_bytes());
    }
    Digest::of(&content)
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// Collects mistakes.
struct Check<'a> {
    text: &'a str,
    mistakes: Vec<(usize, String)>,
}

impl Check<'_> {
    fn wrong<T>(&mut self, at: &Spanned<T>, words: impl Into<String>) {
        self.mistakes
            .push((line_of(self.text, at.span().start), words.into()));
    }

    fn formula(&mut self, text: &Spanned<String>, params: &Params) -> Option<Formula> {
        match Formula::parse(text.get_ref()) {
            Ok(formula) => {
                for name in formula.params() {
                    if !params.contains_key(&name) {
                        let known: Vec<&str> = params.keys().map(String::as_str).collect();
                        self.wrong(
                            text,
                            format!(
                                "`{text}` names the parameter `{name}`; [timed] has {}",
                                known.join(", "),
                                text = text.get_ref()
                            ),
                        );
                    }
                }
                Some(formula)
            }
            Err(e) => {
                self.wrong(text, e.to_string());
                None
            }
        }
    }
}

pub(crate) fn parse(
    text: &str,
    id: ProblemId,
    dir: &Path,
    reference_source: String,
    baseline_source: Option<String>,
) -> Result<Problem, Vec<(usize, String)>> {
    let syntax = |e: &toml::de::Error| {
        let line = e.span().map_or(0, |s| line_of(text, s.start));
        vec![(line, e.message().trim().replace('\n', " "))]
    };
    let table: toml::Table = text.parse().map_err(|e| syntax(&e))?;
    let mut check = Check {
        text,
        mistakes: Vec::new(),
    };
    check.mistakes.extend(keys::unknown(text, &table));
    let raw: Raw = match toml::from_str(text) {
        Ok(raw) => raw,
        Err(e) => {
            check.mistakes.extend(syntax(&e));
            check.mistakes.sort();
            return Err(check.mistakes);
        }
    };
    let timed: Params = raw.timed;
    if timed.is_empty() {
        check.mistakes.push((
            0,
            "[timed] gives no parameter: say at which size calls are timed, e.g. n = 256".into(),
        ));
    }
    for params in &raw.verify.visible {
        if params.get_ref().keys().ne(timed.keys()) {
            check.wrong(
                params,
                "the parameters of `verify.visible` must be those of [timed]",
            );
        }
    }
    hidden(&mut check, &raw.verify.hidden, &timed);
    if raw.verify.distributions.get_ref().is_empty() {
        check.wrong(
            &raw.verify.distributions,
            "`verify.distributions` is empty: name at least `uniform`",
        );
    }
    let args = args(&mut check, &raw.entry, &timed);
    let work = check.formula(&raw.cost.work, &timed);
    let bytes = check.formula(&raw.cost.bytes, &timed);
    let mut techniques = TechniqueSet::EMPTY;
    for name in raw.techniques.get_ref() {
        match name.get_ref().parse::<Technique>() {
            Ok(t) => techniques = techniques.with(t),
            Err(e) => check.wrong(name, e.to_string()),
        }
    }
    for flag in &raw.compile.flags {
        if !flag.get_ref().starts_with('-') {
            check.wrong(flag, format!("`{}` is no compiler flag", flag.get_ref()));
        }
    }
    if raw.bound.kind.get_ref() != "gemm" {
        check.wrong(
            &raw.bound.kind,
            format!(
                "unknown bound `{}`; known is `gemm`",
                raw.bound.kind.get_ref()
            ),
        );
    }
    if !(raw.bound.c.get_ref().is_finite() && *raw.bound.c.get_ref() > 0.0) {
        check.wrong(&raw.bound.c, "`bound.c` must be a positive number");
    }
    let threads = match &raw.threads {
        Some(list) if list.get_ref().is_empty() || list.get_ref().contains(&0) => {
            check.wrong(list, "`threads` lists thread counts of at least 1");
            Vec::new()
        }
        Some(list) => list.get_ref().clone(),
        None => vec![1],
    };
    let max_source_bytes = match &raw.max_source_bytes {
        Some(size) if !(64..=1 << 20).contains(size.get_ref()) => {
            check.wrong(size, "`max_source_bytes` must lie between 64 and 1048576");
            0
        }
        Some(size) => *size.get_ref(),
        None => 65_536,
    };
    check.mistakes.sort();
    match (work, bytes) {
        (Some(work), Some(bytes)) if check.mistakes.is_empty() => Ok(Problem {
            id,
            title: raw.title,
            dir: dir.to_owned(),
            digest: digest([
                Some(text),
                Some(reference_source.as_str()),
                baseline_source.as_deref(),
            ]),
            entry: Entry {
                name: raw.entry.name.into_inner(),
                prototype: raw.entry.prototype.into_inner(),
                args,
            },
            timed,
            verify: VerifyPlan {
                visible: raw
                    .verify
                    .visible
                    .into_iter()
                    .map(Spanned::into_inner)
                    .collect(),
                hidden: raw.verify.hidden.into_inner(),
                distributions: raw.verify.distributions.into_inner(),
            },
            includes: raw.compile.includes,
            flags: raw
                .compile
                .flags
                .into_iter()
                .map(Spanned::into_inner)
                .collect(),
            bound: ErrorBound::Gemm {
                c: raw.bound.c.into_inner(),
            },
            work,
            bytes,
            techniques,
            threads,
            max_source_bytes,
            reference_source,
            baseline_source,
            deterministic: raw.deterministic.unwrap_or(true),
            language: raw.language.unwrap_or(Language::C),
            prompt_text: raw.prompt,
        }),
        _ => Err(check.mistakes),
    }
}

fn hidden(check: &mut Check<'_>, at: &Spanned<HiddenSizes>, timed: &Params) {
    let hidden = at.get_ref();
    if !timed.contains_key(&hidden.param) {
        check.wrong(
            at,
            format!(
                "`verify.hidden.param` is `{}`, which [timed] does not have",
                hidden.param
            ),
        );
    }
    let whole = |v: i64| hidden.multiple_of > 0 && v % hidden.multiple_of == 0;
    if !(hidden.min > 0 && hidden.min <= hidden.max && whole(hidden.min) && whole(hidden.max)) {
        check.wrong(at, "`verify.hidden`: min and max must be positive multiples of `multiple_of`, and min at most max");
    }
}

fn args(check: &mut Check<'_>, entry: &RawEntry, timed: &Params) -> Vec<Arg> {
    let mut args = Vec::new();
    let mut outputs = 0;
    for spanned in entry.args.get_ref() {
        let raw = spanned.get_ref();
        let kind = match (&raw.int, raw.element, raw.role, &raw.shape) {
            (Some(param), None, None, None) => {
                if !timed.contains_key(param.get_ref()) {
                    check.wrong(
                        param,
                        format!(
                            "`int = \"{}\"` names no parameter of [timed]",
                            param.get_ref()
                        ),
                    );
                }
                ArgKind::Int {
                    param: param.get_ref().clone(),
                }
            }
            (None, Some(element), Some(role), Some(shape)) => {
                outputs += usize::from(role == Role::Output);
                let align = raw.align.as_ref().map_or(64, |a| *a.get_ref());
                if !(align.is_power_of_two() && align <= 4096) {
                    check.wrong(
                        spanned,
                        format!("`align = {align}` must be a power of two up to 4096"),
                    );
                }
                ArgKind::Array {
                    element,
                    role,
                    shape: shape
                        .iter()
                        .filter_map(|f| check.formula(f, timed))
                        .collect(),
                    align,
                }
            }
            _ => {
                check.wrong(spanned, format!("argument `{}` is either `int = \"PARAMETER\"` or has `element`, `role` and `shape`", raw.name));
                continue;
            }
        };
        args.push(Arg {
            name: raw.name.clone(),
            kind,
        });
    }
    if outputs == 0 {
        check.wrong(
            &entry.args,
            "no argument has `role = \"output\"`: nothing could be verified",
        );
    }
    let prototype = entry.prototype.get_ref();
    if !prototype.contains(&format!("{}(", entry.name.get_ref()))
        || !prototype.trim_end().ends_with(';')
    {
        check.wrong(
            &entry.prototype,
            format!(
                "`prototype` must declare `{}(…)` and end with `;`",
                entry.name.get_ref()
            ),
        );
    }
    args
}
