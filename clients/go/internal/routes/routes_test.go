package routes

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/wire"
)

// table returns the routes of a set in which section n is owned by node 1 if its place in owners is 'o', is away in the
// set with id 3 - id if it is 'a', and has no owner if it is '-'.
func table(id, version uint64, epoch uint64, owners string) *wire.Routes {
	t := &wire.Routes{
		Set: "set", SetID: id, Version: version, UIDStart: 100, UIDEnd: 100 + uint64(len(owners))*10, SectionSize: 10,
		Nodes: []wire.RouteNode{{ID: 1, Addr: addrOf(id)}},
	}
	for i, owner := range owners {
		run := wire.RouteRun{FirstSection: uint32(i), Sections: 1, Epoch: epoch}
		switch owner {
		case 'o':
			run.Owner = 1
		case 'a':
			run.AwaySetID = 3 - id
		}
		t.Runs = append(t.Runs, run)
	}
	return t
}

func addrOf(id uint64) string { return string(rune('a'+id)) + ":1" }

func adopt(t *testing.T, r *Routes, table *wire.Routes, seed string) Change {
	t.Helper()
	change, err := r.Adopt(table, seed)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

func never(string) bool { return false }

func TestUIDsAreMappedToOwners(t *testing.T) {
	r := New()
	if _, ok := r.Load().Route(1); ok || !r.Load().IsEmpty() {
		t.Fatal("an empty directory has a route")
	}
	adopt(t, r, table(1, 5, 3, "oa-"), "seed:1")
	d := r.Load()
	for uid, want := range map[uint64]struct {
		id    uint64
		owner uint32
	}{100: {1, 1}, 109: {1, 1}, 110: {2, 0}, 119: {2, 0}, 120: {1, 0}, 129: {1, 0}} {
		route, ok := d.Route(uid)
		if !ok || d.Set(route.Set).ID != want.id || route.Owner != want.owner || route.Epoch != 3 {
			t.Errorf("uid %d: %+v, %v", uid, route, ok)
		}
	}
	for _, uid := range []uint64{0, 99, 130, 1<<64 - 1} {
		if route, ok := d.Route(uid); ok {
			t.Errorf("uid %d: %+v", uid, route)
		}
	}
}

func TestARouteIsOnlyReplacedByANewerOne(t *testing.T) {
	r := New()
	adopt(t, r, table(1, 5, 3, "oo"), "s:1")
	// Another set claims the first section under a newer epoch, and the second under an older one.
	other := table(2, 1, 4, "oa")
	other.Runs[1].Epoch = 2
	adopt(t, r, other, "s:2")
	set := func(uid uint64) uint64 {
		route, _ := r.Load().Route(uid)
		return r.Load().Set(route.Set).ID
	}
	if set(100) != 2 || set(110) != 1 {
		t.Errorf("sets %d and %d", set(100), set(110))
	}
	// An older version changes nothing, not even under larger epochs.
	if change := adopt(t, r, table(1, 5, 99, "oo"), "s:1"); change.Any {
		t.Errorf("%+v", change)
	}
	r.AdoptClaim(100, Claim{Set: 1, Since: 4})
	r.AdoptClaim(100, Claim{Set: 0, Since: 9})
	r.AdoptClaim(999, Claim{Set: 1, Since: 9})
	if set(100) != 2 {
		t.Error("a claim that is not newer was adopted")
	}
	before := r.Load()
	r.AdoptClaim(100, Claim{Set: 1, Since: 5})
	if set(100) != 1 {
		t.Error("a newer claim was not adopted")
	}
	if route, _ := before.Route(100); before.Set(route.Set).ID != 2 {
		t.Error("an earlier snapshot has changed")
	}
}

func TestAnOwnerIsMoreThanAClaimAndAClaimMoreThanNoOwner(t *testing.T) {
	id := func(set SetIndex) uint64 { return uint64(set) }
	claim := Route{Epoch: 5, Set: 1, IsClaim: true}
	owned := Route{Epoch: 5, Set: 1, Owner: 2}
	unknown := Route{Epoch: 5, Set: 0}
	for _, routes := range [][]Route{{unknown, claim, owned}, {owned, claim, unknown}, {claim, owned, unknown}} {
		empty := newSections(1)
		s := empty.clone()
		for _, route := range routes {
			s.merge(0, 1, route, id)
		}
		if got, _ := s.get(0); got.Owner != 2 {
			t.Errorf("%+v of %+v", got, routes)
		}
	}
}

func TestMergingIsCommutativeAndIdempotent(t *testing.T) {
	const count = 600
	// Not in the order of the indexes, because the indexes depend on the order of messages.
	id := func(set SetIndex) uint64 { return uint64(set) * 7 % 5 }
	random := rand.New(rand.NewPCG(3, 4))
	type run struct {
		first, count uint32
		route        Route
	}
	merged := func(runs []run) sections {
		empty := newSections(count)
		s := empty.clone()
		for _, r := range runs {
			s.merge(r.first, r.count, r.route, id)
		}
		return s
	}
	for range 50 {
		var runs []run
		for range random.IntN(12) {
			first := random.Uint32N(count)
			route := Route{Epoch: random.Uint64N(4), Set: SetIndex(random.IntN(4)), Owner: random.Uint32N(3)}
			route.IsClaim = route.Owner == 0 && random.IntN(2) == 0
			runs = append(runs, run{first, 1 + random.Uint32N(count-first), route})
		}
		shuffled := append(append([]run(nil), runs...), runs...)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		one, other := merged(runs), merged(shuffled)
		for section := range uint32(count) {
			a, _ := one.get(section)
			b, _ := other.get(section)
			if a != b {
				t.Fatalf("section %d: %+v and %+v of %+v", section, a, b, runs)
			}
		}
	}
}

func TestAMergeSharesTheChunksThatItDoesNotChange(t *testing.T) {
	id := func(SetIndex) uint64 { return 1 }
	empty := newSections(600)
	before := empty.clone()
	before.merge(0, 600, Route{Epoch: 1, Owner: 1}, id)
	after := before.clone()
	after.merge(255, 2, Route{Epoch: 2, Owner: 1}, id)
	for i, changed := range []bool{true, true, false} {
		if (before.chunks[i] != after.chunks[i]) != changed {
			t.Errorf("chunk %d", i)
		}
	}
	if route, _ := before.get(255); route.Epoch != 1 {
		t.Error("the original has changed")
	}
	if _, ok := after.get(10_000); ok {
		t.Error("a section past the end has a route")
	}
}

func TestDeltasNeedTheirBase(t *testing.T) {
	r := New()
	if _, err := r.Adopt(table(1, 5, 3, "oo"), ""); !isMismatch(err) {
		t.Errorf("routes of an unknown set are adopted: %v", err)
	}
	adopt(t, r, table(1, 5, 3, "oo"), "s:1")
	delta := table(1, 8, 4, "oo")
	delta.BaseVersion = 6
	if _, err := r.Adopt(delta, ""); !isMismatch(err) {
		t.Errorf("changes since an unknown version are adopted: %v", err)
	}
	// The next request asks for the whole table, once.
	set := r.Load().ByID(1)
	if got := []wire.Optional{set.KnownVersion(), set.KnownVersion()}; !reflect.DeepEqual(got, []wire.Optional{wire.Some(0), wire.Some(5)}) {
		t.Errorf("%+v", got)
	}
	delta.BaseVersion = 5
	if change := adopt(t, r, delta, ""); !change.Any || change.Addrs {
		t.Errorf("%+v", change)
	}
}

func TestASetWithoutRoutesIsAskedForAllOfThemOnceInAWhile(t *testing.T) {
	r := New()
	adopt(t, r, table(1, 5, 3, "oa"), "s:1")
	set := r.Load().ByID(2)
	if got := []wire.Optional{set.KnownVersion(), set.KnownVersion()}; !reflect.DeepEqual(got, []wire.Optional{wire.Some(0), {}}) {
		t.Errorf("%+v", got)
	}
}

func TestInvalidTablesAreRefused(t *testing.T) {
	for text, change := range map[string]func(*wire.Routes){
		"in sections of 0":      func(t *wire.Routes) { t.SectionSize = 0 },
		"uids 100..100":         func(t *wire.Routes) { t.UIDEnd = 100 },
		"more than 1048576":     func(t *wire.Routes) { t.UIDStart, t.UIDEnd, t.SectionSize = 0, 1<<64-1, 1 },
		"of version 0":          func(t *wire.Routes) { t.Version = 0 },
		"since 5":               func(t *wire.Routes) { t.BaseVersion = 5 },
		"with id 0":             func(t *wire.Routes) { t.SetID = 0 },
		"without an id":         func(t *wire.Routes) { t.Nodes[0].ID = 0 },
		"a run of 0 sections":   func(t *wire.Routes) { t.Runs[0].Sections = 0 },
		"a run of 2 sections":   func(t *wire.Routes) { t.Runs[1].Sections = 2 },
		"a run of 1 sections":   func(t *wire.Routes) { t.Runs[1].FirstSection = 0 },
		"the unknown owner 7":   func(t *wire.Routes) { t.Runs[0].Owner = 7 },
		"with the unknown owne": func(t *wire.Routes) { t.Runs[0].AwaySetID = 2 },
	} {
		r, broken := New(), table(1, 5, 3, "oo")
		change(broken)
		if _, err := r.Adopt(broken, "s:1"); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
		if !r.Load().IsEmpty() {
			t.Errorf("%s: adopted", text)
		}
	}
}

func TestClustersDoNotOverlap(t *testing.T) {
	r := New()
	adopt(t, r, table(1, 5, 3, "oo"), "s:1")
	other := table(7, 1, 1, "ooo")
	if _, err := r.Adopt(other, "s:2"); err == nil || !strings.Contains(err.Error(), "overlaps") {
		t.Errorf("%v", err)
	}
	other.UIDStart, other.UIDEnd = 0, 30
	adopt(t, r, other, "s:2")
	if route, ok := r.Load().Route(29); !ok || r.Load().Set(route.Set).ID != 7 {
		t.Errorf("%+v, %v", route, ok)
	}
	if len(r.Load().Others(r.Load().ByID(7))) != 0 || r.Load().HasOthers(r.Load().ByID(1)) {
		t.Error("sets of two clusters are others of each other")
	}
	// A cluster of one set may change its layout.
	grown := table(1, 6, 4, "oooo")
	adopt(t, r, grown, "")
	if _, ok := r.Load().Route(139); !ok {
		t.Error("a uid of the new layout has no route")
	}
}

func TestAHostIsTheOwnerOrAGoodOne(t *testing.T) {
	r := New()
	routes := table(1, 5, 3, "oo")
	routes.Nodes = []wire.RouteNode{{ID: 1, Addr: "a:1"}, {ID: 2, Addr: "b:1"}}
	adopt(t, r, routes, "a:1")
	set := r.Load().ByID(1)
	for range 20 {
		for want, got := range map[string]string{
			"a:1": set.Host(1, "", never),
			"b:1": set.Host(2, "a:1", never),
		} {
			if got != want {
				t.Fatalf("%s, not %s", got, want)
			}
		}
		if got := set.Host(1, "a:1", never); got != "b:1" {
			t.Fatalf("the excluded owner is %s", got)
		}
		if got := set.Host(1, "", func(addr string) bool { return addr == "a:1" }); got != "b:1" {
			t.Fatalf("the suspect owner is %s", got)
		}
		if got := set.Host(1, "a:1", func(string) bool { return true }); got != "b:1" {
			t.Fatalf("of suspects, an address that is not excluded: %s", got)
		}
	}
	all := func(string) bool { return true }
	if !set.IsDown(all) || set.IsDown(never) || !set.HasOther("a:1", never) || set.HasOther("a:1", all) {
		t.Error("IsDown or HasOther")
	}
	// A set that only others name has the addresses that they state.
	claimed := table(1, 6, 4, "oa")
	claimed.Sets = []wire.RouteSet{{ID: 2, Name: "b", Allocs: []string{"x:1"}}}
	if change := adopt(t, r, claimed, ""); !change.Addrs {
		t.Error("a new address is not reported")
	}
	if got := r.Load().ByID(2).Host(0, "", never); got != "x:1" || !r.Load().Addrs()["x:1"] {
		t.Errorf("%q", got)
	}
}

func TestSeriesOnlyGrow(t *testing.T) {
	r := New()
	first := table(1, 5, 3, "oo")
	first.Series = []wire.StoredSeries{{Name: "one"}, {Name: "two"}}
	adopt(t, r, first, "s:1")
	adopt(t, r, table(1, 6, 3, "oo"), "")
	if _, _, ok := r.Load().Series("two"); !ok {
		t.Error("a series is gone")
	}
	if _, _, ok := r.Load().Series("three"); ok {
		t.Error("an unknown series is known")
	}
}

func TestABudgetIsExhaustedAndCallsAndSecondsEarn(t *testing.T) {
	now := time.Now()
	b := NewBudget(now)
	spend := func(now time.Time) (spent int) {
		for b.Spend(now) {
			spent++
		}
		return spent
	}
	if got := spend(now); got != maxSavedRetries {
		t.Errorf("a full budget has %d retries", got)
	}
	for range 50 {
		b.Earn()
	}
	if got := spend(now); got != 10 {
		t.Errorf("50 calls earn %d", got)
	}
	if got := spend(now.Add(550 * time.Millisecond)); got != 5 {
		t.Errorf("550 ms earn %d", got)
	}
	if got := spend(now.Add(time.Hour)); got != maxSavedRetries {
		t.Errorf("an hour earns %d", got)
	}
}

func TestALimiterLetsOneCallerPassInAnInterval(t *testing.T) {
	var l Limiter
	if !l.TryAcquire(time.Hour) || l.TryAcquire(0) {
		t.Error("a second caller passes beside the first one")
	}
	l.Release()
	if l.TryAcquire(time.Hour) || !l.TryAcquire(0) {
		t.Error("the interval is ignored")
	}
}
