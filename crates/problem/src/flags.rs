//! Compiler flags that are given for a run instead of the problem's.
//!
//! They are for optimisation, code generation and the standard of the language.
//! A flag that reads or writes files, loads code into the compiler, changes what
//! is linked or makes another kind of object is refused: it would not end in a
//! faster kernel but in a program that nobody looked at.

/// Why a flag may not be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the compiler flag `{flag}` is not permitted: {why}; permitted are flags for optimisation (-O3), code generation (-march=native, -funroll-loops) and the standard (-std=c17)"
)]
pub struct Refused {
    /// The flag.
    pub flag: String,
    why: &'static str,
}

/// Beginnings of flags of `-f` and `-m` that do more than generate code, and what that is.
const DANGEROUS: &[(&str, &str)] = &[
    ("-fplugin", "it loads code into the compiler"),
    ("-fpass-plugin", "it loads code into the compiler"),
    ("-mllvm", "it takes the next word as its argument"),
    ("-fprofile", "it reads and writes files"),
    ("-fno-profile", "it belongs to flags that read files"),
    ("-fauto-profile", "it reads a file"),
    ("-fbranch-probabilities", "it reads a file"),
    ("-fcs-profile", "it reads and writes files"),
    ("-fxray", "it changes every function"),
    ("-ftest-coverage", "it writes files"),
    ("-fcoverage", "it writes files"),
    ("-fdump", "it writes files"),
    ("-fsave-optimization-record", "it writes files"),
    ("-fopt-info", "it writes files"),
    ("-foptimization-record", "it writes files"),
    ("-fstack-usage", "it writes files"),
    ("-fcallgraph-info", "it writes files"),
    ("-fada-spec", "it writes files"),
    ("-frecord", "it records the command line in the object"),
    ("-fcrash", "it writes files"),
    ("-fproc-stat", "it writes files"),
    ("-fuse-ld", "it selects another linker"),
    ("-flto", "it compiles while linking"),
    ("-ffat-lto", "it compiles while linking"),
    ("-fthinlto", "it compiles while linking"),
    ("-fwhole-program", "it may remove the entry function"),
    ("-foffload", "it compiles for another processor"),
    ("-fopenacc", "it compiles for another processor"),
    ("-fcuda", "it compiles for another processor"),
    ("-fmodule", "it reads files"),
    ("-fprebuilt", "it reads files"),
    ("-fbuild", "it reads files"),
    ("-fimplicit-module", "it reads files"),
    ("-fintrinsic-modules-path", "it reads files"),
    ("-finclude", "it reads files"),
    ("-fembed", "it reads files"),
    ("-fexternal-blas", "it calls a library"),
    ("-fblas-matmul-limit", "it calls a library"),
    ("-fveclib", "it calls a library"),
    (
        "-fpreprocessed",
        "it changes preprocessing, on which the scan relies",
    ),
    (
        "-fdirectives-only",
        "it changes preprocessing, on which the scan relies",
    ),
    (
        "-fcpp",
        "it changes preprocessing, on which the scan relies",
    ),
    (
        "-fextended-identifiers",
        "it changes preprocessing, on which the scan relies",
    ),
    ("-finput-charset", "the scan would misread the source"),
    ("-fexec-charset", "the scan would misread the source"),
    ("-fwide-exec-charset", "the scan would misread the source"),
    ("-ffixed", "the scan would misread the source"),
    ("-ffree-form", "the scan would misread the source"),
    ("-ffree-line", "the scan would misread the source"),
    ("-fd-lines", "the scan would misread the source"),
    ("-fdec", "the scan would misread the source"),
    ("-fdollar-ok", "the scan would misread the source"),
    ("-fbackslash", "the scan would misread the source"),
    ("-fcray-pointer", "the scan would misread the source"),
    ("-fno-asm", "the scan would misread the source"),
    ("-fms-", "the scan would misread the source"),
    ("-fasm", "it lets the source contain machine code"),
    ("-fsanitize", "it needs a library that is not in the jail"),
    (
        "-fno-sanitize",
        "it needs a library that is not in the jail",
    ),
    ("-finstrument", "it calls functions that are missing"),
    ("-fsplit-stack", "it calls functions that are missing"),
    ("-fno-pic", "a candidate has to be a shared object"),
    ("-fno-PIC", "a candidate has to be a shared object"),
    ("-fpie", "a candidate has to be a shared object"),
    ("-fPIE", "a candidate has to be a shared object"),
    ("-fno-plt", "a candidate has to be a shared object"),
    ("-fexceptions", "exceptions are switched off"),
    ("-fnon-call-exceptions", "exceptions are switched off"),
    ("-frtti", "it needs a library that is not in the jail"),
    ("-fdiagnostics", "it changes messages Flopsmith reads"),
    ("-fmessage-length", "it changes messages Flopsmith reads"),
    ("-fsyntax-only", "it makes no object"),
    ("-fcompare-debug", "it compiles twice"),
    ("-fself-test", "it tests the compiler"),
    ("-ftime-report", "it prints"),
    ("-fmem-report", "it prints"),
    ("-m16", "it makes objects that cannot be loaded"),
    ("-m32", "it makes objects that cannot be loaded"),
    ("-mx32", "it makes objects that cannot be loaded"),
    ("-miamcu", "it makes objects that cannot be loaded"),
    ("-mabi", "it changes the calling convention"),
    ("-mregparm", "it changes the calling convention"),
    ("-mrtd", "it changes the calling convention"),
    ("-msseregparm", "it changes the calling convention"),
    ("-mno-sse", "it changes the calling convention"),
    ("-msoft-float", "it changes the calling convention"),
    ("-mgeneral-regs-only", "it changes the calling convention"),
    ("-mfentry", "it calls functions that are missing"),
    ("-mrecord", "it calls functions that are missing"),
    ("-mnop-mcount", "it calls functions that are missing"),
    ("-mstack-protector", "it reads the thread's own data"),
    ("-mtls", "it reads the thread's own data"),
    (
        "-mdaz-ftz",
        "it changes the floating-point state when it is loaded",
    ),
    (
        "-mpc32",
        "it changes the floating-point state when it is loaded",
    ),
    (
        "-mpc64",
        "it changes the floating-point state when it is loaded",
    ),
    (
        "-mpc80",
        "it changes the floating-point state when it is loaded",
    ),
    ("-mveclibabi", "it calls a library"),
];

