// Command inbox is a small chat server: an inbox for each user, in SQLite, with numbers of seqsvr. The page docs/inbox.md
// explains each part.
//
//	inbox -listen 127.0.0.1:8080 -database inbox.db -seed 127.0.0.1:7100
//
// It has no login: in front of it is a proxy that knows which user asks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	seqsvr "seqsvr.example/clients/go"
)

const (
	// requestTimeout is the deadline of a request: far above the time until the users of a node that crashed are served
	// by another one.
	requestTimeout = 10 * time.Second
	// shutdownTimeout is the time for requests in progress to complete.
	shutdownTimeout = requestTimeout + 5*time.Second
)

// settings are the flags.
type settings struct {
	listen, database, seeds string
	grace                   time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.listen, "listen", "127.0.0.1:8080", "`address` of the HTTP server")
	flag.StringVar(&s.database, "database", "inbox.db", "`file` of the database")
	flag.StringVar(&s.seeds, "seed", "127.0.0.1:7100", "`addresses` of nodes of the cluster, with commas between them")
	flag.DurationVar(&s.grace, "grace", 5*time.Second, "`time` that a reader waits for an entry that is late")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, s, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "inbox:", err)
		os.Exit(1)
	}
}

// run runs the server until ctx ends, and lets the requests in progress complete. It writes one line once it serves.
func run(ctx context.Context, s settings, arguments []string, out io.Writer) error {
	if len(arguments) > 0 {
		return fmt.Errorf("argument %q belongs to no flag; -help lists the flags", arguments[0])
	}
	if s.grace < 0 {
		return fmt.Errorf("-grace %v is negative; 0 is the least", s.grace)
	}
	client, err := seqsvr.Open(ctx, strings.Split(s.seeds, ","))
	if err != nil {
		return fmt.Errorf("-seed %s: %w; name nodes that run, or start some with `seqsvr dev`", s.seeds, err)
	}
	defer client.Close()
	inbox, err := OpenInbox(ctx, client, s.database, s.grace)
	if err != nil {
		return err
	}
	defer inbox.Close()
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("-listen %s: %w; choose another address", s.listen, err)
	}
	fmt.Fprintf(out, "inbox: listening on http://%s\n", listener.Addr())
	return serve(ctx, listener, newHandler(inbox, log.Default()))
}

// serve serves requests until ctx ends. Requests in progress then complete, and no others begin.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      2 * requestTimeout,
		IdleTimeout:       2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("the HTTP server at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return errors.Join(fmt.Errorf("requests were in progress after %v: %w", shutdownTimeout, err), server.Close())
	}
	return nil
}
