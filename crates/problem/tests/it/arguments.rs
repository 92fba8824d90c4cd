//! Arguments of every kind and with every element: what a definition may say, what it is refused for, and what prompts tell of
//! them.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_problem::prompt::{full, one_line};
use flopsmith_problem::{ArgKind, Arithmetic, Element, Language, Params, Problem, Role};
use flopsmith_protocol::ProblemFiles;

const AXPBY: [&str; 5] = [
    r#"{ name = "n", int = "n" }"#,
    r#"{ name = "alpha", scalar = "f64", low = "0.5", high = "2*n" }"#,
    r#"{ name = "x", element = "f64", role = "input", shape = ["n"] }"#,
    r#"{ name = "beta", scalar = "f32", low = "-1", high = "1" }"#,
    r#"{ name = "y", element = "f64", role = "inout", shape = ["n"], content = { kind = "range", low = "1", high = "2" } }"#,
];
const PROTOTYPE: &str = "void f(int n, double alpha, const double *x, float beta, double *y);";

/// A definition with these arguments.
fn with(prototype: &str, args: &[&str], bound: &str, language: &str) -> Result<Problem, String> {
    let definition = format!(
        r#"title = "a test"
language = "{language}"
techniques = ["simd"]

[entry]
name = "f"
prototype = "{prototype}"
args = [
  {}
]

[timed]
n = 1000

[verify]
visible = [{{ n = 1000 }}]
hidden = {{ param = "n", min = 1, max = 2000 }}
distributions = ["uniform"]

[compile]
includes = []
flags = ["-O2"]

[cost]
work = "n"
bytes = "n"

[bound]
{bound}
"#,
        args.join(",\n  ")
    );
    let files = ProblemFiles {
        id: flopsmith_protocol::ProblemId::new("f").unwrap(),
        definition,
        reference: "void f(void) {}".into(),
        baseline: None,
        magnitude: None,
    };
    Problem::from_files(files).map_err(|e| e.to_string())
}

fn exact(prototype: &str, args: &[&str]) -> Result<Problem, String> {
    with(prototype, args, "kind = \"exact\"", "c")
}

/// The definition with one argument replaced.
fn replaced(at: usize, by: &str) -> Result<Problem, String> {
    let mut args = AXPBY;
    args[at] = by;
    exact(PROTOTYPE, &args)
}

#[test]
fn scalars_and_arrays_in_place_are_what_they_say() {
    let problem = exact(PROTOTYPE, &AXPBY).unwrap();
    let kinds: Vec<&ArgKind> = problem.entry.args.iter().map(|arg| &arg.kind).collect();
    let ArgKind::Scalar { element, low, high } = kinds[1] else {
        unreachable!("{:?}", kinds[1]);
    };
    let at = Params::from([("n".into(), 5)]);
    assert_eq!(*element, Element::F64);
    assert_eq!((low.value(&at), high.value(&at)), (Ok(0.5), Ok(10.0)));
    assert_eq!(problem.elements(&problem.entry.args[1], &at), None);
    assert!(matches!(
        kinds[4],
        ArgKind::Array {
            role: Role::InOut,
            ..
        }
    ));
    assert!(Role::InOut.is_read() && Role::InOut.is_written());
    assert!(!Role::Output.is_read() && !Role::Input.is_written());
    // An array in place is a result: it needs no other one.
    let findings = flopsmith_problem::check(&problem);
    assert!(!findings.iter().any(|f| f.is_error()), "{findings:?}");
}

