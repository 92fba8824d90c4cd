//! Tasks as token ids, and sampled tokens as programs: the same wherever the tokens are sampled.

use std::sync::Arc;

use flopsmith_agent::conversation::{Conversation, Shown, Wanted};
use flopsmith_config::{Generator, TurnPrompt, Turns};
use flopsmith_policy::chat::Message;
use flopsmith_policy::{Stops, Tokenizer};
use flopsmith_problem::{Language, Problem, prompt};
use flopsmith_protocol::{EliteHint, Exchange, Purpose, RawAnswer, Requests, Sampling, Task};

use crate::answer::{Answer, Sampled};
use crate::error::Error;

/// Ends a prompt whose answer may be a request.
const COSTS: &str =
    "\nA line that shows something takes the place of a program: one fewer can be evaluated.\n";

/// How a run writes prompts for its model and reads the model's answers.
pub(super) struct Reading {
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) style: prompt::Style,
    pub(super) stops: Option<Arc<Stops>>,
    /// Positions of the model: the most tokens of a prompt and its answer.
    positions: i64,
    turns: Turns,
}

/// A task as it is asked.
pub(super) struct Asked {
    /// The tokens before an answer.
    pub(super) ids: Vec<u32>,
    /// The sampling of an answer.
    pub(super) sampling: Sampling,
    pub(super) form: Form,
}

/// How the program of an answer is found.
pub(super) struct Form {
    language: Language,
    /// The program that the answer may change, with the prompts of an agent.
    conversation: Option<Conversation>,
}

impl Reading {
    pub(super) fn new(tokenizer: Arc<Tokenizer>, positions: i64, settings: &Generator) -> Self {
        let stops = Stops::new(Arc::clone(&tokenizer), settings.stop.iter().cloned());
        Self {
            tokenizer,
            style: settings.prompt.style(),
            stops: (!settings.stop.is_empty()).then(|| Arc::new(stops)),
            positions,
            turns: Turns::default(),
        }
    }

    /// The same, with conversations as these settings say.
    pub(super) fn conversing(self, turns: &Turns) -> Self {
        Self {
            turns: turns.clone(),
            ..self
        }
    }

    /// A task as it is asked: the prompt, and what was said since.
    ///
    /// Prompts of fresh nests have any length. An answer to a long one has less room than others, and one that does not
    /// fit the model at all is answered without its beginning, which gives no right program.
    pub(super) fn prompt(&self, problem: &Problem, task: &Task) -> Result<Asked, Error> {
        let room = self.positions - i64::from(task.sampling.max_tokens);
        let (mut ids, conversation) = match self.turns.prompt {
            TurnPrompt::Brief => (self.followed(problem, task, room)?, None),
            TurnPrompt::Agent => {
                let (ids, conversation) = self.conversation(problem, task, room)?;
                (ids, Some(conversation))
            }
        };
        let most = usize::try_from(self.positions - 1).unwrap_or(usize::MAX);
        ids.drain(..ids.len().saturating_sub(most));
        let room = u32::try_from(self.positions - ids.len() as i64).unwrap_or(1);
        let sampling = Sampling {
            max_tokens: task.sampling.max_tokens.min(room),
            ..task.sampling.clone()
        };
        let form = Form {
            language: problem.language,
            conversation,
        };
        Ok(Asked {
            ids,
            sampling,
            form,
        })
    }

    /// The prompt and the turns since, `room` tokens at most. A program to build on is left out where the prompt with it
    /// leaves no room for an answer. Of a conversation that leaves none, the oldest answers are left out.
    ///
    /// The turns of a conversation do not decide about the program, so all of them begin with the same prompt.
    fn followed(&self, problem: &Problem, task: &Task, room: i64) -> Result<Vec<u32>, Error> {
        let text = self.text(problem, task, room)?;
        let mut history = task.history.as_slice();
        loop {
            let ids = self.encode(&text, history, problem)?;
            match history.split_first() {
                Some((_, newer)) if ids.len() as i64 > room => history = newer,
                _ => return Ok(ids),
            }
        }
    }

