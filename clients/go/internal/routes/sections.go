package routes

// SetIndex is the index of a set in a client's list of sets. The list only grows.
type SetIndex uint16

// Route is the newest route of a section that the client knows.
type Route struct {
	// Epoch of the section's ownership; without an owner, the epoch under which the section arrived in the set.
	Epoch uint64
	// Owner is the id of the owner in the set; 0 if there is none, or if it is not known.
	Owner uint32
	// Set of the section.
	Set SetIndex
	// IsClaim is whether a set other than Set sent this route.
	IsClaim bool
	// known is whether any set sent this route.
	known bool
}

// isNewer returns whether r replaces other. The route with the larger epoch is newer, even if the two are of different
// sets. At equal epochs a route with an owner replaces a claim, and a claim replaces a route without an owner, because a
// set also sends such a route for a section of which it knows nothing. Two sets never have a section under the same
// epoch; if two routes state this, the ids of the sets decide, so that every copy of the routes keeps the same route.
func (r Route) isNewer(other Route, id func(SetIndex) uint64) bool {
	if !other.known {
		return true
	}
	if r.Epoch != other.Epoch {
		return r.Epoch > other.Epoch
	}
	if owned := r.Owner != 0; owned != (other.Owner != 0) {
		return owned
	}
	if r.IsClaim != other.IsClaim {
		return r.IsClaim
	}
	if a, b := id(r.Set), id(other.Set); a != b {
		return a > b
	}
	return r.Owner > other.Owner
}

// chunkSize is the number of sections in a chunk. The table of the largest layout has 4,096 chunks.
const chunkSize = 256

type chunk [chunkSize]Route

// sections has the routes of all sections of a layout, in chunks of neighbours. A copy shares its chunks with the
// original until it changes them.
//
// Invariant: a route is only ever replaced by a newer one. So merging is commutative and idempotent, and messages that
// arrive in another order never take a route backwards.
type sections struct {
	chunks []*chunk
	// owned is whether the chunk at the same index belongs to this copy alone. It is nil in a published table.
	owned []bool
}

// emptyChunk has no routes. It is never changed.
var emptyChunk = new(chunk)

func newSections(count uint32) (s sections) {
	s.extend(count)
	return s
}

// extend makes place for the sections below end. Only a copy that can be changed is extended.
func (s *sections) extend(end uint32) {
	for s.len() < uint64(end) {
		s.chunks, s.owned = append(s.chunks, emptyChunk), append(s.owned, false)
	}
}

// len returns the number of sections for which there is place.
func (s *sections) len() uint64 { return uint64(len(s.chunks)) * chunkSize }

// get returns the route of a section; false if no set sent one.
func (s *sections) get(section uint32) (Route, bool) {
	if int(section/chunkSize) >= len(s.chunks) {
		return Route{}, false
	}
	route := s.chunks[section/chunkSize][section%chunkSize]
	return route, route.known
}

// clone returns a copy that can be changed.
func (s *sections) clone() sections {
	return sections{chunks: append([]*chunk(nil), s.chunks...), owned: make([]bool, len(s.chunks))}
}

// merge merges route into each of count neighbouring sections from first on. id maps a set's index to its id.
func (s *sections) merge(first, count uint32, route Route, id func(SetIndex) uint64) {
	route.known = true
	for at, end := uint64(first), uint64(first)+uint64(count); at < end; at++ {
		index, place := at/chunkSize, at%chunkSize
		if !route.isNewer(s.chunks[index][place], id) {
			continue
		}
		if !s.owned[index] {
			copied := *s.chunks[index]
			s.chunks[index], s.owned[index] = &copied, true
		}
		s.chunks[index][place] = route
	}
}
