//! The operator under test: installed by Helm, as people do, or run on this machine for one namespace.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::{Result, command, kubectl, settings};

/// Release, namespace, Deployment and service account.
pub const NAME: &str = "valkey-operator";
/// What the API server calls the installed operator.
pub const USER: &str = "system:serviceaccount:valkey-operator:valkey-operator";
/// Selects its pods.
pub const SELECTOR: &str = "app.kubernetes.io/name=valkey-operator";

const ROLLOUT: Duration = Duration::from_secs(120);

/// What the tests of a file have agreed on. Files of tests may run side by side: the first use of one holds the lock file for
/// all of its uses.
struct Cluster {
    used: Used,
    held: Option<File>,
    /// What the lock file said when the operator was last installed. What a test that had the cluster for itself left, nobody
    /// knows: it writes something else there.
    installed: Option<String>,
}

/// Who uses the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Used {
    ByNobody,
    Shared(usize),
    AtRest(usize),
    Alone,
}

static CLUSTER: Mutex<Cluster> = Mutex::new(Cluster { used: Used::ByNobody, held: None, installed: None });
static FREED: Condvar = Condvar::new();

/// The cluster and its operator, as a test asked for them, until this is dropped.
#[derive(Debug)]
#[must_use = "when it is dropped, tests that need the cluster in another state begin"]
pub struct Use(());

/// For a test that keeps to its namespace: the installed operator, beside other tests.
///
/// # Errors
/// Helm or the roll-out fails.
pub fn shared() -> Result<Use> {
    enter(|used| match used {
        Used::ByNobody => Some(Used::Shared(1)),
        Used::Shared(tests) => Some(Used::Shared(tests + 1)),
        Used::AtRest(_) | Used::Alone => None,
    })
}

/// For a test that stops, moves, configures or counts the operator, swaps its policies, or strikes nodes: nobody else is there.
///
/// # Errors
/// Helm or the roll-out fails.
pub fn alone() -> Result<Use> {
    enter(|used| (used == Used::ByNobody).then_some(Used::Alone))
}

/// For tests that run operators of their own on this machine: the installed one does nothing meanwhile.
///
/// # Errors
/// Helm or the roll-out fails, or the operator's pods don't go.
pub fn at_rest() -> Result<Use> {
    enter(|used| match used {
        Used::ByNobody => Some(Used::AtRest(1)),
        Used::AtRest(tests) => Some(Used::AtRest(tests + 1)),
        Used::Shared(_) | Used::Alone => None,
    })
}

fn enter(next: impl Fn(Used) -> Option<Used>) -> Result<Use> {
    let cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = FREED.wait_while(cluster, |cluster| next(cluster.used).is_none());
    let mut cluster = waited.unwrap_or_else(PoisonError::into_inner);
    let used = next(cluster.used).context("others use the cluster")?;
    if cluster.held.is_none() {
        cluster.held = Some(among_files(used)?);
    }
    let state = std::fs::read_to_string(lock_file("cluster"))?;
    if cluster.installed.as_ref() != Some(&state) {
        // Helm refuses a second installation beside one.
        let alone = File::create(lock_file("install"))?;
        alone.lock()?;
        install()?;
        cluster.installed = Some(state);
    }
    cluster.used = used;
    let entered = Use(());
    let rests = if cluster.used == Used::AtRest(1) { stop() } else { Ok(()) };
    drop(cluster);
    rests.map(|()| entered)
}

/// Waits for the tests of other files, as far as they need the cluster in another state.
fn among_files(used: Used) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(lock_file("cluster"))?;
    if matches!(used, Used::Shared(_)) { file.lock_shared() } else { file.lock() }.context("the lock of the cluster")?;
    Ok(file)
}

fn lock_file(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("vko-e2e-{name}.lock"))
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        cluster.used = match cluster.used {
            Used::Shared(tests @ 2..) => Used::Shared(tests - 1),
            Used::AtRest(tests @ 2..) => Used::AtRest(tests - 1),
            Used::Alone | Used::AtRest(_) => {
                let state = format!("{} {:?}", std::process::id(), std::time::SystemTime::now());
                if let Err(error) = std::fs::write(lock_file("cluster"), state) {
                    eprintln!("tests of other files won't know that the cluster was changed: {error}");
                }
                cluster.installed = None;
                if let Err(error) = start() {
                    eprintln!("the operator did not start again: {error:#}");
                }
                Used::ByNobody
            }
            Used::Shared(_) | Used::ByNobody => Used::ByNobody,
        };
        if cluster.used == Used::ByNobody {
            cluster.held = None;
        }
        FREED.notify_all();
    }
}

