package frontend

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/accept"
	"github.com/taredb/tare/internal/alloctest"
)

// FuzzSelector expects a parsed selector to select the same after formatting, with its shard, and no panic.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{
		`up`, `{job="a"}`, `up{a!="b",c=~"d.*",e!~"\n\""}`, `{"quoted name"="x"}`, `{"a.b","c-d"="é"}`, `(up)`, `rate(up[5m])`,
		`up offset 5m`, `up @ end()`, `{__query_shard__="1_of_2",a="b"}`, `{a=""}`, "{a=\"\xff\"}", `up[`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer alloctest.Bounded(t, 16<<20)()
		s, err := parseSelector(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "selector: ") {
				t.Errorf("error %q", err)
			}
			return
		}
		again, err := parseSelector(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is written as %s, which reads as %v, %v", text, s, again, err)
		}
		if s.sharded {
			return
		}
		shard, err := parseSelector(s.shard(2, 3))
		if err != nil || !shard.sharded || len(shard.matchers) != len(s.matchers)+1 || shard.matchers[0].Value != "3_of_3" {
			t.Errorf("shard 3 of 3 of %s is %v, %v", s, shard, err)
		}
		for _, m := range s.matchers {
			if m.Name != "__name__" && len(m.Value) > 8 && !strings.Contains(m.Name, m.Value) && strings.Contains(s.masked(), m.Value) {
				t.Errorf("%s shows the value %q", s.masked(), m.Value)
			}
		}
	})
}

// TestDeepSelector expects nested parentheses to be rejected before parsing them becomes slow.
func TestDeepSelector(t *testing.T) {
	_, err := parseSelector(strings.Repeat("(", 500_000) + "up" + strings.Repeat(")", 500_000))
	if err == nil || !strings.Contains(err.Error(), "opening brackets") {
		t.Errorf("a million parentheses: %v", err)
	}
}

// FuzzAccept expects no header to make the negotiation panic, or choose an encoding that was not offered or
// that is refused by name.
func FuzzAccept(f *testing.F) {
	for _, s := range []string{"", "gzip", "gzip;q=0, *", "*;q=0", "identity;q=0", "zstd;q=0.1, gzip;q=0.12", "gzip;q=1.001", "gzip;q=x", ";;,,", "x-snappy-framed;q=0.999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer alloctest.Bounded(t, 16<<20)()
		h := map[string][]string{"Accept-Encoding": {text}, "Accept": {text}}
		e, ok := chooseEncoding(h)
		if ok && e.validate() != nil {
			t.Errorf("%q chooses %q", text, e)
		}
		for _, r := range accept.Parse([]string{text}) {
			if r.Q < 0 || r.Q > 1000 {
				t.Errorf("%q has weight %d", text, r.Q)
			}
			if ok && r.Name == string(e) && r.Q > 0 {
				return
			}
		}
		for _, r := range accept.Parse([]string{text}) {
			if ok && e != Identity && r.Name == string(e) && r.Q == 0 {
				t.Errorf("%q chooses %q, which it refuses", text, e)
			}
		}
	})
}
