package main

import (
	"log/slog"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testdir"
)

// TestHistoryWaits opens a history without space for its table and samples: it waits, and no state is lost.
func TestHistoryWaits(t *testing.T) {
	dir := testdir.Small(t, 4<<20)
	state := localstate.Open(dir, nil, slog.New(slog.DiscardHandler))
	o := config.NewServe()
	_, err := o.Load(config.Input{Flags: map[string]string{"bucket": "file://" + t.TempDir()}})
	must(t, err)
	bucket, err := o.History.Bucket.Open()
	must(t, err)
	s := newService(*o, slog.New(slog.DiscardHandler)).Server
	s.Data = &server.DataDir{Path: dir, State: state}
	h, err := openHistory(s, o.History, map[string]string{"instance": "gw-1"}, bucket, nil)
	must(t, err)
	if h.archive == nil || h.archive.Waiting() == nil || len(state.Losses()) != 0 {
		t.Fatalf("%+v, losses %v", h, state.Losses())
	}
	if events := h.events(); len(events) != 1 || events[0].Name != "History waits" {
		t.Errorf("events: %v", events)
	}
	must(t, h.close())
}
