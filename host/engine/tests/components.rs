//! Real components in the real sandbox. They are built by `cargo xtask guests`; VKO_GUESTS names their folder, without it
//! the one in the target folder is taken. One binary with one engine, because compiling a component takes most of the time.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod sample;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use vko_cluster::ClusterPolicy;
use vko_cluster::testing::{State, World};
use vko_core::policy::{Admit, AdmitError, Expected, GuestError, Policy};
use vko_engine::limits::{ANSWER_BYTES_MAX, CALL_DEADLINE_MS, MEMORY_BYTES_MAX};
use vko_engine::{Engine, NativePolicy, pack};
use vko_misbehave::{ANNOTATION, Fault, Misbehave};
use vko_replica::ReplicaPolicy;
use vko_wit::common::{Architecture, Pair};
use vko_wit::observation::{ContainerState, NodeState, Observed, Reach, Role, Upstream};
use vko_wit::planning::{Operation, PolicyError};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new().unwrap());
static MISBEHAVE: LazyLock<(Vec<u8>, Expected, Arc<dyn Policy>)> = LazyLock::new(|| admitted("vko-misbehave"));

fn component(package: &str) -> Vec<u8> {
    let folder = std::env::var_os("VKO_GUESTS").map(PathBuf::from).unwrap_or_else(|| {
        let binary = std::env::current_exe().unwrap();
        let target = binary.ancestors().find(|folder| folder.join("guests").is_dir());
        target.map(Path::to_path_buf).unwrap_or_default().join("guests")
    });
    let file = folder.join(format!("{package}.wasm"));
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; run 'cargo xtask guests' first", file.display()))
}

fn admitted(package: &str) -> (Vec<u8>, Expected, Arc<dyn Policy>) {
    let component = component(package);
    let expected = ENGINE.describe(&component).unwrap();
    let policy = ENGINE.admit(&expected, &component).unwrap();
    (component, expected, policy)
}

/// A healthy instance whose annotation asks for a fault.
fn asked_of(members: u32, fault: Fault) -> Observed {
    let mut observed = sample::observed(members);
    observed.instance.annotations.push(Pair { key: ANNOTATION.into(), value: fault.name().into() });
    observed
}

fn asked(fault: Fault) -> Observed {
    asked_of(3, fault)
}

/// The engine is as healthy as before: a harmless call gets its plan.
fn assert_healthy() {
    let plan = MISBEHAVE.2.decide(&asked(Fault::None)).unwrap().unwrap();
    assert_eq!(plan.status.message, "1 of 3 servers are primaries");
}

#[test]
fn each_fault_ends_as_its_own_error_and_the_engine_stays_healthy() {
    let policy = &MISBEHAVE.2;
    let cases = [
        (Fault::Loop, GuestError::PolicyDeadline(CALL_DEADLINE_MS)),
        (Fault::Hunger, GuestError::PolicyOutOfMemory(MEMORY_BYTES_MAX)),
        (Fault::Oversized, GuestError::PolicyOutputTooLarge(ANSWER_BYTES_MAX)),
        (
            Fault::UnknownPod,
            GuestError::PolicyOutputInvalid("routing.writer names pod 'no-such-pod', which was not observed".into()),
        ),
    ];
    for (fault, expected) in cases {
        assert_eq!(policy.decide(&asked(fault)), Err(expected), "{fault:?}");
        assert_healthy();
    }
    let Err(GuestError::PolicyOutputInvalid(text)) = policy.decide(&asked(Fault::BrokenJson)) else {
        panic!("details are no JSON")
    };
    assert!(text.contains("status.details is no JSON"), "{text}");
    let Err(GuestError::PolicyTrapped(text)) = policy.decide(&asked(Fault::Recursion)) else { panic!("no stack is endless") };
    assert!(!text.is_empty());
    assert_healthy();
}

