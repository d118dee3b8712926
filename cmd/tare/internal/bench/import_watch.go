package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/internal/weigh"
)

// An importWatch counts imported bytes and samples the target.
type importWatch struct {
	target   *target
	every    time.Duration
	progress io.Writer
	bytes    int64 // to import

	imported   atomic.Int64
	rows       atomic.Int64
	statements atomic.Int64
	largest    atomic.Int64
	began      time.Time
	samples    []ImportSample // used by the sampler until it has exited
}

func (w *importWatch) run(ctx context.Context, o *ImportOptions, c *connector) (ImportResult, error) {
	r := ImportResult{Connections: o.Connections}
	w.began = time.Now()
	from, err := w.target.read(ctx) // after a collection
	if err != nil {
		return r, err
	}
	if r.Idle, err = w.sample(ctx); err != nil {
		return r, err
	}
	r.Idle.Seconds = 0
	w.began = time.Now()
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	watched := make(chan error, 1)
	go func() { watched <- w.watch(watching) }()

	if err := w.send(ctx, o, c); err != nil {
		stopWatching()
		return r, errors.Join(err, <-watched)
	}
	seconds := time.Since(w.began).Seconds()
	timer := time.NewTimer(o.Settle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	stopWatching()
	if err := errors.Join(<-watched, ctx.Err()); err != nil {
		return r, err
	}
	to, err := w.target.read(ctx)
	if err != nil {
		return r, err
	}
	if r.After, err = w.sample(ctx); err != nil {
		return r, err
	}
	r.Samples = append(w.samples, r.After)
	r.Bytes, r.Rows, r.Statements, r.LargestBytes = w.imported.Load(), w.rows.Load(), w.statements.Load(), w.largest.Load()
	r.Seconds = seconds
	r.MiBPerSecond = float64(r.Bytes) / (1 << 20) / seconds
	r.CPUNanosPerMiB = float64(to.usage.CPU-from.usage.CPU) / (float64(r.Bytes) / (1 << 20))
	r.Peak = peak(r.Samples)
	return r, nil
}

// watch samples until ctx is done.
func (w *importWatch) watch(ctx context.Context) error {
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	reported := time.Now()
	for {
		s, err := w.sample(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		w.samples = append(w.samples, s)
		if time.Since(reported) >= 2*time.Second {
			reported = time.Now()
			progressf(w.progress, "%s of %s MiB%s", grouped(float64(s.Imported>>20)), grouped(float64(w.bytes>>20)), s.memory())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// sample samples the target.
func (w *importWatch) sample(ctx context.Context) (ImportSample, error) {
	s := ImportSample{Imported: w.imported.Load()}
	if w.target.process != nil {
		u, err := w.target.process.Usage()
		if err != nil {
			return s, err
		}
		rss := float64(u.RSS)
		s.RSS = &rss
	}
	if w.target.metrics != "" {
		ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
		defer cancel()
		scrape, err := weigh.ScrapeMetrics(ctx, w.target.client, w.target.metrics)
		if err != nil {
			return s, err
		}
		r, err := scrape.Runtime()
		if err != nil {
			return s, err
		}
		s.Heap = &r.HeapInUse
		if plans, ok := scrape.Sum("tare_plan_cache_bytes"); ok {
			s.PlanCache = &plans
		}
	}
	s.Seconds = time.Since(w.began).Seconds()
	return s, nil
}

// send imports over all connections until the number of bytes is reached.
func (w *importWatch) send(ctx context.Context, o *ImportOptions, c *connector) error {
	running, sending := errgroup.WithContext(ctx)
	var granted, nextID atomic.Int64
	for i := range o.Connections {
		running.Go(func() error { return w.sendOne(sending, o, c, uint64(i), &granted, &nextID) })
	}
	err := running.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // not its effect on the current statements
	case err != nil:
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

func (w *importWatch) sendOne(ctx context.Context, o *ImportOptions, c *connector, seed uint64, granted, nextID *atomic.Int64) (err error) {
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	d := newDump(seed)
	for ctx.Err() == nil {
		// Sizes from a sixteenth of the largest to the largest.
		size := o.StatementBytes/16 + d.rng.Int64N(o.StatementBytes-o.StatementBytes/16+1)
		if granted.Add(size)-size >= o.Bytes {
			return nil
		}
		stmt, rows := d.statement(size, nextID)
		if err := s.run(ctx, stmt); err != nil {
			return err
		}
		w.imported.Add(int64(len(stmt)))
		w.rows.Add(rows)
		w.statements.Add(1)
		for was := w.largest.Load(); int64(len(stmt)) > was && !w.largest.CompareAndSwap(was, int64(len(stmt))); {
			was = w.largest.Load()
		}
	}
	return nil
}
