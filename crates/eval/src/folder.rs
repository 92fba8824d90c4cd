//! The folder of an evaluation.
//!
//! Answers, outcomes and machines are lines that are appended as they come, so an evaluation that is stopped goes on from
//! its files. A line that a killed process left unfinished is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_bench::facts::Facts;
use flopsmith_bench::rows::Machine;
use flopsmith_config::Dtype;
use flopsmith_endpoint::{Entry, Journal};
use flopsmith_measure::Purpose;
use flopsmith_protocol::{Digest, TechniqueSet};
use flopsmith_report::bars;
use flopsmith_run::console::{say, usage};
use flopsmith_run::continued::{self, appended, lines};
use flopsmith_run::output::replace;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::Answer;
use crate::outcome::Outcome;
use crate::{Prompt, Task, figures, kernelbench, pareval};

/// The mark of configurations.
pub(crate) const FORMAT: &str = "flopsmith evaluation";
/// The version of the files.
pub(crate) const VERSION: u32 = 1;
/// The configuration.
pub(crate) const CONFIG: &str = continued::CONFIG;
/// The results.
pub(crate) const RESULTS: &str = "eval.json";
/// The numbers, a row each.
pub(crate) const TABLE: &str = "eval.csv";
/// The results as a page.
pub(crate) const PAGE: &str = "eval.md";
/// The results as a page with charts.
pub(crate) const CHARTS: &str = "eval.html";
/// The folder of charts.
const FIGURES: &str = "figures";
const ANSWERS: &str = "samples.jsonl";
const OUTCOMES: &str = "outcomes.jsonl";
const MACHINES: &str = "machines.jsonl";
/// The requests to endpoints.
const REQUESTS: &str = "requests.jsonl";
/// The folder of results in ParEval's format.
const PAREVAL: &str = "pareval";
/// The folder of results in KernelBench's format.
const KERNELBENCH: &str = "kernelbench";
/// The folder of raw samples.
const RECORDS: &str = "records";

/// Everything that the results of an evaluation depend on, but for the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The method of measuring.
    pub method: String,
    /// The models.
    pub models: Vec<OfModel>,
    /// The problems.
    pub problems: Vec<OfProblem>,
    /// The task.
    pub task: Task,
    /// The style of the prompts.
    pub prompt: Prompt,
    /// Softmax temperature of policies.
    pub temperature: f32,
    /// Nucleus share of policies.
    pub top_p: f32,
    /// Most tokens of a policy's answer.
    pub max_tokens: u32,
    /// Number format of policies' weights.
    pub dtype: Dtype,
    /// Seed of answers and intervals.
    pub seed: u64,
    /// Numbers of draws of the metrics.
    pub draws: Vec<u32>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// The standard of the measurements.
    pub purpose: Purpose,
    /// True if sanitizers check the programs.
    pub sanitize: bool,
    /// The compiler, by name or path.
    pub compiler: String,
}

/// A model of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfModel {
    /// Its name.
    pub name: String,
    /// `folder`, `samples`, `schedule` or `endpoint`.
    pub kind: String,
    /// Digest of its files, or of what its answers depend on.
    pub digest: Digest,
    /// Address and model of an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Number of its answers to each problem; 0 for one that it is not asked about ([`OfProblem::unstated`]).
    pub samples: Vec<u32>,
}

/// A problem of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfProblem {
    /// Its name.
    pub problem: String,
    /// Its suite.
    pub suite: Option<String>,
    /// The language of its candidates, as fenced blocks name it.
    pub language: String,
    /// Digest of its definition.
    pub digest: Digest,
    /// The techniques that programs may use.
    pub permitted: TechniqueSet,
    /// Why no prompt of the evaluation states it, so that models that read prompts are not asked about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstated: Option<String>,
    /// Digest of the program that models are to optimise; none where that is the problem's reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Digest>,
}

/// The content of an evaluation's folder.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// The configuration.
    pub config: Config,
    /// All answers.
    pub answers: Vec<Answer>,
    /// All outcomes, in the order in which they were decided. Of a program that the machine failed to evaluate there may
    /// be a later one.
    pub outcomes: Vec<Outcome>,
    /// The attestations of the machines, by digest.
    pub machines: BTreeMap<Digest, String>,
    /// The requests to endpoints, in the order in which they began and ended.
    pub requests: Vec<Request>,
}

