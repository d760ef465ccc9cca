//! The files and flags of the control plane.

use std::io::Read as _;
use std::path::Path;

use super::Ports;

/// Who may do everything.
const ADMIN: &str = "admin";

/// Whom muster's manifests are for, by the namespace of the service account `muster`: these have what
/// the manifests give them and nothing else. Each with its kubeconfig.
const SERVICE_ACCOUNTS: [(&str, &str); 2] =
    [("muster-system", "kubeconfig-muster"), ("muster-jobs", "kubeconfig-runner")];

/// Gangs of the upstream interface are alpha in 1.36; they need all four, everywhere.
const GATES: &str = "--feature-gates=GenericWorkload=true,GangScheduling=true,\
    TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true";

/// What keeps objects right that pods come from and hold. None that judges nodes: there is no
/// kubelet whose heartbeat could stop.
const CONTROLLERS: &str = "--controllers=job-controller,garbage-collector-controller,\
    resourceclaim-controller,disruption-controller,namespace-controller,\
    pod-garbage-collector-controller,ttl-after-finished-controller,replicaset-controller,\
    deployment-controller,statefulset-controller,persistentvolume-binder-controller,\
    ephemeral-volume-controller,resourcequota-controller,podgroup-protection-controller";

/// Writes the tokens, both kubeconfigs and the scheduler's configuration.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(dir: &Path, ports: Ports) -> std::io::Result<()> {
    let server = format!("https://127.0.0.1:{}", ports.apiserver);
    let admin = token()?;
    let mut tokens = vec![format!("{admin},{ADMIN},{ADMIN},system:masters")];
    std::fs::write(dir.join("kubeconfig"), kubeconfig(dir, &server, &admin))?;
    for (namespace, file) in SERVICE_ACCOUNTS {
        let own = token()?;
        let account = format!("system:serviceaccount:{namespace}:muster");
        let groups = format!(
            "system:serviceaccounts,system:serviceaccounts:{namespace},system:authenticated"
        );
        tokens.push(format!("{own},{account},{account},\"{groups}\""));
        std::fs::write(dir.join(file), kubeconfig(dir, &server, &own))?;
    }
    std::fs::write(dir.join("tokens.csv"), tokens.join("\n") + "\n")?;
    std::fs::write(dir.join("scheduler.yaml"), scheduler(dir))
}

/// The bed is on this host, so a token guessed by another user would be that user's root.
fn token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

fn kubeconfig(dir: &Path, server: &str, token: &str) -> String {
    let authority = dir.join("certs/apiserver.crt");
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: bed
  cluster: {{server: {server:?}, certificate-authority: \"{}\"}}
users:
- name: bed
  user: {{token: {token:?}}}
contexts:
- name: bed
  context: {{cluster: bed, user: bed}}
current-context: bed
",
        authority.display()
    )
}

/// Its own limits (50 requests a second) would be all that a comparison shows.
fn scheduler(dir: &Path) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 16
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: \"{}\", qps: 10000, burst: 10000}}
",
        dir.join("kubeconfig").display()
    )
}

/// etcd without `fsync`: nothing here has to outlive a power cut.
pub(super) fn etcd(ports: Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    [
        "--data-dir=etcd".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        "--quota-backend-bytes=8589934592".to_owned(),
        "--log-level=error".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{}", ports.etcd_peer),
    ]
    .into()
}

/// The API server. Without service accounts in pods, and without the taint that new nodes get
/// until a controller that the bed has not takes it off.
pub(super) fn apiserver(ports: Ports) -> Vec<String> {
    let mut words: Vec<String> = [
        "kube-apiserver",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=sa.pub",
        "--service-account-signing-key-file=sa.key",
        "--authorization-mode=RBAC",
        "--token-auth-file=tokens.csv",
        "--bind-address=127.0.0.1",
        // A machine without a network has a bed too.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--cert-dir=certs",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-client-certificate=kubelet.crt",
        "--kubelet-client-key=kubelet.key",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=2000",
        "--runtime-config=resource.k8s.io/v1=true,scheduling.k8s.io/v1alpha2=true",
        GATES,
    ]
    .map(ToOwned::to_owned)
    .into();
    words.push(format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd));
    words.push(format!("--secure-port={}", ports.apiserver));
    words
}

/// The controllers.
pub(super) fn manager() -> Vec<String> {
    [
        "kube-controller-manager",
        "--kubeconfig=kubeconfig",
        CONTROLLERS,
        "--leader-elect=false",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--secure-port=0",
        GATES,
    ]
    .map(ToOwned::to_owned)
    .into()
}

/// Kubernetes' own scheduler, with its metrics open to this host.
pub(super) fn peer(ports: Ports) -> Vec<String> {
    let mut words: Vec<String> = [
        "kube-scheduler",
        "--config=scheduler.yaml",
        "--authentication-skip-lookup",
        "--authorization-always-allow-paths=/metrics,/healthz,/readyz,/livez",
        "--bind-address=127.0.0.1",
        GATES,
    ]
    .map(ToOwned::to_owned)
    .into();
    words.push(format!("--secure-port={}", ports.scheduler));
    words
}
