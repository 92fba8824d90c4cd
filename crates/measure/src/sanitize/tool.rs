//! The sanitizers: what they check, with which flags, and what a machine must have for them.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use flopsmith_compile::toolchain;
use flopsmith_problem::Language;

use super::openmp;

/// Most random bits in a program's address for which ThreadSanitizer's fixed layout has room.
const MOST_RANDOM_BITS: u32 = 28;

/// The undefined behaviour that is checked. Checks are left out if gcc defines the behaviour although C does not, or if
/// an honest program may show it without harm: `shift-base` (gcc defines the bits shifted into the sign),
/// `float-divide-by-zero` and `float-cast-overflow` (the machine's own results, often of lanes that are thrown away),
/// `bounds` and `object-size` (a flat index into the rows of one array; AddressSanitizer finds accesses outside the
/// array), and `pointer-overflow` (negative strides in unsigned numbers).
const UNDEFINED: [&str; 11] = [
    // The compiler assumes that these do not happen, and removes or moves code on that assumption.
    "signed-integer-overflow",
    "null",
    "unreachable",
    "nonnull-attribute",
    "returns-nonnull-attribute",
    // On these, other machines give other results or end the program.
    "shift-exponent",
    "integer-divide-by-zero",
    "alignment",
    "builtin",
    "bool",
    // A wrong length puts the end of the stack at the wrong place.
    "vla-bound",
];

/// Also undefined in C++: the compiler takes the end of a function that must return something for unreachable. Checks
/// that need the library of C++ (`vptr`) are left out.
const UNDEFINED_IN_CXX: &str = "return";

/// In Fortran only this check concerns the program's own code; the compiler is responsible for pointers and alignments.
const UNDEFINED_IN_FORTRAN: &str = "signed-integer-overflow";

/// Compares subscripts and shapes with the declarations of the arrays, on which the compiler relies. A dummy argument
/// whose size is left open (`x(*)`) has no bounds: AddressSanitizer finds accesses outside its memory. Two habits break
/// the standard and are findings: a condition that guards a subscript in the same expression (`j >= 1 .and. x(j) > t`,
/// both sides of which may be evaluated), and a dummy argument declared `x(1)` that stands for more.
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
    /// The runtimes that the sanitizer needs.
    pub fn runtimes(self) -> &'static [&'static str] {
        match self {
            Tool::Address => &RUNTIMES[..2],
            Tool::Thread => &RUNTIMES[2..],
        }
    }

    /// Flags of a language's compiler that turn the sanitizer on.
    pub fn checks(self, language: Language) -> Vec<String> {
        if self == Tool::Thread {
            return vec!["-fsanitize=thread".to_owned()];
        }
        let undefined = match language {
            Language::C | Language::Python => UNDEFINED.join(","),
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

    /// Flags of the C compiler that link the sanitizer's runtime into the program.
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
        // The compiler repeats the name of a file that it does not find.
        toolchain::answer(&mut question).is_ok_and(|a| Path::new(a.stdout.trim()).is_file())
    };
    RUNTIMES.into_iter().filter(|name| !there(name)).collect()
}

/// The reason why ThreadSanitizer's memory layout does not fit this machine, which places programs at random addresses.
/// ThreadSanitizer's shadow lies at fixed addresses, and in the jail ThreadSanitizer can neither look at the placement
/// nor restart the program without randomization.
pub fn no_room() -> Option<String> {
    let bits = fs::read_to_string("/proc/sys/vm/mmap_rnd_bits").ok()?;
    let bits: u32 = bits.trim().parse().ok()?;
    (bits > MOST_RANDOM_BITS).then(|| {
        format!(
            "this machine randomizes addresses with {bits} bits, and ThreadSanitizer supports at most {MOST_RANDOM_BITS}: \
             run `sysctl vm.mmap_rnd_bits={MOST_RANDOM_BITS}`"
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
