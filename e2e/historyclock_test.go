//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/store/tsblock"
)

// readMeta reads the meta.json of a block.
func readMeta(t *testing.T, dir string) *tsblock.Meta {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, tsblock.MetaFile))
	must(t, err)
	m, err := tsblock.ParseMeta(text)
	must(t, err)
	return m
}

// TestHistoryClockBack starts a gateway whose data directory was written under a clock that was three days
// ahead: its samples get another instance label at the time of the clock, even through a kill, and each call
// is counted once.
func TestHistoryClockBack(t *testing.T) {
	const ahead = 72 * time.Hour
	schema := newSchema(t, mariadb, "clock_back")
	data, bucket := t.TempDir(), t.TempDir()
	p := pastShape{hours: pastHours, step: time.Minute, ahead: ahead, compact: true}.write(t, data)
	before := p.counts[len(p.counts)-1]
	args := []string{"--bucket", "file://" + bucket, "--data-dir", data, "--history-interval", "1s", "--history-labels", "instance=gw-1,cluster=e2e"}
	g := startTare(t, mariadb.Addr, args...)
	eventually(t, "another instance label", func() bool { return metricValue(t, g, "tare_history_instance") == 2 })
	db := open(t, g.addr, schema)
	db.SetMaxOpenConns(1)
	calls := func(n int) {
		t.Helper()
		for range n {
			_, err := db.ExecContext(t.Context(), "do 1 + 1")
			must(t, err)
		}
		must(t, db.PingContext(t.Context()))
	}
	mine := fmt.Sprintf(`sum(tare_queries_total{instance="gw-1~2",schema=%q} * on (digest) group_left () tare_digest_info{text=~"(?i)do .*"})`, schema)
	old := `sum(tare_queries_total{instance="gw-1~2",schema="shop"})`
	calls(30)
	eventuallyValue(t, g, mine, 30)
	eventuallyValue(t, g, old, float64(before)) // the counters continue
	eventuallyValue(t, g, `sum(increase(tare_queries_total{schema="shop"}[1h])) or vector(0)`, 0)

	g.kill()
	g = startTare(t, mariadb.Addr, args...)
	db = open(t, g.addr, schema)
	db.SetMaxOpenConns(1)
	calls(12)
	eventuallyValue(t, g, mine, 42)
	if n := metricValue(t, g, "tare_history_instance"); n != 2 || metricValue(t, g, "tare_history_clock_ahead_seconds") > 1 {
		t.Errorf("the instance is %v, want 2, and not ahead", n)
	}

	// The last hour on the pages contains only the calls of this test.
	resp, err := http.Get(g.http + "/api/v1/statements?limit=100&from=" + url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
	must(t, err)
	defer resp.Body.Close()
	var top struct {
		Rows []struct {
			Schema, Text string
			Calls        uint64
		} `json:"statements"`
	}
	must(t, json.NewDecoder(resp.Body).Decode(&top))
	found := uint64(0)
	for _, row := range top.Rows {
		if row.Schema == "shop" {
			t.Errorf("%d calls of %q within the last hour, which were made before", row.Calls, row.Text)
		}
		if row.Schema == schema && strings.HasPrefix(strings.ToLower(row.Text), "do ") {
			found += row.Calls
		}
	}
	if found != 42 {
		t.Errorf("%d calls within the last hour, want 42: %+v", found, top.Rows)
	}

	// All samples of the first instance are in the bucket, in blocks that do not overlap.
	var labels []string
	eventually(t, "all blocks of the first label in the bucket", func() bool {
		labels = nil
		for _, id := range blocksIn(t, bucket) {
			labels = append(labels, readMeta(t, filepath.Join(bucket, id)).Thanos.Labels["instance"])
		}
		return len(labels) >= pastHours/2 && len(blocksIn(t, filepath.Join(data, "history", "series"))) == 0
	})
	metas := make(map[string][]*tsblock.Meta)
	for _, id := range blocksIn(t, bucket) {
		m := readMeta(t, filepath.Join(bucket, id))
		for _, other := range metas[m.Thanos.Labels["instance"]] {
			if m.MinTime < other.MaxTime && other.MinTime < m.MaxTime {
				t.Errorf("blocks %s and %s of %v overlap", m.ULID, other.ULID, m.Thanos.Labels)
			}
		}
		metas[m.Thanos.Labels["instance"]] = append(metas[m.Thanos.Labels["instance"]], m)
	}
	at := p.ends[len(p.ends)-1]
	eventually(t, "the samples of the first label from the bucket", func() bool {
		v, ok := promValueAt(t, g, `sum(tare_queries_total{instance="gw-1"})`, at)
		return ok && v == float64(before)
	})
}
