package markers_test

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/taredb/tare/internal/history/markers"
)

// The events around a rise of a statement's load.
func ExampleStore_Between() {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	store, err := markers.Open(markers.Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	store.Add(markers.Marker{Kind: markers.KindRestart, Time: noon.Add(-time.Hour), Title: "gateway started"})
	store.Add(markers.Marker{Kind: "deploy", Time: noon.Add(-3 * time.Minute), Title: "shop 2.41"})

	rise := noon.Add(-2 * time.Minute)
	for _, m := range store.Between(rise.Add(-10*time.Minute), noon, 100) {
		fmt.Println(m.Kind, m.Name())
	}
	// Output: deploy shop 2.41
}
