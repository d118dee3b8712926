package rollup_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/localstate"
)

// TestStateVersion opens directories whose rollups.json has another version: one without a version is read, a later one is set aside.
func TestStateVersion(t *testing.T) {
	const epoch = "01KVBAQ0000000000000000000"
	for text, kept := range map[string]bool{
		`{"epoch":"` + epoch + `","shipped":[]}`:             true,
		`{"version":1,"epoch":"` + epoch + `","shipped":[]}`: true,
		`{"version":2,"epoch":"` + epoch + `","shipped":[]}`: false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "rollups.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		state := localstate.Open(dir, nil, slog.New(slog.DiscardHandler))
		s, err := rollup.OpenStore(rollup.StoreOptions{Dir: dir, State: state, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Epoch() == epoch; got != kept {
			t.Errorf("%s: epoch %s, want it kept: %v", text, s.Epoch(), kept)
		}
		if lost := len(state.Losses()) > 0; lost == kept {
			t.Errorf("%s: losses %v", text, state.Losses())
		}
	}
}
