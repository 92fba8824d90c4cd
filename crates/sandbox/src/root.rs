//! The root folders that jails see.
//!
//! A run jail's root holds copies of the loader and of the C library's files and nothing else, so a program in it can
//! reach no BLAS, no shell and no compiler. Mounting one prepared folder is also faster than mounting each file. A
//! compile jail's root holds the mount points for the host's `/usr`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;

use crate::error::Error;
use crate::job::Kind;
use crate::{place, proc};

/// Libraries that a dynamically linked C or Rust program may need, and whether each must exist on the host.
const LIBRARIES: &[(&str, bool)] = &[
    ("libc.so.6", true),
    ("libm.so.6", true),
    // The vector versions of `libm`'s functions, where the C library has them.
    ("libmvec.so.1", false),
    ("libgcc_s.so.1", false),
    ("libgomp.so.1", false),
    // The OpenMP runtime of clang.
    ("libomp.so.5", false),
    // Today's C library keeps these files empty, but older programs link to them.
    ("libpthread.so.0", false),
    ("libdl.so.2", false),
    ("librt.so.1", false),
];

#[cfg(target_arch = "x86_64")]
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
#[cfg(target_arch = "x86_64")]
const MULTIARCH: &str = "x86_64-linux-gnu";
#[cfg(target_arch = "aarch64")]
const LOADER: &str = "/lib/ld-linux-aarch64.so.1";
#[cfg(target_arch = "aarch64")]
const MULTIARCH: &str = "aarch64-linux-gnu";

const PREFIX: &str = "flopsmith-jail-";

/// The prepared roots; removed on drop.
pub(crate) struct Roots {
    folder: TempDir,
    /// Locked as long as the roots are in use: a process number alone does not show whether its owner is dead or lives
    /// in another container.
    _lock: Flock<File>,
    /// Folders of the host that a compile jail mounts at the same path.
    pub compile_binds: Vec<PathBuf>,
}

impl Roots {
    /// Prepares both roots.
    pub fn new() -> Result<Self, Error> {
        let above = std::env::temp_dir();
        end_orphans(&above);
        sweep(&above);
        let folder = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .tempdir()
            .map_err(|source| Error::Root {
                what: "make a folder in",
                path: above.clone(),
                source,
            })?;
        // A folder that is bound into a jail keeps `noexec`: the loader could not run and no object could be loaded.
        if place::forbids_programs(folder.path()) {
            return Err(Error::NoExec { folder: above });
        }
        let path = folder.path().join("lock");
        let lock = File::create(&path)
            .and_then(|file| {
                Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e.into())
            })
            .map_err(|source| Error::Root {
                what: "lock",
                path,
                source,
            })?;
        let mut roots = Roots {
            folder,
            _lock: lock,
            compile_binds: Vec::new(),
        };
        make_folder(&roots.scratch())?;
        roots.prepare_run()?;
        roots.prepare_compile()?;
        Ok(roots)
    }

    /// The root of jails of `kind`, on the host.
    pub fn of(&self, kind: Kind) -> PathBuf {
        self.folder.path().join(match kind {
            Kind::Compile => "compile",
            Kind::Run { .. } | Kind::Fork { .. } => "run",
        })
    }

    /// A folder for files of jobs. It is removed together with the roots, also when this process was killed.
    pub fn scratch(&self) -> PathBuf {
        self.folder.path().join("scratch")
    }

    /// The loader's path inside every jail. The loader is a program that always exists there.
    pub fn loader() -> &'static str {
        LOADER
    }

    fn prepare_run(&self) -> Result<(), Error> {
        let root = self.of(Kind::Run { threads: 1 });
        make_folder(&root.join("tmp"))?;
        copy(Path::new(LOADER), &root.join(&LOADER[1..]))?;
        for (name, needed) in LIBRARIES {
            match find(name) {
                // The library keeps its path, because this machine's loader searches the folder where the library was
                // found.
                Some(path) => copy(&path, &root.join(path.strip_prefix("/").unwrap_or(&path)))?,
                None if *needed => {
                    return Err(Error::NoLibrary {
                        name,
                        looked: library_folders().join(", "),
                    });
                }
                None => {}
            }
        }
        Ok(())
    }

    fn prepare_compile(&mut self) -> Result<(), Error> {
        let root = self.of(Kind::Compile);
        make_folder(&root.join("tmp"))?;
        for name in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            let (host, inside) = (Path::new("/").join(name), root.join(name));
            let Ok(kind) = fs::symlink_metadata(&host) else {
                continue;
            };
            if kind.is_symlink() {
                // The host has a merged /usr, so the jail gets the same link.
                copy_link(&host, &inside)?;
            } else if kind.is_dir() {
                make_folder(&inside)?;
                self.compile_binds.push(host);
            }
        }
        make_folder(&root.join("etc/alternatives"))?;
        if let Ok(entries) = fs::read_dir("/etc/alternatives") {
            for entry in entries.flatten() {
                let inside = root.join("etc/alternatives").join(entry.file_name());
                if entry.file_type().is_ok_and(|t| t.is_symlink()) {
                    copy_link(&entry.path(), &inside)?;
                }
            }
        }
        let cache = Path::new("/etc/ld.so.cache");
        if cache.exists() {
            copy(cache, &root.join("etc/ld.so.cache"))?;
        }
        Ok(())
    }

    /// Makes sure that a file or folder, as `host` is, can be mounted at `inside`.
    pub fn mount_point(&self, kind: Kind, host: &Path, inside: &Path) -> Result<(), Error> {
        let plain = inside.is_absolute()
            && inside
                .components()
                .all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
        if !plain {
            return Err(Error::Job(format!(
                "`{}` is no absolute path without `..`",
                inside.display()
            )));
        }
        // bubblewrap itself makes mount points in a fresh /tmp.
        let fresh = inside.starts_with("/tmp");
        let bound = kind == Kind::Compile
            && self
                .compile_binds
                .iter()
                .any(|bind| inside.starts_with(bind));
        if fresh || bound {
            return Ok(());
        }
        let at = self
            .of(kind)
            .join(inside.strip_prefix("/").unwrap_or(inside));
        if at.exists() {
            return Ok(());
        }
        if host.is_dir() {
            return make_folder(&at);
        }
        if let Some(parent) = at.parent() {
            make_folder(parent)?;
        }
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&at)
            .map(drop)
            .map_err(|source| Error::Root {
                what: "make the mount point",
                path: at,
                source,
            })
    }
}

