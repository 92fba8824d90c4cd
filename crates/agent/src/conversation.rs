//! A conversation with a language model about one program.
//!
//! Each turn asks with the whole conversation so far. An answer is a whole program in a fenced block, SEARCH/REPLACE blocks that
//! change the program that is shown, or a request: to find earlier programs, to read a document, to explain a build, to count
//! what calls cost, or to profile a call. The caller evaluates programs and says the [results](crate::results).

use std::collections::VecDeque;
use std::fmt::Write;

use flopsmith_problem::Language;
use flopsmith_problem::prompt::{self, Style};
use flopsmith_protocol::{Question, Request, Technique, TechniqueSet};

use crate::edit;
use crate::question::{shows, word};
use crate::results::{NO_DOCUMENT, SHOWN, cut, fenced};

/// Begins the line of an answer that asks for earlier programs.
const FIND: &str = "FIND ";
/// Begins the line of an answer that asks for a document.
const READ: &str = "READ ";
/// Most bytes of the exchanges that a prompt repeats. Older ones are left out.
const REPEATED: usize = 48 * 1024;
/// Most bytes of a result that a prompt shows. It may be a document with its note, or several programs with theirs.
const RESULT: usize = 2 * SHOWN;

/// A program that a prompt shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Its text.
    pub source: String,
    /// Its speed, 10⁹ floating-point operations a second; none if it was not measured.
    pub gflops: Option<f64>,
}

/// The request of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// To evaluate this program.
    Program(String),
    /// To show earlier programs or a document.
    Request(Request),
    /// To show how a program was built, or what its calls cost.
    Explain {
        /// The question about it.
        question: Question,
        /// The candidate whose program it is; none for the program that is shown, or the one that was
        /// [evaluated last](Question::is_about_last).
        program: Option<String>,
    },
}

/// A conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    head: String,
    language: Language,
    current: Option<Shown>,
    /// The names of the documents that are shown on request.
    documents: Vec<String>,
    /// The questions about programs that have answers.
    explains: Vec<Question>,
    /// The techniques by which earlier programs are found; none where no programs are found.
    finds: Option<TechniqueSet>,
    exchanges: VecDeque<(String, String)>,
}

impl Conversation {
    /// A conversation that begins with the task in words and a program to improve, if there is one.
    pub fn new(head: String, language: Language, current: Option<Shown>) -> Self {
        Self {
            head,
            language,
            current,
            documents: Vec::new(),
            explains: Vec::new(),
            finds: None,
            exchanges: VecDeque::new(),
        }
    }

    /// The same conversation, in which documents of these names are shown on request.
    #[must_use]
    pub fn reading(self, documents: Vec<String>) -> Self {
        Self { documents, ..self }
    }

    /// The same conversation, in which these questions about programs have answers.
    #[must_use]
    pub fn explaining(self, explains: Vec<Question>) -> Self {
        Self { explains, ..self }
    }

    /// The same conversation, in which earlier programs are found by these techniques and by a text.
    #[must_use]
    pub fn finding(self, techniques: TechniqueSet) -> Self {
        Self {
            finds: Some(techniques),
            ..self
        }
    }