/// Installs the operator, or brings it back to its two replicas.
fn install() -> Result {
    kubectl::apply("default", &namespace_manifest(NAME))?;
    let there = kubectl::get(NAME, &format!("deployment/{NAME}"))?.is_some();
    if there {
        scale(2)?;
    }
    let image = settings::required("VKO_IMAGE")?;
    let (repository, tag) = image.rsplit_once(':').with_context(|| format!("VKO_IMAGE is {image:?}; it needs a tag"))?;
    let mut helm = Command::new(settings::required("VKO_HELM")?);
    helm.arg("--kubeconfig").arg(settings::kubeconfig()?);
    helm.args(["upgrade", "--install", NAME]).arg(settings::required("VKO_CHART")?).args(["--namespace", NAME]);
    helm.arg("--set").arg(format!("image.repository={repository},image.tag={tag}"));
    command::run(&mut helm).context("helm can't install the operator")?;
    rolled_out()
}

/// Stops the installed operator: all its pods are gone when this returns.
///
/// # Errors
/// They don't go.
pub fn stop() -> Result {
    if kubectl::get(NAME, &format!("deployment/{NAME}"))?.is_none() {
        return Ok(());
    }
    scale(0)?;
    for pod in pods()? {
        kubectl::wait(NAME, &format!("pod/{}", name(&pod)), "delete", ROLLOUT)?;
    }
    Ok(())
}

/// The other way round.
///
/// # Errors
/// They don't become ready.
pub fn start() -> Result {
    scale(2)?;
    rolled_out()
}

fn scale(replicas: u32) -> Result {
    kubectl::run(&["scale", &format!("deployment/{NAME}"), "--namespace", NAME, &format!("--replicas={replicas}")]).map(|_| ())
}

fn rolled_out() -> Result {
    let timeout = format!("--timeout={}s", ROLLOUT.as_secs());
    kubectl::run(&["rollout", "status", &format!("deployment/{NAME}"), "--namespace", NAME, &timeout]).map(|_| ())
}

/// Sets how often a quiet server is asked (`None`: as the program does by itself), and waits until the operator runs so.
///
/// # Errors
/// The roll-out fails.
pub fn set_probe_interval(milliseconds: Option<u64>) -> Result {
    let name = "PROBE_INTERVAL_MS";
    let setting = milliseconds.map_or_else(|| format!("{name}-"), |interval| format!("{name}={interval}"));
    kubectl::run(&["set", "env", &format!("deployment/{NAME}"), "--namespace", NAME, &setting])?;
    rolled_out()
}

/// Its pods.
///
/// # Errors
/// The request fails.
pub fn pods() -> Result<Vec<Value>> {
    kubectl::list(NAME, "pods", SELECTOR)
}

/// The pod that acts: it holds the Lease.
///
/// # Errors
/// Nobody holds it.
pub fn leader() -> Result<Value> {
    let lease = kubectl::must_get(NAME, &format!("lease/{NAME}"))?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    let pods = pods()?;
    let leader = pods.iter().find(|pod| !name(pod).is_empty() && holder.starts_with(name(pod)));
    leader
        .cloned()
        .with_context(|| format!("the Lease is held by {holder:?}, which is none of the operator's {} pods", pods.len()))
}

/// Puts the acting operator on a node (`beside`), or on another one.
///
/// # Errors
/// It doesn't get there.
pub fn place(node: &str, beside: bool) -> Result {
    let nodes = kubectl::list("default", "nodes", "")?;
    let closed: Vec<&str> = nodes.iter().map(name).filter(|other| (*other != node) == beside).collect();
    let cordon = |verb: &str| closed.iter().try_for_each(|node| kubectl::run(&[verb, node]).map(|_| ()));
    cordon("cordon")?;
    let moved = kubectl::run(&["delete", "pods", "--namespace", NAME, "--selector", SELECTOR])
        .and_then(|_| rolled_out())
        .and_then(|()| led(node, beside));
    cordon("uncordon")?;
    moved?;
    if beside {
        // The standby goes elsewhere, or it would share the fate of the one that acts.
        let leader = leader()?;
        for pod in pods()?.iter().filter(|pod| name(pod) != name(&leader)) {
            kubectl::run(&["delete", "pod", name(pod), "--namespace", NAME])?;
        }
        rolled_out()?;
    }
    Ok(())
}

