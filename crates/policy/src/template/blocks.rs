//! Blocks of chat templates that transformers adds to Jinja.

/// The blocks that mark the model's answer for training masks, which this crate does not use. A variable that is set in
/// such a block ends with the block, as with `with`.
const KNOWN: [(&str, &str); 2] = [("generation", "with"), ("endgeneration", "endwith")];

/// The template with these blocks replaced by Jinja's own; the lines stay the same.
pub(super) fn known(source: &str) -> String {
    // Jinja accepts every kind of line end.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(at) = rest.find('{') {
        let (text, tag) = rest.split_at(at);
        out.push_str(text);
        let end = match tag.as_bytes().get(1) {
            Some(b'#') => end_of(tag, "#}"),
            Some(b'{') => end_of_code(tag, "}}"),
            Some(b'%') => {
                let end = end_of_code(tag, "%}");
                if word(&tag[..end]) == "raw" {
                    end + after_raw(&tag[end..])
                } else if let Some(tag) = renamed(&tag[..end]) {
                    out.push_str(&tag);
                    rest = &rest[at + end..];
                    continue;
                } else {
                    end
                }
            }
            _ => 1,
        };
        out.push_str(&tag[..end]);
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

/// The number of words and signs in the longest tag of a template. A text within quotation marks counts as one.
pub(super) fn longest(source: &str) -> usize {
    let mut longest = 0;
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let tag = &rest[at..];
        let end = match tag.as_bytes().get(1) {
            Some(b'#') => end_of(tag, "#}"),
            Some(b'{') => end_of_code(tag, "}}"),
            Some(b'%') => end_of_code(tag, "%}"),
            _ => 1,
        };
        rest = &tag[end..];
        if !matches!(tag.as_bytes().get(1), Some(b'{' | b'%')) {
            continue;
        }
        let tag = &tag[..end];
        longest = longest.max(parts(tag));
        if tag.starts_with("{%") && word(tag) == "raw" {
            rest = &rest[after_raw(rest)..];
        }
    }
    longest
}

/// The number of words and signs in a tag.
fn parts(tag: &str) -> usize {
    let (mut count, mut within_word) = (0, false);
    let (mut quote, mut escaped) = (None, false);
    for c in tag.chars() {
        if let Some(mark) = quote {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == mark => quote = None,
                _ => {}
            }
            continue;
        }
        let of_word = c.is_alphanumeric() || c == '_';
        let begins = if of_word {
            !within_word
        } else {
            !c.is_whitespace()
        };
        count += usize::from(begins);
        within_word = of_word;
        quote = matches!(c, '\'' | '"').then_some(c);
    }
    count
}

/// The tag under Jinja's own name, if it is one of [`KNOWN`].
fn renamed(tag: &str) -> Option<String> {
    let (name, own) = KNOWN.iter().find(|(name, _)| word(tag) == *name)?;
    Some(tag.replacen(name, own, 1))
}

/// The first word of a tag.
fn word(tag: &str) -> &str {
    let inner = tag.get(2..).unwrap_or_default();
    let inner = inner.trim_start_matches(['-', '+']).trim_start();
    let end = inner.find(|c: char| !c.is_alphanumeric() && c != '_');
    &inner[..end.unwrap_or(inner.len())]
}

/// The length of a text up to and including `mark`; the whole length if `mark` is missing.
fn end_of(text: &str, mark: &str) -> usize {
    text.find(mark).map_or(text.len(), |at| at + mark.len())
}

/// [`end_of`] for a tag: a mark within a string or brackets does not end the tag.
fn end_of_code(tag: &str, mark: &str) -> usize {
    let (mut open, mut quote, mut escaped) = (0u32, None, false);
    for (at, c) in tag.char_indices().skip(2) {
        if let Some(mark) = quote {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == mark => quote = None,
                _ => {}
            }
            continue;
        }
        if open == 0 && tag[at..].starts_with(mark) {
            return at + mark.len();
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    tag.len()
}

/// The length of a `raw` block's content, including the tag that ends the block.
fn after_raw(text: &str) -> usize {
    let tags = text.match_indices("{%");
    let mut ends = tags.map(|(at, _)| (at, at + end_of(&text[at..], "%}")));
    ends.find(|(at, end)| word(&text[*at..*end]) == "endraw")
        .map_or(text.len(), |(_, end)| end)
}

#[cfg(test)]
mod tests {
    use super::{known, longest};

    #[test]
    fn the_longest_tag_is_found() {
        for (template, parts) in [
            ("", 0),
            ("- - - { } - - -", 0),
            ("{# - - - - - - - - - - #}{{ a }}", 5),
            ("{{ a }}{% if a - - - b %}{{ 'a - - - - - - - }}' }}", 10),
            ("{{ {'a': {'b': 1}} }}", 13),
            ("{% raw %}{{ - - - - - - - - - - }}{% endraw %}{{ a }}", 5),
            ("{{ a + b", 5),
        ] {
            assert_eq!(longest(template), parts, "{template}");
        }
    }

    #[test]
    fn only_tags_of_generation_blocks_are_renamed() {
        for (template, wanted) in [
            (
                "{% generation %}a{% endgeneration %}",
                "{% with %}a{% endwith %}",
            ),
            (
                "{%- generation -%}a{%+endgeneration-%}\n",
                "{%- with -%}a{%+endwith-%}\n",
            ),
            ("{%\n  generation\n%}", "{%\n  with\n%}"),
        ] {
            assert_eq!(known(template), wanted);
        }
        for same in [
            "generation {{ generation }} {% if generation %}{% endif %}",
            "{# {% generation %} #}{{ '{% generation %}' }}{{ \"\\\"{% generation %}\" }}",
            "{% raw %}{% generation %}{% endgeneration %}{%- endraw %}",
            "{% set a = '%}{% generation %}' %}{% set generation = 1 %}",
            "{{ {'a': {'b': '{% generation %}'}} }}{% generations %}",
            "{ % generation %} {",
            "{{ 'ü{% generation %}",
            "{% raw %}{% generation %}",
        ] {
            assert_eq!(known(same), same);
        }
        assert_eq!(known("a\r\nb\rc\n"), "a\nb\nc\n");
    }
}
