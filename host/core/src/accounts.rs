//! The instance's accounts: a generated password for each, in a Secret of its own, made once.
//!
//! # Guarantees
//! 1. A password is generated once and never written over: the Secret is created, not applied, and kept by a finalizer while the
//!    instance lives.
//! 2. Servers, ConfigMaps and everything but the Secrets see hashes only.
//! 3. Two operators that make the same Secret at once: one wins, both use what is stored.
//! 4. Labels, owner and finalizer of a Secret are set back where somebody changed them; its password is never touched.
//! 5. A Secret that people make (for the Sentinels' clients, for Sentinels that exist elsewhere) is read and never written.
//!    Without it no object is rendered that needs it; servers are probed and steps go on.
//!
//! # Flow
//! 1. Take the Secret from the cache, else read it, else create it; set back what it is found by and kept by.
//! 2. Read the Secrets that people name.
//! 3. Render the `user` lines of each role from the hashes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use serde_json::{Value, json};
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
    /// The API server said no, or nothing, to what a Secret is found by and kept by.
    #[error("labels, owner and finalizer of the Secret {secret} can't be set back: {error}")]
    SecretNotKept {
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
    /// The API server said no, or nothing, to a read of a Secret that people make.
    #[error("the Secret {secret} can't be read: {error}")]
    SecretNotRead {
        /// Which.
        secret: String,
        /// Why.
        error: ApiError,
    },
    /// The Secret that people name isn't there, or holds no password.
    #[error("the Secret {0} has no usable 'password'; create it in the instance's namespace, with that key")]
    PasswordNotGiven(String),
    /// A hash or name isn't one.
    #[error("{0}")]
    AccountNotRendered(#[from] AccountError),
}

impl AccountsError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SecretNotMade { .. } => "SecretNotMade",
            Self::SecretNotKept { .. } => "SecretNotKept",
            Self::PasswordMissing(_) => "PasswordMissing",
            Self::SecretNotRead { .. } => "SecretNotRead",
            Self::PasswordNotGiven(_) => "PasswordNotGiven",
            Self::AccountNotRendered(error) => error.reason(),
        }
    }
}

/// Passwords of all accounts, and those that people gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accounts {
    made: BTreeMap<Account, Secret>,
    /// Whether a data server's `default` user needs no password.
    open: bool,
    /// Password of the Sentinels' clients that name no user; without one they need none.
    clients: Result<Option<Secret>, AccountsError>,
    /// What logs in to Sentinels that exist elsewhere; `None` if the instance has none of them, or they ask for nothing.
    elsewhere: Result<Option<Credential>, AccountsError>,
}

impl Accounts {
    /// Finds or makes them all. A person's Secret that can't be read is no error here: what needs it says so, the rest goes on.
    ///
    /// # Errors
    /// Names the Secret.
    pub async fn ensure<W: World>(world: &W, topology: &Topology) -> Result<Self, AccountsError> {
        let mut made = BTreeMap::new();
        for account in to_make(topology) {
            let name = names::account_secret(topology.kind.component(), &topology.name, account.name());
            let id = ObjectId::new(Kind::Secret, &topology.namespace, name);
            let object = match world.cached(&id) {
                Some(object) => object,
                None => find_or_make(world, topology, account, &id).await.map_err(|error| not_made(&id, error))?,
            };
            made.insert(account, password(&object).ok_or_else(|| AccountsError::PasswordMissing(id.name.clone()))?);
            keep(world, topology, account, &id, &object).await?;
        }
        let open = topology.spec.pointer("/access/openDefaultUser").and_then(Value::as_bool) == Some(true);
        let named = topology.own_sentinels().and_then(|own| text(own, "/access/defaultPasswordSecret"));
        let clients = match named {
            Some(secret) => given(world, topology, secret).await.map(Some),
            None => Ok(None),
        };
        Ok(Self { made, open, clients, elsewhere: elsewhere(world, topology).await })
    }

    /// What the operator logs in with.
    pub fn operator(&self) -> Credential {
        Credential {
            user: Account::Operator.name().into(),
            password: self.made.get(&Account::Operator).cloned().unwrap_or_default(),
        }
    }

    /// What the operator logs in with to Sentinels that exist elsewhere; `None`: nothing, they have none or the instance refers
    /// to none.
    ///
    /// # Errors
    /// The person's Secret can't be read, or has no password.
    pub fn elsewhere(&self) -> Result<Option<Credential>, AccountsError> {
        self.elsewhere.clone()
    }

    /// Every account with its password, by name: steps name credentials so.
    pub fn credentials(&self) -> BTreeMap<String, Credential> {
        let credential = |(account, password): (&Account, &Secret)| {
            let user = account.name().to_owned();
            (user.clone(), Credential { user, password: password.clone() })
        };
        self.made.iter().map(credential).collect()
    }

