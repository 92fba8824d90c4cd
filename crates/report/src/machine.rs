//! The machine's attestation, arbitrary JSON, as a table of names and values.

use serde_json::Value;

use crate::text::{bytes, escape, number};

/// Values longer than this are shown folded.
const LONG: usize = 140;
/// The prefix of the names of caches; their values are bytes.
const CACHES: &str = "caches · ";
/// The name of the lists of measurements, which have their own chart and table (`roofline`).
const ROOFS: &str = "roofs";

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
                    _ if key == ROOFS => {}
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
        // No attestation is nested more deeply; a deeper value is printed as JSON.
        Value::Object(map) if depth < 4 => {
            for (key, value) in map {
                flatten(rows, &format!("{name} · {key}"), value, depth + 1);
            }
        }
        Value::Null => {}
        other => {
            let (name, shown) = fact(name, other);
            rows.push((name, shown));
        }
    }
}

/// A fact with its name. A number of bytes is shown in a larger unit, and its name loses the suffix `_bytes`.
fn fact(name: &str, value: &Value) -> (String, String) {
    let counted = name.strip_suffix("_bytes");
    let cache = name.starts_with(CACHES);
    match value.as_u64() {
        Some(count) if counted.is_some() || cache => {
            (counted.unwrap_or(name).to_owned(), bytes(count))
        }
        _ => (name.to_owned(), scalar(value)),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        // A measured value is stored with more digits than its accuracy supports.
        Value::Number(measured) if measured.is_f64() => {
            measured.as_f64().map_or_else(String::new, number)
        }
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
            "roofs": {"compute": [{"gflops": 4711}]},
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
        assert!(!page.contains("governor") && !page.contains("4711"));
        assert_eq!(html(&Value::Null), "");
    }

    #[test]
    fn bytes_and_measured_values_are_shown_for_people() {
        let page = html(&json!({
            "memory_bytes": 16_777_216_000u64,
            "swap_bytes": 0,
            "caches": {"L1": 49152, "L2": 2097152},
            "peak": {"gflops": 79.81234567, "threads": 1},
        }));
        for part in [
            "<th scope=\"row\">memory</th><td>15.6 GiB</td>",
            "<th scope=\"row\">swap</th><td>0 B</td>",
            "<th scope=\"row\">caches · L1</th><td>48 KiB</td>",
            "<th scope=\"row\">caches · L2</th><td>2 MiB</td>",
            "<th scope=\"row\">peak · gflops</th><td>79.8</td>",
            "<th scope=\"row\">peak · threads</th><td>1</td>",
        ] {
            assert!(page.contains(part), "`{part}` is missing in {page}");
        }
    }

    #[test]
    fn long_values_fold() {
        let page = html(&json!({"flags": "avx ".repeat(100)}));
        assert!(page.contains("<details><summary>avx"));
    }
}
