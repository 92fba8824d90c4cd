//! The live view of a run, as lines of text. The caller prints them and knows the terminal.

use flopsmith_protocol::TechniqueSet;

use crate::text::{count, counted, duration, excerpt, four, percent, share};

/// The speed of the fastest program so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Best {
    /// GFLOPS.
    pub gflops: f64,
    /// How certain this is, e.g. `measured again`.
    pub certainty: String,
}

impl Best {
    fn words(&self) -> String {
        format!("{} GFLOPS ({})", four(self.gflops), self.certainty)
    }
}

/// A run when its last complete step was over.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SoFar {
    /// The fastest program until then.
    pub best: Option<Best>,
    /// Technique sets with a verified program whose measurement was repeated.
    pub cells: u64,
    /// In a run over many problems: the number of problems with a verified program, and the number of all.
    pub solved: Option<(usize, usize)>,
}

/// A run at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// The newest step.
    pub step: u64,
    /// The purpose of the step, e.g. `training`.
    pub purpose: String,
    /// The step's stage.
    pub stage: u32,
    /// The stage's name.
    pub stage_name: String,
    /// The technique sets that the step's tasks permit.
    pub permitted: Vec<TechniqueSet>,
    /// Outcomes of the step so far, and the number expected.
    pub outcomes: (u32, u32),
    /// The last complete step, to which the rates below refer.
    pub last_step: u64,
    /// Its samples.
    pub samples: u64,
    /// The run when that step was over; none if its line does not have it.
    pub so_far: Option<SoFar>,
    /// The purpose of the last complete step; often not that of the newest step.
    pub last_purpose: String,
    /// The stage of the last complete step.
    pub last_stage: u32,
    /// The name of that stage.
    pub last_stage_name: String,
    /// Share of the last complete step's samples that were verified and measured.
    pub correct_rate: f64,
    /// Mean GFLOPS of these samples, failures counting 0.
    pub mean_gflops: f64,
    /// The reasons why the other samples of that step were refused, with their numbers, the most frequent first.
    pub refused: Vec<(String, u64)>,
    /// The message about one sample of the most frequent reason; may span lines.
    pub refused_example: String,
    /// Best verified speed so far, also by outcomes that came after the last complete step.
    pub best: Option<Best>,
    /// Techniques of the best program.
    pub best_techniques: Option<TechniqueSet>,
    /// The worst workload of the best program, and its ratio to the plain reference there; none where there is one workload.
    pub worst: Option<(String, f64)>,
    /// In a run over many problems: the number of problems with a verified program, and the number of all. Their speeds
    /// cannot be compared, so there is no best program then.
    pub solved: Option<(usize, usize)>,
    /// Measured peak.
    pub peak_gflops: Option<f64>,
    /// Technique sets with a verified program whose measurement was repeated.
    pub cells: usize,
    /// Outcomes so far.
    pub total_outcomes: u64,
    /// Infrastructure failures so far.
    pub infrastructure_errors: u64,
    /// Share of wall time by role.
    pub shares: Vec<(String, f64)>,
    /// Share of wall time in which no role made progress.
    pub idle: f64,
    /// Seconds without timing because the machine was not quiet.
    pub quarantine_seconds: f64,
    /// Programs that were timed while other processes used the cores.
    pub disturbed: u64,
    /// Requests to the run's endpoint and what they cost; empty if the run asks none.
    pub endpoint: String,
    /// The failure for which a request to the endpoint is repeated; empty if there is none.
    pub trouble: String,
    /// Seconds that count towards the budget, earlier sessions included.
    pub elapsed_seconds: f64,
    /// Seconds the run may take; 0 leaves its time out of [`line`].
    pub budget_seconds: f64,
}

/// The narrowest bar that shows shares, in characters.
const NARROWEST_BAR: usize = 4;

/// The view as eight lines of at most `width` characters; a run with an endpoint has one more. The number is constant in
/// a run, so that a view can be drawn over the previous one.
pub fn frame(live: &Live, width: usize) -> Vec<String> {
    // The last column stays free: some terminals wrap the line when that column is written.
    let width = width.saturating_sub(1).max(1);
    let inner = width.saturating_sub(12);
    let lines = [
        ("step", step(live)),
        ("permitted", permitted(&live.permitted, inner)),
        ("last step", last(live)),
        ("refused", refused(live, inner)),
        ("best", best(live)),
        ("archive", archive(live)),
        ("time", shares(live, inner)),
        ("left", left(live, inner)),
    ];
    let asked = (!live.endpoint.is_empty()).then(|| ("endpoint", endpoint(live)));
    lines
        .into_iter()
        .chain(asked)
        .map(|(name, text)| cut(&format!("  {name:<9} {text}"), width))
        .collect()
}

