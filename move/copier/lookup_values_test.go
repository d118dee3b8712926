package copier

import (
	"errors"
	"fmt"
	"testing"

	"github.com/taredb/tare/mysql/rowstream"
)

// TestNewValues repeats a run once per value that the lookup table lacks, in whatever order concurrent workers meet them.
func TestNewValues(t *testing.T) {
	values := make(newValues)
	missing := func(v string) error {
		return fmt.Errorf("copy t: %w", &rowstream.LookupError{Table: "shop.shards", Value: v})
	}
	for i, c := range []struct {
		err  error
		want bool
	}{
		{errors.New("another error"), false},
		{missing("a"), true},
		{missing("b"), true},
		{missing("a"), false},
		{missing("b"), false},
		{missing("c"), true},
	} {
		if got := values.repeat(c.err); got != c.want {
			t.Errorf("error %d (%v): repeat returns %v", i, c.err, got)
		}
	}
}
