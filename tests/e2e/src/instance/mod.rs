//! An instance under test. Names are written out here a second time: people's scripts rely on them.

mod shards;
mod wanted;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vko_script::target;

pub use self::wanted::{Arch, MEMBERS_OF_SENTINELS, Wanted, on_its_family};
use crate::entrance::{Directory, Entrance};
use crate::server::Login;
use crate::{Result, kubectl, operator, wait};

/// A pod is scheduled, its images are there: seconds. A busy machine, a sync and a promotion come on top.
pub const READY: Duration = Duration::from_secs(180);

/// How long a looked-up name is good: much less than an outage, and one request a second while nobody answers.
const RESOLVED: Duration = Duration::from_secs(1);

/// Sentinels' name for the data set.
pub const MONITOR: &str = "mymaster";

/// One that exists.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its architecture.
    pub arch: Arch,
}

/// A pod, as far as tests look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Address.
    pub ip: String,
    /// Node.
    pub node: String,
    /// Role label: empty in a cluster.
    pub role: String,
    /// Its StatefulSet.
    pub workload: String,
    /// Restarts of its containers.
    pub restarts: u64,
}

impl Pod {
    fn new(object: &Value) -> Self {
        let target::Pod { name, uid, ip, node, workload, .. } = target::Pod::of(object);
        let role = object["metadata"]["labels"]["valkey.buf.red/role"].as_str().unwrap_or_default().to_owned();
        let statuses = object["status"]["containerStatuses"].as_array().into_iter().flatten();
        let restarts = statuses.filter_map(|status| status["restartCount"].as_u64()).sum();
        Self { name, uid, ip, node, role, workload, restarts }
    }
}

impl Pod {
    /// Number of the shard that it belongs to, in a cluster.
    fn shard(&self) -> Result<u32> {
        let number = self.workload.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        number.with_context(|| format!("{} is in no shard of a cluster", self.name))
    }

    /// Whether a Sentinel is in it.
    pub fn is_sentinel(&self) -> bool {
        self.name.starts_with("rfs-")
    }
}

impl Instance {
    /// Asks for one, without waiting.
    ///
    /// # Errors
    /// It is refused.
    pub fn apply(namespace: &str, name: &str, wanted: &Wanted) -> Result<Self> {
        kubectl::apply(namespace, &wanted.manifest(name)?.to_string())?;
        Ok(Self { namespace: namespace.into(), name: name.into(), arch: wanted.arch })
    }

    /// Asks for one and waits until it is ready.
    ///
    /// # Errors
    /// It is refused, or doesn't get ready.
    pub fn create(namespace: &str, name: &str, wanted: &Wanted) -> Result<Self> {
        let instance = Self::apply(namespace, name, wanted)?;
        instance.wait_ready()?;
        instance.wait_reachable()?;
        Ok(instance)
    }

