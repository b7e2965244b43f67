//! One field of one Secret: where a cluster's kubeconfig leads.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::debug;

use super::cluster::{ANSWER, Cluster, secrets};
use crate::{access::led, managers, snapshot::Kubeconfig, store::Name};

impl Cluster {
    /// Leads the kubeconfig of a cluster to a server, as the leader of the managers. `None` where
    /// nothing was learnt: another leads, or the API server does not answer.
    pub async fn lead(&self, cluster: &Name, server: &str) -> Option<Kubeconfig> {
        let left = self.left()?;
        let client = self.client();
        let all: Api<DynamicObject> = Api::namespaced_with(client, &cluster.namespace, &secrets());
        let work = lead(&all, cluster, server);
        match timeout(left.min(ANSWER), work).await.ok()? {
            Ok(found) => Some(found),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let namespace = &cluster.namespace;
                Some(Kubeconfig::Forbidden(format!(
                    "{{apiGroups: [\"\"], resources: [\"secrets\"], resourceNames: \
                     [\"{}-kubeconfig\"], verbs: [\"get\", \"patch\"]}} in namespace {namespace}",
                    cluster.name
                )))
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                debug!(error, %cluster, "a kubeconfig was not led; it is tried again");
                None
            }
        }
    }
}

async fn lead(
    all: &Api<DynamicObject>,
    cluster: &Name,
    server: &str,
) -> Result<Kubeconfig, kube::Error> {
    let name = format!("{}-kubeconfig", cluster.name);
    let Some(secret) = all.get_opt(&name).await? else {
        return Ok(Kubeconfig::Missing);
    };
    let value = secret.data.pointer("/data/value").and_then(Value::as_str);
    let text = value.and_then(|value| String::from_utf8(STANDARD.decode(value).ok()?).ok());
    let Some(text) = text else {
        return Ok(Kubeconfig::Unusable("it has no text in `value`".to_owned()));
    };
    match led(&text, server) {
        Ok(None) => {}
        Ok(Some(text)) => {
            let meta = &secret.metadata;
            let body = json!({
                "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                "data": {"value": STANDARD.encode(text)},
            });
            let how = PatchParams {
                field_manager: Some(managers::ACCESS.to_owned()),
                ..PatchParams::default()
            };
            all.patch(&name, &how, &Patch::Merge(body)).await?;
        }
        Err(why) => return Ok(Kubeconfig::Unusable(why.to_owned())),
    }
    Ok(Kubeconfig::Leads(server.to_owned()))
}
