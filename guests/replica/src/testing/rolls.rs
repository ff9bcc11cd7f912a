//! Scenes of rolling changes.

use vko_sdk::common::Version;
use vko_sdk::facts;
use vko_sdk::observation::{ContainerState, TemplateState};

use super::Scene;

impl Scene {
    /// Its pod is of an older template than the one in force.
    pub fn outdate(&mut self, i: usize) -> &mut Self {
        self.pod(i, |pod| pod.template = TemplateState::SpecChanged)
    }

    /// All pods are.
    pub fn outdate_all(&mut self) -> &mut Self {
        self.observed.pods.iter_mut().for_each(|pod| pod.template = TemplateState::SpecChanged);
        self
    }

    /// The template in force is older than the spec.
    pub fn template_is_older(&mut self) -> &mut Self {
        let known: Vec<String> =
            self.observed.objects.iter().filter(|o| o.kind == "StatefulSet").map(|o| o.name.clone()).collect();
        self.observed.extensions.retain(|pair| !pair.key.starts_with("object.template-of-spec"));
        self.observed.extensions.extend(known.iter().map(|name| facts::mk_template_of_spec(name, false)));
        self
    }

    /// Its server is of that version.
    pub fn version(&mut self, i: usize, major: u32, minor: u32) -> &mut Self {
        self.facts(i, |f| f.version = Version { major, minor, patch: 1 })
    }

    /// People want that line; another one may have been tried.
    pub fn want_line(&mut self, line: &str, tried: Option<&str>) -> &mut Self {
        let mut spec: serde_json::Value = serde_json::from_str(&self.observed.instance.spec).unwrap_or_default();
        spec["version"] = line.into();
        self.observed.instance.spec = spec.to_string();
        self.observed.extensions.extend(facts::mk_tried_line(tried));
        self
    }

    /// Whether it appends to a file.
    pub fn appends(&mut self, i: usize, appends: bool) -> &mut Self {
        self.facts(i, |f| f.extensions = facts::mk_appends(Some(appends)))
    }

    /// Its container ends again and again, and its server was never heard.
    pub fn crash(&mut self, i: usize) -> &mut Self {
        self.lag_none(i).unhear(i).silence(i).pod(i, |pod| {
            (pod.container, pod.ready, pod.restarts) = (ContainerState::Terminated, false, 3);
            pod.waiting = "CrashLoopBackOff".into();
        })
    }

    /// Its image can't be had.
    pub fn want_image(&mut self, i: usize) -> &mut Self {
        self.unhear(i).wait_start(i).pod(i, |pod| pod.waiting = "ImagePullBackOff".into())
    }
}