    /// The conversation of a task as an agent has it, about the program to build on, and its prompt, which has `room` tokens
    /// at most: first the older turns make way, then that program.
    fn conversation(
        &self,
        problem: &Problem,
        task: &Task,
        room: i64,
    ) -> Result<(Vec<u32>, Conversation), Error> {
        let head = flopsmith_nest::prompt::render(problem, task.permitted, None, self.style);
        let head = head.map_err(failed)?;
        let about = |elite: Option<&EliteHint>| {
            let shown = elite.map(|elite| Shown {
                source: elite.source.clone(),
                gflops: Some(elite.gflops),
            });
            let mut conversation = Conversation::new(head.clone(), problem.language, shown);
            if let Some(Requests { finds, documents }) = &task.requests {
                conversation = conversation.reading(documents.clone());
                if let Some(techniques) = finds {
                    conversation = conversation.finding(*techniques);
                }
            }
            for said in &task.history {
                let answer = match &said.request {
                    Some(request) => request.to_string(),
                    None if said.answer.is_empty() => "(It had no program.)".to_owned(),
                    None => prompt::answer(&said.answer, Some(problem.language.fence())),
                };
                conversation.note(&answer, &said.result);
            }
            conversation
        };
        // An evaluation has one turn.
        let turns = match task.purpose {
            Purpose::Train => self.turns.most,
            _ => 1,
        };
        let said = u32::try_from(task.history.len()).unwrap_or(u32::MAX);
        let left = turns.saturating_sub(said).max(1);
        let mut elite = task.elite.as_ref();
        let costs = task.requests.as_ref().map_or("", |_| COSTS);
        let mut conversation = about(elite);
        loop {
            let text = conversation.prompt(left) + costs;
            let ids = self.encode(&text, &[], problem)?;
            if ids.len() as i64 <= room {
                return Ok((ids, conversation));
            }
            if conversation.shorten() {
                continue;
            }
            if elite.take().is_none() {
                return Ok((ids, conversation));
            }
            conversation = about(None);
        }
    }

    /// The prompt of a task, with its program to build on if the prompt then has `room` tokens at most.
    fn text(&self, problem: &Problem, task: &Task, room: i64) -> Result<String, Error> {
        let of = |elite: Option<&EliteHint>| {
            let text = flopsmith_nest::prompt::render(problem, task.permitted, elite, self.style);
            text.map_err(failed)
        };
        if let Some(elite) = &task.elite {
            let text = of(Some(elite))?;
            let tokens = self.encode(&text, &[], problem)?.len();
            if tokens as i64 <= room {
                return Ok(text);
            }
            tracing::debug!(task = %task.id, tokens, room, "the prompt has no room for its elite");
        }
        of(None)
    }

    /// Programs stand in fenced blocks in a conversation with a chat model, and bare in plain text.
    fn encode(
        &self,
        text: &str,
        history: &[Exchange],
        problem: &Problem,
    ) -> Result<Vec<u32>, Error> {
        let chat = self.style.is_chat();
        let fence = chat.then(|| problem.language.fence());
        let mut messages = vec![Message::user(text)];
        for Exchange { answer, result, .. } in history {
            messages.push(Message::assistant(prompt::answer(answer, fence)));
            messages.push(Message::user(result));
        }
        let ids = self.tokenizer.encode_messages(&messages, chat);
        ids.map_err(failed)
    }

    /// The program in sampled tokens: with the prompts of an agent also the shown program with the changes of the answer, or a
    /// request in place of a program.
    pub(super) fn answer(&self, sampled: Sampled, form: &Form) -> Result<Answer, Error> {
        let whole = self.tokenizer.decode(&sampled.tokens).map_err(failed)?;
        let text = self
            .stops
            .as_ref()
            .map_or(whole.as_str(), |s| s.cut(&whole));
        let found = match &form.conversation {
            None => prompt::extract(text, self.style, form.language)
                .map(Wanted::Program)
                .ok_or_else(String::new),
            Some(conversation) => conversation.read(text),
        };
        let (source, request, fault) = match found {
            Ok(Wanted::Program(program)) => (program, None, None),
            Ok(Wanted::Request(request)) => (String::new(), Some(request), None),
            // No prompt offers it.
            Ok(Wanted::Explain { .. }) => (String::new(), None, Some(String::new())),
            Err(fault) => (String::new(), None, Some(fault)),
        };
        let raw = fault.map(|fault| {
            // With the stop that ended it, because the stop may be the reason that no program is left.
            let mut raw = RawAnswer::of(&whole, sampled.finished);
            if !fault.is_empty() {
                raw.text = format!("{fault}:\n{}", raw.text);
            }
            raw
        });
        Ok(Answer {
            source,
            raw,
            request,
            sampled: Some(sampled),
            parent: None,
        })
    }
}

