package tsblock

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// TestHeaderHeap adds label names, and values, until their header is too large.
func TestHeaderHeap(t *testing.T) {
	for name, entry := range map[string]func(i int) (name, value string){
		"names":  func(i int) (string, string) { return fmt.Sprintf("%06d", i), "v" },
		"values": func(i int) (string, string) { return "n", fmt.Sprintf("%06d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			w, err := createLocal(filepath.Join(t.TempDir(), headerName))
			if err != nil {
				t.Fatal(err)
			}
			defer w.abandon()
			const room = 10_000
			table := tableWriter{w: w, h: &header{}, heap: maxHeaderHeap - room}
			n := 0
			for ; err == nil && n < 100_000; n++ {
				name, value := entry(n)
				err = table.add([]byte(name), []byte(value), int64(n), 1)
			}
			if !errors.Is(err, errHeaderHeap) || n < 20 {
				t.Errorf("%d entries: %v", n, err)
			}
		})
	}
}
