//! The environment that goes with a submission.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// This process's environment as text, and the names of variables that are left out because they are not
/// UTF-8: a job would get others than it was given.
pub fn environment() -> (BTreeMap<String, String>, Vec<String>) {
    of(std::env::vars_os())
}

fn of(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut texts, mut left_out) = (BTreeMap::new(), Vec::new());
    for (name, value) in variables {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => drop(texts.insert(name, value)),
            (Ok(name), Err(_)) => left_out.push(name),
            (Err(name), _) => left_out.push(name.to_string_lossy().into_owned()),
        }
    }
    (texts, left_out)
}

/// What is said of a variable that is left out.
pub fn left_out(name: &str) -> String {
    format!("warning: {name} is left out of the job's environment: it is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::of;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn what_is_not_text_is_left_out_and_named() {
        let raw = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let all = [
            (raw(b"A"), raw("é".as_bytes())),
            (raw(b"LAT"), raw(b"caf\xe9")),
            (raw(b"N\xe9"), raw(b"1")),
        ];
        let (texts, left_out) = of(all.into_iter());
        assert_eq!(texts, [("A".to_owned(), "é".to_owned())].into());
        assert_eq!(left_out, ["LAT", "N\u{fffd}"]);
    }
}
