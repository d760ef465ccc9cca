//! Users and groups of this machine, by name and by number.

use nix::unistd::{Gid, Group, Uid, User};

/// The name of a user, or the number where there is none.
pub(crate) fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// The name of a group, or the number where there is none.
pub(crate) fn group_name(gid: u32) -> String {
    match Group::from_gid(Gid::from_raw(gid)) {
        Ok(Some(group)) => group.name,
        _ => gid.to_string(),
    }
}

/// The number of a user given by name or number.
pub(crate) fn uid_of(text: &str) -> Option<u32> {
    match User::from_name(text) {
        Ok(Some(user)) => Some(user.uid.as_raw()),
        _ => text.parse().ok(),
    }
}

/// The name of the person who runs this command.
pub(crate) fn own_name() -> String {
    user_name(Uid::current().as_raw())
}
