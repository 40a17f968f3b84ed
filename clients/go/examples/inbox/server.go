package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"strconv"

	seqsvr "seqsvr.example/clients/go"
)

const (
	// maxBody is the limit on the bytes of a request.
	maxBody = 64 << 10
	// maxMembers is the limit on the members of a conversation whose messages are in each member's inbox.
	maxMembers = 1000
)

// message is a request to send a message. Numbers of 64 bits are strings: many programs read a number of JSON as a double.
type message struct {
	Conversation string   `json:"conversation"`
	Members      []string `json:"members"`
	SenderKey    string   `json:"sender_key"`
	Text         string   `json:"text"`
}

// problem is the body of a response that refuses a request. Each problem states its cause and the next step.
type problem struct {
	status  int
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Next    string `json:"next"`
	// Retryable is whether the same request can succeed later.
	Retryable bool `json:"retryable"`
}

// Error returns the description of the problem.
func (p *problem) Error() string { return p.Message }

// badInput is a refusal of a value of the request.
func badInput(reason, next, format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, Reason: reason, Next: next, Message: fmt.Sprintf(format, args...)}
}

// server serves the inboxes over HTTP.
type server struct {
	inbox *Inbox
	log   *log.Logger
}

// newHandler returns the handler of all paths.
func newHandler(inbox *Inbox, log *log.Logger) http.Handler {
	s := &server{inbox: inbox, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /messages", s.respond(s.send))
	mux.HandleFunc("GET /inbox/{uid}", s.respond(s.sync))
	mux.HandleFunc("/messages", s.respond(only(http.MethodPost)))
	mux.HandleFunc("/inbox/{uid}", s.respond(only(http.MethodGet)))
	mux.HandleFunc("/", s.respond(func(_ http.ResponseWriter, r *http.Request) (any, error) {
		return nil, &problem{
			status: http.StatusNotFound, Reason: "UNKNOWN_PATH", Message: fmt.Sprintf("there is nothing at %q", r.URL.Path),
			Next: "use POST /messages or GET /inbox/{uid}?after=N",
		}
	}))
	return mux
}

// send sends the message in the body of a request, and returns each member's number of it.
func (s *server) send(w http.ResponseWriter, r *http.Request) (any, error) {
	message, err := readMessage(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	members, err := message.check()
	if err != nil {
		return nil, err
	}
	sent, err := s.inbox.Send(r.Context(), message.Conversation, members, message.SenderKey, message.Text)
	if err != nil {
		return nil, err
	}
	numbers := map[string]string{}
	for uid, seq := range sent {
		numbers[strconv.FormatUint(uid, 10)] = strconv.FormatUint(seq, 10)
	}
	return map[string]any{"numbers": numbers}, nil
}

// sync returns the next entries of the inbox that the path names.
func (s *server) sync(_ http.ResponseWriter, r *http.Request) (any, error) {
	uid, err := readNumber("uid", r.PathValue("uid"))
	if err != nil {
		return nil, err
	}
	var after uint64
	if r.URL.Query().Has("after") {
		if after, err = readNumber("after", r.URL.Query().Get("after")); err != nil {
			return nil, err
		}
	}
	entries, err := s.inbox.Sync(r.Context(), uid, after)
	if err != nil {
		return nil, err
	}
	return map[string]any{"entries": entries}, nil
}

// readMessage reads a message from the body of a request.
func readMessage(body io.Reader) (m message, err error) {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&m); err == nil {
		// What follows the object is read as well, so that it counts, and is refused unless it is space.
		if _, err = decoder.Token(); err == nil {
			return m, badInput("INVALID_JSON", "send one message in a request", "the body goes on after its object")
		}
		if errors.Is(err, io.EOF) {
			return m, nil
		}
	}
	var large *http.MaxBytesError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &large):
		return m, &problem{
			status: http.StatusRequestEntityTooLarge, Reason: "BODY_TOO_LARGE",
			Message: fmt.Sprintf("the body has more than %d bytes", large.Limit),
			Next:    "store the large part elsewhere, and send a reference to it as the text",
		}
	case errors.As(err, &typed) && typed.Field != "":
		return m, badInput("INVALID_FIELD", "send a string; uids are strings of decimal digits too, in a list",
			"the field %q has a JSON %s", typed.Field, typed.Value)
	default:
		return m, badInput("INVALID_JSON", `send {"conversation":"...","members":["7","42"],"sender_key":"...","text":"..."}`,
			"the body is no message: %v", err)
	}
}

