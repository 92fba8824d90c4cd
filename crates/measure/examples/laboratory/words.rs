//! The command line of these programs: `--name VALUE` and `--name`.

use std::path::Path;
use std::str::FromStr;

use super::Done;

/// Arguments that the program has not read yet.
pub struct Words(Vec<String>);

impl Words {
    /// The arguments of this program.
    pub fn of_this_call() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// Was it given?
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|word| word == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// The value after a name, or `otherwise`.
    pub fn value<T: FromStr>(&mut self, name: &str, otherwise: T) -> Done<T> {
        let Some(at) = self.0.iter().position(|word| word == name) else {
            return Ok(otherwise);
        };
        self.0.remove(at);
        if at >= self.0.len() {
            return Err(format!("{name} needs a value").into());
        }
        let word = self.0.remove(at);
        word.parse()
            .map_err(|_| format!("{name} cannot be `{word}`").into())
    }

    /// Refuses arguments that the program has not read.
    pub fn nothing_else(self, usage: &str) -> Done {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(format!("what is `{}`? usage: {usage}", self.0.join(" ")).into())
    }
}

/// Writes raw numbers to the file of `--json`, if given.
pub fn keep(file: &str, numbers: &serde_json::Value) -> Done {
    if !file.is_empty() {
        std::fs::write(Path::new(file), format!("{numbers:#}\n"))?;
    }
    Ok(())
}
