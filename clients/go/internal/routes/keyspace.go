package routes

import (
	"strconv"
	"strings"

	"seqsvr.example/clients/go/internal/wire"
)

// Buckets is the number of buckets of each keyspace.
const Buckets = 16_384

// Keyspace is a keyspace in the routes. Its buckets are sections after the sections of the uids.
type Keyspace struct {
	// Home is the set that was the first to send the layout of the keyspace's cluster.
	Home SetIndex
	// first is the section of the first bucket.
	first uint32
}

// Section returns the section of the bucket of a key.
func (k Keyspace) Section(key string) uint64 {
	return uint64(k.first) + uint64(Bucket(key))
}

// Bucket returns the bucket of a key, which is its slot in Redis Cluster: CRC16 (XMODEM) modulo [Buckets], of the key's
// hash tag if it has one. The hash tag is the text between the first { and the next }, unless it is empty.
func Bucket(key string) uint16 {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(after, "}"); found && tag != "" {
			key = tag
		}
	}
	return crc16(key) % Buckets
}

// crc16 returns the checksum with the polynomial 0x1021, the highest bit first, and 0 as the initial value.
func crc16(text string) (crc uint16) {
	for i := range len(text) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^text[i]]
	}
	return crc
}

// crcTable has the checksum of each byte.
var crcTable = func() (table [256]uint16) {
	for b := range table {
		crc := uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[b] = crc
	}
	return table
}()

// Keyspace returns the keyspace with a name.
func (d *Directory) Keyspace(name string) (Keyspace, bool) {
	record, home, ok := d.Series(name)
	if !ok || !isKeyspace(&record) {
		return Keyspace{}, false
	}
	return Keyspace{Home: home, first: record.Lanes.FirstSection}, true
}

// BucketRoute returns the route of a section of a keyspace's cluster. Requests for a section without a route are sent
// to any node of the set home.
func (d *Directory) BucketRoute(home SetIndex, section uint64) Route {
	if at := d.clusterAt(home); at >= 0 && section < maxSections {
		if route, ok := d.clusters[at].sections.get(uint32(section)); ok {
			return route
		}
	}
	return Route{Set: home}
}

// AdoptBucketClaim adopts a claim about a section of a keyspace's cluster, as [Routes.AdoptClaim].
func (r *Routes) AdoptBucketClaim(home SetIndex, section uint64, claim Claim) {
	r.adoptClaim(claim, func(d *Directory) (int, uint32, bool) {
		at := d.clusterAt(home)
		return at, uint32(section), at >= 0 && section < d.clusters[at].sections.len()
	})
}

// clusterAt returns the index of the cluster whose layout the set home was the first to send; -1 if there is none.
func (d *Directory) clusterAt(home SetIndex) int {
	for at, c := range d.clusters {
		if c.home == home {
			return at
		}
	}
	return -1
}

// locateSparse returns the bucket of a uid that no cluster declares, in the keyspace of uids.
func (d *Directory) locateSparse(uid uint64) (at int, section uint32, ok bool) {
	for at, c := range d.clusters {
		for i := range c.series {
			if record := &c.series[i]; isKeyspace(record) && record.Lanes.Keys.OfUIDs {
				return at, record.Lanes.FirstSection + uint32(Bucket(strconv.FormatUint(uid, 10))), true
			}
		}
	}
	return 0, 0, false
}

// isKeyspace returns whether a record describes a keyspace whose keys this client can map to buckets.
func isKeyspace(record *wire.StoredSeries) bool {
	lanes := record.Lanes
	return lanes != nil && lanes.Keys != nil && lanes.Count == Buckets && lanes.PerSection == 1 &&
		lanes.FirstSection <= maxSections-Buckets
}

// bucketRuns calls yield with the runs of a table that are of buckets of its keyspaces.
func bucketRuns(table *wire.Routes, yield func(run wire.RouteRun)) {
	for i := range table.Series {
		if !isKeyspace(&table.Series[i]) {
			continue
		}
		first := table.Series[i].Lanes.FirstSection
		for _, run := range table.LaneRuns {
			from, end := max(run.FirstSection, first), min(run.FirstSection+run.Sections, first+Buckets)
			if from < end {
				run.FirstSection, run.Sections = from, end-from
				yield(run)
			}
		}
	}
}
