// Generated from `seqsvr explain -o json` by GenerateReasons. Do not edit.

package seqsvr.client;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** The properties of all reasons. */
final class ReasonTable {
    static final Map<String, Reason> ALL = new HashMap<>();

    static {
        add("UID_OUT_OF_RANGE", "Allocation", false, 0, false,
                "The uid is outside the uids of the set.");
        add("UID_MISSING", "Allocation", false, 0, false,
                "The request has no uid. Earlier releases treat such a request as one for user 0, because "
                + "their clients do not send the uid 0.");
        add("TO_MISSING", "Allocation", false, 0, false,
                "The request to advance has no number.");
        add("COUNT_OUT_OF_RANGE", "Allocation", false, 0, false,
                "The count is not in 1..=1,000,000.");
        add("EMPTY_BATCH", "Allocation", false, 0, false,
                "The batch has no item.");
        add("BATCH_TOO_LARGE", "Allocation", false, 0, false,
                "The batch has more items than one request may carry.");
        add("COUNTS_MISMATCH", "Allocation", false, 0, false,
                "There are counts or epochs, but not one for each uid.");
        add("NOT_OWNER", "Allocation", true, 20, false,
                "The request was forwarded, and this node does not own the section either.");
        add("UNSERVED", "Allocation", true, 20, false,
                "The section has no owner now.");
        add("DEADLINE_PASSED", "Allocation", true, 20, false,
                "The request's deadline was over before it was sent to the owner.");
        add("OWNER_UNREACHABLE", "Allocation", true, 20, false,
                "The owner cannot be reached; it did not process the request.");
        add("OWNER_TIMED_OUT", "Allocation", true, 20, true,
                "The owner did not respond in time; numbers may have been consumed.");
        add("OWNER_CONNECTION_LOST", "Allocation", true, 20, true,
                "The connection to the owner broke before the response; numbers may have been consumed.");
        add("STALE_EPOCH", "Allocation", true, 20, false,
                "The caller has seen a newer epoch of the section than this node has.");
        add("LEASE_EXPIRED", "Allocation", true, 20, false,
                "The node's lease has expired, so another node may own the section by now.");
        add("TOO_MANY_PENDING", "Allocation", true, 200, false,
                "The section cannot be served now, and the limit of pending requests is reached.");
        add("CEILING_STALLED", "Allocation", true, 200, false,
                "The section's ceiling was not raised before the request's deadline.");
        add("EXHAUSTED", "Allocation", false, 0, false,
                "The uid has fewer numbers left below 2^63 than the request allocates.");
        add("ADVANCE_TOO_FAR", "Allocation", false, 0, false,
                "The advance leads further above the section's ceiling than `alloc.max_advance`, or further "
                + "above the last number than the tenant's `max_advance`.");
        add("ALREADY_PAST", "Allocation", false, 0, false,
                "The uid is past the number of the advance, or may be past it.");
        add("TOO_MANY_HOPS", "Allocation", false, 0, false,
                "The request was forwarded more often than allowed.");
        add("SHUTTING_DOWN", "Allocation", true, 100, false,
                "The node is shutting down. An AllocSvr has not processed the request; a command that was sent "
                + "to a StoreSvr may still be applied, and can be repeated.");
        add("WOULD_WAIT", "Allocation", true, 1, false,
                "The item would have to wait or to be forwarded, and the request excludes both. Repeat the "
                + "item as a unary request.");
        add("MOVED", "Allocation", true, 1, false,
                "The section is in another set, and the request was forwarded from another set already.");
        add("SET_UNAVAILABLE", "Allocation", true, 200, false,
                "No node of the other set can be reached.");
        add("UNKNOWN_SERIES", "Ids", false, 0, false,
                "No series has this name.");
        add("SERIES_EXISTS", "Ids", false, 0, false,
                "A series with this name exists with another shape or other lanes, or is retired, or the name "
                + "is that of a keyspace. A name is used only once.");
        add("SERIES_RETIRED", "Ids", false, 0, false,
                "The series is retired: it gives out no more ids.");
        add("SERIES_ENDED", "Ids", false, 0, false,
                "The ids of the series have ended: its time or its numbers are used up.");
        add("BAD_SHAPE", "Ids", false, 0, false,
                "The shape cannot be used: the text names the field.");
        add("LANE_REQUIRED", "Ids", false, 0, false,
                "Callers name the lane of this series, and the request names none.");
        add("LANE_NOT_ALLOWED", "Ids", false, 0, false,
                "The request names a lane, but the server chooses the lanes of this series, or the series has "
                + "only one lane.");
        add("LANE_OUT_OF_RANGE", "Ids", false, 0, false,
                "The series has no such lane.");
        add("AFTER_TOO_FAR", "Ids", false, 0, false,
                "The ids would have to be above an id that is further ahead than the series can move at once, "
                + "or than the tenant's `max_advance` allows.");
        add("NOT_AN_ID", "Ids", false, 0, false,
                "The number is no id of the series.");
        add("NOT_A_COUNTER", "Ids", false, 0, false,
                "Ids of a timed series can be neither read nor advanced, because they follow the clock.");
        add("LANE_AHEAD", "Ids", true, 100, false,
                "No more ids of the lane are within `ahead_ms` of the clock.");
        add("CLOCK_AHEAD", "Ids", true, 200, false,
                "The clock of the lane's owner is so far ahead of the clock of its store that the store raises "
                + "no ceiling to the time of the owner's clock.");
        add("TOO_MANY_SERIES", "Ids", false, 0, false,
                "The cluster has as many series or keyspaces as it may, or it has a keyspace of uids already.");
        add("LAYOUT_FULL", "Ids", false, 0, false,
                "The lanes do not fit the layout of the cluster.");
        add("LAYOUT_WRITER", "Ids", false, 0, false,
                "Another set creates the series of the cluster. Or this set creates them, and therefore can be "
                + "neither closed nor forgotten.");
        add("SET_OUTDATED", "Ids", false, 0, false,
                "A live AllocSvr is of a release that knows no series: upgrade it first. Or the store of "
                + "another set does not know yet which set creates series: upgrade that store, or try again in a "
                + "few seconds.");
        add("UNKNOWN_KEYSPACE", "Keys", false, 0, false,
                "No keyspace has this name, or its keys are uids, for which calls name no keyspace.");
        add("KEY_SIZE", "Keys", false, 0, false,
                "The key is empty or has too many bytes.");
        add("KEYS_EXHAUSTED", "Keys", true, 100, false,
                "The key has no counter yet, and the owner of its bucket has counters for as many keys as it "
                + "may. Keys with a counter are served.");
        add("MALFORMED", "Endpoints", false, 0, false,
                "The message cannot be decoded.");
        add("MESSAGE_TOO_LARGE", "Endpoints", false, 0, false,
                "The message has more bytes than allowed.");
        add("UNKNOWN_METHOD", "Endpoints", false, 0, false,
                "The service has no unary method of this name.");
        add("UNSUPPORTED_ENCODING", "Endpoints", false, 0, false,
                "The body has a content encoding; send it uncompressed.");
        add("BODY_TIMED_OUT", "Endpoints", false, 0, false,
                "The body did not arrive before the request's deadline.");
        add("OUT_OF_MEMORY", "Endpoints", true, 100, false,
                "The request does not fit into the memory that is left for its connection: read responses, or "
                + "send less at a time.");
        add("TOO_MANY_REPORTS", "Endpoints", true, 100, false,
                "The node makes as many reports of activity or of sections as it may make at the same time or "
                + "within a second.");
        add("UNSOLICITED", "Endpoints", false, 0, false,
                "A browser sent the request for a page of another site, or as a prefetch.");
        add("ROLE_DENIED", "Roles", false, 0, false,
                "The role in the certificate does not allow the method here; see docs/reference/roles.md.");
        add("OTHER_HOLDER", "Roles", false, 0, false,
                "The certificate belongs to another node than the node that the request acts for.");
        add("UNKNOWN_TOKEN", "Tenants", false, 0, false,
                "The token is of no tenant, or the request has neither a token nor a certificate.");
        add("NO_TENANT", "Tenants", false, 0, false,
                "The certificate of the client is of no tenant.");
        add("OTHER_TENANTS_UID", "Tenants", false, 0, false,
                "The uid does not belong to the tenant.");
        add("OTHER_TENANTS_SERIES", "Tenants", false, 0, false,
                "The series does not belong to the tenant.");
        add("OTHER_TENANTS_KEY", "Tenants", false, 0, false,
                "The key does not belong to the tenant.");
        add("COUNT_ABOVE_QUOTA", "Tenants", false, 0, false,
                "The count is above the tenant's quota for an item.");
        add("QUOTA_EXCEEDED", "Tenants", true, 100, false,
                "The tenant's rate of requests or numbers on this node is used up for now.");
        add("TOO_MANY_CONNECTIONS", "Tenants", true, 100, false,
                "The tenant has the largest allowed number of connections to this node.");
        add("BAD_OFFER", "Handover", false, 0, false,
                "The offer describes no possible handover.");
        add("BAD_COPY", "Handover", false, 0, false,
                "The staged copy does not fit the section.");
        add("TOO_MUCH_STAGED", "Handover", false, 0, false,
                "The limit of touched uids in concurrently received copies is reached.");
        add("LEAVING", "Handover", false, 0, false,
                "The target is shutting down.");
        add("PAST", "Handover", false, 0, false,
                "The offer's epoch, or its attempt, is no longer the newest at the target.");
        add("UNKNOWN_EPOCH", "Handover", false, 0, false,
                "The offer's epoch does not directly follow the newest epoch that the target knows.");
        add("NOT_GRANTED", "Handover", false, 0, true,
                "The store did not grant the section to the target in time.");
        add("OTHER_SET", "Control", false, 0, false,
                "The set in the request has another name than the set of the store or of the target.");
        add("NO_SET", "Control", true, 100, false,
                "The store has not defined the set yet.");
        add("UNDECLARED_NODE", "Control", false, 0, false,
                "The set file names no AllocSvr of this name.");
        add("BAD_ADDR", "Control", false, 0, false,
                "The address is not `host:port`, or too long.");
        add("BAD_TOKEN", "Control", false, 0, false,
                "The token is 0.");
        add("NODE_ALIVE", "Control", true, 500, false,
                "A process of this name runs at another address and is alive: end it, or start the new process "
                + "with `--replace`.");
        add("TOO_MANY_NODES", "Control", false, 0, false,
                "The set has the largest allowed number of nodes.");
        add("LEASE_TOO_LONG", "Control", false, 0, false,
                "The lease is longer than the store's terms allow.");
        add("OTHER_PREDECESSOR", "Control", false, 0, false,
                "The registration does not follow the node's newest incarnation.");
        add("STORE_BEHIND", "Control", false, 0, false,
                "The store lacks entries that it had acknowledged to this node.");
        add("UNKNOWN_NODE", "Control", false, 0, false,
                "The store knows no node with this id or name.");
        add("UNKNOWN_NAME", "Control", false, 0, false,
                "The set has no node of this name.");
        add("OTHER_INCARNATION", "Control", false, 0, false,
                "The node is in another incarnation.");
        add("PROCESS_DIED", "Control", false, 0, false,
                "The parent of the process reported that the process has ended.");
        add("OTHER_RENEWAL", "Control", false, 0, false,
                "The renewal is neither the next renewal nor a repeat of the last renewal.");
        add("OTHER_OWNERSHIP", "Control", false, 0, false,
                "The section has another owner or epoch than the transfer names.");
        add("TARGET_GONE", "Control", false, 0, false,
                "The target of the transfer is unknown, or has another incarnation than the transfer names.");
        add("BAD_NODE_ID", "Control", false, 0, false,
                "The node id is 0.");
        add("BAD_INCARNATION", "Control", false, 0, false,
                "The incarnation is 0.");
        add("BAD_RENEW_SEQ", "Control", false, 0, false,
                "The number of the renewal is 0.");
        add("LISTS_MISMATCH", "Control", false, 0, false,
                "Parallel lists differ in length.");
        add("UNKNOWN_SECTION", "Control", false, 0, false,
                "The set has no such section, or the target does not know it.");
        add("DUPLICATE_SECTION", "Control", false, 0, false,
                "The section is in the request twice.");
        add("BAD_EPOCH", "Control", false, 0, false,
                "The epoch is 0.");
        add("BAD_CEILING", "Control", false, 0, false,
                "The ceiling is 0, or above 2^63 - 1.");
        add("RAISE_TOO_FAST", "Control", true, 100, true,
                "The ceiling of a section would rise faster than allowed; the hint in the refusal is the time "
                + "after which this raise is accepted.");
        add("BAD_TARGET", "Control", false, 0, false,
                "The transfer is to no node, or to its sender.");
        add("BAD_HANDOVER", "Control", false, 0, false,
                "The number of the handover is 0.");
        add("BAD_TERMS", "Control", false, 0, false,
                "The lease terms are out of bounds.");
        add("OTHER_TERMS", "Control", false, 0, false,
                "Another command has changed the lease terms in the meantime.");
        add("UNFIT_TARGET", "Control", false, 0, false,
                "The node is not live, is drained, is about to exit, or is not in the set file of the store's "
                + "leader.");
        add("OLD_FORMAT", "Control", false, 0, false,
                "The group writes a format without this change: run `seqsvr store upgrade`.");
        add("LAST_NODE", "Control", false, 0, false,
                "No other node of the set could own sections.");
        add("SET_EXISTS", "Sets", false, 0, false,
                "The set is defined already.");
        add("OTHER_GENESIS", "Sets", false, 0, false,
                "The command is for another `genesis` than the set file has.");
        add("SET_NAME_TAKEN", "Sets", false, 0, false,
                "Another set has the name.");
        add("SET_NOT_EMPTY", "Sets", false, 0, false,
                "The set has sections, or some may return to it.");
        add("OWN_SET", "Sets", false, 0, false,
                "The request names this set instead of another set.");
        add("UNKNOWN_SET", "Sets", false, 0, false,
                "The store knows no set of this name or id.");
        add("TOO_MANY_SETS", "Sets", false, 0, false,
                "The largest allowed number of sets is known already.");
        add("SET_CLOSING", "Sets", false, 0, false,
                "The set is closing and takes no more sections.");
        add("QUARANTINED", "Sets", true, 500, false,
                "The set was restored from a backup and waits for the other sets.");
        add("NO_CANDIDATE", "Sets", true, 500, false,
                "No allocator of the set can own sections now.");
        add("OTHER_LAYOUT", "Sets", false, 0, false,
                "The sections are of another layout.");
        add("OTHER_LINEAGE", "Sets", false, 0, false,
                "The set is of another lineage than the request names.");
        add("OLD_LINEAGE", "Sets", false, 0, false,
                "The other set has been restored in the meantime, so the lineage in the request has ended.");
        add("BAD_RUNS", "Sets", false, 0, false,
                "The runs of sections overlap, are out of order or out of range, or are too many.");
        add("NOT_RESIDENT", "Sets", false, 0, false,
                "A section of the migration is not in this set.");
        add("SECTION_MIGRATES", "Sets", false, 0, false,
                "A section is part of a migration that is not complete.");
        add("STALE_PLAN", "Sets", false, 0, false,
                "A precondition of the plan has changed: make a new plan.");
        add("UNKNOWN_MIGRATION", "Sets", false, 0, false,
                "No such migration began in this set.");
        add("MIGRATION_OVER", "Sets", false, 0, false,
                "The migration was rolled back or completed.");
        add("NOT_ARRIVED", "Sets", false, 0, false,
                "Sections of the migration are here or on their way.");
        add("BAD_PACE", "Sets", false, 0, false,
                "The pace of the migration is out of bounds.");
        add("TOO_MANY_MIGRATIONS", "Sets", false, 0, false,
                "Too many migrations have begun in this set.");
        add("TOO_FEW_RESTORES", "Sets", false, 0, false,
                "The lineage counts fewer restores than a set of the cluster knows.");
        add("NOT_QUARANTINED", "Sets", false, 0, false,
                "The set is not in quarantine.");
        add("NOT_RESPONDED", "Sets", false, 0, false,
                "Another set has not responded to the fence of this set's lineage.");
        add("FENCE_NOT_APPLIED", "Sets", false, 0, false,
                "The response is from before the fence was applied there.");
        add("BAD_RESPONSE", "Sets", false, 0, false,
                "The data from another set contradicts itself or is out of bounds, describes a set other than "
                + "its sender, changes the name of that set, or has a revision too far above the last known "
                + "revision.");
        add("STARTING", "Proposals", true, 100, false,
                "The member of the store is starting.");
        add("NOT_LEADER", "Proposals", true, 200, true,
                "The member of the store does not lead; if it led when the request arrived, the command may "
                + "still be applied.");
        add("LEADER_UNREACHABLE", "Proposals", true, 200, true,
                "A follower cannot forward the request to the leader.");
        add("COMMIT_TIMED_OUT", "Proposals", true, 200, true,
                "The command was not committed in time; it may still be applied, and can be repeated.");
        add("TOO_MANY_PROPOSALS", "Proposals", true, 20, false,
                "The limit of pending proposals is reached.");
        add("COMMAND_TOO_LARGE", "Proposals", false, 0, false,
                "The command has more bytes than an entry of the log may have.");
        add("RAFT_STOPPED", "Proposals", true, 200, true,
                "Raft has stopped on this member.");
        add("BAD_STORE_ID", "Membership", false, 0, false,
                "The store id is 0.");
        add("BAD_COUNT", "Membership", false, 0, false,
                "The change names no member, or more than a store may have.");
        add("BAD_NAME", "Membership", false, 0, false,
                "The name of the member or series is invalid: it is empty, too long, or has other characters "
                + "than allowed.");
        add("ADDED_AND_REMOVED", "Membership", false, 0, false,
                "The change adds and removes the same member.");
        add("UNKNOWN_MEMBER", "Membership", false, 0, false,
                "The store has no member with this id.");
        add("NOT_A_VOTER", "Membership", false, 0, false,
                "The member has no vote.");
        add("USED_STORE_ID", "Membership", false, 0, false,
                "Another member had the id before. An id belongs to one disk permanently.");
        add("OTHER_MEMBER", "Membership", false, 0, false,
                "The id belongs to a member with another name or address, or the message is for another member.");
        add("TAKEN", "Membership", false, 0, false,
                "Another member has the name or the address.");
        add("NOT_CAUGHT_UP", "Membership", false, 0, false,
                "The member does not respond, or lacks too many entries to vote or lead.");
        add("NO_VOTERS", "Membership", false, 0, false,
                "The change would leave no voter.");
        add("TOO_MANY_VOTERS", "Membership", false, 0, false,
                "The change would leave more voters than a store may have.");
        add("EVEN_VOTERS", "Membership", false, 0, false,
                "The change would leave an even number of voters; `--allow-even` permits it.");
        add("NO_MAJORITY", "Membership", false, 0, false,
                "Too few voters respond, now or after the change, for anything to be committed.");
        add("NO_LEADER", "Membership", true, 200, false,
                "The store has no leader now.");
        add("NO_SUCCESSOR", "Membership", false, 0, false,
                "The leader is to be removed, and no remaining voter has the whole log.");
        add("CHANGE_IN_PROGRESS", "Membership", true, 200, false,
                "Another change of the set is in progress.");
        add("MEMBER_NOT_REACHED", "Membership", true, 200, false,
                "The new member does not respond, so its data directory is not known: start it with `--join` "
                + "first.");
        add("NOT_TAKEN_OVER", "Membership", true, 200, true,
                "The member did not take over leadership in time.");
        add("OTHER_CLUSTER", "Raft", false, 0, false,
                "The message is for another cluster.");
        add("NO_NONCE", "Raft", false, 0, false,
                "The message does not name the data directory of its sender.");
        add("OTHER_RECEIVER", "Raft", false, 0, false,
                "The message is for another data directory of this member. That data directory may come back.");
        add("OTHER_FORMAT", "Raft", false, 0, false,
                "The members use different message formats: run one version.");
        add("OUTDATED_MEMBER", "Raft", false, 0, false,
                "A member runs a release that does not read the format which the group writes, or is to write.");
        add("REMOVED_MEMBER", "Raft", false, 0, false,
                "The sender was removed from the cluster permanently; the sender stops.");
        add("OTHER_DATA_DIRECTORY", "Raft", false, 0, false,
                "The sender has the id of a member, but another data directory than that member. The sender "
                + "stops.");
        add("ACKNOWLEDGED_DATA_LOST", "Raft", false, 0, false,
                "The sender lacks entries that it acknowledged; the sender stops.");
        add("MALFORMED_MESSAGE", "Raft", false, 0, false,
                "The Raft message cannot be decoded.");
        add("INVALID_RAFT_MESSAGE", "Raft", false, 0, false,
                "The Raft message contradicts itself or the log of this member.");
        add("RAFT_JUMP_TOO_FAR", "Raft", false, 0, false,
                "The message is too many terms or entries ahead of this member to be genuine.");
        add("COMMITTED_ENTRIES_CONTRADICTED", "Raft", false, 0, false,
                "The message contradicts an entry that is committed here: acknowledged data was lost elsewhere.");
        add("SNAPSHOT_TOO_LARGE", "Raft", false, 0, false,
                "The snapshot is empty, or larger than a snapshot may be.");
        add("MALFORMED_SNAPSHOT", "Raft", false, 0, false,
                "The body of the snapshot has another length than its header states, or ends early.");
        add("SNAPSHOT_UNDER_WAY", "Raft", false, 0, false,
                "A snapshot of this sender, or the largest allowed number of other snapshots, is being "
                + "received already.");
        add("UID_OUTSIDE", "Clients", false, 0, false,
                "The uid is in no set that the given nodes know; nothing was sent.");
        add("UNREACHABLE", "Clients", true, 0, true,
                "Every connection failed before a response arrived.");
        add("CONNECTION_LOST", "Clients", true, 0, true,
                "The connection broke before a response arrived.");
        add("DEADLINE_EXCEEDED", "Clients", true, 0, true,
                "The deadline passed before a response arrived.");
        add("REFUSED_BY_OTHERS", "Clients", false, 0, true,
                "The refusal is not the sequence service's own: another server or a proxy sent it.");
        add("LANES_OVERLAP", "Clients", false, 0, false,
                "Two series of tickets could give out one id: give them one increment and different offsets.");
        add("BAD_ANSWER", "Clients", false, 0, true,
                "The response does not match the request: the server implements another protocol, or has a bug.");
        add("OTHER", "Clients", false, 0, true,
                "The client reported an error of another kind; its message describes it.");
    }

    private ReasonTable() { }

    private static void add(String name, String subject, boolean retryable, long afterMs, boolean unknown,
            String meaning) {
        ALL.put(name, new Reason(name, subject, retryable, Duration.ofMillis(afterMs), unknown, meaning));
    }
}
