//! Reads a file of parameters in Kernel Tuner's T1 format.

use std::collections::BTreeSet;

use flopsmith_problem::{Language, meant};
use serde_json::{Map, Value as Json};

use super::expression::{self, Expression, Value, equal};
use super::{Result, wrong};

/// A file of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// The parameters, in the order of the file.
    pub parameters: Vec<Parameter>,
    /// The conditions, each with its text.
    pub conditions: Vec<(String, Expression)>,
    /// The name of the kernel, if the file names it.
    pub kernel: Option<String>,
    /// Keys of the file that mean nothing here.
    pub ignored: Vec<String>,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name, which is that of its macro.
    pub name: String,
    /// Its values, at least one, no two of them equal.
    pub values: Vec<Value>,
    /// The place of its default among the values, if it has one.
    pub default: Option<usize>,
}

/// The types of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    Uint,
    Float,
    Bool,
    Text,
}

/// Words of Python that no condition could use as a name.
const PYTHON: [&str; 14] = [
    "as", "assert", "def", "del", "elif", "except", "from", "global", "in", "is", "lambda", "pass",
    "raise", "with",
];
/// Macros that every source has.
const PREDEFINED: [&str; 6] = ["defined", "linux", "unix", "i386", "None", "_Pragma"];
/// Longest text of a value, bytes.
const LONGEST_TEXT: usize = 1000;

/// Reads a file of parameters.
///
/// # Errors
/// The first contradiction, in a sentence.
pub fn read(text: &str) -> Result<File> {
    let json: Json = match serde_json::from_str(text) {
        Ok(json) => json,
        Err(error) => return wrong(format!("it is no JSON: {error}")),
    };
    let top = object(&json, "the file")?;
    let space = match top.get("ConfigurationSpace") {
        Some(space) => object(space, "`ConfigurationSpace`")?,
        None => return wrong("it has no `ConfigurationSpace`, which holds the parameters"),
    };
    let mut ignored = others(top, "", &["ConfigurationSpace", "KernelSpecification"]);
    ignored.extend(others(
        space,
        "ConfigurationSpace.",
        &["TuningParameters", "Conditions"],
    ));
    let listed = match space.get("TuningParameters") {
        Some(listed) => array(listed, "`ConfigurationSpace.TuningParameters`")?,
        None => return wrong("`ConfigurationSpace` has no `TuningParameters`"),
    };
    if listed.is_empty() {
        return wrong("`TuningParameters` is empty; name at least one parameter");
    }
    let mut parameters: Vec<Parameter> = Vec::new();
    for (number, entry) in (1..).zip(listed) {
        let place = format!("parameter {number} of `TuningParameters`");
        let parameter = parameter(object(entry, &place)?, &place, &mut ignored)?;
        if parameters.iter().any(|p| p.name == parameter.name) {
            return wrong(format!("the parameter `{}` is named twice", parameter.name));
        }
        parameters.push(parameter);
    }
    let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
    let mut conditions = Vec::new();
    if let Some(listed) = space.get("Conditions") {
        for (number, entry) in (1..).zip(array(listed, "`ConfigurationSpace.Conditions`")?) {
            let place = format!("condition {number} of `Conditions`");
            conditions.push(condition(object(entry, &place)?, &place, &names)?);
        }
    }
    let mut kernel = None;
    if let Some(specification) = top.get("KernelSpecification") {
        let specification = object(specification, "`KernelSpecification`")?;
        kernel = specification
            .get("KernelName")
            .map(|name| string(name, "`KernelSpecification.KernelName`"))
            .transpose()?
            .map(str::to_owned);
        // `KernelFile` has the same meaning as the program that the user names beside this file.
        let known = ["KernelName", "KernelFile"];
        ignored.extend(others(specification, "KernelSpecification.", &known));
    }
    let seen: BTreeSet<String> = ignored.into_iter().collect();
    Ok(File {
        parameters,
        conditions,
        kernel,
        ignored: seen.into_iter().collect(),
    })
}

fn object<'a>(json: &'a Json, place: &str) -> Result<&'a Map<String, Json>> {
    json.as_object()
        .map_or_else(|| wrong(format!("{place} is no object")), Ok)
}

