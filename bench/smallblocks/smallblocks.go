// Package smallblocks writes buckets of many small blocks for benchmarks: slot n is the two hours that start n slots
// after a fixed time, and each cluster has one block in each slot.
package smallblocks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/testblock"
)

const (
	slotHours   = 2
	slotSamples = slotHours * 60 // testblock.SameSeries has one sample per minute
	firstSlot   = 230_000        // in 2022
)

// SlotsPerDay is the number of blocks of a cluster in a day.
const SlotsPerDay = 24 / slotHours

// Clusters returns the values of the external label cluster.
func Clusters() []string { return []string{"eu", "us", "ap"} }

// Times returns the range of the samples of that many blocks, in seconds.
func Times(blocks int) (from, to int64) {
	clusters := len(Clusters())
	slots := int64(blocks+clusters-1) / int64(clusters)
	return firstSlot * slotHours * 3600, (firstSlot + slots) * slotHours * 3600
}

// Write writes blocks into a directory, unless it has those of an earlier run.
func Write(ctx context.Context, dir string, blocks, series int, out io.Writer) error {
	mark := filepath.Join(dir, "debug", "fleet") // Thanos and Tare ignore the directory debug
	want := fmt.Sprintf("%d blocks of %d series\n", blocks, series)
	if have, err := os.ReadFile(mark); err == nil && string(have) == want {
		return nil
	} else if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty and not a bucket of %s", dir, strings.TrimSpace(want))
	}
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return err
	}
	began := time.Now()
	if err := writeBlocks(ctx, dir, blocks, series); err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote %s in %v\n", strings.TrimSpace(want), time.Since(began).Round(time.Second))
	return os.WriteFile(mark, []byte(want), 0o644)
}

// writeBlocks writes the blocks by one goroutine per CPU.
func writeBlocks(ctx context.Context, dir string, blocks, series int) error {
	clusters := Clusters()
	var next atomic.Int64
	errs := make([]error, runtime.GOMAXPROCS(0))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for n := int(next.Add(1)) - 1; n < blocks && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				all := testblock.SameSeries(firstSlot+n/len(clusters), series, slotSamples)
				_, err := testblock.Write(dir, all, testblock.Options{
					External:   map[string]string{"cluster": clusters[n%len(clusters)]},
					ChunkRange: 2 * slotHours * time.Hour.Milliseconds(), // a head accepts samples of half of it
				})
				if err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}