/// Splits and checks flags as they are typed: words with blanks between them. None gives none, under which nothing is optimised.
///
/// # Errors
/// The first flag that is not permitted, and why.
pub fn parse(text: &str) -> Result<Vec<String>, Refused> {
    text.split_whitespace()
        .map(|flag| match refusal(flag) {
            None => Ok(flag.to_owned()),
            Some(why) => Err(Refused {
                flag: flag.to_owned(),
                why,
            }),
        })
        .collect()
}

/// Flags that make functions and loops begin at the beginning of a cache line, and flags that place them otherwise. The
/// place of code changes speeds by several percent, which would be no merit of a program.
const ALIGNED: [(&str, &[&str]); 2] = [
    (
        "-falign-functions=64",
        &["-falign-functions", "-fno-align-functions"],
    ),
    ("-falign-loops=64", &["-falign-loops", "-fno-align-loops"]),
];

/// These flags, under which code lies at known places unless they say something of that themselves.
#[must_use]
pub(crate) fn aligned(mut flags: Vec<String>) -> Vec<String> {
    for (own, others) in ALIGNED {
        let said = |flag: &String| others.iter().any(|other| flag.starts_with(other));
        if !flags.iter().any(said) {
            flags.push(own.to_owned());
        }
    }
    flags
}

fn refusal(flag: &str) -> Option<&'static str> {
    if flag.starts_with('@') {
        return Some("it reads more flags from a file");
    }
    // No place for a path, a list for another program, or quotes.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '=' | '_' | '.' | '+');
    if !flag.chars().all(plain) {
        return Some("it contains other characters than letters, digits and `-=_.+`");
    }
    if let Some((_, why)) = DANGEROUS.iter().find(|(start, _)| flag.starts_with(start)) {
        return Some(why);
    }
    let known = flag.starts_with("-O")
        || flag.starts_with("-std=")
        || flag.starts_with("-W")
        || matches!(flag, "-w" | "-g" | "-g0" | "-g1")
        || (flag.len() > 2 && (flag.starts_with("-f") || flag.starts_with("-m")));
    (!known).then_some("it is not of a permitted kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_generate_code_pass() {
        let text = " -O2  -march=native -mprefer-vector-width=512 -funroll-loops -ffast-math\t-fopenmp -falign-loops=64 \
                    -std=gnu++20 -Wall -g -fno-math-errno -mno-avx512f --param=x";
        let error = parse(text).expect_err("--param is not among them");
        assert_eq!(error.flag, "--param=x");
        let good = text.replace("--param=x", "");
        let flags = parse(&good).expect("all are permitted");
        assert_eq!(flags.len(), 12);
        assert_eq!(flags[0], "-O2");
        assert_eq!(parse("").expect("none"), Vec::<String>::new());
    }

    #[test]
    fn code_lies_at_known_places_unless_somebody_says_otherwise() {
        let of = |text: &str| aligned(parse(text).expect("permitted")).join(" ");
        assert_eq!(of(""), "-falign-functions=64 -falign-loops=64");
        assert_eq!(of("-O2"), "-O2 -falign-functions=64 -falign-loops=64");
        let own = "-O3 -falign-loops=32 -falign-functions=64";
        assert_eq!(of(own), own);
        let half = "-fno-align-functions -O2";
        assert_eq!(of(half), format!("{half} -falign-loops=64"));
    }

    #[test]
    fn flags_that_do_anything_else_are_refused() {
        for flag in [
            "-fplugin=x.so",
            "-fplugin-arg-x-y",
            "-fprofile-use",
            "-fprofile-use=x",
            "-fauto-profile",
            "-B/tmp",
            "-B",
            "-specs=x",
            "--specs=x",
            "-wrapper",
            "-include",
            "-imacros",
            "-x",
            "-xc",
            "-o",
            "-oout",
            "@file",
            "kernel.c",
            "-",
            "--",
            "-f",
            "-m",
            "-Wl,-rpath,/x",
            "-Wa,--x",
            "-Wp,-D",
            "-lblas",
            "-L/usr/lib",
            "-I/usr/include",
            "-Dx=1",
            "-Ux",
            "-fuse-ld=gold",
            "-flto",
            "-fsanitize=address",
            "-fdump-tree-all",
            "-fopt-info-vec=x",
            "-m32",
            "-mllvm",
            "-Xclang",
            "-fmodules-ts",
            "-fexternal-blas",
            "-fexceptions",
            "-fdiagnostics-format=json",
            "-E",
            "-S",
            "-c",
            "-shared",
            "-static",
            "-nostdlib",
            "-T",
            "-fprofile-dir=/tmp",
            "-march=native;true",
            "-O2$(x)",
            "\u{2212}O2",
        ] {
            let refused = parse(flag);
            assert!(
                matches!(&refused, Err(e) if e.flag == flag && e.to_string().contains("not permitted")),
                "{flag}: {refused:?}"
            );
        }
    }
}
