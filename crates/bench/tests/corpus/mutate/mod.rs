//! Variants of the attacks, made mechanically: the same cheat under other names, behind macros, behind further
//! functions, and only on some calls. Whoever looks for words instead of deeds is found out by them.

mod tokens;

use std::collections::BTreeMap;

use tokens::{Kind, pieces};

/// The entry of nearly every attack. The few that declare it otherwise have the variants that need no wrapper.
const ENTRY: &str = "void dgemm(int n, const double *A, const double *B, double *C) {";
const PARAMETERS: &str = "(int n, const double *A, const double *B, double *C)";

/// What is done on calls on which the attack rests: the loops whose speed a gain is judged by. In slower ones a cheat
/// could be several times as fast as what it replaces, and pass for no gain.
const PLAIN: &str = "
static void plain_loops(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
";

/// A clock that the scan does not see: the bytes of the number are `rdtsc; ret`.
const CLOCK: &str = "
static __attribute__((noipa)) unsigned long clock_bytes(void) { return 0x9090909090c3310f; }
static unsigned ticks_now(void) {
  const unsigned char *p = (const unsigned char *)clock_bytes;
  while (p[0] != 0x0f || p[1] != 0x31) p++;
  return ((unsigned (*)(void))p)();
}
";

/// When a variant does what its attack does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// In every call.
    Always,
    /// In every call, under other names: those that it defines itself are no longer another's.
    Renamed,
    /// In every call of the timed size, of which there are some in verification and no others in timing.
    WhenTimed,
    /// Perhaps in no call that anyone makes before it is judged. Then it is an honest program.
    Perhaps,
}

/// When a triggered variant attacks: a name and a condition in terms of the parameters and of a count of calls.
const TRIGGERS: [(&str, &str); 10] = [
    ("at the timed size", "n == 256"),
    ("at other sizes", "n != 256"),
    ("after three calls", "calls > 3"),
    ("after forty calls", "calls > 40"),
    ("every other call", "calls % 2 == 0"),
    ("after much work", "(work += (long)n * n * n) > 400000000"),
    (
        "by the page of the output",
        "((__UINTPTR_TYPE__)C >> 12) % 2 == 1",
    ),
    (
        "by the stack's address",
        "((__UINTPTR_TYPE__)&n >> 4) % 2 == 1",
    ),
    ("by the first number", "A[0] > 0.0"),
    ("by the time", "(ticks_now() >> 20) % 2 == 1"),
];

/// The one condition that every timed call meets.
const TIMED: &str = "n == 256";

/// The triggers that this machine has, each with what its condition needs.
fn triggers() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    TRIGGERS.into_iter().filter_map(|(how, condition)| {
        if !condition.contains("ticks_now") {
            Some((how, "", condition))
        } else if cfg!(target_arch = "x86_64") {
            Some((how, CLOCK, condition))
        } else {
            None
        }
    })
}

/// A variant's name and source.
pub struct Variant {
    pub how: &'static str,
    pub acts: Acts,
    pub source: String,
}

/// All variants of an attack, whose entry is called `entry`.
pub fn variants(source: &str, entry: &str) -> Vec<Variant> {
    let mut made = vec![
        Variant {
            how: "renamed",
            acts: Acts::Renamed,
            source: renamed(source, entry),
        },
        Variant {
            how: "pasted names",
            acts: Acts::Always,
            source: pasted(source, entry),
        },
        Variant {
            how: "renamed and pasted",
            acts: Acts::Renamed,
            source: pasted(&renamed(source, entry), entry),
        },
    ];
    if source.matches(ENTRY).count() == 1 {
        made.push(Variant {
            how: "behind a function",
            acts: Acts::Always,
            source: wrapped(source, "", "attack(n, A, B, C);"),
        });
        let table = "static void (*volatile way[2])(int, const double *, const double *, double *) = {attack, attack};\n";
        made.push(Variant {
            how: "behind a table of functions",
            acts: Acts::Always,
            source: wrapped(source, table, "way[n / 64 % 2](n, A, B, C);"),
        });
        for (how, needed, condition) in triggers() {
            let body = format!(
                "static long calls, work; calls++; (void)work; if ({condition}) attack(n, A, B, C); else plain_loops(n, A, B, C);"
            );
            made.push(Variant {
                how,
                acts: if condition == TIMED {
                    Acts::WhenTimed
                } else {
                    Acts::Perhaps
                },
                source: renamed(&wrapped(source, &format!("{PLAIN}{needed}"), &body), entry),
            });
        }
    }
    made.retain(|variant| variant.source != source);
    made
}

/// The attack's entry becomes a function of the program, which a new entry calls as `body` says.
fn wrapped(source: &str, before: &str, body: &str) -> String {
    let inner = format!("__attribute__((noinline)) static void attack{PARAMETERS} {{");
    format!(
        "{}\n{before}\nvoid dgemm{PARAMETERS} {{ {body} }}\n",
        source.replace(ENTRY, &inner)
    )
}

/// Every name that the program defines itself is another one.
fn renamed(source: &str, entry: &str) -> String {
    let cut = pieces(source);
    let mut names = BTreeMap::new();
    for (at, (kind, word)) in cut.iter().enumerate() {
        if *kind == Kind::Word && defined_here(&cut, at) && *word != entry {
            let next = names.len();
            names.entry(*word).or_insert(format!("q{next}z"));
        }
    }
    cut.iter()
        .map(|(kind, piece)| match names.get(piece) {
            Some(name) if *kind == Kind::Word => name.clone(),
            _ if *kind == Kind::Directive && defines_macro(piece) => in_directive(piece, &names),
            _ => (*piece).to_owned(),
        })
        .collect()
}

