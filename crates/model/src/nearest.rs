//! The nearest right word to a wrong one.

/// The candidate most like `word`, if one is near enough to be meant.
///
/// Near means at most a third of the letters wrong (at least one, at most three), or that the
/// word is the beginning of exactly one candidate. Ties go to the earlier candidate.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    if lower.is_empty() || lower.len() > 64 {
        return None;
    }
    let allowed = (lower.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut begins: Vec<&str> = Vec::new();
    for candidate in candidates {
        let candidate_lower = candidate.to_lowercase();
        if lower.len() >= 3 && candidate_lower.starts_with(&lower) {
            begins.push(candidate);
        }
        let distance = strsim::osa_distance(&lower, &candidate_lower);
        if distance <= allowed && best.is_none_or(|(so_far, _)| distance < so_far) {
            best = Some((distance, candidate));
        }
    }
    match begins[..] {
        [only] => Some(only),
        _ => best.map(|(_, candidate)| candidate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let words = ["partition", "parsable", "nodelist", "nodes"];
        assert_eq!(nearest("partion", words), Some("partition"));
        assert_eq!(nearest("noeds", words), Some("nodes"));
        assert_eq!(nearest("parti", words), Some("partition"));
        assert_eq!(nearest("quux", words), None);
        assert_eq!(nearest("", words), None);
        let names = ["gpu", "main", "debug"];
        assert_eq!(nearest("mian", names), Some("main"));
        assert_eq!(nearest("debgu", names), Some("debug"));
        assert_eq!(nearest("batch", names), None);
    }
}
