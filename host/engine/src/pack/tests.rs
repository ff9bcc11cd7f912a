#![allow(clippy::unwrap_used)]

use super::*;

const COMPONENT_BYTES: &[u8] = b"\0asm and so on";

fn promise(name: &str, version: &str, component: &[u8]) -> Expected {
    Expected {
        name: name.into(),
        architecture: Architecture::Replica,
        version: version.into(),
        sha256: sha256(component),
        interface: vko_wit::INTERFACE.into(),
    }
}

fn sample() -> Expected {
    promise("replica-zone-averse", "0.2.0", COMPONENT_BYTES)
}

#[test]
fn what_is_packed_is_unpacked() {
    let packed = pack("policy-zone-averse", &sample(), COMPONENT_BYTES).unwrap();
    assert_eq!(packed["metadata"]["labels"][LABEL], "true");
    assert_eq!(packed["metadata"]["name"], "policy-zone-averse");
    assert_eq!(unpack(&packed).unwrap(), (sample(), COMPONENT_BYTES.to_vec()));
}

#[test]
fn each_malformed_form_is_refused_by_name() {
    type Edit = fn(&mut Value);
    fn manifest(config_map: &mut Value, field: &str, value: Value) {
        let mut manifest: Value = serde_json::from_str(config_map["data"]["manifest"].as_str().unwrap()).unwrap();
        match value {
            Value::Null => drop(manifest.as_object_mut().unwrap().remove(field)),
            value => manifest[field] = value,
        }
        config_map["data"]["manifest"] = manifest.to_string().into();
    }
    let cases: [(&str, Edit, &str); 22] = [
        ("no data", |map| drop(map.as_object_mut().unwrap().remove("data")), "no data"),
        ("data is null", |map| map["data"] = Value::Null, "no data"),
        ("no manifest", |map| map["data"] = json!({}), "data.manifest is missing"),
        ("manifest is no text", |map| map["data"]["manifest"] = json!({}), "data.manifest is missing or no text"),
        ("manifest is no JSON", |map| map["data"]["manifest"] = "name: x".into(), "data.manifest: expected"),
        ("manifest is cut", |map| map["data"]["manifest"] = "{\"name\":".into(), "data.manifest: EOF"),
        ("a stranger in data", |map| map["data"]["notes"] = "x".into(), "data.notes is not known"),
        ("a field that nobody reads", |map| manifest(map, "priority", json!(1)), "unknown field `priority`"),
        ("name missing", |map| manifest(map, "name", Value::Null), "missing field `name`"),
        ("name of a wrong form", |map| manifest(map, "name", json!("Zone Averse")), "name 'Zone Averse'"),
        ("name too long", |map| manifest(map, "name", json!("x".repeat(64))), "is not 1 to 63"),
        ("architecture unknown", |map| manifest(map, "architecture", json!("ring")), "unknown variant `ring`"),
        ("version of two parts", |map| manifest(map, "version", json!("1.0")), "version '1.0'"),
        ("version with a leading zero", |map| manifest(map, "version", json!("1.00.0")), "version '1.00.0'"),
        ("version is a number", |map| manifest(map, "version", json!(1)), "invalid type"),
        ("digest too short", |map| manifest(map, "sha256", json!("ab")), "sha256 'ab'"),
        ("digest in capitals", |map| manifest(map, "sha256", json!("A".repeat(64))), "lower-case"),
        ("interface empty", |map| manifest(map, "interface", json!("")), "interface is empty"),
        ("no component", |map| map["binaryData"] = json!({}), "binaryData.component is missing"),
        ("component is no base64", |map| map["binaryData"]["component"] = "%%".into(), "no base64"),
        ("component is empty", |map| map["binaryData"]["component"] = "".into(), "binaryData.component is empty"),
        ("two components", |map| map["binaryData"]["other"] = "AA==".into(), "binaryData.other is not known"),
    ];
    let packed = pack("p", &sample(), COMPONENT_BYTES).unwrap();
    for (name, edit, expected) in cases {
        let mut config_map = packed.clone();
        edit(&mut config_map);
        let error = unpack(&config_map).unwrap_err();
        assert_eq!(error.reason(), "PolicyManifestInvalid", "{name}");
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
}

#[test]
fn pack_refuses_what_unpack_or_a_server_would() {
    let large = vec![0; CONFIG_MAP_BYTES_MAX];
    let cases = [
        ("too large", "p", promise("p", "1.0.0", &large), large.as_slice(), "opt-level"),
        ("no version", "p", Expected { version: "new".into(), ..sample() }, COMPONENT_BYTES, "MAJOR.MINOR.PATCH"),
        ("no name of a ConfigMap", "P!", sample(), COMPONENT_BYTES, "the ConfigMap's name"),
        ("another component", "p", sample(), b"other".as_slice(), "SHA-256"),
    ];
    for (name, config_map, expected, component, part) in cases {
        let error = pack(config_map, &expected, component).unwrap_err();
        assert!(error.to_string().contains(part), "{name}: {error}");
    }
}

#[test]
fn a_config_map_is_filled_to_the_last_byte() {
    let empty = pack("p", &promise("p", "1.0.0", b"x"), b"x").unwrap();
    let manifest = empty["data"]["manifest"].as_str().unwrap().len();
    let component = vec![7; CONFIG_MAP_BYTES_MAX - manifest];
    let packed = pack("p", &promise("p", "1.0.0", &component), &component).unwrap();
    assert_eq!(unpack(&packed).unwrap().1.len(), component.len());
}
