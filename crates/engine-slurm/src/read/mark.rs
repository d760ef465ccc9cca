//! Marks: what muster changed of a job, kept in its administrator's comment.

/// What begins a mark.
const MARK: &str = "muster:";

/// What of a job muster changed, as it was before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Its own required nodes.
    pub required: String,
    /// Its own excluded nodes.
    pub excluded: String,
    /// Its own range of nodes, where it left how many to the scheduler.
    pub range: Option<NodeRange>,
    /// The priority that it had when muster held it.
    pub held: Option<u32>,
    /// What else the administrator's comment says.
    pub beside: String,
}

/// `-N2-4`, and how many CPUs it is to have at least: `scontrol` raises that with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRange {
    /// At least so many nodes.
    pub least: u32,
    /// At most so many.
    pub most: u32,
    /// CPUs.
    pub cpus: u32,
}

impl NodeRange {
    /// `2-4/2`, as in a mark.
    fn find(text: &str) -> Option<Self> {
        let (nodes, cpus) = text.split_once('/')?;
        let (least, most) = nodes.split_once('-')?;
        let [least, most, cpus] = [least, most, cpus].map(|number| number.parse().ok());
        Some(Self { least: least?, most: most?, cpus: cpus? })
    }
}

impl Mark {
    /// The mark in a comment.
    pub fn find(comment: &str) -> Option<Self> {
        let (beside, mark) = match comment.strip_prefix(MARK) {
            Some(mark) => ("", mark),
            None => {
                let (beside, mark) = comment.rsplit_once(&format!(";{MARK}"))?;
                (beside, mark)
            }
        };
        let held = mark.rsplit_once("/p").and_then(|(mark, priority)| {
            priority.parse().ok().map(|priority: u32| (mark, priority))
        });
        let (mark, held) = held.map_or((mark, None), |(mark, priority)| (mark, Some(priority)));
        let (required, mark) = mark.split_once('/')?;
        let (excluded, range) = match mark.split_once('/') {
            Some((excluded, range)) => (excluded, Some(NodeRange::find(range)?)),
            None => (mark, None),
        };
        Some(Self {
            required: required.to_owned(),
            excluded: excluded.to_owned(),
            range,
            held,
            beside: beside.to_owned(),
        })
    }

    /// The comment with the mark in it.
    pub fn comment(&self) -> String {
        let between = if self.beside.is_empty() { "" } else { ";" };
        let range = |NodeRange { least, most, cpus }| format!("/{least}-{most}/{cpus}");
        let range = self.range.map(range).unwrap_or_default();
        let held = self.held.map(|priority| format!("/p{priority}")).unwrap_or_default();
        let Self { beside, required, excluded, .. } = self;
        format!("{beside}{between}{MARK}{required}/{excluded}{range}{held}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_keeps_what_stood_there() {
        let range = Some(NodeRange { least: 2, most: 4, cpus: 8 });
        let all = [("", None, None), ("left by ada; see 12", None, Some(0)), ("é", range, Some(7))];
        for (beside, range, held) in all.into_iter().chain([("", range, None)]) {
            let mark = Mark {
                required: "n[1-2]".to_owned(),
                excluded: String::new(),
                range,
                held,
                beside: beside.to_owned(),
            };
            assert_eq!(Mark::find(&mark.comment()), Some(mark));
        }
        assert_eq!(Mark::find("muster is good"), None);
        assert_eq!(Mark::find("muster:of some kind"), None);
        assert_eq!(Mark::find("muster:n1//2 or 4"), None);
        assert_eq!(Mark::find("muster:n1//p"), None);
    }
}
