// Code generated from `seqsvr explain -o json` by internal/reasons. DO NOT EDIT.

package seqsvr

import "time"

// Reasons that a caller can meet, as in [Error.Reason].
const (
	// ReasonUIDOutOfRange: The uid is outside the uids of the set.
	ReasonUIDOutOfRange = "UID_OUT_OF_RANGE"
	// ReasonUIDMissing: The request has no uid. Earlier releases treat such a request as one for user 0, because
	// their clients do not send the uid 0.
	ReasonUIDMissing = "UID_MISSING"
	// ReasonToMissing: The request to advance has no number.
	ReasonToMissing = "TO_MISSING"
	// ReasonCountOutOfRange: The count is not in 1..=1,000,000.
	ReasonCountOutOfRange = "COUNT_OUT_OF_RANGE"
	// ReasonEmptyBatch: The batch has no item.
	ReasonEmptyBatch = "EMPTY_BATCH"
	// ReasonBatchTooLarge: The batch has more items than one request may carry.
	ReasonBatchTooLarge = "BATCH_TOO_LARGE"
	// ReasonCountsMismatch: There are counts or epochs, but not one for each uid.
	ReasonCountsMismatch = "COUNTS_MISMATCH"
	// ReasonNotOwner: The request was forwarded, and this node does not own the section either.
	ReasonNotOwner = "NOT_OWNER"
	// ReasonUnserved: The section has no owner now.
	ReasonUnserved = "UNSERVED"
	// ReasonDeadlinePassed: The request's deadline was over before it was sent to the owner.
	ReasonDeadlinePassed = "DEADLINE_PASSED"
	// ReasonOwnerUnreachable: The owner cannot be reached; it did not process the request.
	ReasonOwnerUnreachable = "OWNER_UNREACHABLE"
	// ReasonOwnerTimedOut: The owner did not respond in time; numbers may have been consumed.
	ReasonOwnerTimedOut = "OWNER_TIMED_OUT"
	// ReasonOwnerConnectionLost: The connection to the owner broke before the response; numbers may have been
	// consumed.
	ReasonOwnerConnectionLost = "OWNER_CONNECTION_LOST"
	// ReasonStaleEpoch: The caller has seen a newer epoch of the section than this node has.
	ReasonStaleEpoch = "STALE_EPOCH"
	// ReasonLeaseExpired: The node's lease has expired, so another node may own the section by now.
	ReasonLeaseExpired = "LEASE_EXPIRED"
	// ReasonTooManyPending: The section cannot be served now, and the limit of pending requests is reached.
	ReasonTooManyPending = "TOO_MANY_PENDING"
	// ReasonCeilingStalled: The section's ceiling was not raised before the request's deadline.
	ReasonCeilingStalled = "CEILING_STALLED"
	// ReasonExhausted: The uid has fewer numbers left below 2^63 than the request allocates.
	ReasonExhausted = "EXHAUSTED"
	// ReasonAdvanceTooFar: The advance leads further above the section's ceiling than `alloc.max_advance`, or
	// further above the last number than the tenant's `max_advance`.
	ReasonAdvanceTooFar = "ADVANCE_TOO_FAR"
	// ReasonAlreadyPast: The uid is past the number of the advance, or may be past it.
	ReasonAlreadyPast = "ALREADY_PAST"
	// ReasonTooManyHops: The request was forwarded more often than allowed.
	ReasonTooManyHops = "TOO_MANY_HOPS"
	// ReasonShuttingDown: The node is shutting down. An AllocSvr has not processed the request; a command that
	// was sent to a StoreSvr may still be applied, and can be repeated.
	ReasonShuttingDown = "SHUTTING_DOWN"
	// ReasonWouldWait: The item would have to wait or to be forwarded, and the request excludes both. Repeat the
	// item as a unary request.
	ReasonWouldWait = "WOULD_WAIT"
	// ReasonMoved: The section is in another set, and the request was forwarded from another set already.
	ReasonMoved = "MOVED"
	// ReasonSetUnavailable: No node of the other set can be reached.
	ReasonSetUnavailable = "SET_UNAVAILABLE"
	// ReasonUnknownSeries: No series has this name.
	ReasonUnknownSeries = "UNKNOWN_SERIES"
	// ReasonSeriesExists: A series with this name exists with another shape or other lanes, or is retired, or the
	// name is that of a keyspace. A name is used only once.
	ReasonSeriesExists = "SERIES_EXISTS"
	// ReasonSeriesRetired: The series is retired: it gives out no more ids.
	ReasonSeriesRetired = "SERIES_RETIRED"
	// ReasonSeriesEnded: The ids of the series have ended: its time or its numbers are used up.
	ReasonSeriesEnded = "SERIES_ENDED"
	// ReasonBadShape: The shape cannot be used: the text names the field.
	ReasonBadShape = "BAD_SHAPE"
	// ReasonLaneRequired: Callers name the lane of this series, and the request names none.
	ReasonLaneRequired = "LANE_REQUIRED"
	// ReasonLaneNotAllowed: The request names a lane, but the server chooses the lanes of this series, or the
	// series has only one lane.
	ReasonLaneNotAllowed = "LANE_NOT_ALLOWED"
	// ReasonLaneOutOfRange: The series has no such lane.
	ReasonLaneOutOfRange = "LANE_OUT_OF_RANGE"
	// ReasonAfterTooFar: The ids would have to be above an id that is further ahead than the series can move at
	// once, or than the tenant's `max_advance` allows.
	ReasonAfterTooFar = "AFTER_TOO_FAR"
	// ReasonNotAnID: The number is no id of the series.
	ReasonNotAnID = "NOT_AN_ID"
	// ReasonNotACounter: Ids of a timed series can be neither read nor advanced, because they follow the clock.
	ReasonNotACounter = "NOT_A_COUNTER"
	// ReasonLaneAhead: No more ids of the lane are within `ahead_ms` of the clock.
	ReasonLaneAhead = "LANE_AHEAD"
	// ReasonClockAhead: The clock of the lane's owner is so far ahead of the clock of its store that the store
	// raises no ceiling to the time of the owner's clock.
	ReasonClockAhead = "CLOCK_AHEAD"
	// ReasonTooManySeries: The cluster has as many series or keyspaces as it may, or it has a keyspace of uids
	// already.
	ReasonTooManySeries = "TOO_MANY_SERIES"
	// ReasonLayoutFull: The lanes do not fit the layout of the cluster.
	ReasonLayoutFull = "LAYOUT_FULL"
	// ReasonLayoutWriter: Another set creates the series of the cluster. Or this set creates them, and therefore
	// can be neither closed nor forgotten.
	ReasonLayoutWriter = "LAYOUT_WRITER"
	// ReasonSetOutdated: A live AllocSvr is of a release that knows no series: upgrade it first. Or the store of
	// another set does not know yet which set creates series: upgrade that store, or try again in a few seconds.
	ReasonSetOutdated = "SET_OUTDATED"
	// ReasonUnknownKeyspace: No keyspace has this name, or its keys are uids, for which calls name no keyspace.
	ReasonUnknownKeyspace = "UNKNOWN_KEYSPACE"
	// ReasonKeySize: The key is empty or has too many bytes.
	ReasonKeySize = "KEY_SIZE"
	// ReasonKeysExhausted: The key has no counter yet, and the owner of its bucket has counters for as many keys
	// as it may. Keys with a counter are served.
	ReasonKeysExhausted = "KEYS_EXHAUSTED"
	// ReasonMalformed: The message cannot be decoded.
	ReasonMalformed = "MALFORMED"
	// ReasonMessageTooLarge: The message has more bytes than allowed.
	ReasonMessageTooLarge = "MESSAGE_TOO_LARGE"
	// ReasonUnknownMethod: The service has no unary method of this name.
	ReasonUnknownMethod = "UNKNOWN_METHOD"
	// ReasonUnsupportedEncoding: The body has a content encoding; send it uncompressed.
	ReasonUnsupportedEncoding = "UNSUPPORTED_ENCODING"
	// ReasonBodyTimedOut: The body did not arrive before the request's deadline.
	ReasonBodyTimedOut = "BODY_TIMED_OUT"
	// ReasonOutOfMemory: The request does not fit into the memory that is left for its connection: read
	// responses, or send less at a time.
	ReasonOutOfMemory = "OUT_OF_MEMORY"
	// ReasonTooManyReports: The node makes as many reports of activity or of sections as it may make at the same
	// time or within a second.
	ReasonTooManyReports = "TOO_MANY_REPORTS"
	// ReasonUnsolicited: A browser sent the request for a page of another site, or as a prefetch.
	ReasonUnsolicited = "UNSOLICITED"
	// ReasonRoleDenied: The role in the certificate does not allow the method here; see docs/reference/roles.md.
	ReasonRoleDenied = "ROLE_DENIED"
	// ReasonOtherHolder: The certificate belongs to another node than the node that the request acts for.
	ReasonOtherHolder = "OTHER_HOLDER"
	// ReasonUnknownToken: The token is of no tenant, or the request has neither a token nor a certificate.
	ReasonUnknownToken = "UNKNOWN_TOKEN"
	// ReasonNoTenant: The certificate of the client is of no tenant.
	ReasonNoTenant = "NO_TENANT"
	// ReasonOtherTenantsUID: The uid does not belong to the tenant.
	ReasonOtherTenantsUID = "OTHER_TENANTS_UID"
	// ReasonOtherTenantsSeries: The series does not belong to the tenant.
	ReasonOtherTenantsSeries = "OTHER_TENANTS_SERIES"
	// ReasonOtherTenantsKey: The key does not belong to the tenant.
	ReasonOtherTenantsKey = "OTHER_TENANTS_KEY"
	// ReasonCountAboveQuota: The count is above the tenant's quota for an item.
	ReasonCountAboveQuota = "COUNT_ABOVE_QUOTA"
	// ReasonQuotaExceeded: The tenant's rate of requests or numbers on this node is used up for now.
	ReasonQuotaExceeded = "QUOTA_EXCEEDED"
	// ReasonTooManyConnections: The tenant has the largest allowed number of connections to this node.
	ReasonTooManyConnections = "TOO_MANY_CONNECTIONS"
	// ReasonUIDOutside: The uid is in no set that the given nodes know; nothing was sent.
	ReasonUIDOutside = "UID_OUTSIDE"
	// ReasonUnreachable: Every connection failed before a response arrived.
	ReasonUnreachable = "UNREACHABLE"
	// ReasonConnectionLost: The connection broke before a response arrived.
	ReasonConnectionLost = "CONNECTION_LOST"
	// ReasonDeadlineExceeded: The deadline passed before a response arrived.
	ReasonDeadlineExceeded = "DEADLINE_EXCEEDED"
	// ReasonRefusedByOthers: The refusal is not the sequence service's own: another server or a proxy sent it.
	ReasonRefusedByOthers = "REFUSED_BY_OTHERS"
	// ReasonLanesOverlap: Two series of tickets could give out one id: give them one increment and different
	// offsets.
	ReasonLanesOverlap = "LANES_OVERLAP"
	// ReasonBadAnswer: The response does not match the request: the server implements another protocol, or has a
	// bug.
	ReasonBadAnswer = "BAD_ANSWER"
	// ReasonOther: The client reported an error of another kind; its message describes it.
	ReasonOther = "OTHER"
)