/// A line of `requests.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Name of the model.
    pub model: String,
    /// The beginning or the end of the request.
    #[serde(flatten)]
    pub entry: Entry,
}

/// The attestation of a machine: a line of `machines.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct Attested {
    digest: Digest,
    attestation_json: String,
}

impl Evaluation {
    /// Reads a folder.
    ///
    /// # Errors
    /// Wrong usage: the folder holds no evaluation, or its files are damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG);
        let text = std::fs::read_to_string(&path).map_err(|e| {
            usage(format!(
                "{} holds no evaluation: cannot read {}: {e}",
                folder.display(),
                path.display()
            ))
        })?;
        let config = parsed(&path, &text)?;
        Self::with(folder, config)
    }

    fn with(folder: &Path, config: Config) -> Result<Self> {
        let machines: Vec<Attested> = lines(&folder.join(MACHINES))?;
        let machines = machines.into_iter();
        Ok(Self {
            config,
            answers: lines(&folder.join(ANSWERS))?,
            outcomes: lines(&folder.join(OUTCOMES))?,
            machines: machines.map(|m| (m.digest, m.attestation_json)).collect(),
            requests: lines(&folder.join(REQUESTS))?,
        })
    }

    /// Number of the answers of a model to a problem.
    pub fn samples(&self, model: &str, problem: &str) -> u32 {
        let Config {
            models, problems, ..
        } = &self.config;
        let place = problems.iter().position(|p| p.problem == problem);
        let model = models.iter().find(|m| m.name == model);
        let of = place.zip(model);
        of.and_then(|(place, model)| model.samples.get(place).copied())
            .unwrap_or(0)
    }

    /// The requests to the endpoint of a model.
    pub fn requests<'a>(&'a self, model: &'a str) -> impl Iterator<Item = &'a Entry> {
        let requests = self.requests.iter();
        requests
            .filter(move |request| request.model == model)
            .map(|request| &request.entry)
    }

    /// The facts of the machine that decided the first outcome of a problem.
    pub fn facts(&self, problem: &str, threads: u32) -> Option<Facts> {
        let mut outcomes = self.outcomes.iter();
        let of = |o: &&Outcome| o.problem == problem && o.threads == threads && o.is_final();
        let first = outcomes.find(of)?;
        let json = self.machines.get(&first.attestation)?;
        Some(Facts::of(&Machine::new(json.clone()).ok()?))
    }
}

/// Reads a configuration.
fn parsed(path: &Path, text: &str) -> Result<Config> {
    let wrong = |why: String| {
        usage(format!(
            "{} is no configuration of an evaluation: {why}; name another folder",
            path.display()
        ))
    };
    let value: Value = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
    if value["format"] != FORMAT || value["version"] != VERSION {
        return Err(wrong(format!(
            "this Flopsmith reads `{FORMAT}` of version {VERSION}"
        )));
    }
    serde_json::from_value(value).map_err(|e| wrong(e.to_string()))
}

/// The folder of an evaluation that this process works on.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    evaluation: Evaluation,
    /// The answers that are there: model, problem, number.
    there: BTreeSet<(String, String, u32)>,
    answers: File,
    outcomes: File,
    machines: File,
    /// Its lock ends with this value.
    _locked: File,
    /// True if there was no such folder before.
    is_new: bool,
}

impl Folder {
    /// Opens the folder, which is made if there is none.
    ///
    /// # Errors
    /// Wrong usage: the folder holds something else, an evaluation with another configuration, or one that another
    /// process works on.
    pub fn open(path: &Path, config: &Config) -> Result<Self> {
        let is_new = !path.exists();
        let locked = continued::claim(path, "evaluation", config, |path, text| {
            parsed(path, text).map(|_| ())
        })?;
        let appended = |name: &str| appended(&path.join(name));
        let (answers, outcomes, machines) =
            (appended(ANSWERS)?, appended(OUTCOMES)?, appended(MACHINES)?);
        let evaluation = Evaluation::with(path, config.clone())?;
        let there = evaluation.answers.iter().map(key);
        let folder = Self {
            path: path.to_owned(),
            there: there.collect(),
            answers,
            outcomes,
            machines,
            _locked: locked,
            is_new,
            evaluation,
        };
        let (answers, outcomes) = (folder.there.len(), folder.evaluation.outcomes.len());
        if answers > 0 {
            say(&format!(
                "going on in {}: {answers} answers and {outcomes} outcomes are there",
                path.display()
            ));
        }
        Ok(folder)
    }