/// The last complete step as one line for a log or a pipe. All numbers but the time are of the moment when the step was
/// over, so every display of a step shows the same.
pub fn line(live: &Live) -> String {
    let mut parts = vec![
        format!("step {}", live.last_step),
        live.last_purpose.clone(),
    ];
    if live.solved.is_none() {
        parts.push(format!(
            "stage {} {}",
            live.last_stage, live.last_stage_name
        ));
    }
    parts.push(format!(
        "correct {} of {}",
        percent(live.correct_rate),
        counted(live.samples, "program")
    ));
    if live.solved.is_none() {
        parts.push(format!("mean {} GFLOPS", four(live.mean_gflops)));
    }
    if let Some(so_far) = &live.so_far {
        parts.push(match (so_far.solved, &so_far.best) {
            (Some(of), _) => solved(of),
            (None, Some(best)) => format!("best so far {}", best.words()),
            (None, None) => "no verified program so far".into(),
        });
        let sets = counted(so_far.cells, "technique set");
        parts.push(format!("{sets} confirmed"));
    }
    if live.budget_seconds > 0.0 {
        let (spent, budget) = (
            duration(live.elapsed_seconds),
            duration(live.budget_seconds),
        );
        parts.push(format!("{spent} of the {budget} budget"));
    }
    if is_poor(live) {
        parts.push(format!("refused: {}", kinds(live)));
    }
    if !live.endpoint.is_empty() {
        parts.push(live.endpoint.clone());
    }
    parts.join(" · ")
}

fn endpoint(live: &Live) -> String {
    match live.trouble.is_empty() {
        true => live.endpoint.clone(),
        // The newest first: the rest may be cut off.
        false => format!("{} · {}", live.trouble, live.endpoint),
    }
}

/// Share of correct programs below which a step's line gives the reason.
const POOR: f64 = 0.25;

/// True if hardly any program of the last step was correct.
fn is_poor(live: &Live) -> bool {
    !live.refused.is_empty() && live.correct_rate < POOR
}

/// A line for a log or a pipe: the message about one of the refused programs, if hardly any program of the step was
/// correct.
pub fn refusal(live: &Live) -> Option<String> {
    let example = excerpt(&live.refused_example, 300);
    (is_poor(live) && !example.is_empty())
        .then(|| format!("  {}, for example: {example}", kinds_first(live)))
}

fn kinds_first(live: &Live) -> &str {
    live.refused.first().map_or("", |(kind, _)| kind)
}

/// The most frequent reasons of refusal with their numbers.
fn kinds(live: &Live) -> String {
    let shown = live.refused.iter().take(3);
    let words: Vec<String> = shown.map(|(kind, n)| format!("{kind} {n}")).collect();
    words.join(", ")
}

/// The reasons why the last step's programs were refused, and as much of an example as fits.
fn refused(live: &Live, width: usize) -> String {
    if live.refused.is_empty() {
        return "–".into();
    }
    let mut text = kinds(live);
    let room = width.saturating_sub(text.chars().count() + 8);
    if room >= 20 {
        let example = excerpt(&live.refused_example, room);
        if !example.is_empty() {
            text.push_str(&format!(" · e.g. {example}"));
        }
    }
    text
}

fn step(live: &Live) -> String {
    let mut text = format!("{} · {}", live.step, live.purpose);
    if !live.stage_name.is_empty() {
        text.push_str(&format!(" · stage {} {}", live.stage, live.stage_name));
    }
    let (done, all) = live.outcomes;
    if all > 0 {
        text.push_str(&format!(" · {done}/{all} outcomes"));
    }
    text
}

/// As many sets as fit, and the number of those left out.
fn permitted(sets: &[TechniqueSet], width: usize) -> String {
    let mut text = String::new();
    for (i, set) in sets.iter().enumerate() {
        let name = set.words();
        let more = sets.len() - i;
        let needed =
            text.chars().count() + 2 + name.chars().count() + if more > 1 { 12 } else { 0 };
        if i > 0 && needed > width {
            text.push_str(&format!(" and {more} more"));
            break;
        }
        if i > 0 {
            text.push_str(", ");
        }
        text.push_str(&name);
    }
    text
}

/// The share of the problems that have a verified program.
fn solved((solved, all): (usize, usize)) -> String {
    format!("{solved} of {} solved", counted(all as u64, "problem"))
}

fn last(live: &Live) -> String {
    if live.last_step == 0 && live.correct_rate == 0.0 && live.mean_gflops == 0.0 {
        return "–".into();
    }
    if live.solved.is_some() {
        let correct = percent(live.correct_rate);
        return format!("{} · correct {correct}", live.last_step);
    }
    format!(
        "{} · correct {} · mean {} GFLOPS (failures count 0)",
        live.last_step,
        percent(live.correct_rate),
        four(live.mean_gflops)
    )
}

