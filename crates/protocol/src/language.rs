//! Languages of candidates, by name and by file.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Languages of candidates. Reference, baseline and magnitudes of a kernel are in C always.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// C.
    #[default]
    C,
    /// C++.
    #[serde(rename = "c++", alias = "cpp", alias = "cxx")]
    Cxx,
    /// Fortran in free form.
    Fortran,
    /// Fortran in fixed form: columns have a meaning.
    Fortran77,
    /// Python: modules are written in it, and no kernel.
    Python,
}

/// Words of C and C++ that name no function. Candidates may be in either.
const RESERVED: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t \
class compl concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default \
delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable \
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires \
restrict return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true \
try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq main";

impl Language {
    /// Is this a word that C or C++ keeps for itself, so that no function can have it for its name?
    pub fn is_reserved(word: &str) -> bool {
        RESERVED.split_whitespace().any(|reserved| reserved == word)
    }

    /// This language, unless it is `own`.
    pub fn unless(self, own: Self) -> Option<Self> {
        (self != own).then_some(self)
    }

    /// The languages of kernels, which compilers of this machine build.
    pub const ALL: [Language; 4] = [Self::C, Self::Cxx, Self::Fortran, Self::Fortran77];

    /// The language of a file, by the end of its name; none where that says nothing.
    pub fn of_file(file: &Path) -> Option<Self> {
        let end = file.extension()?.to_str()?;
        Self::ALL
            .into_iter()
            .find(|language| language.endings().contains(&end))
    }

    /// How names of its files may end.
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::C => &["c"],
            Self::Cxx => &["cpp", "cc", "cxx"],
            Self::Fortran => &["f90"],
            Self::Fortran77 => &["f"],
            Self::Python => &["py"],
        }
    }

    /// How names of its files end.
    pub fn ending(self) -> &'static str {
        self.endings()[0]
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cxx => "C++",
            Self::Fortran => "Fortran",
            Self::Fortran77 => "fixed-form Fortran",
            Self::Python => "Python",
        }
    }

    /// Is it one of the two forms of Fortran?
    pub fn is_fortran(self) -> bool {
        matches!(self, Self::Fortran | Self::Fortran77)
    }

    /// The mark of a fenced block of it.
    pub fn fence(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "cpp",
            Self::Fortran | Self::Fortran77 => "fortran",
            Self::Python => "python",
        }
    }

    /// Everything that a fenced block of it may be marked with.
    pub fn fences(self) -> &'static [&'static str] {
        match self {
            Self::C => &["", "c", "h"],
            Self::Cxx => &["", "cpp", "c++", "cc", "cxx", "c"],
            Self::Fortran | Self::Fortran77 => &["", "fortran", "f90", "f95", "f"],
            Self::Python => &["", "python", "py", "python3"],
        }
    }

    /// The standard that is asked for where a problem does not say.
    pub fn standard(self) -> Option<&'static str> {
        match self {
            Self::C => None,
            Self::Cxx => Some("-std=gnu++20"),
            Self::Fortran | Self::Fortran77 => Some("-std=gnu"),
            Self::Python => None,
        }
    }

    /// Is a flag one for this language? Those that name a standard are for one only.
    pub fn takes(self, flag: &str) -> bool {
        let Some(standard) = flag.strip_prefix("-std=") else {
            return true;
        };
        let of_cxx = standard.contains("++");
        let of_fortran = matches!(standard, "gnu" | "legacy") || standard.starts_with('f');
        match self {
            Self::C => !of_cxx && !of_fortran,
            Self::Cxx => of_cxx,
            Self::Fortran | Self::Fortran77 => of_fortran,
            Self::Python => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_tells_the_language() {
        for (file, language) in [
            ("a.c", Some(Language::C)),
            ("x/a.cc", Some(Language::Cxx)),
            ("a.cpp", Some(Language::Cxx)),
            ("a.cxx", Some(Language::Cxx)),
            ("a.f90", Some(Language::Fortran)),
            ("a.f", Some(Language::Fortran77)),
            ("a.txt", None),
            ("/dev/stdin", None),
        ] {
            assert_eq!(Language::of_file(Path::new(file)), language, "{file}");
        }
    }

    #[test]
    fn a_standard_is_for_one_language() {
        for (flag, languages) in [
            ("-O3", "CXFF"),
            ("-std=c17", "C"),
            ("-std=gnu11", "C"),
            ("-std=gnu++20", "X"),
            ("-std=c++17", "X"),
            ("-std=f2018", "FF"),
            ("-std=gnu", "FF"),
        ] {
            let takes: String = Language::ALL
                .into_iter()
                .filter(|l| l.takes(flag))
                .map(|l| match l {
                    Language::C => 'C',
                    Language::Cxx => 'X',
                    Language::Fortran | Language::Fortran77 => 'F',
                    Language::Python => 'P',
                })
                .collect();
            assert_eq!(takes, languages, "{flag}");
        }
    }
}
