//! A check of pages that every test of a page uses.

/// Checks that tags nest and that the page names nothing outside itself; returns the texts between the tags.
pub fn well_formed(page: &str) -> Result<Vec<String>, String> {
    let mut open: Vec<String> = Vec::new();
    let mut texts = Vec::new();
    let mut rest = page.strip_prefix("<!doctype html>\n").ok_or("no doctype")?;
    while let Some(at) = rest.find('<') {
        texts.push(rest[..at].to_owned());
        let end = rest[at..].find('>').ok_or("a tag without end")? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            match open.pop() {
                Some(last) if last == name => {}
                last => return Err(format!("</{name}> closes {last:?}")),
            }
            continue;
        }
        let name: String = tag
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric())
            .collect();
        if name.is_empty()
            || name == "script"
            || name == "iframe"
            || name == "img"
            || name == "link"
        {
            return Err(format!("tag <{tag}>"));
        }
        attributes(tag)?;
        // Raw text up to its end, in which braces have no meaning.
        if name == "style" {
            let end = rest.find("</style>").ok_or("style without end")?;
            if rest[..end].contains("http") || rest[..end].contains("@import") {
                return Err("the style refers to something outside".into());
            }
            rest = &rest[end..];
        }
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    if open.is_empty() {
        Ok(texts)
    } else {
        Err(format!("left open: {open:?}"))
    }
}

/// No handlers, no outside links, and numbers in numeric attributes.
fn attributes(tag: &str) -> Result<(), String> {
    for (i, part) in tag.split('"').enumerate() {
        let inside = i % 2 == 1;
        let text = ["title=", "aria-label=", "class="].iter().any(|n| {
            tag.split('"')
                .nth(i - usize::from(inside))
                .is_some_and(|b| b.ends_with(n))
        });
        if inside && !text && (part.contains("NaN") || part.contains("inf")) {
            return Err(format!("no number: <{tag}>"));
        }
        if !inside {
            let name = part
                .trim()
                .trim_end_matches('=')
                .rsplit(' ')
                .next()
                .unwrap_or_default();
            if name.starts_with("on") || name == "src" {
                return Err(format!("attribute {name} in <{tag}>"));
            }
        }
    }
    match tag.split("href=\"").nth(1) {
        Some(target) if !target.starts_with('#') => Err(format!("a link to outside: <{tag}>")),
        _ => Ok(()),
    }
}
