//! Finds the cluster, checks that it serves our kinds, and starts the watches.
//!
//! # Flow
//! 1. The kubeconfig of the environment, else the service account of the pod.
//! 2. For each of our own kinds: is it served in the version that this build speaks?
//! 3. One task per selection. They end when the last handle is dropped.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::{Client, Config};
use tokio::task::JoinSet;
use vko_core::object::Kind;
use vko_core::world::ApiError;

use crate::cache::Caches;
use crate::counters::{Count, Counters};
use crate::error;
use crate::events::Events;
use crate::selection::selections;
use crate::verbs::REQUEST_DEADLINE;
use crate::watch::Watch;

/// Deadline of connecting: within that of a request, so that the error can say what is wrong.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Kinds that exist only when the CRDs were applied.
const OWN_KINDS: [Kind; 4] = Kind::INSTANCES;

/// What the operator looks after, and who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Instances of this namespace only; `None`: of all.
    pub namespace: Option<String>,
    /// Where the operator itself lives: policies are ConfigMaps there.
    pub operator_namespace: String,
    /// Name of the operator's pod, for events.
    pub pod: String,
}

/// Why the operator can't start. The variant is the metric label.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a service account.
    #[error("no way to the API server: {0}; set KUBECONFIG, or run in a pod with a service account")]
    NoConfig(String),
    /// A kubeconfig that can't be used.
    #[error("the client can't be made of the configuration: {0}")]
    BadConfig(String),
    /// Our kinds aren't there.
    #[error("the CRD {plural}.{group} is missing or has no version {version}: apply crds/ first")]
    CrdMissing {
        /// Plural of the kind.
        plural: &'static str,
        /// API group.
        group: &'static str,
        /// Version that this build speaks.
        version: &'static str,
    },
    /// The API server doesn't answer, or says no.
    #[error("the API server can't be asked for its kinds: {0}")]
    Unreachable(#[from] ApiError),
}

/// A real cluster. Cheap to clone; the watches end with the last clone.
#[derive(Clone)]
pub struct KubeWorld {
    pub(crate) client: Client,
    pub(crate) caches: Arc<Caches>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) events: Arc<Events>,
    pub(crate) origin: Instant,
    /// Only held: dropping it ends the tasks.
    _watches: Arc<JoinSet<()>>,
}

impl KubeWorld {
    /// Connects by KUBECONFIG or, in a pod, by the service account.
    ///
    /// # Errors
    /// Says what is missing and what to do about it.
    pub async fn connect(options: &Options) -> Result<Self, ConnectError> {
        let config = Config::infer().await.map_err(|error| ConnectError::NoConfig(error.to_string()))?;
        Self::with_config(config, options).await
    }

    /// Connects to a server at a URL by a token: one in memory.
    ///
    /// # Errors
    /// Says what is missing and what to do about it.
    pub async fn at(url: &str, token: &str, options: &Options) -> Result<Self, ConnectError> {
        let url = url.parse().map_err(|error| ConnectError::BadConfig(format!("{url:?} is no URL: {error}")))?;
        let mut config = Config::new(url);
        config.auth_info.token = Some(token.to_owned().into());
        Self::with_config(config, options).await
    }

    /// Connects by a given configuration, whose retries and deadlines are set to ours.
    ///
    /// # Errors
    /// Says what is missing and what to do about it.
    pub async fn with_config(mut config: Config, options: &Options) -> Result<Self, ConnectError> {
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_DEADLINE);
        let client = Client::try_from(config).map_err(|error| ConnectError::BadConfig(error.to_string()))?;
        for kind in OWN_KINDS {
            served(&client, kind).await?;
        }
        Ok(Self::start(client, options))
    }

    fn start(client: Client, options: &Options) -> Self {
        let caches = Arc::new(Caches::new(selections(options)));
        let counters = Arc::new(Counters::default());
        let origin = Instant::now();
        let mut watches = JoinSet::new();
        for (index, selection) in caches.selections().iter().cloned().enumerate() {
            let (client, caches, counters) = (client.clone(), caches.clone(), counters.clone());
            watches.spawn(Watch { client, caches, counters, index, selection, origin }.run());
        }
        let events = Arc::new(Events::new(options.pod.clone()));
        Self { client, caches, counters, events, origin, _watches: Arc::new(watches) }
    }

    /// Returns when every kind has been listed once: before, an absent object means nothing.
    pub async fn synced(&self) {
        self.caches.synced().await;
    }

    /// Requests so far, by verb, kind and outcome.
    pub fn requests(&self) -> Vec<Count> {
        self.counters.all()
    }
}

impl fmt::Debug for KubeWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeWorld").field("selections", &self.caches.selections()).finish_non_exhaustive()
    }
}

/// Whether the API server serves one of our own kinds in our version.
async fn served(client: &Client, kind: Kind) -> Result<(), ConnectError> {
    let (group, version) = kind.api_version().split_once('/').unwrap_or(("", kind.api_version()));
    let missing = || ConnectError::CrdMissing { plural: kind.plural(), group, version };
    let request = client.list_api_group_resources(kind.api_version());
    let listed = match tokio::time::timeout(REQUEST_DEADLINE, request).await {
        Ok(listed) => listed.map_err(|error| error::classify(kind, &error, REQUEST_DEADLINE)),
        Err(_) => Err(ApiError::Timeout(REQUEST_DEADLINE)),
    };
    match listed {
        Ok(list) if list.resources.iter().any(|resource| resource.name == kind.plural()) => Ok(()),
        Ok(_) | Err(ApiError::NotFound(_)) => Err(missing()),
        Err(error) => Err(error.into()),
    }
}
