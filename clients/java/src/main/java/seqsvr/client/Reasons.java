// Generated from `seqsvr explain -o json` by GenerateReasons. Do not edit.

package seqsvr.client;

/** Reasons that a caller can meet, as in {@link SeqException#reason}. {@link Reason#lookup} has all of them. */
public final class Reasons {
    /** The uid is outside the uids of the set. */
    public static final String UID_OUT_OF_RANGE = "UID_OUT_OF_RANGE";
    /**
     * The request has no uid. Earlier releases treat such a request as one for user 0, because their clients do not
     * send the uid 0.
     */
    public static final String UID_MISSING = "UID_MISSING";
    /** The request to advance has no number. */
    public static final String TO_MISSING = "TO_MISSING";
    /** The count is not in 1..=1,000,000. */
    public static final String COUNT_OUT_OF_RANGE = "COUNT_OUT_OF_RANGE";
    /** The batch has no item. */
    public static final String EMPTY_BATCH = "EMPTY_BATCH";
    /** The batch has more items than one request may carry. */
    public static final String BATCH_TOO_LARGE = "BATCH_TOO_LARGE";
    /** There are counts or epochs, but not one for each uid. */
    public static final String COUNTS_MISMATCH = "COUNTS_MISMATCH";
    /** The request was forwarded, and this node does not own the section either. */
    public static final String NOT_OWNER = "NOT_OWNER";
    /** The section has no owner now. */
    public static final String UNSERVED = "UNSERVED";
    /** The request's deadline was over before it was sent to the owner. */
    public static final String DEADLINE_PASSED = "DEADLINE_PASSED";
    /** The owner cannot be reached; it did not process the request. */
    public static final String OWNER_UNREACHABLE = "OWNER_UNREACHABLE";
    /** The owner did not respond in time; numbers may have been consumed. */
    public static final String OWNER_TIMED_OUT = "OWNER_TIMED_OUT";
    /** The connection to the owner broke before the response; numbers may have been consumed. */
    public static final String OWNER_CONNECTION_LOST = "OWNER_CONNECTION_LOST";
    /** The caller has seen a newer epoch of the section than this node has. */
    public static final String STALE_EPOCH = "STALE_EPOCH";
    /** The node's lease has expired, so another node may own the section by now. */
    public static final String LEASE_EXPIRED = "LEASE_EXPIRED";
    /** The section cannot be served now, and the limit of pending requests is reached. */
    public static final String TOO_MANY_PENDING = "TOO_MANY_PENDING";
    /** The section's ceiling was not raised before the request's deadline. */
    public static final String CEILING_STALLED = "CEILING_STALLED";
    /** The uid has fewer numbers left below 2^63 than the request allocates. */
    public static final String EXHAUSTED = "EXHAUSTED";
    /**
     * The advance leads further above the section's ceiling than {@code alloc.max_advance}, or further above the
     * last number than the tenant's {@code max_advance}.
     */
    public static final String ADVANCE_TOO_FAR = "ADVANCE_TOO_FAR";
    /** The uid is past the number of the advance, or may be past it. */
    public static final String ALREADY_PAST = "ALREADY_PAST";
    /** The request was forwarded more often than allowed. */
    public static final String TOO_MANY_HOPS = "TOO_MANY_HOPS";
    /**
     * The node is shutting down. An AllocSvr has not processed the request; a command that was sent to a StoreSvr
     * may still be applied, and can be repeated.
     */
    public static final String SHUTTING_DOWN = "SHUTTING_DOWN";
    /**
     * The item would have to wait or to be forwarded, and the request excludes both. Repeat the item as a unary
     * request.
     */
    public static final String WOULD_WAIT = "WOULD_WAIT";
    /** The section is in another set, and the request was forwarded from another set already. */
    public static final String MOVED = "MOVED";
    /** No node of the other set can be reached. */
    public static final String SET_UNAVAILABLE = "SET_UNAVAILABLE";
    /** No series has this name. */
    public static final String UNKNOWN_SERIES = "UNKNOWN_SERIES";
    /**
     * A series with this name exists with another shape or other lanes, or is retired, or the name is that of a
     * keyspace. A name is used only once.
     */
    public static final String SERIES_EXISTS = "SERIES_EXISTS";
    /** The series is retired: it gives out no more ids. */
    public static final String SERIES_RETIRED = "SERIES_RETIRED";
    /** The ids of the series have ended: its time or its numbers are used up. */
    public static final String SERIES_ENDED = "SERIES_ENDED";
    /** The shape cannot be used: the text names the field. */
    public static final String BAD_SHAPE = "BAD_SHAPE";
    /** Callers name the lane of this series, and the request names none. */
    public static final String LANE_REQUIRED = "LANE_REQUIRED";
    /** The request names a lane, but the server chooses the lanes of this series, or the series has only one lane. */
    public static final String LANE_NOT_ALLOWED = "LANE_NOT_ALLOWED";
    /** The series has no such lane. */
    public static final String LANE_OUT_OF_RANGE = "LANE_OUT_OF_RANGE";
    /**
     * The ids would have to be above an id that is further ahead than the series can move at once, or than the
     * tenant's {@code max_advance} allows.
     */
    public static final String AFTER_TOO_FAR = "AFTER_TOO_FAR";
    /** The number is no id of the series. */
    public static final String NOT_AN_ID = "NOT_AN_ID";
    /** Ids of a timed series can be neither read nor advanced, because they follow the clock. */
    public static final String NOT_A_COUNTER = "NOT_A_COUNTER";
    /** No more ids of the lane are within {@code ahead_ms} of the clock. */
    public static final String LANE_AHEAD = "LANE_AHEAD";
    /**
     * The clock of the lane's owner is so far ahead of the clock of its store that the store raises no ceiling to
     * the time of the owner's clock.
     */
    public static final String CLOCK_AHEAD = "CLOCK_AHEAD";
    /** The cluster has as many series or keyspaces as it may, or it has a keyspace of uids already. */
    public static final String TOO_MANY_SERIES = "TOO_MANY_SERIES";
    /** The lanes do not fit the layout of the cluster. */
    public static final String LAYOUT_FULL = "LAYOUT_FULL";
    /**
     * Another set creates the series of the cluster. Or this set creates them, and therefore can be neither closed
     * nor forgotten.
     */
    public static final String LAYOUT_WRITER = "LAYOUT_WRITER";
    /**
     * A live AllocSvr is of a release that knows no series: upgrade it first. Or the store of another set does not
     * know yet which set creates series: upgrade that store, or try again in a few seconds.
     */
    public static final String SET_OUTDATED = "SET_OUTDATED";
    /** No keyspace has this name, or its keys are uids, for which calls name no keyspace. */
    public static final String UNKNOWN_KEYSPACE = "UNKNOWN_KEYSPACE";
    /** The key is empty or has too many bytes. */
    public static final String KEY_SIZE = "KEY_SIZE";
    /**
     * The key has no counter yet, and the owner of its bucket has counters for as many keys as it may. Keys with a
     * counter are served.
     */
    public static final String KEYS_EXHAUSTED = "KEYS_EXHAUSTED";
    /** The message cannot be decoded. */
    public static final String MALFORMED = "MALFORMED";
    /** The message has more bytes than allowed. */
    public static final String MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE";
    /** The service has no unary method of this name. */
    public static final String UNKNOWN_METHOD = "UNKNOWN_METHOD";
    /** The body has a content encoding; send it uncompressed. */
    public static final String UNSUPPORTED_ENCODING = "UNSUPPORTED_ENCODING";
    /** The body did not arrive before the request's deadline. */
    public static final String BODY_TIMED_OUT = "BODY_TIMED_OUT";
    /**
     * The request does not fit into the memory that is left for its connection: read responses, or send less at a
     * time.
     */
    public static final String OUT_OF_MEMORY = "OUT_OF_MEMORY";
    /**
     * The node makes as many reports of activity or of sections as it may make at the same time or within a second.
     */
    public static final String TOO_MANY_REPORTS = "TOO_MANY_REPORTS";
    /** A browser sent the request for a page of another site, or as a prefetch. */
    public static final String UNSOLICITED = "UNSOLICITED";
    /** The role in the certificate does not allow the method here; see docs/reference/roles.md. */
    public static final String ROLE_DENIED = "ROLE_DENIED";
    /** The certificate belongs to another node than the node that the request acts for. */
    public static final String OTHER_HOLDER = "OTHER_HOLDER";
    /** The token is of no tenant, or the request has neither a token nor a certificate. */
    public static final String UNKNOWN_TOKEN = "UNKNOWN_TOKEN";
    /** The certificate of the client is of no tenant. */
    public static final String NO_TENANT = "NO_TENANT";
    /** The uid does not belong to the tenant. */
    public static final String OTHER_TENANTS_UID = "OTHER_TENANTS_UID";
    /** The series does not belong to the tenant. */
    public static final String OTHER_TENANTS_SERIES = "OTHER_TENANTS_SERIES";
    /** The key does not belong to the tenant. */
    public static final String OTHER_TENANTS_KEY = "OTHER_TENANTS_KEY";
    /** The count is above the tenant's quota for an item. */
    public static final String COUNT_ABOVE_QUOTA = "COUNT_ABOVE_QUOTA";
    /** The tenant's rate of requests or numbers on this node is used up for now. */
    public static final String QUOTA_EXCEEDED = "QUOTA_EXCEEDED";
    /** The tenant has the largest allowed number of connections to this node. */
    public static final String TOO_MANY_CONNECTIONS = "TOO_MANY_CONNECTIONS";
    /** The uid is in no set that the given nodes know; nothing was sent. */
    public static final String UID_OUTSIDE = "UID_OUTSIDE";
    /** Every connection failed before a response arrived. */
    public static final String UNREACHABLE = "UNREACHABLE";
    /** The connection broke before a response arrived. */
    public static final String CONNECTION_LOST = "CONNECTION_LOST";
    /** The deadline passed before a response arrived. */
    public static final String DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED";
    /** The refusal is not the sequence service's own: another server or a proxy sent it. */
    public static final String REFUSED_BY_OTHERS = "REFUSED_BY_OTHERS";
    /** Two series of tickets could give out one id: give them one increment and different offsets. */
    public static final String LANES_OVERLAP = "LANES_OVERLAP";
    /** The response does not match the request: the server implements another protocol, or has a bug. */
    public static final String BAD_ANSWER = "BAD_ANSWER";
    /** The client reported an error of another kind; its message describes it. */
    public static final String OTHER = "OTHER";

    private Reasons() { }
}
