//! A reservation as clients see it.

use crate::{ReservationView, ReservedNodeView};
use muster_model::{Reservation, State, Timestamp};

impl ReservationView {
    /// The reservation with the names of its nodes.
    pub fn of(state: &State, r: &Reservation, now: Timestamp) -> Self {
        let (mut cpus, mut gpus) = (0, 0);
        let nodes = r.nodes.iter().filter_map(|reserved| {
            let node = state.nodes.get(&reserved.node)?;
            Some(match &reserved.part {
                None => {
                    cpus += node.cpus.len();
                    gpus += node.devices.len() as u32;
                    let name = node.name.clone();
                    ReservedNodeView { name, whole: true, ..ReservedNodeView::default() }
                }
                Some(part) => {
                    cpus += part.cpus.len();
                    gpus += part.devices.len() as u32;
                    ReservedNodeView {
                        name: node.name.clone(),
                        whole: false,
                        cpus: part.cpus.to_string(),
                        gpus: part.devices.clone(),
                    }
                }
            })
        });
        let nodes = nodes.collect();
        let floats = |start: Timestamp| r.float.map_or(start, |away| now.plus(away));
        let end = match (r.float, r.window.length()) {
            (Some(away), Some(length)) => now.plus(away).plus(length),
            (Some(_), None) => Timestamp::NEVER,
            (None, _) => r.window.end,
        };
        let groups: Vec<&str> = r.access.groups.iter().map(|g| g.name.as_str()).collect();
        Self {
            name: r.name.clone(),
            start_ms: floats(r.window.start),
            end_ms: (end != Timestamp::NEVER).then_some(end),
            float_s: r.float.map(|away| away.0),
            active: r.is_active(now),
            later_ms: r.later.iter().map(|w| w.start).collect(),
            rule: r.repeat.as_ref().map(|repeat| repeat.rule.clone()),
            tz: r.repeat.as_ref().map(|repeat| &repeat.zone).or(r.zone.as_ref()).cloned(),
            standing: r.standing.is_some(),
            nodes,
            cpus,
            gpus,
            licences: r.licences.clone(),
            partition: r.want.partition.clone(),
            features: r.want.request.constraint.as_ref().map(ToString::to_string),
            users: r.access.users.text(),
            accounts: r.access.accounts.text(),
            groups: groups.join(","),
            flags: r.flags.iter().map(|flag| flag.word().to_owned()).collect(),
            purge_s: r.purge.map(|after| after.0),
            comment: r.comment.clone(),
            by: r.by.clone(),
        }
    }
}