fn array<'a>(json: &'a Json, place: &str) -> Result<&'a Vec<Json>> {
    json.as_array()
        .map_or_else(|| wrong(format!("{place} is no list")), Ok)
}

fn string<'a>(json: &'a Json, place: &str) -> Result<&'a str> {
    json.as_str()
        .map_or_else(|| wrong(format!("{place} is no text")), Ok)
}

/// The keys of an object that are none of `known`.
fn others(object: &Map<String, Json>, prefix: &str, known: &[&str]) -> Vec<String> {
    let keys = object.keys().filter(|key| !known.contains(&key.as_str()));
    keys.map(|key| format!("{prefix}{key}")).collect()
}

fn parameter(
    entry: &Map<String, Json>,
    place: &str,
    ignored: &mut Vec<String>,
) -> Result<Parameter> {
    let Some(name) = entry.get("Name") else {
        return wrong(format!("{place} has no `Name`"));
    };
    let name = string(name, &format!("the `Name` of {place}"))?;
    check_name(name)?;
    let place = format!("the parameter `{name}`");
    let known = ["Name", "Type", "Values", "Default"];
    ignored.extend(others(entry, "TuningParameters.", &known));
    let kind = match entry.get("Type").map(|kind| (kind, kind.as_str())) {
        Some((_, Some("int"))) => Type::Int,
        Some((_, Some("uint"))) => Type::Uint,
        Some((_, Some("float"))) => Type::Float,
        Some((_, Some("bool"))) => Type::Bool,
        Some((_, Some("string"))) => Type::Text,
        Some((other, _)) => {
            return wrong(format!(
                "{place} has the type {other}; a type is \"int\", \"uint\", \"float\", \"bool\" or \"string\""
            ));
        }
        None => return wrong(format!("{place} has no `Type`")),
    };
    let Some(listed) = entry.get("Values") else {
        return wrong(format!("{place} has no `Values`"));
    };
    let mut values: Vec<Value> = Vec::new();
    for value in listed_values(listed, &place)? {
        let value = typed(value, kind, &place)?;
        if values.iter().any(|known| equal(known, &value)) {
            return wrong(format!("{place} has the value {value} twice"));
        }
        values.push(value);
    }
    if values.is_empty() {
        return wrong(format!("{place} has no values; `Values` is an empty list"));
    }
    let default = match entry.get("Default") {
        None | Some(Json::Null) => None,
        Some(default) => {
            let Some(default) = scalar(default) else {
                return wrong(format!("the `Default` of {place} is no single value"));
            };
            let found = values.iter().position(|value| equal(value, &default));
            if found.is_none() {
                return wrong(format!(
                    "the default {default} of {place} is none of its values; add it to `Values`, or choose another default"
                ));
            }
            found
        }
    };
    Ok(Parameter {
        name: name.to_owned(),
        values,
        default,
    })
}

/// Refuses a name that cannot be a macro.
fn check_name(name: &str) -> Result<()> {
    let mut letters = name.chars();
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let word = letters.next().is_some_and(first) && letters.all(|c| first(c) || c.is_ascii_digit());
    if !word {
        return wrong(format!(
            "`{name}` cannot be the name of a parameter: a name is letters, digits and `_`, and begins with no digit"
        ));
    }
    let taken = Language::is_reserved(name)
        || name.starts_with("__")
        || PYTHON.contains(&name)
        || PREDEFINED.contains(&name)
        || ["True", "False"].contains(&name);
    if taken {
        return wrong(format!(
            "`{name}` cannot be the name of a parameter, because it has a meaning of its own in C, C++ or conditions; rename it"
        ));
    }
    Ok(())
}

/// The values that `Values` lists: a text in Python's syntax as Kernel Tuner writes it, or a list.
fn listed_values(listed: &Json, place: &str) -> Result<Vec<Value>> {
    let all = match listed {
        Json::Array(all) => all.iter().map(scalar).collect::<Option<Vec<_>>>(),
        Json::String(text) => {
            let value = Expression::parse(text, &[]).and_then(|e| e.value(&|_| Value::Bool(false)));
            match value {
                Ok(Value::List(all)) => Some(all),
                Ok(_) => None,
                Err(error) => {
                    return wrong(format!("the `Values` of {place} cannot be read: {error}"));
                }
            }
        }
        _ => None,
    };
    let flat = all.filter(|all| !all.iter().any(|v| matches!(v, Value::List(_))));
    flat.map_or_else(
        || {
            wrong(format!(
                "the `Values` of {place} are no list of single values; write for example \"[1, 2, 4]\""
            ))
        },
        Ok,
    )
}

