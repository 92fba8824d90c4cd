//! The templates of the pages. They are part of the program; texts in them are escaped by their file type.

use minijinja::{Environment, Error, Output, State, UndefinedBehavior, Value, escape_formatter};
use serde::Serialize;

const FILES: [(&str, &str); 15] = [
    ("base.html", include_str!("templates/base.html")),
    ("rows.html", include_str!("templates/rows.html")),
    ("choice.html", include_str!("templates/choice.html")),
    ("refusal.html", include_str!("templates/refusal.html")),
    ("list.html", include_str!("templates/list.html")),
    ("compare.html", include_str!("templates/compare.html")),
    ("run.html", include_str!("templates/run.html")),
    ("programs.html", include_str!("templates/programs.html")),
    ("program.html", include_str!("templates/program.html")),
    ("sheets.html", include_str!("templates/sheets.html")),
    ("tree.html", include_str!("templates/tree.html")),
    ("steps.html", include_str!("templates/steps.html")),
    ("step.html", include_str!("templates/step.html")),
    (
        "certificates.html",
        include_str!("templates/certificates.html"),
    ),
    (
        "certificate.html",
        include_str!("templates/certificate.html"),
    ),
];

/// The style sheet beside that of reports.
pub const STYLE: &str = include_str!("templates/ui.css");

/// The icon of the pages. Without one, a browser asks for another, which the policy of the pages refuses with a message.
pub const ICON: &str = include_str!("templates/icon.svg");

/// The script that shows new outcomes. Every page works without it.
pub const SCRIPT: &str = include_str!("templates/ui.js");

/// The templates.
pub struct Templates(Environment<'static>);

impl Templates {
    /// Compiles the templates.
    pub fn new() -> Self {
        let mut environment = Environment::new();
        // A misspelt name is an error that a test sees, instead of an empty place.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_formatter(write);
        for (name, text) in FILES {
            let added = environment.add_template(name, text);
            added.expect("templates are part of the program, and tests compile them");
        }
        Self(environment)
    }

    /// A page.
    ///
    /// # Errors
    /// The template does not fit the context.
    pub fn render(&self, name: &str, context: &impl Serialize) -> Result<String, Error> {
        self.0.get_template(name)?.render(context)
    }
}

/// Writes a value of a page, escaped. HTML allows no control characters; they become U+FFFD.
fn write(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let forbidden = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match value.as_str() {
        Some(text) if !value.is_safe() && text.contains(forbidden) => {
            let text = text.replace(forbidden, "\u{fffd}");
            escape_formatter(out, state, &Value::from(text))
        }
        _ => escape_formatter(out, state, value),
    }
}
