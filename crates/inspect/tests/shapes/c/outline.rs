//! Helper functions: a part of a program becomes a function, a template or a lambda.

use std::collections::BTreeSet;

use super::super::ast::{E, Kernel, S, Ty, n, v};
use super::{Printer, Split, element};

impl Printer<'_> {
    pub(super) fn functions(&mut self, kernel: &Kernel) {
        // The arrays that the body declares have to be known before a helper is written.
        let body: Vec<S> = kernel.body.clone();
        self.learn(&body);
        let outlined = match self.style.split {
            Split::Whole => None,
            _ => outline(&body, self.style.split == Split::Nest),
        };
        let prototype = self
            .problem
            .entry
            .prototype
            .trim_end_matches(';')
            .to_owned();
        let mut body = body;
        if let Some(mut outlined) = outlined {
            // A directive before a loop goes with the loop.
            let before = outlined.at.checked_sub(1);
            if let Some(before) = before.filter(|_| outlined.variable.is_none())
                && matches!(body[before], S::Pragma(_))
            {
                outlined.body.insert(0, body.remove(before));
                outlined.at = before;
            }
            let parameters = self.parameters(&outlined);
            let arguments: Vec<String> = parameters.iter().map(|(name, _)| name.clone()).collect();
            let call = match self.style.split {
                Split::Lambda => match &outlined.variable {
                    Some(variable) => format!("part({variable})"),
                    None => "part()".to_owned(),
                },
                Split::Template => {
                    let sizes = self.constants.keys().map(|c| format!(", {c}"));
                    let sizes: String = sizes.collect();
                    let kind = element(self.problem);
                    format!("part<{kind}{sizes}>({})", arguments.join(", "))
                }
                _ => format!("part({})", arguments.join(", ")),
            };
            if self.style.split != Split::Lambda {
                let list: Vec<String> = parameters.into_iter().map(|(_, text)| text).collect();
                if self.style.split == Split::Template {
                    let sizes = self.constants.keys().map(|c| format!(", int {c}"));
                    let sizes: String = sizes.collect();
                    self.line(&format!("template <typename T{sizes}>"));
                }
                self.line(&format!("static inline void part({})", list.join(", ")));
                self.block(&outlined.body);
            }
            body[outlined.at] = match (&body[outlined.at], &outlined.variable) {
                (S::For(name, from, to, step, _), Some(_)) => S::For(
                    name.clone(),
                    from.clone(),
                    to.clone(),
                    step.clone(),
                    vec![S::Set(v(call), "", n(0))],
                ),
                _ => S::Set(v(call), "", n(0)),
            };
            if self.style.cxx {
                self.line("extern \"C\"");
            }
            self.line(&prototype);
            self.line("{");
            self.depth += 1;
            let all: Vec<S> = body.iter().chain(&outlined.body).cloned().collect();
            self.prelude(if self.style.split == Split::Lambda {
                &all
            } else {
                &body
            });
            if self.style.split == Split::Lambda {
                let (before, after) = body.split_at(outlined.at);
                before.iter().for_each(|s| self.statement(s));
                let parameter = outlined
                    .variable
                    .as_ref()
                    .map_or(String::new(), |name| format!("int {name}"));
                self.line(&format!("auto part = [&]({parameter}) {{"));
                self.depth += 1;
                outlined.body.iter().for_each(|s| self.statement(s));
                self.depth -= 1;
                self.line("};");
                after.iter().for_each(|s| self.statement(s));
            } else {
                body.iter().for_each(|s| self.statement(s));
            }
            self.depth -= 1;
            self.line("}");
            return;
        }
        if self.style.cxx {
            self.line("extern \"C\"");
        }
        self.line(&prototype);
        self.block(&body);
    }

    /// Names and declarations of the parameters of a helper.
    fn parameters(&self, outlined: &Outlined) -> Vec<(String, String)> {
        let mut used = BTreeSet::new();
        for s in &outlined.body {
            s.expressions(&mut |e| match e {
                E::V(name) | E::At(name, _) => {
                    used.insert(name.clone());
                }
                _ => {}
            });
        }
        let mut found = Vec::new();
        let prototype = self.problem.entry.prototype.as_str();
        let list = prototype
            .split_once('(')
            .and_then(|(_, rest)| rest.rsplit_once(')'))
            .map_or("", |(list, _)| list);
        for (text, arg) in list.split(',').zip(&self.problem.entry.args) {
            found.push((arg.name.clone(), text.trim().to_owned()));
        }
        for (name, ty) in &outlined.outer {
            if !used.contains(name) {
                continue;
            }
            let text = match (self.arrays.get(name), ty) {
                (Some(array), _) if array.flat => format!("{} *{name}", array.kind),
                (Some(array), _) => {
                    let extents: String =
                        array.dims[1..].iter().map(|d| format!("[{d}]")).collect();
                    format!("{} {name}[]{extents}", array.kind)
                }
                (None, ty) => format!("{} {name}", self.kind(*ty)),
            };
            found.push((name.clone(), text));
        }
        if let Some(variable) = &outlined.variable {
            found.push((variable.clone(), format!("int {variable}")));
        }
        found
    }
}

/// A part of a program that becomes a function.
pub(super) struct Outlined {
    /// The index of the loop in the program.
    pub at: usize,
    /// The loop's variable, if the function is the loop's body.
    pub variable: Option<String>,
    pub body: Vec<S>,
    /// Variables and arrays that are declared before the loop.
    pub outer: Vec<(String, Ty)>,
}

pub(super) fn outline(body: &[S], whole: bool) -> Option<Outlined> {
    let mut outer = Vec::new();
    for (at, s) in body.iter().enumerate() {
        match s {
            S::Let(ty, name, _) | S::Array(ty, name, ..) => outer.push((name.clone(), *ty)),
            S::For(name, from, to, step, inner) if inner.iter().any(S::has_loop) => {
                let (mut declared, mut changed) = (BTreeSet::new(), BTreeSet::new());
                inner
                    .iter()
                    .for_each(|s| s.names(&mut declared, &mut changed));
                if changed.iter().any(|name| !declared.contains(name)) {
                    continue;
                }
                let (variable, body) = if whole {
                    let all = S::For(
                        name.clone(),
                        from.clone(),
                        to.clone(),
                        step.clone(),
                        inner.clone(),
                    );
                    (None, vec![all])
                } else {
                    (Some(name.clone()), inner.clone())
                };
                return Some(Outlined {
                    at,
                    variable,
                    body,
                    outer,
                });
            }
            _ => {}
        }
    }
    None
}
