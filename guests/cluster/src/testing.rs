//! A cluster of servers that aren't there, for tests: as much of their behaviour as decisions rest on. [`World`] applies steps,
//! lets time pass, and shows itself as an observation.
//!
//! Names: instance `x`, pods `drc-x-0-0`.., UIDs `uid-0-0-1`.. (shard, ordinal, how manieth pod), node ids `node-0-0-1`...

use std::collections::{BTreeMap, BTreeSet};
use vko_sdk::common::SlotRange;
use vko_sdk::observation::Outcome;
use vko_sdk::planning::{Operation, Step, Takeover};
use vko_sdk::slots;

mod gallery;
mod lives;
mod observe;

pub use self::gallery::gallery;
pub use self::lives::{half_made, wounded};

/// A server and its pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// Shard.
    pub shard: u32,
    /// Ordinal.
    pub ordinal: u32,
    /// How manieth pod in its place, from 1.
    pub pod: u32,
    /// Node id.
    pub id: String,
    /// Number of its process.
    pub run: u32,
    /// What it is now.
    pub state: State,
    /// Keys that it holds.
    pub keys: u64,
    /// Slots that it believes to own.
    pub slots: Vec<SlotRange>,
    /// Its config epoch.
    pub epoch: u64,
    /// Whom it replicates; empty: nobody.
    pub replica_of: String,
    /// Whether its link to its primary is up and it is synced.
    pub synced: bool,
    /// Whom it knows, and whether it has a link to them.
    pub known: BTreeMap<String, bool>,
}

/// What a simulated server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Up,
    /// Its container ended.
    Ended,
    /// Its pod doesn't exist.
    NoPod,
    /// It runs and gives no answer.
    Silent,
    /// Its agent holds it back.
    Held,
}

/// The cluster.
#[derive(Debug, Clone)]
pub struct World {
    /// Shards.
    pub shards: u32,
    /// Members of each.
    pub members: u32,
    /// All servers, by shard and ordinal.
    pub servers: Vec<Simulated>,
    /// Nodes that are no members any more, or never were: id, whether they live, their slots.
    pub others: BTreeMap<String, (bool, Vec<SlotRange>)>,
    /// Servers (ids) that never heard of those: they began after them and have met nobody yet.
    pub unaware: BTreeSet<String>,
    /// The ledger's `formed`.
    pub formed: Option<bool>,
    /// The ledger's last primary by shard: place and node id.
    pub last: BTreeMap<u32, (u32, String)>,
    /// The ledger's members: node id to place.
    pub recorded: BTreeMap<String, (u32, u32)>,
    /// What became of recent steps.
    pub recent: Vec<Outcome>,
    /// Consents given.
    pub consents: Vec<String>,
    /// Whether places have claims.
    pub claims: bool,
}

impl World {
    /// Servers that were never introduced to each other.
    pub fn new(shards: u32, members: u32) -> Self {
        let places = (0..shards).flat_map(|s| (0..members).map(move |o| (s, o)));
        let servers = places.map(|(shard, ordinal)| fresh(shard, ordinal, 1)).collect();
        Self {
            shards,
            members,
            servers,
            others: BTreeMap::new(),
            unaware: BTreeSet::new(),
            formed: Some(false),
            last: BTreeMap::new(),
            recorded: BTreeMap::new(),
            recent: Vec::new(),
            consents: Vec::new(),
            claims: false,
        }
    }

    /// A cluster as declared, ten keys in each shard.
    pub fn healthy(shards: u32, members: u32) -> Self {
        let mut world = Self::new(shards, members);
        let ids: Vec<String> = world.servers.iter().map(|s| s.id.clone()).collect();
        for server in &mut world.servers {
            server.known = ids.iter().filter(|id| **id != server.id).map(|id| (id.clone(), true)).collect();
            server.keys = 10;
            if server.ordinal == 0 {
                server.slots = slots::share(server.shard, shards);
                server.epoch = u64::from(server.shard) + 1;
            } else {
                server.replica_of = format!("node-{}-0-1", server.shard);
                server.synced = true;
            }
        }
        world.formed = Some(true);
        world.learn();
        world
    }

    /// The server in a place.
    ///
    /// # Panics
    /// There is no such place.
    pub fn at(&mut self, shard: u32, ordinal: u32) -> &mut Simulated {
        let index = (shard * self.members + ordinal) as usize;
        &mut self.servers[index]
    }

    /// Another pod in that place, with the data of before (`keep`) or with nothing.
    pub fn replace(&mut self, shard: u32, ordinal: u32, keep: bool) {
        let old = self.at(shard, ordinal).clone();
        let mut new = fresh(shard, ordinal, old.pod + 1);
        if keep {
            (new.id, new.keys, new.slots, new.epoch) = (old.id, old.keys, old.slots, old.epoch);
            new.replica_of = old.replica_of;
            new.known = old.known;
        } else {
            self.others.insert(old.id, (false, old.slots));
            self.unaware.insert(new.id.clone());
        }
        *self.at(shard, ordinal) = new;
    }

