//! Consents: a person allows one loss by repeating a token. The token names what would be done to whom, and the situation in which it
//! was asked for, so that it never fits another one.

use vko_sdk::Observed;

/// What a consent can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Promote a copy that may lack writes which another copy, out of reach, holds.
    PromoteDataLoss,
    /// Follow a primary that lacks writes which this copy holds.
    DiscardWrites,
    /// Give the slots of a lost shard to a member that lacks their data.
    SlotsDataLoss,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Self::PromoteDataLoss => "promote-data-loss",
            Self::DiscardWrites => "discard-writes",
            Self::SlotsDataLoss => "slots-data-loss",
        }
    }
}

/// The token: kind, target, and a hash of the situation. Parts must not change while the situation stays (no ages, no offsets that grow).
pub fn token(kind: Kind, target: &str, situation: &[&str]) -> String {
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
        let here = token(Kind::PromoteDataLoss, "rfr-x-1", &["formed", "uid-0"]);
        assert!(here.starts_with("promote-data-loss:rfr-x-1:"));
        assert_eq!(here, token(Kind::PromoteDataLoss, "rfr-x-1", &["formed", "uid-0"]), "the same situation, the same token");
        let others = [
            token(Kind::PromoteDataLoss, "rfr-x-1", &["formed", "uid-9"]),
            token(Kind::PromoteDataLoss, "rfr-x-1", &["formeduid-", "0"]),
            token(Kind::PromoteDataLoss, "rfr-x-2", &["formed", "uid-0"]),
            token(Kind::DiscardWrites, "rfr-x-1", &["formed", "uid-0"]),
        ];
        for other in others {
            assert_ne!(here, other);
        }
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
