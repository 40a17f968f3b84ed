package seqsvr.client;

/** A code of gRPC, which classifies refusals. The ordinal is the number of the code. */
public enum Code {
    /** No error; no refusal has it. */
    OK,
    /** The request was cancelled. */
    CANCELLED,
    /** An error of no known class, or a code that only later releases know. */
    UNKNOWN,
    /** The request is invalid. */
    INVALID_ARGUMENT,
    /** The deadline passed. */
    DEADLINE_EXCEEDED,
    /** The requested object does not exist. */
    NOT_FOUND,
    /** The object exists already. */
    ALREADY_EXISTS,
    /** The caller may not do this. */
    PERMISSION_DENIED,
    /** A quota or a resource is exhausted. */
    RESOURCE_EXHAUSTED,
    /** The state of the object excludes the request. */
    FAILED_PRECONDITION,
    /** A concurrent request prevented this one. */
    ABORTED,
    /** The request is outside of the valid range. */
    OUT_OF_RANGE,
    /** The server does not implement the method. */
    UNIMPLEMENTED,
    /** A bug of the server. */
    INTERNAL,
    /** The server cannot serve the request now. */
    UNAVAILABLE,
    /** Data is lost. */
    DATA_LOSS,
    /** The caller is not known. */
    UNAUTHENTICATED;

    private static final Code[] ALL = values();

    static Code of(int number) {
        return number > 0 && number < ALL.length ? ALL[number] : UNKNOWN;
    }
}
