//! The audit of a candidate's shared object.
//!
//! The source scan refuses constructs that the source shows; this audit refuses what reached the object nevertheless.
//! The object is linked without start files, so a plain kernel has no code that runs at load time. The audit uses exact
//! lists of symbols, sections and libraries, and examines every machine instruction.

#[cfg(not(target_arch = "x86_64"))]
#[path = "other.rs"]
mod code;
#[cfg(target_arch = "x86_64")]
#[path = "x86.rs"]
mod code;
mod lists;

use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, Failure};
use object::elf;
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolFlags, SymbolKind,
};

use lists::{LIBRARIES, OPENMP, PERMITTED, SECTIONS, is_vector_form};

/// The findings of the audit about a permitted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// True if the object calls the OpenMP library.
    pub openmp: bool,
    /// Properties of the object's machine code.
    pub code: Code,
}

/// Properties of an object's instructions; all zero where no decoder for this machine exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Code {
    /// Width of the widest vector register in use, in bits.
    pub vector_bits: u32,
    /// True if the object has instructions that only prefetch.
    pub prefetches: bool,
}

/// True for a function that compilers call for OpenMP directives, and for a query of OpenMP that a program may make.
pub fn is_openmp(function: &str) -> bool {
    OPENMP.contains(&function)
}

/// Audits `object`, which was built from a source in `language`. It may export only the function `entry`, and may call
/// only permitted library functions, none of them in `forbidden`.
pub fn audit(
    object: &[u8],
    entry: &str,
    language: Language,
    forbidden: &[String],
) -> Result<Audit, Failure> {
    let file = ElfFile64::<Endianness>::parse(object).map_err(|e| unreadable(&e))?;
    exports(&file, entry, language)?;
    let openmp = imports(&file, forbidden)?;
    sections(&file)?;
    segments(&file)?;
    libraries(&file)?;
    Ok(Audit {
        openmp,
        code: code::check(&file)?,
    })
}

/// The most bytes of the stack that a function of an object takes at once for its local variables; 0 where no decoder for this
/// machine exists or the object cannot be read.
pub fn largest_frame(object: &[u8]) -> u64 {
    ElfFile64::<Endianness>::parse(object).map_or(0, |file| code::largest_frame(&file))
}

/// Largest size of thread-local data, in bytes.
const LARGEST_OF_A_THREAD: u64 = 16 << 20;

type File<'a> = ElfFile64<'a, Endianness>;

fn refuse<T>(fault: CandidateFault, what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::candidate(fault, what))
}

/// The linker made the object, so an unreadable object is the source's fault.
fn unreadable(error: &object::Error) -> Failure {
    Failure::candidate(
        CandidateFault::ForbiddenConstruct,
        format!("the compiled object cannot be read: {error}"),
    )
}

fn exports(file: &File<'_>, entry: &str, language: Language) -> Result<(), Failure> {
    let mut found = false;
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if let SymbolFlags::Elf { st_info, .. } = symbol.flags()
            && st_info & 0xf == elf::STT_GNU_IFUNC
        {
            return refuse(
                CandidateFault::ForbiddenConstruct,
                format!(
                    "`{}` is an indirect function, which the loader resolves at load time: such functions are not permitted",
                    symbol.name().unwrap_or("a symbol")
                ),
            );
        }
    }
    for symbol in file.dynamic_symbols().filter(|s| !s.is_undefined()) {
        let name = symbol.name().map_err(|e| unreadable(&e))?;
        if name == entry {
            if symbol.kind() != SymbolKind::Text {
                return refuse(
                    CandidateFault::MissingEntry,
                    format!("`{entry}` is not a function"),
                );
            }
            found = true;
        } else if symbol.is_global() {
            return refuse(
                CandidateFault::ForbiddenConstruct,
                format!("the object exports `{name}`; it may export only `{entry}`"),
            );
        }
    }
    if found {
        return Ok(());
    }
    let mut names = file.symbols().filter_map(|s| s.name().ok());
    let what = match names.find(|name| is_mangled(name, entry, language)) {
        Some(name) => format!(
            "the source defines `{name}`, a name that C cannot call, instead of `{entry}`: {}",
            remedy(entry, language)
        ),
        None => format!("the source does not define the function `{entry}`"),
    };
    refuse(CandidateFault::MissingEntry, what)
}

