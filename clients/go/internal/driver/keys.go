package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"

	seqsvr "seqsvr.example/clients/go"
)

// key is a key: a text, or an object with the bytes in hex.
type key string

func (k *key) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(k))
	}
	var raw struct{ Hex string }
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	bytes, err := hex.DecodeString(raw.Hex)
	*k = key(bytes)
	return err
}

// keys returns the keys of the request.
func (r *request) keys() []string {
	keys := make([]string, len(r.Keys))
	for i, one := range r.Keys {
		keys[i] = string(one)
	}
	return keys
}

// callOfKeys makes a call for keys.
func callOfKeys(ctx context.Context, keyspace *seqsvr.Keyspace, r *request) (any, error) {
	switch r.Op {
	case "next_key":
		got, err := keyspace.NextN(ctx, string(r.Key), r.count())
		return allocation(got), err
	case "next_keys":
		items := make([]seqsvr.KeyItem, len(r.Keys))
		for i, one := range r.Keys {
			items[i] = seqsvr.KeyItem{Key: string(one), Count: r.count()}
		}
		results, err := keyspace.NextManyN(ctx, items)
		return allocations(results), err
	case "current_key":
		got, err := keyspace.Current(ctx, string(r.Key))
		return got, err
	case "current_keys":
		results, err := keyspace.CurrentMany(ctx, r.keys())
		return readings(results), err
	case "advance_key":
		epoch, err := keyspace.Advance(ctx, string(r.Key), r.To)
		return object{"epoch": fmt.Sprint(epoch)}, err
	default:
		return nil, fmt.Errorf("%w %q", errUnsupported, r.Op)
	}
}

// nextOf takes the next number of a uid, or of the key of this uid if a keyspace is named.
func nextOf(ctx context.Context, c *seqsvr.Client, keyspace string, uid uint64) (seqsvr.Allocation, error) {
	if keyspace == "" {
		return c.Next(ctx, uid)
	}
	return c.Keyspace(keyspace).Next(ctx, fmt.Sprintf("key:%d", uid))
}
