//! Finds the entry of a program, and puts another function in its place.

use flopsmith_problem::{ArgKind, Language, Problem};

use super::names::Kept;
use super::tokens::pieces;

/// The function that a program must define, in the language that the program is written in.
pub struct Entry<'p> {
    pub problem: &'p Problem,
    pub language: Language,
}

impl<'p> Entry<'p> {
    pub(super) fn kept(&self) -> Kept<'p> {
        Kept {
            entry: &self.problem.entry.name,
            language: self.language,
        }
    }

    /// Its declaration without the `;`.
    fn declared(&self) -> &'p str {
        self.problem
            .entry
            .prototype
            .trim_end()
            .trim_end_matches(';')
    }

    /// Its parameters in their brackets, as C declares them.
    pub(super) fn parameters(&self) -> &'p str {
        let declared = self.declared();
        &declared[declared.find('(').unwrap()..]
    }

    /// The arguments of a call with its own parameters.
    pub(super) fn arguments(&self) -> String {
        let names = self.problem.entry.args.iter().map(|arg| arg.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// The parameters that are sizes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = &'p str> {
        let args = self.problem.entry.args.iter();
        args.filter(|arg| matches!(arg.kind, ArgKind::Int { .. }))
            .map(|arg| arg.name.as_str())
    }

    /// The start of the definition and of its body. None if the declaration differs from the problem's in more than
    /// blanks, or exists twice.
    fn place(&self, source: &str) -> Option<(usize, usize)> {
        let declared: Vec<&str> = pieces(self.declared())
            .into_iter()
            .map(|(_, piece)| piece)
            .chain(std::iter::once("{"))
            .filter(|piece| !piece.trim().is_empty())
            .collect();
        let solid = solid(source);
        let mut found = solid.windows(declared.len()).enumerate().filter(|(_, w)| {
            let words = w.iter().map(|(_, piece)| *piece);
            words.eq(declared.iter().copied())
        });
        let (first, (brace, _)) = found.next().map(|(at, w)| (at, w[w.len() - 1]))?;
        if found.next().is_some() {
            return None;
        }
        let linkage = self.language == Language::Cxx
            && first > 1
            && solid[first - 2].1 == "extern"
            && solid[first - 1].1 == "\"C\"";
        let start = if linkage { first - 2 } else { first };
        Some((solid[start].0, brace + 1))
    }

    /// The source with the entry turned into a static function `name`.
    pub(super) fn replaced(&self, source: &str, name: &str) -> Option<String> {
        let (start, body) = self.place(source)?;
        let parameters = self.parameters();
        Some(format!(
            "{}__attribute__((noinline)) static void {name}{parameters} {{{}",
            &source[..start],
            &source[body..]
        ))
    }

    /// The same with a new entry with the body `body`, after the code `before`.
    pub(super) fn wrapped(
        &self,
        source: &str,
        name: &str,
        before: &str,
        body: &str,
    ) -> Option<String> {
        let inner = self.replaced(source, name)?;
        Some(format!("{inner}\n{before}\n{}", self.defined(body)))
    }

    /// The source with the entry's code moved to a function `name` in an unnamed namespace, which the entry calls.
    pub(super) fn in_namespace(&self, source: &str, name: &str) -> Option<String> {
        let (start, body) = self.place(source)?;
        let end = closing(source, body)?;
        let parameters = self.parameters();
        let call = self.defined(&format!("{name}({});", self.arguments()));
        Some(format!(
            "{}namespace {{\n__attribute__((noinline)) void {name}{parameters} {{{}\n}}\n{}\n{call}",
            &source[..start],
            &source[body..end],
            &source[end..]
        ))
    }

    fn defined(&self, body: &str) -> String {
        let linkage = match self.language {
            Language::Cxx => "extern \"C\" ",
            _ => "",
        };
        format!("{linkage}{} {{ {body} }}\n", self.declared())
    }
}

/// Everything except blanks, each piece with its place.
pub(super) fn solid(source: &str) -> Vec<(usize, &str)> {
    let mut next = 0;
    let placed = pieces(source).into_iter().map(|(_, piece)| {
        let at = next;
        next += piece.len();
        (at, piece)
    });
    placed
        .filter(|(_, piece)| !piece.trim().is_empty())
        .collect()
}

/// The place after the bracket that closes the body at `body`.
pub(super) fn closing(source: &str, body: usize) -> Option<usize> {
    let mut depth = 1;
    for (at, piece) in solid(&source[body..]) {
        match piece {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(body + at + piece.len());
        }
    }
    None
}