#[test]
fn every_element_has_its_size_and_its_type_in_c() {
    for (name, c_type, element, arithmetic) in [
        ("f64", "double", Element::F64, Arithmetic::Double),
        ("f32", "float", Element::F32, Arithmetic::Single),
        ("i32", "int", Element::I32, Arithmetic::Integer),
        ("i64", "int64_t", Element::I64, Arithmetic::Integer),
        ("u8", "uint8_t", Element::U8, Arithmetic::Integer),
        ("c64", "float _Complex", Element::C64, Arithmetic::Single),
        ("c128", "double _Complex", Element::C128, Arithmetic::Double),
        ("f16", "_Float16", Element::F16, Arithmetic::Half),
        ("bf16", "uint16_t", Element::Bf16, Arithmetic::Half),
    ] {
        let prototype = format!("void f(int n, const {c_type} *x, {c_type} *y);");
        let args = |element: &str| {
            [
                AXPBY[0].to_owned(),
                format!(
                    r#"{{ name = "x", element = "{element}", role = "input", shape = ["n"] }}"#
                ),
                format!(
                    r#"{{ name = "y", element = "{element}", role = "output", shape = ["n"] }}"#
                ),
            ]
        };
        let args_of = args(name);
        let problem = exact(&prototype, &args_of.each_ref().map(String::as_str)).unwrap();
        let ArgKind::Array { element: found, .. } = problem.entry.args[1].kind else {
            unreachable!("an array");
        };
        assert_eq!(found, element);
        assert_eq!(problem.arithmetic(), arithmetic, "{name}");
        // No other type stands for it.
        let wrong = if element == Element::F64 {
            "f32"
        } else {
            "f64"
        };
        let wrong = args(wrong);
        let error = exact(&prototype, &wrong.each_ref().map(String::as_str)).unwrap_err();
        assert!(
            error.contains("has another type than its argument"),
            "{error}"
        );
        let fortran = with(
            &prototype,
            &args_of.each_ref().map(String::as_str),
            "kind = \"exact\"",
            "fortran",
        );
        assert_eq!(fortran.is_ok(), element != Element::F16, "{fortran:?}");
    }
}

