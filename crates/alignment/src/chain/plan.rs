//! The plan of a chain: the recipe, read and checked with all that it names, before the first stage begins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use flopsmith_config::Alignment;
use flopsmith_config::alignment::Asked;
use flopsmith_eval::model::{Kind, Model};
use flopsmith_generator::measured::{Program, REFERENCE};
use flopsmith_measure::METHOD;
use flopsmith_problem::{Language, Problem, prompt};
use flopsmith_protocol::Digest;
use flopsmith_recipes::{Placement, Room, beside};
use flopsmith_run::console::{located, usage};
use flopsmith_run::digits::counted;
use flopsmith_run::kept_out::{KeptOut, SAME_NEST};
use flopsmith_run::{evaluator, jsonl, paths};
use serde::{Deserialize, Serialize};

use super::state::Stage;
use crate::label::{self, Given};
use crate::{chain, draw};

/// The compiler of programs.
pub const COMPILER: &str = "gcc";
/// Seconds that a screened program takes, about.
const SCREEN: f64 = 1.0;
/// Seconds that a program of the evaluation takes, about.
const RANK: f64 = 4.0;

/// The base model and the three that are made of it, by name, in the order of the expected speeds.
pub const MODELS: [&str; 4] = ["base", "sft", "dpa", "rlpf"];

/// A line of a file of programs to measure.
#[derive(Debug, Deserialize)]
struct Line {
    problem: String,
    #[serde(alias = "program")]
    source: String,
}

/// A recipe with all that it names.
pub struct Plan {
    /// The recipe.
    pub recipe: Alignment,
    /// Folder of the base model.
    pub base: PathBuf,
    /// The problems to train on.
    pub training: Vec<Arc<Problem>>,
    /// The problems that are only evaluated.
    pub held_out: Vec<Arc<Problem>>,
    /// The programs of files that are to be measured.
    given: Vec<Given>,
    /// The programs of files that were measured already.
    pub measured: Vec<Program>,
    /// [`Model::digest`] of the base model.
    model: Digest,
}

impl Plan {
    /// Reads and checks everything that can be checked before the first stage.
    ///
    /// # Errors
    /// Wrong usage: the recipe has a mistake; a problem, model or file is unknown or cannot be used; a held-out problem is
    /// trained on. Else: this machine cannot evaluate programs.
    pub fn read(order: &chain::Order<'_>) -> Result<Self> {
        let path = order.recipe;
        let text = flopsmith_config::read_text(path)
            .map_err(|e| usage(format!("cannot read the recipe {}: {e}", path.display())))?;
        let recipe: Alignment = flopsmith_config::read(&text, &path.display().to_string())?;
        recipe
            .check()
            .map_err(|e| located(anyhow::Error::new(e), path, &[]))?;
        let (training, held_out) = problems(&recipe)?;
        let languages: BTreeSet<&str> = training.iter().map(|p| p.language.name()).collect();
        if recipe.chat && languages.len() > 1 {
            return Err(usage(format!(
                "`chat` is true, and the training problems are in {}: programs of one recipe stand in blocks of one language; leave out the problems of the others",
                languages.into_iter().collect::<Vec<_>>().join(", ")
            )));
        }
        if recipe.programs.draw > 0 {
            for problem in &training {
                draw::has_space(problem)?;
            }
        }
        let given = given(&recipe, path, &training, &held_out)?;
        let measured = measured(&recipe, path, &training, &held_out)?;
        let base = paths::model(&beside(path, &recipe.model));
        let model = Model {
            name: MODELS[0].to_owned(),
            kind: Kind::Folder(base.clone()),
        };
        let plan = Self {
            base,
            model: if_folder(&model)?,
            recipe,
            training,
            held_out,
            given,
            measured,
        };
        // A missing compiler or jail is found before the model is loaded, which may take minutes.
        if let Some(problem) = plan.training.first() {
            evaluator::open(Arc::clone(problem), COMPILER, order.allow_weaker_jail)?;
        }
        plan.has_room()?;
        Ok(plan)
    }

