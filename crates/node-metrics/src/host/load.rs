//! `/proc/loadavg`.

use std::path::Path;

use crate::files::{ReadError, read};

/// Tasks that run or wait to run, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Over a minute.
    pub one: f64,
    /// Over five.
    pub five: f64,
    /// Over fifteen.
    pub fifteen: f64,
}

/// Reads it.
///
/// # Errors
/// The file cannot be read or understood.
pub fn load(root: &Path) -> Result<Load, ReadError> {
    let path = "proc/loadavg";
    let text = read(root, path)?;
    let mut words = text.split_ascii_whitespace().map(str::parse);
    match (words.next(), words.next(), words.next()) {
        (Some(Ok(one)), Some(Ok(five)), Some(Ok(fifteen))) => Ok(Load { one, five, fifteen }),
        _ => Err(ReadError::Garbled(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, load};
    use crate::test_tree::tree;

    #[test]
    fn three_averages_or_none() {
        let root = tree("proc/loadavg: 0.50 1.25 2.00 3/400 5000");
        assert_eq!(load(root.path()), Ok(Load { one: 0.5, five: 1.25, fifteen: 2.0 }));
        let root = tree("proc/loadavg: 0.50 x");
        assert!(load(root.path()).is_err());
    }
}
