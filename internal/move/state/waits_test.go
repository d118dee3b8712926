package state

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestWriterWaits has the waits of a writer that are reported: for a target that is unreachable, and for one that executes a statement.
func TestWriterWaits(t *testing.T) {
	waits := &telemetry.Waits{Observe: func(telemetry.Event) {}}
	open := func() (all []string) {
		for _, s := range waits.Status() {
			all = append(all, s.For)
		}
		return all
	}
	w := &Writer{Cfg: mysqlconn.Config{Addr: "127.0.0.1:1"}, Waits: waits, Patience: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Reconnect(ctx) }()
	testwait.Until(t, "the wait for the target", func() bool { return slices.Equal(open(), []string{"the target to be reachable again"}) })
	cancel()
	if err := testwait.Receive(t, "reconnecting to end", ended); err == nil || len(open()) > 0 {
		t.Errorf("%v, with the waits %q", err, open())
	}
	failed := errors.New("failed")
	if err := w.Waiting("a statement", func() error {
		if all := open(); !slices.Equal(all, []string{"the target to execute a statement"}) {
			t.Errorf("waits %q", all)
		}
		return failed
	}); !errors.Is(err, failed) || len(open()) > 0 {
		t.Errorf("%v, with the waits %q", err, open())
	}
}

// A describingSource describes tables, but takes no queries, as a service beside a server does.
type describingSource struct {
	rowstream.Server
	err error
}

func (s describingSource) Describe(context.Context, string, string) (*rowstream.Table, error) {
	return &rowstream.Table{Create: "CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB AUTO_INCREMENT=42"}, s.err
}

// TestSourceCounter reads the counter from the description of a table.
func TestSourceCounter(t *testing.T) {
	failed := errors.New("failed")
	for _, err := range []error{nil, failed} {
		n, got := sourceCounter(t.Context(), describingSource{err: err}, &tabledef.Spec{Schema: "s", Name: "t"})
		if !errors.Is(got, err) || err == nil && n != 42 || err != nil && n != 0 {
			t.Errorf("%v: %d, %v", err, n, got)
		}
	}
}
