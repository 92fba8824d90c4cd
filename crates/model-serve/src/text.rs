//! The text of an answer while it is written.

use std::sync::Arc;

use flopsmith_policy::{Result, Stops, Tokenizer};

/// A run of so many tokens that are no text yet is decoded again after two more, and so on in proportion. A character has at most four.
const RARER: usize = 16;

/// A text that grows by a token at a time. The pieces that it shows, joined, are the text of all tokens up to the first
/// stop string.
pub struct Growing {
    tokenizer: Arc<Tokenizer>,
    stops: Option<Arc<Stops>>,
    tokens: Vec<u32>,
    /// The tokens before this place are not decoded again. Those from here to `read` are, because some tokenizers write
    /// a token at the beginning of a text in another way than within it.
    from: usize,
    /// The tokens before this place are in `text`.
    read: usize,
    /// Number of tokens from which on they are decoded again.
    next: usize,
    text: String,
    /// Number of bytes of the text that were shown.
    shown: usize,
}

impl Growing {
    /// A text without tokens that ends before the first of `stops`.
    pub fn new(tokenizer: Arc<Tokenizer>, stops: Option<Arc<Stops>>) -> Self {
        Self {
            tokenizer,
            stops,
            tokens: Vec::new(),
            from: 0,
            read: 0,
            next: 0,
            text: String::new(),
            shown: 0,
        }
    }

    /// The tokens so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Appends a token.
    pub fn add(&mut self, token: u32) {
        self.tokens.push(token);
    }

    /// Appends a token, and gives the piece of the text that is certain by now: without an incomplete character, and
    /// without a possible beginning of a stop string.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn push(&mut self, token: u32) -> Result<String> {
        self.add(token);
        if self.tokens.len() < self.next {
            return Ok(String::new());
        }
        let known = self.tokenizer.decode(&self.tokens[self.from..self.read])?;
        let grown = self.tokenizer.decode(&self.tokens[self.from..])?;
        // A character of several tokens is written as this mark until its last token comes.
        if grown.ends_with('\u{fffd}') {
            // A long run of bytes that are no text is decoded ever more rarely: its whole cost grows with its length, not its square.
            let open = self.tokens.len() - self.read;
            self.next = self.tokens.len() + 1 + open / RARER;
            return Ok(String::new());
        }
        if let Some(new) = grown.get(known.len()..) {
            self.text.push_str(new);
            (self.from, self.read) = (self.read, self.tokens.len());
        }
        let certain = match &self.stops {
            Some(stops) => stops.certain(&self.text),
            None => &self.text,
        };
        let piece = certain.get(self.shown..).unwrap_or_default().to_owned();
        self.shown += piece.len();
        Ok(piece)
    }

    /// The whole text, now that no token follows, and the piece of it that was not shown.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn end(&mut self) -> Result<(String, String)> {
        let mut whole = self.tokenizer.decode(&self.tokens)?;
        if let Some(stops) = &self.stops {
            let length = stops.cut(&whole).len();
            whole.truncate(length);
        }
        let piece = whole.get(self.shown..).unwrap_or_default().to_owned();
        self.shown = whole.len();
        Ok((whole, piece))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::LazyLock;

    use flopsmith_policy::train_bpe;
    use proptest::prelude::*;

    use super::*;

    static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
        let texts: Vec<String> = (0..40)
            .map(|i| format!("for (int i = {i}; i < n; i += {i}) C[i] = 0.5 * {i};\n"))
            .collect();
        Arc::new(train_bpe(&texts, 300, &["<|end|>"]).unwrap())
    });

    /// The token of a byte that no character begins with.
    fn no_text() -> u32 {
        let tokens = 0..300;
        let mut alone = tokens.filter(|id| TOKENIZER.decode(&[*id]).unwrap() == "\u{fffd}");
        alone.next().unwrap()
    }

    #[test]
    fn a_long_run_that_is_no_text_is_not_decoded_for_each_token() {
        let mut growing = Growing::new(Arc::clone(&TOKENIZER), None);
        let mut decoded = 0;
        for _ in 0..4000 {
            decoded += usize::from(growing.tokens().len() + 1 >= growing.next);
            assert_eq!(growing.push(no_text()).unwrap(), "");
        }
        assert!(decoded < 120, "{decoded}");
        assert_eq!(growing.end().unwrap().1.chars().count(), 4000);
    }

    fn shown(stops: &[&str], tokens: &[u32]) -> (String, String) {
        let strings = stops.iter().map(|stop| (*stop).to_owned());
        let stops = Arc::new(Stops::new(Arc::clone(&TOKENIZER), strings));
        let mut growing = Growing::new(Arc::clone(&TOKENIZER), Some(stops));
        let mut pieces = String::new();
        for token in tokens {
            pieces.push_str(&growing.push(*token).unwrap());
        }
        let (whole, rest) = growing.end().unwrap();
        (pieces + &rest, whole)
    }

    proptest! {
        #[test]
        fn the_pieces_join_to_the_whole(tokens in prop::collection::vec(0u32..300, 0..60)) {
            let (pieces, whole) = shown(&[], &tokens);
            prop_assert_eq!(&whole, &TOKENIZER.decode(&tokens).unwrap());
            prop_assert_eq!(pieces, whole);
        }

        #[test]
        fn the_pieces_join_to_the_whole_after_bytes_that_are_no_text(bytes in 0usize..200, text in "[ab一]{0,30}") {
            let mut tokens = vec![no_text(); bytes];
            tokens.extend(TOKENIZER.encode(&text).unwrap());
            let (pieces, whole) = shown(&[], &tokens);
            prop_assert_eq!(&whole, &TOKENIZER.decode(&tokens).unwrap());
            prop_assert_eq!(pieces, whole);
        }

        #[test]
        fn the_pieces_of_a_text_stop_before_the_first_stop_string(text in "[ab一]{0,30}", stop in "[ab一]{1,3}") {
            let tokens = TOKENIZER.encode(&text).unwrap();
            let (pieces, whole) = shown(&[stop.as_str()], &tokens);
            let end = text.find(&stop).unwrap_or(text.len());
            prop_assert_eq!(&whole, &text[..end]);
            prop_assert_eq!(pieces, whole);
        }
    }
}
