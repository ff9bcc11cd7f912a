//! Policies are swapped while the operator runs: a good one takes over in seconds, a bad one changes nothing but what is said of
//! it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vko_e2e::instance::{Instance, Wanted, condition};
use vko_e2e::{Result, bed, command, figure, kubectl, observe, operator, settings, space, strike, wait};

/// A swap takes a look of the operator; compiling a module takes part of a second.
const SWAP: Duration = Duration::from_secs(60);

/// A ConfigMap with a policy in the operator's namespace; gone when dropped.
struct Module(String);

impl Module {
    fn apply(config_map: &Value) -> Result<Self> {
        kubectl::apply(operator::NAME, &config_map.to_string())?;
        Ok(Self(operator::name(config_map).to_owned()))
    }

    fn delete(self) -> Result {
        kubectl::run(&["delete", "configmap", &self.0, "--namespace", operator::NAME]).map(|_| ())
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = kubectl::run(&["delete", "configmap", &self.0, "--namespace", operator::NAME, "--ignore-not-found"]);
    }
}

/// As policy authors pack it.
fn packed(guest: &str, name: &str) -> Result<Value> {
    let component = format!("{}/{guest}.wasm", settings::required("VKO_GUESTS")?);
    let mut pack = Command::new(settings::required("VKO_OPERATOR")?);
    Ok(serde_json::from_str(&command::run(pack.args(["policy", "pack", &component, "--config-map", name]))?)?)
}

fn governed_by(instance: &Instance, policy: &str) -> Result {
    let fields = format!("metadata.name={}", instance.name);
    let watched = kubectl::named(&instance.namespace, "valkeys", &fields);
    kubectl::watch_until(&format!("{policy} to govern"), watched, SWAP, |_, valkey| {
        valkey["status"]["policy"]["name"] == policy
    })?;
    Ok(())
}

fn annotate(instance: &Instance, key: &str, value: &str) -> Result {
    kubectl::patch(&instance.namespace, &instance.target(), &json!({"metadata": {"annotations": {key: value}}})).map(|_| ())
}

#[test]
fn a_policy_of_ones_own_takes_over_and_goes_again() -> Result {
    let _operator = operator::alone()?;
    space::with("policy-swap", |namespace| {
        let instance = Instance::create(namespace, "x", &Wanted { apart: true, ..Wanted::default() })?;
        let lives = instance.lives()?;
        governed_by(&instance, "replica")?;
        let began = Instant::now();
        let module = Module::apply(&packed("vko-zone-averse", "zone-averse")?)?;
        governed_by(&instance, "replica-zone-averse")?;
        figure("policy: apply to governing, ms", began.elapsed().as_millis());
        assert_eq!(instance.lives()?, lives);
        assert_eq!(instance.object()?["status"]["policy"]["version"], "0.2.0");
        if bed::is_here() {
            it_keeps_out_of_the_zone(&instance)?;
        }
        let lives = instance.lives()?;
        module.delete()?;
        governed_by(&instance, "replica")?;
        instance.wait_ready()?;
        assert_eq!(instance.lives()?, lives);
        Ok(())
    })
}

/// What it is for: the replica that would be the first choice is in the avoided zone, so the other one is promoted.
fn it_keeps_out_of_the_zone(instance: &Instance) -> Result {
    let primary = instance.primary()?;
    let replicas: Vec<_> = instance.pods()?.into_iter().filter(|pod| pod.uid != primary.uid).collect();
    let node = kubectl::must_get("default", &format!("node/{}", replicas[0].node))?;
    let zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().expect("nodes have zones").to_owned();
    annotate(instance, "buf.red/avoid-zone", &zone)?;
    strike::kill_server(&primary)?;
    let promoted = instance.wait_primary_other_than(&primary)?;
    assert_eq!(promoted.name, replicas[1].name, "{} is in the zone that is avoided", replicas[0].name);
    instance.wait_settled(3)
}

/// What a bad module is said to be, while the last good one governs.
fn rejected(instance: &Instance, config_map: &Value, about: (&str, &str), reason: &str) -> Result {
    let series = format!("valkey_operator_policies_rejected_total{{reason=\"{reason}\"}}");
    let count = || Ok::<f64, anyhow::Error>(observe::metrics(&operator::leader()?)?.get(&series).copied().unwrap_or_default());
    let before = count()?;
    let lives = instance.lives()?;
    let events = observe::Events::so_far(about.0)?;
    let module = Module::apply(config_map)?;
    let valkey = instance.wait_condition("PolicyActive", "False", SWAP)?;
    let said = condition(&valkey, "PolicyActive").cloned().unwrap_or_default();
    assert_eq!(said["reason"], reason, "{said}");
    events.wait(about.1, reason, SWAP)?;
    kubectl::look_until("the metric to count", SWAP, || {
        let now = count()?;
        Ok(wait::Look::when((now > before).then_some(()), || format!("{series} is {now}, and was {before}")))
    })?;
    assert_eq!(instance.object()?["status"]["policy"]["name"], "replica");
    assert_eq!(instance.writer()?.ask::<String>(&["SET", "served", reason])?, "OK");
    module.delete()?;
    instance.wait_condition("PolicyActive", "True", SWAP)?;
    assert_eq!(instance.lives()?, lives);
    Ok(())
}

