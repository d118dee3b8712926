//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testblock"
)

// TestWarningsOfPeers has a querier of Thanos read over the StoreAPI and a Prometheus by remote read from stores that lack
// blocks: one that a query finds damaged, and one that no query opens. The warnings of both reach the clients of the
// querier; a query without partial responses fails. Remote read has no field for warnings, and Prometheus ignores the
// header with them: a store with --partial deny fails there, which Prometheus reports as a warning.
func TestWarningsOfPeers(t *testing.T) {
	dir := t.TempDir()
	o := testblock.RandomOptions{Series: 40, Samples: 200, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(rand.New(rand.NewPCG(3, 4)), o)
	end := o.Start + int64(o.Samples)*o.Step
	third := (end - o.Start) / 3
	var ids []string
	for n := range int64(3) {
		from := o.Start + n*third
		id, err := testblock.Write(dir, testblock.Between(series, from, from+third), testblock.Options{External: map[string]string{"region": "eu"}, ChunkRange: o.ChunkRange()})
		must(t, err)
		ids = append(ids, id.String())
	}
	chunks := filepath.Join(dir, ids[1], "chunks", "000001")
	text, err := os.ReadFile(chunks)
	must(t, err)
	for i := 8; i < len(text); i++ {
		text[i] ^= 0xff
	}
	must(t, os.WriteFile(chunks, text, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, ids[2], "meta.json"), []byte("{"), 0o600))

	form := url.Values{
		"query": {`{__name__=~".+"}`}, "match[]": {`{__name__=~".+"}`}, "step": {"60"}, "dedup": {"false"},
		"start": {fmt.Sprint(o.Start / 1000)}, "end": {fmt.Sprint(end / 1000)}, "time": {fmt.Sprint(end / 1000)},
	}
	instant := url.Values{"query": {`last_over_time({__name__=~".+"}[3d])`}, "time": form["time"], "dedup": {"false"}}
	// names reports whether a warning names a block.
	names := func(a responded, id string) bool {
		return slices.ContainsFunc(a.Warnings, func(w string) bool { return strings.Contains(w, "incomplete result") && strings.Contains(w, id) })
	}
	t.Run("thanos", func(t *testing.T) {
		s := startStoreAPI(t, dir, "--layout", "thanos")
		querier := startThanos(t, "--endpoint", s.grpc)
		eventually(t, "the store at the querier", func() bool {
			a := ask(t, querier, "labels", url.Values{})
			return a.Status == "success" && len(a.Warnings) > 0
		})
		for _, c := range []struct {
			path string
			form url.Values
		}{{"query_range", form}, {"query", instant}, {"series", form}, {"labels", form}, {"label/__name__/values", form}} {
			a := ask(t, querier, c.path, c.form)
			// Thanos' endpoint of series drops the warnings of its stores.
			if a.Status != "success" || c.path != "series" && (!names(a, ids[2]) || !names(a, ids[1])) {
				t.Errorf("%s: %s %s; warnings %q", c.path, a.Status, a.Error, a.Warnings)
			}
			strict := url.Values{"partial_response": {"false"}}
			for k, v := range c.form {
				strict[k] = v
			}
			if a := ask(t, querier, c.path, strict); c.path != "labels" && !strings.HasPrefix(c.path, "label/") && a.Status != "error" {
				t.Errorf("%s without partial responses: %s; warnings %q", c.path, a.Status, a.Warnings)
			}
		}
	})
	t.Run("prometheus", func(t *testing.T) {
		for _, partial := range []string{"warn", "deny"} {
			s := startStore(t, nil, "--bucket", "file://"+dir, "--layout", "prometheus", "--partial", partial)
			eventually(t, "a ready store", func() bool { return s.ready(t) })
			reader := startPrometheus(t, t.TempDir(), fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", s.http))
			for _, path := range []string{"query_range", "query"} {
				c := form
				if path == "query" {
					c = instant
				}
				a := ask(t, reader, path, c)
				found := names(a, ids[2])
				if a.Status != "success" || found != (partial == "deny") {
					t.Errorf("--partial %s: %s: %s %s; warnings %q", partial, path, a.Status, a.Error, a.Warnings)
				}
			}
			if code, body := get(t, s.http+"/api/v1/query?"+instant.Encode()); (code == http.StatusOK) != (partial == "warn") || !strings.Contains(body, ids[2]) {
				t.Errorf("--partial %s: the store: %d %s", partial, code, body)
			}
		}
	})
}
