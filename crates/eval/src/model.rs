//! Models as the command line names them.

use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
use flopsmith_config::{Endpoint, Job};
use flopsmith_protocol::Digest;
use flopsmith_run::console::usage;
use flopsmith_run::folder::job_name;
use flopsmith_run::{export, paths, shell};

/// The word that stands for the schedule space.
pub const SCHEDULES: &str = "schedule";
/// The beginning of words that name an endpoint.
pub const ENDPOINT: &str = "endpoint:";
/// Largest file whose content is part of a model's digest, bytes. Of larger files length and time of change are.
const LARGEST: u64 = 64 << 20;

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name in results.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
}

/// The kinds of models.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A language model, or an adapter, in a folder, which may be that of a run.
    Folder(PathBuf),
    /// Answers that are ready, in a file of JSON lines.
    Samples(PathBuf),
    /// Random programs of the schedule space.
    Schedules,
    /// A language model behind an endpoint.
    Endpoint(Box<Endpoint>),
}

impl Kind {
    /// Its name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Folder(_) => "folder",
            Kind::Samples(_) => "samples",
            Kind::Schedules => "schedule",
            Kind::Endpoint(_) => "endpoint",
        }
    }

    /// True if the model answers prompts.
    pub fn reads_prompts(&self) -> bool {
        match self {
            Kind::Folder(_) | Kind::Endpoint(_) => true,
            Kind::Samples(_) | Kind::Schedules => false,
        }
    }
}

impl Model {
    /// Reads a word of the command line: a folder of a model or of a run, a file, [`SCHEDULES`], or an endpoint ([`ENDPOINT`]); with `NAME=` before
    /// it, under another name.
    ///
    /// # Errors
    /// Wrong usage: nothing of the kind exists, or the endpoint cannot be used.
    pub fn read(word: &str) -> Result<Self> {
        if let Some(text) = word.strip_prefix(ENDPOINT) {
            return Self::behind(text, None);
        }
        if let Some((name, rest)) = word.split_once('=')
            && let Some(text) = rest.strip_prefix(ENDPOINT)
            && !name.is_empty()
        {
            return Self::behind(text, Some(name));
        }
        let of = |name: &str, word: &str| {
            let kind = kind(word)?;
            let name = name.to_owned();
            Some(Self { name, kind })
        };
        let found = of(word, word).or_else(|| {
            let (name, word) = word.split_once('=')?;
            of(name, word).filter(|_| !name.is_empty())
        });
        let found = found.ok_or_else(|| {
            usage(format!(
                "there is no model `{word}`: name a model's folder, a run's folder, a file of samples (JSON lines), `{SCHEDULES}` for the schedule space, or `{ENDPOINT}URL#MODEL`"
            ))
        })?;
        if let Kind::Folder(path) = &found.kind
            && !path.is_dir()
        {
            if let Some(error) = path.parent().and_then(of_search) {
                return Err(error);
            }
            return Err(usage(format!(
                "the run `{word}` has no trained model ({}), which `flopsmith train` writes at its end; end the run (--resume), or name another model",
                path.display()
            )));
        }
        Ok(found)
    }

    /// A model behind an endpoint: `URL#MODEL`, or a file of settings.
    fn behind(text: &str, name: Option<&str>) -> Result<Self> {
        let endpoint = Endpoint::named(text).map_err(Error::new)?;
        flopsmith_endpoint::address(&endpoint.url).map_err(|e| usage(e.to_string()))?;
        Ok(Self {
            name: name.map_or_else(|| endpoint.model.clone(), str::to_owned),
            kind: Kind::Endpoint(Box::new(endpoint)),
        })
    }

    /// The models of a command line.
    ///
    /// # Errors
    /// As [`Model::read`], and two models of one name.
    pub fn read_all(words: &[String]) -> Result<Vec<Self>> {
        let mut models: Vec<Self> = Vec::new();
        for word in words {
            let model = Self::read(word)?;
            if models.iter().any(|other| other.name == model.name) {
                return Err(usage(format!(
                    "two models are called `{}`; give one another name, e.g. `second={}`",
                    model.name, model.name
                )));
            }
            models.push(model);
        }
        Ok(models)
    }

