//! The requests to the model, and its answers: one exact form, and everything else is refused.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Lines;

use flopsmith_archive::identity::source_digest;
use flopsmith_generator::measured::Rank;
use flopsmith_problem::prompt;
use flopsmith_protocol::Digest;
use serde::{Deserialize, Serialize};

use super::Task;
use super::folder::Answer;

const TASK: &str = "### Task";
const SLOW: &str = "### Slow";
const FAST: &str = "### Fast";
/// Mark of a block's end.
const END: &str = "```";
/// Most characters of a line that a detail repeats.
const SHOWN: usize = 60;

/// Reasons for which an answer gives no programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The limit on tokens cut it off.
    CutOff,
    /// It is longer than the folder keeps.
    TooLong,
    /// It does not have the form that the request asks for.
    Format,
    /// Both programs are the same, but for comments and layout.
    Same,
    /// The folder has its programs already; of a task that the model states, at least one of them.
    Repeated,
}

impl Refusal {
    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::CutOff => "cut_off",
            Refusal::TooLong => "too_long",
            Refusal::Format => "format",
            Refusal::Same => "same",
            Refusal::Repeated => "repeated",
        }
    }
}

/// The programs of an answer.
pub(super) struct Found {
    /// The prompt of their lines.
    pub(super) prompt: String,
    /// Those that are not there yet, the slow one first.
    pub(super) programs: Vec<(Rank, String)>,
}

/// The request for one pair of programs, with a snippet that inspires it.
pub(super) fn prompt(task: &Task, snippet: &str) -> String {
    let language = task.language();
    let (name, fence) = (language.name(), language.fence());
    let inspired = format!("```\n{snippet}\n```");
    let pair = "a slow one, as a programmer writes it who does not think of speed, and a fast one, which takes much less time on one \
                core of a modern processor";
    let (about, parts) = match &task.known {
        None => (
            format!(
                "State a small programming task in {name}, and write two programs for it: {pair}. This piece of code may inspire the \
                 task; it need not be part of it:\n\n{inspired}\n\n\
                 The task stands by itself: it gives the prototype of one function, says what the function computes, and what holds \
                 of its arguments. Both programs define this function and no `main`, compile as they are, and give the same \
                 results for all arguments.\n"
            ),
            format!("{TASK}\n(the task)\n\n"),
        ),
        Some(known) => (
            format!(
                "{}Write two such programs instead of one, each at most {} bytes: {pair}. Both must be right. This piece of code may \
                 inspire them:\n\n{inspired}\n",
                prompt::stated(&known.problem, known.permitted, None),
                known.problem.max_source_bytes,
            ),
            String::new(),
        ),
    };
    format!(
        "{about}\nAnswer in exactly this form, with the texts in parentheses replaced, and with nothing before, between or after:\n\n\
         {parts}{SLOW}\n```{fence}\n(the slow program)\n{END}\n\n{FAST}\n```{fence}\n(the fast program)\n{END}\n"
    )
}

/// The programs of an answer, without the `known` ones.
///
/// # Errors
/// Why the answer gives no programs, with the details.
pub(super) fn examine(
    task: &Task,
    answer: &Answer,
    known: &BTreeSet<Digest>,
) -> Result<Found, (Refusal, String)> {
    if answer.is_bounded() {
        let detail = format!("it has {} bytes", answer.bytes);
        return Err((Refusal::TooLong, detail));
    }
    if answer.finished == Some(false) {
        return Err((Refusal::CutOff, String::new()));
    }
    let has_task = task.known.is_none();
    let read = read(&answer.answer, has_task, task.language().fence());
    let (stated, slow, fast) = read.map_err(|why| (Refusal::Format, why))?;
    let programs = [(Rank::Slow, slow), (Rank::Fast, fast)];
    let digests = programs.each_ref().map(|(_, source)| source_digest(source));
    if digests[0] == digests[1] {
        return Err((Refusal::Same, String::new()));
    }
    let programs = programs.into_iter().zip(&digests);
    let fresh = programs.filter(|(_, digest)| !known.contains(*digest));
    let programs: Vec<(Rank, String)> = fresh.map(|(program, _)| program).collect();
    // A claim compares two programs. A source under two prompts would be in two parts of a split.
    let (prompt, fewest) = match &task.known {
        Some(known) => (known.prompt.clone(), 1),
        None => (stated, 2),
    };
    match programs.len() < fewest {
        true => Err((Refusal::Repeated, String::new())),
        false => Ok(Found { prompt, programs }),
    }
}

