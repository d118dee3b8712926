package main

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

// The blocks: slot n is the two hours that start n slots after firstSlot. Each cluster has one block in it.
const (
	slotHours   = 2
	slotSamples = slotHours * 60 // testblock.SameSeries has one sample per minute
	firstSlot   = 230_000        // in 2022
	slotsNeeded = 12             // a day, which the shortest range query covers
)

var clusters = []string{"eu", "us", "ap"}

// times returns the range of the bucket's samples, in seconds.
func (o *options) times() (from, to int64) {
	slots := int64(o.blocks+len(clusters)-1) / int64(len(clusters))
	return firstSlot * slotHours * 3600, (firstSlot + slots) * slotHours * 3600
}

// writeBucket writes the blocks, unless the directory has those of an earlier run.
func writeBucket(ctx context.Context, o *options, out io.Writer) error {
	mark := filepath.Join(o.bucket, "debug", "fleet") // Thanos and Tare ignore the directory debug
	want := fmt.Sprintf("%d blocks of %d series\n", o.blocks, o.series)
	if have, err := os.ReadFile(mark); err == nil && string(have) == want {
		return nil
	} else if entries, err := os.ReadDir(o.bucket); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty and not a bucket of %s", o.bucket, strings.TrimSpace(want))
	}
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return err
	}
	began := time.Now()
	if err := writeBlocks(ctx, o); err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote %s in %v\n", strings.TrimSpace(want), time.Since(began).Round(time.Second))
	return os.WriteFile(mark, []byte(want), 0o644)
}

// writeBlocks writes the blocks by one goroutine per CPU.
func writeBlocks(ctx context.Context, o *options) error {
	var next atomic.Int64
	errs := make([]error, runtime.GOMAXPROCS(0))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for n := int(next.Add(1)) - 1; n < o.blocks && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				series := testblock.SameSeries(firstSlot+n/len(clusters), o.series, slotSamples)
				_, err := testblock.Write(o.bucket, series, testblock.Options{
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