    /// Removes the configuration if the folder has no answer, no outcome and no request: nothing is lost, and an evaluation of
    /// another model finds an empty folder. A folder that [`Folder::open`] made is removed, too.
    pub fn discard_unless_begun(self) {
        let lines = [ANSWERS, OUTCOMES, REQUESTS].map(|name| self.path.join(name));
        let is_empty =
            |path: &PathBuf| std::fs::metadata(path).map_or(true, |file| file.len() == 0);
        if !lines.iter().all(is_empty) {
            return;
        }
        // A file that cannot be removed is no reason to hide why the evaluation ended.
        for path in lines
            .iter()
            .chain(&[self.path.join(MACHINES), self.path.join(CONFIG)])
        {
            let _ = std::fs::remove_file(path);
        }
        if self.is_new {
            let _ = std::fs::remove_dir(&self.path);
        }
    }

    /// Its content.
    pub fn evaluation(&self) -> &Evaluation {
        &self.evaluation
    }

    /// True if this answer of a model is there.
    pub fn has(&self, model: &str, problem: &str, number: u32) -> bool {
        let key = (model.to_owned(), problem.to_owned(), number);
        self.there.contains(&key)
    }

    /// The numbers of the answers of a model to a problem that are not there, of those that the configuration asks for.
    pub fn missing(&self, model: &str, problem: &str) -> Vec<u32> {
        let all = 1..=self.evaluation.samples(model, problem);
        all.filter(|number| !self.has(model, problem, *number))
            .collect()
    }

    /// Adds answers.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_answers(&mut self, answers: Vec<Answer>) -> Result<()> {
        let mut text = String::new();
        for answer in &answers {
            text.push_str(&serde_json::to_string(answer)?);
            text.push('\n');
        }
        self.append(&self.answers, ANSWERS, &text)?;
        self.there.extend(answers.iter().map(key));
        self.evaluation.answers.extend(answers);
        Ok(())
    }

    /// Opens the journal of the requests to a model's endpoint. Its entries are in [`Self::evaluation`] after
    /// [`Self::read_requests`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn journal(&self, model: &str) -> Result<Journal> {
        let mut file = appended(&self.path.join(REQUESTS))?;
        let model = model.to_owned();
        Ok(Box::new(move |entry| {
            let request = Request {
                model: model.clone(),
                entry: entry.clone(),
            };
            let line = serde_json::to_string(&request).map_err(std::io::Error::other)?;
            file.write_all(format!("{line}\n").as_bytes())
        }))
    }

    /// Reads the requests that were written since the folder was opened.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_requests(&mut self) -> Result<()> {
        self.evaluation.requests = lines(&self.path.join(REQUESTS))?;
        Ok(())
    }

    /// Adds an outcome.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add_outcome(&mut self, outcome: Outcome, machine: &Machine) -> Result<()> {
        if !self.evaluation.machines.contains_key(&machine.digest) {
            let attested = Attested {
                digest: machine.digest.clone(),
                attestation_json: machine.json.clone(),
            };
            let line = serde_json::to_string(&attested)? + "\n";
            self.append(&self.machines, MACHINES, &line)?;
            let machines = &mut self.evaluation.machines;
            machines.insert(attested.digest, attested.attestation_json);
        }
        let line = serde_json::to_string(&outcome)? + "\n";
        self.append(&self.outcomes, OUTCOMES, &line)?;
        self.evaluation.outcomes.push(outcome);
        Ok(())
    }

    /// Keeps the record of a measurement, and returns the name of its file in the folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, name: &str, record: &[u8]) -> Result<String> {
        let file = format!("{RECORDS}/{name}.json");
        let path = self.path.join(&file);
        std::fs::create_dir_all(self.path.join(RECORDS))
            .and_then(|()| replace(&path, record))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(file)
    }

    /// Replaces a file of results.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        replace(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Replaces the results in ParEval's format, of each model at each number of threads.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn write_pareval(&self) -> Result<()> {
        let Config {
            models, threads, ..
        } = &self.evaluation.config;
        let path = self.path.join(PAREVAL);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        let mut names = pareval::names(models, threads).into_iter();
        for model in models {
            for threads in threads {
                let name = names.next().context("each file has a name")?;
                let prompts = pareval::prompts(&self.evaluation, model, *threads);
                let text = serde_json::to_string_pretty(&prompts)? + "\n";
                self.write(&format!("{PAREVAL}/{name}.json"), &text)?;
            }
        }
        Ok(())
    }

    /// Replaces the results for modules in KernelBench's format: of each model at each number of threads a folder, with a
    /// folder for each level. None without modules.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn write_kernelbench(&self) -> Result<()> {
        let Config {
            models, threads, ..
        } = &self.evaluation.config;
        let mut names = pareval::names(models, threads).into_iter();
        for model in models {
            for threads in threads {
                let name = names.next().context("each folder has a name")?;
                for (level, results) in kernelbench::levels(&self.evaluation, model, *threads) {
                    let folder = format!("{KERNELBENCH}/{name}/level_{level}");
                    let path = self.path.join(&folder);
                    std::fs::create_dir_all(&path)
                        .with_context(|| format!("cannot make {}", path.display()))?;
                    let text = serde_json::to_string_pretty(&results)? + "\n";
                    self.write(&format!("{folder}/{}", kernelbench::FILE), &text)?;
                }
            }
        }
        Ok(())
    }

    /// Replaces the charts, each a file of its own.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn write_figures(&self, charts: &[figures::Named]) -> Result<()> {
        let path = self.path.join(FIGURES);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        for figures::Named { file, chart } in charts {
            if let Some(svg) = bars::file(chart) {
                self.write(&format!("{FIGURES}/{file}.svg"), &svg)?;
            }
        }
        Ok(())
    }

    fn append(&self, mut file: &File, name: &str, text: &str) -> Result<()> {
        file.write_all(text.as_bytes())
            .with_context(|| format!("cannot write {}", self.path.join(name).display()))
    }
}

