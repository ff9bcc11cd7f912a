//! Steps of one look, by the member that they are about: one member is in one track.

use std::collections::BTreeMap;

use vko_sdk::plan;
use vko_sdk::planning::{Step, Track};

use crate::view::Node;

/// Steps by the member's name, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Steps(BTreeMap<String, Vec<Step>>);

impl Steps {
    /// Adds one about a member.
    pub fn add(&mut self, node: &Node<'_>, step: Step) {
        self.0.entry(node.member.name.clone()).or_default().push(step);
    }

    /// Adds one about the cluster as a whole.
    pub fn add_about(&mut self, subject: String, step: Step) {
        self.0.entry(subject).or_default().push(step);
    }

    /// Whether something is to be done to that member.
    pub fn touches(&self, node: &Node<'_>) -> bool {
        self.0.contains_key(&node.member.name)
    }

    /// As tracks.
    pub fn tracks(self) -> Vec<Track> {
        self.0.into_iter().map(|(subject, steps)| plan::track(subject, steps)).collect()
    }
}
