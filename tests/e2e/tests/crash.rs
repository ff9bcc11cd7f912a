//! The operator is killed after each of its effects, one run each: what it left is a legal state to start from.
//!
//! An effect is a write to the API server or a changing command to a server. How many there are is counted in a run without a
//! crash. Each run has an operator of its own on this machine, for its own namespace under its own Lease; the installed one rests
//! meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use vko_e2e::instance::{Arch, Instance, Pod, Wanted, is_ready};
use vko_e2e::operator::HostOperator;
use vko_e2e::server::ask;
use vko_e2e::settings::Tier;
use vko_e2e::{Result, bed, figure, kubectl, operator, settings, skipped, space, strike, wait};

/// A successor waits out the Lease of the one that was killed.
const RECOVERED: Duration = Duration::from_secs(240);
/// Runs side by side, of all tests together. Most of a run is the wait for the Lease of the one that was killed, which costs
/// nothing.
const SIDE_BY_SIDE: usize = 7;
static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();
const KEYS: usize = 500;

/// Crash points among so many effects: every fifth in the quick tier, all of them otherwise. The first and the last are always
/// among them.
fn points(effects: u64) -> Result<Vec<u64>> {
    let every = if settings::tier()? == Tier::Quick { 5 } else { 1 };
    Ok((1..=effects).filter(|n| (n - 1).is_multiple_of(every) || *n == effects).collect())
}

/// Of this part of the effects each must be reached. How many there are differs from run to run, as two looks become one or
/// not: 87 to 120 were counted for a cluster's creation, 34 to 77 for a promotion.
const CERTAIN: f64 = 0.4;

/// Runs a crash at each point, a few side by side, and tells all that failed. A point at which nobody died has shown nothing:
/// it fails, but where the effects of that run may just have been fewer.
fn at_each_point(effects: u64, name: &str, run: impl Fn(&str, u64) -> Result<Succession> + Sync) -> Result {
    let points = points(effects)?;
    let all = points.len();
    let cases = points.into_iter().map(|n| (format!("crash-{name}-{n}"), n)).collect();
    let crashed = AtomicUsize::new(0);
    space::side_by_side(SIDE_BY_SIDE, cases, |namespace, n| {
        let mut died = false;
        in_space(namespace, |namespace| {
            let succession = run(namespace, *n)?;
            died = succession.died;
            Ok(succession)
        })?;
        crashed.fetch_add(usize::from(died), Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "some hundred")]
        let certain = *n as f64 <= effects as f64 * CERTAIN;
        ensure!(died || !certain, "the operator made fewer than {n} effects, of {effects} that there were, and never died");
        Ok(())
    })?;
    let crashed = crashed.into_inner();
    figure(&format!("crash: points that struck, {name}"), format!("{crashed} of {all}"));
    ensure!(crashed > 0, "no operator died in any run");
    Ok(())
}

/// One operator, and its successor once it died.
struct Succession {
    namespace: String,
    operator: HostOperator,
    died: bool,
}

impl Succession {
    fn start(namespace: &str, die_after: Option<u64>) -> Result<Self> {
        Ok(Self { namespace: namespace.into(), operator: HostOperator::start(namespace, die_after)?, died: false })
    }

