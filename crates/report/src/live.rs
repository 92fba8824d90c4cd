//! The live view of a run, as lines of text. Whoever prints them knows the terminal.

use flopsmith_protocol::TechniqueSet;

use crate::text::{count, counted, duration, excerpt, number, percent, share};

/// A run at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// The newest step.
    pub step: u64,
    /// What it is for, e.g. `training`.
    pub purpose: String,
    /// Its stage.
    pub stage: u32,
    /// That stage's name.
    pub stage_name: String,
    /// What the step's tasks permit.
    pub permitted: Vec<TechniqueSet>,
    /// Outcomes of the step so far, and how many there will be.
    pub outcomes: (u32, u32),
    /// The last complete step, which the rates are of.
    pub last_step: u64,
    /// What it was for; often not what the newest is for.
    pub last_purpose: String,
    /// Its stage.
    pub last_stage: u32,
    /// That stage's name.
    pub last_stage_name: String,
    /// Share of its samples that was verified and measured.
    pub correct_rate: f64,
    /// Mean GFLOPS of its samples, failures counting 0.
    pub mean_gflops: f64,
    /// What the others of that step were refused for, by name and number, the commonest first.
    pub refused: Vec<(String, u64)>,
    /// What was said of one of the commonest kind, in whatever lines.
    pub refused_example: String,
    /// Best verified speed so far.
    pub best_gflops: Option<f64>,
    /// Techniques of that program.
    pub best_techniques: Option<TechniqueSet>,
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
    /// Seconds in which nothing was timed because the machine was not quiet.
    pub quarantine_seconds: f64,
    /// Programs that were timed while others were at work on the cores.
    pub disturbed: u64,
    /// Seconds that the budget is judged by, earlier sittings included.
    pub elapsed_seconds: f64,
    /// Seconds the run may take.
    pub budget_seconds: f64,
}

/// Lines in a frame: always the same, so that a view can be drawn over the one before.
pub const LINES: usize = 8;

/// A bar of fewer characters shows no shares.
const NARROWEST_BAR: usize = 4;

/// The view as [`LINES`] lines of at most `width` characters.
pub fn frame(live: &Live, width: usize) -> Vec<String> {
    // The last column stays free: some terminals wrap when it is written.
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
    lines
        .into_iter()
        .map(|(name, text)| cut(&format!("  {name:<9} {text}"), width))
        .collect()
}

/// One line for a log or a pipe: the last complete step.
pub fn line(live: &Live) -> String {
    let best = live.best_gflops.map_or_else(|| "–".to_owned(), number);
    let mut line = format!(
        "step {} · {} · stage {} {} · correct {} · mean {} · best {best} GFLOPS · {} confirmed · {} of {}",
        live.last_step,
        live.last_purpose,
        live.last_stage,
        live.last_stage_name,
        percent(live.correct_rate),
        number(live.mean_gflops),
        counted(live.cells as u64, "technique set"),
        duration(live.elapsed_seconds),
        duration(live.budget_seconds)
    );
    if is_poor(live) {
        line.push_str(&format!(" · refused: {}", kinds(live)));
    }
    line
}

/// A step of which fewer are correct says why: below this share.
const POOR: f64 = 0.25;

/// Was hardly a program of the last step correct?
fn is_poor(live: &Live) -> bool {
    !live.refused.is_empty() && live.correct_rate < POOR
}

/// For a log or a pipe: what was said of one of the programs that were refused, where hardly one of the step was correct.
pub fn refusal(live: &Live) -> Option<String> {
    let example = excerpt(&live.refused_example, 300);
    (is_poor(live) && !example.is_empty())
        .then(|| format!("  {}, for example: {example}", kinds_first(live)))
}

fn kinds_first(live: &Live) -> &str {
    live.refused.first().map_or("", |(kind, _)| kind)
}

/// The commonest kinds of refusals and how many there were.
fn kinds(live: &Live) -> String {
    let shown = live.refused.iter().take(3);
    let words: Vec<String> = shown.map(|(kind, n)| format!("{kind} {n}")).collect();
    words.join(", ")
}

/// What the last step's programs were refused for, and as much of an example as fits.
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

/// As many sets as fit, and how many do not.
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

fn last(live: &Live) -> String {
    if live.last_step == 0 && live.correct_rate == 0.0 && live.mean_gflops == 0.0 {
        return "–".into();
    }
    format!(
        "{} · correct {} · mean {} GFLOPS (failures count 0)",
        live.last_step,
        percent(live.correct_rate),
        number(live.mean_gflops)
    )
}

fn best(live: &Live) -> String {
    let Some(gflops) = live.best_gflops else {
        return "no verified program yet".into();
    };
    let mut text = format!("{} GFLOPS", number(gflops));
    if let Some(peak) = live.peak_gflops.filter(|p| *p > 0.0) {
        text.push_str(&format!(" · {} of peak", share(gflops / peak)));
    }
    if let Some(techniques) = live.best_techniques {
        text.push_str(&format!(" · {}", techniques.words()));
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

/// A bar with a letter per role, and the shares in words. Where there is little room the bar goes first, then the smallest shares.
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

/// How wide a bar may be beside so many characters, its brackets and a space; none where it would say nothing.
fn room_for_bar(width: usize, beside: usize) -> Option<usize> {
    let room = width.checked_sub(beside + 3)?;
    (room >= NARROWEST_BAR).then(|| room.min((width / 3).clamp(NARROWEST_BAR, 40)))
}

/// The first of some words, and how many do not fit.
fn as_many_as_fit(words: &[String], width: usize) -> String {
    let fits = |text: &String| text.chars().count() <= width;
    let all = words.join(", ");
    let shorter = (1..words.len()).rev().map(|n| {
        let first = words[..n].join(", ");
        format!("{first} and {} more", words.len() - n)
    });
    let mut shown = std::iter::once(all).chain(shorter);
    // What fits nowhere is cut where lines are.
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

/// What is still done once the budget is spent. A step that was begun is led to its end.
fn ending(live: &Live) -> &'static str {
    let (done, all) = live.outcomes;
    match live.purpose.as_str() {
        "evaluation before" => "over budget: evaluating the model it begins with",
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
