package storeapi

import (
	"testing"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/teststore"
)

// TestWeight expects headers and frames in memory after a query, and no headers after they were unloaded.
func TestWeight(t *testing.T) {
	dir := t.TempDir()
	shared.RandomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := teststore.Open(t, dir, nil)
	a := New(g, Options{})
	if h, f := g.HeaderBytes(), a.FrameBytes(); h != 0 || f != 0 {
		t.Errorf("before any query headers take %d bytes and frames %d", h, f)
	}
	client := storepb.NewStoreClient(teststore.Dial(t, a.NewServer()))
	if _, _, err := teststore.Receive(client.Series(t.Context(), teststore.Everything())); err != nil {
		t.Fatal(err)
	}
	teststore.WaitForIdle(t, g)
	if h, f := g.HeaderBytes(), a.FrameBytes(); h < 3000 || h > 1<<20 || f%frameBytes != 0 || f > maxIdleFrames*frameBytes {
		t.Errorf("after a query headers take %d bytes and frames %d", h, f)
	}
	for range 2 {
		g.UnloadIdle()
	}
	if h := g.HeaderBytes(); h != 0 {
		t.Errorf("unloaded, headers take %d bytes", h)
	}
}