fn key(answer: &Answer) -> (String, String, u32) {
    (answer.model.clone(), answer.problem.clone(), answer.number)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(crate) mod tests {
    use flopsmith_endpoint::{Amount, Event, Reason};

    use super::*;

    pub(crate) fn config() -> Config {
        let digest = Digest::of(b"");
        Config {
            format: FORMAT.into(),
            version: VERSION,
            method: "1".into(),
            models: ["a", "b"]
                .map(|name| OfModel {
                    name: name.into(),
                    kind: "samples".into(),
                    digest: digest.clone(),
                    endpoint: None,
                    samples: vec![2],
                })
                .into(),
            problems: vec![OfProblem {
                problem: "dot".into(),
                suite: None,
                language: "c".into(),
                digest,
                permitted: TechniqueSet::all(),
                unstated: None,
                program: None,
            }],
            task: Task::Write,
            prompt: Prompt::Auto,
            temperature: 0.2,
            top_p: 0.95,
            max_tokens: 512,
            dtype: Dtype::Float32,
            seed: 1,
            draws: vec![1],
            threads: vec![1],
            purpose: Purpose::Screen,
            sanitize: false,
            compiler: "gcc".into(),
        }
    }

    pub(crate) fn answer(model: &str, number: u32, program: Option<&str>) -> Answer {
        Answer {
            model: model.into(),
            problem: "dot".into(),
            number,
            seed: None,
            prompt: None,
            answer: None,
            finished: None,
            program: program.map(str::to_owned),
        }
    }

    #[test]
    fn a_second_start_finds_every_whole_line_and_drops_an_unfinished_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let mut folder = Folder::open(&path, &config()).unwrap();
        assert_eq!(folder.missing("a", "dot"), [1, 2]);
        assert!(folder.missing("a", "dgemm").is_empty(), "not evaluated");
        folder
            .add_answers(vec![answer("a", 1, Some("int x;"))])
            .unwrap();
        drop(folder);
        let file = path.join(ANSWERS);
        let whole = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{whole}{}", &whole[..20])).unwrap();
        let mut folder = Folder::open(&path, &config()).unwrap();
        assert_eq!(folder.missing("a", "dot"), [2]);
        folder.add_answers(vec![answer("a", 2, None)]).unwrap();
        drop(folder);
        let read = Evaluation::read(&path).unwrap();
        assert_eq!(
            read.answers,
            [answer("a", 1, Some("int x;")), answer("a", 2, None)]
        );
        // A damaged line in the middle is named.
        std::fs::write(&file, format!("{{\n{whole}")).unwrap();
        let error = Evaluation::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 1 of") && error.contains(ANSWERS),
            "{error}"
        );
    }

    #[test]
    fn a_folder_without_an_answer_is_free_for_another_model() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let other = Config {
            seed: 2,
            ..config()
        };
        Folder::open(&path, &config())
            .unwrap()
            .discard_unless_begun();
        assert!(!path.exists());
        // The user's own folder stays.
        std::fs::create_dir(&path).unwrap();
        Folder::open(&path, &config())
            .unwrap()
            .discard_unless_begun();
        assert!(std::fs::read_dir(&path).unwrap().next().is_none());
        let mut folder = Folder::open(&path, &other).unwrap();
        folder.add_answers(vec![answer("a", 1, None)]).unwrap();
        folder.discard_unless_begun();
        assert_eq!(Evaluation::read(&path).unwrap().answers.len(), 1);
        assert!(Folder::open(&path, &config()).is_err());
    }

    #[test]
    fn modules_have_a_file_of_kernelbench_for_each_level() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let evaluation = kernelbench::tests::example();
        let mut folder = Folder::open(&path, &evaluation.config).unwrap();
        folder.evaluation = evaluation;
        folder.write_kernelbench().unwrap();
        let file = path.join("kernelbench/a-1/level_2/eval_results.json");
        let text = std::fs::read_to_string(file).unwrap();
        let results: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(results["7"].as_array().unwrap().len(), 3, "{text}");
        // The other model gave no answers.
        assert!(!path.join("kernelbench/b-1").exists());
        // Kernels have no such folder.
        let kernels = place.path().join("kernels");
        let folder = Folder::open(&kernels, &config()).unwrap();
        folder.write_kernelbench().unwrap();
        assert!(!kernels.join("kernelbench").exists());
    }

    #[test]
    fn requests_to_endpoints_outlive_the_process() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let entry = Entry {
            problem: "dot".into(),
            number: 1,
            attempt: 1,
            event: Event::Reserved,
            amount: Amount {
                input_tokens: 9,
                output_tokens: 512,
                cost: "0.0123".parse().unwrap(),
            },
            assumed: false,
            elapsed_ms: 5,
            reason: None,
            detail: String::new(),
            served: None,
        };
        let folder = Folder::open(&path, &config()).unwrap();
        let mut journal = folder.journal("a").unwrap();
        journal(&entry).unwrap();
        drop((journal, folder));
        let file = path.join(REQUESTS);
        let whole = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{whole}{}", &whole[..20])).unwrap();
        let mut folder = Folder::open(&path, &config()).unwrap();
        let ended = Entry {
            event: Event::Failed,
            reason: Some(Reason::Idle),
            ..entry.clone()
        };
        let mut journal = folder.journal("b").unwrap();
        journal(&ended).unwrap();
        folder.read_requests().unwrap();
        let of = |model| -> Vec<Entry> { folder.evaluation().requests(model).cloned().collect() };
        assert_eq!((of("a"), of("b")), (vec![entry], vec![ended]));
    }

    #[test]
    fn another_configuration_another_process_and_other_files_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let said = |config: &Config| Folder::open(&path, config).unwrap_err().to_string();
        let folder = Folder::open(&path, &config()).unwrap();
        assert!(
            said(&config()).contains("another process"),
            "{}",
            said(&config())
        );
        drop(folder);
        let other = Config {
            temperature: 0.8,
            seed: 2,
            ..config()
        };
        let words = said(&other);
        assert!(words.contains("`seed` (1 there, 2 here)"), "{words}");
        assert!(
            words.contains("`temperature` (0.2 there, 0.8 here)"),
            "{words}"
        );
        assert!(!words.contains("top_p"), "{words}");
        let mut other = config();
        other.problems[0].program = Some(Digest::of(b"int x;"));
        assert!(said(&other).contains("`problems`"), "{}", said(&other));
        std::fs::write(path.join(CONFIG), "{}").unwrap();
        assert!(
            said(&config()).contains("no configuration"),
            "{}",
            said(&config())
        );
        std::fs::remove_file(path.join(CONFIG)).unwrap();
        assert!(said(&config()).contains("not empty"), "{}", said(&config()));
    }
}
