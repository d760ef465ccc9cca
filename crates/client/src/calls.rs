//! One method for each thing that can be asked.

use crate::query::{encode, with_query};
use crate::{Client, ClientError, Events};
use hyper::Method;
use muster_api::{
    AccountView, ActionRequest, ActionResponse, ActionResult, BackupRequest, BackupResponse,
    BandwidthView, CycleRequest, CycleResponse, DiagnosisPage, DrainRequest, EventQuery,
    HistoryPage, HistoryQuery, JobPage, JobPatch, JobRef, LicenceView, MachineSeries,
    MachineSeriesQuery, MachineView, NodePage, NodeView, PAGE_MAX, PartitionView, PayloadView,
    Ping, PlanPage, PlanQuery, PriorityPage, PriorityQuery, QosView, QueuePage, QueueQuery,
    QueueRow, ReloadResponse, ReportPage, ReservationPlan, ReservationRequest, ReservationView,
    ScriptView, SharePage, Stats, StepAccess, SubmitRequest, SubmitResponse, SwitchView, WaitQuery,
    WaitResponse, WhatIfRequest, WhatIfResponse, WhyPage, WhyQuery,
};
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct Nothing {}

impl Client {
    /// Who and where the daemon is, and who it takes the caller for.
    pub fn ping(&self) -> Result<Ping, ClientError> {
        self.get("/v1/ping")
    }

    /// What the daemon counts.
    pub fn stats(&self) -> Result<Stats, ClientError> {
        self.get("/v1/stats")
    }

    /// What this machine has and lacks.
    pub fn doctor(&self) -> Result<Value, ClientError> {
        self.get("/v1/doctor")
    }

    /// The interface's own description.
    pub fn openapi(&self) -> Result<Value, ClientError> {
        self.get("/v1/openapi.json")
    }

    /// Submits a job, or tries one (`test_only`).
    pub fn submit(&self, request: &SubmitRequest) -> Result<SubmitResponse, ClientError> {
        self.send(&Method::POST, "/v1/jobs", request)
    }

    /// One page of the queue.
    pub fn queue(&self, query: &QueueQuery) -> Result<QueuePage, ClientError> {
        self.get(&with_query("/v1/queue", query))
    }

