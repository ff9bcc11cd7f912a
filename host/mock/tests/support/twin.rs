//! Policies twice: the component decides, its native build must decide the same, on each observation of each run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use vko_core::policy::{GuestError, Policy, PolicyInfo};
use vko_engine::NativePolicy;
use vko_run::Policies;
use vko_wit::observation::Observed;
use vko_wit::planning::{Plan, PolicyError, Violation};

/// What both builds were asked.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) observations: AtomicUsize,
    pub(crate) differing: Mutex<Vec<String>>,
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
        let decided = self.component.decide(observed)?;
        let native = self.native.decide(observed);
        self.compared.observations.fetch_add(1, Ordering::Relaxed);
        if native.as_ref() != Ok(&decided) {
            let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
            let differing = format!("component {}\nnative {}\nof {}", text(&decided), text(&native), text(observed));
            self.compared.differing.lock().unwrap().push(differing);
        }
        Ok(decided)
    }

    fn validate(&self, spec: &str, previous: &str) -> Result<Vec<Violation>, GuestError> {
        self.component.validate(spec, previous)
    }
}

impl Compared {
    /// Nothing differed; says how much was compared.
    pub(crate) fn report(&self) {
        let differing = self.differing.lock().unwrap();
        println!("figure: observations on which both builds decided = {}", self.observations.load(Ordering::Relaxed));
        assert!(differing.is_empty(), "{} decisions differ, as\n{}", differing.len(), differing[0]);
    }
}
