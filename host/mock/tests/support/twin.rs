//! Policies twice: the component decides, its native build must decide the same, on each observation of each run; and after the
//! runs on those of the policies' galleries, and on variants of all of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use vko_core::policy::{GuestError, Policy, PolicyInfo};
use vko_engine::NativePolicy;
use vko_mock::scenario::seed::Lots;
use vko_run::Policies;
use vko_wit::common::Architecture;
use vko_wit::observation::Observed;
use vko_wit::planning::{Plan, PolicyError, Violation};

use super::variants::Parts;

/// Observations of runs that are kept to be varied.
const KEPT: usize = 4_000;
/// Servers of an observation that is varied, at most: larger ones take long and hold nothing else.
const SERVERS_MAX: usize = 16;
/// Variants that are tried for each one that is wanted: parts don't always fit.
const TRIES: usize = 20;

/// What both builds were asked.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    observations: AtomicUsize,
    differing: Mutex<Vec<String>>,
    seen: Mutex<Vec<(Architecture, Value)>>,
}

struct Twin {
    component: Arc<dyn Policy>,
    native: Arc<dyn Policy>,
    compared: Arc<Compared>,
}

/// The built-in policies, each with its native build beside it.
pub(crate) fn policies(compared: &Arc<Compared>) -> Policies {
    let native: [Arc<dyn Policy>; 3] = [
        Arc::new(NativePolicy::<vko_replica::ReplicaPolicy>::new()),
        Arc::new(NativePolicy::<vko_failover::FailoverPolicy>::new()),
        Arc::new(NativePolicy::<vko_cluster::ClusterPolicy>::new()),
    ];
    let mut policies = super::policies();
    for built_in in &mut policies.built_in {
        let native = native.iter().find(|native| native.info().architecture == built_in.info().architecture).unwrap().clone();
        *built_in = Arc::new(Twin { component: built_in.clone(), native, compared: compared.clone() });
    }
    policies
}

impl Policy for Twin {
    fn info(&self) -> &PolicyInfo {
        self.component.info()
    }

    fn decide(&self, observed: &Observed) -> Result<Result<Plan, PolicyError>, GuestError> {
        let decided = self.component.decide(observed);
        let native = self.native.decide(observed);
        let alike = match (&decided, &native) {
            // What a trap says differs with what it stops.
            (Err(component), Err(native)) => component.reason() == native.reason(),
            _ => decided == native,
        };
        // A busy machine's word on the component, not the component's.
        let is_late = matches!(decided, Err(GuestError::PolicyDeadline(_)));
        if !is_late {
            self.compared.took(observed);
        }
        if !alike && !is_late {
            let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
            let differing = format!("component {}\nnative {}\nof {}", text(&decided), text(&native), text(observed));
            self.compared.differing.lock().unwrap().push(differing);
        }
        decided
    }

    fn validate(&self, spec: &str, previous: &str) -> Result<Vec<Violation>, GuestError> {
        self.component.validate(spec, previous)
    }
}

impl Compared {
    fn took(&self, observed: &Observed) {
        self.observations.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap();
        if seen.len() < KEPT && observed.servers.len() <= SERVERS_MAX {
            seen.push((observed.instance.architecture, serde_json::to_value(observed).unwrap()));
        }
    }

    /// Nothing differed; says how much was compared.
    pub(crate) fn report(&self) {
        let (asked, differing) = (self.observations.load(Ordering::Relaxed), self.differing.lock().unwrap());
        println!("figure: observations on which both builds decided = {asked}");
        assert!(differing.is_empty(), "{} decisions differ, as\n{}", differing.len(), differing[0]);
    }

    /// Goes on after the runs, with what policies are tried on and variants of all of it, until so many were compared.
    pub(crate) fn complete(self: &Arc<Self>, wanted: usize) {
        let (policies, of_runs) = (policies(self).built_in, self.observations.load(Ordering::Relaxed));
        let of = |architecture| policies.iter().find(|policy| policy.info().architecture == architecture).unwrap();
        for exhibit in
            [vko_replica::testing::gallery(), vko_failover::testing::gallery(), vko_cluster::testing::gallery()].concat()
        {
            let decided = of(exhibit.observed.instance.architecture).decide(&exhibit.observed);
            assert!(decided.is_ok(), "{}: {decided:?}", exhibit.name);
        }
        let of_galleries = self.observations.load(Ordering::Relaxed) - of_runs;
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        let mut parts = [Architecture::Replica, Architecture::Failover, Architecture::Cluster].map(|of| (of, Parts::default()));
        for (architecture, observed) in &seen {
            parts.iter_mut().filter(|(of, _)| of == architecture).for_each(|(_, parts)| parts.add(observed));
        }
        let (mut lots, mut variants) = (Lots::of(1), 0);
        let all = seen.iter().cycle().take(wanted * TRIES);
        for (architecture, observed) in all {
            if self.observations.load(Ordering::Relaxed) >= wanted {
                break;
            }
            let parts = parts.iter().find(|(of, _)| of == architecture).map(|(_, parts)| parts).unwrap();
            if let Some(varied) = parts.vary(observed, &mut lots) {
                // Both builds may hold or trap, as long as they do the same.
                let _ = of(*architecture).decide(&varied);
                variants += 1;
            }
        }
        println!("of runs {of_runs}, of galleries {of_galleries}, variants {variants}");
        let asked = self.observations.load(Ordering::Relaxed);
        assert!(asked >= wanted, "{asked} observations were compared, not {wanted}");
    }
}
