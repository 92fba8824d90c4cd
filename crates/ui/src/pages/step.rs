//! The samples of one step: prompts and answers if the run keeps them, verdicts, rewards and advantages.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use flopsmith_actors::peaks::Peaks;
use flopsmith_actors::role::recorder::files;
use flopsmith_agent::results::cut;
use flopsmith_config::Settings;
use flopsmith_protocol::{MachineFacts, Outcome, Purpose};
use flopsmith_report::heat;
use flopsmith_report::text::number;
use serde::{Deserialize, Serialize};

use super::frame::{Frame, Link, counted, maybe, party, purpose, url, words};
use super::{Site, outcome, view};
use crate::index::{LENGTH, Party, Raw, Record, View, hash};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::runs::Run;
use crate::totals::Totals;
use crate::worth::{Worth, has_advantages, of_step};

/// Samples whose worth is computed. A step with more shows these alone.
const MOST_SAMPLES: usize = 2048;
/// Bytes of outcomes that are read for a page.
const MOST_BYTES: u64 = 16 << 20;
/// Samples on a page.
const ROWS: usize = 64;
/// Bytes of a prompt or an answer that are shown.
const MOST_TEXT: usize = 16 << 10;
/// Turns of conversations on a page.
const MOST_TURNS: usize = 128;
/// Bytes of their lines that are read for a page.
const MOST_TURN_BYTES: u64 = 4 << 20;

#[derive(Serialize)]
struct Context {
    frame: Frame,
    facts: Vec<(&'static str, String)>,
    links: Vec<Link>,
    groups: Vec<Group>,
    notes: Vec<String>,
    earlier: Option<String>,
    later: Option<String>,
}

#[derive(Serialize)]
struct Group {
    name: String,
    problem: String,
    permitted: String,
    prompt: Option<String>,
    samples: Vec<Sample>,
}

#[derive(Serialize)]
struct Sample {
    sample: u32,
    url: String,
    reason: String,
    party: &'static str,
    gflops: String,
    reward: String,
    advantage: String,
    note: &'static str,
    what: &'static str,
    answer: String,
    turns: Vec<Turn>,
}

/// A turn of a conversation: a line of `attempts.jsonl` of an agent with an endpoint, as far as pages show it.
#[derive(Clone, Serialize, Deserialize)]
struct Turn {
    turn: u32,
    prompt: String,
    answer: String,
}

/// A line of `answers.jsonl`, as far as pages show it.
#[derive(Deserialize)]
struct Answer {
    prompt: String,
    answer: String,
}

/// The page of a step.
///
/// # Errors
/// There is no such run or step, the query has no meaning, or the run's files cannot be read.
pub fn step(site: &Site, name: &str, step: u32, query: &Query) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let ends = site.runs.page_ends();
    let snapshot = site.runs.outcomes(&run, ends);
    let base = url(&run);
    let frame = Frame::of(&run, format!("Step {step}"), &snapshot);
    let frame = frame.below(Link::new(format!("{base}/steps"), "Steps"));
    let view = view(&snapshot)?;
    let Some(sums) = snapshot.totals.steps.get(&step) else {
        return Err(Refusal::not_found(format!(
            "the run has no step {step} so far; its page of steps lists all of them"
        )));
    };
    let mut notes = Vec::new();
    let found = Found::read(view, step)?;
    if found.samples.len() < found.of {
        notes.push(format!(
            "The step has {} samples; the first {} are shown, and their worth is computed from these alone.",
            counted(found.of as u64),
            counted(found.samples.len() as u64)
        ));
    }
    let worth = worth(&run, view, &found, &mut notes)?;
    let pages = found.samples.len().div_ceil(ROWS).max(1);
    let page = query.number::<usize>("page")?.unwrap_or(1).clamp(1, pages);
    let shown = (page - 1) * ROWS..found.samples.len().min(page * ROWS);
    let answers = answers(site, &run, ends, &found.samples[shown.clone()], &mut notes)?;
    // An agent's answers are in its attempts.
    let turns = match answers.is_empty() {
        true => turns(site, &run, ends, &found.samples[shown.clone()], &mut notes)?,
        false => HashMap::new(),
    };
    if answers.is_empty() && turns.is_empty() {
        notes.push(
            "The run keeps programs, not whole answers, of these samples: no language model wrote them, or answers.jsonl does not have theirs (yet, or any more)."
                .to_owned(),
        );
    }
    let link = |page: usize| format!("{base}/steps/{step}?page={page}");
    let context = Context {
        frame,
        facts: vec![
            ("Purpose", purpose(sums.purpose).to_owned()),
            ("Stage", sums.stage.to_string()),
            ("Outcomes", counted(u64::from(sums.outcomes))),
            ("Samples that count", counted(u64::from(sums.samples))),
            ("Correct", counted(u64::from(sums.correct))),
            ("Mean GFLOPS of these", maybe(sums.mean_gflops(), number)),
        ],
        links: neighbours(&base, &snapshot.totals, step),
        groups: groups(&base, &found, &worth, &Texts { answers, turns }, shown),
        notes,
        earlier: (page > 1).then(|| link(page - 1)),
        later: (page < pages).then(|| link(page + 1)),
    };
    site.show("step.html", &context)
}

