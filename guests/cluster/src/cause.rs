//! Why something waits.

/// The decision of this policy.
pub type Decision = vko_replica::decision::Decision<Cause>;
/// Something that waits, in this policy.
pub type Block = vko_replica::decision::Block<Cause>;

/// Why something waits. The variant is the condition's reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Living servers that are no members: another cluster.
    ForeignNodes,
    /// Whether this cluster ever held data is unknown.
    LedgerLost,
    /// Claims from before this instance may hold slots and data; nobody answers for them.
    RetainedData,
    /// Members whose data isn't known yet.
    MembersAwaited,
    /// A member holds keys, but its node owns no slots.
    KeysWithoutSlots,
    /// The slots of a shard are owned by members of another one.
    SlotsElsewhere,
    /// Several servers claim the same slots.
    SlotsClaimedTwice,
    /// Slots were left open by a move that nobody carries on.
    SlotsOpen,
    /// Nobody owns some slots of a shard that has a primary.
    SlotsUnowned,
    /// Several members of one shard own slots.
    SeveralOwners,
    /// The primary of a shard gives no answer.
    PrimarySilent,
    /// The primary ended; the others elect a replica, or it comes back by itself.
    ElectionUnderWay,
    /// The primary waits, before it starts, for a replica to take over.
    HeldPrimary,
    /// Data of a shard may come back.
    DataMayReturn,
    /// Nobody has the data of a shard any more.
    ShardLost,
    /// Following would discard what this member alone holds.
    WritesWouldBeLost,
    /// The host doesn't carry out a step that this needs.
    HostLacksOperation,
}
