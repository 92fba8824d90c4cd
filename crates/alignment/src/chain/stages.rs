//! The work of each stage.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flopsmith_config::Standard;
use flopsmith_config::alignment::Asked;
use flopsmith_config::recipe::{Examples, Pairs};
use flopsmith_eval::model::{Kind, Model};
use flopsmith_eval::{Format, Prompt, Task};
use flopsmith_generator::measured::Program;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_protocol::Sampling;
use flopsmith_recipes::pairs::{self, Aim};
use flopsmith_recipes::{Placement, is_unfinished, rlpf, starter};
use flopsmith_run::console::{say, usage};
use flopsmith_run::digits::time;
use flopsmith_run::exit::{INFRASTRUCTURE, INTERRUPTED, OK};
use flopsmith_run::farm::{self, Farm, Ways};
use flopsmith_run::jsonl;
use flopsmith_run::ticker::Ticker;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Order;
use super::plan::{COMPILER, MODELS, Plan, about};
use super::state::{Folder, MEASURED, Stage, replace};
use super::summary::{Set, Summary};
use crate::label::{self, Bench, Given};
use crate::{split, to_measure};

/// Updates between two checkpoints of a training.
const CHECKPOINT_EVERY: u64 = 100;
/// The programs with their times.
const PROGRAMS: &str = "programs.jsonl";
/// The recipe of a stage.
const RECIPE: &str = "recipe.toml";

/// How a stage ended.
pub enum Ended {
    /// It is complete, with this exit code.
    Complete(u8),
    /// It has results, and this machine failed at a part of it.
    Incomplete(u8),
    /// A stop was requested.
    Interrupted,
}

/// A line of [`MEASURED`]: a program with its number among those of the attempt that measured it. Another attempt may want
/// others, so programs are known by what they are.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    number: usize,
    program: Program,
}

/// A problem with the programs that have no time yet, by their numbers.
type Todo = (Arc<Problem>, Vec<(usize, Given)>);

/// A stage at work.
pub struct Work<'a> {
    /// The request of the user.
    pub order: &'a Order<'a>,
    /// The recipe with all that it names.
    pub plan: &'a Plan,
    /// The folder of all stages.
    pub folder: &'a Folder,
    /// The folder of this stage.
    pub path: &'a Path,
    /// Cancelled once a stop was requested.
    pub stopped: &'a CancellationToken,
}

