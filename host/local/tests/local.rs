//! `valkey-operator local`, as people use it: the real program, real servers, a folder of its own for each test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/mod.rs"]
mod support;

use support::{Owner, World, manifest};

#[test]
fn an_instance_outlives_its_primary_grows_and_comes_back_with_its_data() {
    let world = World::new("life");
    let owner = world.up(&manifest("replica", "replicasOfShard: 2"));
    world.ready();
    assert_eq!(world.ask("read-write", &["SET", "a", "1"]), "+OK");
    let before = world.primary();
    world.good(&["kill", &before]);
    owner.line(|line| line.contains(": primary") && !line.contains(&before));
    assert_ne!(world.primary(), before);
    world.apply(&manifest("replica", "replicasOfShard: 3"));
    assert_eq!(world.ready()["instances"][0]["pods"].as_array().unwrap().len(), 3);
    assert_eq!(world.ask("read-write", &["GET", "a"]), "1");
    world.apply(&manifest("replica", "replicasOfShard: 2"));
    let settled = world.ready();
    assert_eq!(settled["instances"][0]["pods"].as_array().unwrap().len(), 2, "{settled}");
    assert!(settled["instances"][0]["message"].as_str().unwrap().contains("2 member(s) in sync"), "{settled}");
    let processes = world.processes();
    assert_eq!(processes.len(), 2);
    world.good(&["down"]);
    assert!(owner.ended().success());
    assert_eq!(World::running(&processes), Vec::<u32>::new(), "no server outlives down");
    assert!(!world.file("control").exists());

    let owner = world.up_again();
    world.ready();
    assert_eq!(world.ask("read-write", &["GET", "a"]), "1", "by the same password, at the same address");
    owner.terminate();
    assert!(owner.ended().success());
    world.good(&["down", "--delete-data"]);
    assert!(!world.folder().exists());
}

#[test]
fn a_killed_owner_leaves_no_server_behind_and_the_next_goes_on() {
    let world = World::new("killed");
    let owner = world.up(&manifest("cluster", "shards: 3, replicasOfShard: 1"));
    world.ready();
    assert_eq!(world.ask_cluster(&["SET", "{a}", "1"]), "+OK");
    let processes = world.processes();
    assert_eq!(processes.len(), 3);
    owner.kill();
    assert!(!owner.ended().success());
    World::until("no server runs", || World::running(&processes).is_empty());

    let owner = world.up_again();
    world.ready();
    assert_eq!(world.ask_cluster(&["GET", "{a}"]), "1");
    owner.terminate();
    assert!(owner.ended().success());
}

#[test]
fn sentinels_are_ways_in_and_an_instance_without_volumes_begins_anew() {
    let world = World::new("anew");
    let bare = manifest("failover", "replicasOfShard: 2").replace("storage: {capacity: 1Gi}, ", "");
    let owner = world.up(&bare);
    let view = world.ready();
    let ways = view["instances"][0]["ways"].as_array().unwrap().iter().filter(|way| way["purpose"] == "sentinel").count();
    assert_eq!(ways, 3);
    assert_eq!(world.ask("read-write", &["SET", "a", "1"]), "+OK");
    owner.terminate();
    assert!(owner.ended().success());

    let owner = world.up_again();
    world.ready();
    assert_eq!(world.ask("read-write", &["GET", "a"]), "", "its data went with its servers");
    owner.terminate();
    assert!(owner.ended().success());
}

