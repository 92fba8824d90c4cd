//! The sanitizers: what they check, with which flags, and what a machine must have for them.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use flopsmith_compile::toolchain;
use flopsmith_problem::Language;

use super::openmp;

/// Bits of a random place of memory that ThreadSanitizer's fixed layout has room for.
const MOST_RANDOM_BITS: u32 = 28;

/// What is undefined and checked. Left out is what C leaves undefined and gcc does not, or what an honest program may do without
/// harm: `shift-base` (gcc defines what is shifted into the sign), `float-divide-by-zero` and `float-cast-overflow` (the
/// machine's own results, often of lanes that are thrown away), `bounds` and `object-size` (a flat index into the rows of one
/// array; what leaves the array AddressSanitizer finds), and `pointer-overflow` (negative strides in unsigned numbers).
const UNDEFINED: [&str; 11] = [
    // The compiler assumes that these do not happen, and removes or moves code by it.
    "signed-integer-overflow",
    "null",
    "unreachable",
    "nonnull-attribute",
    "returns-nonnull-attribute",
    // Other machines give other results or die.
    "shift-exponent",
    "integer-divide-by-zero",
    "alignment",
    "builtin",
    "bool",
    // The stack ends elsewhere than it says.
    "vla-bound",
];

/// Undefined in C++ beside that: the compiler takes the end of a function that must return something for unreachable. What needs
/// the library of C++ (`vptr`) is left out.
const UNDEFINED_IN_CXX: &str = "return";

/// In Fortran this alone is the program's doing; pointers and alignments are the compiler's.
const UNDEFINED_IN_FORTRAN: &str = "signed-integer-overflow";

/// Subscripts and shapes against what arrays are declared with, which the compiler relies on. A dummy argument with its size left
/// open (`x(*)`) has no bounds: what leaves its memory AddressSanitizer finds. Two habits break the standard and are findings: a
/// condition that guards a subscript in the same expression (`j >= 1 .and. x(j) > t`, both sides of which may be evaluated), and a
/// dummy argument declared `x(1)` that stands for more.
const BOUNDS: &str = "-fcheck=bounds";

/// The runtimes that are linked in, by the names of their files.
static RUNTIMES: [&str; 3] = ["libasan.a", "libubsan.a", "libtsan.a"];

/// A sanitizer, or two that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    /// AddressSanitizer and UndefinedBehaviorSanitizer.
    Address,
    /// ThreadSanitizer.
    Thread,
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tool::Address => "address and undefined",
            Tool::Thread => "thread",
        })
    }
}

impl Tool {
    /// The runtimes it needs.
    pub fn runtimes(self) -> &'static [&'static str] {
        match self {
            Tool::Address => &RUNTIMES[..2],
            Tool::Thread => &RUNTIMES[2..],
        }
    }

    /// Flags of a language's compiler that turn it on.
    pub fn checks(self, language: Language) -> Vec<String> {
        if self == Tool::Thread {
            return vec!["-fsanitize=thread".to_owned()];
        }
        let undefined = match language {
            Language::C => UNDEFINED.join(","),
            Language::Cxx => format!("{},{UNDEFINED_IN_CXX}", UNDEFINED.join(",")),
            Language::Fortran | Language::Fortran77 => UNDEFINED_IN_FORTRAN.to_owned(),
        };
        let mut checks = vec![
            format!("-fsanitize=address,{undefined}"),
            "-fno-sanitize-recover=all".to_owned(),
        ];
        if language.is_fortran() {
            checks.push(BOUNDS.to_owned());
        }
        checks
    }

    /// Flags of the C compiler that put its runtime into the program.
    pub fn link(self) -> Vec<String> {
        match self {
            Tool::Address => [
                "-fsanitize=address,undefined",
                "-static-libasan",
                "-static-libubsan",
            ]
            .map(str::to_owned)
            .to_vec(),
            Tool::Thread => openmp::link_flags()
                .chain(["-fsanitize=thread", "-static-libtsan"].map(str::to_owned))
                .collect(),
        }
    }
}

/// The runtimes that this compiler does not have.
pub fn missing_runtimes(compiler: &Path) -> Vec<&'static str> {
    let there = |name: &str| {
        let mut question = Command::new(compiler);
        question.arg(format!("-print-file-name={name}"));
        // It repeats the name of what it does not find.
        toolchain::answer(&mut question).is_ok_and(|a| Path::new(a.stdout.trim()).is_file())
    };
    RUNTIMES.into_iter().filter(|name| !there(name)).collect()
}

/// Why ThreadSanitizer's layout of memory does not fit this machine, which places programs at random: its shadow lies at fixed
/// places, and in the jail it can neither look nor start once more without.
pub fn no_room() -> Option<String> {
    let bits = fs::read_to_string("/proc/sys/vm/mmap_rnd_bits").ok()?;
    let bits: u32 = bits.trim().parse().ok()?;
    (bits > MOST_RANDOM_BITS).then(|| {
        format!(
            "this machine's memory is placed with {bits} random bits, ThreadSanitizer knows {MOST_RANDOM_BITS} \
             (`sysctl vm.mmap_rnd_bits={MOST_RANDOM_BITS}`)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tools_name_the_runtimes_they_need() {
        assert_eq!(Tool::Address.runtimes(), ["libasan.a", "libubsan.a"]);
        assert_eq!(Tool::Thread.runtimes(), ["libtsan.a"]);
        for (language, checked) in [
            (
                Language::C,
                "-fsanitize=address,signed-integer-overflow,null,",
            ),
            (Language::Cxx, ",alignment,"),
            (Language::Cxx, ",return"),
            (Language::Fortran, BOUNDS),
        ] {
            let checks = Tool::Address.checks(language).join(" ");
            assert!(checks.contains(checked), "{checks}");
        }
        let of_c = Tool::Address.checks(Language::C);
        assert!(
            of_c.iter()
                .all(|flag| flag != BOUNDS && !flag.ends_with(",return"))
        );
        assert!(Tool::Thread.link().iter().any(|f| f.contains("GOMP_task")));
        let nothing = missing_runtimes(Path::new("/no/such/compiler"));
        assert_eq!(nothing, RUNTIMES);
    }
}
