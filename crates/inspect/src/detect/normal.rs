//! The normal text of a statement: the text without the parts that unrolling changes, which are constant offsets and
//! numbers in names.

use crate::scan::token::{Kind, Token, tokens};

/// All copies of a statement in an unrolled loop have the same normal text. `sizes` are the names of integer
/// parameters: `+ n` steps to the next row as `+ 1` steps to the next column.
pub(super) fn text(source: &str, sizes: &[String]) -> String {
    let all: Vec<Token<'_>> = tokens(source);
    let mut kept: Vec<String> = Vec::with_capacity(all.len());
    let mut at = 0;
    while at < all.len() {
        let token = all[at];
        let next = all.get(at + 1).map(|t| t.text);
        match token.kind {
            Kind::Number => {
                // `2*n` becomes `n`, `i+2` becomes `i`, `i*2` becomes `i`.
                if next == Some("*") {
                    at += 2;
                    continue;
                }
                if kept
                    .last()
                    .is_some_and(|k| matches!(k.as_str(), "+" | "-" | "*"))
                {
                    kept.pop();
                }
            }
            Kind::Word
                if sizes.iter().any(|s| s == token.text)
                    && kept.last().is_some_and(|k| k == "+") =>
            {
                kept.pop();
            }
            Kind::Word => kept.push(token.text.chars().filter(|c| !c.is_ascii_digit()).collect()),
            _ if matches!(token.text, "(" | ")") => {}
            _ => kept.push(token.text.to_owned()),
        }
        at += 1;
    }
    // An offset of zero is removed: `A[0]` and `A[n]` have the same normal text.
    let mut joined = kept.join(" ");
    for (from, to) in [("[ ]", "[]"), ("[ +", "["), ("[ n ]", "[]")] {
        joined = joined.replace(from, to);
    }
    for size in sizes {
        joined = joined.replace(&format!("[ {size} ]"), "[]");
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn copies_of_an_unrolled_loop_are_alike() {
        let sizes = ["n".to_owned()];
        for (a, b) in [
            ("s+=A[i*n+k]*B[k*n+j]", "s += A[i*n+k+1]*B[(k+1)*n+j]"),
            ("c00+=a0*b", "c31+=a3*b"),
            ("s+=A[k]*B[j]", "s+=A[k+2]*B[j+2*n]"),
            ("C[j]=C[j]+a*B[j]", "C[j+3]=C[j+3]+a*B[j+3]"),
            ("x+=a[0]*b", "x+=a[2*n]*b"),
        ] {
            assert_eq!(text(a, &sizes), text(b, &sizes), "{a} and {b}");
        }
        assert_ne!(text("C[i]=0", &sizes), text("s+=A[i]", &sizes));
        assert_ne!(
            text("s+=A[i*n+k]*B[k]", &sizes),
            text("s+=A[k]*B[i*n+k]", &sizes)
        );
    }
}
