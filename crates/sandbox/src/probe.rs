//! Finds out which protective measures work on this machine.

use crate::cause::{self, Cause};
use crate::error::Error;
use crate::filter;
use crate::job::{Exit, Job, Kind, Limits};
use crate::protection::Measure;
use crate::root::Roots;
use crate::sandbox::{Sandbox, Without};

impl Sandbox {
    /// Tries the full jail; if it fails, finds out which measures cause the failure.
    pub(crate) fn probe(&mut self) -> Result<(), Error> {
        let mut lost: Vec<(Measure, String)> = Vec::new();
        if let Err(first) = self.probe_with(Without {
            filter: true,
            ..Without::default()
        }) {
            let attempts = [
                Without {
                    cgroup_namespace: true,
                    filter: true,
                    ..Without::default()
                },
                Without {
                    network: true,
                    filter: true,
                    ..Without::default()
                },
                Without {
                    network: true,
                    cgroup_namespace: true,
                    filter: true,
                },
            ];
            // A limit that is too low fails these attempts as well, and would fail the jobs.
            if matches!(first, Error::Limit { .. }) {
                return Err(first);
            }
            let why = first.to_string();
            let cause = match &first {
                Error::Setup { detail } => Some(cause::find(detail)),
                _ => None,
            };
            let works = attempts.into_iter().find(|a| self.probe_with(*a).is_ok());
            let Some(works) = works else {
                return Err(match (first, cause) {
                    (Error::Setup { detail }, Some(cause)) => Error::Refused { detail, cause },
                    (first, _) => first,
                });
            };
            self.cause = cause.filter(|cause| *cause != Cause::Unknown);
            if works.cgroup_namespace {
                lost.push((Measure::CgroupNamespace, why.clone()));
            }
            if works.network {
                lost.push((Measure::NoNetwork, why));
            }
            self.without = works;
        }
        self.without.filter = false;
        if let Err(why) = self.probe_filter() {
            self.without.filter = true;
            lost.push((Measure::SystemCalls, why));
        }
        for measure in [
            Measure::Namespaces,
            Measure::CgroupNamespace,
            Measure::NoNetwork,
            Measure::SystemCalls,
            Measure::Limits,
        ] {
            let why = lost
                .iter()
                .find(|(m, _)| *m == measure)
                .map(|(_, why)| why.clone());
            self.protection.set(measure, why);
        }
        Ok(())
    }

    pub(crate) fn probe_job() -> Job {
        let mut job = Job::new(Kind::Run { threads: 1 }, [Roots::loader(), "--version"]);
        // Small limits: the probe tests the jail, and whether the machine has more resources shows when a job asks for
        // them.
        job.limits = Limits {
            memory_bytes: 256 << 20,
            file_bytes: 0,
            open_files: 16,
            stack_bytes: 1 << 20,
            ..Limits::default()
        };
        job
    }

    /// Starts a jail and fails if it does not work or if it shares a namespace with this process.
    fn probe_with(&self, without: Without) -> Result<(), Error> {
        let inspect = |pid: i32| {
            let mut names = vec!["user", "pid", "mnt", "ipc", "uts"];
            names.extend((!without.network).then_some("net"));
            names.extend((!without.cgroup_namespace).then_some("cgroup"));
            for name in names {
                let of = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/{name}"));
                match (of("self"), of(&pid.to_string())) {
                    (Ok(ours), Ok(theirs)) if ours != theirs => {}
                    _ => {
                        return Err(Error::Setup {
                            detail: format!("the jail shares the {name} namespace of this process"),
                        });
                    }
                }
            }
            Ok(())
        };
        let finished = self
            .start(&Self::probe_job(), &[], without, inspect)?
            .wait()?;
        if finished.exit.success() && !finished.stdout.is_empty() {
            return Ok(());
        }
        Err(Error::Setup {
            detail: format!(
                "a harmless program ended with {:?}: {}",
                finished.exit,
                String::from_utf8_lossy(&finished.stderr).trim()
            ),
        })
    }

    /// Fails if filters are not in effect or if the allow-list kills a harmless program.
    fn probe_filter(&self) -> Result<(), String> {
        let killing = filter::probe().map_err(|e| e.to_string())?;
        let end = self
            .start(&Self::probe_job(), &[&killing], self.without, |_| Ok(()))
            .and_then(|mut child| child.wait())
            .map_err(|e| e.to_string())?;
        if end.exit != Exit::ForbiddenSyscall {
            return Err(format!(
                "a program that made a forbidden system call ended with {:?}",
                end.exit
            ));
        }
        let end = self.run(&Self::probe_job()).map_err(|e| e.to_string())?;
        if !end.exit.success() {
            return Err(format!("a harmless program ended with {:?}", end.exit));
        }
        Ok(())
    }
}