/// Links to the steps around a step that have outcomes, and to its programs.
fn neighbours(base: &str, totals: &Totals, step: u32) -> Vec<Link> {
    let mut links = Vec::new();
    let before = totals.steps.range(..step).next_back();
    let after = totals.steps.range(step..).find(|(other, _)| **other > step);
    for (found, name) in [(before, "Step before"), (after, "Step after")] {
        if let Some((other, _)) = found {
            links.push(Link::new(format!("{base}/steps/{other}"), name));
        }
    }
    links.push(Link::new(
        format!("{base}/programs?step={step}"),
        "As a list of programs",
    ));
    links
}

/// The samples of a step, group by group.
struct Found {
    samples: Vec<Outcome>,
    /// The numbers of their records.
    numbers: Vec<u64>,
    /// Number of samples of the step.
    of: usize,
    /// The best speeds of earlier training steps, by problem and stage.
    bests: HashMap<(u16, u16), f64>,
}

impl Found {
    fn read(view: &View, step: u32) -> Result<Self, Refusal> {
        let mut records: Vec<(u64, Record)> = Vec::new();
        let mut bests: HashMap<(u16, u16), f64> = HashMap::new();
        let (mut of, mut bytes_of_lines) = (0, 0);
        view.forward(0, |number, bytes| {
            let raw = Raw(bytes);
            if raw.step() == step {
                if let Some(record) = Record::decode(bytes).filter(|record| !record.repeats()) {
                    of += 1;
                    bytes_of_lines += u64::from(record.length);
                    if records.len() < MOST_SAMPLES && bytes_of_lines <= MOST_BYTES {
                        records.push((number, record));
                    }
                }
            } else if raw.step() < step && raw.party() == Party::Measured {
                note_best(&mut bests, bytes);
            }
            true
        })?;
        let mut samples = Vec::new();
        for (number, record) in records {
            samples.push((outcome(view, &record)?, number));
        }
        samples.sort_by(|(one, _), (other, _)| {
            let key =
                |outcome: &Outcome| (outcome.candidate.task.group(), outcome.candidate.sample);
            let by_number = key(one).cmp(&key(other));
            by_number.then_with(|| one.candidate.group.cmp(&other.candidate.group))
        });
        let (samples, numbers) = samples.into_iter().unzip();
        Ok(Self {
            samples,
            numbers,
            of,
            bests,
        })
    }
}

/// Notes the speed of a program that the learner was trained with.
fn note_best(bests: &mut HashMap<(u16, u16), f64>, bytes: &[u8; LENGTH]) {
    let record = Record::decode(bytes);
    let counts = |record: &Record| record.purpose == Purpose::Train && !record.exploration;
    if let Some(record) = record.filter(counts) {
        let best = bests.entry((record.problem, record.stage)).or_default();
        *best = best.max(f64::from(record.gflops));
    }
}

/// The worth of the samples, if the settings of the run can be read.
fn worth(
    run: &Run,
    view: &View,
    found: &Found,
    notes: &mut Vec<String>,
) -> Result<Vec<Worth>, Refusal> {
    let samples = &found.samples;
    let unknown = vec![Worth::default(); samples.len()];
    let (Some(settings), Some(first)) = (run.settings(), samples.first()) else {
        notes.push("The settings of the run cannot be read, so rewards are not known.".to_owned());
        return Ok(unknown);
    };
    let facts: Vec<MachineFacts> = run.tail(files::MACHINES)?;
    let peaks = Peaks::of(facts.into_iter(), &first.candidate.machine_class);
    let best = |outcome: &Outcome| {
        let problem = view
            .names
            .problems
            .number(outcome.candidate.problem.as_str())?;
        let stage = u16::try_from(outcome.candidate.stage).unwrap_or(u16::MAX);
        found.bests.get(&(problem, stage)).copied()
    };
    notes.push(about_advantages(&settings, samples));
    Ok(of_step(samples, &settings, &peaks, best))
}

fn about_advantages(settings: &Settings, samples: &[Outcome]) -> String {
    match has_advantages(settings, samples) {
        true => "Rewards and advantages are computed from the outcomes by the settings of the run. The learner also imitates its best answers and leaves out samples that its filter names; that is not in these numbers.",
        false => "Rewards are computed from the outcomes by the settings of the run. These samples have no advantages that can be computed from their outcomes alone.",
    }
    .to_owned()
}

/// The answers of these samples, by the ids of their candidates.
fn answers(
    site: &Site,
    run: &Run,
    ends: Instant,
    samples: &[Outcome],
    notes: &mut Vec<String>,
) -> Result<HashMap<u64, Answer>, Refusal> {
    let mut wanted: HashMap<u64, Option<Record>> = HashMap::new();
    for outcome in samples {
        wanted.insert(hash(outcome.candidate.id.as_str()), None);
    }
    let snapshot = site.runs.read(&run.answers, ends);
    if snapshot.covered().is_some() {
        notes
            .push("The answers of this run are being read; load the page again to see all.".into());
    }
    let Some(view) = &snapshot.view else {
        return Ok(HashMap::new());
    };
    view.forward(0, |_, bytes| {
        if let Some(place) = wanted.get_mut(&Raw(bytes).id()) {
            *place = Record::decode(bytes);
        }
        true
    })?;
    let mut answers = HashMap::new();
    for (id, record) in wanted {
        if let Some(record) = record
            && let Ok(answer) = serde_json::from_slice::<Answer>(&view.line(&record)?)
        {
            answers.insert(id, answer);
        }
    }
    Ok(answers)
}

