//! What a site applies, as tests apply it.

use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use std::path::Path;

/// Where objects of the kinds that the manifest has are made.
fn url(kind: &str, namespace: Option<&str>) -> String {
    let (group, plural) = match kind {
        "Namespace" => ("api/v1", "namespaces"),
        "ServiceAccount" => ("api/v1", "serviceaccounts"),
        "ClusterRole" => ("apis/rbac.authorization.k8s.io/v1", "clusterroles"),
        "ClusterRoleBinding" => ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
        "Role" => ("apis/rbac.authorization.k8s.io/v1", "roles"),
        "RoleBinding" => ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        other => panic!("the manifest has a {other}"),
    };
    match namespace {
        Some(namespace) => format!("/{group}/namespaces/{namespace}/{plural}"),
        None => format!("/{group}/{plural}"),
    }
}

/// The first value of a field of a document.
fn field<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    document.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim)
}

/// Makes every object of a file of `packaging/kubernetes`, as it is written.
pub(crate) async fn install(client: &Client, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    let file = folder.join(name);
    let manifest = std::fs::read_to_string(file).expect("the manifest");
    for document in manifest.split("\n---\n") {
        let kind = field(document, "kind:").expect("a kind");
        let namespaced = !matches!(kind, "Namespace" | "ClusterRole" | "ClusterRoleBinding");
        let namespace = namespaced.then(|| field(document, "namespace:").expect("a namespace"));
        let request = Request::new(url(kind, namespace));
        let made = request.create(&PostParams::default(), document.as_bytes().to_vec());
        let mut request = made.expect("a request");
        let yaml = "application/yaml".parse().expect("a type");
        request.headers_mut().insert("content-type", yaml);
        match client.request_text(request).await {
            Ok(_) => {}
            // The bed makes the namespace, or a test before this one made it.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{kind}: {error}"),
        }
    }
}
