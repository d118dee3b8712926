//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestHistoryBurst sends a burst of thousands of new statements beside a known one: the sum of all calls
// never decreases, in any second, and finally equals the calls sent.
func TestHistoryBurst(t *testing.T) {
	const digests, sessions = 6000, 4
	schema := newSchema(t, mariadb, "burst")
	p := startTare(t, mariadb.Addr, "--bucket", "file://"+t.TempDir(), "--history-interval", "1s", "--history-labels", "instance=gw-1")
	db := open(t, p.addr, schema)
	known := `sum(tare_queries_total * on (digest) group_left () tare_digest_info{text="DO ?"})`
	_, err := db.ExecContext(t.Context(), "do 1")
	must(t, err)
	eventuallyValue(t, p, known, 1)
	from := time.Now()
	var wg sync.WaitGroup
	errs := make(chan error, sessions)
	for s := range sessions {
		wg.Go(func() {
			for n := s; n < digests; n += sessions {
				if _, err := db.ExecContext(t.Context(), fmt.Sprintf("do @burst_%d", n)); err != nil {
					errs <- err
					return
				}
				if n%10 == 0 {
					if _, err := db.ExecContext(t.Context(), "do 1"); err != nil {
						errs <- err
						return
					}
				}
			}
		})
	}
	testwait.Group(t, "the statements", &wg)
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	sum := fmt.Sprintf(`sum(tare_queries_total{schema=%q} * on (digest) group_left () tare_digest_info{text=~"(?i)do .*"})`, schema)
	eventuallyValue(t, p, sum, 1+digests+digests/10)
	if n := metricValue(t, p, "tare_history_digests"); n < digests {
		t.Errorf("%v digests, want at least %d", n, digests)
	}
	resp, err := http.Get(p.http + "/api/v1/query_range?" + url.Values{
		"query": {"sum(tare_queries_total)"}, "step": {"1"},
		"start": {from.Format(time.RFC3339)}, "end": {time.Now().Format(time.RFC3339)},
	}.Encode())
	must(t, err)
	defer resp.Body.Close()
	var respond struct {
		Data struct{ Result []struct{ Values [][2]any } }
	}
	must(t, json.NewDecoder(resp.Body).Decode(&respond))
	if len(respond.Data.Result) != 1 || len(respond.Data.Result[0].Values) < 2 {
		t.Fatalf("the sum over the burst: %+v", respond)
	}
	before := 0.0
	for _, v := range respond.Data.Result[0].Values {
		text, _ := v[1].(string)
		n, err := strconv.ParseFloat(text, 64)
		must(t, err)
		if n < before {
			t.Errorf("at %v the sum falls from %v to %v", v[0], before, n)
		}
		before = n
	}
}