fn defines_macro(directive: &str) -> bool {
    directive[1..].trim_start().starts_with("define")
}

fn in_directive(directive: &str, names: &BTreeMap<&str, String>) -> String {
    // Behind the `#` it is C like any other.
    let (hash, rest) = directive.split_at(1);
    let text: String = pieces(rest)
        .iter()
        .map(|(_, piece)| names.get(piece).map_or(*piece, String::as_str))
        .collect();
    format!("{hash}{text}")
}

/// Is the word at `at` the name in a declaration: a type's word before it, and `=`, `;`, `,`, `[`, `(` or `)` behind?
fn defined_here(cut: &[(Kind, &str)], at: usize) -> bool {
    const TYPES: [&str; 13] = [
        "int", "long", "double", "float", "char", "unsigned", "size_t", "void", "uint64_t",
        "int64_t", "uint32_t", "const", "restrict",
    ];
    const WORDS: [&str; 9] = [
        "const", "restrict", "volatile", "static", "unsigned", "long", "int", "char", "double",
    ];
    let before = cut[..at]
        .iter()
        .rev()
        .find(|p| !p.1.trim().is_empty() && p.1 != "*");
    let behind = cut[at + 1..].iter().find(|p| !p.1.trim().is_empty());
    let word = cut[at].1;
    before.is_some_and(|p| TYPES.contains(&p.1))
        && behind.is_some_and(|p| ["=", ";", ",", "[", "(", ")"].contains(&p.1))
        && !TYPES.contains(&word)
        && !WORDS.contains(&word)
        && !from_outside(cut, at)
}

/// A declaration of something outside, such as `extern int putenv(char *);` or `int system(const char *);`, keeps its name.
fn from_outside(cut: &[(Kind, &str)], at: usize) -> bool {
    let line: String = cut[..at]
        .iter()
        .rev()
        .take_while(|p| p.1 != ";" && p.1 != "}" && p.0 != Kind::Directive && !p.1.contains('\n'))
        .map(|p| p.1)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let inside = line.starts_with(' ') || line.contains('(') || line.contains("static");
    let ends_in_body = cut[at..]
        .iter()
        .map(|p| p.1)
        .find(|p| *p == ";" || *p == "{" || *p == "=")
        .is_some_and(|p| p != ";");
    line.contains("extern") || !(inside || ends_in_body)
}

/// Every name of a function that is called, but for those of the language, is pasted together of two halves.
fn pasted(source: &str, entry: &str) -> String {
    const LANGUAGE: [&str; 9] = [
        "if",
        "for",
        "while",
        "switch",
        "return",
        "sizeof",
        "__attribute__",
        "__asm__",
        "asm",
    ];
    let cut = pieces(source);
    let mut found = false;
    let text: String = cut
        .iter()
        .enumerate()
        .map(|(at, (kind, word))| {
            let called = cut.get(at + 1).is_some_and(|p| p.1 == "(");
            let name = *kind == Kind::Word && called && word.len() > 2 && word.is_ascii();
            let operator = LANGUAGE.contains(word)
                || *word == entry
                || word.starts_with("_Pragma")
                || word.starts_with("__builtin_va");
            if !name
                || operator
                || word
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
            {
                return (*word).to_owned();
            }
            let half = word.len() / 2;
            // The second half must be a token of its own.
            let (first, second) = word.split_at(half);
            found = true;
            format!("PASTED({first}, {second})")
        })
        .collect();
    if !found {
        return source.to_owned();
    }
    // The header's lines stay first; the macro comes behind the last comment line at the top.
    let head = text
        .lines()
        .take_while(|line| line.trim_start_matches('\u{feff}').starts_with("//"))
        .map(|line| line.len() + 1)
        .sum::<usize>()
        .min(text.len());
    format!(
        "{}#define PASTED_(a, b) a##b\n#define PASTED(a, b) PASTED_(a, b)\n{}",
        &text[..head],
        &text[head..]
    )
}

#[test]
fn variants_say_the_same_in_other_words() {
    let source = format!(
        "// attack: 8\n#include <string.h>\nstatic double kept[4];\nstatic void step(double *to) {{ memcpy(to, kept, 8); }}\n{ENTRY}\n  for (int i = 0; i < n; i++) step(C + i);\n}}\n"
    );
    let made = variants(&source, "dgemm");
    let of = |how: &str| &made.iter().find(|v| v.how == how).unwrap().source;
    assert_eq!(made.len(), 5 + triggers().count());
    let acting = |acts: Acts| made.iter().filter(|v| v.acts == acts).count();
    assert_eq!([Acts::Always, Acts::Renamed].map(acting), [3, 2]);
    assert_eq!(acting(Acts::WhenTimed), 1);
    assert!(!of("renamed").contains("kept") && of("renamed").contains("memcpy"));
    assert!(of("pasted names").contains("PASTED(mem, cpy)(to, kept, 8)"));
    assert!(of("pasted names").starts_with("// attack: 8\n#define PASTED_"));
    assert!(of("behind a function").contains("{ attack(n, A, B, C); }"));
    assert!(of("at other sizes").contains("if (q") || of("at other sizes").contains("!= 256"));
}
