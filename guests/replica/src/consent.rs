//! Consents: a person allows one loss by repeating a token. The token names what would be done to whom, and the situation in
//! which it was asked for, so that it never fits another one.

use vko_sdk::Observed;

/// What a consent can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Promote a copy that may lack writes which another copy, out of reach, holds.
    PromoteDataLoss,
    /// Follow a primary that lacks writes which this copy holds.
    DiscardWrites,
    /// Restart the only member though it keeps its data nowhere else.
    RestartDataLoss,
    /// Give the slots of a lost shard to a member that lacks their data.
    SlotsDataLoss,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Self::PromoteDataLoss => "promote-data-loss",
            Self::DiscardWrites => "discard-writes",
            Self::RestartDataLoss => "restart-data-loss",
            Self::SlotsDataLoss => "slots-data-loss",
        }
    }
}

/// The token that is asked for now. A consent is used up before the act, which may fail all the same; then another token is asked
/// for, since the first one, which stays in people's manifests, must not count again.
pub fn token(observed: &Observed, kind: Kind, target: &str, situation: &[&str]) -> String {
    let first = name(kind, target, situation);
    let used = |token: &str| observed.ledger.consents_used.iter().any(|used| used == token);
    let mut tokens = std::iter::once(first.clone()).chain((2_u32..).map(|time| format!("{first}-{time}")));
    tokens.find(|token| !used(token)).unwrap_or(first)
}

/// Kind, target, and a hash of the situation. Parts must not change while the situation stays (no ages, no offsets that grow).
fn name(kind: Kind, target: &str, situation: &[&str]) -> String {
    // FNV-1a: short, stable on every machine. It guards against a token of yesterday, not against an adversary.
    let mut hash: u32 = 0x811c_9dc5;
    for part in situation {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    format!("{}:{target}:{hash:08x}", kind.text())
}

/// Whether a person gave that consent and it isn't used up.
pub fn given(observed: &Observed, token: &str) -> bool {
    !token.is_empty() && observed.instance.consents.iter().any(|c| c == token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_one_situation() {
        let here = name(Kind::PromoteDataLoss, "rfr-x-1", &["formed", "uid-0"]);
        assert!(here.starts_with("promote-data-loss:rfr-x-1:"));
        assert_eq!(here, name(Kind::PromoteDataLoss, "rfr-x-1", &["formed", "uid-0"]), "the same situation, the same token");
        let others = [
            name(Kind::PromoteDataLoss, "rfr-x-1", &["formed", "uid-9"]),
            name(Kind::PromoteDataLoss, "rfr-x-1", &["formeduid-", "0"]),
            name(Kind::PromoteDataLoss, "rfr-x-2", &["formed", "uid-0"]),
            name(Kind::DiscardWrites, "rfr-x-1", &["formed", "uid-0"]),
        ];
        for other in others {
            assert_ne!(here, other);
        }
    }

    #[test]
    fn after_a_consent_that_brought_nothing_another_one_is_asked_for() {
        let mut observed = crate::testing::Scene::new("x", 1).observed;
        let asked = |observed: &Observed| token(observed, Kind::DiscardWrites, "rfr-x-1", &["s"]);
        let first = asked(&observed);
        observed.ledger.consents_used.push(first.clone());
        assert_eq!(asked(&observed), format!("{first}-2"));
        observed.ledger.consents_used.push(format!("{first}-2"));
        assert_eq!(asked(&observed), format!("{first}-3"));
    }

    #[test]
    fn no_token_is_never_given() {
        let mut observed = crate::testing::Scene::new("x", 1).observed;
        observed.instance.consents = vec![String::new(), "discard-writes:rfr-x-0:1".into()];
        assert!(!given(&observed, ""));
        assert!(given(&observed, "discard-writes:rfr-x-0:1"));
        assert!(!given(&observed, "discard-writes:rfr-x-0:2"));
    }
}
