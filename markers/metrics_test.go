package markers

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestMetrics counts events by kind: those that clients report have one count in common, whatever their kind is.
func TestMetrics(t *testing.T) {
	s := open(t, Options{})
	for i, kind := range []Kind{KindDDL, KindDDL, KindPause, "deploy", "incident", "deploy"} {
		s.Add(Marker{Kind: kind, Title: "x", Time: noon.Add(time.Duration(i) * time.Hour)})
	}
	want := []string{
		`# HELP tare_events_total Events recorded since the start, by kind: schema changes, switches, restarts and those reported by clients. Kinds that clients choose count as reported.`, `# TYPE tare_events_total counter`,
	}
	for _, k := range append([]Kind{"reported"}, reserved...) {
		n := map[Kind]string{"reported": "3", KindDDL: "2", KindPause: "1"}[k]
		if n == "" {
			n = "0"
		}
		want = append(want, `tare_events_total{kind="`+string(k)+`"} `+n)
	}
	if err := testutil.CollectAndCompare(s, strings.NewReader(strings.Join(want, "\n")+"\n"), "tare_events_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(s); n != len(reserved)+3 {
		t.Errorf("%d metrics", n)
	}
}