/// The seed of a sample of a task.
pub(super) fn seed_of(task: &Task, sample: u32) -> u64 {
    let sample = u64::from(sample).wrapping_mul(0xd134_2543_de82_ef95);
    task.seed.wrapping_add(sample)
}

pub(super) fn failed(error: impl std::error::Error) -> Error {
    Error::Generator(crate::supervisor::words(&error))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::{Path, PathBuf};

    use flopsmith_config::Prompt;
    use flopsmith_protocol::{Request, TechniqueSet};
    use flopsmith_test_support::task;

    use super::*;

    const PROGRAM: &str = "int a;\nint b;\n";

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// A run with conversations of three turns as an agent has them, for a model with so many positions.
    fn reading(positions: i64) -> Reading {
        let tokenizer = Tokenizer::load(&root().join("models/starter")).unwrap();
        let settings = Generator {
            prompt: Prompt::Full,
            ..Generator::default()
        };
        let turns = Turns {
            most: 3,
            prompt: TurnPrompt::Agent,
            ..Turns::default()
        };
        Reading::new(Arc::new(tokenizer), positions, &settings).conversing(&turns)
    }

    fn problem() -> Problem {
        Problem::load(&root().join("problems/dgemm")).unwrap()
    }

    /// The second turn of a conversation.
    fn second() -> Task {
        let mut task = task(1, 0);
        task.purpose = Purpose::Train;
        task.sampling.max_tokens = 64;
        task.elite = Some(EliteHint {
            techniques: TechniqueSet::EMPTY,
            source: PROGRAM.to_owned(),
            gflops: 2.5,
        });
        task.history = vec![Exchange {
            answer: PROGRAM.to_owned(),
            request: None,
            result: "It is right.".to_owned(),
        }];
        task
    }

    fn answer(reading: &Reading, form: &Form, text: &str) -> Answer {
        let sampled = Sampled {
            prompt: vec![1],
            tokens: reading.tokenizer.encode(text).unwrap(),
            logprobs: Vec::new(),
            finished: true,
        };
        reading.answer(sampled, form).unwrap()
    }

    #[test]
    fn an_answer_with_changes_is_the_shown_program_with_them() {
        let (reading, problem) = (reading(100_000), problem());
        let task = second();
        let Asked { ids, form, .. } = reading.prompt(&problem, &task).unwrap();
        let prompt = reading.tokenizer.decode(&ids).unwrap();
        for part in [
            "(2.500 GFLOPS)",
            "```c\nint a;\nint b;\n```",
            "## Its result\n\nIt is right.",
            "2 more can be evaluated",
            "<<<<<<< SEARCH",
        ] {
            assert!(prompt.contains(part), "{part}: {prompt}");
        }
        assert!(!prompt.contains("FIND"), "{prompt}");

        let change = "Faster:\n<<<<<<< SEARCH\nint b;\n=======\nint c;\n>>>>>>> REPLACE\n";
        let changed = answer(&reading, &form, change);
        assert_eq!(changed.source, "int a;\nint c;\n");
        // The run trains on the tokens of the changes.
        let tokens = changed.sampled.unwrap().tokens;
        assert_eq!(reading.tokenizer.decode(&tokens).unwrap(), change);
        let whole = answer(&reading, &form, "```c\nint d;\n```\n");
        assert_eq!((whole.source.as_str(), whole.raw), ("int d;\n", None));
        let misfit = change.replace("int b;", "int x;");
        for (none, why) in [
            (misfit.as_str(), "no line is `int x;`"),
            // The prompt offers no request.
            ("FIND simd\n", "the answer has no program"),
            ("READ gemm.md\n", "the answer has no program"),
            ("REMARKS\n", "the answer has no program"),
        ] {
            let found = answer(&reading, &form, none);
            // The next turn is told the fault and the answer.
            let said = found.raw.unwrap().text;
            assert!(said.contains(why) && said.ends_with(none), "{said}");
            assert_eq!(found.source, "");
        }
        // Without a program there is nothing to change.
        let alone = Task {
            elite: None,
            history: Vec::new(),
            ..task
        };
        let form = reading.prompt(&problem, &alone).unwrap().form;
        assert_eq!(answer(&reading, &form, change).source, "");
    }

    #[test]
    fn an_answer_may_make_a_request_that_its_task_offers() {
        let (reading, problem) = (reading(100_000), problem());
        let find = Request::Find {
            techniques: "simd".parse().unwrap(),
            text: "fma".to_owned(),
        };
        let mut task = second();
        task.history.push(Exchange {
            answer: String::new(),
            request: Some(find.clone()),
            result: "It was found.".to_owned(),
        });
        let asked = |task: &Task| {
            let Asked { ids, form, .. } = reading.prompt(&problem, task).unwrap();
            (reading.tokenizer.decode(&ids).unwrap(), form)
        };
        // The last turn: a request would have no result.
        let (prompt, form) = asked(&task);
        let repeated = "## Your answer\n\nFIND simd fma\n\n## Its result\n\nIt was found.";
        assert!(prompt.contains(repeated), "{prompt}");
        assert!(
            !prompt.contains("`FIND") && !prompt.contains("`READ"),
            "{prompt}"
        );
        assert_eq!(answer(&reading, &form, "FIND simd fma\n").request, None);

        task.history.pop();
        task.requests = Some(Requests {
            finds: Some("simd+unroll".parse().unwrap()),
            documents: vec!["gemm.md".to_owned()],
        });
        let (prompt, form) = asked(&task);
        for part in ["(unroll, simd)", "shows a document: gemm.md.", COSTS.trim()] {
            assert!(prompt.contains(part), "{part}: {prompt}");
        }
        let read = Request::Read {
            document: "gemm.md".to_owned(),
        };
        for (text, request) in [("FIND simd fma\n", find), ("So:\nREAD gemm.md", read)] {
            let found = answer(&reading, &form, text);
            assert_eq!((found.source.as_str(), found.raw), ("", None));
            assert_eq!(found.request, Some(request));
            // The run trains on the tokens of the request.
            let tokens = found.sampled.unwrap().tokens;
            assert_eq!(reading.tokenizer.decode(&tokens).unwrap(), text);
        }
        let unknown = answer(&reading, &form, "READ tiles.md\n");
        assert!(
            unknown
                .raw
                .unwrap()
                .text
                .contains("no document of this name")
        );
        let whole = answer(&reading, &form, "FIND simd\n```c\nint d;\n```\n");
        assert_eq!((whole.source.as_str(), whole.request), ("int d;\n", None));
    }

    #[test]
    fn older_turns_make_way_before_the_program_of_a_conversation() {
        let problem = problem();
        let mut task = second();
        let tokens = |reading: &Reading, task: &Task| {
            let asked = reading.prompt(&problem, task).unwrap();
            let text = reading.tokenizer.decode(&asked.ids).unwrap();
            (asked.ids.len() as i64, text)
        };
        let mut alone = task.clone();
        alone.history = Vec::new();
        let (length, _) = tokens(&reading(100_000), &alone);
        let mut bare = alone.clone();
        bare.elite = None;
        let (shortest, _) = tokens(&reading(100_000), &bare);
        assert!(shortest < length);
        task.history[0].result = "It is slow. ".repeat(400);
        let room = i64::from(task.sampling.max_tokens);
        let (_, shown) = tokens(&reading(length + room), &task);
        assert!(shown.contains("int b;") && !shown.contains("It is slow."));
        let (_, neither) = tokens(&reading(shortest + room), &task);
        assert!(!neither.contains("int b;") && !neither.contains("It is slow."));
    }
}
