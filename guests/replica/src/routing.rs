//! Whose pods the Services select.
//!
//! # Guarantees
//! 1. The writer is a pod that answers as the accepted primary, or - while nobody does - the one that was labelled before, as
//!    long as nothing proves it wrong. A planned role is never routed to.
//! 2. Losing the primary doesn't empty the read-only Service: a replica that was synced in this run stays a reader.

/// Value of the role label on the writer.
const ROLE_PRIMARY: &str = "master";
use vko_sdk::planning::{Routing, Writer};

use crate::view::{Member, Standing, View};

/// Whose pods the Services select, given the accepted primary.
pub fn route(view: &View<'_>, primary: Option<&Member<'_>>) -> Routing {
    let writer = primary.or_else(|| labelled(view)).and_then(Member::uid);
    let alone = view.current.max(view.spec.replicas) == 1;
    let reads = |m: &&Member<'_>| {
        let role = match m.standing {
            Standing::Replica(..) => true,
            Standing::Silent(known) => known.is_some_and(|f| f.role != vko_sdk::observation::Role::Primary),
            _ => false,
        };
        m.ready() && !m.terminating() && if m.uid() == writer { alone } else { role }
    };
    let mut readers: Vec<String> = view.members.iter().filter(reads).filter_map(|m| m.uid().map(String::from)).collect();
    readers.sort();
    Routing { writer: writer.map_or(Writer::None, |uid| Writer::Pod(uid.into())), readers }
}

/// The pod that has the label, as long as nothing proves it wrong; of several the last primary.
fn labelled<'v, 'a>(view: &'v View<'a>) -> Option<&'v Member<'a>> {
    let several = view.primaries().len() > 1;
    let outvoted = |m: &Member<'_>| view.named().is_some_and(|named| named.ordinal != m.ordinal);
    let kept = |m: &&Member<'_>| {
        let open = match m.standing {
            Standing::Silent(_) | Standing::Refusing(_) | Standing::Loading { unnamed: false } => true,
            // One of several stays where it is until that is settled; a single one that wasn't accepted holds nothing.
            Standing::Primary(_) => several,
            _ => false,
        };
        m.pod.is_some_and(|p| p.role_label == ROLE_PRIMARY) && open && !outvoted(m)
    };
    let mut labelled = view.members.iter().filter(kept);
    let last = view.last.map(|l| l.ordinal);
    let first = labelled.next()?;
    if Some(first.ordinal) == last { Some(first) } else { labelled.find(|m| Some(m.ordinal) == last).or(Some(first)) }
}
