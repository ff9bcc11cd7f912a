//! What of a world changed, in lines for people. Pure.

use std::collections::BTreeMap;

use crate::connect;
use crate::manifest::named;
use crate::view::{Event, Instance, Pod, View};

/// What has been told so far.
#[derive(Debug, Default)]
pub(crate) struct Story {
    known: View,
    /// Lines on how to connect, by instance: told again only where they are others.
    ways: BTreeMap<String, Vec<String>>,
}

impl Story {
    /// The lines that are to be told next, in the order in which one wants to read them: events, pods, roles, what the instance
    /// says, how to connect.
    pub(crate) fn goes_on(&mut self, now: View) -> Vec<String> {
        let before = std::mem::take(&mut self.known);
        let mut lines: Vec<String> = events(&before, &now).map(event).collect();
        for instance in &now.instances {
            let known = before.instances.iter().find(|known| is_same(known, instance));
            lines.extend(pods(instance, known.map_or(&[], |known| &known.pods), &instance.pods));
            lines.extend(said(known, instance));
            let ways = connect::lines(instance);
            if instance.ready && self.ways.insert(instance.title(), ways.clone()).as_ref() != Some(&ways) {
                lines.extend(ways);
            }
        }
        let gone = before.instances.iter().filter(|known| !now.instances.iter().any(|new| is_same(known, new)));
        for known in gone {
            self.ways.remove(&known.title());
            lines.extend(pods(known, &known.pods, &[]));
            lines.push(format!("{} is gone", known.title()));
        }
        self.known = now;
        lines
    }
}

fn is_same(one: &Instance, other: &Instance) -> bool {
    (&one.kind, &one.namespace, &one.name) == (&other.kind, &other.namespace, &other.name)
}

/// New ones, without those that only repeat what the instance says itself.
fn events<'a>(before: &'a View, now: &'a View) -> impl Iterator<Item = &'a Event> {
    let known = |event: &Event| before.events.iter().any(|known| known.name == event.name && known.count == event.count);
    let repeats = |event: &Event| {
        let instances = before.instances.iter().chain(&now.instances);
        instances.map(|instance| &instance.message).any(|message| *message == event.note)
    };
    now.events.iter().filter(move |event| !known(event) && !repeats(event))
}

fn pods(of: &Instance, before: &[Pod], now: &[Pod]) -> Vec<String> {
    let mut lines = Vec::new();
    let name = |pod: &Pod| named(&of.namespace, &pod.name);
    for pod in now {
        let none = Pod::default();
        let known = before.iter().find(|known| known.name == pod.name).unwrap_or(&none);
        match (known.process, pod.process) {
            (old, Some(process)) if old != Some(process) => {
                lines.push(format!("{}: process {process} at {}", name(pod), pod.address))
            }
            (Some(process), None) => lines.push(format!("{}: process {process} has ended", name(pod))),
            _ => {}
        }
        if pod.role != known.role && !["", "sentinel"].contains(&&*pod.role) {
            lines.push(format!("{}: {}", name(pod), pod.role));
        }
    }
    let gone = before.iter().filter(|known| !now.iter().any(|pod| pod.name == known.name));
    lines.extend(gone.map(|pod| format!("{}: gone", name(pod))));
    lines
}

fn event(event: &Event) -> String {
    let mark = if event.warning { "warning" } else { "event" };
    // A note names pods, not their namespace.
    let about = if named(&event.namespace, "").is_empty() { String::new() } else { format!(" of {}", event.about) };
    format!("{mark} {}{about}: {}", event.reason, event.note)
}