    /// Checks that the model can be opened and that its positions have room for answers.
    fn has_room(&self) -> Result<()> {
        let recipe = &self.recipe;
        let all = || self.training.iter().chain(&self.held_out);
        let texts = self.prompts()?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let at = Placement::of(recipe.device, recipe.dtype)?;
        let Room { positions, prompts } =
            flopsmith_recipes::room(&self.base, recipe.chat, at, &texts)?;
        let asked = self.training.len() + self.held_out.len();
        for (problem, tokens) in all().zip(&prompts) {
            let longest = i64::from(recipe.rlpf.max_tokens);
            if *tokens as i64 + longest > positions {
                return Err(usage(format!(
                    "the prompt for {} takes {tokens} tokens and `rlpf.max_tokens` is {longest}: the model has {positions} positions for both together; lower `rlpf.max_tokens`, or leave the problem out",
                    problem.id
                )));
            }
        }
        // An evaluation gives answers the room that is left, but needs some.
        for (problem, tokens) in all().zip(prompts.iter().skip(asked)) {
            if *tokens as i64 >= positions {
                return Err(usage(format!(
                    "the prompt to improve the plain reference of {} takes {tokens} tokens and the model has {positions} positions, so there is no room for an answer; leave the problem out, or set `evaluate.tasks = [\"write\"]`",
                    problem.id
                )));
            }
        }
        Ok(())
    }

    /// The prompts that the stages ask with: of each problem that for a program, and then, if the evaluation asks for
    /// it, of each that for a faster program than the reference.
    fn prompts(&self) -> Result<Vec<String>> {
        let all = || self.training.iter().chain(&self.held_out);
        let mut texts: Vec<String> = all()
            .map(|problem| self.prompt(problem))
            .collect::<Result<_>>()?;
        if self.recipe.evaluate.tasks.contains(&Asked::Optimise) {
            // References are in C, whatever the language of the answers.
            let fence = self.recipe.prompt().style().is_chat().then_some("c");
            let improving = |(text, problem): (&String, &Arc<Problem>)| {
                prompt::improve(text, &problem.reference_source, fence)
            };
            let more: Vec<String> = texts.iter().zip(all()).map(improving).collect();
            texts.extend(more);
        }
        Ok(texts)
    }

    /// The prompt that asks for a problem's program.
    ///
    /// # Errors
    /// Wrong usage: the prompt shall state the nest of a reference that is none.
    pub fn prompt(&self, problem: &Problem) -> Result<String> {
        let style = self.recipe.prompt().style();
        label::prompt(problem, label::permitted(problem), style)
    }

