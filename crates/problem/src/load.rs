//! Reading `problem.toml`: every mistake with its line, several at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flopsmith_protocol::{Digest, ProblemFiles, ProblemId, Technique, TechniqueSet, text};
use serde::Deserialize;
use toml::Spanned;

use crate::arguments::{self, RawEntry};
use crate::bounds::{self, RawBound};
use crate::error::Error;
use crate::keys::{self, meant};
use crate::mistakes::{Check, line_of};
use crate::sizes::{self, OneOrMany};
use crate::template::Template;
use crate::timed::{self, Timed};
use crate::{Distribution, Entry, Language, Problem, VerifyPlan, Workload, module};

#[derive(Deserialize)]
struct Raw {
    title: String,
    suite: Option<String>,
    language: Option<Spanned<Language>>,
    entry: RawEntry,
    timed: Spanned<Timed>,
    verify: RawVerify,
    compile: RawCompile,
    cost: RawCost,
    bound: RawBound,
    techniques: Spanned<Vec<Spanned<String>>>,
    special: Option<Spanned<Vec<Spanned<String>>>>,
    easy_inputs: Option<Spanned<String>>,
    template: Option<Spanned<String>>,
    threads: Option<Spanned<Vec<u32>>>,
    deterministic: Option<bool>,
    max_source_bytes: Option<Spanned<usize>>,
    prompt: Option<String>,
}

#[derive(Deserialize)]
struct RawVerify {
    visible: Vec<Spanned<BTreeMap<String, i64>>>,
    hidden: Spanned<OneOrMany>,
    distributions: Spanned<Vec<Distribution>>,
}

#[derive(Deserialize)]
struct RawCompile {
    includes: Vec<String>,
    #[serde(default)]
    forbid: Vec<Spanned<String>>,
    flags: Vec<Spanned<String>>,
    cxx_flags: Option<Vec<Spanned<String>>>,
    fortran_flags: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
struct RawCost {
    work: Spanned<String>,
    bytes: Spanned<String>,
}

impl Problem {
    /// Reads the problem in `dir`, whatever its target.
    ///
    /// # Errors
    /// A file that cannot be read, or a definition with mistakes.
    pub fn load_any(dir: &Path) -> Result<Problem, Error> {
        match module::is_module(&read(&dir.join("problem.toml"))?) {
            true => Problem::load_module(dir),
            false => Problem::load(dir),
        }
    }

