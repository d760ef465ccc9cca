//! The step socket: who connects, and what each asks for.

use std::os::fd::AsRawFd;

use muster_api::step::{
    Allocation, AllocationNode, Connection, Event, Frame, Message, Order, Request, WireError,
    fold_hosts,
};
use nix::sys::socket::{SockFlag, accept4, getsockopt, sockopt};

use super::wait::Source;
use super::{Body, Supervisor};
use crate::environment::batch_environment;
use crate::machine::boot_clock_ms;
use crate::spec::{Poke, TerminalSize};

/// The most connections at a time.
const CLIENTS_MAX: usize = 512;

/// One connection.
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) connection: Connection,
    /// It may give the daemon's orders.
    is_daemon: bool,
    pub(super) role: Role,
}

/// What a connection is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing yet.
    Fresh,
    /// It wants a step, which waits.
    Waiting,
    /// It runs a step.
    Step(u32),
    /// It holds the allocation.
    Holder,
    /// It is attached to the terminal.
    Attached,
}

impl Supervisor<'_> {
    pub(super) fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let own = nix::unistd::geteuid().as_raw();
        while let Ok(fd) = accept4(listener, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK) {
            let Ok(peer) = getsockopt(&fd, sockopt::PeerCredentials) else { continue };
            let allowed = [self.spec.user.uid, own, 0].contains(&peer.uid());
            if !allowed || self.clients.len() >= CLIENTS_MAX {
                continue;
            }
            self.client_next += 1;
            self.clients.push(Client {
                id: self.client_next,
                connection: Connection::new(fd),
                is_daemon: [own, 0].contains(&peer.uid()),
                role: Role::Fresh,
            });
        }
    }

    pub(super) fn client_ready(&mut self, id: u64) {
        loop {
            let Some(client) = self.client(id) else { return };
            match client.connection.try_recv() {
                Ok(Some(frame)) => self.handle(id, &frame),
                Ok(None) => return,
                Err(WireError::Closed) => return self.drop_client(id),
                Err(error) => {
                    self.refuse(id, "step.malformed", &error.to_string(), None);
                    self.flush_clients();
                    return self.drop_client(id);
                }
            }
        }
    }

    pub(super) fn client(&mut self, id: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|c| c.id == id)
    }

    pub(super) fn send(&mut self, id: u64, event: &Event) {
        if let Some(client) = self.client(id)
            && client.connection.queue(event).is_err()
        {
            self.drop_client(id);
        }
    }

    pub(super) fn refuse(&mut self, id: u64, code: &str, message: &str, hint: Option<&str>) {
        let event = Event::Refused {
            code: code.to_owned(),
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
        };
        self.send(id, &event);
    }

    /// Forgets a connection; what depended on it ends.
    pub(super) fn drop_client(&mut self, id: u64) {
        let Some(at) = self.clients.iter().position(|c| c.id == id) else { return };
        match self.clients.remove(at).role {
            Role::Waiting => self.steps.forget_waiting(id),
            Role::Step(step) => self.steps.client_left(step),
            Role::Holder => self.release(muster_api::step::ExitStatus::SUCCESS),
            Role::Fresh | Role::Attached => {}
        }
    }

    /// Ends a held allocation.
    fn release(&mut self, status: muster_api::step::ExitStatus) {
        if matches!(self.body, Body::Held { .. }) {
            self.body = Body::Over { status, failure: None };
        }
    }

    pub(super) fn flush_clients(&mut self) {
        self.queue_step_events();
        let broken: Vec<u64> = self
            .clients
            .iter_mut()
            .filter(|c| c.connection.has_queued())
            .filter_map(|c| c.connection.flush().is_err().then_some(c.id))
            .collect();
        for id in broken {
            self.drop_client(id);
        }
    }

    /// Events that steps have for their clients.
    pub(super) fn queue_step_events(&mut self) {
        for (id, event) in self.steps.take_events() {
            if let Event::Created { step, .. } = &event {
                let step = *step;
                if let Some(client) = self.client(id) {
                    client.role = Role::Step(step);
                }
            }
            if let Event::StepEnded { .. } = &event
                && let Some(client) = self.client(id)
            {
                client.role = Role::Fresh;
            }
            self.send(id, &event);
        }
        for poke in self.steps.take_records() {
            self.tell(&Poke::Step { key: self.key, step: poke });
        }
    }

    /// Tells those who hold the allocation or watch its terminal.
    pub(super) fn tell_holders(&mut self, event: &Event) {
        let ids: Vec<u64> = self
            .clients
            .iter()
            .filter(|c| matches!(c.role, Role::Holder | Role::Attached))
            .map(|c| c.id)
            .collect();
        for id in ids {
            self.send(id, event);
        }
    }

    /// Connections with something to send.
    pub(super) fn queued_sources(&self) -> Vec<(Source, i32, bool)> {
        use std::os::fd::AsFd;
        self.clients
            .iter()
            .filter(|c| c.connection.has_queued())
            .map(|c| (Source::Client(c.id), c.connection.as_fd().as_raw_fd(), true))
            .collect()
    }

    fn handle(&mut self, id: u64, frame: &Frame) {
        if let Message::Data(bytes) = &frame.message {
            if self.client(id).is_some_and(|c| c.role == Role::Attached)
                && let Some(terminal) = &mut self.terminal
            {
                terminal.type_in(bytes);
            }
            return;
        }
        let request = match frame.message.parse::<Request>() {
            Ok(request) => request,
            Err(error) => return self.refuse(id, "step.malformed", &error.to_string(), None),
        };
        match request {
            Request::CreateStep(spec) => self.create_step(id, *spec),
            Request::Launch { tasks } => self.launch_tasks(id, &tasks, &frame.fds),
            Request::Signal { signal, step } => self.signal_request(id, signal, step),
            Request::Hold => self.hold(id),
            Request::Release { status } => {
                if self.client(id).is_some_and(|c| c.role == Role::Holder) {
                    self.release(status);
                }
            }
            Request::Attach { rows, columns } => self.attach(id, TerminalSize { rows, columns }),
            Request::Resize { rows, columns } => {
                if let Some(terminal) = &self.terminal {
                    terminal.resize(TerminalSize { rows, columns });
                }
            }
            Request::Describe => {
                let allocation = self.describe();
                self.send(id, &Event::Allocation(Box::new(allocation)));
            }
            Request::Order(order) => self.obey(id, &order),
        }
    }

    fn signal_request(&mut self, id: u64, signal: u8, step: Option<u32>) {
        let own = match self.client(id).map(|c| c.role) {
            Some(Role::Step(step)) => Some(step),
            _ => None,
        };
        let (Some(step), Ok(signal)) =
            (step.or(own), nix::sys::signal::Signal::try_from(i32::from(signal)))
        else {
            return self.refuse(id, "step.signal", "no such step or signal", None);
        };
        self.steps.signal(step, signal);
    }

    fn hold(&mut self, id: u64) {
        if !matches!(self.body, Body::Held { .. }) {
            let message = "the job runs a script and is not held by a client";
            return self.refuse(id, "step.not_held", message, None);
        }
        self.body = Body::Held { until: None };
        if let Some(client) = self.client(id) {
            client.role = Role::Holder;
        }
        let allocation = self.describe();
        self.send(id, &Event::Held(Box::new(allocation)));
    }

    fn describe(&self) -> Allocation {
        let names: Vec<&str> = self.spec.nodes.iter().map(|n| n.name.as_str()).collect();
        Allocation {
            job: u64::from(self.key.job),
            nodes: self
                .spec
                .nodes
                .iter()
                .map(|n| AllocationNode {
                    name: n.name.clone(),
                    cpus: n.cpus,
                    gpus: n.gpus.iter().map(|g| g.index).collect(),
                    memory_mib: n.memory_mib,
                })
                .collect(),
            nodelist: fold_hosts(&names),
            time_left_s: self.timer.left_s(boot_clock_ms()),
            environment: batch_environment(&self.spec, self.run_facts()).into_iter().collect(),
            steps: self.steps.running(),
        }
    }

    fn obey(&mut self, id: u64, order: &Order) {
        if !self.client(id).is_some_and(|c| c.is_daemon) {
            return self.refuse(
                id,
                "step.not_allowed",
                "only the daemon may give this order",
                None,
            );
        }
        match order {
            Order::Terminate { cause, grace_s } => {
                // Answered first: signals to ten thousand processes that die of them take longer
                // than the daemon waits.
                self.send(id, &Event::Done);
                self.flush_clients();
                return self.begin_stop(cause.clone(), *grace_s);
            }
            Order::Signal { number, signal, scope } => {
                if *number > self.signalled {
                    self.signalled = *number;
                    self.signal(*signal, *scope);
                    self.tell(&Poke::Signalled { key: self.key, number: *number });
                }
            }
            Order::Suspend => self.suspend(),
            Order::Resume => self.resume(),
            Order::Resize { nodes, grace_s } => self.resize(nodes, *grace_s),
            Order::SetTimeLimit { limit_s } => {
                self.timer.set_limit(*limit_s);
                self.spec.limits.time_s = *limit_s;
            }
            Order::Report => {
                let report = Event::Report {
                    suspended: self.timer.is_suspended(),
                    signalled: self.signalled,
                    steps: self.steps.records(),
                };
                return self.send(id, &report);
            }
        }
        self.send(id, &Event::Done);
    }
}
