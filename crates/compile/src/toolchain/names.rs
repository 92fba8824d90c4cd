//! The names of the compilers of one family.

use flopsmith_problem::Language;

/// The name of the C compiler of a family, where `compiler` may name the family's C++ compiler (`g++`).
pub(super) fn for_c(compiler: &str) -> String {
    let (folder, name) = split(compiler);
    let name = match name {
        "c++" => "cc".to_owned(),
        _ => name
            .replace("clang++", "clang")
            .replace("g++", "gcc")
            .replace("gfortran", "gcc"),
    };
    format!("{folder}{name}")
}

/// True if the name is that of a C compiler, possibly with a version or a target machine (`gcc-12`,
/// `x86_64-linux-gnu-gcc`).
pub(super) fn is_known(name: &str) -> bool {
    let parts = || name.split('-');
    parts().any(|part| matches!(part, "gcc" | "clang" | "cc"))
        && parts().all(|part| {
            part.chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
        })
}

/// True if the name is that of gcc or clang for this machine, possibly with a version (`gcc-12`).
pub(super) fn is_plain(name: &str) -> bool {
    let rest = name
        .strip_prefix("gcc")
        .or_else(|| name.strip_prefix("clang"));
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest.strip_prefix('-').is_some_and(|version| {
                !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.')
            })
    })
}

/// The Debian and Ubuntu packages of a compiler. A compiler with a version in its name has packages with the same
/// version.
pub(super) fn packages(name: &str) -> String {
    let family = if name.contains("clang") {
        "clang"
    } else {
        "gcc"
    };
    let version = name
        .strip_prefix(family)
        .and_then(|rest| rest.strip_prefix('-'))
        .filter(|v| !v.is_empty() && v.chars().all(|c| c.is_ascii_digit()));
    let (own, dash) = (
        version.unwrap_or_default(),
        if version.is_some() { "-" } else { "" },
    );
    match family {
        "clang" => format!("clang{dash}{own} libomp{dash}{own}-dev"),
        _ => format!("gcc{dash}{own} libc6-dev libgomp1"),
    }
}

/// Possible names of the compiler of `language` that belongs to a C compiler, best first.
pub(super) fn drivers(compiler: &str, language: Language) -> Vec<String> {
    let (folder, name) = split(compiler);
    let sister = |family: &str, own: &str| format!("{folder}{}", name.replacen(family, own, 1));
    match language {
        Language::C => vec![compiler.to_owned()],
        // No kernel is written in it.
        Language::Python => Vec::new(),
        Language::Cxx => vec![if name.contains("clang") {
            sister("clang", "clang++")
        } else if name.contains("gcc") {
            sister("gcc", "g++")
        } else if name == "cc" {
            format!("{folder}c++")
        } else {
            "g++".to_owned()
        }],
        // The versions of gfortran and the C compiler may differ here, because no Fortran library is linked.
        Language::Fortran | Language::Fortran77 => {
            let mut names = Vec::new();
            if name.contains("gcc") {
                names.push(sister("gcc", "gfortran"));
            }
            if names.iter().all(|n| n != "gfortran") {
                names.push("gfortran".to_owned());
            }
            names
        }
    }
}

/// Splits a path into its folder, with the last slash, and its name.
fn split(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |at| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_named_alike() {
        let fortran = Language::Fortran;
        for (compiler, cxx, fortrans) in [
            ("gcc", "g++", &["gfortran"][..]),
            ("gcc-13", "g++-13", &["gfortran-13", "gfortran"]),
            (
                "/opt/gcc/bin/gcc",
                "/opt/gcc/bin/g++",
                &["/opt/gcc/bin/gfortran", "gfortran"],
            ),
            (
                "x86_64-linux-gnu-gcc-12",
                "x86_64-linux-gnu-g++-12",
                &["x86_64-linux-gnu-gfortran-12", "gfortran"],
            ),
            ("clang", "clang++", &["gfortran"]),
            ("clang-16", "clang++-16", &["gfortran"]),
            ("/usr/bin/cc", "/usr/bin/c++", &["gfortran"]),
            ("tcc-like", "g++", &["gfortran"]),
        ] {
            assert_eq!(drivers(compiler, Language::Cxx), [cxx]);
            assert_eq!(drivers(compiler, fortran), fortrans);
        }
        for (given, meant) in [
            ("g++-13", "gcc-13"),
            ("clang++", "clang"),
            ("/usr/bin/gfortran", "/usr/bin/gcc"),
            ("c++", "cc"),
            ("gcc", "gcc"),
        ] {
            assert_eq!(for_c(given), meant);
        }
        for known in ["gcc", "gcc-13", "clang-16", "cc", "x86_64-linux-gnu-gcc-12"] {
            assert!(is_known(known), "{known}");
        }
        for plain in ["gcc", "clang", "gcc-13", "clang-3.9"] {
            assert!(is_plain(plain), "{plain}");
        }
        for tool in [
            "gcc-ar",
            "gcc-ar-12",
            "clang++",
            "clangd",
            "gcc-",
            "cc",
            "g++",
        ] {
            assert!(!is_plain(tool), "{tool}");
        }
        for mistyped in ["gccc", "glang", "tcc-like", "", "gcc -O2", "gcc;ls"] {
            assert!(!is_known(mistyped), "{mistyped}");
        }
    }
}