#[test]
fn what_is_deleted_goes_as_its_spec_says() {
    let world = World::new("deleted");
    let kept = manifest("replica", "replicasOfShard: 1");
    let going = kept.replace("name: demo", "name: demo, namespace: shop").replace("1Gi", "1Gi, retainAfterDeleted: false");
    let secret = "---\n{apiVersion: v1, kind: Secret, metadata: {name: mine}, stringData: {a: b}}\n";
    let owner = world.up(&format!("{kept}---\n{going}{secret}"));
    world.ready();
    assert_eq!(world.ask("read-write", &["SET", "a", "1"]), "+OK");
    let processes = world.processes();
    for (arguments, expected) in [
        (vec!["delete", "secret", "failover-acl-demo-default-secret"], "is the operator's"),
        (vec!["delete", "valkey", "nobody"], "Valkey nobody: there is none"),
        (vec!["delete", "pod", "rfr-demo-0"], "kind pod can't be deleted"),
    ] {
        let told = world.bad(&arguments);
        assert!(told.contains(expected), "{told}");
    }

    let told = world.delete(&format!("{going}{secret}"));
    assert_eq!(told, "Valkey shop/demo: deleted\nSecret mine: deleted\n");
    owner.line(|line| line.ends_with("shop/rfr-demo-0: gone"));
    owner.line(|line| line.ends_with("Valkey shop/demo is gone"));
    assert_eq!(World::running(&processes), processes, "the other one runs");
    let told = world.good(&["delete", "valkey", "demo"]);
    assert!(told.starts_with("Valkey demo: deleted; its data stays") && told.contains("valkey-data-rfr-demo-0"), "{told}");
    assert_eq!(World::running(&processes), Vec::<u32>::new());
    assert!(world.status()["instances"].as_array().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(world.file("passwords")).unwrap().count(), 0, "no password is left");

    world.apply(&kept);
    world.ready();
    assert_eq!(world.ask("read-write", &["GET", "a"]), "1", "its data stayed");
    world.good(&["down"]);
    let claims = std::fs::read_dir(world.file("state/claims")).unwrap().count();
    // Nothing is waited for between the two.
    let next = world.up_again();
    assert!(owner.ended().success());
    let left = std::fs::read_dir(world.file("state/claims")).unwrap().count();
    assert_eq!((claims, left), (2, 1), "the next life takes away the data of claims that went");
    next.terminate();
    assert!(next.ended().success());
}

#[test]
fn a_folder_has_one_owner_and_refusals_name_what_is_wrong() {
    let world = World::new("refusals");
    let told = world.bad(&["status"]);
    assert!(told.contains("nothing is up in"), "{told}");
    let good = manifest("replica", "replicasOfShard: 1");
    for (text, expected) in [
        (good.replace("replicasOfShard: 1", "replicasOfShard: 9"), "spec.replicas.replicasOfShard"),
        (
            format!("{good}---\n{}", good.replace("kind: Valkey", "kind: Deployment")),
            "document 2: kind Deployment has no meaning here",
        ),
        ("a: [".to_owned(), "no YAML"),
    ] {
        let told = world.refused_up(&text);
        assert!(told.contains(expected), "{text}: {told}");
        assert!(!world.file("control").exists());
    }

    let owner = world.up(&good);
    world.ready();
    let told = world.refused_up(&good);
    assert!(told.contains(&format!("held by process {}", owner.id())), "{told}");
    for (arguments, expected) in [
        (vec!["kill", "nobody"], "there is no pod \"nobody\""),
        (vec!["kill", "rfr-demo-0", "--signal", "NONE"], "is no signal: KILL, TERM"),
    ] {
        let told = world.bad(&arguments);
        assert!(told.contains(expected), "{told}");
    }
    let told = world.refused_apply(&good.replace("arch: replica", "arch: failover"));
    assert!(told.contains("422 Invalid") && told.contains("spec.arch"), "{told}");
    let status = world.good(&["status"]);
    let password = std::fs::read_to_string(world.file("passwords/default.demo")).unwrap();
    assert!(status.contains("passwords/default.demo") && !status.contains(&password), "{status}");
    assert!(!owner.said().contains(&password), "no password is printed");
    owner.terminate();
    assert!(owner.ended().success());
}

#[test]
fn nobody_else_reads_what_is_in_the_folder() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new("private");
    let owner: Owner = world.up(&manifest("replica", "replicasOfShard: 1"));
    world.ready();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.folder()), 0o700);
    for file in ["control", "owner", "passwords/default.demo", "state/objects"] {
        assert_eq!(mode(&world.file(file)) & 0o077, 0, "{file}");
    }
    owner.terminate();
    assert!(owner.ended().success());
}
