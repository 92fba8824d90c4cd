//! The rule by which two sources count as the same text.

use flopsmith_archive::identity::{normalise, source_digest};
use proptest::prelude::*;

#[test]
fn layout_and_comments_do_not_count() {
    let a = "#include <stddef.h>\n\nvoid dgemm(int n) {\n  for (int i = 0; i < n; ++i)\n    x += i; // sum\n}\n";
    let b = "/* fast */ \n#include   <stddef.h> // sizes\nvoid dgemm( int n ){for(int i=0;i<n;++i)x+=i;}";
    assert_eq!(source_digest(a), source_digest(b));
    assert_eq!(
        normalise(a),
        "#include <stddef.h>\nvoid dgemm(int n){for(int i=0;i<n;++i)x+=i;}"
    );
    let windows = a.replace('\n', "\r\n");
    assert_eq!(source_digest(a), source_digest(&windows));
}

#[test]
fn sources_with_different_tokens_have_different_identities() {
    for (a, b) in [
        ("int a;", "inta;"),
        ("a + +b", "a ++b"),
        ("a - -b", "a--b"),
        ("x = y / *p;", "x = y /*p;*/;"),
        ("s = \"a  b\";", "s = \"a b\";"),
        ("s = \"a // b\";", "s = \"a\";"),
        ("c = '\"'; /* x */ d = '\"';", "c = '\"'; d = ' \"';"),
        ("#define f (x)\n", "#define f(x)\n"),
        ("#define f 1\nint x;", "#define f 1 int x;"),
        ("a << b", "a < < b"),
        ("p->q", "p- >q"),
        ("1. 0", "1.0"),
        ("int x0;", "int x1;"),
    ] {
        assert_ne!(normalise(a), normalise(b), "{a:?} {b:?}");
    }
}

#[test]
fn layout_of_python_counts() {
    let module = "import torch\n\ndef f(n):\n    if n:\n        n = n // 2\n    return n\n";
    for (from, to) in [
        ("// 2", "// 3"),
        ("        n = n", "    n = n"),
        ("    return n", "        return n"),
    ] {
        assert!(module.contains(from), "{from}");
        let other = module.replace(from, to);
        assert_ne!(source_digest(module), source_digest(&other), "{other}");
    }
}

#[test]
fn odd_texts() {
    assert_eq!(normalise(""), "");
    assert_eq!(normalise(" \n\t // only this"), "");
    assert_eq!(normalise("int x; /* never closed"), "int x;");
    assert_eq!(
        normalise("#define M \\\n  1\nint x;"),
        "#define M 1\nint x;"
    );
    assert_eq!(
        normalise("a\n#pragma omp simd\nb"),
        "a\n#pragma omp simd\nb"
    );
    assert_eq!(normalise("a/**/b"), "a b");
}

const TOKENS: &[&str] = &[
    "int", "x", "for", "(", ")", "{", "}", ";", "+", "++", "-", "->", "=", "==", "<", "<<", "1.5",
    "*", "/", "&", "&&", "\"s t\"", "'c'", ",", "[", "]", "%", ":", "!",
];

proptest! {
    #[test]
    fn white_space_between_tokens_never_counts(
        tokens in proptest::collection::vec((proptest::sample::select(TOKENS), 0..5_usize), 0..30)
    ) {
        let plain: String = tokens.iter().map(|(t, _)| format!("{t} ")).collect();
        let spread: String = tokens
            .iter()
            .map(|(t, gap)| format!("{t}{}", [" ", "\n", "\t  ", " /* c */ ", " // c\n"][*gap]))
            .collect();
        prop_assert_eq!(normalise(&plain), normalise(&spread));
    }

    #[test]
    fn a_normal_form_is_its_own(
        lines in proptest::collection::vec((any::<bool>(), proptest::collection::vec(proptest::sample::select(TOKENS), 0..8)), 0..8)
    ) {
        let text: String = lines
            .iter()
            .map(|(directive, tokens)| format!("{}{}\n", if *directive { "#define f " } else { "" }, tokens.join("  ")))
            .collect();
        let once = normalise(&text);
        prop_assert_eq!(normalise(&once), once.clone());
    }
}