impl Work<'_> {
    /// Does the work of a stage.
    ///
    /// # Errors
    /// Those of the single command.
    pub fn run(&self, stage: Stage) -> Result<Ended> {
        match stage {
            Stage::Programs => self.programs(),
            Stage::Split => self.split(),
            Stage::Sft => self.sft(),
            Stage::RewardModel => self.pairs("reward_model", Aim::RewardModel),
            Stage::Dpa => self.pairs("dpa", Aim::Dpa),
            Stage::Rlpf => self.rlpf(),
            Stage::Evaluation => self.evaluation(),
        }
    }

    /// Measures the programs of all training problems, those first that no earlier attempt measured.
    fn programs(&self) -> Result<Ended> {
        let work = self.plan.programs()?;
        let known = read_lines(&self.path.join(MEASURED))?;
        let mut done = matching(work.iter().flat_map(|(_, programs)| programs), &known);
        let total: usize = work.iter().map(|(_, programs)| programs.len()).sum();
        if !done.is_empty() {
            say(&format!(
                "{} of {total} programs were measured before",
                done.len()
            ));
        }
        let open = total.saturating_sub(done.len());
        let mut number = 0;
        let mut todo = Vec::new();
        for (problem, programs) in work {
            let numbered: Vec<(usize, Given)> = (number..).zip(programs).collect();
            number += numbered.len();
            let numbered = numbered.into_iter();
            let open: Vec<(usize, Given)> = numbered
                .filter(|(number, _)| !done.contains_key(number))
                .collect();
            if !open.is_empty() {
                todo.push((problem, open));
            }
        }
        let mut kept = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.path.join(MEASURED))
            .with_context(|| format!("cannot write into {}", self.path.display()))?;
        let began = Instant::now();
        let mut ticker = Ticker::new(50);
        let (mut count, mut left_out) = (0usize, 0u64);
        let mut keep = |number: usize, program: Option<Program>| -> Result<()> {
            match program {
                Some(program) => {
                    let line = Line { number, program };
                    writeln!(kept, "{}", serde_json::to_string(&line)?)
                        .with_context(|| format!("cannot write into {}", self.path.display()))?;
                    done.insert(number, line.program);
                }
                None => left_out += 1,
            }
            count += 1;
            ticker.tick(count as u64, open as u64, || {
                let each = began.elapsed().as_secs_f64() / count as f64;
                let left = about(each * open.saturating_sub(count) as f64);
                format!("measured {count} of {open} programs, {left} left")
            });
            Ok(())
        };
        let whole = match self.order.farm {
            None => self.measured_here(todo, &mut keep)?,
            Some(ways) => self.measured_on_farm(ways, todo, &mut keep)?,
        };
        if !whole {
            ticker.end();
            say("stopped after the current measurement");
            return Ok(Ended::Interrupted);
        }
        ticker.end();
        if left_out > 0 {
            let who = match self.order.farm {
                None => "this machine",
                Some(_) => "the workers",
            };
            say(&format!(
                "{left_out} programs are left out: {who} failed to measure them"
            ));
        }
        let mut programs: Vec<Program> = done.into_values().collect();
        programs.extend(self.plan.measured.iter().cloned());
        for line in by_problem(&programs) {
            say(&line);
        }
        if !programs.iter().any(|p| p.correct) {
            return Err(usage(
                "no program of the training problems is correct, so there is nothing to learn from; draw more, or name other files in `programs`",
            ));
        }
        jsonl::write(&self.path.join(PROGRAMS), &programs)?;
        Ok(Ended::Complete(OK))
    }

    /// Measures programs on this machine; false if a stop was requested.
    fn measured_here(
        &self,
        todo: Vec<Todo>,
        keep: &mut dyn FnMut(usize, Option<Program>) -> Result<()>,
    ) -> Result<bool> {
        for (problem, programs) in todo {
            let mut bench = self.bench(&problem)?;
            for (number, given) in programs {
                let program = bench.measure(given);
                // Ctrl-c also reaches the measured process, so its result has no meaning.
                if self.stopped.is_cancelled() {
                    return Ok(false);
                }
                keep(number, program)?;
            }
        }
        Ok(true)
    }

    /// Has the workers of a cluster measure programs; false if a stop was requested.
    fn measured_on_farm(
        &self,
        ways: &Ways,
        todo: Vec<Todo>,
        keep: &mut dyn FnMut(usize, Option<Program>) -> Result<()>,
    ) -> Result<bool> {
        let workloads = &self.plan.recipe.workloads;
        let problems: Vec<_> = todo
            .iter()
            .map(|(problem, _)| Arc::clone(problem))
            .collect();
        if problems.is_empty() {
            return Ok(true);
        }
        let mut numbers = Vec::new();
        let work = todo.into_iter().map(|(problem, programs)| {
            let (mine, programs): (Vec<usize>, Vec<Given>) = programs.into_iter().unzip();
            numbers.extend(mine);
            to_measure::Work {
                permitted: Some(label::permitted(&problem)),
                problem,
                programs,
            }
        });
        let work = work.collect();
        let order = farm::Order {
            name: "align",
            problems: &problems,
            workloads,
            compiler: COMPILER,
            standard: Standard::Screen,
            full: Standard::Screen,
            threads: 1,
            sanitize: false,
        };
        let mut farm = Farm::open(ways, &order)?;
        let mut numbers = numbers.into_iter();
        label::on_farm(&mut farm, work, workloads, self.stopped, |program| {
            numbers
                .next()
                .map_or(Ok(()), |number| keep(number, program))
        })
    }

    fn bench(&self, problem: &Arc<Problem>) -> Result<Bench> {
        Bench::open(
            Arc::clone(problem),
            &self.plan.recipe.workloads,
            COMPILER,
            self.order.allow_weaker_jail,
            Some(label::permitted(problem)),
        )
    }

    fn split(&self) -> Result<Ended> {
        let recipe = &self.plan.recipe;
        let file = self.folder.of(Stage::Programs).join(PROGRAMS);
        let programs = jsonl::read(&file, Program::check)?;
        let files = split::write(
            self.path,
            &programs,
            &split::Settings {
                pairs: recipe.split.pairs,
                examples: recipe.split.examples,
                improve: recipe.split.improve,
                fence: self.plan.fence(),
                // No program of a held-out problem is there.
                hold_out: &BTreeSet::new(),
                seed: recipe.seed,
            },
        )?;
        for written in &files {
            say(&format!("{}: {} lines", written.file, written.lines));
            if written.lines == 0 && !written.file.contains("_evaluation") {
                return Err(usage(format!(
                    "the split leaves {} empty: there are too few correct programs with different times; raise `programs.draw`, or name more files in `programs`",
                    written.file
                )));
            }
        }
        Ok(Ended::Complete(OK))
    }

    /// A file of the split.
    fn part(&self, name: &str) -> PathBuf {
        self.folder.of(Stage::Split).join(name)
    }

    fn sft(&self) -> Result<Ended> {
        let recipe = &self.plan.recipe;
        let base = self.plan.base.canonicalize();
        let own = Examples {
            model: base.unwrap_or_else(|_| self.plan.base.clone()),
            examples: self.part("sft.jsonl"),
            validation: Some(self.part("sft_evaluation.jsonl")),
            chat: recipe.chat,
            dtype: recipe.dtype,
            device: recipe.device,
            checkpoint_every: CHECKPOINT_EVERY,
            sft: recipe.sft.clone(),
        };
        self.train(&own, starter::run)
    }

    fn pairs(&self, part: &str, aim: Aim) -> Result<Ended> {
        let recipe = &self.plan.recipe;
        let of = |wanted: Aim| aim == wanted;
        let own = Pairs {
            model: self.folder.of(Stage::Sft),
            pairs: self.part(&format!("{part}.jsonl")),
            validation: Some(self.part(&format!("{part}_evaluation.jsonl"))),
            chat: recipe.chat,
            dtype: recipe.dtype,
            device: recipe.device,
            checkpoint_every: CHECKPOINT_EVERY,
            reward_model: of(Aim::RewardModel).then(|| recipe.reward_model.clone()),
            dpa: of(Aim::Dpa).then(|| recipe.dpa.clone()),
        };
        self.train(&own, |order| pairs::run(order, aim))
    }

    fn rlpf(&self) -> Result<Ended> {
        let mut own = self.plan.recipe.reinforcement(
            self.folder.of(Stage::Sft),
            self.part("rl.jsonl"),
            self.folder.of(Stage::RewardModel),
        );
        own.validation = Some(self.part("rl_evaluation.jsonl"));
        self.train(&own, rlpf::run)
    }

    /// Writes the recipe of a training, and trains by it, from the newest checkpoint if there is one.
    fn train(
        &self,
        recipe: &impl Serialize,
        run: impl Fn(&flopsmith_recipes::Order<'_>) -> Result<u8>,
    ) -> Result<Ended> {
        let file = self.path.join(RECIPE);
        replace(&file, &toml::to_string(recipe)?)?;
        let code = run(&flopsmith_recipes::Order {
            recipe: &file,
            output: Some(self.path),
            resume: is_unfinished(self.path),
            allow_weaker_jail: self.order.allow_weaker_jail,
            farm: self.order.farm,
            json: false,
            stopped: Some(self.stopped),
        })?;
        Ok(match code {
            INTERRUPTED => Ended::Interrupted,
            code => Ended::Complete(code),
        })
    }

    /// Evaluates all models at each task, on the training problems and on the held-out ones.
    fn evaluation(&self) -> Result<Ended> {
        let recipe = &self.plan.recipe;
        let at = Placement::of(recipe.device, recipe.dtype)?;
        let mut sets = Vec::new();
        let mut complete = true;
        for (task, name, problems) in self.plan.evaluations() {
            say(&format!("evaluation: {}, {name} problems", task.name()));
            let evaluate = &recipe.evaluate;
            let output = self.path.join(format!("{}-{name}", task.name()));
            let results = flopsmith_eval::evaluated(&flopsmith_eval::Order {
                models: self.models(),
                problems: problems.to_vec(),
                workloads: recipe.workloads.clone(),
                farm: None,
                samples: Some(evaluate.samples),
                draws: Vec::new(),
                sampling: Sampling {
                    temperature: evaluate.temperature,
                    top_p: evaluate.top_p,
                    top_k: 0,
                    max_tokens: evaluate.max_tokens,
                },
                seed: recipe.seed,
                task: match task {
                    Asked::Write => Task::Write,
                    Asked::Optimise => Task::Optimise,
                },
                programs: BTreeMap::new(),
                prompt: match recipe.prompt() {
                    flopsmith_config::Prompt::Full => Prompt::Full,
                    flopsmith_config::Prompt::Nest => Prompt::Nest,
                    flopsmith_config::Prompt::Compact => Prompt::Compact,
                },
                permitted: None,
                threads: vec![1],
                dtype: at.format(),
                device: recipe.device,
                compiler: COMPILER.to_owned(),
                allow_weaker_jail: self.order.allow_weaker_jail,
                purpose: Purpose::Rank,
                sanitize: false,
                wait: Duration::from_secs(30),
                output: output.clone(),
                format: Format::Text,
            })?;
            let Some(results) = results else {
                return Ok(Ended::Interrupted);
            };
            complete &= results.is_complete();
            sets.push(Set::of(task.name(), name, &output, &results)?);
        }
        let trained = [Stage::Sft, Stage::RewardModel, Stage::Dpa, Stage::Rlpf];
        let trained = trained.map(|stage| (stage, self.folder.of(stage)));
        let summary = Summary::of(sets, &trained)?;
        summary.write(self.path, self.folder.path())?;
        Ok(match complete {
            true => Ended::Complete(OK),
            false => Ended::Incomplete(INFRASTRUCTURE),
        })
    }

    /// The base model and those that were made of it.
    fn models(&self) -> Vec<Model> {
        let folders = [
            self.plan.base.clone(),
            self.folder.of(Stage::Sft),
            self.folder.of(Stage::Dpa),
            self.folder.of(Stage::Rlpf),
        ];
        let named = MODELS.into_iter().zip(folders);
        named
            .map(|(name, folder)| Model {
                name: name.to_owned(),
                kind: Kind::Folder(folder),
            })
            .collect()
    }
}

