//! What a candidate's shared object may contain.
//!
//! The source scan refuses what it can see; this refuses what arrived all the
//! same. The object is linked without start files, so a plain kernel has no
//! code that runs at load time, and everything here is an exact list: symbols,
//! sections, libraries and, instruction by instruction, machine code.

#[cfg(not(target_arch = "x86_64"))]
#[path = "other.rs"]
mod code;
#[cfg(target_arch = "x86_64")]
#[path = "x86.rs"]
mod code;
mod lists;

use flopsmith_protocol::CandidateFault;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolFlags, SymbolKind,
};

use crate::failure::Failure;
use lists::{LIBRARIES, OPENMP, PERMITTED, SECTIONS};

/// What the audit found out about a permitted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Audit {
    /// The object calls the OpenMP library.
    pub openmp: bool,
    /// Width of the widest vector register that is used, in bits; 0 where this machine's code cannot be read.
    pub vector_bits: u32,
}

/// Judges `object`, in which `entry` shall be the one function to call.
pub(crate) fn audit(object: &[u8], entry: &str) -> Result<Audit, Failure> {
    let file = ElfFile64::<Endianness>::parse(object).map_err(|e| unreadable(&e))?;
    exports(&file, entry)?;
    let openmp = imports(&file)?;
    sections(&file)?;
    segments(&file)?;
    libraries(&file)?;
    Ok(Audit {
        openmp,
        vector_bits: code::check(&file)?,
    })
}

type File<'a> = ElfFile64<'a, Endianness>;

fn refuse<T>(fault: CandidateFault, what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::candidate(fault, what))
}

/// The linker made it, so only a source can have made the linker make it.
fn unreadable(error: &object::Error) -> Failure {
    Failure::candidate(
        CandidateFault::ForbiddenConstruct,
        format!("the compiled object cannot be read: {error}"),
    )
}

fn exports(file: &File<'_>, entry: &str) -> Result<(), Failure> {
    let mut found = false;
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if let SymbolFlags::Elf { st_info, .. } = symbol.flags()
            && st_info & 0xf == elf::STT_GNU_IFUNC
        {
            return refuse(
                CandidateFault::ForbiddenConstruct,
                format!(
                    "`{}` is chosen at load time",
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
                format!("the object exports `{name}` beside `{entry}`"),
            );
        }
    }
    if found {
        Ok(())
    } else {
        refuse(
            CandidateFault::MissingEntry,
            format!("the source does not define the function `{entry}`"),
        )
    }
}

/// Checks what the object wants from others, and tells if OpenMP is among it.
fn imports(file: &File<'_>) -> Result<bool, Failure> {
    let mut openmp = false;
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_undefined) {
        let name = symbol.name().map_err(|e| unreadable(&e))?;
        if OPENMP.contains(&name) {
            openmp = true;
        } else if !name.is_empty() && !PERMITTED.contains(&name) && !name.starts_with("_ZGV") {
            return refuse(
                CandidateFault::ForbiddenSymbol,
                format!("`{name}` is neither defined in the source nor permitted"),
            );
        }
    }
    Ok(openmp)
}

fn sections(file: &File<'_>) -> Result<(), Failure> {
    for section in file.sections() {
        let name = section.name().map_err(|e| unreadable(&e))?;
        // gcc makes one constant section per size and alignment.
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
                    "code that runs when the program is loaded or ends (`{name}`) is not permitted"
                )
            }
            ".tdata" | ".tbss" => format!("thread-local data (`{name}`) is not permitted"),
            _ => format!("the section `{name}` is not one that plain C makes"),
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
                    "memory that is both writable and executable",
                );
            }
            elf::PT_TLS => {
                return refuse(
                    CandidateFault::ForbiddenConstruct,
                    "thread-local data is not permitted",
                );
            }
            elf::PT_INTERP => {
                return refuse(
                    CandidateFault::ForbiddenConstruct,
                    "the object names a loader",
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
                    format!("the dynamic entry {tag:#x} is not one that a plain kernel has"),
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
    fn what_is_no_object_is_refused() {
        let end = audit(b"\x7fELFnothing", "f");
        let fault = CandidateFault::ForbiddenConstruct;
        assert!(
            matches!(end, Err(Failure::Candidate { fault: f, .. }) if f == fault),
            "{end:?}"
        );
    }
}
