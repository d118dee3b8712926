package dump_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestConditions dumps the rows of conditions, and refuses those that the source does not understand. Where it fails to execute a statement,
// the dump fails.
func TestConditions(t *testing.T) {
	s := newSource(t)
	for where, want := range map[string]string{
		"id > 590 OR d = 1": "", "nothing = 1": `check the condition "nothing = 1" of f.a: `, "id >": `check the condition "id >" of f.a: `,
	} {
		o := s.order(memory())
		o.Tables, o.Workers = []tabledef.Spec{{Schema: "f", Name: "a", Where: where}, {Schema: "f", Name: "b"}}, 1
		_, err := o.write(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", where, err, want)
		}
		if err != nil {
			continue
		}
		d, err := dump.Open(t.Context(), o.To)
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := rowsOf(t, d, "a", 0, rowstream.ReadOptions{})
		if len(rows) != 11 || !strings.HasPrefix(rows[0], `["1" `) || !strings.HasPrefix(rows[10], `["600" `) {
			t.Errorf("%s: %d rows", where, len(rows))
		}
	}
	proxy := testproxy.StartFaulty(t, s.cfg.Addr)
	cfg := s.cfg
	cfg.Addr, cfg.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
	through := testrows.Direct(t, cfg)
	o := s.order(memory())
	proxy.EachFails(t, func() error {
		o.To = memory()
		o.From, o.Workers, o.Tables = through, 1, []tabledef.Spec{{Schema: "f", Name: "b", Where: "id = 1"}}
		_, err := o.write(t.Context())
		return err
	}, "SELECT VERSION(), CONNECTION_ID(),", "SELECT `id` FROM `f`.`b` FORCE INDEX (`PRIMARY`) ORDER BY `id` DESC LIMIT 1")
}

// A hookedBucket calls hook before each upload.
type hookedBucket struct {
	objstore.Bucket
	hook func(name string)
}

func (b *hookedBucket) Upload(ctx context.Context, name string, r io.Reader, o ...objstore.ObjectUploadOption) error {
	b.hook(name)
	return b.Bucket.Upload(ctx, name, r, o...)
}

// TestOtherRuns has another run write to the destination after rows were dumped: the first one does not finish.
func TestOtherRuns(t *testing.T) {
	s := newSource(t)
	put := func(name string) func(dump.Destination) error {
		return func(to dump.Destination) error {
			return to.Put(t.Context(), name, &dump.Manifest{ID: "x", Run: "y"})
		}
	}
	for name, other := range map[string]func(to dump.Destination) error{
		"it has finished": put(dump.ManifestName),
		"it is at work":   put(dump.PartialName),
		"it was removed":  func(to dump.Destination) error { return to.Bucket.Delete(t.Context(), dump.PartialName) },
		"":                func(dump.Destination) error { return nil },
	} {
		to := memory()
		hooked := to
		var once sync.Once
		hooked.Bucket = &hookedBucket{to.Bucket, func(name string) {
			if name != "tables/f.e/schema.sql" { // written when all rows are
				return
			}
			once.Do(func() {
				if err := other(to); err != nil {
					t.Error(err)
				}
			})
		}}
		o := s.order(hooked)
		o.Workers, o.Tables = 1, o.Tables[1:]
		done := make(map[string]int)
		o.Observe = func(e telemetry.Event) { done[string(e.Kind)]++ }
		report, err := o.write(t.Context())
		if (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), "another run has written to it: start one run at a time") {
			t.Errorf("%s: %v", name, err)
		}
		if d, _ := dump.Open(t.Context(), to); (d != nil && report != nil) != (name == "") {
			t.Errorf("%s: it is finished: %v", name, d)
		}
		if done[string(telemetry.EventSnapshot)] != 1 || done[string(telemetry.EventDone)] != 2 {
			t.Errorf("%s: events %v", name, done)
		}
	}
}