    /// All processes start anew, under new addresses: nobody has a link.
    pub fn restart_all(&mut self) {
        for server in &mut self.servers {
            server.run += 1;
            server.synced = false;
            server.known.values_mut().for_each(|linked| *linked = false);
        }
    }

    fn by_id(&mut self, id: &str) -> Option<&mut Simulated> {
        self.servers.iter_mut().find(|s| s.id == id)
    }

    fn by_uid(&mut self, uid: &str) -> Option<&mut Simulated> {
        self.servers.iter_mut().find(|s| s.uid() == uid)
    }

    /// Carries a step out. False: the servers refused it.
    pub fn apply(&mut self, step: &Step) -> bool {
        match &step.operation {
            Operation::Meet(pair) => {
                let Some(peer) = self.by_uid(&pair.peer).filter(|s| s.state == State::Up).map(|s| s.id.clone()) else {
                    return false;
                };
                let Some(pod) = self.by_uid(&pair.pod) else { return false };
                pod.known.insert(peer.clone(), true);
                let id = pod.id.clone();
                let Some(peer) = self.by_id(&peer) else { return false };
                peer.known.insert(id, true);
                true
            }
            Operation::OwnSlots(own) => {
                let consented = !step.consent.is_empty();
                let busy = self.servers.iter().any(|s| !slots::common(&s.slots, &own.slots).is_empty());
                let Some(pod) = self.by_uid(&own.pod).filter(|s| s.replica_of.is_empty()) else { return false };
                if busy && !consented {
                    return false;
                }
                pod.slots = own.slots.clone();
                self.formed = Some(true);
                true
            }
            Operation::BumpEpoch(uid) => {
                let epoch = 1 + self.servers.iter().map(|s| s.epoch).max().unwrap_or(0);
                let slots = self.by_uid(uid).map(|s| {
                    s.epoch = epoch;
                    s.slots.clone()
                });
                // Its word outweighs that of a node that is gone.
                for (_, owned) in self.others.values_mut() {
                    *owned = slots::minus(owned, slots.as_deref().unwrap_or_default());
                }
                slots.is_some()
            }
            Operation::Replicate(replication) => {
                let Some(pod) = self.by_uid(&replication.pod) else { return false };
                let known = pod.known.contains_key(&replication.primary);
                let may = pod.slots.is_empty() && (pod.keys == 0 || !pod.replica_of.is_empty());
                if known && may {
                    pod.replica_of = replication.primary.clone();
                    pod.synced = false;
                }
                known && may
            }
            Operation::TakeOver(take) => {
                let votes = take.mode == Takeover::Takeover || self.majority();
                let id = self.by_uid(&take.replica).filter(|s| !s.replica_of.is_empty()).map(|s| s.id.clone());
                id.filter(|_| votes).is_some_and(|id| self.rise(&id))
            }
            Operation::Forget(id) => {
                self.others.remove(id);
                self.servers.iter_mut().for_each(|s| {
                    s.known.remove(id);
                });
                true
            }
            _ => false,
        }
    }

    /// Whether more than half of the primaries live.
    pub fn majority(&self) -> bool {
        let dead = self.others.values().filter(|(_, slots)| !slots.is_empty()).count();
        let all = || self.servers.iter().filter(|s| !s.slots.is_empty());
        let up = all().filter(|s| s.state == State::Up).count();
        up * 2 > all().count() + dead
    }

    fn rise(&mut self, id: &str) -> bool {
        let epoch = 1 + self.servers.iter().map(|s| s.epoch).max().unwrap_or(0);
        let Some(of) = self.by_id(id).map(|s| s.replica_of.clone()) else { return false };
        let owned = match self.by_id(&of) {
            Some(old) => {
                // One that is back, or will be, replicates whoever took over.
                old.replica_of = id.into();
                old.synced = false;
                std::mem::take(&mut old.slots)
            }
            None => self.others.get_mut(&of).map(|(_, slots)| std::mem::take(slots)).unwrap_or_default(),
        };
        for other in self.servers.iter_mut().filter(|s| s.replica_of == of && s.id != id) {
            other.replica_of = id.into();
            other.synced = false;
        }
        let Some(new) = self.by_id(id) else { return false };
        (new.replica_of, new.slots, new.epoch) = (String::new(), owned, epoch);
        true
    }