/// Those of the wanted programs that are known, by their numbers.
fn matching<'a>(
    wanted: impl Iterator<Item = &'a Given>,
    known: &HashMap<Given, Program>,
) -> BTreeMap<usize, Program> {
    let numbered = wanted.enumerate();
    numbered
        .filter_map(|(number, given)| Some((number, known.get(given)?.clone())))
        .collect()
}

/// The measured programs of earlier attempts. A last line that a killed process left unfinished is removed.
fn read_lines(path: &Path) -> Result<HashMap<Given, Program>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = &bytes[..end.map_or(0, |end| end + 1)];
    if whole.len() < bytes.len() {
        std::fs::write(path, whole).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let lines = jsonl::read(path, |_: &Line| Ok::<(), &str>(()))?;
    let programs = lines.into_iter().map(|line| line.program);
    Ok(programs.map(|program| (given(&program), program)).collect())
}

/// The request that a measured program answers.
fn given(program: &Program) -> Given {
    Given {
        problem: program.problem.clone(),
        prompt: program.prompt.clone(),
        source: program.source.clone(),
        origin: program.origin.clone(),
    }
}

/// A line about the programs of each problem, also of one without a correct program.
fn by_problem(programs: &[Program]) -> Vec<String> {
    let mut all: BTreeMap<&str, (usize, usize, f64)> = BTreeMap::new();
    for program in programs {
        let (count, correct, fastest) =
            all.entry(&program.problem).or_insert((0, 0, f64::INFINITY));
        *count += 1;
        *correct += usize::from(program.correct);
        *fastest = fastest.min(program.runtime_s.unwrap_or(f64::INFINITY));
    }
    all.into_iter()
        .map(|(problem, (count, correct, fastest))| {
            let fastest = match fastest.is_finite() {
                true => format!(", the fastest takes {} a call", time(fastest)),
                false => "; nothing is learned on this problem".to_owned(),
            };
            format!("{problem}: {correct} of {count} programs are correct{fastest}")
        })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn program(problem: &str, runtime_s: Option<f64>) -> Program {
        Program {
            problem: problem.into(),
            workloads: Vec::new(),
            prompt: "p".into(),
            source: "s".into(),
            runtime_s,
            correct: runtime_s.is_some(),
            origin: "drawn".into(),
            rank: None,
        }
    }

    #[test]
    fn programs_of_a_killed_attempt_are_read_and_its_unfinished_line_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(MEASURED);
        assert!(read_lines(&path).unwrap().is_empty());
        let numbered = |number: usize| Program {
            source: format!("int x{number};"),
            ..program("dot", Some(number as f64))
        };
        let line = |number| {
            let program = numbered(number);
            serde_json::to_string(&Line { number, program }).unwrap()
        };
        let text = format!("{}\n{}\n{}", line(4), line(2), &line(3)[..20]);
        std::fs::write(&path, text).unwrap();
        let found = read_lines(&path).unwrap();
        // Another attempt wants other programs, in another order.
        let mut wanted = [2, 3, 5, 4, 4].map(|number| given(&numbered(number)));
        wanted[4].origin = "file".into();
        let done = matching(wanted.iter(), &found);
        assert_eq!(done, BTreeMap::from([(0, numbered(2)), (3, numbered(4))]));
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(kept, format!("{}\n{}\n", line(4), line(2)));
        std::fs::write(&path, "{}\n").unwrap();
        let error = read_lines(&path).unwrap_err().to_string();
        assert!(error.contains("line 1 of"), "{error}");
    }

    #[test]
    fn a_problem_without_a_correct_program_has_a_line() {
        let programs = [
            program("dot", None),
            program("axpy", Some(2e-3)),
            program("axpy", Some(1e-3)),
            program("axpy", None),
        ];
        assert_eq!(
            by_problem(&programs),
            [
                "axpy: 2 of 3 programs are correct, the fastest takes 1.000 ms a call",
                "dot: 0 of 1 programs are correct; nothing is learned on this problem",
            ]
        );
    }
}
