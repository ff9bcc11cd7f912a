//! Members are replaced in turn under load, and nothing is lost: by a restart that a person asks for, by more memory, by a newer
//! line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use vko_e2e::instance::{Instance, Wanted};
use vko_e2e::losses::bound;
use vko_e2e::settings::Tier;
use vko_e2e::writer::Writer;
use vko_e2e::{Result, kubectl, operator, settings, space};

/// Acknowledged writes before and after each change: about a second.
const SOME: usize = 1000;

/// What a person changes.
fn changes(tier: Tier) -> Vec<Value> {
    let restart = json!({"podAnnotations": {"kubectl.kubernetes.io/restartedAt": "2027-01-15T08:00:00Z"}});
    let memory = json!({"resources": {"limits": {"memory": "192Mi"}}});
    if tier == Tier::Quick { vec![restart] } else { vec![restart, memory] }
}

#[test]
fn members_are_restarted_in_turn() -> Result {
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        let wanted = Wanted { version, members: 3, claims: true, ..Wanted::default() };
        rolled(&format!("roll-{}", version.replace('.', "")), &wanted, &changes(settings::tier()?))?;
    }
    Ok(())
}

#[test]
fn a_newer_line_is_rolled_out() -> Result {
    let _operator = operator::shared()?;
    // Redict, which stands for 7.2 here, can't be left by replication.
    for version in settings::full_lines()?.iter().filter(|version| **version == "8.1") {
        let wanted = Wanted { version, members: 3, claims: true, ..Wanted::default() };
        rolled("roll-newer", &wanted, &[json!({"version": "9.1"})])?;
    }
    Ok(())
}

#[test]
fn a_lone_member_is_restarted_from_its_volume() -> Result {
    let _operator = operator::shared()?;
    for version in settings::full_lines()? {
        let wanted = Wanted { version, members: 1, claims: true, ..Wanted::default() };
        rolled(&format!("roll-lone-{}", version.replace('.', "")), &wanted, &changes(Tier::Quick))?;
    }
    Ok(())
}

fn rolled(namespace: &str, wanted: &Wanted, changes: &[Value]) -> Result {
    space::with(namespace, |namespace| {
        let instance = Instance::create(namespace, "x", wanted)?;
        instance.wait_writable()?;
        let writer = Writer::start(instance.entrance()?);
        for change in changes {
            writer.wait_acks(SOME)?;
            let before = instance.servers()?;
            kubectl::patch(namespace, &instance.target(), &json!({"spec": change}))?;
            instance.wait_lives_over(&before)?;
            instance.wait_settled(before.len())?;
            let after = instance.servers()?;
            assert!(before.iter().zip(&after).all(|(old, new)| old.uid != new.uid), "each in a new pod: {after:?}");
            writer.wait_acks(SOME)?;
        }
        writer.stop()?.verify(&instance.entrance()?, "planned", bound(instance.arch.name(), "planned")?)
    })
}
