package markers

import (
	"fmt"
	"math"
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
		`# HELP tare_events_total Events recorded; kinds that clients choose count as reported.`, `# TYPE tare_events_total counter`,
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

// TestLikeMarkersOfKinds counts an event with the last one of its kind, though others were recorded in between.
func TestLikeMarkersOfKinds(t *testing.T) {
	s := open(t, Options{})
	for i, m := range []Marker{
		{Kind: "deploy", Title: "v1"},
		{Kind: "incident", Title: "v1"},
		{Kind: "deploy", Title: "v1"},
		{Kind: "deploy", Title: "v2"},
		{Kind: "deploy", Title: "v1"},
		{Kind: "incident", Title: "v1"},
		{Kind: "incident", Title: "v1", Time: noon.Add(time.Hour)},
	} {
		if m.Time.IsZero() {
			m.Time = noon.Add(time.Duration(i) * time.Second)
		}
		s.Add(m)
	}
	var got []string
	for _, m := range s.Between(noon, noon.Add(2*time.Hour), 10) {
		got = append(got, fmt.Sprint(m.Kind, " ", m.Title, " ", max(m.Count, 1)))
	}
	if want := "[deploy v1 2 incident v1 2 deploy v2 1 deploy v1 1 incident v1 1]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestAppendLine appends lines, and no part of one that has no JSON.
func TestAppendLine(t *testing.T) {
	line, err := appendLine([]byte("x"), 7)
	if err != nil || !strings.HasPrefix(string(line), "x") || !strings.HasSuffix(string(line), " 7\n") {
		t.Errorf("%q, %v", line, err)
	}
	if line, err := appendLine([]byte("x"), math.Inf(1)); err == nil || string(line) != "x" {
		t.Errorf("infinity: %q, %v", line, err)
	}
}
