package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/mattn/go-sqlite3"

	seqsvr "seqsvr.example/clients/go"
)

const schema = `
CREATE TABLE IF NOT EXISTS message (
    id           INTEGER PRIMARY KEY,
    conversation TEXT NOT NULL,
    sender_key   TEXT NOT NULL,      -- drawn by the sender, and kept over its retries
    text         TEXT NOT NULL,
    UNIQUE (conversation, sender_key)
);
CREATE TABLE IF NOT EXISTS inbox (
    uid     INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    prev    INTEGER NOT NULL,        -- the number of the entry before, 0 if it is not known
    message INTEGER NOT NULL REFERENCES message (id),
    written REAL NOT NULL,           -- time of the row, in seconds since 1970
    PRIMARY KEY (uid, seq)
);
CREATE INDEX IF NOT EXISTS entries_of_message ON inbox (message);
CREATE TABLE IF NOT EXISTS horizon (
    uid INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL             -- no entry is written at this number or below any more
);
`

const (
	// pageSize is the limit on the entries of one call of [Inbox.Sync]; a device asks again for the entries that follow.
	pageSize = 100
	// maxConnections is the limit on open connections to the database: one connection writes while the others read.
	maxConnections = 8
	// busyTimeout is the time that a writer waits for writers of other processes.
	busyTimeout = 10 * time.Second
)

// Allocator allocates the next number of each uid. A [*seqsvr.Client] is one.
type Allocator interface {
	NextMany(ctx context.Context, uids []uint64) ([]seqsvr.AllocationResult, error)
}

// Entry is an entry of an inbox.
type Entry struct {
	Seq          uint64 `json:"seq,string"`
	Conversation string `json:"conversation"`
	Text         string `json:"text"`
}

// Inbox has the inboxes of all users. It is for any number of goroutines, and any number of processes on one machine may
// share its database.
type Inbox struct {
	numbers Allocator
	db      *sql.DB
	// grace is the time that a reader waits for an entry whose number is taken and whose row is not there.
	grace time.Duration
	// writer has one element while a goroutine writes. The others wait here in order; SQLite would let them poll.
	writer chan struct{}
}

// OpenInbox opens the database in a file, and creates its tables if there are none.
func OpenInbox(ctx context.Context, numbers Allocator, path string, grace time.Duration) (*Inbox, error) {
	if path == "" || path == ":memory:" {
		return nil, fmt.Errorf("database %q: each connection would have one of its own; name a file", path)
	}
	// A commit is on the disk before its sender gets a response. Transactions that write say so when they begin: two that
	// have both read before could not both continue.
	options := url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_txlock": {"immediate"}}
	options.Set("_busy_timeout", fmt.Sprint(busyTimeout.Milliseconds()))
	file := url.URL{Path: filepath.Clean(path)}
	db, err := sql.Open("sqlite3", "file:"+file.EscapedPath()+"?"+options.Encode())
	if err == nil {
		db.SetMaxOpenConns(maxConnections)
		db.SetMaxIdleConns(maxConnections)
		_, err = db.ExecContext(ctx, schema)
	}
	if err != nil {
		return nil, fmt.Errorf("database %q: %w; name a file in a directory that can be written to", path, err)
	}
	return &Inbox{numbers: numbers, db: db, grace: grace, writer: make(chan struct{}, 1)}, nil
}

// Close closes the database.
func (in *Inbox) Close() error { return in.db.Close() }

// Send sends a message to all members, once, however often it is called. It returns each member's number of it.
//
// After an error the call can be repeated with the same key. If the error is a [*seqsvr.Error], no member has the message.
func (in *Inbox) Send(
	ctx context.Context, conversation string, members []uint64, senderKey, text string,
) (map[uint64]uint64, error) {
	if len(members) == 0 {
		return nil, fmt.Errorf("message %q of conversation %q has no members; name at least one", senderKey, conversation)
	}
	for {
		if sent, err := in.sent(ctx, conversation, senderKey); err != nil || len(sent) > 0 {
			return sent, err
		}
		numbers, err := in.numbers.NextMany(ctx, members)
		if err != nil {
			return nil, err
		}
		rows := make([]row, len(members))
		for i, number := range numbers {
			if number.Err != nil {
				return nil, number.Err
			}
			rows[i] = row{uid: members[i], seq: number.Value, prev: number.Prev}
		}
		written, err := in.writeMessage(ctx, conversation, senderKey, text, rows)
		if err != nil {
			return nil, err
		}
		if written {
			sent := make(map[uint64]uint64, len(rows))
			for _, row := range rows {
				sent[row.uid] = row.seq
			}
			return sent, nil
		}
	}
}

// row is the part of an entry that its allocation determines.
type row struct{ uid, seq, prev uint64 }

