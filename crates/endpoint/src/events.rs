//! Server-sent events, from pieces of bytes.

/// Longest event, bytes.
const LONGEST: usize = 1 << 20;

/// An event is longer than any that a server of models sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Collects events of a stream. Pieces may end anywhere, also within a character.
#[derive(Debug, Default)]
pub struct Events {
    line: Vec<u8>,
    data: Option<String>,
    after_return: bool,
}

impl Events {
    /// The data of the events that these bytes complete.
    ///
    /// # Errors
    /// An event is too long.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, TooLong> {
        let mut done = Vec::new();
        for &byte in bytes {
            // Lines end with CR, LF, or both.
            let second = std::mem::take(&mut self.after_return) && byte == b'\n';
            match byte {
                _ if second => {}
                b'\r' | b'\n' => {
                    self.after_return = byte == b'\r';
                    done.extend(self.end_line());
                }
                _ => self.line.push(byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > LONGEST {
                return Err(TooLong);
            }
        }
        Ok(done)
    }

    /// Takes a whole line; an empty one ends an event.
    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.data.take();
        }
        let line = String::from_utf8_lossy(&line);
        // Comments and other fields say nothing that an answer needs.
        let value = line.strip_prefix("data:")?;
        let value = value.strip_prefix(' ').unwrap_or(value);
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        None
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        Events::default().push(bytes).unwrap()
    }

    #[test]
    fn lines_end_in_three_ways_and_comments_are_left_out() {
        let stream =
            b": wait\n\ndata: a\n\ndata:b\r\n\r\nevent: x\rdata: c\rdata: d\r\rid: 1\n\ndata: cut";
        assert_eq!(all(stream), ["a", "b", "c\nd"]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut events = Events::default();
        let piece = [b'a'; 1 << 16];
        let refused = (0..20).find_map(|_| events.push(&piece).err());
        assert_eq!(refused, Some(TooLong));
    }

    proptest! {
        #[test]
        fn pieces_may_end_anywhere(cuts in prop::collection::vec(0usize..40, 0..6), ends in 0usize..3) {
            let end = ["\n", "\r", "\r\n"][ends];
            let stream = ["data: für", "data: 2", "", ": no", "data: ✓", "", ""].join(end);
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut events = Events::default();
            let mut found = Vec::new();
            let mut begin = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                found.extend(events.push(&bytes[begin..cut]).unwrap());
                begin = cut;
            }
            prop_assert_eq!(found, ["für\n2", "✓"]);
        }
    }
}
