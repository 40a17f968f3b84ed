// Package seqsvr is a client of the sequence service seqsvr: numbers that grow, for each user. It needs the standard
// library alone.
//
// A [Client] fetches the routes, which map uids to owners, from its seeds. It sends each request to the owner of the
// request's uid, and adopts newer routes from the responses. The routes of each set name all sets of its cluster, so a
// client that has a seed in one set reaches all of them.
//
//	c, err := seqsvr.Open(ctx, []string{"127.0.0.1:7100"})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	n, err := c.Next(ctx, 42) // n.Value, and n.Prev, the number before it
//
// [Client.Series] has unique ids, and [Client.Keyspace] numbers keys of any bytes in place of uids.
//
// # Errors
//
// Every error is an [*Error]. It states whether the same call can succeed later, and whether numbers may have been
// consumed; those are skipped and never allocated again. Its kind can be tested with errors.Is:
//
//	var e *seqsvr.Error
//	switch {
//	case errors.Is(err, context.DeadlineExceeded):
//	case errors.Is(err, seqsvr.KindSetUnavailable):
//	case errors.As(err, &e) && e.Retryable:
//	}
//
// # State
//
// The client keeps no state for single uids. The servers guarantee order and uniqueness. A client that fetched numbers
// before they are needed could break the order between two processes that use the same uid.
package seqsvr
