use proptest::prelude::*;

use super::arithmetic::of_integers;
use super::*;

/// The value of an expression over `x` and `y`, as text, or the error.
fn said(text: &str, x: i64, y: i64) -> String {
    let of = |number: usize| Value::Int(if number == 0 { x } else { y });
    match Expression::parse(text, &["x", "y"]).and_then(|e| e.value(&of)) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

/// Values as Python 3 prints them.
#[test]
fn expressions_mean_what_they_mean_in_python() {
    for (text, value) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("-2 ** 2", "-4"),
        ("2 ** -1", "0.5"),
        ("2 ** 3 ** 2", "512"),
        ("-7 // 2", "-4"),
        ("-7 % 2", "1"),
        ("7 % -2", "-1"),
        ("7 / 2", "3.5"),
        ("6 / 2", "3.0"),
        ("7.5 // 2", "3.0"),
        ("-7.5 % 2", "0.5"),
        ("1 << 4 | 1", "17"),
        ("6 & 3 ^ 1", "3"),
        ("~5", "-6"),
        ("-8 >> 1", "-4"),
        ("0x10 + 0b11 + 0o7 + 1_000", "1026"),
        ("1e3", "1000.0"),
        (".5 + 1.", "1.5"),
        ("1 < 2 < 3", "True"),
        ("1 < 3 < 3", "False"),
        ("3 > 2 == 2", "True"),
        ("not 1 == 2", "True"),
        ("not 0 and 5", "5"),
        ("0 or 'a'", "\"a\""),
        ("1 or 1 // 0", "1"),
        ("0 and 1 // 0", "0"),
        ("3 in [1, 2, 3]", "True"),
        ("3 not in (1, 2)", "True"),
        ("'b' in \"abc\"", "True"),
        ("True + True", "2"),
        ("True == 1.0", "True"),
        ("'a' == 1", "False"),
        ("1 if x > y else 2", "2"),
        ("[1, 2] + [3,]", "[1, 2, 3]"),
        ("[1, 2] < [1, 3]", "True"),
        ("()", "[]"),
        ("(4,)", "[4]"),
        ("list(range(1, 9, 3))", "[1, 4, 7]"),
        ("range(3, 0, -1)", "[3, 2, 1]"),
        ("max(x, y, 2)", "5"),
        ("min([4, 2, 8])", "2"),
        ("sum(range(5))", "10"),
        ("abs(-3) + len([1, 2])", "5"),
        ("int(-2.5)", "-2"),
        ("float(1)", "1.0"),
        ("bool([])", "False"),
        ("x * y <= 20 and y % x == 1", "True"),
    ] {
        assert_eq!(said(text, 4, 5), value, "{text}");
    }
}

#[test]
fn an_expression_outside_the_subset_says_what_is_wrong() {
    for (text, part) in [
        ("", "a value is missing at the end"),
        ("1 +", "a value is missing"),
        ("(1", "`)` is missing at the end"),
        ("1 2", "`2` is not expected here"),
        ("x = 1", "`=` is no sign of an expression"),
        ("z + 1", "`z`, which is no parameter"),
        ("[i for i in range(3)]", "`i`, which is no parameter"),
        ("x.real", "`.` is no sign"),
        ("'a", "does not end"),
        ("012", "begins with 0"),
        ("9223372036854775808", "beyond 64 bits"),
        ("9223372036854775807 + 1", "beyond 64 bits"),
        ("1 << 63", "beyond 64 bits"),
        ("1 << 64", "shifted by 64"),
        ("x // 0", "division by zero"),
        ("1.5 % 0", "division by zero"),
        ("1 < 'a'", "have no order"),
        ("1 + 'a'", "is no number"),
        ("1.0 | 2", "whole numbers"),
        ("max([])", "extreme of nothing"),
        ("range(1, 2, 0)", "step"),
        ("range(10000000)", "more than 100000 elements"),
        ("1 if 2", "`else` is missing"),
        ("1e400", "is no number"),
    ] {
        let said = said(text, 4, 5);
        assert!(
            said.starts_with("error: ") && said.contains(part),
            "{text}: {said}"
        );
    }
    for deep in [
        "(".repeat(100_000),
        "-".repeat(100_000),
        "not ".repeat(100_000),
    ] {
        assert!(said(&deep, 1, 1).contains("nested too deeply"));
    }
    let long = vec!["1"; 100_000].join("+");
    assert!(said(&long, 1, 1).contains("too long"));
}

#[test]
fn the_parameters_of_an_expression_are_known() {
    let names = ["a", "max", "b"];
    let of = |text: &str| Expression::parse(text, &names).map(|e| e.parameters());
    assert_eq!(of("b * b > 2 and a in (1, b)"), Ok(vec![0, 2]));
    assert_eq!(of("1 if max else 0"), Ok(vec![1]));
}

