//! Creation: from a manifest to an instance that serves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use serde_json::Value;
use vko_e2e::instance::{Arch, Instance, Wanted, condition};
use vko_e2e::observe::decided_by;
use vko_e2e::server::{Login, ask};
use vko_e2e::{Result, figure, kubectl, operator, settings, space, wait};

const KEYS: usize = 1000;

#[test]
fn one_to_three_members_of_each_line() -> Result {
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        let cases = (1..=3).map(|members| (format!("create-{}-{members}", version.replace('.', "")), members)).collect();
        space::side_by_side(3, cases, |namespace, members| {
            space::with(namespace, |namespace| serves(namespace, version, *members))
        })?;
    }
    Ok(())
}

fn serves(namespace: &str, version: &'static str, members: u32) -> Result {
    let began = Instant::now();
    let instance = Instance::create(namespace, "x", &Wanted { version, members, ..Wanted::default() })?;
    figure(&format!("{version}, {members} members: apply to Ready, ms"), began.elapsed().as_millis());

    keys_go_in_and_come_out(&instance, members)?;
    the_default_user_needs_its_password(&instance)?;
    the_status_is_of_what_runs(&instance, version, members)?;
    Ok(())
}

fn keys_go_in_and_come_out(instance: &Instance, members: u32) -> Result {
    let mut writer = instance.writer()?.connect()?;
    for key in 0..KEYS {
        assert_eq!(ask::<String>(&mut writer, &["SET", &format!("key:{key}"), &key.to_string()])?, "OK");
    }
    let mut reader = instance.reader()?.connect()?;
    wait::until("the reader to have all keys", Duration::from_secs(10), || {
        let size: usize = ask(&mut reader, &["DBSIZE"])?;
        Ok(wait::Look::when((size == KEYS).then_some(()), || format!("{size} keys")))
    })?;
    for key in 0..KEYS {
        assert_eq!(ask::<String>(&mut reader, &["GET", &format!("key:{key}")])?, key.to_string());
    }
    let refused = ask::<String>(&mut reader, &["SET", "through", "the-reader"]);
    if members > 1 {
        let error = format!("{:#}", refused.unwrap_err());
        assert!(error.to_lowercase().contains("readonly") || error.contains("read only"), "{error}");
    } else {
        // With one member the read-only Service leads to that one.
        assert_eq!(refused?, "OK");
    }
    Ok(())
}

fn the_default_user_needs_its_password(instance: &Instance) -> Result {
    let known = instance.writer()?;
    let unknown = Login { password: String::new(), ..known.clone() };
    let error = format!("{:#}", unknown.ask::<String>(&["PING"]).unwrap_err());
    assert!(error.contains("Authentication required") || error.contains("NOAUTH"), "{error}");
    let wrong = Login { password: "wrong".into(), ..known };
    assert!(wrong.ask::<String>(&["PING"]).is_err());
    Ok(())
}

fn the_status_is_of_what_runs(instance: &Instance, version: &str, members: u32) -> Result {
    let valkey = instance.object()?;
    let status = &valkey["status"];
    assert_eq!(status["phase"], "Ready", "{status}");
    assert_eq!(status["observedGeneration"], valkey["metadata"]["generation"], "{status}");
    let last = status["lastVersion"].as_str().unwrap_or_default();
    assert!(last.starts_with(version), "{version}: {status}");
    decided_by(status, "replica")?;
    for (kind, expected) in
        [("Ready", "True"), ("Accepted", "True"), ("PolicyActive", "True"), ("Degraded", "False"), ("Stalled", "False")]
    {
        assert_eq!(
            condition(&valkey, kind).map(|condition| &condition["status"]),
            Some(&Value::from(expected)),
            "{kind}: {status}"
        );
    }
    let redundant = condition(&valkey, "Redundant").map(|condition| condition["status"].clone());
    assert_eq!(redundant, Some(Value::from(if members > 1 { "True" } else { "False" })), "{status}");
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    let roles = |role: &str| nodes.iter().filter(|node| node["role"] == role).count();
    assert_eq!((roles("master"), roles("replica")), (1, members as usize - 1), "{status}");
    let columns = kubectl::run(&["get", "vk", &instance.name, "--namespace", &instance.namespace])?;
    let header: Vec<&str> =
        columns.lines().next().unwrap_or_default().split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    assert_eq!(header, ["NAME", "ARCH", "VERSION", "ACCESS", "STORAGE CLASS", "STATUS", "READY", "MESSAGE", "AGE"], "{columns}");
    Ok(())
}

#[test]
fn an_open_default_user_is_asked_for() -> Result {
    let _operator = operator::shared()?;
    space::with("create-open", |namespace| {
        let mut manifest = Wanted { members: 1, ..Wanted::default() }.manifest("open")?;
        manifest["spec"]["access"]["openDefaultUser"] = true.into();
        kubectl::apply(namespace, &manifest.to_string())?;
        let instance = Instance { namespace: namespace.into(), name: "open".into(), arch: Arch::Replica };
        instance.wait_ready()?;
        let open = Login { password: String::new(), ..instance.writer()? };
        wait::until("the open default user to be answered", Duration::from_secs(20), || {
            let answer: String = open.ask(&["PING"])?;
            Ok(wait::Look::when((answer == "PONG").then_some(()), || answer))
        })?;
        assert_eq!(open.ask::<String>(&["SET", "a", "b"])?, "OK");
        Ok(())
    })
}
