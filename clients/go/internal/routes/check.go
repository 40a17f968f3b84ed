package routes

import (
	"errors"
	"fmt"

	"seqsvr.example/clients/go/internal/wire"
)

const (
	// maxSections is the limit on the sections of a layout. No memory is taken for a larger table.
	maxSections = 1 << 20
	// maxSectionSize is the limit on the uids of a section.
	maxSectionSize = 1 << 24
)

// layout is the division of a cluster's uids into sections.
type layout struct {
	start, end  uint64
	sectionSize uint32
}

func (l layout) sections() uint32 {
	return uint32((l.end - l.start + uint64(l.sectionSize) - 1) / uint64(l.sectionSize))
}

// Error is the error of a route table that is not adopted.
type Error struct {
	text string
	// isMismatch is whether the table has only the changes since a version that is not known here.
	isMismatch bool
}

func (e *Error) Error() string { return e.text }

func isMismatch(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.isMismatch
}

func mismatch(table *wire.Routes) error {
	return &Error{fmt.Sprintf("the routes of set %q build on a version that is not known here", table.Set), true}
}

func invalid(table *wire.Routes, format string, args ...any) error {
	return &Error{fmt.Sprintf("set %q ", table.Set) + fmt.Sprintf(format, args...), false}
}

// check validates a route table as far as a client uses it.
func check(table *wire.Routes) (layout, error) {
	of := layout{table.UIDStart, table.UIDEnd, table.SectionSize}
	if of.start >= of.end || of.sectionSize == 0 || of.sectionSize > maxSectionSize {
		return of, invalid(table, "has uids %d..%d in sections of %d", of.start, of.end, of.sectionSize)
	}
	// The number of sections is compared without rounding up, which could overflow.
	if (of.end-of.start-1)/uint64(of.sectionSize) >= maxSections {
		return of, invalid(table, "has more than %d sections", maxSections)
	}
	if table.SetID == 0 || table.Version == 0 || table.BaseVersion >= table.Version {
		return of, invalid(table, "with id %d has routes of version %d since %d", table.SetID, table.Version, table.BaseVersion)
	}
	nodes := make(map[uint32]bool, len(table.Nodes))
	for _, node := range table.Nodes {
		if node.ID == 0 {
			return of, invalid(table, "has node %q without an id", node.Name)
		}
		nodes[node.ID] = true
	}
	if err := checkRuns(table, table.Runs, 0, of.sections(), nodes); err != nil {
		return of, err
	}
	return of, checkRuns(table, table.LaneRuns, of.sections(), maxSections, nodes)
}

// checkRuns checks that runs are in order, and of sections from..end.
func checkRuns(table *wire.Routes, runs []wire.RouteRun, from, end uint32, nodes map[uint32]bool) error {
	at := uint64(from)
	for _, run := range runs {
		next := uint64(run.FirstSection) + uint64(run.Sections)
		if run.Sections == 0 || uint64(run.FirstSection) < at || next > uint64(end) {
			return invalid(table, "has a run of %d sections at %d", run.Sections, run.FirstSection)
		}
		if run.Owner != 0 && (!nodes[run.Owner] || run.AwaySetID != 0) {
			return invalid(table, "has section %d with the unknown owner %d", run.FirstSection, run.Owner)
		}
		at = next
	}
	return nil
}
