package routes

import (
	"testing"

	"seqsvr.example/clients/go/internal/wire"
)

func TestBucketsAreTheSlotsOfRedisCluster(t *testing.T) {
	if got := crc16("123456789"); got != 0x31c3 {
		t.Errorf("the checksum is %#x", got)
	}
	// The keys with braces are the examples of the specification of Redis Cluster.
	for key, slot := range map[string]uint16{
		"123456789": 12_739, "somekey": 11_058, "foo": 12_182, "bar": 5_061, "foo{hash_tag}": 2_515, "hash_tag": 2_515,
		"user1000": 3_443, "{user1000}.following": 3_443, "{user1000}.followers": 3_443, "foo{}{bar}": 8_363,
		"foo{bar}{zap}": 5_061, "{bar": 4_015, "foo{{bar}}zap": 4_015, "{}": 15_257, "{": 4_092, "": 0, "conv:42": 7_999,
	} {
		if got := Bucket(key); got != slot {
			t.Errorf("%q: %d, not %d", key, got, slot)
		}
	}
	if Bucket("}a{b}c") != Bucket("b") {
		t.Error("a brace before the tag counts")
	}
	if Bucket("\xff{\x00\xfe}\n") != Bucket("\x00\xfe") {
		t.Error("keys are not bytes")
	}
}

// keyspaceAt is a keyspace whose first bucket is a section.
func keyspaceAt(name string, first uint32) wire.StoredSeries {
	lanes := &wire.Lanes{Count: Buckets, PerSection: 1, FirstSection: first, Keys: &wire.Hashing{Digest: 7}}
	return wire.StoredSeries{Name: name, Lanes: lanes}
}

func TestSparseUIDsHaveTheRoutesOfTheirBuckets(t *testing.T) {
	const uid = 1_234_567_890_123_456_789
	r := New()
	one := table(1, 5, 3, "oo-")
	users := keyspaceAt("users", 13)
	one.Series = []wire.StoredSeries{users}
	one.LaneRuns = []wire.RouteRun{{FirstSection: 13, Sections: Buckets, Owner: 1, Epoch: 4}}
	adopt(t, r, one, "seed:1")
	if _, ok := r.Load().Route(uid); ok {
		t.Error("a keyspace of any keys has uids")
	}
	users.Lanes.Keys.OfUIDs = true
	two := table(1, 6, 3, "oo-")
	two.Series, two.LaneRuns = one.Series, one.LaneRuns
	adopt(t, r, two, "")
	for _, sparse := range []uint64{uid, 1<<64 - 1} {
		if got, ok := r.Load().Route(sparse); !ok || got != (Route{Epoch: 4, Owner: 1, known: true}) {
			t.Errorf("uid %d: %+v, %v", sparse, got, ok)
		}
	}
	r.AdoptClaim(uid, Claim{Set: 2, Since: 9})
	if got := r.Load().BucketRoute(0, 13+5_033); got != (Route{Epoch: 9, Set: 1, IsClaim: true, known: true}) {
		t.Errorf("after a claim: %+v", got)
	}
}

func TestBucketsHaveRoutesAndLanesHaveNone(t *testing.T) {
	r := New()
	one := table(1, 5, 3, "oo-")
	lanes := wire.StoredSeries{Name: "orders", Lanes: &wire.Lanes{Count: 10, PerSection: 1, FirstSection: 3}}
	one.Series = []wire.StoredSeries{lanes, keyspaceAt("main", 13)}
	// The first run has lanes and the first ten buckets.
	one.LaneRuns = []wire.RouteRun{
		{FirstSection: 3, Sections: 20, Owner: 1, Epoch: 4},
		{FirstSection: 13 + Buckets - 1, Sections: 5, Epoch: 9, AwaySetID: 2},
	}
	adopt(t, r, one, "seed:1")
	d := r.Load()
	keyspace, ok := d.Keyspace("main")
	if !ok || keyspace.Home != 0 || keyspace.Section("123456789") != 13+12_739 {
		t.Errorf("%+v, %v", keyspace, ok)
	}
	if _, ok := d.Keyspace("orders"); ok {
		t.Error("a series is a keyspace")
	}
	for section, want := range map[uint64]Route{
		13: {Epoch: 4, Owner: 1, known: true}, 22: {Epoch: 4, Owner: 1, known: true}, 12: {}, 23: {},
		13 + Buckets - 1: {Epoch: 9, Set: 1, IsClaim: true, known: true}, 13 + Buckets: {}, 1 << 40: {},
	} {
		if got := d.BucketRoute(0, section); got != want {
			t.Errorf("section %d: %+v", section, got)
		}
	}
	// A uid above the uids of the cluster is not in a bucket.
	if _, ok := d.Route(100 + 13*10); ok {
		t.Error("a uid is in a bucket")
	}
	if got := d.BucketRoute(7, 13); got != (Route{Set: 7}) {
		t.Errorf("of another cluster: %+v", got)
	}
	delta := table(1, 6, 3, "")
	delta.BaseVersion, delta.UIDEnd, delta.Series = 5, one.UIDEnd, one.Series
	delta.LaneRuns = []wire.RouteRun{{FirstSection: 14, Sections: 1, Epoch: 5}}
	adopt(t, r, delta, "")
	if got := r.Load().BucketRoute(0, 14); got.Epoch != 5 || got.Owner != 0 {
		t.Errorf("%+v", got)
	}
	if got := d.BucketRoute(0, 14); got.Epoch != 4 {
		t.Errorf("the snapshot before has changed: %+v", got)
	}
	r.AdoptBucketClaim(0, 14, Claim{Set: 2, Since: 5})
	r.AdoptBucketClaim(0, 15, Claim{Set: 2, Since: 8})
	r.AdoptBucketClaim(0, 1<<40, Claim{Set: 2, Since: 8})
	if got := r.Load().BucketRoute(0, 14); got.Set != 0 {
		t.Errorf("a claim that is not newer: %+v", got)
	}
	if got := r.Load().BucketRoute(0, 15); got.Set != 1 || got.Epoch != 8 {
		t.Errorf("%+v", got)
	}
}

func TestRunsOfLanesAreChecked(t *testing.T) {
	for name, runs := range map[string][]wire.RouteRun{
		"a section of uids":  {{FirstSection: 2, Sections: 1, Epoch: 1}},
		"past the limit":     {{FirstSection: maxSections, Sections: 1, Epoch: 1}},
		"an unknown owner":   {{FirstSection: 3, Sections: 1, Owner: 9, Epoch: 1}},
		"runs that overlap":  {{FirstSection: 3, Sections: 2, Epoch: 1}, {FirstSection: 4, Sections: 1, Epoch: 1}},
		"a run of no length": {{FirstSection: 3, Epoch: 1}},
	} {
		wrong := table(1, 5, 3, "oo-")
		wrong.Series, wrong.LaneRuns = []wire.StoredSeries{keyspaceAt("main", 3)}, runs
		if _, err := New().Adopt(wrong, "seed:1"); err == nil {
			t.Errorf("%s is adopted", name)
		}
	}
	// The buckets of a keyspace beyond the limit have no routes, and neither have the buckets of a keyspace of another size.
	odd := table(1, 5, 3, "oo-")
	small := keyspaceAt("small", 3)
	small.Lanes.Count = 16
	odd.Series = []wire.StoredSeries{keyspaceAt("far", maxSections), small}
	r := New()
	adopt(t, r, odd, "seed:1")
	for _, name := range []string{"far", "small", "none"} {
		if _, ok := r.Load().Keyspace(name); ok {
			t.Errorf("%s is served", name)
		}
	}
}