/// Task, slow and fast program of an answer. Without `has_task` the answer states none, and the task is empty.
fn read(answer: &str, has_task: bool, fence: &str) -> Result<(String, String, String), String> {
    // Some servers leave a model's reasoning in the answer.
    let answer = answer
        .rsplit_once("</think>")
        .map_or(answer, |(_, rest)| rest);
    let mut reader = Reader(answer.lines().peekable());
    let task = match has_task {
        true => {
            reader.expect(TASK)?;
            reader.until(SLOW, TASK)?.trim().to_owned()
        }
        false => {
            reader.expect(SLOW)?;
            String::new()
        }
    };
    let open = format!("```{fence}");
    reader.expect(&open)?;
    let slow = reader.until(END, SLOW)?;
    reader.expect(FAST)?;
    reader.expect(&open)?;
    let fast = reader.until(END, FAST)?;
    reader.skip_blank();
    match reader.0.next() {
        None => Ok((task, slow, fast)),
        Some(line) => Err(format!("`{}` follows the last block", short(line))),
    }
}

/// The lines that are not read yet.
struct Reader<'a>(Peekable<Lines<'a>>);

impl Reader<'_> {
    fn skip_blank(&mut self) {
        while self.0.next_if(|line| line.trim().is_empty()).is_some() {}
    }

    /// Reads this line, and blank ones before it.
    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        self.skip_blank();
        match self.0.next() {
            Some(line) if line.trim_end() == wanted => Ok(()),
            Some(line) => Err(format!("`{}` stands where `{wanted}` must", short(line))),
            None => Err(format!("`{wanted}` is missing")),
        }
    }

    /// Reads the lines up to this one, below the heading `of`.
    fn until(&mut self, end: &str, of: &str) -> Result<String, String> {
        let mut text = String::new();
        for line in self.0.by_ref() {
            if line.trim_end() != end {
                text.push_str(line);
                text.push('\n');
                continue;
            }
            return match text.trim().is_empty() {
                true => Err(format!("there is nothing below `{of}`")),
                false => Ok(text),
            };
        }
        Err(format!("no `{end}` follows `{of}`"))
    }
}

fn short(line: &str) -> String {
    line.trim().chars().take(SHOWN).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// An answer with a task.
    fn whole(task: &str, slow: &str, fast: &str) -> String {
        format!("### Task\n{task}\n\n### Slow\n```c\n{slow}\n```\n\n### Fast\n```c\n{fast}\n```\n")
    }

    #[test]
    fn the_form_of_the_request_is_read_and_nothing_else() {
        let good = whole("Add.", "int a;\n\nint b;  ", "int c;");
        let parts = |text: &str| read(text, true, "c");
        let wanted = ("Add.", "int a;\n\nint b;  \n", "int c;\n");
        for text in [
            good.clone(),
            format!("\n{good}\n \n"),
            good.replace('\n', "\r\n"),
            format!("<think>```c ### Task</think>\n{good}"),
            good.replace("### Fast", "\n### Fast  "),
        ] {
            let (task, slow, fast) = parts(&text).unwrap();
            assert_eq!((task.as_str(), slow.as_str(), fast.as_str()), wanted);
        }
        for (text, why) in [
            (String::new(), "`### Task` is missing"),
            (format!("Sure!\n{good}"), "`Sure!` stands where `### Task`"),
            (format!("{good}Done."), "`Done.` follows"),
            (good.replace("### Fast", "Fast:"), "where `### Fast` must"),
            (good.replace("```c", "```cpp"), "where ````c` must"),
            (
                good.replace("int c;\n```\n", "int c;\n"),
                "no ````` follows",
            ),
            (good.replace("int c;", " "), "nothing below `### Fast`"),
            (good.replace("Add.", ""), "nothing below `### Task`"),
            (good.replace("### Slow", "### Two"), "no `### Slow` follows"),
        ] {
            let said = parts(&text).unwrap_err();
            assert!(said.contains(why), "{said} for {text}");
        }
        let (_, untasked) = good.split_once("\n\n").unwrap();
        assert_eq!(read(untasked, false, "c").unwrap().2, "int c;\n");
        assert!(read(&good, false, "c").is_err());
    }

    #[test]
    fn a_request_shows_the_form_that_is_read() {
        let task = Task {
            name: "synthetic".into(),
            known: None,
        };
        let prompt = prompt(&task, "for(;;);");
        assert!(prompt.contains("```\nfor(;;);\n```"), "{prompt}");
        let at = prompt.find(TASK).unwrap();
        let (task, slow, fast) = read(&prompt[at..], true, "c").unwrap();
        assert_eq!(
            [task.as_str(), slow.as_str(), fast.as_str()],
            ["(the task)", "(the slow program)\n", "(the fast program)\n"]
        );
    }
}