/// The turns of the conversations that made these samples, by the ids of their candidates.
fn turns(
    site: &Site,
    run: &Run,
    ends: Instant,
    samples: &[Outcome],
    notes: &mut Vec<String>,
) -> Result<HashMap<u64, Vec<Turn>>, Refusal> {
    let ids = samples.iter().map(|of| hash(of.candidate.id.as_str()));
    let wanted: HashSet<u64> = ids.collect();
    let snapshot = site.runs.read(&run.attempts, ends);
    if snapshot.covered().is_some() {
        notes.push(
            "The attempts of this run are being read; load the page again to see all.".into(),
        );
    }
    let mut turns: HashMap<u64, Vec<Turn>> = HashMap::new();
    let Some(view) = &snapshot.view else {
        return Ok(turns);
    };
    let (mut records, mut bytes_of_lines, mut is_cut) = (Vec::new(), 0, false);
    view.forward(0, |_, bytes| {
        if !wanted.contains(&Raw(bytes).id()) {
            return true;
        }
        if let Some(record) = Record::decode(bytes) {
            bytes_of_lines += u64::from(record.length);
            is_cut = records.len() == MOST_TURNS || bytes_of_lines > MOST_TURN_BYTES;
            if !is_cut {
                records.push(record);
            }
        }
        !is_cut
    })?;
    for record in records {
        // Attempts without a model have neither prompt nor answer.
        if let Ok(turn) = serde_json::from_slice::<Turn>(&view.line(&record)?) {
            turns.entry(record.id).or_default().push(Turn {
                turn: turn.turn,
                prompt: cut(&turn.prompt, MOST_TEXT),
                answer: cut(&turn.answer, MOST_TEXT),
            });
        }
    }
    if is_cut {
        notes.push(
            "These samples have more turns than a page shows; attempts.jsonl has all of them."
                .into(),
        );
    }
    Ok(turns)
}

/// The texts of samples, by the ids of their candidates.
struct Texts {
    answers: HashMap<u64, Answer>,
    turns: HashMap<u64, Vec<Turn>>,
}

fn groups(
    base: &str,
    found: &Found,
    worth: &[Worth],
    texts: &Texts,
    shown: std::ops::Range<usize>,
) -> Vec<Group> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for at in shown {
        let outcome = &found.samples[at];
        let candidate = &outcome.candidate;
        let id = hash(candidate.id.as_str());
        let answer = texts.answers.get(&id);
        let place = *places
            .entry(candidate.group.to_string())
            .or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group {
                name: candidate.group.to_string(),
                problem: candidate.problem.to_string(),
                permitted: heat::name(candidate.permitted),
                prompt: None,
                samples: Vec::new(),
            });
        }
        // All samples of a group answer one prompt.
        if let (Some(answer), None) = (answer, &groups[place].prompt) {
            groups[place].prompt = Some(cut(&answer.prompt, MOST_TEXT));
        }
        let turns = texts.turns.get(&id).cloned().unwrap_or_default();
        let number = found.numbers[at];
        let sample = sample(base, number, outcome, worth[at], answer, turns);
        groups[place].samples.push(sample);
    }
    groups
}

fn sample(
    base: &str,
    number_of_record: u64,
    outcome: &Outcome,
    worth: Worth,
    answer: Option<&Answer>,
    turns: Vec<Turn>,
) -> Sample {
    let measurement = outcome.verdict.measurement();
    let (what, text) = match answer {
        Some(answer) => ("answer", answer.answer.as_str()),
        None => ("program", outcome.source.as_str()),
    };
    Sample {
        sample: outcome.candidate.sample,
        url: format!("{base}/programs/{number_of_record}"),
        reason: words(outcome.verdict.kind()),
        party: party(party_of(outcome)),
        gflops: maybe(measurement.map(|m| m.gflops), number),
        reward: maybe(worth.reward, signed),
        advantage: maybe(worth.advantage, signed),
        note: match outcome.candidate.exploration {
            true => "exploration",
            false => "",
        },
        what,
        answer: cut(text, MOST_TEXT),
        turns,
    }
}

fn party_of(outcome: &Outcome) -> Party {
    use flopsmith_protocol::Verdict;
    match outcome.verdict {
        Verdict::Measured { .. } => Party::Measured,
        Verdict::Rejected { .. } => Party::Rejected,
        Verdict::Infrastructure { .. } => Party::Infrastructure,
        Verdict::Unknown { .. } => Party::Unknown,
    }
}

/// A reward or an advantage: three digits behind the point, which are enough to compare them.
fn signed(value: f64) -> String {
    format!("{value:+.3}")
}
