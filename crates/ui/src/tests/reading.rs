//! Pages as readers meet them: their links lead somewhere, and their colours can be read. `scripts/ui_test.py` looks at the same pages in
//! a browser.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::templates::STYLE;

/// The addresses that the links of a page lead to, without their fragments.
fn links(page: &str) -> impl Iterator<Item = String> {
    let parts = page.split("<a ").skip(1);
    let hrefs = parts.filter_map(|part| part.split_once("href=\"")?.1.split('"').next());
    hrefs.map(|href| {
        let href = href.replace("&#x2f;", "/").replace("&amp;", "&");
        href.split('#').next().unwrap_or_default().to_owned()
    })
}

#[test]
fn every_link_leads_to_a_page() {
    let place = runs();
    std::fs::remove_file(place.path().join("other/outcomes.jsonl")).unwrap();
    let window = Window::open(place.path(), None);
    let mut seen = BTreeSet::new();
    for path in PAGES.into_iter().chain(["/runs/other"]) {
        for link in links(&window.page(path)).filter(|link| !link.is_empty()) {
            if seen.insert(link.clone()) {
                let status = window.get(&link).status;
                assert!(status == 200 || status == 303, "{path}: {link}: {status}");
            }
        }
    }
    for link in [
        "/runs/r/programs?sort=speed",
        "/runs/r/steps/2",
        "/runs/r/candidates/r-s1-g0-c1",
        "/runs/other",
    ] {
        assert!(seen.contains(link), "{link}: {seen:?}");
    }
}

#[test]
fn pages_lead_only_to_programs_and_steps_that_are_there() {
    let place = runs();
    std::fs::remove_file(place.path().join("other/outcomes.jsonl")).unwrap();
    let window = Window::open(place.path(), None);
    for (path, before, after) in [
        ("/runs/r/programs/0", false, true),
        ("/runs/r/programs/3", true, true),
        ("/runs/r/programs/4", true, false),
        ("/runs/r/steps/1", false, true),
        ("/runs/r/steps/2", true, false),
    ] {
        let page = window.page(path);
        let has = |words: &str| {
            page.contains(&format!(">Program {words}</a>"))
                || page.contains(&format!(">Step {words}</a>"))
        };
        assert_eq!((has("before"), has("after")), (before, after), "{path}");
    }
    // A run that has no outcomes yet has no pages of programs.
    let leads = |run: &str, page: &str| {
        let link = format!("/runs/{run}/{page}");
        links(&window.page(&format!("/runs/{run}"))).any(|found| found == link)
    };
    assert!(leads("r", "programs") && leads("r", "tree") && leads("r", "steps"));
    assert!(!leads("other", "programs") && !leads("other", "tree") && leads("other", "steps"));
}

#[test]
fn pages_have_an_icon_that_their_policy_permits() {
    let place = runs();
    let window = Window::open(place.path(), None);
    let page = window.get("/runs/r");
    assert!(page.body.contains("<link rel=\"icon\" href=\"/icon.svg\""));
    assert!(page.head.contains("img-src 'self'"), "{}", page.head);
    let icon = window.get("/icon.svg");
    assert_eq!(icon.status, 200);
    assert!(icon.head.contains("content-type: image/svg+xml"));
    assert!(icon.body.starts_with("<svg ") && !icon.body.contains("style"));
}

/// The colours of a block of variables, as red, green and blue from 0 to 255.
fn colours(block: &str) -> BTreeMap<&str, [f64; 3]> {
    let mut found = BTreeMap::new();
    for part in block.split([';', '{', '}']) {
        let Some((name, digits)) = part.trim().split_once(":#") else {
            continue;
        };
        let wide: String = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            _ => digits.to_owned(),
        };
        let at = |place: usize| {
            let digits = &wide[2 * place..2 * place + 2];
            f64::from(u8::from_str_radix(digits, 16).unwrap())
        };
        found.insert(name.trim_start_matches("--"), [at(0), at(1), at(2)]);
    }
    found
}

/// The contrast ratio of two colours, from 1 to 21, by the Web Content Accessibility Guidelines 2.2.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let luminance = |colour: [f64; 3]| {
        let linear = colour.map(|part| match part / 255.0 {
            low if low <= 0.04045 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn texts_can_be_read_in_light_and_dark() {
    assert!((contrast([0.0; 3], [255.0; 3]) - 21.0).abs() < 1e-9);
    let style = flopsmith_report::STYLE;
    let (light, rest) = style
        .split_once("@media (prefers-color-scheme:dark){")
        .unwrap();
    let (dark, _) = rest.split_once("}}").unwrap();
    let mut pairs: Vec<(String, String)> = Vec::new();
    for ground in ["bg", "card", "b1", "code"] {
        pairs.extend(["ink", "soft", "s1"].map(|text| (text.to_owned(), ground.to_owned())));
    }
    for text in ["kc", "kp", "kt", "kn", "kk", "ky", "kf"] {
        pairs.push((text.to_owned(), "code".to_owned()));
    }
    for shade in 0..flopsmith_report::heat::SHADES {
        pairs.push((format!("v{shade}"), format!("h{shade}")));
    }
    for (theme, block) in [("light", light), ("dark", dark)] {
        let colours = colours(block);
        for (text, ground) in &pairs {
            let ratio = contrast(colours[text.as_str()], colours[ground.as_str()]);
            assert!(ratio >= 4.5, "{theme}: {text} on {ground}: {ratio:.2}");
        }
    }
}

#[test]
fn the_style_sheet_keeps_texts_readable() {
    // The text on a faint program would have half of its contrast.
    assert!(
        !STYLE.contains(".between{opacity") && !flopsmith_report::STYLE.contains("opacity:.75")
    );
    // A text in `pre` and `code` would be 0.86 of 0.86 of a letter.
    assert!(flopsmith_report::STYLE.contains("pre code{font-size:1em}"));
    // The width of a page must not scale the text of charts.
    assert!(STYLE.contains(".plot text{font-size:12px}"));
}