// check refuses a message with a bad field, and returns the uids of its members.
func (m *message) check() ([]uint64, error) {
	for _, field := range []struct{ name, value, next string }{
		{"conversation", m.Conversation, "name the conversation of the message"},
		{"sender_key", m.SenderKey, "draw a key for the message, and keep it over its retries"},
		{"text", m.Text, "send at least one character"},
	} {
		if field.value == "" {
			return nil, badInput("EMPTY_FIELD", field.next, "the field %q is missing or empty", field.name)
		}
	}
	switch {
	case len(m.Members) == 0:
		return nil, badInput("EMPTY_FIELD", "name the uid of each member", "the field %q is missing or empty", "members")
	case len(m.Members) > maxMembers:
		return nil, badInput("TOO_MANY_MEMBERS", "number the messages of such a room itself, in a series of counters",
			"%d members are more than %d", len(m.Members), maxMembers)
	}
	uids, known := make([]uint64, len(m.Members)), map[uint64]bool{}
	for i, text := range m.Members {
		uid, err := readNumber(fmt.Sprintf("members[%d]", i), text)
		if err != nil {
			return nil, err
		}
		if known[uid] {
			return nil, badInput("REPEATED_MEMBER", "name each member once", "members[%d]: uid %d is there twice", i, uid)
		}
		uids[i], known[uid] = uid, true
	}
	return uids, nil
}

// readNumber reads a uid or a number. name is its place in the request.
func readNumber(name, text string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, badInput("NOT_A_NUMBER", fmt.Sprintf("send decimal digits, 0 to %d", math.MaxInt64),
			"%s: %q is not a number", name, text)
	}
	return number, nil
}

// only refuses all methods but one.
func only(method string) func(http.ResponseWriter, *http.Request) (any, error) {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		w.Header().Set("Allow", method)
		return nil, &problem{
			status: http.StatusMethodNotAllowed, Reason: "WRONG_METHOD",
			Message: fmt.Sprintf("%s is not for %q", r.Method, r.URL.Path), Next: "use " + method,
		}
	}
}

// respond returns a handler that writes the result of a function as JSON, within the deadline of a request.
func (s *server) respond(run func(http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		status := http.StatusOK
		body, err := run(w, r.WithContext(ctx))
		if err != nil {
			p := s.problemOf(r, err)
			if p.Retryable {
				w.Header().Set("Retry-After", "1")
			}
			status, body = p.status, map[string]any{"error": p}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		// A phone that has gone asks again.
		_ = json.NewEncoder(w).Encode(body)
	}
}

// problemOf returns the problem that describes an error to the sender of a request.
func (s *server) problemOf(r *http.Request, err error) *problem {
	var known *problem
	var failed *seqsvr.Error
	const again = "send the same request again, with the same sender_key: a message is sent once"
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &failed) && (failed.Kind == seqsvr.KindUIDOutside || failed.Reason == seqsvr.ReasonUIDOutOfRange):
		return &problem{
			status: http.StatusUnprocessableEntity, Reason: failed.Reason, Message: failed.Error(),
			Next: "leave this member out; `seqsvr status` shows the uids of the cluster",
		}
	case errors.As(err, &failed) && (failed.Retryable || failed.Kind == seqsvr.KindClosed):
		s.log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
		return &problem{
			status: http.StatusServiceUnavailable, Reason: failed.Reason, Message: failed.Error(), Next: again, Retryable: true,
		}
	case errors.As(err, &failed):
		s.log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
		return &problem{
			status: http.StatusBadGateway, Reason: failed.Reason, Message: failed.Error(),
			Next: "tell the operator the reason; `seqsvr explain " + failed.Reason + "` has what to do",
		}
	case isBusy(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		s.log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
		return &problem{
			status: http.StatusServiceUnavailable, Reason: "DATABASE_BUSY",
			Message: fmt.Sprintf("the database had no time for the request within %v", requestTimeout),
			Next:    again, Retryable: true,
		}
	default:
		// What the database says is for its operator.
		s.log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
		return &problem{
			status: http.StatusInternalServerError, Reason: "DATABASE_FAILED", Message: "the database failed",
			Next: "tell the operator, who finds the error in the log of this server; then send the same request again",
		}
	}
}
