//! Mounted files of running pods: the kubelet refreshes them when the pod object changes, so a changed ConfigMap is followed by a
//! patch of an annotation. The annotation names the content and the time, and what a container restart would read is known from
//! it.

use serde_json::{Value, json};
use vko_api::names;

use crate::object::Object;
use crate::secret::hex;
use crate::world::UnixMs;

/// Names the content of a ConfigMap.
pub fn hash(config: &Object) -> String {
    let data = config.0.get("data").unwrap_or(&Value::Null).to_string();
    hex(&ring::digest::digest(&ring::digest::SHA256, data.as_bytes()).as_ref()[..8])
}

/// A pod that was told so far (ms) in the future was told by a clock that was ahead, or ours was set back: waiting for that time
/// may take hours, telling it again takes a patch. Clocks of two operators differ by less.
const AHEAD_MAX_MS: u64 = 60_000;

/// Whether the pod still has to be told of this content.
pub fn due(pod: &Object, hash: &str, now: UnixMs) -> bool {
    let told = pod.annotation(names::REFRESHED).split_once('@');
    let holds =
        |(told, at): (&str, &str)| told == hash && at.parse::<UnixMs>().is_ok_and(|at| at <= now.saturating_add(AHEAD_MAX_MS));
    !pod.deleting() && !told.is_some_and(holds)
}

/// The patch that tells it.
pub fn patch(pod: &Object, hash: &str, now: UnixMs) -> Value {
    json!({"metadata": {"uid": pod.uid(), "annotations": {names::REFRESHED: format!("{hash}@{now}")}}})
}

/// Whether a restart of the pod's container reads this content: it was told so long ago that the kubelet has refreshed the
/// mounts.
pub fn settled(pod: &Object, hash: &str, now: UnixMs, settles_ms: u64) -> bool {
    let Some((told, at)) = pod.annotation(names::REFRESHED).split_once('@') else { return false };
    told == hash && at.parse::<UnixMs>().is_ok_and(|at| now.saturating_sub(at) >= settles_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotation: &str) -> Object {
        Object::new(json!({"metadata": {"uid": "u", "annotations": {names::REFRESHED: annotation}}}))
    }

    #[test]
    fn a_pod_is_told_once_for_each_content() {
        let config = Object::new(json!({"data": {"start": "named"}}));
        let other = Object::new(json!({"data": {"start": "alone"}}));
        assert_ne!(hash(&config), hash(&other));
        let told = pod(&format!("{}@1000", hash(&config)));
        assert!(!due(&told, &hash(&config), 2_000));
        assert!(!due(&told, &hash(&config), 900), "clocks differ a little");
        assert!(due(&pod(&format!("{}@90000", hash(&config))), &hash(&config), 2_000), "told by a clock that was far ahead");
        assert!(due(&told, &hash(&other), 2_000));
        assert!(due(&Object::new(json!({"metadata": {}})), &hash(&config), 2_000));
    }

    #[test]
    fn settled_needs_the_content_and_the_time() {
        let cases = [
            ("told long ago", "h@1000", true),
            ("told just now", "h@9000", false),
            ("told of something else", "x@1000", false),
            ("never told", "", false),
            ("rubbish", "h@soon", false),
        ];
        for (name, annotation, expected) in cases {
            assert_eq!(settled(&pod(annotation), "h", 10_000, 5_000), expected, "{name}");
        }
    }
}