    /// Waits until both Services lead somewhere: nodes learn of endpoints a moment after the instance is ready.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_reachable(&self) -> Result {
        for login in self.services()? {
            wait::until(&format!("{} to lead to a server", login.address), Duration::from_secs(20), || {
                let answer: String = login.ask(&["PING"])?;
                Ok(wait::Look::when((answer == "PONG").then_some(()), || answer))
            })?;
        }
        Ok(())
    }

    /// `valkey/NAME`.
    pub fn target(&self) -> String {
        format!("valkey/{}", self.name)
    }

    /// The object.
    ///
    /// # Errors
    /// It isn't there.
    pub fn object(&self) -> Result<Value> {
        kubectl::must_get(&self.namespace, &self.target())
    }

    /// Waits as people do: `kubectl wait --for=condition=Ready`.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_ready(&self) -> Result {
        kubectl::wait(&self.namespace, &self.target(), "condition=Ready", READY)
    }

    /// Waits until the condition has a status.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_condition(&self, kind: &str, status: &str, deadline: Duration) -> Result<Value> {
        self.wait_condition_with(kind, ("status", status), deadline)
    }

    /// Waits until a condition of the `Valkey` has a reason.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_reason(&self, kind: &str, reason: &str, deadline: Duration) -> Result {
        self.wait_condition_with(kind, ("reason", reason), deadline).map(|_| ())
    }

    fn wait_condition_with(&self, kind: &str, (field, wanted): (&str, &str), deadline: Duration) -> Result<Value> {
        let fields = format!("metadata.name={}", self.name);
        let watched = kubectl::named(&self.namespace, "valkeys", &fields);
        kubectl::watch_until(&format!("{kind} to be {wanted}"), watched, deadline, |_, valkey| {
            condition(valkey, kind).is_some_and(|condition| condition[field] == wanted)
        })
    }

    /// Waits until it is ready again after something was done to it: a new primary that is not `former`, as many ready members as
    /// declared.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_primary_other_than(&self, former: &Pod) -> Result<Pod> {
        let labels = format!("buf.red/name={},valkey.buf.red/role=master", self.name);
        let watched = kubectl::Watched { namespace: &self.namespace, kind: "pods", fields: "", labels: &labels };
        let former = former.uid.clone();
        let pod = kubectl::watch_until("another primary", watched, READY, |kind, pod| {
            kind != "DELETED" && pod["metadata"]["uid"] != former.as_str()
        })?;
        Ok(Pod::new(&pod))
    }

    /// Waits until it has so many pods (servers and Sentinels) each of them Ready and none going, the status names as many,
    /// and Ready is True for the newest generation. The status alone may still be the one from before what the test just did.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_settled(&self, pods: usize) -> Result {
        self.wait_pods_ready(pods)?;
        let fields = format!("metadata.name={}", self.name);
        let watched = kubectl::named(&self.namespace, "valkeys", &fields);
        kubectl::watch_until(&format!("{pods} pods and Ready"), watched, READY, |_, valkey| {
            let nodes = valkey["status"]["nodes"].as_array().map_or(0, Vec::len);
            nodes == pods && is_ready(valkey)
        })
        .map(|_| ())
    }

    fn wait_pods_ready(&self, wanted: usize) -> Result {
        let mut ready = BTreeMap::new();
        self.watch_pods(&format!("{wanted} pods, each Ready"), |kind, object| {
            let pod = target::Pod::of(object);
            if kind == "DELETED" {
                ready.remove(&pod.name);
            } else {
                ready.insert(pod.name, pod.ready && !pod.deleting);
            }
            ready.len() == wanted && ready.values().all(|ready| *ready)
        })
    }

    /// Watches all its pods until an event satisfies.
    fn watch_pods(&self, what: &str, satisfied: impl FnMut(&str, &Value) -> bool) -> Result {
        let labels = format!("buf.red/name={}", self.name);
        let watched = kubectl::Watched { namespace: &self.namespace, kind: "pods", fields: "", labels: &labels };
        kubectl::watch_until(what, watched, READY, satisfied).map(|_| ())
    }

    /// Its data servers' pods, by name.
    ///
    /// # Errors
    /// The request fails.
    pub fn servers(&self) -> Result<Vec<Pod>> {
        Ok(self.pods()?.into_iter().filter(|pod| !pod.is_sentinel()).collect())
    }

    /// Its own Sentinels' pods, by name.
    ///
    /// # Errors
    /// The request fails.
    pub fn sentinels(&self) -> Result<Vec<Pod>> {
        Ok(self.pods()?.into_iter().filter(Pod::is_sentinel).collect())
    }

    /// All its pods, by name.
    ///
    /// # Errors
    /// The request fails.
    pub fn pods(&self) -> Result<Vec<Pod>> {
        let mut pods: Vec<Pod> = self.pod_objects()?.iter().map(Pod::new).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pods)
    }

    /// The same, whole.
    ///
    /// # Errors
    /// The request fails.
    pub fn pod_objects(&self) -> Result<Vec<Value>> {
        kubectl::list(&self.namespace, "pods", &format!("buf.red/name={}", self.name))
    }

    /// UIDs and restarts of its pods: equal before and after means that nothing was restarted.
    ///
    /// # Errors
    /// The request fails.
    pub fn lives(&self) -> Result<Vec<(String, String, u64)>> {
        Ok(self.pods()?.into_iter().map(|pod| (pod.name, pod.uid, pod.restarts)).collect())
    }

    /// Waits until each of these lives is over: its pod is another one, or its server was started once more. What the status said
    /// meanwhile may be over before anybody could read it.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_lives_over(&self, before: &[Pod]) -> Result {
        let mut left: BTreeMap<&str, (&str, u64)> =
            before.iter().map(|pod| (pod.name.as_str(), (pod.uid.as_str(), pod.restarts))).collect();
        self.watch_pods("each pod to live anew", |kind, object| {
            let pod = Pod::new(object);
            if kind != "DELETED" && left.get(pod.name.as_str()).is_some_and(|life| *life != (pod.uid.as_str(), pod.restarts)) {
                left.remove(pod.name.as_str());
            }
            left.is_empty()
        })
    }

    /// The primary: by its label; in a cluster of the first shard, by what the servers say. There must be exactly one.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn primary(&self) -> Result<Pod> {
        if matches!(self.arch, Arch::Cluster { .. }) {
            return self.shard_primary(0);
        }
        let pods = self.servers()?;
        let mut primaries = pods.iter().filter(|pod| pod.role == "master");
        let primary = primaries.next().with_context(|| format!("no pod is labelled as primary: {pods:?}"))?;
        ensure!(primaries.next().is_none(), "more than one pod is labelled as primary: {pods:?}");
        Ok(primary.clone())
    }

    /// The primary of a shard, by what the servers say that can be asked: one may just be starting. There must be exactly one
    /// that owns slots: a member that has just started is a primary without any until it is told whom to follow.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn shard_primary(&self, shard: u32) -> Result<Pod> {
        let workload = format!("drc-{}-{shard}", self.name);
        let (mut primaries, mut silent) = (Vec::new(), Vec::new());
        for pod in self.servers()?.into_iter().filter(|pod| pod.workload == workload && !pod.ip.is_empty()) {
            match self.at(&pod, "default")?.ask::<String>(&["CLUSTER", "NODES"]) {
                Ok(nodes) if owns_slots(&nodes) => primaries.push(pod),
                Ok(_) => {}
                Err(error) => silent.push(format!("{}: {error:#}", pod.name)),
            }
        }
        let [primary] = primaries.as_slice() else {
            bail!("{workload} has these primaries: {primaries:?}; no answer: {silent:?}")
        };
        Ok(primary.clone())
    }

    /// Waits until a shard has another primary than a pod.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_shard_primary_other_than(&self, shard: u32, former: &Pod) -> Result<Pod> {
        kubectl::look_until("another primary of the shard", READY, || {
            let found = self.shard_primary(shard)?;
            let other = found.uid != former.uid;
            Ok(wait::Look::when(other.then_some(found.clone()), || format!("{found:?}")))
        })
    }

    /// Waits until another one than a former primary has its role: of its shard, in a cluster.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_successor(&self, former: &Pod) -> Result {
        let successor = match self.arch {
            Arch::Cluster { .. } => self.wait_shard_primary_other_than(former.shard()?, former),
            Arch::Replica | Arch::Failover { .. } => self.wait_primary_other_than(former),
        };
        successor.map(|_| ())
    }

    /// An account's password.
    ///
    /// # Errors
    /// Its Secret isn't there, or holds none.
    pub fn password(&self, account: &str) -> Result<String> {
        let secret = format!("secret/{}-acl-{}-{account}-secret", self.arch.topology(), self.name);
        let secret = kubectl::must_get(&self.namespace, &secret)?;
        password_in(&secret)?.with_context(|| format!("the Secret of {account} holds no password"))
    }

    /// The default user at the read-write Service.
    ///
    /// # Errors
    /// The Service or the Secret isn't there.
    pub fn writer(&self) -> Result<Login> {
        self.login(self.service("readwrite")?, "default")
    }

    /// The default user at the read-only Service.
    ///
    /// # Errors
    /// The Service or the Secret isn't there.
    pub fn reader(&self) -> Result<Login> {
        self.login(self.service("readonly")?, "default")
    }

    /// An account at a pod.
    ///
    /// # Errors
    /// The pod has no address, or the Secret isn't there.
    pub fn at(&self, pod: &Pod, account: &str) -> Result<Login> {
        let ip = pod.ip.parse().with_context(|| format!("{} has no address", pod.name))?;
        self.login(SocketAddr::new(ip, 6379), account)
    }

    /// An account at a Sentinel.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn at_sentinel(&self, pod: &Pod, account: &str) -> Result<Login> {
        let login = self.at(pod, account)?;
        Ok(Login { address: SocketAddr::new(login.address.ip(), 26379), ..login })
    }

    /// As an application of this architecture enters.
    ///
    /// # Errors
    /// A Service, a pod or the Secret isn't there.
    pub fn entrance(&self) -> Result<Entrance> {
        let password = self.password("default")?;
        Ok(match self.arch {
            Arch::Replica => self.writer()?.into(),
            Arch::Failover { .. } => Entrance::Looked(self.sentinels_by_name(password)),
            Arch::Cluster { .. } => {
                let mut seeds = vec![self.address(&self.name)?];
                seeds.extend(addresses(&self.servers()?, 6379));
                Entrance::Cluster { seeds, password }
            }
        })
    }

    /// As a client that knows Sentinels by the name of their Service: it looks them up before it connects, and a resolver
    /// remembers the answer for [`RESOLVED`]. With addresses alone it would know nobody once all Sentinels were replaced.
    fn sentinels_by_name(&self, password: String) -> Directory {
        let (instance, known) = (self.clone(), Mutex::new((None, Vec::new())));
        Directory::new(move || {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.0.is_none_or(|at: Instant| at.elapsed() >= RESOLVED) {
                let pods = instance.sentinels().unwrap_or_default();
                *known = (Some(Instant::now()), addresses(&pods, 26379));
            }
            let sentinels = known.1.clone();
            Some(Entrance::Sentinels { sentinels, monitor: MONITOR.into(), password: password.clone() })
        })
    }

    /// The default user at each Service that leads to servers.
    fn services(&self) -> Result<Vec<Login>> {
        match self.arch {
            Arch::Cluster { .. } => Ok(vec![self.login(self.address(&self.name)?, "default")?]),
            Arch::Replica | Arch::Failover { .. } => Ok(vec![self.writer()?, self.reader()?]),
        }
    }

    fn login(&self, address: SocketAddr, account: &str) -> Result<Login> {
        // The default user is the one that names no user.
        let user = if account == "default" { String::new() } else { account.to_owned() };
        Ok(Login { address, user, password: self.password(account)? })
    }

    fn service(&self, kind: &str) -> Result<SocketAddr> {
        self.address(&format!("rfr-{}-{kind}", self.name))
    }

    fn address(&self, service: &str) -> Result<SocketAddr> {
        let object = kubectl::must_get(&self.namespace, &format!("service/{service}"))?;
        let ip = object["spec"]["clusterIP"].as_str().unwrap_or_default();
        Ok(SocketAddr::new(ip.parse().with_context(|| format!("the address of the Service {service} is {ip:?}"))?, 6379))
    }

    /// Waits until a write through the read-write Service is answered.
    ///
    /// # Errors
    /// The deadline passed.
    pub fn wait_writable(&self) -> Result {
        let entrance = self.entrance()?;
        wait::until("a write to be taken", READY, || {
            let answer: String = entrance.connect()?.query(redis::cmd("SET").arg("writable").arg("yes"))?;
            Ok(wait::Look::when((answer == "OK").then_some(()), || answer))
        })
    }

    /// Scales, by changing the one field.
    ///
    /// # Errors
    /// It is refused.
    pub fn scale(&self, members: u32) -> Result {
        kubectl::patch(&self.namespace, &self.target(), &json!({"spec": {"replicas": {"replicasOfShard": members}}})).map(|_| ())
    }

    /// Nodes other than those of these pods.
    ///
    /// # Errors
    /// The request fails.
    pub fn other_nodes(&self, pods: &[Pod]) -> Result<Vec<String>> {
        let nodes = kubectl::list("default", "nodes", "")?;
        Ok(nodes.iter().map(operator::name).filter(|node| pods.iter().all(|pod| pod.node != *node)).map(str::to_owned).collect())
    }
}