#[test]
fn a_panic_says_where_and_why() {
    let Err(GuestError::PolicyTrapped(text)) = MISBEHAVE.2.decide(&asked(Fault::Trap)) else { panic!("a panic is a trap") };
    assert!(text.contains("guests/misbehave/src/lib.rs") && text.contains("asked to trap"), "{text}");
    assert!(
        !text.contains(env!("CARGO_MANIFEST_DIR").trim_end_matches("/host/engine")),
        "it names no folder of the build: {text}"
    );
}

#[test]
fn its_own_word_is_no_fault_of_the_call() {
    let policy = &MISBEHAVE.2;
    assert_eq!(policy.decide(&asked(Fault::Internal)), Ok(Err(PolicyError::Internal("asked to fail".into()))));
    assert_eq!(policy.decide(&asked(Fault::Insufficient)), Ok(Err(PolicyError::Insufficient("asked to hold".into()))));
}

#[test]
fn what_only_the_guard_can_refuse_comes_through() {
    let policy = &MISBEHAVE.2;
    let operation = |fault| policy.decide(&asked(fault)).unwrap().unwrap().tracks.remove(0).steps.remove(0).operation;
    assert_eq!(operation(Fault::SecondPrimary), Operation::Promote("pod-1".into()));
    assert_eq!(operation(Fault::DeleteClaim), Operation::DeleteClaim("claim-0".into()));
}

#[test]
fn chatter_is_cut_and_the_plan_comes() {
    assert!(MISBEHAVE.2.decide(&asked(Fault::Chatter)).unwrap().is_ok());
}

