//! The machine's attestation: whatever JSON it is, as a table of names and values.

use serde_json::Value;

use crate::text::escape;

/// Values longer than this fold.
const LONG: usize = 140;

/// Advice first, then everything else.
pub fn html(attestation: &Value) -> String {
    let mut rows = Vec::new();
    let mut advice = Vec::new();
    match attestation {
        Value::Null => return String::new(),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Array(lines) if key == "advice" => {
                        advice.extend(lines.iter().map(scalar).filter(|l| !l.is_empty()));
                    }
                    value => flatten(&mut rows, key, value, 0),
                }
            }
        }
        other => rows.push(("value".to_owned(), scalar(other))),
    }
    let mut out = String::new();
    if !advice.is_empty() {
        out.push_str("<ul class=\"advice\">");
        for line in advice {
            out.push_str(&format!("<li>{}</li>", escape(&line)));
        }
        out.push_str("</ul>");
    }
    if rows.is_empty() {
        return out;
    }
    out.push_str("<div class=\"scroll\"><table class=\"text facts\"><tbody>");
    for (name, value) in rows {
        let shown = if value.chars().count() > LONG {
            let start: String = value.chars().take(LONG / 2).collect();
            format!(
                "<details><summary>{}…</summary>{}</details>",
                escape(&start),
                escape(&value)
            )
        } else {
            escape(&value)
        };
        out.push_str(&format!(
            "<tr><th scope=\"row\">{}</th><td>{shown}</td></tr>",
            escape(&name.replace('_', " "))
        ));
    }
    out.push_str("</tbody></table></div>");
    out
}

fn flatten(rows: &mut Vec<(String, String)>, name: &str, value: &Value, depth: usize) {
    match value {
        // Deeper than any attestation is; the text of JSON does for the rest.
        Value::Object(map) if depth < 4 => {
            for (key, value) in map {
                flatten(rows, &format!("{name} · {key}"), value, depth + 1);
            }
        }
        Value::Null => {}
        other => rows.push((name.to_owned(), scalar(other))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Array(items) if items.iter().all(|i| !i.is_array() && !i.is_object()) => {
            items.iter().map(scalar).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_facts_and_advice() {
        let page = html(&json!({
            "cpu": {"model": "EPYC", "cores": [0, 1]},
            "boost": true,
            "governor": null,
            "advice": ["pin <it>"],
        }));
        for part in [
            "<li>pin &lt;it&gt;</li>",
            "<th scope=\"row\">cpu · model</th><td>EPYC</td>",
            "<th scope=\"row\">cpu · cores</th><td>0, 1</td>",
            "<th scope=\"row\">boost</th><td>yes</td>",
        ] {
            assert!(page.contains(part), "`{part}` is missing in {page}");
        }
        assert!(!page.contains("governor"));
        assert_eq!(html(&Value::Null), "");
    }

    #[test]
    fn long_values_fold() {
        let page = html(&json!({"flags": "avx ".repeat(100)}));
        assert!(page.contains("<details><summary>avx"));
    }
}