var reasons = map[string]Reason{
	"UID_OUT_OF_RANGE": {
		Name: "UID_OUT_OF_RANGE", Subject: "Allocation",
		Meaning: "The uid is outside the uids of the set.",
	},
	"UID_MISSING": {
		Name: "UID_MISSING", Subject: "Allocation",
		Meaning: "The request has no uid. Earlier releases treat such a request as one for user 0, because their clients do not send the uid 0.",
	},
	"TO_MISSING": {
		Name: "TO_MISSING", Subject: "Allocation",
		Meaning: "The request to advance has no number.",
	},
	"COUNT_OUT_OF_RANGE": {
		Name: "COUNT_OUT_OF_RANGE", Subject: "Allocation",
		Meaning: "The count is not in 1..=1,000,000.",
	},
	"EMPTY_BATCH": {
		Name: "EMPTY_BATCH", Subject: "Allocation",
		Meaning: "The batch has no item.",
	},
	"BATCH_TOO_LARGE": {
		Name: "BATCH_TOO_LARGE", Subject: "Allocation",
		Meaning: "The batch has more items than one request may carry.",
	},
	"COUNTS_MISMATCH": {
		Name: "COUNTS_MISMATCH", Subject: "Allocation",
		Meaning: "There are counts or epochs, but not one for each uid.",
	},
	"NOT_OWNER": {
		Name: "NOT_OWNER", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 20 * time.Millisecond,
		Meaning:    "The request was forwarded, and this node does not own the section either.",
	},
	"UNSERVED": {
		Name: "UNSERVED", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 20 * time.Millisecond,
		Meaning:    "The section has no owner now.",
	},
	"DEADLINE_PASSED": {
		Name: "DEADLINE_PASSED", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 20 * time.Millisecond,
		Meaning:    "The request's deadline was over before it was sent to the owner.",
	},
	"OWNER_UNREACHABLE": {
		Name: "OWNER_UNREACHABLE", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 20 * time.Millisecond,
		Meaning:    "The owner cannot be reached; it did not process the request.",
	},
	"OWNER_TIMED_OUT": {
		Name: "OWNER_TIMED_OUT", Subject: "Allocation",
		Retryable:      true,
		RetryAfter:     20 * time.Millisecond,
		OutcomeUnknown: true,
		Meaning:        "The owner did not respond in time; numbers may have been consumed.",
	},
	"OWNER_CONNECTION_LOST": {
		Name: "OWNER_CONNECTION_LOST", Subject: "Allocation",
		Retryable:      true,
		RetryAfter:     20 * time.Millisecond,
		OutcomeUnknown: true,
		Meaning:        "The connection to the owner broke before the response; numbers may have been consumed.",
	},
	"STALE_EPOCH": {
		Name: "STALE_EPOCH", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 20 * time.Millisecond,
		Meaning:    "The caller has seen a newer epoch of the section than this node has.",
	},
	"LEASE_EXPIRED": {
		Name: "LEASE_EXPIRED", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 20 * time.Millisecond,
		Meaning:    "The node's lease has expired, so another node may own the section by now.",
	},
	"TOO_MANY_PENDING": {
		Name: "TOO_MANY_PENDING", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 200 * time.Millisecond,
		Meaning:    "The section cannot be served now, and the limit of pending requests is reached.",
	},
	"CEILING_STALLED": {
		Name: "CEILING_STALLED", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 200 * time.Millisecond,
		Meaning:    "The section's ceiling was not raised before the request's deadline.",
	},
	"EXHAUSTED": {
		Name: "EXHAUSTED", Subject: "Allocation",
		Meaning: "The uid has fewer numbers left below 2^63 than the request allocates.",
	},
	"ADVANCE_TOO_FAR": {
		Name: "ADVANCE_TOO_FAR", Subject: "Allocation",
		Meaning: "The advance leads further above the section's ceiling than `alloc.max_advance`, or further above the last number than the tenant's `max_advance`.",
	},
	"ALREADY_PAST": {
		Name: "ALREADY_PAST", Subject: "Allocation",
		Meaning: "The uid is past the number of the advance, or may be past it.",
	},
	"TOO_MANY_HOPS": {
		Name: "TOO_MANY_HOPS", Subject: "Allocation",
		Meaning: "The request was forwarded more often than allowed.",
	},
	"SHUTTING_DOWN": {
		Name: "SHUTTING_DOWN", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "The node is shutting down. An AllocSvr has not processed the request; a command that was sent to a StoreSvr may still be applied, and can be repeated.",
	},
	"WOULD_WAIT": {
		Name: "WOULD_WAIT", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 1 * time.Millisecond,
		Meaning:    "The item would have to wait or to be forwarded, and the request excludes both. Repeat the item as a unary request.",
	},
	"MOVED": {
		Name: "MOVED", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 1 * time.Millisecond,
		Meaning:    "The section is in another set, and the request was forwarded from another set already.",
	},
	"SET_UNAVAILABLE": {
		Name: "SET_UNAVAILABLE", Subject: "Allocation",
		Retryable:  true,
		RetryAfter: 200 * time.Millisecond,
		Meaning:    "No node of the other set can be reached.",
	},
	"UNKNOWN_SERIES": {
		Name: "UNKNOWN_SERIES", Subject: "Ids",
		Meaning: "No series has this name.",
	},
	"SERIES_EXISTS": {
		Name: "SERIES_EXISTS", Subject: "Ids",
		Meaning: "A series with this name exists with another shape or other lanes, or is retired, or the name is that of a keyspace. A name is used only once.",
	},
	"SERIES_RETIRED": {
		Name: "SERIES_RETIRED", Subject: "Ids",
		Meaning: "The series is retired: it gives out no more ids.",
	},
	"SERIES_ENDED": {
		Name: "SERIES_ENDED", Subject: "Ids",
		Meaning: "The ids of the series have ended: its time or its numbers are used up.",
	},
	"BAD_SHAPE": {
		Name: "BAD_SHAPE", Subject: "Ids",
		Meaning: "The shape cannot be used: the text names the field.",
	},
	"LANE_REQUIRED": {
		Name: "LANE_REQUIRED", Subject: "Ids",
		Meaning: "Callers name the lane of this series, and the request names none.",
	},
	"LANE_NOT_ALLOWED": {
		Name: "LANE_NOT_ALLOWED", Subject: "Ids",
		Meaning: "The request names a lane, but the server chooses the lanes of this series, or the series has only one lane.",
	},
	"LANE_OUT_OF_RANGE": {
		Name: "LANE_OUT_OF_RANGE", Subject: "Ids",
		Meaning: "The series has no such lane.",
	},
	"AFTER_TOO_FAR": {
		Name: "AFTER_TOO_FAR", Subject: "Ids",
		Meaning: "The ids would have to be above an id that is further ahead than the series can move at once, or than the tenant's `max_advance` allows.",
	},
	"NOT_AN_ID": {
		Name: "NOT_AN_ID", Subject: "Ids",
		Meaning: "The number is no id of the series.",
	},
	"NOT_A_COUNTER": {
		Name: "NOT_A_COUNTER", Subject: "Ids",
		Meaning: "Ids of a timed series can be neither read nor advanced, because they follow the clock.",
	},
	"LANE_AHEAD": {
		Name: "LANE_AHEAD", Subject: "Ids",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "No more ids of the lane are within `ahead_ms` of the clock.",
	},
	"CLOCK_AHEAD": {
		Name: "CLOCK_AHEAD", Subject: "Ids",
		Retryable:  true,
		RetryAfter: 200 * time.Millisecond,
		Meaning:    "The clock of the lane's owner is so far ahead of the clock of its store that the store raises no ceiling to the time of the owner's clock.",
	},
	"TOO_MANY_SERIES": {
		Name: "TOO_MANY_SERIES", Subject: "Ids",
		Meaning: "The cluster has as many series or keyspaces as it may, or it has a keyspace of uids already.",
	},
	"LAYOUT_FULL": {
		Name: "LAYOUT_FULL", Subject: "Ids",
		Meaning: "The lanes do not fit the layout of the cluster.",
	},
	"LAYOUT_WRITER": {
		Name: "LAYOUT_WRITER", Subject: "Ids",
		Meaning: "Another set creates the series of the cluster. Or this set creates them, and therefore can be neither closed nor forgotten.",
	},
	"SET_OUTDATED": {
		Name: "SET_OUTDATED", Subject: "Ids",
		Meaning: "A live AllocSvr is of a release that knows no series: upgrade it first. Or the store of another set does not know yet which set creates series: upgrade that store, or try again in a few seconds.",
	},
	"UNKNOWN_KEYSPACE": {
		Name: "UNKNOWN_KEYSPACE", Subject: "Keys",
		Meaning: "No keyspace has this name, or its keys are uids, for which calls name no keyspace.",
	},
	"KEY_SIZE": {
		Name: "KEY_SIZE", Subject: "Keys",
		Meaning: "The key is empty or has too many bytes.",
	},
	"KEYS_EXHAUSTED": {
		Name: "KEYS_EXHAUSTED", Subject: "Keys",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "The key has no counter yet, and the owner of its bucket has counters for as many keys as it may. Keys with a counter are served.",
	},
	"MALFORMED": {
		Name: "MALFORMED", Subject: "Endpoints",
		Meaning: "The message cannot be decoded.",
	},
	"MESSAGE_TOO_LARGE": {
		Name: "MESSAGE_TOO_LARGE", Subject: "Endpoints",
		Meaning: "The message has more bytes than allowed.",
	},
	"UNKNOWN_METHOD": {
		Name: "UNKNOWN_METHOD", Subject: "Endpoints",
		Meaning: "The service has no unary method of this name.",
	},
	"UNSUPPORTED_ENCODING": {
		Name: "UNSUPPORTED_ENCODING", Subject: "Endpoints",
		Meaning: "The body has a content encoding; send it uncompressed.",
	},
	"BODY_TIMED_OUT": {
		Name: "BODY_TIMED_OUT", Subject: "Endpoints",
		Meaning: "The body did not arrive before the request's deadline.",
	},
	"OUT_OF_MEMORY": {
		Name: "OUT_OF_MEMORY", Subject: "Endpoints",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "The request does not fit into the memory that is left for its connection: read responses, or send less at a time.",
	},
	"TOO_MANY_REPORTS": {
		Name: "TOO_MANY_REPORTS", Subject: "Endpoints",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "The node makes as many reports of activity or of sections as it may make at the same time or within a second.",
	},
	"UNSOLICITED": {
		Name: "UNSOLICITED", Subject: "Endpoints",
		Meaning: "A browser sent the request for a page of another site, or as a prefetch.",
	},
	"ROLE_DENIED": {
		Name: "ROLE_DENIED", Subject: "Roles",
		Meaning: "The role in the certificate does not allow the method here; see docs/reference/roles.md.",
	},
	"OTHER_HOLDER": {
		Name: "OTHER_HOLDER", Subject: "Roles",
		Meaning: "The certificate belongs to another node than the node that the request acts for.",
	},
	"UNKNOWN_TOKEN": {
		Name: "UNKNOWN_TOKEN", Subject: "Tenants",
		Meaning: "The token is of no tenant, or the request has neither a token nor a certificate.",
	},
	"NO_TENANT": {
		Name: "NO_TENANT", Subject: "Tenants",
		Meaning: "The certificate of the client is of no tenant.",
	},
	"OTHER_TENANTS_UID": {
		Name: "OTHER_TENANTS_UID", Subject: "Tenants",
		Meaning: "The uid does not belong to the tenant.",
	},
	"OTHER_TENANTS_SERIES": {
		Name: "OTHER_TENANTS_SERIES", Subject: "Tenants",
		Meaning: "The series does not belong to the tenant.",
	},
	"OTHER_TENANTS_KEY": {
		Name: "OTHER_TENANTS_KEY", Subject: "Tenants",
		Meaning: "The key does not belong to the tenant.",
	},
	"COUNT_ABOVE_QUOTA": {
		Name: "COUNT_ABOVE_QUOTA", Subject: "Tenants",
		Meaning: "The count is above the tenant's quota for an item.",
	},
	"QUOTA_EXCEEDED": {
		Name: "QUOTA_EXCEEDED", Subject: "Tenants",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "The tenant's rate of requests or numbers on this node is used up for now.",
	},
	"TOO_MANY_CONNECTIONS": {
		Name: "TOO_MANY_CONNECTIONS", Subject: "Tenants",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "The tenant has the largest allowed number of connections to this node.",
	},
	"BAD_OFFER": {
		Name: "BAD_OFFER", Subject: "Handover",
		Meaning: "The offer describes no possible handover.",
	},
	"BAD_COPY": {
		Name: "BAD_COPY", Subject: "Handover",
		Meaning: "The staged copy does not fit the section.",
	},
	"TOO_MUCH_STAGED": {
		Name: "TOO_MUCH_STAGED", Subject: "Handover",
		Meaning: "The limit of touched uids in concurrently received copies is reached.",
	},
	"LEAVING": {
		Name: "LEAVING", Subject: "Handover",
		Meaning: "The target is shutting down.",
	},
	"PAST": {
		Name: "PAST", Subject: "Handover",
		Meaning: "The offer's epoch, or its attempt, is no longer the newest at the target.",
	},
	"UNKNOWN_EPOCH": {
		Name: "UNKNOWN_EPOCH", Subject: "Handover",
		Meaning: "The offer's epoch does not directly follow the newest epoch that the target knows.",
	},
	"NOT_GRANTED": {
		Name: "NOT_GRANTED", Subject: "Handover",
		OutcomeUnknown: true,
		Meaning:        "The store did not grant the section to the target in time.",
	},
	"OTHER_SET": {
		Name: "OTHER_SET", Subject: "Control",
		Meaning: "The set in the request has another name than the set of the store or of the target.",
	},
	"NO_SET": {
		Name: "NO_SET", Subject: "Control",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "The store has not defined the set yet.",
	},
	"UNDECLARED_NODE": {
		Name: "UNDECLARED_NODE", Subject: "Control",
		Meaning: "The set file names no AllocSvr of this name.",
	},
	"BAD_ADDR": {
		Name: "BAD_ADDR", Subject: "Control",
		Meaning: "The address is not `host:port`, or too long.",
	},
	"BAD_TOKEN": {
		Name: "BAD_TOKEN", Subject: "Control",
		Meaning: "The token is 0.",
	},
	"NODE_ALIVE": {
		Name: "NODE_ALIVE", Subject: "Control",
		Retryable:  true,
		RetryAfter: 500 * time.Millisecond,
		Meaning:    "A process of this name runs at another address and is alive: end it, or start the new process with `--replace`.",
	},
	"TOO_MANY_NODES": {
		Name: "TOO_MANY_NODES", Subject: "Control",
		Meaning: "The set has the largest allowed number of nodes.",
	},
	"LEASE_TOO_LONG": {
		Name: "LEASE_TOO_LONG", Subject: "Control",
		Meaning: "The lease is longer than the store's terms allow.",
	},
	"OTHER_PREDECESSOR": {
		Name: "OTHER_PREDECESSOR", Subject: "Control",
		Meaning: "The registration does not follow the node's newest incarnation.",
	},
	"STORE_BEHIND": {
		Name: "STORE_BEHIND", Subject: "Control",
		Meaning: "The store lacks entries that it had acknowledged to this node.",
	},
	"UNKNOWN_NODE": {
		Name: "UNKNOWN_NODE", Subject: "Control",
		Meaning: "The store knows no node with this id or name.",
	},
	"UNKNOWN_NAME": {
		Name: "UNKNOWN_NAME", Subject: "Control",
		Meaning: "The set has no node of this name.",
	},
	"OTHER_INCARNATION": {
		Name: "OTHER_INCARNATION", Subject: "Control",
		Meaning: "The node is in another incarnation.",
	},
	"PROCESS_DIED": {
		Name: "PROCESS_DIED", Subject: "Control",
		Meaning: "The parent of the process reported that the process has ended.",
	},
	"OTHER_RENEWAL": {
		Name: "OTHER_RENEWAL", Subject: "Control",
		Meaning: "The renewal is neither the next renewal nor a repeat of the last renewal.",
	},
	"OTHER_OWNERSHIP": {
		Name: "OTHER_OWNERSHIP", Subject: "Control",
		Meaning: "The section has another owner or epoch than the transfer names.",
	},
	"TARGET_GONE": {
		Name: "TARGET_GONE", Subject: "Control",
		Meaning: "The target of the transfer is unknown, or has another incarnation than the transfer names.",
	},
	"BAD_NODE_ID": {
		Name: "BAD_NODE_ID", Subject: "Control",
		Meaning: "The node id is 0.",
	},
	"BAD_INCARNATION": {
		Name: "BAD_INCARNATION", Subject: "Control",
		Meaning: "The incarnation is 0.",
	},
	"BAD_RENEW_SEQ": {
		Name: "BAD_RENEW_SEQ", Subject: "Control",
		Meaning: "The number of the renewal is 0.",
	},
	"LISTS_MISMATCH": {
		Name: "LISTS_MISMATCH", Subject: "Control",
		Meaning: "Parallel lists differ in length.",
	},
	"UNKNOWN_SECTION": {
		Name: "UNKNOWN_SECTION", Subject: "Control",
		Meaning: "The set has no such section, or the target does not know it.",
	},
	"DUPLICATE_SECTION": {
		Name: "DUPLICATE_SECTION", Subject: "Control",
		Meaning: "The section is in the request twice.",
	},
	"BAD_EPOCH": {
		Name: "BAD_EPOCH", Subject: "Control",
		Meaning: "The epoch is 0.",
	},
	"BAD_CEILING": {
		Name: "BAD_CEILING", Subject: "Control",
		Meaning: "The ceiling is 0, or above 2^63 - 1.",
	},
	"RAISE_TOO_FAST": {
		Name: "RAISE_TOO_FAST", Subject: "Control",
		Retryable:      true,
		RetryAfter:     100 * time.Millisecond,
		OutcomeUnknown: true,
		Meaning:        "The ceiling of a section would rise faster than allowed; the hint in the refusal is the time after which this raise is accepted.",
	},
	"BAD_TARGET": {
		Name: "BAD_TARGET", Subject: "Control",
		Meaning: "The transfer is to no node, or to its sender.",
	},
	"BAD_HANDOVER": {
		Name: "BAD_HANDOVER", Subject: "Control",
		Meaning: "The number of the handover is 0.",
	},
	"BAD_TERMS": {
		Name: "BAD_TERMS", Subject: "Control",
		Meaning: "The lease terms are out of bounds.",
	},
	"OTHER_TERMS": {
		Name: "OTHER_TERMS", Subject: "Control",
		Meaning: "Another command has changed the lease terms in the meantime.",
	},
	"UNFIT_TARGET": {
		Name: "UNFIT_TARGET", Subject: "Control",
		Meaning: "The node is not live, is drained, is about to exit, or is not in the set file of the store's leader.",
	},
	"OLD_FORMAT": {
		Name: "OLD_FORMAT", Subject: "Control",
		Meaning: "The group writes a format without this change: run `seqsvr store upgrade`.",
	},
	"LAST_NODE": {
		Name: "LAST_NODE", Subject: "Control",
		Meaning: "No other node of the set could own sections.",
	},
	"SET_EXISTS": {
		Name: "SET_EXISTS", Subject: "Sets",
		Meaning: "The set is defined already.",
	},
	"OTHER_GENESIS": {
		Name: "OTHER_GENESIS", Subject: "Sets",
		Meaning: "The command is for another `genesis` than the set file has.",
	},
	"SET_NAME_TAKEN": {
		Name: "SET_NAME_TAKEN", Subject: "Sets",
		Meaning: "Another set has the name.",
	},
	"SET_NOT_EMPTY": {
		Name: "SET_NOT_EMPTY", Subject: "Sets",
		Meaning: "The set has sections, or some may return to it.",
	},
	"OWN_SET": {
		Name: "OWN_SET", Subject: "Sets",
		Meaning: "The request names this set instead of another set.",
	},
	"UNKNOWN_SET": {
		Name: "UNKNOWN_SET", Subject: "Sets",
		Meaning: "The store knows no set of this name or id.",
	},
	"TOO_MANY_SETS": {
		Name: "TOO_MANY_SETS", Subject: "Sets",
		Meaning: "The largest allowed number of sets is known already.",
	},
	"SET_CLOSING": {
		Name: "SET_CLOSING", Subject: "Sets",
		Meaning: "The set is closing and takes no more sections.",
	},
	"QUARANTINED": {
		Name: "QUARANTINED", Subject: "Sets",
		Retryable:  true,
		RetryAfter: 500 * time.Millisecond,
		Meaning:    "The set was restored from a backup and waits for the other sets.",
	},
	"NO_CANDIDATE": {
		Name: "NO_CANDIDATE", Subject: "Sets",
		Retryable:  true,
		RetryAfter: 500 * time.Millisecond,
		Meaning:    "No allocator of the set can own sections now.",
	},
	"OTHER_LAYOUT": {
		Name: "OTHER_LAYOUT", Subject: "Sets",
		Meaning: "The sections are of another layout.",
	},
	"OTHER_LINEAGE": {
		Name: "OTHER_LINEAGE", Subject: "Sets",
		Meaning: "The set is of another lineage than the request names.",
	},
	"OLD_LINEAGE": {
		Name: "OLD_LINEAGE", Subject: "Sets",
		Meaning: "The other set has been restored in the meantime, so the lineage in the request has ended.",
	},
	"BAD_RUNS": {
		Name: "BAD_RUNS", Subject: "Sets",
		Meaning: "The runs of sections overlap, are out of order or out of range, or are too many.",
	},
	"NOT_RESIDENT": {
		Name: "NOT_RESIDENT", Subject: "Sets",
		Meaning: "A section of the migration is not in this set.",
	},
	"SECTION_MIGRATES": {
		Name: "SECTION_MIGRATES", Subject: "Sets",
		Meaning: "A section is part of a migration that is not complete.",
	},
	"STALE_PLAN": {
		Name: "STALE_PLAN", Subject: "Sets",
		Meaning: "A precondition of the plan has changed: make a new plan.",
	},
	"UNKNOWN_MIGRATION": {
		Name: "UNKNOWN_MIGRATION", Subject: "Sets",
		Meaning: "No such migration began in this set.",
	},
	"MIGRATION_OVER": {
		Name: "MIGRATION_OVER", Subject: "Sets",
		Meaning: "The migration was rolled back or completed.",
	},
	"NOT_ARRIVED": {
		Name: "NOT_ARRIVED", Subject: "Sets",
		Meaning: "Sections of the migration are here or on their way.",
	},
	"BAD_PACE": {
		Name: "BAD_PACE", Subject: "Sets",
		Meaning: "The pace of the migration is out of bounds.",
	},
	"TOO_MANY_MIGRATIONS": {
		Name: "TOO_MANY_MIGRATIONS", Subject: "Sets",
		Meaning: "Too many migrations have begun in this set.",
	},
	"TOO_FEW_RESTORES": {
		Name: "TOO_FEW_RESTORES", Subject: "Sets",
		Meaning: "The lineage counts fewer restores than a set of the cluster knows.",
	},
	"NOT_QUARANTINED": {
		Name: "NOT_QUARANTINED", Subject: "Sets",
		Meaning: "The set is not in quarantine.",
	},
	"NOT_RESPONDED": {
		Name: "NOT_RESPONDED", Subject: "Sets",
		Meaning: "Another set has not responded to the fence of this set's lineage.",
	},
	"FENCE_NOT_APPLIED": {
		Name: "FENCE_NOT_APPLIED", Subject: "Sets",
		Meaning: "The response is from before the fence was applied there.",
	},
	"BAD_RESPONSE": {
		Name: "BAD_RESPONSE", Subject: "Sets",
		Meaning: "The data from another set contradicts itself or is out of bounds, describes a set other than its sender, changes the name of that set, or has a revision too far above the last known revision.",
	},
	"STARTING": {
		Name: "STARTING", Subject: "Proposals",
		Retryable:  true,
		RetryAfter: 100 * time.Millisecond,
		Meaning:    "The member of the store is starting.",
	},
	"NOT_LEADER": {
		Name: "NOT_LEADER", Subject: "Proposals",
		Retryable:      true,
		RetryAfter:     200 * time.Millisecond,
		OutcomeUnknown: true,
		Meaning:        "The member of the store does not lead; if it led when the request arrived, the command may still be applied.",
	},
	"LEADER_UNREACHABLE": {
		Name: "LEADER_UNREACHABLE", Subject: "Proposals",
		Retryable:      true,
		RetryAfter:     200 * time.Millisecond,
		OutcomeUnknown: true,
		Meaning:        "A follower cannot forward the request to the leader.",
	},
	"COMMIT_TIMED_OUT": {
		Name: "COMMIT_TIMED_OUT", Subject: "Proposals",
		Retryable:      true,
		RetryAfter:     200 * time.Millisecond,
		OutcomeUnknown: true,
		Meaning:        "The command was not committed in time; it may still be applied, and can be repeated.",
	},
	"TOO_MANY_PROPOSALS": {
		Name: "TOO_MANY_PROPOSALS", Subject: "Proposals",
		Retryable:  true,
		RetryAfter: 20 * time.Millisecond,
		Meaning:    "The limit of pending proposals is reached.",
	},
	"COMMAND_TOO_LARGE": {
		Name: "COMMAND_TOO_LARGE", Subject: "Proposals",
		Meaning: "The command has more bytes than an entry of the log may have.",
	},
	"RAFT_STOPPED": {
		Name: "RAFT_STOPPED", Subject: "Proposals",
		Retryable:      true,
		RetryAfter:     200 * time.Millisecond,
		OutcomeUnknown: true,
		Meaning:        "Raft has stopped on this member.",
	},
	"BAD_STORE_ID": {
		Name: "BAD_STORE_ID", Subject: "Membership",
		Meaning: "The store id is 0.",
	},
	"BAD_COUNT": {
		Name: "BAD_COUNT", Subject: "Membership",
		Meaning: "The change names no member, or more than a store may have.",
	},
	"BAD_NAME": {
		Name: "BAD_NAME", Subject: "Membership",
		Meaning: "The name of the member or series is invalid: it is empty, too long, or has other characters than allowed.",
	},
	"ADDED_AND_REMOVED": {
		Name: "ADDED_AND_REMOVED", Subject: "Membership",
		Meaning: "The change adds and removes the same member.",
	},
	"UNKNOWN_MEMBER": {
		Name: "UNKNOWN_MEMBER", Subject: "Membership",
		Meaning: "The store has no member with this id.",
	},
	"NOT_A_VOTER": {
		Name: "NOT_A_VOTER", Subject: "Membership",
		Meaning: "The member has no vote.",
	},
	"USED_STORE_ID": {
		Name: "USED_STORE_ID", Subject: "Membership",
		Meaning: "Another member had the id before. An id belongs to one disk permanently.",
	},
	"OTHER_MEMBER": {
		Name: "OTHER_MEMBER", Subject: "Membership",
		Meaning: "The id belongs to a member with another name or address, or the message is for another member.",
	},
	"TAKEN": {
		Name: "TAKEN", Subject: "Membership",
		Meaning: "Another member has the name or the address.",
	},
	"NOT_CAUGHT_UP": {
		Name: "NOT_CAUGHT_UP", Subject: "Membership",
		Meaning: "The member does not respond, or lacks too many entries to vote or lead.",
	},
	"NO_VOTERS": {
		Name: "NO_VOTERS", Subject: "Membership",
		Meaning: "The change would leave no voter.",
	},
	"TOO_MANY_VOTERS": {
		Name: "TOO_MANY_VOTERS", Subject: "Membership",
		Meaning: "The change would leave more voters than a store may have.",
	},
	"EVEN_VOTERS": {
		Name: "EVEN_VOTERS", Subject: "Membership",
		Meaning: "The change would leave an even number of voters; `--allow-even` permits it.",
	},
	"NO_MAJORITY": {
		Name: "NO_MAJORITY", Subject: "Membership",
		Meaning: "Too few voters respond, now or after the change, for anything to be committed.",
	},
	"NO_LEADER": {
		Name: "NO_LEADER", Subject: "Membership",
		Retryable:  true,
		RetryAfter: 200 * time.Millisecond,
		Meaning:    "The store has no leader now.",
	},
	"NO_SUCCESSOR": {
		Name: "NO_SUCCESSOR", Subject: "Membership",
		Meaning: "The leader is to be removed, and no remaining voter has the whole log.",
	},
	"CHANGE_IN_PROGRESS": {
		Name: "CHANGE_IN_PROGRESS", Subject: "Membership",
		Retryable:  true,
		RetryAfter: 200 * time.Millisecond,
		Meaning:    "Another change of the set is in progress.",
	},
	"MEMBER_NOT_REACHED": {
		Name: "MEMBER_NOT_REACHED", Subject: "Membership",
		Retryable:  true,
		RetryAfter: 200 * time.Millisecond,
		Meaning:    "The new member does not respond, so its data directory is not known: start it with `--join` first.",
	},
	"NOT_TAKEN_OVER": {
		Name: "NOT_TAKEN_OVER", Subject: "Membership",
		Retryable:      true,
		RetryAfter:     200 * time.Millisecond,
		OutcomeUnknown: true,
		Meaning:        "The member did not take over leadership in time.",
	},
	"OTHER_CLUSTER": {
		Name: "OTHER_CLUSTER", Subject: "Raft",
		Meaning: "The message is for another cluster.",
	},
	"NO_NONCE": {
		Name: "NO_NONCE", Subject: "Raft",
		Meaning: "The message does not name the data directory of its sender.",
	},
	"OTHER_RECEIVER": {
		Name: "OTHER_RECEIVER", Subject: "Raft",
		Meaning: "The message is for another data directory of this member. That data directory may come back.",
	},
	"OTHER_FORMAT": {
		Name: "OTHER_FORMAT", Subject: "Raft",
		Meaning: "The members use different message formats: run one version.",
	},
	"OUTDATED_MEMBER": {
		Name: "OUTDATED_MEMBER", Subject: "Raft",
		Meaning: "A member runs a release that does not read the format which the group writes, or is to write.",
	},
	"REMOVED_MEMBER": {
		Name: "REMOVED_MEMBER", Subject: "Raft",
		Meaning: "The sender was removed from the cluster permanently; the sender stops.",
	},
	"OTHER_DATA_DIRECTORY": {
		Name: "OTHER_DATA_DIRECTORY", Subject: "Raft",
		Meaning: "The sender has the id of a member, but another data directory than that member. The sender stops.",
	},
	"ACKNOWLEDGED_DATA_LOST": {
		Name: "ACKNOWLEDGED_DATA_LOST", Subject: "Raft",
		Meaning: "The sender lacks entries that it acknowledged; the sender stops.",
	},
	"MALFORMED_MESSAGE": {
		Name: "MALFORMED_MESSAGE", Subject: "Raft",
		Meaning: "The Raft message cannot be decoded.",
	},
	"INVALID_RAFT_MESSAGE": {
		Name: "INVALID_RAFT_MESSAGE", Subject: "Raft",
		Meaning: "The Raft message contradicts itself or the log of this member.",
	},
	"RAFT_JUMP_TOO_FAR": {
		Name: "RAFT_JUMP_TOO_FAR", Subject: "Raft",
		Meaning: "The message is too many terms or entries ahead of this member to be genuine.",
	},
	"COMMITTED_ENTRIES_CONTRADICTED": {
		Name: "COMMITTED_ENTRIES_CONTRADICTED", Subject: "Raft",
		Meaning: "The message contradicts an entry that is committed here: acknowledged data was lost elsewhere.",
	},
	"SNAPSHOT_TOO_LARGE": {
		Name: "SNAPSHOT_TOO_LARGE", Subject: "Raft",
		Meaning: "The snapshot is empty, or larger than a snapshot may be.",
	},
	"MALFORMED_SNAPSHOT": {
		Name: "MALFORMED_SNAPSHOT", Subject: "Raft",
		Meaning: "The body of the snapshot has another length than its header states, or ends early.",
	},
	"SNAPSHOT_UNDER_WAY": {
		Name: "SNAPSHOT_UNDER_WAY", Subject: "Raft",
		Meaning: "A snapshot of this sender, or the largest allowed number of other snapshots, is being received already.",
	},
	"UID_OUTSIDE": {
		Name: "UID_OUTSIDE", Subject: "Clients",
		Meaning: "The uid is in no set that the given nodes know; nothing was sent.",
	},
	"UNREACHABLE": {
		Name: "UNREACHABLE", Subject: "Clients",
		Retryable:      true,
		OutcomeUnknown: true,
		Meaning:        "Every connection failed before a response arrived.",
	},
	"CONNECTION_LOST": {
		Name: "CONNECTION_LOST", Subject: "Clients",
		Retryable:      true,
		OutcomeUnknown: true,
		Meaning:        "The connection broke before a response arrived.",
	},
	"DEADLINE_EXCEEDED": {
		Name: "DEADLINE_EXCEEDED", Subject: "Clients",
		Retryable:      true,
		OutcomeUnknown: true,
		Meaning:        "The deadline passed before a response arrived.",
	},
	"REFUSED_BY_OTHERS": {
		Name: "REFUSED_BY_OTHERS", Subject: "Clients",
		OutcomeUnknown: true,
		Meaning:        "The refusal is not the sequence service's own: another server or a proxy sent it.",
	},
	"LANES_OVERLAP": {
		Name: "LANES_OVERLAP", Subject: "Clients",
		Meaning: "Two series of tickets could give out one id: give them one increment and different offsets.",
	},
	"BAD_ANSWER": {
		Name: "BAD_ANSWER", Subject: "Clients",
		OutcomeUnknown: true,
		Meaning:        "The response does not match the request: the server implements another protocol, or has a bug.",
	},
	"OTHER": {
		Name: "OTHER", Subject: "Clients",
		OutcomeUnknown: true,
		Meaning:        "The client reported an error of another kind; its message describes it.",
	},
}
