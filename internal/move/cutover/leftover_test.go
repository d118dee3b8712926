package cutover

import (
	"context"
	"testing"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
)

// TestLeftStop cuts a handover off while the server waits to become read-only. It becomes so during the next run's Begin, which makes it writable
// again.
func TestLeftStop(t *testing.T) {
	h := &handed{sides: newSides(t)}
	h.parts = []*copied{h.copy("dst"), h.copy("dst2")}
	for i, k := range h.parts {
		k.reset()
		if i == 0 {
			h.must((&record{k.state}).recordHandover(t.Context(), k.holder, k.follower().Applied(), phaseHanding))
		}
		k.release()
	}
	lock := testrows.Connect(t, h.direct)
	testrows.Exec(t, lock, "LOCK TABLES src.a WRITE")
	running := func(text string) bool {
		return h.column("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE '" + text + "%'")[0] != "0"
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		killed := &readOnly{cfg: h.direct, patience: testwait.Limit}
		ended <- killed.stop(ctx, testwait.Limit)
	}()
	const statement = "SET GLOBAL read_only = 1"
	testwait.Until(t, "the statement to wait", func() bool { return running(statement) })
	cancel()
	if err := testwait.Receive(t, "the run to end", ended); err == nil {
		t.Fatal("the server is read-only although a table is locked")
	}
	began := make(chan error, 1)
	go func() {
		done, err := h.new(h.direct).Begin(t.Context(), h.targets(h.direct), false)
		if done {
			t.Error("the tables are handed over")
		}
		began <- err
	}()
	testwait.Until(t, "the next run to wait, or to end", func() bool {
		return len(began) > 0 || running("SELECT COALESCE(GET_LOCK(''"+stopLock)
	})
	testrows.Exec(t, lock, "UNLOCK TABLES")
	h.must(testwait.Receive(t, "the next run to begin", began))
	testwait.Until(t, "the statement to end", func() bool { return !running(statement) })
	if readOnly := h.column("SELECT @@GLOBAL.read_only")[0]; readOnly != "0" {
		t.Error("the source is read-only after the next run has begun")
	}
}