fn said(known: Option<&Instance>, instance: &Instance) -> Option<String> {
    let name = instance.title();
    let was_ready = known.is_some_and(|known| known.ready);
    if instance.ready {
        return (!was_ready).then(|| format!("{name} is ready: {}", instance.message));
    }
    let news = was_ready || known.is_none_or(|known| known.message != instance.message);
    (news && !instance.message.is_empty()).then(|| format!("{name}: {}", instance.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Purpose, Way};

    fn instance() -> Instance {
        Instance { kind: "Valkey".into(), name: "demo".into(), message: "waits".into(), ..Instance::default() }
    }

    fn view(instances: Vec<Instance>) -> View {
        View { instances, ..View::default() }
    }

    fn lines(before: View, now: View) -> Vec<String> {
        let mut story = Story::default();
        story.goes_on(before);
        story.goes_on(now)
    }

    fn pod(process: Option<u32>, role: &str) -> Instance {
        let pod = Pod { name: "p-0".into(), role: role.into(), address: "127.128.0.1:6379".into(), process, ..Pod::default() };
        Instance { pods: vec![pod], message: String::new(), ..instance() }
    }

    fn in_shop(instance: Instance) -> Instance {
        Instance { namespace: "shop".into(), ..instance }
    }

    #[test]
    fn lines_by_table() {
        let ready = Instance { ready: true, ..instance() };
        let another = Instance { message: "goes on".into(), ..instance() };
        for (name, before, now, expected) in [
            ("nothing", vec![instance()], vec![instance()], vec![]),
            ("a new one", vec![], vec![instance()], vec!["Valkey demo: waits"]),
            ("another message", vec![instance()], vec![another], vec!["Valkey demo: goes on"]),
            ("ready", vec![instance()], vec![ready.clone()], vec!["Valkey demo is ready: waits"]),
            ("still ready", vec![ready.clone()], vec![ready.clone()], vec![]),
            ("not ready any more", vec![ready.clone()], vec![instance()], vec!["Valkey demo: waits"]),
            ("gone", vec![ready], vec![], vec!["Valkey demo is gone"]),
            ("gone with a pod", vec![pod(None, "")], vec![], vec!["p-0: gone", "Valkey demo is gone"]),
            (
                "in another namespace",
                vec![in_shop(instance())],
                vec![in_shop(pod(Some(7), "primary")), instance()],
                vec!["shop/p-0: process 7 at 127.128.0.1:6379", "shop/p-0: primary", "Valkey demo: waits"],
            ),
            ("a process", vec![pod(None, "")], vec![pod(Some(7), "")], vec!["p-0: process 7 at 127.128.0.1:6379"]),
            ("a role", vec![pod(Some(7), "replica")], vec![pod(Some(7), "primary")], vec!["p-0: primary"]),
            ("a role lost", vec![pod(Some(7), "replica")], vec![pod(Some(7), "")], vec![]),
            ("an end", vec![pod(Some(7), "primary")], vec![pod(None, "primary")], vec!["p-0: process 7 has ended"]),
            ("a pod less", vec![pod(None, "")], vec![Instance { pods: vec![], ..pod(None, "") }], vec!["p-0: gone"]),
        ] {
            assert_eq!(lines(view(before), view(now)), expected, "{name}");
        }
    }

    #[test]
    fn an_event_is_told_once_for_each_time_and_not_where_it_repeats_the_instance() {
        let event = |count| Event { name: "e".into(), reason: "Promoted".into(), note: "n".into(), count, ..Event::default() };
        let view = |events| View { events, ..View::default() };
        assert_eq!(lines(view(vec![]), view(vec![event(1)])), ["event Promoted: n"]);
        assert_eq!(lines(view(vec![event(1)]), view(vec![event(1)])), Vec::<String>::new());
        assert_eq!(lines(view(vec![event(1)]), view(vec![event(2)])), ["event Promoted: n"]);
        let about = "Valkey shop/demo".into();
        let elsewhere = Event { namespace: "shop".into(), about, ..event(1) };
        assert_eq!(lines(view(vec![]), view(vec![elsewhere])), ["event Promoted of Valkey shop/demo: n"]);
        let saying = |message: &str| Instance { message: message.into(), ..instance() };
        let both = View { instances: vec![saying("n")], events: vec![event(1)], ..View::default() };
        assert_eq!(lines(View::default(), both), ["Valkey demo: n"]);
    }

    #[test]
    fn how_to_connect_is_told_when_it_is_news() {
        let way = |ip: &str| Way { service: "s".into(), purpose: Purpose::Sentinel, ip: ip.into(), port: 26379 };
        let mut story = Story::default();
        let mut told = |ready, ip: &str| {
            let lines = story.goes_on(view(vec![Instance { ready, ways: vec![way(ip)], ..instance() }]));
            lines.iter().filter(|line| line.contains("26379")).count()
        };
        let found = [told(false, "a"), told(true, "a"), told(false, "a"), told(true, "a"), told(true, "b")];
        assert_eq!(found, [0, 1, 0, 0, 1]);
        story.goes_on(view(vec![]));
        let anew = story.goes_on(view(vec![Instance { ready: true, ways: vec![way("b")], ..instance() }]));
        assert!(anew.iter().any(|line| line.contains("26379")), "of one that was deleted: {anew:?}");
    }
}