    /// The language of fenced blocks, for chat models.
    pub fn fence(&self) -> Option<&'static str> {
        let first = self.training.first().filter(|_| self.recipe.chat)?;
        Some(first.language.fence())
    }

    /// The programs to measure, of each training problem: those of files, drawn ones, and the reference.
    ///
    /// # Errors
    /// Wrong usage: a space gives no program.
    pub fn programs(&self) -> Result<Vec<(Arc<Problem>, Vec<Given>)>> {
        let mut all = Vec::with_capacity(self.training.len());
        for problem in &self.training {
            let id = problem.id.as_str();
            let own = self.given.iter().filter(|given| given.problem == id);
            let mut programs: Vec<Given> = own.cloned().collect();
            let text = self.prompt(problem)?;
            let of = |source: String, origin: &str| Given {
                problem: id.to_owned(),
                prompt: text.clone(),
                source,
                origin: origin.to_owned(),
            };
            if self.recipe.programs.draw > 0 {
                let drawn = draw::draw(problem, self.recipe.programs.draw, self.recipe.seed)?;
                programs.extend(drawn.into_iter().map(|source| of(source, "schedule_space")));
            }
            if problem.language == Language::C {
                programs.push(of(problem.reference_source.clone(), REFERENCE));
            }
            all.push((Arc::clone(problem), programs));
        }
        Ok(all)
    }

    /// The tasks and sets of problems of the evaluation, each with the name of its folder.
    pub fn evaluations(&self) -> Vec<(Asked, &'static str, &[Arc<Problem>])> {
        let sets: [(&'static str, &[Arc<Problem>]); 2] = [
            ("training", &self.training[..]),
            ("held_out", &self.held_out[..]),
        ];
        let mut all = Vec::new();
        for task in &self.recipe.evaluate.tasks {
            for (name, problems) in sets {
                if !problems.is_empty() {
                    all.push((*task, name, problems));
                }
            }
        }
        all
    }

    /// The key of each stage: equal keys give equal results, up to the noise of measurements.
    ///
    /// # Errors
    /// None in practice: settings are always text.
    pub fn keys(&self) -> Result<BTreeMap<Stage, Digest>> {
        let recipe = &self.recipe;
        // A format that is left open counts as the usual one of a CPU, on every device.
        let dtype = recipe.dtype.unwrap_or_default();
        let general = (recipe.chat, recipe.nest, &dtype);
        let mut keys: BTreeMap<Stage, Digest> = BTreeMap::new();
        for stage in Stage::ALL {
            let own = match stage {
                Stage::Programs => text(&(
                    METHOD,
                    digests(&self.training),
                    (recipe.programs.draw, recipe.seed, recipe.chat, recipe.nest),
                    (&self.given, &self.measured),
                    &recipe.workloads,
                ))?,
                Stage::Split => text(&(&recipe.split, recipe.seed, recipe.chat))?,
                Stage::Sft => text(&(&self.model, &recipe.sft, general))?,
                Stage::RewardModel => text(&(&recipe.reward_model, general))?,
                Stage::Dpa => text(&(&recipe.dpa, general))?,
                Stage::Rlpf => text(&(&recipe.rlpf, general, METHOD))?,
                Stage::Evaluation => text(&(
                    METHOD,
                    (&recipe.evaluate, recipe.seed, general),
                    (digests(&self.training), digests(&self.held_out)),
                ))?,
            };
            let used: Vec<&Digest> = stage.uses().iter().filter_map(|s| keys.get(s)).collect();
            let key = Digest::of(text(&(stage, own, used))?.as_bytes());
            keys.insert(stage, key);
        }
        Ok(keys)
    }

    /// The part of the key of [`Stage::Programs`] that decides how a program is measured: with the same basis the programs
    /// that were measured count, also if others are wanted.
    ///
    /// # Errors
    /// None in practice: settings are always text.
    pub fn basis(&self) -> Result<Digest> {
        let recipe = &self.recipe;
        let all = (
            METHOD,
            digests(&self.training),
            (recipe.chat, recipe.nest),
            &recipe.workloads,
        );
        Ok(Digest::of(text(&all)?.as_bytes()))
    }

    /// The work of a stage and about how long it takes, in a few words.
    pub fn words(&self, stage: Stage) -> String {
        let recipe = &self.recipe;
        let train = |what: &str| format!("{what}; its first updates tell how long it takes");
        match stage {
            Stage::Programs => {
                let drawn = recipe.programs.draw.saturating_mul(self.training.len());
                let others = self.given.len() + self.training.len();
                let programs = drawn.saturating_add(others) as u64;
                format!(
                    "measures up to {} for {}, about {}",
                    counted(programs, "program"),
                    counted(self.training.len() as u64, "problem"),
                    about(SCREEN * programs as f64)
                )
            }
            Stage::Split => "splits them into parts, seconds".to_owned(),
            Stage::Sft => train("fine-tunes the base model on fast programs"),
            Stage::RewardModel => train("trains a reward model on pairs of programs"),
            Stage::Dpa => train("aligns the fine-tuned model with such pairs"),
            Stage::Rlpf => {
                let of = &recipe.rlpf;
                let each = (of.prompts * of.samples * of.turns) as u64;
                let answers = of.steps.saturating_mul(each);
                format!(
                    "reinforces the fine-tuned model by {} in {}, at most {} to measure them",
                    counted(answers, "answer"),
                    counted(of.steps, "step"),
                    about(SCREEN * answers as f64)
                )
            }
            Stage::Evaluation => {
                let problems: usize = self.evaluations().iter().map(|(_, _, p)| p.len()).sum();
                let samples = recipe.evaluate.samples as usize;
                let answers = (MODELS.len() * samples * problems) as u64;
                format!(
                    "evaluates {} of four models, at most {} as far as they differ",
                    counted(answers, "answer"),
                    about(RANK * answers as f64)
                )
            }
        }
    }
}

/// A time in one unit.
pub fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{:.0} s", s.max(1.0)),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The names and digests of problems.
fn digests(problems: &[Arc<Problem>]) -> Vec<String> {
    let of = |p: &Arc<Problem>| format!("{} {}", p.id, p.digest.as_str());
    problems.iter().map(of).collect()
}

