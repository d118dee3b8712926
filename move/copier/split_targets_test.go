package copier_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/move/copier"
)

// TestSplitServers gives random parts one of two servers under two addresses each, and random schemas: they are refused if and only if
// two parts have the same table of one server.
func TestSplitServers(t *testing.T) {
	p := newPair(t, "split")
	rnd := testseed.Rand(t)
	servers := []string{p.from.Addr, p.to.Addr}
	for range 40 {
		var parts []copier.Options
		var want []string // server and schema of each part
		n := 2 + rnd.IntN(4)
		for range n {
			server, schema := rnd.IntN(len(servers)), []string{"a", "b", "A", "c", "d", "e"}[rnd.IntN(6)]
			o := p.options()
			o.Tables = []tabledef.Spec{{Schema: p.schema, Name: "t", ToSchema: schema}, {Schema: p.schema, Name: "u", ToSchema: schema}}
			o.To.Addr = servers[server]
			if rnd.IntN(2) == 0 {
				o.To.Addr = "localhost:" + o.To.Addr[strings.LastIndexByte(o.To.Addr, ':')+1:]
			}
			parts, want = append(parts, o), append(want, servers[server]+strings.ToLower(schema))
		}
		slices.Sort(want)
		shared := len(slices.Compact(want)) < n
		err := copier.RefuseSharedServers(t.Context(), parts)
		if refused := err != nil && strings.Contains(err.Error(), " are one server, and the rows of both parts would go to its table "); refused != shared || err != nil && !refused {
			var got []string
			for _, o := range parts {
				got = append(got, o.To.Addr+" "+o.Tables[0].ToSchema)
			}
			t.Fatalf("parts %q: %v", got, err)
		}
	}
}