fn led(node: &str, beside: bool) -> Result {
    let deadline = Duration::from_secs(60);
    kubectl::look_until("the operator to act on the right node", deadline, || {
        let leader = leader()?;
        let on = leader["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        Ok(crate::wait::Look::when(((on == node) == beside).then_some(()), || format!("it is on {on}")))
    })
}

/// Log of a pod of the operator.
///
/// # Errors
/// The request fails.
pub fn log(pod: &str) -> Result<String> {
    kubectl::run(&["logs", pod, "--namespace", NAME])
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A namespace that enforces the "restricted" Pod Security Standard.
pub fn namespace_manifest(namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n  labels:\n    \
         pod-security.kubernetes.io/enforce: restricted\n    pod-security.kubernetes.io/enforce-version: latest\n"
    )
}

/// An operator that runs on this machine, for one namespace, under a Lease of its own. The installed one must not run meanwhile.
/// It is the fault build, which can be told to die after so many effects.
#[derive(Debug)]
pub struct HostOperator {
    child: Child,
    log: std::path::PathBuf,
}

impl HostOperator {
    /// Starts it. `die_after`: ends itself, as if killed, right after that many effects.
    ///
    /// # Errors
    /// It can't be run.
    pub fn start(namespace: &str, die_after: Option<u64>) -> Result<Self> {
        // A successor starts before its predecessor is dropped, which removes its own log.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!("vko-e2e-{}-{namespace}-{number}.log", std::process::id()));
        let output = std::fs::File::create(&log).with_context(|| format!("{} can't be written", log.display()))?;
        let mut operator = Command::new(settings::required("VKO_OPERATOR_FAULTS")?);
        operator.args([
            "run",
            "--watch-namespace",
            namespace,
            "--lease-name",
            NAME,
            "--pod-namespace",
            namespace,
            "--pod-name",
            NAME,
        ]);
        // Port 0: several run side by side, and nobody asks them anything.
        operator.args([
            "--metrics-address",
            "127.0.0.1:0",
            "--health-address",
            "127.0.0.1:0",
            "--journal-address",
            "127.0.0.1:0",
        ]);
        operator.args([
            "--operator-image",
            &settings::required("VKO_IMAGE")?,
            "--images",
            IMAGES,
            "--image-pull-policy",
            "IfNotPresent",
        ]);
        operator.env("KUBECONFIG", settings::kubeconfig()?).env("RUST_LOG", "info");
        if let Some(effects) = die_after {
            operator.args(["--die-after", &effects.to_string()]);
        }
        let errors = output.try_clone().context("no second handle of the log")?;
        let child = operator
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("{operator:?} can't be run"))?;
        Ok(Self { child, log })
    }

    /// Whether it has ended by itself. Ending in another way than by `--die-after` is an error.
    ///
    /// # Errors
    /// It crashed; its last lines are in the message.
    pub fn has_died(&mut self) -> Result<bool> {
        match self.child.try_wait()? {
            None => Ok(false),
            Some(status) if status.code() == Some(DIED) => Ok(true),
            Some(status) => bail!("the operator ended with {status}: {}", self.last_lines(20)),
        }
    }

    /// Ends it in order: it releases its Lease, so that a successor acts at once.
    ///
    /// # Errors
    /// It ended in another way.
    pub fn stop(mut self) -> Result {
        command::run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("told to stop, the operator ended with {status}: {}", self.last_lines(20));
        }
        Ok(())
    }

    /// How many effects it has had.
    ///
    /// # Errors
    /// Its log can't be read.
    pub fn effects(&self) -> Result<usize> {
        Ok(std::fs::read_to_string(&self.log)?.lines().filter(|line| line.contains(" effect=")).count())
    }

    /// The end of its log.
    pub fn last_lines(&self, count: usize) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

impl Drop for HostOperator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the operator said last\n{}", self.last_lines(40));
        }
        // Ours alone: the process that was started above.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Numbers the operators of this process.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Exit code of the fault build's own end.
const DIED: i32 = 137;
/// As in the chart's values.
const IMAGES: &str = r#"{"7.2":"valkey/valkey:7.2","8.1":"valkey/valkey:8.1","9.1":"valkey/valkey:9.1"}"#;
