package verify

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/testrows"
)

// TestOpenChunkInParts compares the last chunk, which has grown, in parts of a chunk's size: up to the last key that it had at the first.
func TestOpenChunkInParts(t *testing.T) {
	c := newCopied(t)
	testrows.Exec(t, c.holder, "INSERT INTO src.b (id, n) SELECT id + 60, n FROM src.b")
	o := c.options(c.direct, 1)
	o.Source, o.View = testrows.Direct(t, c.direct), noView{}
	v := NewFollowing(o, nil)
	for i, table := range c.tables {
		c.must(v.prepare(t.Context(), c.holder, i, table, true))
	}
	var ranges []follow.Ranges
	for range c.tables {
		ranges = append(ranges, follow.Ranges{Chunks: 5, Column: 0, Upto: []int64{12, 24, 36, 48}})
	}
	if diff := cmp.Diff(ranges, v.ranges()); diff != "" {
		t.Error(diff)
	}
	last := v.queue[len(v.queue)-1]
	k := &partedChunk{verifyChunk: last, rest: last.chunk}
	w := v.newWorker()
	defer w.writer.Close()
	var parts []string
	for ended := false; !ended && len(parts) < 100; {
		part, last, err := v.part(t.Context(), w, v.comparisons[1], k)
		c.must(err)
		parts = append(parts, strings.Join(keyText(part.Upto), ","))
		testrows.Exec(t, c.holder, "INSERT INTO src.b (id, n) SELECT MAX(id) + 1, 0 FROM src.b") // no further part
		k.rest.After, ended = part.Upto, last
	}
	if diff := cmp.Diff([]string{"60", "72", "84", "96", "108", ""}, parts); diff != "" {
		t.Error(diff)
	}
}
