package order

import "testing"

func check(calls ...Call) int {
	var h History
	for _, call := range calls {
		h.Add(call)
	}
	return len(h.Check())
}

func TestViolationsAreFound(t *testing.T) {
	one := Call{UID: 1, Start: 0, End: 10, First: 1, Value: 1}
	for name, test := range map[string]struct {
		calls []Call
		want  int
	}{
		"in order":             {[]Call{one, {UID: 1, Start: 11, End: 12, First: 2, Value: 2, Prev: 1}}, 0},
		"concurrent":           {[]Call{{UID: 1, Start: 5, End: 12, First: 1, Value: 1}, {UID: 1, Start: 0, End: 10, First: 2, Value: 2}}, 0},
		"a gap":                {[]Call{one, {UID: 1, Start: 11, End: 12, First: 9, Value: 9, Prev: 8}}, 0},
		"of two uids":          {[]Call{one, {UID: 2, Start: 0, End: 10, First: 1, Value: 1}}, 0},
		"a repeat":             {[]Call{one, {UID: 1, Start: 0, End: 12, First: 1, Value: 1}}, 1},
		"a range that repeats": {[]Call{one, {UID: 1, Start: 0, End: 12, First: 1, Value: 3}}, 1},
		"a decrease":           {[]Call{{UID: 1, Start: 0, End: 10, First: 5, Value: 5}, {UID: 1, Start: 11, End: 12, First: 1, Value: 1}}, 1},
		"a broken chain":       {[]Call{one, {UID: 1, Start: 11, End: 12, First: 5, Value: 5}, {UID: 1, Start: 13, End: 14, First: 6, Value: 6, Prev: 1}}, 1},
	} {
		if got := check(test.calls...); got != test.want {
			t.Errorf("%s: %d violations", name, got)
		}
	}
	if h := (&History{}); h.Len() != 0 || h.Check() != nil {
		t.Error("an empty history has calls")
	}
}
