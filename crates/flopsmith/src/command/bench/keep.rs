//! What the compiler made of each program, left for people to look at.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_sandbox::{Job, Kind, Limits, Sandbox};

use crate::exit::{say, usage};

/// The object's name in the jail.
const INSIDE: &str = "/kernel.so";
/// A disassembly is some ten times as long as its object.
const LONGEST: usize = 256 << 20;

/// A folder that takes shared objects and their disassembly.
pub struct Keep {
    folder: PathBuf,
    disassembler: Option<PathBuf>,
}

impl Keep {
    /// Makes the folder if need be, and says so where there will be no disassembly.
    pub fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .map_err(|e| usage(format!("cannot make the folder {}: {e}", folder.display())))?;
        let disassembler = find();
        if disassembler.is_none() {
            say(
                "there is no objdump in /usr/bin or /bin (Debian, Ubuntu: `apt install binutils`): --keep leaves shared objects alone",
            );
        }
        Ok(Self {
            folder: folder.to_owned(),
            disassembler,
        })
    }

    /// Leaves an object as `stem`.so and what is in it as `stem`.s.
    pub fn save(&self, stem: &str, object: &[u8], sandbox: &Sandbox) -> Result<()> {
        let path = self.folder.join(format!("{stem}.so"));
        write(&path, object)?;
        if let Some(disassembler) = &self.disassembler {
            let text = disassemble(disassembler, &path, sandbox)
                .with_context(|| format!("{} could not be disassembled", path.display()))?;
            write(&self.folder.join(format!("{stem}.s")), &text)?;
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// A disassembler where the compiler's jail sees it.
fn find() -> Option<PathBuf> {
    ["/usr/bin/objdump", "/bin/objdump"]
        .map(PathBuf::from)
        .into_iter()
        .find(|p| p.is_file())
}

/// Reads an object in the jail of the compiler: it may be made to mislead those who take it apart.
fn disassemble(disassembler: &Path, object: &Path, sandbox: &Sandbox) -> Result<Vec<u8>> {
    let program = [
        disassembler.as_os_str(),
        OsStr::new("-d"),
        OsStr::new(INSIDE),
    ];
    let mut job = Job::new(Kind::Compile, program);
    job.read_only
        .push((object.canonicalize()?, PathBuf::from(INSIDE)));
    job.env = vec![("LC_ALL".into(), "C".into())];
    job.limits = Limits {
        wall: Duration::from_secs(60),
        cpu: Duration::from_secs(20),
        output_bytes: LONGEST,
        ..Limits::default()
    };
    let ended = sandbox.run(&job)?;
    anyhow::ensure!(
        ended.exit.success(),
        "{} ended with {:?}: {}",
        disassembler.display(),
        ended.exit,
        String::from_utf8_lossy(&ended.stderr).trim()
    );
    Ok(ended.stdout)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_made_is_wrong_usage() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Keep::new(&file.join("below")).err().unwrap();
        assert!(error.is::<crate::exit::Usage>(), "{error:#}");
        let folder = place.path().join("made/of/several");
        Keep::new(&folder).unwrap();
        assert!(folder.is_dir());
    }
}
