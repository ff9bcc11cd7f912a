//! Members in place, under load: nothing is lost, and who stays is not restarted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use vko_e2e::instance::{Instance, Wanted};
use vko_e2e::losses::bound;
use vko_e2e::writer::Writer;
use vko_e2e::{Result, operator, settings, space};

const STEPS: [u32; 3] = [3, 5, 2];
/// Acknowledged writes at each size: about a second.
const SOME: usize = 1000;

#[test]
fn one_to_three_to_five_to_two_members() -> Result {
    let _operator = operator::shared()?;
    for version in settings::lines()? {
        let namespace = format!("scale-{}", version.replace('.', ""));
        space::with(&namespace, |namespace| {
            let instance = Instance::create(namespace, "x", &Wanted { version, members: 1, claims: true, ..Wanted::default() })?;
            instance.wait_writable()?;
            let writer = Writer::start(instance.entrance()?);
            writer.wait_acks(SOME)?;
            for members in STEPS {
                scale(&instance, members)?;
                writer.wait_acks(SOME)?;
            }
            writer.stop()?.verify(&instance.entrance()?, "scale", bound(instance.arch.name(), "scale")?)
        })?;
    }
    Ok(())
}

fn scale(instance: &Instance, members: u32) -> Result {
    let before = instance.lives()?;
    instance.scale(members)?;
    instance.wait_settled(members as usize)?;
    let after = instance.lives()?;
    assert_eq!(after.len(), members as usize);
    let staying = before.len().min(after.len());
    assert_eq!(after[..staying], before[..staying], "members that stay are the first by ordinal, and are not restarted");
    Ok(())
}
