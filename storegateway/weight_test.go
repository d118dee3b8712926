package storegateway

import (
	"testing"

	"github.com/taredb/tare/storegateway/storepb"
)

// TestWeight has headers and frames there once there was a query, and headers gone when they are
// unloaded.
func TestWeight(t *testing.T) {
	dir := t.TempDir()
	randomBlocks(t, dir, map[string]string{"cluster": "eu"})
	g := newStore(t, dir, nil)
	a := NewStoreAPI(g, StoreAPIOptions{})
	if h, f := g.HeaderBytes(), a.FrameBytes(); h != 0 || f != 0 {
		t.Errorf("before any query headers take %d bytes and frames %d", h, f)
	}
	client := storepb.NewStoreClient(dial(t, a))
	if _, _, err := receive(client.Series(t.Context(), everything())); err != nil {
		t.Fatal(err)
	}
	waitForIdle(t, g)
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
