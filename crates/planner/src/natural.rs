//! Names of nodes in the order in which people count.

/// A key that sorts `n2` before `n10`: digits by value, everything else by character.
pub(crate) fn natural(name: &str) -> (Vec<(String, u64)>, String) {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut number: Option<u64> = None;
    for c in name.chars() {
        match (c.to_digit(10), number) {
            (Some(d), so_far) => {
                number = Some(so_far.unwrap_or(0).saturating_mul(10).saturating_add(u64::from(d)));
            }
            (None, Some(n)) => {
                pieces.push((std::mem::take(&mut text), n));
                number = None;
                text.push(c);
            }
            (None, None) => text.push(c),
        }
    }
    pieces.push((text, number.unwrap_or(0)));
    (pieces, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["n10", "n2", "n1", "rack2n1", "rack1n12", "login"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(names, ["login", "n1", "n2", "n10", "rack1n12", "rack2n1"]);
    }
}
