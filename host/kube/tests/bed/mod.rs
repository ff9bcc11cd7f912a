//! An API server with our CRDs and a namespace per test: the one in memory, or with the feature `apiserver-tests` a real one,
//! found by KUBECONFIG. The same tests run against both, so that neither promises what the other doesn't keep.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use vko_api::names;
use vko_core::object::{Kind, Object, ObjectId};
use vko_core::world::{Change, Kube};
use vko_kube::{KubeWorld, Options};

/// Long enough for an image to be unpacked on a busy machine; reached only when something is wrong.
const PATIENCE: Duration = Duration::from_secs(120);

/// The world under test, and somebody else with a client of their own.
pub(crate) struct Bed {
    pub(crate) world: KubeWorld,
    pub(crate) other: Client,
    pub(crate) namespace: String,
    /// The API server, where it is in memory.
    memory: Option<Memory>,
}

/// An API server in memory and the ways in, which are only held.
#[allow(dead_code)]
struct Memory {
    bed: vko_mock::Bed,
    /// Of the world under test.
    entrance: vko_apiserver::http::Entrance,
    /// Of somebody else.
    other: vko_apiserver::http::Entrance,
}

/// Where the API server is.
async fn api_server() -> (Config, Config, Option<Memory>) {
    if cfg!(feature = "apiserver-tests") {
        let config = Config::infer().await.expect("KUBECONFIG names the API server to test against; './dev up' brings one");
        return (config.clone(), config, None);
    }
    let bed = vko_mock::Bed::new(vko_mock::Images::of_environment().unwrap()).unwrap();
    let entrance = vko_apiserver::http::serve(bed.api.clone(), "operator").await.unwrap();
    let other = vko_apiserver::http::serve(bed.api.clone(), "somebody").await.unwrap();
    let config = |entrance: &vko_apiserver::http::Entrance| {
        let mut config = Config::new(entrance.url().parse().unwrap());
        config.auth_info.token = Some(entrance.token().to_owned().into());
        config
    };
    (config(&entrance), config(&other), Some(Memory { bed, entrance, other }))
}

fn options_in(namespace: &str) -> Options {
    Options { namespace: Some(namespace.to_owned()), operator_namespace: namespace.to_owned(), pod: "operator-0".to_owned() }
}

impl Bed {
    /// Connects, with a fresh namespace for this test.
    pub(crate) async fn new(test: &str) -> Self {
        let (config, others_config, memory) = api_server().await;
        let other = Client::try_from(others_config).unwrap();
        for crd in vko_api::crd::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            apply_raw(&other, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
        }
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let namespace = format!("{test}-{stamp}");
        apply_raw(
            &other,
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        )
        .await;
        let world = connected(&config, &options_in(&namespace)).await;
        bounded(world.synced()).await;
        Self { world, other, namespace, memory }
    }

    /// What a world in the test's namespace is told.
    #[cfg(not(feature = "apiserver-tests"))]
    pub(crate) fn options(&self) -> Options {
        options_in(&self.namespace)
    }

    /// Where the API server in memory is.
    #[cfg(not(feature = "apiserver-tests"))]
    pub(crate) fn url(&self) -> String {
        self.memory.as_ref().unwrap().entrance.url()
    }

    /// What goes wrong between clients and the API server in memory.
    #[cfg(not(feature = "apiserver-tests"))]
    pub(crate) fn faults(&self) -> &vko_apiserver::fault::Faults {
        &self.memory.as_ref().unwrap().bed.api.faults
    }

    /// An object of ours in the test's namespace.
    pub(crate) fn object(&self, kind: Kind, name: &str, rest: Value) -> Value {
        let mut object = rest;
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!(self.namespace);
        object["metadata"]["labels"][names::MANAGED_BY] = json!(names::OPERATOR);
        object["metadata"]["labels"][names::INSTANCE] = json!("one");
        object
    }

    pub(crate) fn id(&self, kind: Kind, name: &str) -> ObjectId {
        ObjectId::new(kind, &self.namespace, name)
    }

    /// Path of a collection in the test's namespace.
    pub(crate) fn path(&self, root: &str, plural: &str) -> String {
        format!("/{root}/namespaces/{}/{plural}", self.namespace)
    }

    /// Somebody else's merge patch.
    pub(crate) async fn patch(&self, collection: &str, name: &str, patch: &Value) -> Object {
        let request = Request::new(collection).patch(name, &PatchParams::default(), &Patch::Merge(patch)).unwrap();
        Object::new(self.other.request(request).await.unwrap())
    }

    /// Waits until the cache looks as expected, looking again at each change.
    pub(crate) async fn until<T>(&self, what: &str, look: impl Fn(&KubeWorld) -> Option<T>) -> T {
        let mut changes = self.world.changes();
        let wait = async {
            loop {
                if let Some(found) = look(&self.world) {
                    return found;
                }
                next(&mut changes).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never seen: {what}"))
    }
}

/// The CRDs were applied a moment ago; until they are served, connecting says so.
async fn connected(config: &Config, options: &Options) -> KubeWorld {
    bounded(async {
        loop {
            match KubeWorld::with_config(config.clone(), options).await {
                Ok(world) => return world,
                Err(vko_kube::ConnectError::CrdMissing { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

/// The next change; after lagging, any.
pub(crate) async fn next(changes: &mut broadcast::Receiver<Change>) -> Option<Change> {
    match changes.recv().await {
        Ok(change) => Some(change),
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => panic!("the world has ended"),
    }
}

/// Fails instead of hanging.
pub(crate) async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("no end within two minutes")
}

pub(crate) async fn apply_raw(client: &Client, collection: &str, object: &Value) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap();
    let params = PatchParams::apply("test").force();
    client.request(Request::new(collection).patch(name, &params, &Patch::Apply(object)).unwrap()).await.unwrap()
}

pub(crate) async fn create_raw(client: &Client, collection: &str, object: &Value) -> Value {
    let body = serde_json::to_vec(object).unwrap();
    client.request(Request::new(collection).create(&PostParams::default(), body).unwrap()).await.unwrap()
}

pub(crate) async fn get_raw(client: &Client, path: &str, name: &str) -> Value {
    client.request(Request::new(path).get(name, &Default::default()).unwrap()).await.unwrap()
}
