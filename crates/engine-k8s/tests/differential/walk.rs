//! A cluster that grows and shrinks, known to both sides.

use crate::count::Count;
use crate::dice::Dice;
use crate::filters::{Answer, Filters};
use crate::nodes::{self, Volumes};
use crate::pods;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use muster_engine_k8s::mirror::{Change, Kind, Mirror};
use muster_engine_k8s::read::{PodKey, claim, storage_class, volume};
use muster_model::{Decision, Job, JobId, Plan, Policy, Start, TimeLimit, Timestamp};
use muster_plan_check::Violation;
use muster_planner::{Budget, NodeAnswer, Planner};
use serde_json::{Value, json};
use std::sync::Arc;

/// Whose pods muster schedules: the name that the API server fills in.
const SCHEDULER: &str = "default-scheduler";

/// One pod in so many is put before plan-check on every node.
const CHECKED: usize = 5;

/// A pod's own terms on other pods with a selector of namespaces that an empty set of labels
/// satisfies: kube-scheduler 1.36 counts pods of every namespace then, against its reference.
const ONLY_EXCLUDES: &str = "selectors of namespaces with nothing but NotIn and DoesNotExist";

pub(crate) struct Walk {
    seed: u64,
    dice: Dice,
    nodes: Vec<Value>,
    /// Those with a node.
    pods: Vec<Value>,
    volumes: Volumes,
    mirror: Mirror,
    planner: Planner,
    now: Timestamp,
    /// Names given so far.
    made: usize,
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("an object of the API")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

fn key(pod: &Value) -> PodKey {
    PodKey { namespace: text(&pod["metadata"]["namespace"]), name: name(pod) }
}

impl Walk {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let count = dice.between(4, 9);
        let nodes: Vec<Value> =
            (0..count).map(|at| nodes::node(&mut dice, &format!("n{at}"))).collect();
        let volumes = nodes::volumes(&mut dice, &nodes);
        let mirror = Mirror::new(SCHEDULER, Policy::default());
        let planner = Planner::new(mirror.state());
        let now = Timestamp::from_millis(1_000_000);
        let pods = Vec::new();
        let mut walk = Self { seed, dice, nodes, pods, volumes, mirror, planner, now, made: count };
        walk.tell();
        walk
    }

    fn take(&mut self, change: Change) {
        self.mirror.take(change, self.now).expect("the mirror takes it");
    }

    /// The mirror hears of the whole cluster.
    fn tell(&mut self) {
        let mut changes = Vec::new();
        for namespace in nodes::namespaces() {
            let labels = read(&namespace["metadata"]["labels"]);
            changes.push(Change::Namespace(name(&namespace), labels));
        }
        for told in &self.volumes.classes {
            changes.push(Change::Class(name(told), storage_class(&read::<StorageClass>(told))));
        }
        for told in &self.volumes.bound {
            let terms = volume(&read::<PersistentVolume>(told)).expect("terms");
            changes.push(Change::Volume(name(told), terms));
        }
        for told in &self.volumes.claims {
            let namespace = text(&told["metadata"]["namespace"]);
            let claim = claim(&read::<PersistentVolumeClaim>(told));
            changes.push(Change::Claim(namespace, name(told), claim));
        }
        changes.extend(self.nodes.iter().map(|node| Change::Node(Box::new(read(node)))));
        for change in changes {
            self.take(change);
        }
    }

    /// Asks about one pod, and goes on to another cluster.
    pub(crate) fn step(&mut self, filters: &mut Filters, count: &mut Count) {
        self.now = Timestamp::from_millis(self.now.millis() + 1000);
        self.made += 1;
        let label = format!("p{}", self.made);
        let (question, answer) = loop {
            let pod = pods::pod(&mut self.dice, &label);
            let question = self.question(&pod);
            let answer = filters.answer(&question);
            if answer.invalid.is_empty() {
                break (question, answer);
            }
            count.invalid += 1;
        };
        self.take(Change::Pod(Box::new(read(&answer.pod))));
        self.mirror.settle(self.now).expect("it settles");
        let excluded = excluded(&answer.pod);
        match excluded {
            Some(name) => count.excluded(name),
            None => count.answer(self.nodes.len(), &answer),
        }
        if excluded.is_none()
            && let Err(difference) = self.compare(&answer, count)
        {
            let seed = self.seed;
            count.differs(format!("MUSTER_TEST_K8S_SEED={seed}: {difference}"), &question);
        }
        self.go_on(&answer);
    }