/// An expression in whole numbers: its text with all brackets, its text with only those that it needs, and its value by
/// other arithmetic; none where there is no value.
#[derive(Debug, Clone)]
struct Case {
    whole: String,
    short: String,
    /// How tightly the outermost operator of `short` binds.
    level: u8,
    value: Option<i128>,
}

/// The result, if it and its parts fit.
fn fits(value: Option<i128>) -> Option<i128> {
    value.filter(|v| i64::try_from(*v).is_ok())
}

fn joined(operator: &str, level: u8, left: &Case, right: &Case) -> Case {
    let bracketed = |case: &Case, least: u8| match case.level < least {
        true => format!("({})", case.short),
        false => case.short.clone(),
    };
    let value = left.value.zip(right.value).and_then(|(a, b)| {
        let value = match operator {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "//" if b > 0 => a.div_euclid(b),
            "//" if b < 0 => (-a).div_euclid(-b),
            "%" if b > 0 => a.rem_euclid(b),
            "%" if b < 0 => -((-a).rem_euclid(-b)),
            "<" => i128::from(a < b),
            "==" => i128::from(a == b),
            "and" => {
                if a != 0 {
                    b
                } else {
                    a
                }
            }
            "or" => {
                if a != 0 {
                    a
                } else {
                    b
                }
            }
            _ => return None,
        };
        Some(value)
    });
    // The second value of `and` and `or` may be none where the first decides.
    let value = match (operator, left.value) {
        ("and", Some(0)) => Some(0),
        ("or", Some(a)) if a != 0 => Some(a),
        _ => value,
    };
    // Comparisons form chains, so both sides need brackets around another one.
    let least_left = if level == 2 { 3 } else { level };
    Case {
        whole: format!("({} {operator} {})", left.whole, right.whole),
        short: format!(
            "{} {operator} {}",
            bracketed(left, least_left),
            bracketed(right, level + 1)
        ),
        level,
        value: fits(value),
    }
}

fn case() -> impl Strategy<Value = Case> {
    let leaf = (0i64..40).prop_map(|n| Case {
        whole: n.to_string(),
        short: n.to_string(),
        level: 9,
        value: Some(i128::from(n)),
    });
    let operators = prop::sample::select(vec![
        ("or", 0u8),
        ("and", 1),
        ("<", 2),
        ("==", 2),
        ("+", 3),
        ("-", 3),
        ("*", 4),
        ("//", 4),
        ("%", 4),
    ]);
    leaf.prop_recursive(5, 40, 2, move |inner| {
        prop_oneof![
            (operators.clone(), inner.clone(), inner.clone())
                .prop_map(|((operator, level), a, b)| joined(operator, level, &a, &b)),
            inner.prop_map(|a| Case {
                whole: format!("(-{})", a.whole),
                short: match a.level < 5 {
                    true => format!("-({})", a.short),
                    false => format!("-{}", a.short),
                },
                level: 5,
                value: fits(a.value.map(|v| -v)),
            }),
        ]
    })
}

proptest! {
    #[test]
    fn precedence_and_arithmetic_follow_another_calculator(case in case()) {
        let value = |text: &str| {
            let expression = Expression::parse(text, &[]).expect("it is an expression");
            match expression.value(&|_| Value::Bool(false)) {
                Ok(Value::Int(n)) => Some(i128::from(n)),
                Ok(Value::Bool(holds)) => Some(i128::from(holds)),
                _ => None,
            }
        };
        prop_assert_eq!(value(&case.short), case.value, "{}", &case.short);
        prop_assert_eq!(value(&case.whole), case.value, "{}", &case.whole);
    }

    #[test]
    fn quotient_and_remainder_belong_together(a in any::<i64>(), b in any::<i64>()) {
        prop_assume!(b != 0 && !(a == i64::MIN && b == -1));
        let quotient = of_integers(Operator::FloorDivide, a, b);
        let remainder = of_integers(Operator::Remainder, a, b);
        let (Ok(Value::Int(quotient)), Ok(Value::Int(remainder))) = (quotient, remainder) else {
            return Err(TestCaseError::fail("both are whole numbers"));
        };
        prop_assert_eq!(i128::from(quotient) * i128::from(b) + i128::from(remainder), i128::from(a));
        prop_assert!(remainder == 0 || (remainder < 0) == (b < 0));
        prop_assert!(remainder.unsigned_abs() < b.unsigned_abs());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-x0-9a-f.'\"()\\[\\],+*/%<>=!&|^~ _]{0,40}|\\PC{0,20}") {
        if let Ok(expression) = Expression::parse(&text, &["x"]) {
            let _ = expression.value(&|_| Value::Int(3));
        }
    }
}