    /// Reads the kernel in `dir`.
    pub fn load(dir: &Path) -> Result<Problem, Error> {
        let path = dir.join("problem.toml");
        let text = read(&path)?;
        let optional = |name: &str| match dir.join(name) {
            path if path.exists() => read(&path).map(Some),
            _ => Ok(None),
        };
        let sources = Sources {
            reference: read(&dir.join("reference.c"))?,
            baseline: optional("baseline.c")?,
            magnitude: optional("magnitude.c")?,
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
        parse(&text, id, dir, sources).map_err(|mistakes| Error::Wrong { path, mistakes })
    }

    /// A problem that travelled, whatever its target: the same as where its files came from, but that it has no folder.
    ///
    /// # Errors
    /// Mistakes of the definition, which a node of another version may see where the sender saw none.
    pub fn from_files(files: ProblemFiles) -> Result<Problem, Error> {
        if module::is_module(&files.definition) {
            return Problem::module_of_files(files);
        }
        let path = PathBuf::from(files.id.as_str()).join("problem.toml");
        let sources = Sources {
            reference: files.reference,
            baseline: files.baseline,
            magnitude: files.magnitude,
        };
        let dir = Path::new("");
        parse(&files.definition, files.id, dir, sources)
            .map_err(|mistakes| Error::Wrong { path, mistakes })
    }

    /// The files that this problem was read from.
    pub fn files(&self) -> ProblemFiles {
        ProblemFiles {
            id: self.id.clone(),
            definition: self.definition.clone(),
            reference: self.reference_source.clone(),
            baseline: self.baseline_source.clone(),
            magnitude: self.magnitude_source.clone(),
        }
    }

    /// A problem by the path of its folder, or by its name in one of `roots`.
    pub fn find(name: &str, roots: &[PathBuf]) -> Result<Problem, Error> {
        let direct = Path::new(name);
        if direct.join("problem.toml").is_file() {
            return Problem::load(direct);
        }
        if let (Some("problem.toml"), Some(folder), true) = (
            direct.file_name().and_then(|n| n.to_str()),
            direct.parent(),
            direct.is_file(),
        ) {
            return Problem::load(folder);
        }
        // A shell completes names so; otherwise no name has a stroke, and a folder was meant.
        let name = name.strip_suffix('/').unwrap_or(name);
        if name.contains('/') {
            return Err(Error::NoFolder {
                path: direct.to_owned(),
            });
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
        // A folder of that name was meant, if no problem is called nearly so.
        let near = meant(name, known.iter().map(String::as_str));
        if near.is_none() && direct.exists() {
            return Err(Error::NoFolder {
                path: direct.to_owned(),
            });
        }
        let places = roots.iter().map(|r| r.display().to_string()).collect();
        Err(Error::NotFound {
            name: name.to_owned(),
            near,
            places,
        })
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let read = std::fs::read(path).and_then(text::decode);
    read.map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// The programs of a definition.
pub(crate) struct Sources {
    pub reference: String,
    pub baseline: Option<String>,
    pub magnitude: Option<String>,
}

/// The digest of a definition's files; none for one that is not there.
pub(crate) fn digest<'a>(files: impl IntoIterator<Item = Option<&'a str>>) -> Digest {
    let mut content = Vec::new();
    for file in files {
        // The lengths keep one file's end from passing for the next one's beginning.
        let length = file.map_or(u64::MAX, |f| f.len() as u64);
        content.extend(length.to_le_bytes());
        content.extend(file.unwrap_or_default().as_bytes());
    }
    Digest::of(&content)
}

pub(crate) fn parse(
    text: &str,
    id: ProblemId,
    dir: &Path,
    sources: Sources,
) -> Result<Problem, Vec<(usize, String)>> {
    let syntax = |e: &toml::de::Error| {
        let line = e.span().map_or(0, |s| line_of(text, s.start));
        let mut words = e.message().trim().replace('\n', " ");
        // Of a value that is none of those it may be, the nearest one is told.
        let mut names = words.split('`').skip(1).step_by(2);
        if words.starts_with("unknown variant")
            && let Some(wrong) = names.next()
            && let Some(near) = meant(wrong, names)
        {
            words = format!("{words} (did you mean {near}?)");
        }
        vec![(line, words)]
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
    let workloads = timed::read(&mut check, &raw.timed);
    let (timed, caches) = match workloads.first() {
        Some(first) => (first.params.clone(), first.caches),
        None => Default::default(),
    };
    for params in &raw.verify.visible {
        if params.get_ref().keys().ne(timed.keys()) {
            check.wrong(
                params,
                "`verify.visible` must have the same parameters as [timed]",
            );
        }
    }
    let hidden = sizes::read(&mut check, &raw.verify.hidden, &timed);
    if raw.verify.distributions.get_ref().is_empty() {
        check.wrong(
            &raw.verify.distributions,
            "`verify.distributions` is empty: name at least `uniform`",
        );
    }
    let language = language(&mut check, raw.language.as_ref());
    let args = arguments::read(&mut check, &raw.entry, &timed, language);
    for other in workloads.iter().skip(1) {
        arguments_at(&mut check, &raw.entry, other, language);
    }
    let work = check.formula(&raw.cost.work, &timed);
    let bytes = check.formula(&raw.cost.bytes, &timed);
    let techniques = of_kernel(&mut check, raw.techniques.get_ref(), TechniqueSet::EMPTY);
    let special = match &raw.special {
        Some(names) => of_kernel(&mut check, names.get_ref(), techniques),
        None => TechniqueSet::EMPTY,
    };
    if let Some(reason) = &raw.easy_inputs
        && reason.get_ref().trim().is_empty()
    {
        check.wrong(
            reason,
            "`easy_inputs` is empty: say why no other inputs would do",
        );
    }
    let others = [&raw.compile.cxx_flags, &raw.compile.fortran_flags];
    let others = others.into_iter().flatten().flatten();
    for flag in raw.compile.flags.iter().chain(others) {
        if !flag.get_ref().starts_with('-') {
            check.wrong(
                flag,
                format!(
                    "`{}` is no compiler flag: a flag begins with `-`",
                    flag.get_ref()
                ),
            );
        } else if let Err(refused) = crate::flags::parse(flag.get_ref()) {
            check.wrong(flag, refused.to_string());
        }
    }
    for name in &raw.compile.forbid {
        if !is_identifier(name.get_ref()) {
            check.wrong(
                name,
                format!("`{}` is no name of a C function", name.get_ref()),
            );
        }
    }
    let bound = bounds::read(
        &mut check,
        &raw.bound,
        sources.magnitude.is_some(),
        &timed,
        &args,
    );
    let threads = match &raw.threads {
        Some(list) if list.get_ref().is_empty() || list.get_ref().contains(&0) => {
            check.wrong(
                list,
                "`threads` must list at least one thread count, each of at least 1",
            );
            Vec::new()
        }
        Some(list) => list.get_ref().clone(),
        None => vec![1],
    };
    let template = raw.template.as_ref().and_then(|named| {
        let template = match Template::of(named.get_ref()) {
            Ok(template) => template,
            Err(unknown) => {
                check.wrong(named, unknown);
                return None;
            }
        };
        if language != Language::C {
            check.wrong(
                named,
                format!(
                    "the template `{template}` writes programs in C, and candidates are in {}: remove `template`",
                    language.name()
                ),
            );
        }
        // After a mistake in an argument, the rest would be compared with the wrong ones.
        if check.mistakes.is_empty()
            && let Err(why) = template.check(&args, &timed, &hidden)
        {
            check.wrong(named, why);
        }
        Some(template)
    });
    let max_source_bytes = match &raw.max_source_bytes {
        Some(size) if !(64..=1 << 20).contains(size.get_ref()) => {
            check.wrong(size, "`max_source_bytes` must lie between 64 and 1048576");
            0
        }
        Some(size) => *size.get_ref(),
        None => 65_536,
    };
    check.mistakes.sort();
    let special_at = raw.special.as_ref().map(Spanned::span);
    let reason_at = raw.easy_inputs.as_ref().map(Spanned::span);
    let measured = without_lines(text, [special_at, reason_at]);
    match (work, bytes, bound) {
        (Some(work), Some(bytes), Some(bound)) if check.mistakes.is_empty() => Ok(Problem {
            id,
            title: raw.title,
            suite: raw.suite,
            dir: dir.to_owned(),
            definition: text.to_owned(),
            digest: digest(
                [
                    Some(measured.as_str()),
                    Some(sources.reference.as_str()),
                    sources.baseline.as_deref(),
                ]
                .into_iter()
                .chain(sources.magnitude.as_deref().map(Some)),
            ),
            entry: Entry {
                name: raw.entry.name.into_inner(),
                prototype: raw.entry.prototype.into_inner(),
                args,
            },
            workloads,
            timed,
            caches,
            verify: VerifyPlan {
                visible: raw
                    .verify
                    .visible
                    .into_iter()
                    .map(Spanned::into_inner)
                    .collect(),
                hidden,
                distributions: raw.verify.distributions.into_inner(),
            },
            includes: raw.compile.includes,
            forbidden: plain(raw.compile.forbid),
            flags: plain(raw.compile.flags),
            cxx_flags: raw.compile.cxx_flags.map(plain),
            fortran_flags: raw.compile.fortran_flags.map(plain),
            bound,
            work,
            bytes,
            techniques,
            special,
            easy_inputs: raw.easy_inputs.map(Spanned::into_inner),
            template,
            threads,
            max_source_bytes,
            reference_source: sources.reference,
            baseline_source: sources.baseline,
            magnitude_source: sources.magnitude,
            deterministic: raw.deterministic.unwrap_or(true),
            language,
            prompt_text: raw.prompt,
            module: None,
        }),
        _ => Err(check.mistakes),
    }
}

/// The techniques of kernels with these names, none of which is in `others`.
fn of_kernel(
    check: &mut Check<'_>,
    names: &[Spanned<String>],
    others: TechniqueSet,
) -> TechniqueSet {
    let mut found = TechniqueSet::EMPTY;
    for name in names {
        match name.get_ref().parse::<Technique>() {
            Ok(t) if t.is_of_modules_only() => check.wrong(
                name,
                format!("`{t}` is a technique of modules of PyTorch, and this is a kernel"),
            ),
            Ok(t) if others.contains(t) => check.wrong(
                name,
                format!("`{t}` is among the `techniques` already: name it in one list"),
            ),
            Ok(t) => found = found.with(t),
            Err(e) => {
                let known = Technique::ALL.into_iter().map(Technique::name);
                let near = meant(&e.0, known).map(|near| format!("; did you mean {near}?"));
                check.wrong(name, format!("{e}{}", near.unwrap_or_default()));
            }
        }
    }
    found
}

/// A definition without the lines of the values at these places. Special techniques that no pool names have no effect, and the
/// reason for easy inputs has none, so numbers that were measured before a definition had them stay comparable.
fn without_lines(text: &str, places: [Option<Range<usize>>; 2]) -> String {
    let mut places: Vec<Range<usize>> = places.into_iter().flatten().collect();
    // From the end, so that the other places stay where they are.
    places.sort_by_key(|place| std::cmp::Reverse(place.start));
    let mut text = text.to_owned();
    for place in places {
        if let Some(rest) = without_line(&text, &place) {
            text = rest;
        }
    }
    text
}

/// A text without the lines of a place in it.
fn without_line(text: &str, place: &Range<usize>) -> Option<String> {
    let (before, behind) = (text.get(..place.start)?, text.get(place.end..)?);
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let next = behind.find('\n').map_or("", |at| &behind[at + 1..]);
    Some([&before[..begin], next].concat())
}

/// The language of candidates that name none: C where the definition names none.
fn language(check: &mut Check<'_>, named: Option<&Spanned<Language>>) -> Language {
    let Some(named) = named else {
        return Language::default();
    };
    let language = *named.get_ref();
    if Language::ALL.contains(&language) {
        return language;
    }
    let known = "`c`, `c++`, `fortran` and `fortran77`";
    check.wrong(
        named,
        format!(
            "kernels are written in {known}, and `language` is {}; name one of these, or write `kind = \"module\"` for a module of PyTorch",
            language.name()
        ),
    );
    Language::default()
}

/// Reports mistakes of the arguments that show at this workload and not at the first one: ranges may depend on the size.
fn arguments_at(check: &mut Check<'_>, entry: &RawEntry, workload: &Workload, language: Language) {
    let mut here = Check {
        text: check.text,
        mistakes: Vec::new(),
    };
    arguments::read(&mut here, entry, &workload.params, language);
    for (line, words) in here.mistakes {
        if !check.mistakes.iter().any(|known| known.0 == line) {
            let words = format!("{words} (at the workload `{}`)", workload.name);
            check.mistakes.push((line, words));
        }
    }
}

fn is_identifier(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars().all(plain) && !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn plain(flags: Vec<Spanned<String>>) -> Vec<String> {
    flags.into_iter().map(Spanned::into_inner).collect()
}