    /// The whole queue, page by page.
    pub fn queue_all(&self, query: &QueueQuery) -> Result<Vec<QueueRow>, ClientError> {
        let mut query = QueueQuery { limit: Some(PAGE_MAX), ..query.clone() };
        let mut rows = Vec::new();
        loop {
            let page = self.queue(&query)?;
            rows.extend(page.rows);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(rows),
            }
        }
    }

    /// The jobs that a name stands for, in full.
    pub fn job(&self, job: &JobRef) -> Result<JobPage, ClientError> {
        self.get(&job_path(job, ""))
    }

    /// What holds them back while they run.
    pub fn diagnosis(&self, job: &JobRef) -> Result<DiagnosisPage, ClientError> {
        self.get(&job_path(job, "/diagnosis"))
    }

    /// What they used of what they had, in the end or so far.
    pub fn report(&self, job: &JobRef) -> Result<ReportPage, ClientError> {
        self.get(&job_path(job, "/report"))
    }

    /// Why they wait.
    pub fn why(&self, job: &JobRef) -> Result<WhyPage, ClientError> {
        self.get(&job_path(job, "/why"))
    }

    /// Why they wait, with an answer about a node or another job.
    pub fn why_beside(&self, job: &JobRef, query: &WhyQuery) -> Result<WhyPage, ClientError> {
        self.get(&with_query(&job_path(job, "/why"), query))
    }

    /// The script.
    pub fn script(&self, job: &JobRef) -> Result<ScriptView, ClientError> {
        self.get(&job_path(job, "/script"))
    }

    /// The script with its environment; the owner and admins only.
    pub fn payload(&self, job: &JobRef) -> Result<PayloadView, ClientError> {
        self.get(&job_path(job, "/payload"))
    }

    /// Waits a while for the end (or the start); the answer says whether it came.
    pub fn wait(&self, job: &JobRef, query: &WaitQuery) -> Result<WaitResponse, ClientError> {
        self.get(&with_query(&job_path(job, "/wait"), query))
    }

    /// Waits for the end, however long it takes.
    pub fn wait_over(&self, job: &JobRef) -> Result<WaitResponse, ClientError> {
        loop {
            let answer = self.wait(job, &WaitQuery { timeout_s: Some(60), started: None })?;
            if answer.over {
                return Ok(answer);
            }
        }
    }

    /// How to reach a running job's steps; the owner only.
    pub fn steps(&self, job: &JobRef) -> Result<StepAccess, ClientError> {
        self.get(&job_path(job, "/steps"))
    }

    /// Does something to jobs.
    pub fn act(&self, request: &ActionRequest) -> Result<ActionResponse, ClientError> {
        self.send(&Method::POST, "/v1/jobs/actions", request)
    }

    /// Changes a job.
    pub fn update(&self, job: &JobRef, patch: &JobPatch) -> Result<ActionResponse, ClientError> {
        self.send(&Method::PATCH, &job_path(job, ""), patch)
    }

    /// Accounting rows.
    pub fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, ClientError> {
        self.get(&with_query("/v1/history", query))
    }

    /// Every node.
    pub fn nodes(&self) -> Result<Vec<NodeView>, ClientError> {
        let mut nodes = Vec::new();
        let mut after = None;
        loop {
            let page = [("limit", Some(PAGE_MAX)), ("after", after)];
            let query: std::collections::BTreeMap<_, _> = page.into_iter().collect();
            let page: NodePage = self.get(&with_query("/v1/nodes", &query))?;
            nodes.extend(page.nodes);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(nodes),
            }
        }
    }

    /// One node.
    pub fn node(&self, name: &str) -> Result<NodeView, ClientError> {
        self.get(&node_path(name, ""))
    }

    /// Gives a node no new work.
    pub fn drain(&self, name: &str, reason: &str) -> Result<ActionResult, ClientError> {
        let body = DrainRequest { reason: reason.to_owned() };
        self.send(&Method::POST, &node_path(name, "/drain"), &body)
    }

    /// Gives it new work again.
    pub fn resume_node(&self, name: &str) -> Result<ActionResult, ClientError> {
        self.send(&Method::POST, &node_path(name, "/resume"), &Nothing {})
    }

    /// Every partition.
    pub fn partitions(&self) -> Result<Vec<PartitionView>, ClientError> {
        self.get("/v1/partitions")
    }

    /// Every account.
    pub fn accounts(&self) -> Result<Vec<AccountView>, ClientError> {
        self.get("/v1/accounts")
    }

    /// Every quality of service.
    pub fn qos(&self) -> Result<Vec<QosView>, ClientError> {
        self.get("/v1/qos")
    }

    /// Priorities of waiting jobs, all pages.
    pub fn priorities(&self, query: &PriorityQuery) -> Result<PriorityPage, ClientError> {
        let mut all = self.get::<PriorityPage>(&with_query("/v1/priority", query))?;
        while let Some(after) = all.next {
            let query = PriorityQuery { after: Some(after), ..query.clone() };
            let page = self.get::<PriorityPage>(&with_query("/v1/priority", &query))?;
            all.next = page.next;
            all.rows.extend(page.rows);
        }
        Ok(all)
    }

    /// Accounts and users with their fair shares.
    pub fn shares(&self) -> Result<SharePage, ClientError> {
        self.get("/v1/shares")
    }

    /// Every licence.
    pub fn licences(&self) -> Result<Vec<LicenceView>, ClientError> {
        self.get("/v1/licences")
    }

    /// One page of the plan.
    pub fn plan(&self, query: &PlanQuery) -> Result<PlanPage, ClientError> {
        self.get(&with_query("/v1/plan", query))
    }

    /// What the daemon's machine did over time.
    pub fn machine_series(&self, query: &MachineSeriesQuery) -> Result<MachineSeries, ClientError> {
        self.get(&with_query("/v1/machine/series", query))
    }

    /// What jobs held of a node over time, and what it did where it is the daemon's machine.
    pub fn node_series(
        &self,
        node: &str,
        query: &MachineSeriesQuery,
    ) -> Result<MachineSeries, ClientError> {
        self.get(&with_query(&node_path(node, "/series"), query))
    }

    /// Disks, filesystems and networks of the daemon's machine, and tests between nodes.
    pub fn machine(&self) -> Result<MachineView, ClientError> {
        self.get("/v1/machine")
    }

    /// Reports a test between two nodes; for admins.
    pub fn report_bandwidth(&self, test: &BandwidthView) -> Result<BandwidthView, ClientError> {
        self.send(&Method::POST, "/v1/machine/bandwidth", test)
    }

    /// Metrics in Prometheus' text format.
    pub fn metrics(&self) -> Result<String, ClientError> {
        self.get_text("/v1/metrics")
    }

    /// Every switch.
    pub fn topology(&self) -> Result<Vec<SwitchView>, ClientError> {
        self.get("/v1/topology")
    }

    /// Changes as they come.
    pub fn events(&self, query: &EventQuery) -> Result<Events<'_>, ClientError> {
        Events::open(self, &with_query("/v1/events", query))
    }

    /// Reads the configuration anew.
    pub fn reload(&self) -> Result<ReloadResponse, ClientError> {
        self.send(&Method::POST, "/v1/config/reload", &Nothing {})
    }

    /// Writes a backup while the daemon runs.
    pub fn backup(&self, path: &str) -> Result<BackupResponse, ClientError> {
        self.send(&Method::POST, "/v1/backup", &BackupRequest { path: path.to_owned() })
    }

    /// Writes the newest planning round to a file on the daemon's machine.
    pub fn cycle(&self, path: &str) -> Result<CycleResponse, ClientError> {
        self.send(&Method::POST, "/v1/cycle", &CycleRequest { path: path.to_owned() })
    }

    /// What changes would do to everybody's expected start; nothing is stored.
    pub fn whatif(&self, request: &WhatIfRequest) -> Result<WhatIfResponse, ClientError> {
        self.send(&Method::POST, "/v1/whatif", request)
    }

    /// Every reservation.
    pub fn reservations(&self) -> Result<Vec<ReservationView>, ClientError> {
        self.get("/v1/reservations")
    }

    /// Makes a reservation.
    pub fn reserve(&self, request: &ReservationRequest) -> Result<ReservationView, ClientError> {
        self.send(&Method::POST, "/v1/reservations", request)
    }

    /// The earliest time for a reservation, and whom it would delay; nothing is stored.
    pub fn plan_reservation(
        &self,
        request: &ReservationRequest,
    ) -> Result<ReservationPlan, ClientError> {
        self.send(&Method::POST, "/v1/reservations/plan", request)
    }

    /// Changes a reservation.
    pub fn update_reservation(
        &self,
        name: &str,
        request: &ReservationRequest,
    ) -> Result<ReservationView, ClientError> {
        self.send(&Method::PATCH, &reservation_path(name), request)
    }

    /// Ends a reservation.
    pub fn delete_reservation(&self, name: &str) -> Result<ReservationView, ClientError> {
        self.send(&Method::DELETE, &reservation_path(name), &Nothing {})
    }

    /// Ends the daemon; jobs go on.
    pub fn shutdown(&self) -> Result<Value, ClientError> {
        self.send(&Method::POST, "/v1/shutdown", &Nothing {})
    }
}

fn reservation_path(name: &str) -> String {
    let mut path = "/v1/reservations/".to_owned();
    encode(name, &mut path);
    path
}

fn job_path(job: &JobRef, rest: &str) -> String {
    let mut path = "/v1/jobs/".to_owned();
    encode(&job.to_string(), &mut path);
    path + rest
}

fn node_path(name: &str, rest: &str) -> String {
    let mut path = "/v1/nodes/".to_owned();
    encode(name, &mut path);
    path + rest
}
