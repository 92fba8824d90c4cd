//! The choice of a problem's workloads.

use clap::Args as ClapArgs;

/// The workloads at which programs are timed.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Workloads {
    /// Time programs at this workload of the problem, by its name, e.g. n=256; may be repeated. `first` stands for the first
    /// workload of each problem. Without this flag programs are timed at all workloads, and their numbers are geometric
    /// means. Numbers of different selections are not comparable.
    #[arg(long = "workload", value_name = "NAME")]
    pub names: Vec<String>,
}