fn best(live: &Live) -> String {
    if let Some(of) = live.solved {
        return solved(of);
    }
    let Some(best) = &live.best else {
        return "no verified program yet".into();
    };
    let mut text = best.words();
    if let Some(peak) = live.peak_gflops.filter(|p| *p > 0.0) {
        text.push_str(&format!(" · {} of peak", share(best.gflops / peak)));
    }
    if let Some(techniques) = live.best_techniques {
        text.push_str(&format!(" · {}", techniques.words()));
    }
    if let Some((name, ratio)) = &live.worst {
        text.push_str(&format!(
            " · mean of workloads, worst {name} {}×",
            four(*ratio)
        ));
    }
    text
}

fn archive(live: &Live) -> String {
    let mut text = format!(
        "{} confirmed · {}",
        counted(live.cells as u64, "technique set"),
        counted(live.total_outcomes, "outcome")
    );
    if live.infrastructure_errors > 0 {
        text.push_str(&format!(
            " · {}",
            counted(live.infrastructure_errors, "infrastructure error")
        ));
    }
    if live.quarantine_seconds >= 1.0 {
        text.push_str(&format!(
            " · waited {} for quiet",
            duration(live.quarantine_seconds)
        ));
    }
    if live.disturbed > 0 {
        text.push_str(&format!(
            " · {} timed on a busy machine (flopsmith.log)",
            count(live.disturbed)
        ));
    }
    text
}

/// A bar with a letter per role, and the shares in words. If there is little room, the bar is dropped first, then the
/// smallest shares.
fn shares(live: &Live, width: usize) -> String {
    let mut parts: Vec<(&str, f64)> = live
        .shares
        .iter()
        .map(|(role, share)| (role.as_str(), *share))
        .chain([("idle", live.idle)])
        .filter(|(_, share)| share.is_finite() && *share > 0.0)
        .collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sum: f64 = parts.iter().map(|p| p.1).sum();
    if sum <= 0.0 {
        return "–".into();
    }
    let words: Vec<String> = parts
        .iter()
        .map(|(role, share)| format!("{role} {}", percent(*share)))
        .collect();
    let all = words.join(", ");
    let Some(bar_width) = room_for_bar(width, all.chars().count()) else {
        return as_many_as_fit(&words, width);
    };
    let (mut bar, mut so_far) = (String::new(), 0.0);
    for (role, share) in &parts {
        so_far += share;
        let until = (so_far / sum * bar_width as f64).round() as usize;
        let letter = if *role == "idle" {
            '.'
        } else {
            role.chars().next().unwrap_or('?')
        };
        while bar.chars().count() < until {
            bar.push(letter);
        }
    }
    format!("[{bar}] {all}")
}

/// The width of a bar next to `beside` characters, its brackets and a space; `None` if it would be too narrow to show
/// shares.
fn room_for_bar(width: usize, beside: usize) -> Option<usize> {
    let room = width.checked_sub(beside + 3)?;
    (room >= NARROWEST_BAR).then(|| room.min((width / 3).clamp(NARROWEST_BAR, 40)))
}

/// The first words that fit, and the number of the others.
fn as_many_as_fit(words: &[String], width: usize) -> String {
    let fits = |text: &String| text.chars().count() <= width;
    let all = words.join(", ");
    let shorter = (1..words.len()).rev().map(|n| {
        let first = words[..n].join(", ");
        format!("{first} and {} more", words.len() - n)
    });
    let mut shown = std::iter::once(all).chain(shorter);
    // If not even one word fits, the caller cuts the line.
    shown.find(fits).unwrap_or_else(|| words.join(", "))
}

fn left(live: &Live, width: usize) -> String {
    let budget = live.budget_seconds;
    if !(budget.is_finite() && budget > 0.0) {
        return format!("{} so far", duration(live.elapsed_seconds));
    }
    if live.elapsed_seconds >= budget {
        return format!(
            "{} ({} of {})",
            ending(live),
            duration(live.elapsed_seconds),
            duration(budget)
        );
    }
    let share = (live.elapsed_seconds / budget).clamp(0.0, 1.0);
    let words = format!(
        "{} ({} of {})",
        duration((budget - live.elapsed_seconds).max(0.0)),
        duration(live.elapsed_seconds),
        duration(budget)
    );
    let Some(bar_width) = room_for_bar(width, words.chars().count()) else {
        return words;
    };
    let full = (share * bar_width as f64).round() as usize;
    let bar: String = (0..bar_width)
        .map(|i| if i < full { '#' } else { '-' })
        .collect();
    format!("[{bar}] {words}")
}

/// The work that remains once the budget is spent. A step that has begun is completed.
fn ending(live: &Live) -> &'static str {
    let (done, all) = live.outcomes;
    match live.purpose.as_str() {
        "evaluation before" => "over budget: evaluating the model before training",
        "training" => "finishing: the last training step",
        _ if done >= all => "finishing: measuring the best once more",
        "evaluation after" => "finishing: evaluating the trained model",
        _ => "finishing: the last step",
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests;
