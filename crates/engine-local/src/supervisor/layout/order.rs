//! How many tasks each node of a step takes, and which they are (srun manual, `--distribution`).

use muster_api::step::Distribution;
use muster_model::NodeOrder;

/// For each task by number: the position of its node and its number there.
pub(super) type Places = Vec<(usize, u32)>;

/// Tasks on each node that has room for so many, at least one; the rooms hold them all.
///
/// In turns, so that nodes of all sizes take equally many as long as they have room; packed, the
/// first nodes take all they can.
pub(super) fn split(distribution: Distribution, room: &[u32], tasks: u32) -> Vec<u32> {
    let mut split = vec![1_u32; room.len()];
    let mut left = tasks.saturating_sub(room.len() as u32);
    if distribution.nodes == NodeOrder::Block && distribution.pack == Some(true) {
        for (count, room) in split.iter_mut().zip(room) {
            let more = left.min(room.saturating_sub(1));
            *count += more;
            left -= more;
        }
        return split;
    }
    while left > 0 {
        let before = left;
        for (count, room) in split.iter_mut().zip(room) {
            if left > 0 && *count < *room {
                *count += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    split
}

/// Numbers the tasks: node after node, one on each node in turn, or so many on each in turn.
pub(super) fn number(distribution: Distribution, split: &[u32]) -> Places {
    let turn = match distribution.nodes {
        NodeOrder::Block | NodeOrder::Arbitrary => u32::MAX,
        NodeOrder::Cyclic => 1,
        NodeOrder::Plane(size) => size.max(1),
    };
    let mut given = vec![0_u32; split.len()];
    let mut places = Places::new();
    while given.iter().zip(split).any(|(given, count)| given < count) {
        for (node, count) in split.iter().enumerate() {
            let until = given[node].saturating_add(turn).min(*count);
            places.extend((given[node]..until).map(|local| (node, local)));
            given[node] = until;
        }
    }
    places
}

/// Tasks as a list of hosts has them; the list names only these nodes.
pub(super) fn by_hosts(hosts: &[String], nodes: &[&str]) -> (Vec<u32>, Places) {
    let mut split = vec![0_u32; nodes.len()];
    let mut places = Places::new();
    for host in hosts {
        let Some(node) = nodes.iter().position(|name| name == host) else { continue };
        places.push((node, split[node]));
        split[node] += 1;
    }
    (split, places)
}

#[cfg(test)]
mod tests {
    use super::{number, split};
    use muster_api::step::Distribution;
    use muster_model::NodeOrder;

    fn of(nodes: NodeOrder) -> Distribution {
        Distribution { nodes, ..Distribution::default() }
    }

    /// The tasks of each node.
    fn laid(distribution: Distribution, room: &[u32], tasks: u32) -> Vec<Vec<u32>> {
        let split = split(distribution, room, tasks);
        let mut nodes = vec![Vec::new(); room.len()];
        for (task, (node, local)) in number(distribution, &split).into_iter().enumerate() {
            assert_eq!(nodes[node].len() as u32, local);
            nodes[node].push(task as u32);
        }
        nodes
    }

    #[test]
    fn the_manuals_examples() {
        // srun manual: four tasks on three nodes of two CPUs.
        assert_eq!(laid(of(NodeOrder::Block), &[2, 2, 2], 4), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(laid(of(NodeOrder::Cyclic), &[2, 2, 2], 4), [vec![0, 3], vec![1], vec![2]]);
        // Slurm's step layout, remarks: nodes of 4, 2, 4, 2 CPUs, and planes of two on 4, 1, 1.
        assert_eq!(
            laid(of(NodeOrder::Cyclic), &[4, 2, 4, 2], 12),
            [vec![0, 4, 8, 10], vec![1, 5], vec![2, 6, 9, 11], vec![3, 7]]
        );
        let planes = laid(of(NodeOrder::Plane(2)), &[4, 1, 1], 6);
        assert_eq!(planes, [vec![0, 1, 4, 5], vec![2], vec![3]]);
        // 21 tasks on four nodes in planes of four (Slurm's page on planes).
        let planes = laid(of(NodeOrder::Plane(4)), &[8, 8, 8, 8], 21);
        assert_eq!(planes[0], [0, 1, 2, 3, 16, 17]);
        assert_eq!(planes[3], [12, 13, 14, 15, 20]);
        assert_eq!(planes.iter().map(Vec::len).collect::<Vec<_>>(), [6, 5, 5, 5]);
    }

    #[test]
    fn a_block_is_even_unless_it_is_packed() {
        let pack = |pack| Distribution { pack, ..Distribution::default() };
        assert_eq!(split(pack(None), &[4, 4], 5), [3, 2]);
        assert_eq!(split(pack(Some(false)), &[4, 4], 5), [3, 2]);
        assert_eq!(split(pack(Some(true)), &[4, 4], 5), [4, 1]);
        let cyclic = Distribution { nodes: NodeOrder::Cyclic, ..pack(Some(true)) };
        assert_eq!(split(cyclic, &[4, 4], 5), [3, 2]);
        // More tasks than there is room are never asked of it; it ends all the same.
        assert_eq!(split(pack(None), &[1, 1], 5), [1, 1]);
    }
}
