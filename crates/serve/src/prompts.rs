//! Where the answer begins in a text of prompt and answer. Pure.
//!
//! OpenRLHF decodes the tokens of prompt and answer together. If the prompt leaves no room for the answer, it drops tokens at
//! the beginning of the prompt; the rest may begin within a character. Tokenizers may change white space. A prompt may show
//! programs, so a wrong place would reward the prompt: where the place is in doubt there is no answer.

/// Least number of characters, without white space, of the end of a prompt that tell where the prompt ends.
const LEAST: usize = 64;
/// Length of the longest mark of the beginning of a text, e.g. `<s>`, bytes.
const LONGEST_MARK: usize = 64;

/// The text behind the prompt, of which the beginning may be missing in `query`.
///
/// # Errors
/// A sentence, if it is not certain where the prompt ends.
pub fn answer_of<'q>(query: &'q str, prompt: &str) -> Result<&'q str, String> {
    if let Some(at) = query.find(prompt)
        && is_mark(&query[..at])
    {
        return Ok(&query[at + prompt.len()..]);
    }
    // The rest of a character that was cut comes first.
    let begun = query.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{fffd}');
    let (found, ends) = visible(begun);
    let (wanted, _) = visible(prompt);
    let borders = borders(&found[..found.len().min(wanted.len())]);
    let longest = overlap(&found, &borders, &wanted);
    let next = longest.checked_sub(1).map_or(0, |last| borders[last]);
    let is_certain = longest == wanted.len() || longest >= LEAST && next < LEAST;
    match longest.checked_sub(1) {
        Some(last) if is_certain => Ok(&begun[ends[last]..]),
        _ => Err(format!(
            "the query begins neither with its prompt nor with an end of the prompt of {LEAST} characters or more that occurs once, so the answer in it cannot be told from the prompt; make --data.max_len so long that no prompt is truncated"
        )),
    }
}

/// True for nothing, and for tokens such as `<s>`.
fn is_mark(text: &str) -> bool {
    let text = text.trim();
    let is_whole = text.starts_with(['<', '[']) && text.ends_with(['>', ']']);
    let is_short = text.len() <= LONGEST_MARK && !text.contains(char::is_whitespace);
    text.is_empty() || is_whole && is_short
}

/// The characters of a text that are no white space, and the byte at which each ends.
fn visible(text: &str) -> (Vec<char>, Vec<usize>) {
    let all = text.char_indices().filter(|(_, c)| !c.is_whitespace());
    all.map(|(at, c)| (c, at + c.len_utf8())).unzip()
}

/// For each prefix of a text, the length of its longest proper prefix that is its end, too (Knuth, Morris and Pratt).
fn borders(text: &[char]) -> Vec<usize> {
    let mut borders = vec![0; text.len()];
    for at in 1..text.len() {
        let mut length = borders[at - 1];
        while length > 0 && text[length] != text[at] {
            length = borders[length - 1];
        }
        borders[at] = length + usize::from(text[length] == text[at]);
    }
    borders
}

/// Length of the longest beginning of `found` that is an end of `wanted`. `borders` are those of the beginnings that are no
/// longer than `wanted`.
fn overlap(found: &[char], borders: &[usize], wanted: &[char]) -> usize {
    let mut length = 0;
    for c in wanted {
        while length > 0 && (length == borders.len() || found[length] != *c) {
            length = borders[length - 1];
        }
        length += usize::from(found.get(length) == Some(c));
    }
    length
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROMPT: &str = "<|im_start|>user\nImprove this kernel; it adds numbers:\n```c\nint slow(void) { return 1 + 2 + 3 + 4 + 5 ; }\n```\nAnswer with one program.<|im_end|>\n<|im_start|>assistant\n";
    const ANSWER: &str = "Here:\n```c\nint fast(void) { return 15; }\n```<|im_end|>";

    #[test]
    fn the_answer_is_behind_the_prompt_and_marks_before_it() {
        for before in ["", "<s>", "<|begin_of_text|>", "[BOS] ", "\n"] {
            let query = format!("{before}{PROMPT}{ANSWER}");
            assert_eq!(answer_of(&query, PROMPT), Ok(ANSWER), "{before}");
        }
        assert_eq!(answer_of(ANSWER, ""), Ok(ANSWER));
        assert_eq!(answer_of(PROMPT, PROMPT), Ok(""));
        // The answer repeats the prompt.
        let query = format!("{PROMPT}{PROMPT}{ANSWER}");
        let both = format!("{PROMPT}{ANSWER}");
        assert_eq!(answer_of(&query, PROMPT), Ok(both.as_str()));
    }

    #[test]
    fn the_answer_is_found_behind_the_end_of_a_truncated_prompt() {
        let last = PROMPT.len() - 80;
        for (at, _) in PROMPT.char_indices().take_while(|(at, _)| *at < last) {
            let query = format!("{}{ANSWER}", &PROMPT[at..]);
            let answer = answer_of(&query, PROMPT).unwrap();
            assert_eq!(answer.trim_start(), ANSWER, "cut at {at}");
        }
        let cut_within_a_character = format!("\u{fffd}\u{fffd}{}{ANSWER}", &PROMPT[20..]);
        let answer = answer_of(&cut_within_a_character, PROMPT).unwrap();
        assert_eq!(answer.trim_start(), ANSWER);
        // The truncated prompt is quoted as a whole.
        let query = format!("{}{PROMPT}{ANSWER}", &PROMPT[20..]);
        let answer = answer_of(&query, PROMPT).unwrap();
        assert_eq!(answer.trim_start(), format!("{PROMPT}{ANSWER}"));
    }

    #[test]
    fn white_space_that_a_tokenizer_changed_does_not_matter() {
        let cleaned = PROMPT.replace(" ;", ";").replace("\n\n", "\n");
        for prompt in [cleaned.as_str(), &cleaned[30..], cleaned.trim_start()] {
            let query = format!("{prompt}{ANSWER}");
            let answer = answer_of(&query, PROMPT).unwrap();
            assert_eq!(answer.trim_start(), ANSWER, "{prompt}");
        }
    }

    #[test]
    fn a_doubtful_end_of_the_prompt_is_no_end() {
        let short = &PROMPT[PROMPT.len() - 30..];
        let line = "the same line once more, and once more, and once more, and once more again\n";
        let periodic = line.repeat(4);
        for (query, prompt) in [
            (format!("{short}{ANSWER}"), PROMPT),
            (ANSWER.to_owned(), PROMPT),
            (String::new(), PROMPT),
            // Another text begins as the prompt ends.
            (format!("\n{}", PROMPT.replace("Improve", "Mend")), PROMPT),
            // The answer may repeat the last line of the prompt.
            (format!("{}{ANSWER}", line.repeat(3)), periodic.as_str()),
        ] {
            let error = answer_of(&query, prompt).unwrap_err();
            assert!(error.contains("--data.max_len"), "{query}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_character_of_the_prompt_is_in_the_answer(prompt in "[ab`\n]{0,200}", answer in "[xy\n]{0,9}", cut in 0usize..200) {
            let query = format!("{}{answer}", prompt.get(cut..).unwrap_or_default());
            if let Ok(found) = answer_of(&query, &prompt) {
                prop_assert_eq!(found.trim(), answer.trim());
            }
        }

        #[test]
        fn any_text_is_read(query in any::<String>(), prompt in any::<String>()) {
            if let Ok(answer) = answer_of(&query, &prompt) {
                prop_assert!(query.ends_with(answer));
            }
        }
    }
}