    /// The prompt of the next turn, in which so many programs may still be evaluated.
    pub fn prompt(&self, left: u32) -> String {
        let fence = self.language.fence();
        let mut text = format!("{}\n", self.head.trim_end());
        // Writing to a string cannot fail.
        let _ = match &self.current {
            Some(shown) => {
                let speed = speed(shown.gflops);
                let program = fenced(shown.source.trim_end(), fence);
                writeln!(
                    text,
                    "\nImprove this program, the fastest of this conversation{speed}:\n\n{program}"
                )
            }
            None => Ok(()),
        };
        for (answer, result) in &self.exchanges {
            let _ = writeln!(
                text,
                "\n## Your answer\n\n{}\n\n## Its result\n\n{}",
                answer.trim(),
                result.trim()
            );
        }
        let _ = writeln!(
            text,
            "\nEach program that you write is compiled, verified and timed, and you are told the result. {left} more can be evaluated in this conversation. Answer in one of these ways:"
        );
        let _ = writeln!(text, "- a whole program in one ```{fence} block;");
        if self.current.is_some() {
            let _ = writeln!(
                text,
                "- changes of the program above, each as lines that it has once, exactly as they stand there, and the lines that replace them:\n<<<<<<< SEARCH\nold lines\n=======\nnew lines\n>>>>>>> REPLACE"
            );
        }
        if let Some(techniques) = self.finds {
            let names: Vec<&str> = techniques.iter().map(Technique::name).collect();
            let _ = match names.is_empty() {
                true => writeln!(
                    text,
                    "- a line `FIND text`, which shows earlier programs of this run with this text."
                ),
                false => writeln!(
                    text,
                    "- a line `FIND words`, which shows earlier programs of this run with the techniques among the words ({}) and with the rest of the words as a text.",
                    names.join(", ")
                ),
            };
        }
        if !self.documents.is_empty() {
            let _ = writeln!(
                text,
                "- a line `READ name`, which shows a document: {}.",
                self.documents.join(", ")
            );
        }
        for (is_about_last, of) in [(false, SHOWN_ONE), (true, LAST_ONE)] {
            let asked = self.explains.iter().copied();
            let asked = asked.filter(|question| question.is_about_last() == is_about_last);
            let asked: Vec<Question> = asked.collect();
            let Some(first) = asked.first() else {
                continue;
            };
            let lines = asked.iter().map(|asked| format!("`{}`", word(*asked)));
            let answers = asked.iter().map(|asked| shows(*asked).to_owned());
            let _ = writeln!(
                text,
                "- a line {}, which shows {}, for {of}, or with a name as in `{} NAME` for that earlier program.",
                listed(lines.collect(), " or "),
                listed(answers.collect(), ", or "),
                word(*first)
            );
        }
        text
    }

    /// The request of an answer. Blocks come before a program, and a program before requests, of which the last line counts.
    ///
    /// # Errors
    /// The fault of the answer in words that its writer can mend.
    pub fn read(&self, answer: &str) -> Result<Wanted, String> {
        let blocks = edit::blocks(answer).map_err(|error| error.to_string())?;
        if !blocks.is_empty() {
            let Some(shown) = &self.current else {
                return Err("there is no program to change; write a whole program".into());
            };
            let changed = edit::apply(&shown.source, &blocks);
            return changed
                .map(Wanted::Program)
                .map_err(|error| error.to_string());
        }
        if let Some(program) = prompt::extract(answer, Style::Full, self.language) {
            return Ok(Wanted::Program(program));
        }
        // A model may think aloud before it decides.
        let mut lines = answer.lines().rev().map(str::trim);
        lines
            .find_map(|line| self.request(line))
            .unwrap_or_else(|| {
                Err(format!(
                    "the answer has no program; write one in a ```{} block, or as changes",
                    self.language.fence()
                ))
            })
    }

    /// The request of a line of an answer, if the line is one.
    fn request(&self, line: &str) -> Option<Result<Wanted, String>> {
        if !self.documents.is_empty()
            && let Some(name) = line.strip_prefix(READ)
        {
            let mut documents = self.documents.iter();
            let document = documents.find(|known| *known == name.trim()).cloned();
            let request = document.map(|document| Wanted::Request(Request::Read { document }));
            return Some(request.ok_or_else(|| NO_DOCUMENT.to_owned()));
        }
        // The caller answers one that does not fit with those that do.
        let mut questions = Question::ALL.iter().filter(|_| !self.explains.is_empty());
        let explained = questions.find_map(|question| {
            let rest = line.strip_prefix(word(*question))?;
            // A longer word is another one.
            let is_whole = rest.is_empty() || rest.starts_with(char::is_whitespace);
            let name = rest.split_whitespace().next();
            let program = name.map(|name| name.trim_matches('`').to_owned());
            is_whole.then_some(Wanted::Explain {
                question: *question,
                program,
            })
        });
        if explained.is_some() {
            return explained.map(Ok);
        }
        let (offered, words) = self.finds.zip(line.strip_prefix(FIND))?;
        let mut techniques = TechniqueSet::EMPTY;
        let mut text: Vec<&str> = Vec::new();
        for word in words.split_whitespace() {
            match word.parse::<TechniqueSet>() {
                Ok(set) if set.is_subset(offered) => techniques = techniques.union(set),
                _ => text.push(word),
            }
        }
        Some(Ok(Wanted::Request(Request::Find {
            techniques,
            text: text.join(" "),
        })))
    }

    /// The program that is shown now.
    pub fn current(&self) -> Option<&Shown> {
        self.current.as_ref()
    }