    /// The `user` lines of servers of that role, hashes only.
    ///
    /// # Errors
    /// A hash isn't one; of Sentinels also: the person's Secret can't be read, or has no password.
    pub fn users_acl(&self, role: ServerRole, line: Line) -> Result<String, AccountsError> {
        let mut lines = String::new();
        for account in Account::of(role) {
            let (password, open) = self.access(*account, role)?;
            // An account without a password, and not open, is off.
            let hashes: Vec<String> = password.filter(|_| !open).map(Secret::acl_hash).into_iter().collect();
            lines.push_str(&account.user_line(role, line, &hashes, open)?);
            lines.push('\n');
        }
        Ok(lines)
    }

    /// An account's password, and whether it needs none. Clients of Sentinels have a password of their own: Sentinels hold no
    /// data, and who may find the primary is told another word than who may write to it.
    fn access(&self, account: Account, role: ServerRole) -> Result<(Option<&Secret>, bool), AccountsError> {
        if account == Account::Default && role == ServerRole::Sentinel {
            let clients = self.clients.as_ref().map_err(Clone::clone)?;
            return Ok((clients.as_ref(), clients.is_none()));
        }
        Ok((self.made.get(&account), self.open && account == Account::Default))
    }
}

/// The Secrets of the accounts whose passwords are made.
pub fn secrets(topology: &Topology) -> impl Iterator<Item = ObjectId> {
    let name = |account: Account| names::account_secret(topology.kind.component(), &topology.name, account.name());
    to_make(topology).into_iter().map(move |account| ObjectId::new(Kind::Secret, &topology.namespace, name(account)))
}

/// Sets back what a Secret is found by (labels) and kept by (owner, finalizer). Without them its deletion would hang, or
/// would not be seen. One that is being deleted can't be kept any more.
async fn keep<W: World>(
    world: &W,
    topology: &Topology,
    account: Account,
    id: &ObjectId,
    secret: &Object,
) -> Result<(), AccountsError> {
    let Some(patch) = kept(&account_secret(topology, account.name(), &Secret::default()), secret) else { return Ok(()) };
    match world.merge(id, &patch).await {
        // Gone, or moved on: the next look sees which.
        Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => Ok(()),
        Err(error) => Err(AccountsError::SecretNotKept { secret: id.name.clone(), error }),
    }
}

/// The patch that gives a Secret the labels, owner and finalizer that it should have; what others put there stays, but for
/// another controller.
fn kept(wanted: &Value, secret: &Object) -> Option<Value> {
    let labels = wanted["metadata"]["labels"].as_object()?;
    let labelled = labels.iter().all(|(key, value)| secret.label(key) == *value);
    let owner = &wanted["metadata"]["ownerReferences"][0];
    let owned = secret.list("/metadata/ownerReferences").iter().any(|own| own["uid"] == owner["uid"]);
    let held = secret.finalizers().any(|finalizer| finalizer == names::SECRET_FINALIZER);
    if secret.deleting() || (labelled && owned && held) {
        return None;
    }
    let others =
        secret.list("/metadata/ownerReferences").iter().filter(|own| own["controller"] != true && own["uid"] != owner["uid"]);
    let owners: Vec<&Value> = others.chain([owner]).collect();
    let foreign = secret.finalizers().filter(|finalizer| *finalizer != names::SECRET_FINALIZER);
    let finalizers: Vec<&str> = foreign.chain([names::SECRET_FINALIZER]).collect();
    Some(json!({"metadata": {
        "uid": secret.uid(), "resourceVersion": secret.resource_version(),
        "labels": labels, "ownerReferences": owners, "finalizers": finalizers,
    }}))
}

/// Accounts whose passwords are made: all of every server, but that of the Sentinels' clients.
fn to_make(topology: &Topology) -> BTreeSet<Account> {
    let of = |role: ServerRole| {
        let by_people = move |account: &&Account| role == ServerRole::Sentinel && **account == Account::Default;
        Account::of(role).iter().filter(move |account| !by_people(account)).copied()
    };
    topology.roles().into_iter().flat_map(of).collect()
}

/// What logs in to the Sentinels that the instance refers to.
pub(crate) async fn elsewhere<W: World>(world: &W, topology: &Topology) -> Result<Option<Credential>, AccountsError> {
    let Some(login) = topology.login_elsewhere() else { return Ok(None) };
    Ok(Some(Credential { user: login.user.into(), password: given(world, topology, login.secret).await? }))
}

/// A password that a person gave. It is read at every look, which are minutes apart where nothing happens: people's Secrets are
/// in no cache, and a new password must not wait for a restart.
async fn given<W: World>(world: &W, topology: &Topology, secret: &str) -> Result<Secret, AccountsError> {
    let id = ObjectId::new(Kind::Secret, &topology.namespace, secret);
    let found = world.get(&id).await.map_err(|error| AccountsError::SecretNotRead { secret: secret.to_owned(), error })?;
    found.as_ref().and_then(password).ok_or_else(|| AccountsError::PasswordNotGiven(secret.to_owned()))
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
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
