//! The instance's accounts: a generated password for each, in a Secret of its own, made once.
//!
//! # Guarantees
//! 1. A password is generated once and never written over: the Secret is created, not applied, and kept by a finalizer while the instance
//!    lives.
//! 2. Servers, ConfigMaps and everything but the Secrets see hashes only.
//! 3. Two operators that make the same Secret at once: one wins, both use what is stored.
//!
//! # Flow
//! 1. Take the Secret from the cache, else read it, else create it.
//! 2. Render the `user` lines from the hashes.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use vko_api::names;
use vko_model::accounts::{Account, AccountError, ServerRole};
use vko_model::version::Line;

use crate::object::{Kind, Object, ObjectId};
use crate::render::{Topology, account_secret};
use crate::secret::Secret;
use crate::world::{ApiError, Credential, World};

/// Characters of a generated password: letters and digits, so that it needs no quoting anywhere.
const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// 32 of 62 characters are 190 bits.
const LENGTH: usize = 32;

/// Why there are no accounts. The variant is the metric label, event reason and condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountsError {
    /// The API server said no, or nothing.
    #[error("the Secret {secret} can't be read or made: {error}")]
    SecretNotMade {
        /// Which.
        secret: String,
        /// Why.
        error: ApiError,
    },
    /// The Secret is there and holds no password.
    #[error(
        "the Secret {0} has no usable 'password'; put the former one back (a new one, made when its finalizer and the Secret are deleted, \
         is known to servers only after their next start)"
    )]
    PasswordMissing(String),
    /// A hash or name isn't one.
    #[error("{0}")]
    AccountNotRendered(#[from] AccountError),
}

impl AccountsError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SecretNotMade { .. } => "SecretNotMade",
            Self::PasswordMissing(_) => "PasswordMissing",
            Self::AccountNotRendered(error) => error.reason(),
        }
    }
}

/// Passwords of all accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accounts(BTreeMap<Account, Secret>);

impl Accounts {
    /// Finds or makes them all.
    ///
    /// # Errors
    /// Names the Secret.
    pub async fn ensure<W: World>(world: &W, topology: &Topology) -> Result<Self, AccountsError> {
        let mut accounts = BTreeMap::new();
        for account in Account::of(ServerRole::Replica).iter().copied() {
            let id = ObjectId::new(
                Kind::Secret,
                &topology.namespace,
                names::account_secret(names::component::FAILOVER, &topology.name, account.name()),
            );
            let object = match world.cached(&id) {
                Some(object) => object,
                None => find_or_make(world, topology, account, &id).await.map_err(|error| not_made(&id, error))?,
            };
            accounts.insert(account, password(&object).ok_or_else(|| AccountsError::PasswordMissing(id.name.clone()))?);
        }
        Ok(Self(accounts))
    }

    /// What the operator logs in with.
    pub fn operator(&self) -> Credential {
        Credential {
            user: Account::Operator.name().into(),
            password: self.0.get(&Account::Operator).cloned().unwrap_or_default(),
        }
    }

    /// The `user` lines, hashes only.
    ///
    /// # Errors
    /// A hash isn't one.
    pub fn users_acl(&self, line: Line, open_default_user: bool) -> Result<String, AccountsError> {
        let mut lines = String::new();
        for (account, password) in &self.0 {
            let open = *account == Account::Default && open_default_user;
            let hashes = if open { Vec::new() } else { vec![password.acl_hash()] };
            lines.push_str(&account.user_line(ServerRole::Replica, line, &hashes, open)?);
            lines.push('\n');
        }
        Ok(lines)
    }
}

fn not_made(id: &ObjectId, error: ApiError) -> AccountsError {
    AccountsError::SecretNotMade { secret: id.name.clone(), error }
}

async fn find_or_make<W: World>(world: &W, topology: &Topology, account: Account, id: &ObjectId) -> Result<Object, ApiError> {
    if let Some(object) = world.get(id).await? {
        return Ok(object);
    }
    let generated = generate(world);
    match world.create(&account_secret(topology, account.name(), &generated)).await {
        // Somebody was faster, or our own create of before did happen.
        Err(ApiError::AlreadyExists(why)) => world.get(id).await?.ok_or(ApiError::Conflict(why)),
        other => other,
    }
}

fn generate<W: World>(world: &W) -> Secret {
    let mut password = String::with_capacity(LENGTH);
    while password.len() < LENGTH {
        let mut bytes = [0_u8; 64];
        world.random(&mut bytes);
        // 248 is the largest multiple of 62 below 256: bytes beyond would favour the first letters.
        let usable = bytes.iter().filter(|byte| **byte < 248);
        password
            .extend(usable.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).take(LENGTH - password.len()));
    }
    Secret::new(password)
}

fn password(object: &Object) -> Option<Secret> {
    let bytes: ByteString = serde_json::from_value(object.0.pointer("/data/password")?.clone()).ok()?;
    let text = String::from_utf8(bytes.0).ok()?;
    (!text.is_empty() && !text.chars().any(char::is_control)).then(|| Secret::new(text))
}

#[cfg(test)]
mod tests;