fn scalar(json: &Json) -> Option<Value> {
    match json {
        Json::Bool(holds) => Some(Value::Bool(*holds)),
        Json::String(text) => Some(Value::Text(text.clone())),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Some(Value::Int(number)),
            None => number.as_f64().map(Value::Float),
        },
        _ => None,
    }
}

/// The value as one of its parameter's type.
fn typed(value: Value, kind: Type, place: &str) -> Result<Value> {
    match (kind, value) {
        (Type::Int, Value::Int(n)) => Ok(Value::Int(n)),
        (Type::Uint, Value::Int(n)) if n >= 0 => Ok(Value::Int(n)),
        (Type::Float, Value::Float(x)) => Ok(Value::Float(x)),
        (Type::Float, Value::Int(n)) => Ok(Value::Float(n as f64)),
        (Type::Bool, Value::Bool(holds)) => Ok(Value::Bool(holds)),
        (Type::Bool, Value::Int(n)) if n == 0 || n == 1 => Ok(Value::Bool(n == 1)),
        (Type::Text, Value::Text(text)) => {
            // The text stands behind `#define`, where these would end it or reach beyond it.
            let breaks = text.chars().any(|c| c.is_control() || c == '\\')
                || ["//", "/*", "??/", "#"]
                    .iter()
                    .any(|part| text.contains(part));
            if breaks || text.len() > LONGEST_TEXT {
                return wrong(format!(
                    "{place} has the value {text:?}, which cannot stand in a `#define`: leave out new lines, backslashes, `#` and comments"
                ));
            }
            Ok(Value::Text(text))
        }
        (kind, value) => {
            let kind = match kind {
                Type::Int => "int",
                Type::Uint => "uint",
                Type::Float => "float",
                Type::Bool => "bool",
                Type::Text => "string",
            };
            wrong(format!(
                "{place} has the value {value}, which is not of its type \"{kind}\""
            ))
        }
    }
}