// writeMessage writes a message and its entries. It returns false, without effect, if the message was sent before or if
// one of its numbers is too late.
func (in *Inbox) writeMessage(
	ctx context.Context, conversation, senderKey, text string, rows []row,
) (written bool, err error) {
	return in.write(ctx, func(tx *sql.Tx) (bool, error) {
		var message int64
		err := tx.QueryRowContext(ctx, `INSERT INTO message (conversation, sender_key, text) VALUES (?, ?, ?)
			ON CONFLICT DO NOTHING RETURNING id`, conversation, senderKey, text).Scan(&message)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for _, row := range rows {
			if closed, err := horizon(ctx, tx, row.uid); err != nil || row.seq <= closed {
				return false, err
			}
		}
		now := seconds(time.Now())
		for _, row := range rows {
			_, err := tx.ExecContext(ctx, "INSERT INTO inbox (uid, seq, prev, message, written) VALUES (?, ?, ?, ?, ?)",
				row.uid, row.seq, row.prev, message, now)
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// stored is an entry as the database has it.
type stored struct {
	Entry
	prev    uint64
	written float64
}

// Sync returns the next entries of a user with numbers above after, at most 100, in order: no entry is ever written
// between them.
func (in *Inbox) Sync(ctx context.Context, uid, after uint64) ([]Entry, error) {
	// Read before the entries: all entries up to the horizon are there by then.
	closed, err := horizon(ctx, in.db, uid)
	if err != nil {
		return nil, err
	}
	rows, err := in.stored(ctx, uid, after)
	if err != nil {
		return nil, err
	}
	entries, last := []Entry{}, after
	for _, row := range rows {
		noNumberBetween := row.Seq-1 <= max(last, closed) || row.prev > 0 && row.prev == last
		if !noNumberBetween {
			if seconds(time.Now())-row.written < in.grace.Seconds() {
				break
			}
			empty, err := in.close(ctx, uid, last, row.Seq)
			if err != nil {
				return nil, err
			}
			if !empty {
				break
			}
		}
		entries = append(entries, row.Entry)
		last = row.Seq
	}
	return entries, nil
}

// stored returns the next rows of a user with numbers above after. Other rows may still be written between them.
func (in *Inbox) stored(ctx context.Context, uid, after uint64) (entries []stored, err error) {
	rows, err := in.db.QueryContext(ctx, `SELECT seq, prev, written, conversation, text
		FROM inbox JOIN message ON message.id = inbox.message WHERE uid = ? AND seq > ? ORDER BY seq LIMIT ?`,
		uid, after, pageSize)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e stored
		if err := rows.Scan(&e.Seq, &e.prev, &e.written, &e.Conversation, &e.Text); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// close closes a user's numbers below seq. It returns false, without effect, if there are entries after last by now.
func (in *Inbox) close(ctx context.Context, uid, last, seq uint64) (empty bool, err error) {
	return in.write(ctx, func(tx *sql.Tx) (bool, error) {
		var between int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM inbox WHERE uid = ? AND seq > ? AND seq < ?",
			uid, last, seq).Scan(&between)
		if err != nil || between > 0 {
			return false, err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO horizon VALUES (?, ?)
			ON CONFLICT (uid) DO UPDATE SET seq = max(seq, excluded.seq)`, uid, seq-1)
		return err == nil, err
	})
}

// write runs a function in a transaction that writes. It commits the transaction if the function returns true, and rolls
// it back otherwise.
func (in *Inbox) write(ctx context.Context, run func(tx *sql.Tx) (bool, error)) (bool, error) {
	select {
	case in.writer <- struct{}{}:
		defer func() { <-in.writer }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	tx, err := in.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	// Without effect after the commit.
	defer func() { _ = tx.Rollback() }()
	if done, err := run(tx); err != nil || !done {
		return false, err
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	return true, nil
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// horizon returns the number up to which a user's numbers are closed.
func horizon(ctx context.Context, from querier, uid uint64) (closed uint64, err error) {
	err = from.QueryRowContext(ctx, "SELECT seq FROM horizon WHERE uid = ?", uid).Scan(&closed)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return closed, err
}

// sent returns each member's number of a message that was sent already; none if it was not.
func (in *Inbox) sent(ctx context.Context, conversation, senderKey string) (map[uint64]uint64, error) {
	rows, err := in.db.QueryContext(ctx, `SELECT uid, seq FROM message JOIN inbox ON inbox.message = message.id
		WHERE conversation = ? AND sender_key = ?`, conversation, senderKey)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	numbers := map[uint64]uint64{}
	for rows.Next() {
		var uid, seq uint64
		if err := rows.Scan(&uid, &seq); err != nil {
			return nil, err
		}
		numbers[uid] = seq
	}
	return numbers, rows.Err()
}

// isBusy returns whether a writer of another process held the database for all of [busyTimeout].
func isBusy(err error) bool {
	var failed sqlite3.Error
	return errors.As(err, &failed) && failed.Code == sqlite3.ErrBusy
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