fn library_folders() -> Vec<String> {
    vec![
        format!("/lib/{MULTIARCH}"),
        format!("/usr/lib/{MULTIARCH}"),
        "/lib64".into(),
        "/usr/lib64".into(),
        "/lib".into(),
        "/usr/lib".into(),
    ]
}

fn find(name: &str) -> Option<PathBuf> {
    library_folders()
        .iter()
        .map(|f| Path::new(f).join(name))
        .find(|p| p.exists())
}

fn make_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::Root {
        what: "make the folder",
        path: path.into(),
        source,
    })
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(parent) = to.parent() {
        make_folder(parent)?;
    }
    fs::copy(from, to)
        .and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(0o555)))
        .map_err(|source| Error::Root {
            what: "copy into the jail's root",
            path: from.into(),
            source,
        })
}

fn copy_link(from: &Path, to: &Path) -> Result<(), Error> {
    fs::read_link(from)
        .and_then(|target| symlink(target, to))
        .map_err(|source| Error::Root {
            what: "copy the link",
            path: from.into(),
            source,
        })
}

/// Ends jails whose sandbox is gone.
///
/// bubblewrap asks the kernel to end the program with its parent only right before it starts the program. If a
/// supervisor is killed while it starts a jail, the jail's process stays: it waits for ever for bubblewrap's first
/// process, or it goes on to start the program, with its limits in effect.
fn end_orphans(above: &Path) {
    let Ok(entries) = fs::read_dir("/proc") else {
        return;
    };
    let numbers = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    for pid in numbers {
        // The handle is opened first: from then on it cannot refer to another process, even if the kernel reuses the
        // number.
        if let Ok(handle) = proc::open_pidfd(pid)
            && let Some(name) = root_of(pid).or_else(|| root_to_be(pid))
            && is_abandoned(&above.join(name))
        {
            tracing::info!(pid, "ending a jail whose sandbox is gone");
            proc::kill(&handle);
        }
    }
}

/// The name of our folder that a process has as its root; none if its root is another folder.
fn root_of(pid: i32) -> Option<String> {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
    // Fields: id, parent, device, the folder in its file system, the mount point.
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (folder, at) = (fields.next()?, fields.next()?);
        (at == "/" && folder.contains(PREFIX)).then_some(folder)
    })?;
    let name = root[root.find(PREFIX)?..].split('/').next()?;
    Some(name.to_owned())
}

/// The name of our folder that a process of bubblewrap is about to make its root.
fn root_to_be(pid: i32) -> Option<String> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut arguments = command.split(|byte| *byte == 0);
    if arguments.next()? != b"bwrap" {
        return None;
    }
    let path =
        arguments.find_map(|a| std::str::from_utf8(a).ok().filter(|a| a.contains(PREFIX)))?;
    let name = path[path.find(PREFIX)?..].split('/').next()?;
    Some(name.to_owned())
}

/// True if the process that made this root is gone.
fn is_abandoned(root: &Path) -> bool {
    let name = root.file_name().and_then(|n| n.to_str());
    let owner = name
        .and_then(|n| n.strip_prefix(PREFIX)?.split('-').next())
        .and_then(|n| n.parse::<u32>().ok());
    let Some(owner) = owner else {
        return false;
    };
    if Path::new("/proc").join(owner.to_string()).exists() {
        return false;
    }
    match File::open(root.join("lock")) {
        Ok(lock) => Flock::lock(lock, FlockArg::LockExclusiveNonblock).is_ok(),
        Err(_) => !root.exists(),
    }
}

/// Removes roots that were left over because their process was killed.
fn sweep(above: &Path) {
    let Ok(entries) = fs::read_dir(above) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|n| n.starts_with(PREFIX))
            && is_abandoned(&entry.path())
            && let Err(error) = fs::remove_dir_all(entry.path())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(path = %entry.path().display(), %error, "an old jail root could not be removed");
        }
    }
}
