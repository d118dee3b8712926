package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// collectLimit bounds one forced collection.
const collectLimit = 10 * time.Second

// collect forces collections in tare at the interval of -collect, until stop is called: without them a run is over
// before tare, which allocates nothing per statement, collects.
func (l *lab) collect(ctx context.Context, w *way) (stop func() error) {
	if l.options.Collect == 0 || w.http == "" {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(l.options.Collect)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-tick.C:
			}
			if err := forceCollection(ctx, w.http); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// forceCollection runs a garbage collection by way of the heap profile, which starts with one.
func forceCollection(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, collectLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/debug/pprof/heap?gc=1", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("force a garbage collection: %w", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("force a garbage collection: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("force a garbage collection: %s", resp.Status)
	}
	return nil
}
