//! `policy test`: the built-in policies conform, and every way in which a policy can be wrong is caught by the rule that it
//! breaks.

use vko_misbehave::{ANNOTATION, Fault};

use crate::{component, folder, operator};

#[test]
fn the_policies_of_this_repository_conform() {
    for package in ["vko-replica", "vko-failover", "vko-cluster", "vko-zone-averse"] {
        let said = operator(&["test", &component(package)]);
        let broken: Vec<&str> = said.out.lines().filter(|line| line.contains("BROKEN") || line.contains("breaks")).collect();
        assert_eq!((said.code, broken), (0, vec![]), "{package}: {}", said.err);
        for expected in ["ok      as declared\n", " 0 broken\n", "slowest: "] {
            assert!(said.out.contains(expected), "{package}: {expected}: {}", said.out);
        }
    }
    let said =
        operator(&["test", &component("vko-zone-averse"), "--annotation", "buf.red/avoid-zone=b", "--scene", "pod is gone"]);
    assert!(said.out.contains("promote rfr-x-2"), "it reads the annotation: {}", said.out);
}

/// The rule that a fault breaks. `None`: it is no fault by itself, but nothing is done either.
fn rule(fault: Fault) -> &'static str {
    match fault {
        Fault::None | Fault::Insufficient => "StandsStill",
        Fault::Trap | Fault::Recursion => "PolicyTrapped",
        Fault::Loop => "PolicyDeadline",
        Fault::Hunger => "PolicyOutOfMemory",
        Fault::Oversized => "PolicyOutputTooLarge",
        Fault::BrokenJson | Fault::UnknownPod => "PolicyOutputInvalid",
        Fault::Chatter => "LogCut",
        Fault::SecondPrimary => "PromotionWithoutEvidence",
        Fault::DeleteClaim => "ClaimInUse",
        Fault::Internal => "PolicyInternalError",
    }
}

#[test]
fn each_way_to_misbehave_is_caught() {
    let module = component("vko-misbehave");
    for fault in Fault::ALL {
        // A few scenes: the deadline takes a second in each.
        let scene = match fault {
            Fault::None | Fault::Insufficient => "container ended",
            _ => "as declared, on volumes",
        };
        let annotation = format!("{ANNOTATION}={}", fault.name());
        let said = operator(&["test", &module, "--annotation", &annotation, "--scene", scene]);
        let expected = format!("breaks {}: ", rule(fault));
        assert!(said.code == 1 && said.out.contains(&expected), "{fault:?}: {expected}: {}{}", said.out, said.err);
        assert!(said.out.contains("BROKEN  ") && said.out.contains("        do: "), "{fault:?}: {}", said.out);
    }
    let whole = operator(&["test", &module]);
    assert!(whole.code == 1 && whole.out.contains("breaks StandsStill"), "one that holds everywhere doesn't conform");
}

#[test]
fn a_panic_is_shown_with_its_words() {
    let annotation = format!("{ANNOTATION}=trap");
    let said = operator(&["test", &component("vko-misbehave"), "--annotation", &annotation, "--scene", "as declared, on"]);
    assert!(said.out.contains("its log: ERROR") && said.out.contains("asked to trap"), "{}", said.out);
}

#[test]
fn what_can_not_be_tested_is_told_and_is_no_verdict() {
    let folder = folder("untestable");
    let no_module = folder.join("module.wasm").display().to_string();
    std::fs::write(&no_module, "no component").unwrap();
    let good = component("vko-misbehave");
    let cases: [(&str, &[&str], &str); 5] = [
        ("no file", &["test", "/nowhere.wasm"], "/nowhere.wasm can't be read"),
        ("no component", &["test", &no_module], "is no policy"),
        ("an annotation without a value", &["test", &good, "--annotation", "buf.red/x"], "write KEY=VALUE"),
        ("an annotation that no policy sees", &["test", &good, "--annotation", "a/b=c"], "none that a policy sees"),
        ("no such scene", &["test", &good, "--scene", "the moon fell"], "no scene's name contains"),
    ];
    for (case, arguments, expected) in cases {
        let said = operator(arguments);
        assert_eq!((said.code, said.err.contains(expected)), (2, true), "{case}: {}", said.err);
        assert!(!said.err.contains("panicked"), "{case}");
    }
}