#[test]
fn unusable_arguments_are_refused_with_their_line() {
    for (at, by, says) in [
        (
            1,
            r#"{ name = "alpha", scalar = "f64" }"#,
            "needs `low` and `high`",
        ),
        (
            1,
            r#"{ name = "alpha", scalar = "f64", low = "1" }"#,
            "needs `low` and `high`",
        ),
        (
            1,
            r#"{ name = "alpha", scalar = "f64", low = "2", high = "2" }"#,
            "must be less than",
        ),
        (
            1,
            r#"{ name = "alpha", scalar = "f64", low = "m", high = "2" }"#,
            "the parameter `m`",
        ),
        (
            1,
            r#"{ name = "alpha", scalar = "i32", low = "1", high = "2" }"#,
            "must be `f64` or `f32`",
        ),
        (
            1,
            r#"{ name = "alpha", scalar = "f65", low = "1", high = "2" }"#,
            "did you mean `f64`?",
        ),
        (
            1,
            r#"{ name = "alpha", scaler = "f64", low = "1", high = "2" }"#,
            "did you mean `scalar`?",
        ),
        (
            1,
            r#"{ name = "alpha", scalar = "f64", low = "1", high = "2", align = 8 }"#,
            "cannot have `align`",
        ),
        (
            1,
            r#"{ name = "alpha", scalar = "f64", int = "n", low = "1", high = "2" }"#,
            "must have either",
        ),
        (
            1,
            r#"{ name = "alpha", scalar = "f32", low = "0", high = "2" }"#,
            "has another type",
        ),
        (
            3,
            r#"{ name = "beta", scalar = "f32", low = "0", high = "2*n*n*n*n*n*n*n*n*n*n*n*n*n" }"#,
            "fit the type",
        ),
        (
            2,
            r#"{ name = "x", element = "f64", role = "input", shape = ["n"], low = "1" }"#,
            "belong to a scalar",
        ),
        (
            2,
            r#"{ name = "z", element = "f64", role = "input", shape = ["n"] }"#,
            "is called `z` in `args`",
        ),
        (
            2,
            r#"{ name = "x", element = "f64", role = "inout", shape = ["n"] }"#,
            "is `const`",
        ),
        (2, r#"{ name = "x", int = "n" }"#, "is an address"),
        (
            4,
            r#"{ name = "y", element = "f64", role = "in-out", shape = ["n"] }"#,
            "did you mean `inout`?",
        ),
        (
            4,
            r#"{ name = "y", element = "f64", role = "input", shape = ["n"] }"#,
            "nothing could be verified",
        ),
    ] {
        let error = replaced(at, by).unwrap_err();
        assert!(error.contains(says), "{by}: {error}");
        assert!(error.contains("line "), "{by}: {error}");
    }
    let few = exact("void f(int n, double alpha);", &AXPBY).unwrap_err();
    assert!(
        few.contains("declares 2 parameters, and `args` lists 5"),
        "{few}"
    );
    for no_list in ["void f;", "void g(int n);", "void f(int n)"] {
        let error = exact(no_list, &AXPBY).unwrap_err();
        assert!(error.contains("must declare `f(…)`"), "{error}");
    }
    // An array in place may be graded, as an input may, and has a content.
    let graded =
        r#"{ name = "y", element = "f64", role = "inout", shape = ["2", "n"], graded = true }"#;
    assert!(replaced(4, graded).is_ok());
}

#[test]
fn there_are_no_more_arguments_than_registers_and_words() {
    let many = |scalars: usize, arrays: usize| {
        let mut args = vec![AXPBY[0].to_owned()];
        let mut parameters = vec!["int n".to_owned()];
        for n in 0..scalars {
            args.push(format!(
                r#"{{ name = "s{n}", scalar = "f64", low = "0", high = "1" }}"#
            ));
            parameters.push(format!("double s{n}"));
        }
        for n in 0..arrays {
            args.push(format!(
                r#"{{ name = "y{n}", element = "f64", role = "output", shape = ["n"] }}"#
            ));
            parameters.push(format!("double *y{n}"));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        exact(&format!("void f({});", parameters.join(", ")), &args)
    };
    assert!(many(8, 7).is_ok());
    assert!(many(0, 15).is_ok());
    let error = many(9, 1).unwrap_err();
    assert!(error.contains("9 scalars, and at most 8"), "{error}");
    let error = many(8, 8).unwrap_err();
    assert!(error.contains("17 arguments, and at most 16"), "{error}");
}

#[test]
fn contents_fit_their_types() {
    let of = |element: &str, c_type: &str, content: &str, shape: &str| {
        let array = format!(
            r#"{{ name = "x", element = "{element}", role = "inout", shape = [{shape}], content = {{ {content} }} }}"#
        );
        exact(&format!("void f(int n, {c_type} *x);"), &[AXPBY[0], &array])
    };
    for (element, c_type, content, shape, says) in [
        (
            "u8",
            "uint8_t",
            r#"kind = "range", low = "0", high = "255""#,
            r#""n""#,
            "",
        ),
        (
            "u8",
            "uint8_t",
            r#"kind = "range", low = "-1", high = "255""#,
            r#""n""#,
            "between 0 and 255",
        ),
        (
            "u8",
            "uint8_t",
            r#"kind = "repeating", low = "0", high = "9""#,
            r#""n""#,
            "",
        ),
        (
            "u8",
            "uint8_t",
            r#"kind = "magnitudes", low = "1", high = "64""#,
            r#""n""#,
            "of either sign",
        ),
        (
            "u8",
            "uint8_t",
            r#"kind = "steps", low = "0", high = "64""#,
            r#""n""#,
            "`steps` is for i32",
        ),
        (
            "u8",
            "uint8_t",
            r#"kind = "offsets", total = "n""#,
            r#""n""#,
            "one row of i32 or i64",
        ),
        (
            "i64",
            "int64_t",
            r#"kind = "range", low = "-9223372036854775808", high = "9223372036854775807""#,
            r#""n""#,
            "",
        ),
        (
            "i64",
            "int64_t",
            r#"kind = "range", low = "0", high = "18446744073709551616""#,
            r#""n""#,
            "both must lie between",
        ),
        (
            "i64",
            "int64_t",
            r#"kind = "range", low = "0.5", high = "1""#,
            r#""n""#,
            "whole numbers",
        ),
        (
            "i64",
            "int64_t",
            r#"kind = "magnitudes", low = "1", high = "9223372036854775808""#,
            r#""n""#,
            "",
        ),
        (
            "i64",
            "int64_t",
            r#"kind = "steps", low = "0", high = "4503599627370496""#,
            r#""n""#,
            "",
        ),
        (
            "i64",
            "int64_t",
            r#"kind = "steps", low = "0", high = "9007199254740992""#,
            r#""n""#,
            "within 2^52",
        ),
        (
            "i64",
            "int64_t",
            r#"kind = "offsets", total = "8*n""#,
            r#""n""#,
            "",
        ),
        (
            "i32",
            "int",
            r#"kind = "range", low = "0", high = "2147483648""#,
            r#""n""#,
            "both must lie between",
        ),
        (
            "f16",
            "_Float16",
            r#"kind = "range", low = "0", high = "65504""#,
            r#""n""#,
            "",
        ),
        (
            "f16",
            "_Float16",
            r#"kind = "range", low = "0", high = "65505""#,
            r#""n""#,
            "both must lie between",
        ),
        (
            "f16",
            "_Float16",
            r#"kind = "repeating", low = "0", high = "9""#,
            r#""n""#,
            "is for integers",
        ),
        (
            "bf16",
            "uint16_t",
            r#"kind = "range", low = "0", high = "100000000000""#,
            r#""n""#,
            "",
        ),
        (
            "c128",
            "double _Complex",
            r#"kind = "dominant""#,
            r#""n", "n""#,
            "of real floats",
        ),
        (
            "c128",
            "double _Complex",
            r#"kind = "distances", high = "9""#,
            r#""n", "n""#,
            "of real numbers",
        ),
        (
            "c128",
            "double _Complex",
            r#"kind = "shifted", low = "0", high = "1", by = "9""#,
            r#""n", "n""#,
            "",
        ),
    ] {
        match of(element, c_type, content, shape) {
            Ok(_) => assert!(says.is_empty(), "{element}, {content} is accepted"),
            Err(error) => assert!(
                !says.is_empty() && error.contains(says),
                "{element}, {content}: {error}"
            ),
        }
    }
    let graded = |element: &str, c_type: &str| {
        let array = format!(
            r#"{{ name = "x", element = "{element}", role = "inout", shape = ["n", "n"], graded = true }}"#
        );
        exact(&format!("void f(int n, {c_type} *x);"), &[AXPBY[0], &array]).is_ok()
    };
    assert!(graded("c64", "float _Complex") && graded("bf16", "uint16_t"));
    assert!(!graded("f16", "_Float16") && !graded("i64", "int64_t") && !graded("u8", "uint8_t"));
}

#[test]
fn the_bound_of_a_product_is_for_nothing_else() {
    let gemm = "kind = \"gemm\"\nc = 4.0";
    let error = with(PROTOTYPE, &AXPBY, gemm, "c").unwrap_err();
    assert!(error.contains("use a `scaled` bound"), "{error}");
    let array = |name: &str, role: &str| {
        format!(r#"{{ name = "{name}", element = "f64", role = "{role}", shape = ["n", "n"] }}"#)
    };
    let prototype = "void f(int n, const double *a, const double *b, double *c);";
    for (role, is_fine) in [("output", true), ("inout", false)] {
        let arrays = [array("a", "input"), array("b", "input"), array("c", role)];
        let [a, b, c] = arrays.each_ref().map(String::as_str);
        let problem = with(prototype, &[AXPBY[0], a, b, c], gemm, "c");
        assert_eq!(problem.is_ok(), is_fine, "{role}: {problem:?}");
    }
}

#[test]
fn prompts_tell_of_scalars_and_of_arrays_in_place() {
    let problem = exact(PROTOTYPE, &AXPBY).unwrap();
    let said = |problem: &Problem| full(problem, problem.techniques, None);
    assert_eq!(
        one_line(&problem, problem.techniques),
        "// f (inout y, scalar alpha beta): simd\n"
    );
    let full = said(&problem);
    for line in [
        PROTOTYPE,
        "`alpha` is a double from 0.5 (included) to 2*n (excluded), drawn in secret and anew for each call.",
        "`beta` is a float from -1 (included) to 1 (excluded)",
        "`y` is read and written: it holds its old values before a call and results after it.",
    ] {
        assert!(full.contains(line), "{line} in {full}");
    }
    assert!(!full.contains("`x` is"), "{full}");
    let stored = |element: &str, c_type: &str, language: Language| {
        let array =
            format!(r#"{{ name = "x", element = "{element}", role = "output", shape = ["n"] }}"#);
        let args = [AXPBY[0], array.as_str()];
        let mut problem = exact(&format!("void f(int n, {c_type} *x);"), &args).unwrap();
        problem.language = language;
        said(&problem)
    };
    for (element, c_type, language, words) in [
        (
            "bf16",
            "uint16_t",
            Language::C,
            "`x`: each element is a bfloat16 number",
        ),
        ("bf16", "uint16_t", Language::Fortran, "integer(c_int16_t)"),
        ("u8", "uint8_t", Language::Fortran77, "integer(c_int8_t)"),
        (
            "c64",
            "float _Complex",
            Language::Cxx,
            "std::complex<float>",
        ),
        (
            "c128",
            "double _Complex",
            Language::Cxx,
            "std::complex<double>",
        ),
    ] {
        let full = stored(element, c_type, language);
        assert!(full.contains(words), "{words} in {full}");
    }
    let plain = stored("f32", "float", Language::C);
    assert!(!plain.contains("`x`"), "{plain}");
}
