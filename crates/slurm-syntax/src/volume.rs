//! What a job needs of files, as `SOURCE:TARGET[:ro]`: a folder or a claim, and where it is seen.

use crate::problem::{Code, Problem, quoted};
use crate::values::path;
use muster_model::Volume;

/// Reads one.
///
/// # Errors
/// It has not the two parts, or the target is no absolute path.
pub fn parse(text: &str) -> Result<Volume, Problem> {
    let bad = |why: &str| {
        Problem::new(Code::ValueBad, format!("{} is not a volume: {why}", quoted(text)))
            .hint("write SOURCE:TARGET or SOURCE:TARGET:ro, for example /data:/data:ro")
    };
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, read_only) = match parts[..] {
        [source, target] | [source, target, "rw"] => (source, target, false),
        [source, target, "ro"] => (source, target, true),
        _ => return Err(bad("it has not two parts")),
    };
    if source.is_empty() || !target.starts_with('/') {
        return Err(bad("the target is an absolute path, and the source is not empty"));
    }
    Ok(Volume { source: path(source)?, target: path(target)?, read_only })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn volumes_have_source_and_target() {
        let volume = parse("/data:/mnt:ro").expect("good");
        assert_eq!((volume.source.as_str(), volume.read_only), ("/data", true));
        for bad in ["", "/data", "/data:mnt", ":/mnt", "/a:/b:xx", "a:/b:ro:c"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