    /// What the real filters are asked. Their informer leaves out pods that are over, and a
    /// snapshot those whose node is gone.
    fn question(&self, pod: &Value) -> Value {
        let is_there =
            |pod: &&Value| self.nodes.iter().any(|node| name(node) == pod["spec"]["nodeName"]);
        let pods: Vec<&Value> = self.pods.iter().filter(is_there).collect();
        let mut question = json!({"pod": pod, "pods": pods, "nodes": self.nodes,
            "namespaces": nodes::namespaces()});
        // Nothing else is looked at for a pod without volumes.
        if pod["spec"]["volumes"].is_array() {
            question["storageClasses"] = json!(self.volumes.classes);
            question["pvcs"] = json!(self.volumes.claims);
            question["pvs"] = json!(self.volumes.bound);
        }
        question
    }

    fn compare(&mut self, answer: &Answer, count: &mut Count) -> Result<(), String> {
        let key = key(&answer.pod);
        let Some(id) = self.mirror.job(&key) else {
            let why: Vec<String> = self.mirror.kept().map(|kept| kept.1).collect();
            return match answer.feasible.is_empty() {
                true => Ok(()),
                false => Err(format!("{key} is no job ({why:?}): {:?}", answer.feasible)),
            };
        };
        let plan = self.planner.plan(self.mirror.state(), self.now, Budget::UNLIMITED);
        let broken = self.broken(id, &plan);
        if !broken.is_empty() {
            return Err(format!("{key}: the plan breaks {broken:?}"));
        }
        for node in &self.nodes {
            let node = name(node);
            let told = self.planner.why_not_on(self.mirror.state(), id, &node, self.now);
            let Some(NodeAnswer::Waits { cause, .. }) = told else {
                return Err(format!("{key} on {node}: {told:?}"));
            };
            let real = answer.feasible.contains(&node);
            if cause.is_free() != real {
                let reasons = (answer.plugins.get(&node), answer.reasons.get(&node));
                return Err(format!("{key} on {node}: muster says {cause:?}, they {reasons:?}"));
            }
        }
        let started = plan.decisions.iter().flat_map(Decision::starts).find(|s| s.job == id);
        let started = started.map(|start| self.node_of(start));
        if started.as_ref().is_none_or(|node| !answer.feasible.contains(node))
            && (started.is_some() || !answer.feasible.is_empty())
        {
            return Err(format!("{key} starts on {started:?} of {:?}", answer.feasible));
        }
        if self.made.is_multiple_of(CHECKED) {
            count.checked += 1;
            return self.check(answer, id, &plan);
        }
        Ok(())
    }

    /// What plan-check says against the start of one job. Jobs that others have put where they
    /// would not have been are none of its business.
    fn broken(&self, id: JobId, plan: &Plan) -> Vec<Violation> {
        let mut found = muster_plan_check::check(self.mirror.state(), plan);
        found.retain(|violation| violation.jobs.contains(&id));
        found
    }

    fn node_of(&self, start: &Start) -> String {
        let node = start.placement.nodes.first().map(|share| share.node);
        let node = node.and_then(|id| self.mirror.state().nodes.get(&id));
        node.map_or_else(String::new, |node| node.name.clone())
    }

    /// What plan-check says of a start on each node: what the pod would have there is what the
    /// mirror gives it once it is bound.
    fn check(&self, answer: &Answer, id: JobId, plan: &Plan) -> Result<(), String> {
        for node in &self.nodes {
            let node = name(node);
            let mut mirror = self.mirror.clone();
            mirror
                .take(Change::Pod(Box::new(read(&bound(&answer.pod, &node)))), self.now)
                .expect("the mirror takes it");
            let job = mirror.job(&key(&answer.pod)).and_then(|id| mirror.state().jobs.get(&id));
            let placement = job.and_then(|job: &Arc<Job>| job.placement.clone());
            let Some(placement) = placement else { return Err(format!("bound to {node}: no job")) };
            let start = Start {
                job: id,
                attempt: 1,
                placement,
                time_limit: job.and_then(|job| job.spec.time_limit).unwrap_or(TimeLimit::Unlimited),
                turn: None,
            };
            let plan = Plan {
                decisions: vec![Decision::Start(vec![start])],
                promises: Vec::new(),
                ..plan.clone()
            };
            let found = self.broken(id, &plan);
            if found.is_empty() != answer.feasible.contains(&node) {
                let reasons = (answer.plugins.get(&node), answer.reasons.get(&node));
                return Err(format!(
                    "{} on {node}: plan-check says {found:?}, they {reasons:?}",
                    key(&answer.pod)
                ));
            }
        }
        Ok(())
    }