    /// A digest that changes if the model does.
    ///
    /// # Errors
    /// Wrong usage: a file of the model cannot be read.
    pub fn digest(&self) -> Result<Digest> {
        let unreadable =
            |path: &Path, e: std::io::Error| usage(format!("cannot read {}: {e}", path.display()));
        match &self.kind {
            Kind::Schedules => Ok(Digest::of(env!("CARGO_PKG_VERSION").as_bytes())),
            Kind::Samples(path) => {
                let bytes = std::fs::read(path).map_err(|e| unreadable(path, e))?;
                Ok(Digest::of(&bytes))
            }
            Kind::Folder(path) => of_folder(path).map_err(|e| unreadable(path, e)),
            // Key, prices, limits and waits change no answer, so an evaluation goes on with others.
            Kind::Endpoint(endpoint) => {
                let parts = (
                    &endpoint.url,
                    &endpoint.model,
                    endpoint.token_limit,
                    &endpoint.omit,
                );
                Ok(Digest::of(&serde_json::to_vec(&parts)?))
            }
        }
    }

    /// The address and the model of an endpoint.
    pub fn endpoint(&self) -> Option<String> {
        match &self.kind {
            Kind::Endpoint(endpoint) => Some(format!("{}#{}", endpoint.url, endpoint.model)),
            Kind::Folder(_) | Kind::Samples(_) | Kind::Schedules => None,
        }
    }
}

/// The error for the folder of a search, which has programs and no model; none for other runs.
fn of_search(run: &Path) -> Option<Error> {
    let facts = flopsmith_run::folder::read_facts(run).ok()?;
    if facts.job != job_name(Job::Search) {
        return None;
    }
    let problem = match facts.problem.as_str() {
        "" => "NAME",
        problem => problem,
    };
    let (program, run, problem) = (
        shell::program(),
        shell::quoted(&run.display().to_string()),
        shell::quoted(problem),
    );
    Some(usage(format!(
        "{run} is a search, which has programs and no model; evaluate its programs by `{program} dataset run {run} > programs.jsonl` and then \
         `{program} eval programs.jsonl --problem {problem}`, or time the best one by `{program} bench {run}/best.c --problem {problem}`"
    )))
}

fn kind(word: &str) -> Option<Kind> {
    if word == SCHEDULES {
        return Some(Kind::Schedules);
    }
    let path = Path::new(word);
    if path.is_file() {
        return Some(Kind::Samples(path.to_owned()));
    }
    let folder = paths::model(path);
    if !folder.is_dir() {
        return None;
    }
    let is_run = folder.join(flopsmith_run::folder::CONFIG).is_file()
        && !folder.join("config.json").is_file();
    Some(Kind::Folder(match is_run {
        true => folder.join(export::MODEL),
        false => folder,
    }))
}

