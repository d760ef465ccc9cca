//! The engine contract, kept by this engine.

mod support;

use muster_engine::contract::Subject;
use muster_model::Owner;
use std::sync::Arc;
use support::Site;

fn subject() -> Subject {
    let site = Site::new();
    let engine = muster_engine_local::LocalEngine::start(site.config()).expect("engine");
    let owner = Owner {
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
        user: String::new(),
    };
    Subject::new(Arc::new(engine), site.work()).as_owner(owner).keeping(site)
}

muster_engine::contract_suite!(subject());