    /// Ends a turn with the answer and the result in words.
    pub fn note(&mut self, answer: &str, result: &str) {
        self.exchanges
            .push_back((cut(answer, SHOWN), cut(result, RESULT)));
        let size = |all: &VecDeque<(String, String)>| -> usize {
            all.iter().map(|(a, b)| a.len() + b.len()).sum()
        };
        while self.exchanges.len() > 1 && size(&self.exchanges) > REPEATED {
            self.exchanges.pop_front();
        }
    }

    /// Leaves out the older half of the turns, so that the next prompt is shorter. False if there was none.
    pub fn shorten(&mut self) -> bool {
        let older = self.exchanges.len().div_ceil(2);
        self.exchanges.drain(..older);
        older > 0
    }

    /// Shows a measured program from now on, if it is faster than the one that is shown.
    pub fn measured(&mut self, source: &str, gflops: f64) {
        let known = self.current.as_ref().and_then(|shown| shown.gflops);
        if known.is_none_or(|known| gflops > known) {
            self.current = Some(Shown {
                source: source.to_owned(),
                gflops: Some(gflops),
            });
        }
    }
}

/// The program of a question that names none, in words of a prompt.
const SHOWN_ONE: &str = "the program above";
const LAST_ONE: &str = "the program of this conversation that was evaluated last";

/// The parts as a list, with `last` before the last one.
fn listed(mut parts: Vec<String>, last: &str) -> String {
    let Some(end) = parts.pop() else {
        return String::new();
    };
    match parts.is_empty() {
        true => end,
        false => format!("{}{last}{end}", parts.join(", ")),
    }
}

