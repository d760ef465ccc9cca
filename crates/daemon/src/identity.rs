//! Who is on the other end of the socket.
//!
//! The kernel says the peer's user and group id (`SO_PEERCRED`, unix(7)); they are the identity.
//! Admins are root, the user that the daemon runs as, and those whom the configuration names.

use muster_control::command::Principal;
use nix::unistd::{Uid, User, geteuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names are looked up again after this long.
const NAME_AGE: Duration = Duration::from_mins(1);

/// The most names that are kept.
const NAMES_MAX: usize = 10_000;

/// Names of user ids, kept for a while: the lookup may ask a directory service.
#[derive(Default)]
pub(crate) struct Names {
    known: Mutex<BTreeMap<u32, (String, Instant)>>,
}

impl Names {
    /// The user's name; the number as text where there is none. May wait for a directory service.
    pub(crate) fn of(&self, uid: u32) -> String {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, since)) = known.get(&uid)
            && since.elapsed() < NAME_AGE
        {
            return name.clone();
        }
        let found = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        let name = found.map_or_else(|| uid.to_string(), |user| user.name);
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        known.insert(uid, (name.clone(), Instant::now()));
        name
    }
}

/// The principal behind these credentials.
pub(crate) fn principal(names: &Names, admins: &BTreeSet<String>, uid: u32, gid: u32) -> Principal {
    let user = names.of(uid);
    let admin = uid == 0 || uid == geteuid().as_raw() || admins.contains(&user);
    Principal { uid, gid, user, admin }
}

/// The daemon itself: it may do everything.
pub(crate) fn daemon() -> Principal {
    let uid = geteuid();
    let user = User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |u| u.name);
    Principal { uid: uid.as_raw(), gid: nix::unistd::getegid().as_raw(), user, admin: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_named_users_are_admins() {
        let names = Names::default();
        let none = BTreeSet::new();
        assert!(principal(&names, &none, 0, 0).admin);
        assert!(!principal(&names, &none, 4_000_000, 1).admin);
        let named = BTreeSet::from(["4000000".to_owned()]);
        assert!(principal(&names, &named, 4_000_000, 1).admin);
    }
}