#[test]
fn validate_has_the_same_bounds() {
    let policy = &MISBEHAVE.2;
    assert_eq!(policy.validate(r#"{"members":3}"#, ""), Ok(vec![]));
    assert_eq!(policy.validate(r#"{"misbehave":"oversized"}"#, ""), Err(GuestError::PolicyOutputTooLarge(ANSWER_BYTES_MAX)));
    assert_eq!(policy.validate(r#"{"misbehave":"hunger"}"#, ""), Err(GuestError::PolicyOutOfMemory(MEMORY_BYTES_MAX)));
    assert_eq!(policy.validate(r#"{"misbehave":"x"}"#, "").unwrap()[0].message, "'x' is no fault");
}

/// Each instance reserves gigabytes of address space: what stays behind of 200 would show.
#[test]
fn two_hundred_traps_leave_nothing_behind() {
    let address_space = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
    };
    let observed = asked(Fault::Trap);
    assert!(MISBEHAVE.2.decide(&observed).is_err());
    let before = address_space();
    for _ in 0..200 {
        assert!(matches!(MISBEHAVE.2.decide(&observed), Err(GuestError::PolicyTrapped(_))));
    }
    // The bound leaves room for what other tests of this binary hold at the moment.
    let grown = address_space().saturating_sub(before);
    assert!(grown < 100 << 30, "200 failed calls keep {} GiB of address space", grown >> 30);
    assert_healthy();
}

#[test]
fn calls_of_one_policy_run_side_by_side() {
    std::thread::scope(|scope| {
        let looping = scope.spawn(|| MISBEHAVE.2.decide(&asked(Fault::Loop)));
        for _ in 0..20 {
            assert_healthy();
        }
        assert_eq!(looping.join().unwrap(), Err(GuestError::PolicyDeadline(CALL_DEADLINE_MS)));
    });
}

#[test]
fn native_and_wasm_builds_decide_alike() {
    let native = NativePolicy::<Misbehave>::new();
    let wasm = &MISBEHAVE.2;
    assert_eq!(native.info().digest, "native");
    assert_eq!((&native.info().name, &native.info().server_lines), (&wasm.info().name, &wasm.info().server_lines));
    for fault in [Fault::None, Fault::SecondPrimary, Fault::DeleteClaim, Fault::UnknownPod, Fault::BrokenJson, Fault::Internal] {
        for members in [1, 3, 5] {
            let observed = asked_of(members, fault);
            assert_eq!(native.decide(&observed), wasm.decide(&observed), "{fault:?} with {members}");
        }
    }
    assert_eq!(native.decide(&asked(Fault::Trap)).unwrap_err().reason(), wasm.decide(&asked(Fault::Trap)).unwrap_err().reason());
}

/// The built-in policy in situations that lead it through its parts. What it should say in each is its own tests' business.
#[test]
fn the_built_in_policy_decides_alike_natively_and_in_the_sandbox() {
    type Edit = fn(&mut Observed);
    let situations: [(&str, Edit); 10] = [
        ("healthy", |_| {}),
        ("never formed", |observed| observed.ledger.formed = Some(false)),
        ("not known whether formed", |observed| observed.ledger.formed = None),
        ("being deleted", |observed| observed.instance.deleting = true),
        ("a spec that can't be read", |observed| observed.instance.spec = "[]".into()),
        ("primary terminated", |observed| {
            observed.pods[0].container = ContainerState::Terminated;
            observed.servers[0].reach = Reach::Silent(20_000);
        }),
        ("primary silent", |observed| observed.servers[0].reach = Reach::Silent(20_000)),
        ("primary's node gone", |observed| {
            observed.pods[0].node_state = NodeState::Gone;
            observed.servers[0].reach = Reach::Silent(60_000);
        }),
        ("a replica follows nobody", |observed| {
            let facts = observed.servers[1].facts.as_mut().unwrap();
            if let Role::Replica(link) = &mut facts.role {
                link.primary = Upstream::Nobody;
                link.up = false;
            }
        }),
        ("pods not made yet", |observed| {
            observed.pods.clear();
            observed.servers.clear();
        }),
    ];
    let native = NativePolicy::<ReplicaPolicy>::new();
    let (_, _, wasm) = admitted("vko-replica");
    assert_eq!(native.info().name, wasm.info().name);
    for (name, edit) in situations {
        for members in [1, 3] {
            let mut observed = sample::observed(members.max(2));
            observed.instance.spec = observed.instance.spec.replace("\"replicas\":2", &format!("\"replicas\":{members}"));
            edit(&mut observed);
            let (native, wasm) = (native.decide(&observed), wasm.decide(&observed));
            assert_eq!(native, wasm, "{name} with {members}");
            assert!(native.is_ok(), "{name} with {members}: {native:?}");
        }
    }
}

#[test]
fn the_built_in_cluster_policy_decides_alike_natively_and_in_the_sandbox() {
    type Edit = fn(&mut World);
    let situations: [(&str, Edit); 6] = [
        ("healthy", |_| {}),
        ("the ledger was lost", |world| world.formed = None),
        ("all addresses are new", World::restart_all),
        ("a primary's pod is gone", |world| world.at(0, 0).state = State::NoPod),
        ("two primaries are held", |world| (world.at(0, 0).state, world.at(1, 0).state) = (State::Held, State::Held)),
        ("a shard is lost", |world| (0..2).for_each(|ordinal| world.replace(0, ordinal, false))),
    ];
    let native = NativePolicy::<ClusterPolicy>::new();
    let (_, _, wasm) = admitted("vko-cluster");
    assert_eq!((&native.info().name, native.info().architecture), (&wasm.info().name, Architecture::Cluster));
    for (name, edit) in situations {
        let mut world = World::healthy(3, 2);
        edit(&mut world);
        let observed = world.observe();
        let plan = native.decide(&observed);
        assert_eq!(plan, wasm.decide(&observed), "{name}");
        assert!(matches!(plan, Ok(Ok(_))), "{name}: {plan:?}");
    }
    for largest in [World::healthy(128, 5), World::new(128, 5)] {
        let observed = largest.observe();
        assert_eq!(native.decide(&observed), wasm.decide(&observed), "128 shards of 5, within the bounds of a call");
    }
}

#[test]
fn the_largest_observation_passes() {
    let plan = MISBEHAVE.2.decide(&sample::observed(640)).unwrap().unwrap();
    assert_eq!(plan.status.message, "1 of 640 servers are primaries");
}

#[test]
fn what_is_packed_is_admitted_and_compiled_once() {
    let (component, expected, _) = &*MISBEHAVE;
    let engine = Engine::new().unwrap();
    let policy = engine.admit_as_described(component).unwrap();
    let (unpacked, bytes) = pack::unpack(&pack::pack("policy-misbehave", expected, component).unwrap()).unwrap();
    let again = engine.admit(&unpacked, &bytes).unwrap();
    assert_eq!(again.info(), policy.info());
    assert_eq!(again.info().architecture, Architecture::Replica);
    assert_eq!(engine.compilations(), 1);
}

#[test]
fn what_is_no_such_policy_is_refused_at_admission() {
    let (component, expected, _) = &*MISBEHAVE;
    let promise = |bytes: &[u8]| Expected { sha256: digest_of(bytes), ..expected.clone() };
    let refused = |expected: &Expected, bytes: &[u8]| ENGINE.admit(expected, bytes).err().expect("it is no such policy");

    let mut changed = component.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert!(matches!(refused(expected, &changed), AdmitError::PolicyDigestMismatch { .. }));

    let half = &component[..component.len() / 2];
    let cases: [(&str, &[u8], &str, &str); 7] = [
        ("cut in half", half, "PolicyMalformed", "out of bounds"),
        ("no wasm at all", b"#!/bin/sh", "PolicyMalformed", "magic"),
        ("a core module", b"\0asm\x01\0\0\0", "PolicyMalformed", "component"),
        ("an empty component", EMPTY, "PolicyInterfaceMismatch", "doesn't export valkey:policy/decisions@0.2.0"),
        (
            "an import beside log",
            &imports("wasi:clocks/wall-clock@0.2.0", "now"),
            "PolicyInterfaceMismatch",
            "'now' of 'wasi:clocks",
        ),
        (
            "another function of log",
            &imports("valkey:policy/log@0.2.0", "read"),
            "PolicyInterfaceMismatch",
            "'read' of 'valkey:policy/log",
        ),
        ("log of another version", &imports("valkey:policy/log@7.0.0", "log"), "PolicyInterfaceMismatch", "log@7.0.0"),
    ];
    for (name, bytes, reason, part) in cases {
        let error = refused(&promise(bytes), bytes);
        assert_eq!(error.reason(), reason, "{name}: {error}");
        assert!(error.to_string().contains(part), "{name}: {error}");
    }

    let other_interface = Expected { interface: "valkey:policy@9.0.0".into(), ..expected.clone() };
    assert_eq!(refused(&other_interface, component).reason(), "PolicyInterfaceMismatch");
    let other_version = Expected { version: "9.9.9".into(), ..expected.clone() };
    assert_eq!(refused(&other_version, component).reason(), "PolicyDescriptionMismatch");
    let huge = vec![0; vko_engine::limits::COMPONENT_BYTES_MAX + 1];
    assert_eq!(refused(&promise(&huge), &huge).reason(), "PolicyMalformed");
    assert_healthy();
}

/// Preamble of a component.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

/// A component that imports an instance with one function without parameters and results, and exports nothing.
fn imports(interface: &str, function: &str) -> Vec<u8> {
    let name = |text: &str| [&[0, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let section = |id: u8, content: Vec<u8>| [&[id, u8::try_from(content.len()).unwrap()], content.as_slice()].concat();
    // Section of types, one of them: an instance type with two declarations, a function type () -> () and its export under the
    // name.
    let instance = [&[1, 0x42, 2, 0x01, 0x40, 0x00, 0x01, 0x00, 0x04], name(function).as_slice(), &[0x01, 0x00]].concat();
    let import = [&[1], name(interface).as_slice(), &[0x05, 0x00]].concat();
    [EMPTY, &section(7, instance), &section(10, import)].concat()
}

fn digest_of(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
