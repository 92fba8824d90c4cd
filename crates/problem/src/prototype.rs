//! Compares the entry's prototype in C with the arguments of the definition.
//!
//! The harness calls the entry by the arguments, and every program is compiled with the prototype. If the two differ, the
//! programs read other registers than the harness has filled, and no compiler says so.

use crate::arguments::RawEntry;
use crate::mistakes::Check;
use crate::{Arg, ArgKind, Element};

/// Reports a prototype that does not declare the arguments.
pub(crate) fn check(check: &mut Check<'_>, entry: &RawEntry, args: &[Arg]) {
    let (name, prototype) = (entry.name.get_ref(), entry.prototype.get_ref());
    let Some(list) = parameters(prototype, name) else {
        check.wrong(
            &entry.prototype,
            format!("`prototype` must declare `{name}(…)` and end with `;`"),
        );
        return;
    };
    if list.len() != args.len() {
        check.wrong(
            &entry.prototype,
            format!(
                "`prototype` declares {} parameters, and `args` lists {}",
                list.len(),
                args.len()
            ),
        );
        return;
    }
    for (parameter, arg) in list.iter().zip(args) {
        if let Some(what) = difference(parameter, arg) {
            check.wrong(
                &entry.prototype,
                format!("`{}` of `prototype` {what}", parameter.trim()),
            );
        }
    }
}

/// The texts of the parameters; none where the prototype has no list of them.
fn parameters<'a>(prototype: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let prototype = prototype.trim_end().strip_suffix(';')?.trim_end();
    let from = prototype.find(&format!("{name}("))? + name.len() + 1;
    let list = prototype[from..].strip_suffix(')')?;
    let (mut all, mut begin, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                all.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    all.push(&list[begin..]);
    let nothing = matches!(all.as_slice(), [one] if matches!(one.trim(), "" | "void"));
    Some(if nothing { Vec::new() } else { all })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// The difference of a parameter and its argument, in words that follow the parameter.
fn difference(parameter: &str, arg: &Arg) -> Option<String> {
    let has = |word: &str| words(parameter).any(|w| w == word);
    if !has(&arg.name) {
        return Some(format!("is called `{}` in `args`", arg.name));
    }
    let address = parameter.find(['*', '[']);
    let (element, written) = match (&arg.kind, address) {
        (ArgKind::Int { .. } | ArgKind::Scalar { .. }, Some(_)) => {
            return Some("is an address, and `args` says that a value is passed".into());
        }
        (ArgKind::Array { .. }, None) => {
            return Some("is a value, and `args` says that it is an array".into());
        }
        (ArgKind::Int { .. }, None) => {
            let float = has("double") || has("float");
            return float.then(|| "is no integer, and `args` says `int`".into());
        }
        (ArgKind::Scalar { element, .. }, None) => (*element, false),
        (ArgKind::Array { element, role, .. }, Some(_)) => (*element, role.is_written()),
    };
    let before = &parameter[..address.unwrap_or(parameter.len())];
    if written && words(before).any(|w| w == "const") {
        return Some("is `const`, and its role says that it is written".into());
    }
    (!is_of(element, &has)).then(|| {
        format!(
            "has another type than its argument: declare it with `{}`",
            element.c_type()
        )
    })
}

/// Do the words of a parameter name the type of an element?
fn is_of(element: Element, has: &impl Fn(&str) -> bool) -> bool {
    let complex = has("_Complex") || has("__complex__");
    let short = has("short") || has("char");
    if complex != element.is_complex() {
        return false;
    }
    match element {
        Element::F64 | Element::C128 => has("double") && !has("long"),
        Element::F32 | Element::C64 => has("float"),
        Element::I32 => {
            let plain = has("int") || has("signed") || has("unsigned");
            has("int32_t") || has("uint32_t") || (plain && !short && !has("long"))
        }
        Element::I64 => has("int64_t") || has("uint64_t") || (has("long") && !has("double")),
        Element::U8 => has("uint8_t") || (has("unsigned") && has("char")),
        Element::F16 => has("_Float16"),
        Element::Bf16 => has("uint16_t") || (has("unsigned") && has("short")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Content, Role};

    fn array(element: Element, role: Role) -> ArgKind {
        ArgKind::Array {
            element,
            role,
            shape: Vec::new(),
            align: 64,
            content: Content::Uniform,
            graded: 0,
        }
    }

    fn told(parameter: &str, kind: ArgKind) -> Option<String> {
        let name = "x".to_owned();
        difference(parameter, &Arg { name, kind })
    }

    #[test]
    fn parameters_are_taken_apart() {
        let of = |text| parameters(text, "f");
        assert_eq!(
            of("void f(int n, double (*x)[4], double y[n][2 * (n + 1)]);"),
            Some(vec![
                "int n",
                " double (*x)[4]",
                " double y[n][2 * (n + 1)]"
            ])
        );
        assert_eq!(of("void f(void);"), Some(vec![]));
        for wrong in ["void g(int n);", "void f(int n)", "void f;", "f(", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_element_has_a_type_that_is_its_own() {
        for element in Element::ALL {
            for other in Element::ALL {
                let parameter = format!("const {} *restrict x", other.c_type());
                let found = told(&parameter, array(element, Role::Input));
                assert_eq!(
                    found.is_none(),
                    element == other,
                    "{element:?}: {parameter}"
                );
            }
        }
        for (parameter, element) in [
            ("const int *x", Element::I32),
            ("long x[]", Element::I64),
            ("unsigned char x[n][n]", Element::U8),
            ("const unsigned short *x", Element::Bf16),
            ("_Complex double *x", Element::C128),
        ] {
            assert_eq!(
                told(parameter, array(element, Role::Input)),
                None,
                "{parameter}"
            );
        }
        let long = told("const long double *x", array(Element::F64, Role::Input));
        assert!(long.is_some_and(|words| words.contains("`double`")));
    }

    #[test]
    fn values_and_addresses_are_told_apart() {
        let formula = |text| crate::Formula::parse(text).expect("a formula");
        let scalar = |element| ArgKind::Scalar {
            element,
            low: formula("0"),
            high: formula("1"),
        };
        let int = || ArgKind::Int {
            value: formula("n"),
        };
        assert_eq!(told("double x", scalar(Element::F64)), None);
        assert_eq!(told("const float x", scalar(Element::F32)), None);
        assert_eq!(told("int x", int()), None);
        for (parameter, kind, part) in [
            ("float x", scalar(Element::F64), "another type"),
            ("const double *x", scalar(Element::F64), "an address"),
            ("int *x", int(), "an address"),
            ("double x", int(), "no integer"),
            ("double x", array(Element::F64, Role::Input), "a value"),
            (
                "double *y",
                array(Element::F64, Role::Input),
                "is called `x`",
            ),
            (
                "const double *x",
                array(Element::F64, Role::Output),
                "`const`",
            ),
            (
                "const double *x",
                array(Element::F64, Role::InOut),
                "`const`",
            ),
        ] {
            let found = told(parameter, kind);
            assert!(
                found.as_ref().is_some_and(|f| f.contains(part)),
                "{parameter}: {found:?}"
            );
        }
        // Here the address is constant, and the elements are not.
        let output = array(Element::F64, Role::Output);
        assert_eq!(told("double *const x", output), None);
    }
}