fn speed(gflops: Option<f64>) -> String {
    gflops.map_or_else(String::new, |gflops| format!(" ({gflops:.3} GFLOPS)"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeMap;

    use flopsmith_protocol::{CandidateFault, Verdict};
    use flopsmith_test_support::{first, measured};

    use super::*;
    use crate::population::Known;
    use crate::results::tests::roofless;
    use crate::results::{Found, document, evaluated, found};

    const PROGRAM: &str = "int a;\nint b;\n";

    fn conversation() -> Conversation {
        let shown = Shown {
            source: PROGRAM.into(),
            gflops: Some(2.0),
        };
        Conversation::new("Write f.".into(), Language::C, Some(shown))
            .reading(vec!["gemm.md".to_owned()])
            .finding(TechniqueSet::general())
    }

    #[test]
    fn an_answer_is_a_program_changes_or_a_request() {
        let talk = conversation();
        let program = |text: &str| Ok(Wanted::Program(text.into()));
        assert_eq!(talk.read("So:\n```c\nint c;\n```\n"), program("int c;\n"));
        let change = "<<<<<<< SEARCH\nint b;\n=======\nint c;\n>>>>>>> REPLACE\n";
        assert_eq!(talk.read(change), program("int a;\nint c;\n"));
        let both = format!("```c\nint d;\n```\n{change}");
        assert_eq!(talk.read(&both), program("int a;\nint c;\n"));
        let wanted = Wanted::Request(Request::Find {
            techniques: "simd+unroll".parse().unwrap(),
            text: "fma (".into(),
        });
        assert_eq!(
            talk.read("Let me look.\n FIND simd fma ( unroll\n"),
            Ok(wanted)
        );
        let document = Request::Read {
            document: "gemm.md".into(),
        };
        assert_eq!(talk.read("READ gemm.md\n"), Ok(Wanted::Request(document)));
        for (answer, words) in [
            ("READ ../gemm.md", "no document of this name"),
            ("I do not know.", "has no program"),
            ("<<<<<<< SEARCH\nint b;\n", "has no `=======`"),
            (
                "<<<<<<< SEARCH\nint x;\n=======\n>>>>>>> REPLACE\n",
                "no line is `int x;`",
            ),
        ] {
            let error = talk.read(answer).unwrap_err();
            assert!(error.contains(words), "{answer}: {error}");
        }
        let alone = Conversation::new("Write f.".into(), Language::C, None);
        assert!(alone.read(change).unwrap_err().contains("a whole program"));
        let error = alone.read("READ gemm.md").unwrap_err();
        assert!(error.contains("has no program"), "{error}");
        for word in ["SEARCH", "READ"] {
            assert!(talk.prompt(1).contains(word));
            assert!(!alone.prompt(1).contains(word), "{word}");
        }
    }

    #[test]
    fn nobody_is_told_to_find_programs_where_none_are_found() {
        let talk = conversation();
        assert!(talk.prompt(1).contains("FIND") && talk.read("FIND simd\n").is_ok());
        let talk = Conversation {
            finds: None,
            ..talk
        };
        let prompt = talk.prompt(1);
        assert!(
            !prompt.contains("FIND") && prompt.contains("SEARCH"),
            "{prompt}"
        );
        let error = talk.read("FIND simd\n").unwrap_err();
        assert!(error.contains("has no program"), "{error}");
    }

    #[test]
    fn programs_are_found_by_the_offered_techniques_and_other_words_are_a_text() {
        let talk = conversation().finding("unroll+dot".parse().unwrap());
        let prompt = talk.prompt(1);
        let offered = "with the techniques among the words (unroll, dot) and with";
        assert!(prompt.contains(offered), "{prompt}");
        let wanted = |techniques: &str, text: &str| {
            Ok(Wanted::Request(Request::Find {
                techniques: techniques.parse().unwrap(),
                text: text.to_owned(),
            }))
        };
        assert_eq!(talk.read("FIND dot packing\n"), wanted("dot", "packing"));
        // No kernel has the technique `dot`, and the text may be the name of a function.
        let of_kernels = conversation();
        let found = of_kernels.read("FIND dot packing\n");
        assert_eq!(found, wanted("packing", "dot"));
        // The line of a request is read as that request.
        let line = "FIND packing dot";
        let Ok(Wanted::Request(request)) = of_kernels.read(line) else {
            unreachable!("it is a request")
        };
        assert_eq!(request.to_string(), line);
        // Where the earlier programs have no techniques, a text finds them.
        let plain = conversation().finding(TechniqueSet::EMPTY);
        let prompt = plain.prompt(1);
        assert!(prompt.contains("`FIND text`, which shows"), "{prompt}");
        assert_eq!(plain.read("FIND packing\n"), wanted("none", "packing"));
    }

    #[test]
    fn questions_about_programs_are_read_where_they_are_answered() {
        let talk = conversation();
        assert!(talk.read("ASSEMBLY").is_err());
        assert!(!talk.prompt(1).contains("ASSEMBLY"));
        let all_but_profile = Question::ALL[..4].to_vec();
        let talk = talk.explaining(all_but_profile);
        let prompt = talk.prompt(1);
        let offered = "`REMARKS`, `ASSEMBLY`, `THROUGHPUT` or `COUNTERS`, which shows the compiler's remarks about vectors, the assembly";
        assert!(prompt.contains(offered), "{prompt}");
        let ending = "was measured, for the program above, or with a name as in `REMARKS NAME` for";
        assert!(prompt.contains(ending), "{prompt}");
        assert!(!prompt.contains("PROFILE"), "{prompt}");
        let wanted = |question: Question, program: Option<&str>| {
            let program = program.map(str::to_owned);
            Ok(Wanted::Explain { question, program })
        };
        let remarks = wanted(Question::Remarks, None);
        assert_eq!(talk.read("I look first.\n REMARKS \n"), remarks);
        let assembly = wanted(Question::Assembly, Some("r-s0-g0-c1"));
        assert_eq!(talk.read("ASSEMBLY `r-s0-g0-c1`\n"), assembly);
        let throughput = wanted(Question::Throughput, None);
        assert_eq!(talk.read("THROUGHPUT"), throughput);
        let counters = wanted(Question::Counters, Some("r-s0-g0-c1"));
        assert_eq!(talk.read("COUNTERS r-s0-g0-c1\n"), counters);
        // One without an answer here is read all the same, so that its writer is told which ones have one.
        let profile = wanted(Question::Profile, None);
        assert_eq!(talk.read("PROFILE"), profile);
        assert!(talk.read("REMARKSX").is_err());
        // Of several requests the last line counts, whatever they ask for.
        let thinking = "READ notes.md\nFIND simd\nASSEMBLY\nREMARKS\nTHROUGHPUT\nREMARKSX\n";
        assert_eq!(talk.read(thinking), wanted(Question::Throughput, None));
        assert!(matches!(
            talk.read("ASSEMBLY\nFIND simd\nand then I write"),
            Ok(Wanted::Request(Request::Find { .. }))
        ));
        let program = Ok(Wanted::Program("int c;\n".into()));
        assert_eq!(talk.read("REMARKS\n```c\nint c;\n```\n"), program);
    }

    #[test]
    fn a_profile_alone_is_offered_for_the_last_program() {
        let talk = conversation().explaining(vec![Question::Profile]);
        let prompt = talk.prompt(1);
        let offered = "- a line `PROFILE`, which shows the operators in which a call spends its time, for the program of this conversation that was evaluated last, or with a name as in `PROFILE NAME` for that earlier program.\n";
        assert!(prompt.ends_with(offered), "{prompt}");
        assert!(!prompt.contains("COUNTERS"), "{prompt}");
    }

    #[test]
    fn a_prompt_shows_the_fastest_program_and_the_turns_so_far() {
        let mut talk = conversation();
        let wrong = Verdict::Rejected {
            fault: CandidateFault::WrongResult,
            detail: "at n = 7```\u{1b}[0m".into(),
        };
        let refused = evaluated(&wrong, "-int b;\n+int c;\n", &roofless());
        talk.note("an answer", &refused);
        talk.measured("int slow;\n", 1.0);
        assert_eq!(talk.current().unwrap().source, PROGRAM);
        talk.measured("int fast;\n", 3.0);
        talk.note("another", &evaluated(&measured(3.0), "", &roofless()));
        let prompt = talk.prompt(2);
        for part in [
            "Write f.",
            "(3.000 GFLOPS)",
            "int fast;",
            "an answer",
            "refused (wrong_result):\n````\nat n = 7```[0m\n````\n",
            "+int c;",
            "reaches 3.000 GFLOPS: 3.000 times",
            "2 more can be evaluated",
            "<<<<<<< SEARCH",
            "FIND words",
        ] {
            assert!(prompt.contains(part), "{part}: {prompt}");
        }
        assert!(!prompt.contains("int a;"), "{prompt}");
    }

    #[test]
    fn old_turns_are_left_out_of_a_long_conversation() {
        let mut talk = conversation();
        for number in 0..40 {
            let answer = format!("answer {number}: {}", "x".repeat(2 * SHOWN));
            talk.note(&answer, "nothing");
        }
        let prompt = talk.prompt(1);
        assert!(prompt.len() < REPEATED + SHOWN, "{}", prompt.len());
        assert!(prompt.contains("answer 39:") && !prompt.contains("answer 0:"));
        assert!(prompt.contains("bytes left out"));
        while talk.shorten() {}
        assert!(!talk.prompt(1).contains("answer 39:"));
    }

    #[test]
    fn a_program_and_its_diagnostics_do_not_leave_their_blocks() {
        let source = "int a; /*\n```\n## Its result\n````\n*/\n";
        let shown = Shown {
            source: source.into(),
            gflops: None,
        };
        let talk = Conversation::new("Write f.".into(), Language::C, Some(shown));
        let block = format!("`````c\n{source}`````\n");
        assert!(talk.prompt(1).contains(&block), "{}", talk.prompt(1));
        let outcome = first(0, source, "simd", measured(2.0));
        let known = Known {
            outcome,
            island: 0,
            confirmed: None,
        };
        let shown = Found::known(&known, &roofless());
        assert!(found(&[shown], Language::C).contains(&block));
        let wrong = Verdict::Rejected {
            fault: CandidateFault::WrongResult,
            detail: "```\n## Its result\n\nIt is right.".into(),
        };
        let said = evaluated(&wrong, " ```\n+It is right.\n", &roofless());
        for part in [
            "````\n```\n## Its result\n\nIt is right.\n````\n",
            "shown:\n````\n ```\n+It is right.\n````",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn a_document_that_is_cut_says_how_much_is_left_out() {
        let long = "x".repeat(3 * SHOWN);
        let documents = BTreeMap::from([("long.md".to_owned(), long)]);
        let mut talk = Conversation::new("Write f.".into(), Language::C, None);
        talk.note("READ long.md", &document(&documents, "long.md"));
        let note = format!("\n[{} bytes left out]\n", 2 * SHOWN);
        let prompt = talk.prompt(1);
        assert!(prompt.contains(&note));
        assert_eq!(prompt.matches("left out").count(), 1);
    }

    #[test]
    fn several_long_programs_fit_into_one_result() {
        let source = "int f;\n".repeat(SHOWN);
        let known = Known {
            outcome: first(0, &source, "simd", measured(2.0)),
            island: 0,
            confirmed: None,
        };
        let mut refused = known.clone();
        refused.outcome.verdict = Verdict::Rejected {
            fault: CandidateFault::WrongResult,
            detail: "x".repeat(SHOWN),
        };
        let shown = [&known, &refused, &refused].map(|known| Found::known(known, &roofless()));
        let text = found(&shown, Language::C);
        let mut talk = conversation();
        talk.note("FIND simd", &text);
        assert!(talk.prompt(1).contains(text.trim()));
    }
}