    /// Waits for a goal, which has a deadline of its own; starts the successor when it is due.
    fn until(&mut self, goal: impl FnOnce() -> Result + Send) -> Result {
        let reached = std::thread::scope(|scope| {
            let goal = scope.spawn(goal);
            wait::until("the goal or its deadline", 2 * RECOVERED, || {
                if !self.died && self.operator.has_died()? {
                    self.died = true;
                    self.operator = HostOperator::start(&self.namespace, None)?;
                }
                Ok(wait::Look::when(goal.is_finished().then_some(()), || "not yet".into()))
            })?;
            goal.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        reached.map_err(|error| error.context(format!("the operator said last:\n{}", self.operator.last_lines(30))))
    }
}

/// Waits by a watch: seven runs that ask again and again by kubectl are more than two cores can do, and Sentinels among them are
/// in TILT for good.
fn wait_ready(instance: &Instance) -> Result {
    let fields = format!("metadata.name={}", instance.name);
    let watched = kubectl::named(&instance.namespace, "valkeys", &fields);
    kubectl::watch_until("the instance to become Ready", watched, RECOVERED, |_, valkey| is_ready(valkey)).map(|_| ())
}

/// One of the runs side by side, until it is dropped.
struct Place;

impl Place {
    fn wait() -> Self {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = ENDED.wait_while(running, |running| *running >= SIDE_BY_SIDE);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// The namespace is emptied while its operator still runs.
fn in_space(namespace: &str, test: impl FnOnce(&str) -> Result<Succession>) -> Result {
    let _place = Place::wait();
    let mut last = None;
    space::with(namespace, |namespace| {
        last = Some(test(namespace)?);
        Ok(())
    })
}

#[test]
fn killed_after_each_effect_of_a_creation() -> Result {
    killed_while_creating(&Wanted::default())
}

#[test]
fn killed_after_each_effect_of_a_clusters_creation() -> Result {
    killed_while_creating(&Wanted::cluster(3, 2))
}

#[test]
fn killed_after_each_effect_of_a_creation_with_sentinels() -> Result {
    killed_while_creating(&Wanted::failover(2, 3))
}

fn killed_while_creating(wanted: &Wanted) -> Result {
    if !bed::is_here() {
        return skipped("runs operators on this machine");
    }
    let arch = wanted.arch.name();
    // Six servers or Sentinels for each point: the quick tier has these points on the mock host, with the same servers.
    if settings::tier()? == Tier::Quick && wanted.arch != Arch::Replica {
        return skipped("full tier only");
    }
    let _operator = operator::at_rest()?;
    let mut effects = 0;
    in_space(&format!("crash-{arch}"), |namespace| {
        let succession = creation(namespace, wanted, None)?;
        effects = u64::try_from(succession.operator.effects()?)?;
        Ok(succession)
    })
    .and_then(|()| {
        figure(&format!("crash: effects of a creation, {arch}"), effects);
        assert!(effects > 10, "a creation has more effects than {effects}");
        at_each_point(effects, arch, |namespace, n| creation(namespace, wanted, Some(n)))
    })
}

fn creation(namespace: &str, wanted: &Wanted, die_after: Option<u64>) -> Result<Succession> {
    let mut succession = Succession::start(namespace, die_after)?;
    let instance = Instance::apply(namespace, "x", wanted)?;
    succession.until(|| wait_ready(&instance))?;
    assert_eq!(instance.pods()?.iter().map(|pod| pod.restarts).sum::<u64>(), 0, "no server was restarted");
    instance.wait_writable()?;
    Ok(succession)
}

#[test]
fn killed_after_each_effect_of_a_promotion() -> Result {
    if !bed::is_here() {
        return skipped("runs operators on this machine");
    }
    let _operator = operator::at_rest()?;
    let mut effects = 0;
    in_space("crash-promotion", |namespace| {
        let succession = promotion(namespace, None)?;
        effects = u64::try_from(succession.operator.effects()?)?;
        Ok(succession)
    })
    .and_then(|()| {
        figure("crash: effects of a promotion", effects);
        assert!(effects > 2, "a promotion has more effects than {effects}");
        at_each_point(effects, "promotion", |namespace, n| promotion(namespace, Some(n)))
    })
}

fn promotion(namespace: &str, die_after: Option<u64>) -> Result<Succession> {
    let mut first = Succession::start(namespace, None)?;
    let instance = Instance::apply(namespace, "x", &Wanted::default())?;
    first.until(|| wait_ready(&instance))?;
    first.operator.stop()?;
    let mut connection = instance.writer()?.connect()?;
    for key in 0..KEYS {
        assert_eq!(ask::<String>(&mut connection, &["SET", &format!("key:{key}"), &key.to_string()])?, "OK");
    }
    let primary = instance.primary()?;
    wait_replicated(&instance, &primary)?;
    let mut succession = Succession::start(namespace, die_after)?;
    succession.until(|| led(namespace))?;
    strike::kill_server(&primary)?;
    succession.until(|| {
        instance.wait_primary_other_than(&primary)?;
        wait_ready(&instance)
    })?;
    let mut connection = instance.writer()?.connect()?;
    for key in 0..KEYS {
        assert_eq!(ask::<Option<String>>(&mut connection, &["GET", &format!("key:{key}")])?, Some(key.to_string()), "key:{key}");
    }
    Ok(succession)
}

/// What was written before the fault is on all members, so that none of it may be missing after it.
fn wait_replicated(instance: &Instance, primary: &Pod) -> Result {
    let login = instance.at(primary, "default")?;
    wait::until("both replicas to have everything", Duration::from_secs(10), || {
        let replicas: u64 = login.ask(&["WAIT", "2", "500"])?;
        Ok(wait::Look::when((replicas == 2).then_some(()), || format!("{replicas} have")))
    })
}

/// Waits until the new operator acts.
fn led(namespace: &str) -> Result {
    let fields = format!("metadata.name={}", operator::NAME);
    let watched = kubectl::named(namespace, "leases", &fields);
    kubectl::watch_until("the Lease to be held", watched, RECOVERED, |_, lease| {
        lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty())
    })?;
    Ok(())
}