fn text(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// The digest of the base model, if its folder is there.
fn if_folder(model: &Model) -> Result<Digest> {
    if let Kind::Folder(path) = &model.kind
        && !path.is_dir()
    {
        return Err(usage(format!(
            "`model` names {}, and there is no such folder",
            path.display()
        )));
    }
    model.digest()
}

type Problems = Vec<Arc<Problem>>;

/// The training problems and the held-out ones.
fn problems(recipe: &Alignment) -> Result<(Problems, Problems)> {
    let workloads = &recipe.workloads;
    let of = |names: &[String], key: &str| -> Result<Vec<Arc<Problem>>> {
        let mut found: Vec<Arc<Problem>> = Vec::new();
        for name in names {
            let problem =
                paths::problem(name).map_err(|e| usage(format!("`{key}` names `{name}`: {e}")))?;
            if found.iter().any(|other| other.id == problem.id) {
                return Err(usage(format!(
                    "`{key}` names {} twice; leave out one",
                    problem.id
                )));
            }
            found.push(Arc::new(paths::selected(problem, workloads)?));
        }
        Ok(found)
    };
    let held_out = of(&recipe.hold_out, "hold_out")?;
    let kept_out = KeptOut::of(held_out.iter().map(|problem| &**problem));
    if recipe.suite.is_empty() {
        let training = of(&recipe.problems, "problems")?;
        for problem in &training {
            let Some(other) = kept_out.find(problem) else {
                continue;
            };
            return Err(usage(match *other == problem.id {
                true => format!(
                    "`hold_out` names {other}, on which the recipe trains; leave it out of one of them"
                ),
                false => format!(
                    "`hold_out` names {other}, and the recipe trains on {}, {SAME_NEST}; leave out one of them",
                    problem.id
                ),
            }));
        }
        return Ok((training, held_out));
    }
    let mut training = Vec::new();
    for problem in paths::suite(&recipe.suite)? {
        if !kept_out.leaves_out(&problem) {
            training.push(Arc::new(paths::selected(problem, workloads)?));
        }
    }
    match training.is_empty() {
        true => Err(usage(format!(
            "`hold_out` names every problem of the suite `{}`, or another with its nest, so none is left to train on; leave out some",
            recipe.suite
        ))),
        false => Ok((training, held_out)),
    }
}

fn has(problems: &[Arc<Problem>], id: &str) -> bool {
    problems.iter().any(|problem| problem.id.as_str() == id)
}

/// Refuses a program of a problem that is not trained on.
fn check_problem(
    name: &str,
    training: &[Arc<Problem>],
    held_out: &[Arc<Problem>],
) -> Result<(), String> {
    if has(training, name) {
        return Ok(());
    }
    Err(match has(held_out, name) {
        true => {
            format!("the program is for {name}, which is held out: nothing may be trained on it")
        }
        false => format!("the program is for {name}, which is none of the training problems"),
    })
}

/// The programs of files that are to be measured, as answers to the one prompt of their problem.
fn given(
    recipe: &Alignment,
    path: &Path,
    training: &[Arc<Problem>],
    held_out: &[Arc<Problem>],
) -> Result<Vec<Given>> {
    let mut all = Vec::new();
    let style = recipe.prompt().style();
    for file in &recipe.programs.files {
        let lines = jsonl::read(&beside(path, file), |line: &Line| {
            match line.source.trim().is_empty() {
                true => Err("`program` is empty".to_owned()),
                false => check_problem(&line.problem, training, held_out),
            }
        })?;
        for line in lines {
            let of = |problem: &&Arc<Problem>| problem.id.as_str() == line.problem;
            // Lines of other problems were refused.
            let Some(problem) = training.iter().find(of) else {
                continue;
            };
            all.push(Given {
                prompt: label::prompt(problem, label::permitted(problem), style)?,
                problem: line.problem,
                source: line.source,
                origin: "file".to_owned(),
            });
        }
    }
    Ok(all)
}

/// The programs of files that were measured already. Programs that never ran may be for any problem but a held-out one: a
/// reward model judges them.
fn measured(
    recipe: &Alignment,
    path: &Path,
    training: &[Arc<Problem>],
    held_out: &[Arc<Problem>],
) -> Result<Vec<Program>> {
    let mut all = Vec::new();
    for file in &recipe.programs.measured {
        let check = |program: &Program| -> Result<(), String> {
            program.check().map_err(|e| e.to_string())?;
            match program.rank.is_some() && !has(held_out, &program.problem) {
                true => Ok(()),
                false => check_problem(&program.problem, training, held_out),
            }
        };
        all.extend(jsonl::read(&beside(path, file), check)?);
    }
    Ok(all)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