#[test]
fn a_module_that_misbehaves_never_governs() -> Result {
    let _operator = operator::alone()?;
    space::with("policy-bad", |namespace| {
        let instance = Instance::create(namespace, "x", &Wanted { members: 2, claims: true, ..Wanted::default() })?;
        let config_map = packed("vko-misbehave", "misbehave")?;
        for (fault, reason) in [
            ("trap", "PolicyTrapped"),
            ("recursion", "PolicyTrapped"),
            ("loop", "PolicyDeadline"),
            ("hunger", "PolicyOutOfMemory"),
            ("oversized", "PolicyOutputTooLarge"),
            ("broken-json", "PolicyOutputInvalid"),
            ("unknown-pod", "PolicyOutputInvalid"),
            ("second-primary", "PolicyRefusedByGuard"),
            ("delete-claim", "PolicyRefusedByGuard"),
            ("internal", "PolicyInternalError"),
        ] {
            annotate(&instance, "buf.red/misbehave", fault)?;
            rejected(&instance, &config_map, (namespace, "x"), reason).map_err(|error| error.context(fault))?;
        }
        Ok(())
    })
}

#[test]
fn a_module_that_goes_bad_later_is_given_up() -> Result {
    let _operator = operator::alone()?;
    space::with("policy-later", |namespace| {
        let annotations = json!({"buf.red/misbehave": "none"});
        let instance = Instance::create(namespace, "x", &Wanted { members: 2, annotations, ..Wanted::default() })?;
        let lives = instance.lives()?;
        let module = Module::apply(&packed("vko-misbehave", "misbehave")?)?;
        governed_by(&instance, "misbehave")?;
        annotate(&instance, "buf.red/misbehave", "trap")?;
        governed_by(&instance, "replica")?;
        let valkey = instance.wait_condition("PolicyActive", "False", SWAP)?;
        assert_eq!(condition(&valkey, "PolicyActive").map(|said| &said["reason"]), Some(&Value::from("PolicyTrapped")));
        instance.wait_ready()?;
        module.delete()?;
        instance.wait_condition("PolicyActive", "True", SWAP)?;
        assert_eq!(instance.lives()?, lives);
        Ok(())
    })
}

/// A change to a good ConfigMap, and what is wrong with it then.
type Spoiled = (&'static str, fn(&mut Value), &'static str);

#[test]
fn a_module_that_is_no_policy_is_not_admitted() -> Result {
    let _operator = operator::alone()?;
    space::with("policy-not", |namespace| {
        let instance = Instance::create(namespace, "x", &Wanted { members: 1, ..Wanted::default() })?;
        let good = packed("vko-misbehave", "spoiled")?;
        let table: [Spoiled; 6] = [
            ("malformed bytes", |map| component(map, b"\0asm and then nothing"), "PolicyMalformed"),
            ("a component without the interface", |map| component(map, b"\0asm\x0d\0\x01\0"), "PolicyInterfaceMismatch"),
            ("another interface", |map| manifest(map, "interface", "valkey:policy@9.0.0"), "PolicyInterfaceMismatch"),
            ("another digest", |map| manifest(map, "sha256", &"0".repeat(64)), "PolicyDigestMismatch"),
            ("another version than it says", |map| manifest(map, "version", "9.9.9"), "PolicyDescriptionMismatch"),
            ("no manifest", |map| map["data"]["manifest"] = json!("{}"), "PolicyManifestInvalid"),
        ];
        for (case, spoil, reason) in table {
            let mut config_map = good.clone();
            spoil(&mut config_map);
            rejected(&instance, &config_map, (operator::NAME, "spoiled"), reason).map_err(|error| error.context(case))?;
        }
        Ok(())
    })
}

fn manifest(config_map: &mut Value, key: &str, value: &str) {
    let text = config_map["data"]["manifest"].as_str().expect("a manifest");
    let mut manifest: Value = serde_json::from_str(text).expect("a JSON manifest");
    manifest[key] = json!(value);
    config_map["data"]["manifest"] = json!(manifest.to_string());
}

/// Other bytes, under their true digest.
fn component(config_map: &mut Value, bytes: &[u8]) {
    let file = std::env::temp_dir().join(format!("vko-e2e-{}-component", std::process::id()));
    std::fs::write(&file, bytes).expect("a file in the temporary folder");
    let digest = observe::sha256(&file).expect("sha256sum");
    std::fs::remove_file(&file).expect("the file that was written");
    config_map["binaryData"]["component"] = json!(STANDARD.encode(bytes));
    manifest(config_map, "sha256", &digest);
}
