package seqsvr_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	seqsvr "seqsvr.example/clients/go"
)

func Example() {
	ctx := context.Background()
	c, err := seqsvr.Open(ctx, []string{"127.0.0.1:7100"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// The next number of user 42, and the one before it.
	n, err := c.Next(ctx, 42)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n.Value, "after", n.Prev)
}

func ExampleOpen() {
	// One seed that responds is enough. Every setting has a default.
	c, err := seqsvr.Open(context.Background(), []string{"https://a:7400", "https://b:7400"},
		seqsvr.WithTLSFiles("certs/ca.crt", "certs/client.backend.pem"),
		seqsvr.WithDeadline(2*time.Second),
		seqsvr.WithLogger(slog.Default()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

func ExampleClient_NextMany() {
	var (
		ctx context.Context
		c   *seqsvr.Client
	)
	// A message to a group: one number for each member, each with a result of its own.
	members := []uint64{7, 42, 1_001}
	results, err := c.NextMany(ctx, members)
	if err != nil {
		log.Fatal(err)
	}
	for i, result := range results {
		if result.Err != nil {
			fmt.Println(members[i], "has no number:", result.Err)
			continue
		}
		fmt.Println(members[i], result.Value)
	}
}

func ExampleError() {
	var (
		ctx context.Context
		c   *seqsvr.Client
	)
	_, err := c.Next(ctx, 42)
	var e *seqsvr.Error
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Println("too late; a number may be skipped")
	case errors.Is(err, seqsvr.KindSetUnavailable):
		fmt.Println("users of one set cannot be served now")
	case errors.As(err, &e) && e.Retryable:
		fmt.Println("try again after", e.RetryAfter, "because of", e.Reason)
	default:
		fmt.Println(err)
	}
}

func ExampleClient_Series() {
	var (
		ctx context.Context
		c   *seqsvr.Client
	)
	tweets := c.Series("tweets")
	id, err := tweets.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	replies, err := tweets.After(id).Take(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	for reply := range replies.All() {
		fmt.Println(reply, "is above", id)
	}
	// The caller names the lanes of some series, for example the shard of a user.
	_, _ = c.Series("media").Lane(1341).Next(ctx)
}

func ExampleClient_Keyspace() {
	var (
		ctx context.Context
		c   *seqsvr.Client
	)
	// The messages of a conversation, which has a text as its name.
	conversations := c.Keyspace("main")
	message, err := conversations.Next(ctx, "conv:8f3a")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(message.Value, "after", message.Prev)
	// Keys are any bytes.
	var id [16]byte
	results, err := conversations.NextMany(ctx, []string{"conv:42", string(id[:])})
	if err != nil {
		log.Fatal(err)
	}
	for _, result := range results {
		fmt.Println(result.Value, result.Err)
	}
}

func ExampleClient_Shutdown() {
	var c *seqsvr.Client
	// At the end of a process: calls in progress may complete for two seconds.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := c.Shutdown(ctx); err != nil {
		fmt.Println("calls were still in progress:", err)
	}
}

func ExampleWithObserver() {
	// Counts attempts by outcome. The README has an adapter to OpenTelemetry.
	attempts := map[string]int{}
	_ = seqsvr.WithObserver(seqsvr.Observer{
		AttemptEnd: func(_ context.Context, attempt seqsvr.AttemptInfo, end seqsvr.AttemptEnd) {
			outcome, reason := seqsvr.Outcome(end.Err)
			attempts[outcome+" "+reason]++ // under a lock, because calls are concurrent
		},
	})
}
