//! Declarations of local numbers, pointers and scratch arrays.

use super::*;

impl<'a> Walk<'a> {
    pub(super) fn declaration(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
        let kind = node
            .child_by_field_name("type")
            .map_or("", |t| self.text(t));
        let mut cursor = node.walk();
        let declarators: Vec<Node<'_>> = node
            .children_by_field_name("declarator", &mut cursor)
            .collect();
        for declarator in declarators {
            let value = declarator.child_by_field_name("value");
            let name = match declarator.kind() {
                "init_declarator" => declarator.child_by_field_name("declarator"),
                _ => Some(declarator),
            };
            let Some((name, stars, extents)) = name.and_then(|n| declared(n, self.source)) else {
                return self.at(declarator, "this declaration is not supported");
            };
            self.local(kind, name, stars, &extents, value, declarator, place)?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one declaration")]
    pub(super) fn local(
        &mut self,
        kind: &str,
        name: String,
        stars: usize,
        extents: &[Node<'_>],
        value: Option<Node<'_>>,
        node: Node<'_>,
        place: &Place,
    ) -> Result<(), Error> {
        let numbers = numbers(kind);
        if stars == 1 {
            let Some(value) = value.map(bare) else {
                return self.at(
                    node,
                    format!("pointer `{name}` needs a value where it is declared"),
                );
            };
            if let Some((array, offset)) = self.pointer(value) {
                self.define(name, Meaning::Pointer(array, offset));
                return Ok(());
            }
            let allocates = self.text(value).contains("alloc");
            let Some(numbers) = numbers.filter(|_| allocates && place.iterators.is_empty()) else {
                return self.at(value, format!("pointer `{name}` points to no array"));
            };
            let array = self.scratch(&name, numbers, Vec::new());
            self.define(name, Meaning::Pointer(array, Poly::default()));
            return Ok(());
        }
        let Some(numbers) = numbers.filter(|_| stars == 0) else {
            return self.at(node, format!("the type of `{name}` is not supported"));
        };
        if !extents.is_empty() {
            if !place.iterators.is_empty() {
                return self.at(node, format!("array `{name}` is declared within a loop"));
            }
            let extents: Option<Vec<Poly>> = extents.iter().map(|e| self.integer(*e)).collect();
            let Some(extents) = extents else {
                return self.at(node, format!("the extents of `{name}` are not affine"));
            };
            let array = self.scratch(&name, numbers, extents);
            self.define(name, Meaning::Pointer(array, Poly::default()));
            return Ok(());
        }
        // An integer that follows from parameters and iterators is no data.
        if let Some(value) = value
            && !numbers.1
            && let Some(poly) = self.integer(value)
        {
            self.define(name, Meaning::Integer(poly));
            return Ok(());
        }
        let array = self.scratch(&name, numbers, Vec::new());
        self.define(name, Meaning::Local(array, place.iterators.clone()));
        if let Some(value) = value {
            let target = Access {
                array,
                subscripts: place.iterators.iter().map(|v| Affine::var(*v)).collect(),
            };
            self.assigned(place, target, None, value)?;
        }
        Ok(())
    }

    pub(super) fn scratch(
        &mut self,
        name: &str,
        numbers: (&'static str, bool, u32),
        extents: Vec<Poly>,
    ) -> usize {
        let known: Vec<Option<Poly>> = extents.iter().cloned().map(Some).collect();
        self.program.arrays.push(Array {
            name: name.to_owned(),
            c_type: numbers.0,
            floats: numbers.1,
            bytes: numbers.2,
            strides: arrays::strides(&known),
            extents: extents.iter().map(Poly::as_affine).collect(),
            origin: Origin::Scratch,
        });
        self.program.arrays.len() - 1
    }
}

/// A type of numbers: its name in C, whether it has a fraction, and its bytes.
pub(super) fn numbers(kind: &str) -> Option<(&'static str, bool, u32)> {
    let words: Vec<&str> = kind.split_whitespace().filter(|w| *w != "const").collect();
    Some(match words.as_slice() {
        ["double"] => ("double", true, 8),
        ["float"] => ("float", true, 4),
        ["int" | "int32_t"] => ("int", false, 4),
        ["long" | "int64_t" | "ptrdiff_t" | "size_t"] => ("long", false, 8),
        _ => return None,
    })
}
