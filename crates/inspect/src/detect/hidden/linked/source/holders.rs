//! Members of classes of C++ that may hold a function.

use std::collections::BTreeSet;

use super::Source;

/// Types of data that cannot be called, and the other words of their declarations.
const PLAIN_TYPES: [&str; 25] = [
    "int",
    "unsigned",
    "signed",
    "long",
    "short",
    "char",
    "double",
    "float",
    "bool",
    "_Bool",
    "_Float16",
    "size_t",
    "ptrdiff_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "std",
    "const",
    "constexpr",
    "static",
    "volatile",
    "__restrict",
    ":",
    "*",
];

impl<'t> Source<'_, 't> {
    /// Members that may hold a function, and virtual functions, of C++.
    pub(super) fn holders(&self) -> BTreeSet<&'t str> {
        let mut found = BTreeSet::new();
        for at in 0..self.all.len() {
            let until = |ends: &[&str]| {
                self.spend(0)?;
                let mut rest = at..self.all.len();
                let end = rest.find(|place| ends.contains(&self.text(*place)));
                self.spend(end.unwrap_or(self.all.len()) - at)?;
                end
            };
            match self.text(at) {
                // `(*name)(…)` and `(S::*name)(…)`
                "*" if self.text(at + 2) == ")" && self.text(at + 3) == "(" => {
                    found.extend(self.is_word(at + 1).then(|| self.text(at + 1)));
                }
                "virtual" => {
                    let open = until(&["(", ";", "{"]).filter(|end| self.text(*end) == "(");
                    found.extend(open.map(|open| self.text(open - 1)));
                }
                "struct" | "class" | "union" => {
                    let open = until(&["{", ";", "(", ")", "=", ">"]);
                    if let Some(open) = open.filter(|end| self.text(*end) == "{") {
                        self.members(open, &mut found);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Adds the data members of the class whose body begins with the brace at `open`, without those of plain types.
    fn members(&self, open: usize, found: &mut BTreeSet<&'t str>) {
        const NO_DATA: [&str; 7] = [
            "using", "typedef", "struct", "class", "union", "enum", "friend",
        ];
        let end = self.close(open);
        let (mut at, mut start) = (open + 1, open + 1);
        while at < end && self.spend(1).is_some() {
            match self.text(at) {
                "(" | "[" => at = self.close(at),
                "{" => {
                    at = self.close(at);
                    if !matches!(self.text(at + 1), ";" | ",") {
                        start = at + 1;
                    }
                }
                ";" | ":" => start = at + 1,
                name if self.is_word(at)
                    && matches!(self.text(at + 1), ";" | "," | "=" | "[" | "{") =>
                {
                    let mut words = self.all[start..at].iter();
                    let is_plain = words.all(|t| PLAIN_TYPES.contains(&t.text));
                    if !is_plain && !NO_DATA.contains(&self.text(start)) {
                        found.insert(name);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}