    /// Some seconds pass: gossip, elections, syncs. The host notes who has which place and who owns what.
    pub fn pass(&mut self) {
        self.gossip();
        self.settle_claims();
        if self.majority() {
            let away =
                |w: &Self, id: &str| w.others.contains_key(id) || w.servers.iter().any(|s| s.id == id && s.state != State::Up);
            let heirs: Vec<String> = self
                .servers
                .iter()
                .filter(|s| s.state == State::Up && s.synced && away(self, &s.replica_of))
                .map(|s| s.id.clone())
                .collect();
            let mut done = BTreeSet::new();
            for id in heirs {
                let of = self.by_id(&id).map(|s| s.replica_of.clone()).unwrap_or_default();
                if !of.is_empty() && done.insert(of) {
                    self.rise(&id);
                }
            }
        }
        let primaries: BTreeMap<String, u64> = self
            .servers
            .iter()
            .filter(|s| s.state == State::Up && s.replica_of.is_empty())
            .map(|s| (s.id.clone(), s.keys))
            .collect();
        for server in self.servers.iter_mut().filter(|s| s.state == State::Up) {
            let keys = primaries.get(&server.replica_of).filter(|_| server.known.get(&server.replica_of) == Some(&true));
            if let Some(keys) = keys {
                (server.keys, server.synced) = (*keys, true);
            }
        }
        for outcome in &mut self.recent {
            outcome.age += 4_000;
        }
        self.learn();
    }

    /// Whoever has a link to somebody learns what that one knows.
    fn gossip(&mut self) {
        for _ in 0..self.servers.len().min(4) {
            let up: BTreeMap<String, BTreeSet<String>> = self
                .servers
                .iter()
                .filter(|s| s.state == State::Up)
                .map(|s| (s.id.clone(), s.known.iter().filter(|(_, linked)| **linked).map(|(id, _)| id.clone()).collect()))
                .collect();
            for server in self.servers.iter_mut().filter(|s| s.state == State::Up) {
                let heard: Vec<String> = server
                    .known
                    .iter()
                    .filter(|(id, linked)| **linked && up.contains_key(*id))
                    .map(|(id, _)| id.clone())
                    .collect();
                let news = heard.iter().filter_map(|id| up.get(id)).flatten().chain(&heard);
                let back = up.iter().filter(|(_, of)| of.contains(&server.id)).map(|(id, _)| id);
                let learnt: Vec<String> =
                    news.chain(back).filter(|id| **id != server.id && up.contains_key(*id)).cloned().collect();
                server.known.extend(learnt.into_iter().map(|id| (id, true)));
                server.known.iter_mut().for_each(|(id, linked)| *linked = *linked && up.contains_key(id));
            }
            let told: Vec<String> = self.servers.iter().filter(|s| s.linked()).map(|s| s.id.clone()).collect();
            told.iter().for_each(|id| _ = self.unaware.remove(id));
        }
    }

    /// Two that know each other and claim the same slots: the higher epoch, then the higher id, has them; the other's keys there
    /// are gone.
    fn settle_claims(&mut self) {
        let claims: Vec<(u64, String, Vec<SlotRange>)> =
            self.servers.iter().filter(|s| s.state == State::Up).map(|s| (s.epoch, s.id.clone(), s.slots.clone())).collect();
        for server in self.servers.iter_mut().filter(|s| s.state == State::Up) {
            for (epoch, id, theirs) in claims.iter().filter(|(_, id, _)| server.known.get(id) == Some(&true)) {
                let lost = (*epoch, id) > (server.epoch, &server.id) && !slots::common(&server.slots, theirs).is_empty();
                if lost {
                    server.slots = slots::minus(&server.slots, theirs);
                    server.keys = if server.slots.is_empty() { 0 } else { server.keys };
                }
            }
        }
    }

    /// The host's ledger follows what it sees.
    fn learn(&mut self) {
        for server in self.servers.iter().filter(|s| s.state == State::Up) {
            self.recorded.insert(server.id.clone(), (server.shard, server.ordinal));
            if !server.slots.is_empty() {
                self.last.insert(server.shard, (server.ordinal, server.id.clone()));
            }
        }
    }
}

impl Simulated {
    /// Whether it has a link to anybody.
    pub fn linked(&self) -> bool {
        self.known.values().any(|linked| *linked)
    }

    /// UID of its pod.
    pub fn uid(&self) -> String {
        format!("uid-{}-{}-{}", self.shard, self.ordinal, self.pod)
    }
}

fn fresh(shard: u32, ordinal: u32, pod: u32) -> Simulated {
    Simulated {
        shard,
        ordinal,
        pod,
        id: format!("node-{shard}-{ordinal}-{pod}"),
        run: 1,
        state: State::Up,
        keys: 0,
        slots: Vec::new(),
        epoch: 0,
        replica_of: String::new(),
        synced: false,
        known: BTreeMap::new(),
    }
}
