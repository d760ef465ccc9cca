//! Which file is read.

use crate::read::FILE_MAX;
use crate::{Config, ConfigError};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The file of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path.
    pub path: PathBuf,
    /// What says so: `--config`, `MUSTER_CONFIG` or `default`.
    pub origin: &'static str,
    /// It may be absent: nobody asked for it by name.
    pub optional: bool,
}

impl Source {
    /// The file that was asked for, or the usual one: `/etc/muster/muster.toml` for root, else
    /// `$XDG_CONFIG_HOME/muster/muster.toml` (`~/.config`).
    pub fn find(option: Option<&Path>) -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        if let Some(path) = option {
            return Self { path: path.to_owned(), origin: "--config", optional: false };
        }
        if let Some(path) = variable("MUSTER_CONFIG") {
            return Self { path: path.into(), origin: "MUSTER_CONFIG", optional: false };
        }
        let personal = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| {
            variable("HOME").filter(|h| h != "/root").map(|h| Path::new(&h).join(".config"))
        });
        let own = personal.map(|dir| dir.join("muster/muster.toml")).filter(|p| p.exists());
        let path = own.unwrap_or_else(|| "/etc/muster/muster.toml".into());
        Self { path, origin: "default", optional: true }
    }

    /// Reads and checks it; the defaults where it is optional and absent.
    ///
    /// # Errors
    /// It cannot be read, or everything that is wrong with it.
    pub fn read(&self) -> Result<Config, ConfigError> {
        match self.text()? {
            Some(text) => Config::parse(&text, &self.path.to_string_lossy()),
            None => Ok(Config::default()),
        }
    }

    /// Its text; `None` where it is optional and absent.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn text(&self) -> Result<Option<String>, ConfigError> {
        let name = self.path.to_string_lossy();
        let fail = |error: &dyn std::fmt::Display, hint: &str| {
            ConfigError::of_file("E_CONFIG_FILE", &name, format!("cannot be read: {error}"), hint)
        };
        let file = match std::fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.optional => {
                return Ok(None);
            }
            Err(error) => {
                let hint = format!("{} names this file", self.origin);
                return Err(fail(&error, &hint));
            }
        };
        let mut text = String::new();
        let read = file.take(FILE_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| fail(&error, "the file is text in UTF-8"))?;
        if text.len() as u64 > FILE_MAX {
            return Err(fail(&"larger than 4 MiB", "a configuration is a small file"));
        }
        Ok(Some(text))
    }
}

/// The configuration that the environment names, or the usual one.
///
/// # Errors
/// It cannot be read, or everything that is wrong with it.
pub fn read_default() -> Result<Config, ConfigError> {
    Source::find(None).read()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_optional_file_may_be_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no.toml");
        let mut source = Source { path, origin: "default", optional: true };
        assert_eq!(source.read().unwrap(), Config::default());
        source.optional = false;
        assert_eq!(source.read().unwrap_err().code(), "E_CONFIG_FILE");
    }
}