/// The digest of the files of a folder that make a model.
fn of_folder(folder: &Path) -> std::io::Result<Digest> {
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let known = ["json", "safetensors", "jinja"];
        let is_known = path
            .extension()
            .is_some_and(|end| known.iter().any(|k| end == *k));
        if !path.is_file() || !is_known {
            continue;
        }
        let found = path.metadata()?;
        let content = match found.len() <= LARGEST {
            true => Digest::of(&std::fs::read(&path)?).to_string(),
            false => format!("{} {:?}", found.len(), found.modified()?),
        };
        parts.push(format!("{name} {content}\n"));
    }
    parts.sort();
    Ok(Digest::of(parts.concat().as_bytes()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_folder_a_file_or_the_schedule_space() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.jsonl");
        std::fs::write(&file, "").unwrap();
        let folder = place.path().display().to_string();
        let file = file.display().to_string();
        assert_eq!(Model::read("schedule").unwrap().kind, Kind::Schedules);
        assert_eq!(Model::read(&folder).unwrap().kind.name(), "folder");
        let named = Model::read(&format!("base={file}")).unwrap();
        assert_eq!(
            (named.name.as_str(), named.kind.name()),
            ("base", "samples")
        );
        for wrong in ["no/such/folder", "a=no/such/folder", &format!("={file}")] {
            let error = Model::read(wrong).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains(wrong), "{error:#}");
        }
        let words = ["schedule", "second=schedule"].map(str::to_owned);
        assert_eq!(Model::read_all(&words).unwrap().len(), 2);
        let error = Model::read_all(&["schedule", "schedule"].map(str::to_owned)).unwrap_err();
        assert!(error.to_string().contains("second=schedule"), "{error:#}");
    }

    #[test]
    fn the_folder_of_a_run_stands_for_its_trained_model() {
        let place = tempfile::tempdir().unwrap();
        let word = place.path().display().to_string();
        let of = |word: &str| Model::read(word);
        std::fs::write(place.path().join("config.toml"), "").unwrap();
        let error = of(&word).unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        assert!(error.to_string().contains("no trained model"), "{error:#}");
        // A search has none, and never will.
        let facts = flopsmith_run::summary::Facts {
            job: "search".into(),
            problem: "dot".into(),
            ..Default::default()
        };
        let about = place.path().join("run.json");
        std::fs::write(&about, serde_json::to_vec(&facts).unwrap()).unwrap();
        let error = of(&word).unwrap_err().to_string();
        for part in [
            "is a search",
            "dataset run",
            "eval programs.jsonl --problem dot",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        std::fs::remove_file(about).unwrap();
        let trained = place.path().join("model");
        std::fs::create_dir(&trained).unwrap();
        let model = of(&word).unwrap();
        assert_eq!(
            (model.name, model.kind),
            (word.clone(), Kind::Folder(trained))
        );
        assert_eq!(of(&format!("after={word}")).unwrap().name, "after");
        // A model may lie beside settings of any kind.
        std::fs::write(place.path().join("config.json"), "{}").unwrap();
        let itself = Kind::Folder(place.path().to_owned());
        assert_eq!(of(&word).unwrap().kind, itself);
    }

    #[test]
    fn an_endpoint_is_an_address_or_a_file_of_settings() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("e.toml");
        let settings = "url = \"http://127.0.0.1:8000/v1\"\nmodel = \"org/m\"\n";
        std::fs::write(&file, settings).unwrap();
        let file = file.display().to_string();
        let short = Model::read("endpoint:http://127.0.0.1:8000/v1#org/m").unwrap();
        assert_eq!(short.name, "org/m");
        assert_eq!(short.kind.name(), "endpoint");
        let named = Model::read(&format!("mine=endpoint:{file}")).unwrap();
        assert_eq!((named.name.as_str(), &named.kind), ("mine", &short.kind));
        assert_eq!(named.endpoint().unwrap(), "http://127.0.0.1:8000/v1#org/m");
        // Another budget is the same model, another address is not.
        std::fs::write(&file, format!("{settings}[budget]\ntokens = 9\n")).unwrap();
        let limited = Model::read(&format!("endpoint:{file}")).unwrap();
        assert_ne!(limited.kind, short.kind);
        assert_eq!(limited.digest().unwrap(), short.digest().unwrap());
        let other = Model::read("endpoint:http://127.0.0.1:8001/v1#org/m").unwrap();
        assert_ne!(other.digest().unwrap(), short.digest().unwrap());
        for (wrong, words) in [
            ("endpoint:http://127.0.0.1:8000/v1", "after `#`"),
            ("endpoint:http://127.0.0.1:8000/v1#", "`model` is empty"),
            ("endpoint:ftp://127.0.0.1/v1#m", "http:// or https://"),
            ("endpoint:no/such.toml", "no/such.toml"),
            ("endpoint:http://user:secret@127.0.0.1/v1#m", "a password"),
        ] {
            let error = Model::read(wrong).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains(words), "{wrong}: {error:#}");
            assert!(!error.to_string().contains("secret"), "{error:#}");
        }
    }

    #[test]
    fn a_digest_changes_with_the_models_files_only() {
        let place = tempfile::tempdir().unwrap();
        let of = || {
            Model::read(&place.path().display().to_string())
                .unwrap()
                .digest()
                .unwrap()
        };
        let empty = of();
        std::fs::write(place.path().join("notes.txt"), "a").unwrap();
        assert_eq!(of(), empty);
        std::fs::write(place.path().join("config.json"), "{}").unwrap();
        let first = of();
        assert_ne!(first, empty);
        std::fs::write(place.path().join("config.json"), "{ }").unwrap();
        assert_ne!(of(), first);
    }
}