/// True if `name` is the mangled form of the entry's name in this language.
fn is_mangled(name: &str, entry: &str, language: Language) -> bool {
    let lower = entry.to_ascii_lowercase();
    match language {
        Language::C | Language::Python => false,
        // In C++ a length precedes each part of a name. A digit before that length makes it another number.
        Language::Cxx => name.strip_prefix("_Z").is_some_and(|rest| {
            rest.match_indices(&format!("{}{entry}", entry.len()))
                .any(|(at, _)| !rest[..at].ends_with(|c: char| c.is_ascii_digit()))
        }),
        Language::Fortran | Language::Fortran77 => {
            name == format!("{lower}_") || name.ends_with(&format!("_MOD_{lower}"))
        }
    }
}

/// Advice how to give a function the entry's name.
fn remedy(entry: &str, language: Language) -> String {
    if language.is_fortran() {
        format!("write `bind(C, name=\"{entry}\")` after its arguments")
    } else {
        "write `extern \"C\"` before it, and give it the parameters of the prototype".to_owned()
    }
}

/// Checks the symbols that the object imports. Returns true if it imports OpenMP functions.
fn imports(file: &File<'_>, forbidden: &[String]) -> Result<bool, Failure> {
    let mut openmp = false;
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_undefined) {
        let name = symbol.name().map_err(|e| unreadable(&e))?;
        if forbidden.iter().any(|f| f == name) {
            return refuse(
                CandidateFault::ForbiddenSymbol,
                format!(
                    "`{name}` may not be called here: it does the work of this problem; write that work yourself"
                ),
            );
        }
        if OPENMP.contains(&name) {
            openmp = true;
        } else if !name.is_empty() && !PERMITTED.contains(&name) && !is_vector_form(name) {
            let why = match library(name) {
                Some(why) => format!("`{name}` {why}"),
                None => format!("`{name}` is neither defined in the source nor permitted"),
            };
            return refuse(CandidateFault::ForbiddenSymbol, why);
        }
    }
    Ok(openmp)
}

/// The reason why a name of a run-time library is refused; programs in C++ and Fortran are linked without these
/// libraries.
fn library(name: &str) -> Option<&'static str> {
    const KERNELS: [&str; 3] = ["matmul", "pack", "reshape"];
    if let Some(rest) = name.strip_prefix("_gfortran_") {
        return Some(if rest.starts_with(KERNELS[0]) {
            "is the run-time library's kernel for `matmul`, which is not permitted: write the loops yourself"
        } else if KERNELS[1..].iter().any(|k| rest.contains(k)) {
            "copies arrays in Fortran's run-time library, which is not linked: pass whole arrays with explicit shapes, and copy by loops"
        } else if rest.starts_with("st_") || rest.starts_with("transfer_") {
            "performs input or output, which is not permitted"
        } else {
            "belongs to Fortran's run-time library, which is not linked: use loops and arithmetic instead"
        });
    }
    let of_cxx = [
        "_ZSt",
        "_ZNSt",
        "_ZNKSt",
        "_ZTI",
        "_ZTVN10__cxxabiv",
        "__cxa_",
        "__gxx_",
        "_Unwind_",
    ];
    of_cxx.iter().any(|start| name.starts_with(start)).then_some(
        "belongs to the run-time library of C++, which is not linked: use no exceptions, streams, threads or run-time type information",
    )
}

fn sections(file: &File<'_>) -> Result<(), Failure> {
    for section in file.sections() {
        let name = section.name().map_err(|e| unreadable(&e))?;
        // gcc makes a separate constant section for each size and alignment.
        let plain = SECTIONS.contains(&name)
            || [".rodata.", ".note.", ".debug_"]
                .iter()
                .any(|p| name.starts_with(p));
        if plain {
            continue;
        }
        let what = match name {
            ".init_array" | ".preinit_array" | ".ctors" | ".fini_array" | ".dtors" => {
                format!(
                    "code that runs when the program is loaded or ends (`{name}`) is not permitted: use no constructors, and initialise static objects with constants"
                )
            }
            _ => format!("the object has the section `{name}`, which plain C does not produce"),
        };
        return refuse(CandidateFault::ForbiddenConstruct, what);
    }
    Ok(())
}

