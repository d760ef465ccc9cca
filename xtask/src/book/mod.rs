//! The book in `docs/`: links, the pages of codes, and the parts that are made from the source.

mod codes;
mod links;
mod lists;

use crate::args::Args;
use crate::root;
use crate::stage::{Report, verdict};

/// `cargo xtask book`: writes the generated parts.
pub(crate) fn main(words: &[String]) -> Result<(), String> {
    Args::new(words).finish()?;
    for (file, text) in lists::all()? {
        let path = root::dir().join(&file);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("wrote {}", file.display());
    }
    Ok(())
}

/// Checks of the Markdown files.
pub(crate) fn checks(report: &mut Report) {
    report.check("links", || verdict(&links::broken_links()?));
    report.check("table of contents", || verdict(&links::unlisted_pages()?));
    report.check("pages of codes", || verdict(&codes::violations()?));
    report.check("generated parts", || verdict(&lists::stale()?));
}