/// Where these pods listen, as far as they have addresses.
fn addresses(pods: &[Pod], port: u16) -> Vec<SocketAddr> {
    pods.iter().filter_map(|pod| pod.ip.parse().ok()).map(|ip| SocketAddr::new(ip, port)).collect()
}

/// Whether Ready is True for the newest generation of a `Valkey`.
pub fn is_ready(valkey: &Value) -> bool {
    let current = valkey["status"]["observedGeneration"] == valkey["metadata"]["generation"];
    current && condition(valkey, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// The password in a Secret, if it holds one.
///
/// # Errors
/// It is no text in base64.
pub fn password_in(secret: &Value) -> Result<Option<String>> {
    let decoded = |encoded: &str| Ok(String::from_utf8(STANDARD.decode(encoded)?)?);
    secret["data"]["password"].as_str().map(decoded).transpose()
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Whether the server that answered CLUSTER NODES is a primary with slots. A line's first eight fields are of the node; ranges
/// follow, and in brackets those that are under way.
fn owns_slots(nodes: &str) -> bool {
    let own = nodes.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|fields| {
        let flags = fields.get(2).copied().unwrap_or_default();
        flags.split(',').any(|flag| flag == "myself")
    });
    own.is_some_and(|fields| {
        fields[2].split(',').any(|flag| flag == "master")
            && fields[8.min(fields.len())..].iter().any(|field| !field.starts_with('['))
    })
}