fn condition(
    entry: &Map<String, Json>,
    place: &str,
    names: &[&str],
) -> Result<(String, Expression)> {
    let Some(text) = entry.get("Expression") else {
        return wrong(format!("{place} has no `Expression`"));
    };
    let text = string(text, &format!("the `Expression` of {place}"))?;
    let unknown = |name: &str| {
        let near = meant(name, names.iter().copied())
            .map(|near| format!("; did you mean {near}?"))
            .unwrap_or_default();
        wrong(format!(
            "the condition `{text}` names `{name}`, which is no parameter{near}"
        ))
    };
    if let Some(listed) = entry.get("Parameters") {
        for name in array(listed, &format!("`Parameters` of {place}"))? {
            let name = string(name, &format!("a name in `Parameters` of {place}"))?;
            if !names.contains(&name) {
                return unknown(name);
            }
        }
    }
    match Expression::parse(text, names) {
        Ok(expression) => Ok((text.to_owned(), expression)),
        Err(expression::Error::Unknown(name)) => unknown(&name),
        Err(error) => wrong(format!(
            "the condition `{text}` cannot be read: {error}; conditions have Python's syntax, without comprehensions and attributes"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(parameters: &str, conditions: &str) -> String {
        format!(
            r#"{{"ConfigurationSpace": {{"TuningParameters": [{parameters}], "Conditions": [{conditions}]}},
                "KernelSpecification": {{"KernelName": "k", "KernelFile": "k.c", "Language": "CUDA"}}, "General": {{}}}}"#
        )
    }

    fn one(kind: &str, values: &str, more: &str) -> String {
        format!(r#"{{"Name": "a", "Type": "{kind}", "Values": {values}{more}}}"#)
    }

    #[test]
    fn parameters_conditions_and_what_means_nothing_here_are_read() {
        let parameters = [
            one("int", r#""list(range(1, 9))""#, r#", "Default": 4"#),
            r#"{"Name": "kind", "Type": "string", "Values": "['x', 'y']", "Note": 1}"#.to_owned(),
            r#"{"Name": "wide", "Type": "bool", "Values": [true, false]}"#.to_owned(),
            r#"{"Name": "share", "Type": "float", "Values": "[0.5, 1]"}"#.to_owned(),
        ];
        let condition = r#"{"Expression": "a % 2 == 0 or wide", "Parameters": ["a", "wide"]}"#;
        let read = read(&file(&parameters.join(","), condition)).expect("it is sound");
        assert_eq!(read.parameters[0].values.len(), 8);
        assert_eq!(read.parameters[0].default, Some(3));
        assert_eq!(read.parameters[1].values[1], Value::Text("y".into()));
        assert_eq!(read.parameters[1].default, None);
        assert_eq!(read.parameters[3].values[1], Value::Float(1.0));
        assert_eq!(read.conditions[0].1.parameters(), [0, 2]);
        assert_eq!(read.kernel.as_deref(), Some("k"));
        assert_eq!(
            read.ignored,
            [
                "General",
                "KernelSpecification.Language",
                "TuningParameters.Note"
            ]
        );
    }

    #[test]
    fn each_contradiction_has_a_sentence() {
        let condition = |text: &str| format!(r#"{{"Expression": "{text}", "Parameters": ["a"]}}"#);
        let sound = one("int", r#""[1, 2]""#, "");
        for (text, part) in [
            ("{".to_owned(), "no JSON"),
            ("{}".to_owned(), "no `ConfigurationSpace`"),
            (file("", ""), "at least one parameter"),
            (
                file("1", ""),
                "parameter 1 of `TuningParameters` is no object",
            ),
            (file(&format!("{sound},{sound}"), ""), "`a` is named twice"),
            (file(&one("int", r#""[]""#, ""), ""), "`a` has no values"),
            (
                file(&one("int", r#""[1, 1.0]""#, ""), ""),
                "not of its type \"int\"",
            ),
            (
                file(&one("int", r#""[1, 2, 1]""#, ""), ""),
                "the value 1 twice",
            ),
            (
                file(&one("float", r#""[1, 1.0]""#, ""), ""),
                "the value 1.0 twice",
            ),
            (
                file(&one("uint", r#""[-1]""#, ""), ""),
                "not of its type \"uint\"",
            ),
            (
                file(&one("bool", r#""[2]""#, ""), ""),
                "not of its type \"bool\"",
            ),
            (
                file(&one("vec", r#""[1]""#, ""), ""),
                "has the type \"vec\"",
            ),
            (
                file(&one("int", r#""3""#, ""), ""),
                "no list of single values",
            ),
            (
                file(&one("int", r#""[1""#, ""), ""),
                "cannot be read: `]` is missing",
            ),
            (
                file(&one("int", "[[1]]", ""), ""),
                "no list of single values",
            ),
            (
                file(&one("string", r#"["a\\nb"]"#, ""), ""),
                "cannot stand in a `#define`",
            ),
            (
                file(&one("int", r#""[1, 2]""#, r#", "Default": 3"#), ""),
                "the default 3 of the parameter `a` is none of its values",
            ),
            (
                file(&sound, &condition("b > 1")),
                "names `b`, which is no parameter",
            ),
            (
                file(&sound, r#"{"Expression": "a > 1", "Parameters": ["aa"]}"#),
                "names `aa`, which is no parameter; did you mean `a`?",
            ),
            (
                file(&sound, &condition("a >")),
                "cannot be read: a value is missing",
            ),
            (
                file(&sound, "{}"),
                "condition 1 of `Conditions` has no `Expression`",
            ),
            (
                file(&sound.replace("\"a\"", "\"1a\""), ""),
                "begins with no digit",
            ),
            (
                file(&sound.replace("\"a\"", "\"for\""), ""),
                "a meaning of its own",
            ),
            (
                file(&sound.replace("\"a\"", "\"lambda\""), ""),
                "a meaning of its own",
            ),
        ] {
            let error = read(&text).expect_err(&text).to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
