//! Text from users and other programs: decodes the bytes of a file or a pipe.

use std::io;

/// The mark that editors for Windows write at the beginning of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The text of a file that a user wrote, without a byte-order mark. All readers of such files use this function.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it is not UTF-8: with the line, or with the encoding if its mark names one.
pub fn decode(mut bytes: Vec<u8>) -> io::Result<String> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(wrong("it is UTF-16: save it as UTF-8".into()));
    }
    String::from_utf8(bytes).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        wrong(format!("line {line} is not UTF-8: save it as UTF-8"))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_at_the_beginning_goes() {
        for (bytes, text) in [
            ("", ""),
            ("\u{feff}", ""),
            ("\u{feff}{}", "{}"),
            ("\u{feff}a = 1\n", "a = 1\n"),
            ("a\u{feff}b", "a\u{feff}b"),
            // The second one is text.
            ("\u{feff}\u{feff}a", "\u{feff}a"),
        ] {
            assert_eq!(decode(bytes.into()).unwrap(), text);
        }
    }

    #[test]
    fn other_encodings_are_refused_with_what_to_do() {
        for (bytes, words) in [
            (&b"\xff\xfea\0"[..], "UTF-16"),
            (&b"\xfe\xff\0a"[..], "UTF-16"),
            (&b"a = 1\nb = \"\xe9\"\n"[..], "line 2"),
        ] {
            let error = decode(bytes.to_vec()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            let said = error.to_string();
            assert!(
                said.contains(words) && said.contains("save it as UTF-8"),
                "{said}"
            );
        }
    }
}