    /// The pod is bound or gone, and something else happens.
    fn go_on(&mut self, answer: &Answer) {
        let names: Vec<String> = self.nodes.iter().map(name).collect();
        let feasible: Vec<&String> = answer.feasible.iter().collect();
        let gated = answer.pod["spec"]["schedulingGates"].is_array();
        let node = match self.dice.below(20) {
            // Somebody else's doing.
            0 | 1 if !gated => Some(names[self.dice.below(names.len())].clone()),
            2 | 3 => None,
            _ if feasible.is_empty() => None,
            _ => Some(feasible[self.dice.below(feasible.len())].clone()),
        };
        match node {
            Some(node) => {
                let pod = bound(&answer.pod, &node);
                self.take(Change::Pod(Box::new(read(&pod))));
                self.pods.push(pod);
            }
            None => self.take(gone(Kind::Pod, &answer.pod)),
        }
        if !self.pods.is_empty() {
            self.change_pod();
        }
        self.change_node();
    }

    /// A pod begins to leave, is over, is gone, or is being resized in place.
    fn change_pod(&mut self) {
        let at = self.dice.below(self.pods.len());
        match self.dice.below(20) {
            0 => {
                self.pods[at]["metadata"]["deletionTimestamp"] = json!("2026-12-02T18:00:00Z");
                self.pods[at]["metadata"]["deletionGracePeriodSeconds"] = json!(30);
                let pod = Change::Pod(Box::new(read(&self.pods[at])));
                self.take(pod);
            }
            1 => {
                let mut pod = self.pods.remove(at);
                pod["status"]["phase"] = json!(self.dice.pick(&["Succeeded", "Failed"]));
                self.take(Change::Pod(Box::new(read(&pod))));
            }
            2 | 3 => {
                let pod = self.pods.remove(at);
                self.take(gone(Kind::Pod, &pod));
            }
            4 => {
                let amount = |dice: &mut Dice| json!({"cpu": dice.pick(&["100m", "1", "3"])});
                let status = json!({"name": "c0", "image": "", "imageID": "", "ready": true,
                    "restartCount": 0, "allocatedResources": amount(&mut self.dice),
                    "resources": {"requests": amount(&mut self.dice)}});
                let reason = self.dice.pick(&["Infeasible", "Deferred"]);
                let condition =
                    json!({"type": "PodResizePending", "status": "True", "reason": reason});
                self.pods[at]["status"]["containerStatuses"] = json!([status]);
                self.pods[at]["status"]["conditions"] = json!([condition]);
                let pod = Change::Pod(Box::new(read(&self.pods[at])));
                self.take(pod);
            }
            _ => {}
        }
    }

    /// A node is another than before, or another one.
    fn change_node(&mut self) {
        let at = self.dice.below(self.nodes.len());
        match self.dice.below(20) {
            0 => {
                let changed = nodes::node(&mut self.dice, &name(&self.nodes[at]));
                self.nodes[at] = changed;
                let node = Change::Node(Box::new(read(&self.nodes[at])));
                self.take(node);
            }
            1 if self.nodes.len() > 3 => {
                let node = self.nodes.remove(at);
                self.take(gone(Kind::Node, &node));
            }
            2 => {
                self.made += 1;
                let node = nodes::node(&mut self.dice, &format!("n{}", self.made));
                self.take(Change::Node(Box::new(read(&node))));
                self.nodes.push(node);
            }
            _ => {}
        }
    }
}

/// What the two sides differ in, by docs/guides/kubernetes.md: the name of it.
fn excluded(pod: &Value) -> Option<&'static str> {
    let kinds = ["podAffinity", "podAntiAffinity"].map(|kind| &pod["spec"]["affinity"][kind]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut terms = kinds.into_iter().filter_map(|kind| kind[required].as_array()).flatten();
    terms.any(|term| only_excludes(&term["namespaceSelector"])).then_some(ONLY_EXCLUDES)
}

/// True for a selector that says only which labels are not to be there.
fn only_excludes(selector: &Value) -> bool {
    let negative = |e: &Value| matches!(e["operator"].as_str(), Some("NotIn" | "DoesNotExist"));
    let expressions = selector["matchExpressions"].as_array();
    selector["matchLabels"].is_null()
        && expressions.is_some_and(|all| !all.is_empty() && all.iter().all(negative))
}

fn gone(kind: Kind, object: &Value) -> Change {
    Change::Gone(kind, text(&object["metadata"]["namespace"]), name(object))
}

fn bound(pod: &Value, node: &str) -> Value {
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = json!(node);
    pod["status"]["phase"] = json!("Running");
    pod
}
