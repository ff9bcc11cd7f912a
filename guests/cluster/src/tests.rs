//! Tables of named cases, and worlds that must come to rest as declared.

mod by_hand;
mod convergence;
mod table;

use vko_sdk::planning::{Operation, Plan, Takeover};

use crate::testing::World;

/// The plan of a world.
fn plan(world: &World) -> Plan {
    crate::decide(&world.observe()).expect("a plan")
}

/// What is decided, in short.
fn describe(plan: &Plan) -> String {
    let short = |uid: &str| uid.trim_start_matches("uid-").to_owned();
    let step = |o: &Operation| match o {
        Operation::Meet(p) => format!("meet {} {}", short(&p.pod), short(&p.peer)),
        Operation::OwnSlots(o) => format!("own {} {}", short(&o.pod), vko_sdk::slots::text(&o.slots)),
        Operation::Replicate(r) => format!("replicate {} {}", short(&r.pod), r.primary),
        Operation::TakeOver(t) if t.mode == Takeover::Force => format!("force {}", short(&t.replica)),
        Operation::TakeOver(t) => format!("takeover {}", short(&t.replica)),
        Operation::BumpEpoch(uid) => format!("bump {}", short(uid)),
        Operation::Forget(id) => format!("forget {id}"),
        other => format!("{other:?}"),
    };
    let steps = plan.tracks.iter().flat_map(|t| &t.steps);
    let mut parts: Vec<String> = steps
        .map(|s| if s.consent.is_empty() { step(&s.operation) } else { format!("{} by consent", step(&s.operation)) })
        .collect();
    parts.extend(plan.blocked.iter().map(|b| {
        let token = b.token.split(':').take(2).collect::<Vec<_>>().join(" ");
        format!("wait {}{}{token}", b.subject, if token.is_empty() { "" } else { " or " })
    }));
    if parts.is_empty() { "-".into() } else { parts.join("; ") }
}
