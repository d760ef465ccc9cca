//! Folding node names into a host list, `node[1-4,7]`, as Slurm's variables carry it.

/// Folds names into a host list; the order is kept and only neighbours are joined.
///
/// `gpu08, gpu09, gpu10, login` becomes `gpu[08-10],login`. Numbers keep their width; a name
/// without a number at its end stands for itself.
pub fn fold_hosts<S: AsRef<str>>(names: &[S]) -> String {
    let mut groups: Vec<(String, Vec<(&str, &str)>)> = Vec::new();
    for name in names {
        let name = name.as_ref();
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (prefix, number) = name.split_at(name.len() - digits);
        match groups.last_mut() {
            Some((last, spans)) if last == prefix && !number.is_empty() && !spans.is_empty() => {
                let (_, end) = spans[spans.len() - 1];
                if follows(end, number) {
                    let at = spans.len() - 1;
                    spans[at].1 = number;
                } else {
                    spans.push((number, number));
                }
            }
            _ if number.is_empty() => groups.push((prefix.to_owned(), Vec::new())),
            _ => groups.push((prefix.to_owned(), vec![(number, number)])),
        }
    }
    groups.iter().map(|(prefix, spans)| render(prefix, spans)).collect::<Vec<_>>().join(",")
}

/// Whether `number` is the one after `last`, written with the same width.
fn follows(last: &str, number: &str) -> bool {
    let same_width =
        last.len() == number.len() || !(last.starts_with('0') || number.starts_with('0'));
    match (last.parse::<u64>(), number.parse::<u64>()) {
        (Ok(a), Ok(b)) => same_width && a.checked_add(1) == Some(b),
        _ => false,
    }
}

fn render(prefix: &str, spans: &[(&str, &str)]) -> String {
    match spans {
        [] => prefix.to_owned(),
        [(first, last)] if first == last => format!("{prefix}{first}"),
        _ => {
            let inside: Vec<String> = spans
                .iter()
                .map(|(a, b)| if a == b { (*a).to_owned() } else { format!("{a}-{b}") })
                .collect();
            format!("{prefix}[{}]", inside.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fold_hosts;

    #[test]
    fn neighbours_join_and_widths_stay() {
        for (names, folded) in [
            (vec!["n1", "n2", "n3"], "n[1-3]"),
            (vec!["n1", "n3", "n4"], "n[1,3-4]"),
            (vec!["gpu08", "gpu09", "gpu10", "login"], "gpu[08-10],login"),
            (vec!["n9", "n10"], "n[9-10]"),
            (vec!["n09", "n10", "n100"], "n[09-10,100]"),
            (vec!["a", "a"], "a,a"),
            (vec!["n1"], "n1"),
            (vec!["n2", "n1"], "n[2,1]"),
            (vec![], ""),
        ] {
            assert_eq!(fold_hosts(&names), folded, "{names:?}");
        }
    }
}