fn segments(file: &File<'_>) -> Result<(), Failure> {
    let endian = file.endian();
    for header in file.elf_program_headers() {
        let (kind, flags) = (header.p_type(endian), header.p_flags(endian));
        let writable_code = flags & elf::PF_W != 0 && flags & elf::PF_X != 0;
        match kind {
            elf::PT_GNU_STACK if flags & elf::PF_X != 0 => {
                return refuse(
                    CandidateFault::ForbiddenConstruct,
                    "nested functions that need an executable stack are not permitted",
                );
            }
            elf::PT_LOAD if writable_code => {
                return refuse(
                    CandidateFault::ForbiddenConstruct,
                    "the object asks for memory that is both writable and executable, which is not permitted",
                );
            }
            elf::PT_TLS if header.p_memsz(endian) > LARGEST_OF_A_THREAD => {
                return refuse(
                    CandidateFault::MemoryLimit,
                    format!(
                        "the thread-local data take {} MiB for each thread; at most {} are permitted",
                        header.p_memsz(endian) >> 20,
                        LARGEST_OF_A_THREAD >> 20
                    ),
                );
            }
            elf::PT_INTERP => {
                return refuse(
                    CandidateFault::ForbiddenConstruct,
                    "the object names its own loader, which is not permitted",
                );
            }
            _ => {}
        }
    }
    Ok(())
}

fn libraries(file: &File<'_>) -> Result<(), Failure> {
    let endian = file.endian();
    let sections = file.elf_section_table();
    let Some((dynamic, strings)) = sections
        .dynamic(endian, file.data())
        .map_err(|e| unreadable(&e))?
    else {
        return refuse(
            CandidateFault::ForbiddenConstruct,
            "the object has no dynamic section",
        );
    };
    let strings = sections
        .strings(endian, file.data(), strings)
        .map_err(|e| unreadable(&e))?;
    for entry in dynamic {
        let Some(tag) = entry.tag32(endian) else {
            continue;
        };
        match tag {
            elf::DT_NEEDED => {
                let name = entry.string(endian, strings).map_err(|e| unreadable(&e))?;
                let name = String::from_utf8_lossy(name);
                if !LIBRARIES.contains(&name.as_ref()) {
                    return refuse(
                        CandidateFault::ForbiddenSymbol,
                        format!("the library `{name}` is not permitted"),
                    );
                }
            }
            // Static thread-local data would lie in the same block as those of the loader and the thread library.
            elf::DT_FLAGS
                if entry
                    .val32(endian)
                    .is_none_or(|f| f & elf::DF_STATIC_TLS != 0) =>
            {
                return refuse(
                    CandidateFault::ForbiddenConstruct,
                    "thread-local data that the loader places at load time (the static TLS model) are not permitted",
                );
            }
            elf::DT_RPATH
            | elf::DT_RUNPATH
            | elf::DT_TEXTREL
            | elf::DT_AUXILIARY
            | elf::DT_FILTER
            | elf::DT_PREINIT_ARRAY
            | elf::DT_INIT_ARRAY
            | elf::DT_FINI_ARRAY
            | elf::DT_INIT
            | elf::DT_FINI => {
                return refuse(
                    CandidateFault::ForbiddenConstruct,
                    format!(
                        "the object has the dynamic entry {tag:#x}, which a plain kernel does not have"
                    ),
                );
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_objects_are_refused() {
        let end = audit(b"\x7fELFnothing", "f", Language::C, &[]);
        let fault = CandidateFault::ForbiddenConstruct;
        assert!(
            matches!(end, Err(Failure::Candidate { fault: f, .. }) if f == fault),
            "{end:?}"
        );
    }

    #[test]
    fn names_that_compilers_make_of_the_entry_are_known() {
        for (name, language, is) in [
            ("_Z5dgemmiPKdS0_Pd", Language::Cxx, true),
            ("_ZN4mine5dgemmEiPKdS1_Pd", Language::Cxx, true),
            ("_Z15dgemm0123456789i", Language::Cxx, false),
            ("_Z7dgemm_2i", Language::Cxx, false),
            ("dgemm_", Language::Cxx, false),
            ("dgemm_", Language::Fortran, true),
            ("__kernels_MOD_dgemm", Language::Fortran77, true),
            ("my_dgemm_", Language::Fortran, false),
            ("_Z5dgemmi", Language::C, false),
        ] {
            assert_eq!(is_mangled(name, "dgemm", language), is, "{name}");
        }
        assert!(library("_gfortran_matmul_r8").is_some_and(|w| w.contains("matmul")));
        assert!(library("_ZSt4cout").is_some_and(|w| w.contains("C++")));
        assert_eq!(library("getenv"), None);
    }
}
