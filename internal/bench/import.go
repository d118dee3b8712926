package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/weigh"
)

// importTable is created for the import and dropped after it.
const importTable = "tare_bench_import"

// ImportOptions say what `tare bench import` does.
type ImportOptions struct {
	DSN            string
	Bytes          int64 // of all statements
	StatementBytes int64 // of the largest one
	Connections    int
	Every          time.Duration // between two samples
	Settle         time.Duration // how long to watch after the import
	Keep           bool          // the table
	Out            string        // a directory for import.svg and import.json; empty: none

	Target TargetOptions

	Progress io.Writer
}

// DefaultImportOptions are those of the documented scenario.
func DefaultImportOptions() ImportOptions {
	return ImportOptions{
		Bytes: 1 << 30, StatementBytes: 16 << 20, Connections: 1, Every: 250 * time.Millisecond, Settle: 2 * time.Second,
	}
}

// minStatement is the least a largest statement may have: room for some rows.
const minStatement = 4 << 10

// Validate says what is wrong with o.
func (o *ImportOptions) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.DSN == "" {
		wrong("--dsn is missing: want user:password@tcp(host:port)/database")
	} else if _, err := newConnector(o.DSN, false); err != nil {
		wrong("--dsn: %w", err)
	}
	if o.StatementBytes < minStatement || o.StatementBytes > 1<<30 {
		wrong("--statement-bytes %d: want %d to 1 GiB", o.StatementBytes, minStatement)
	}
	if o.Bytes < o.StatementBytes {
		wrong("--bytes %d: want at least as many as --statement-bytes, %d", o.Bytes, o.StatementBytes)
	}
	if o.Connections < 1 || o.Connections > 1000 {
		wrong("--connections %d: want 1 to 1000", o.Connections)
	}
	if o.Every <= 0 || o.Settle < 0 {
		wrong("--every %v, --settle %v: want more than 0, and not less than 0", o.Every, o.Settle)
	}
	if err := o.Target.Validate(); err != nil {
		errs = append(errs, err)
	} else if o.Target.PID == 0 && o.Target.Metrics == "" {
		wrong("nothing to weigh: want --pid, --metrics or both")
	}
	return errors.Join(errs...)
}

// An ImportSample is the target at one moment.
type ImportSample struct {
	Seconds   float64  `json:"seconds"`  // since the import began
	Imported  int64    `json:"imported"` // bytes of statements that were answered
	RSS       *float64 `json:"rss_bytes,omitempty"`
	Heap      *float64 `json:"heap_bytes,omitempty"`       // in use
	PlanCache *float64 `json:"plan_cache_bytes,omitempty"` // by the target's own gauge
}

// An ImportResult is what an import did to the memory of the target.
type ImportResult struct {
	Bytes          int64   `json:"bytes"`
	Rows           int64   `json:"rows"`
	Statements     int64   `json:"statements"`
	LargestBytes   int64   `json:"largest_statement_bytes"`
	Connections    int     `json:"connections"`
	Seconds        float64 `json:"seconds"`
	MiBPerSecond   float64 `json:"mib_per_second"`
	CPUNanosPerMiB float64 `json:"cpu_ns_per_mib,omitempty"` // of the target

	// Before the import and after it, each after a collection where the target's pages
	// can ask for one, and the most of all samples.
	Idle  ImportSample `json:"idle"`
	Peak  ImportSample `json:"peak"`
	After ImportSample `json:"after"`

	Samples []ImportSample `json:"samples"`
}

// Import sends a generated dump through the address while it watches the target's memory.
func Import(ctx context.Context, o ImportOptions) (result ImportResult, err error) {
	if err := o.Validate(); err != nil {
		return ImportResult{}, err
	}
	t, err := newTarget(ctx, o.Target)
	if err != nil {
		return ImportResult{}, err
	}
	defer t.close()
	cfg, err := mysql.ParseDSN(o.DSN)
	if err != nil {
		return ImportResult{}, fmt.Errorf("--dsn: %w", err)
	}
	cfg.MaxAllowedPacket = 1<<30 + 1<<20 // the server's own limit is checked below
	c, err := connectorOf(cfg, false)
	if err != nil {
		return ImportResult{}, err
	}
	finish, err := prepareImport(ctx, &o, c)
	if err != nil {
		return ImportResult{}, err
	}
	defer func() { err = errors.Join(err, finish()) }()

	w := &importWatch{target: t, every: o.Every, progress: o.Progress, bytes: o.Bytes}
	return w.run(ctx, &o, c)
}

// prepareImport makes the table anew and checks that the server takes statements of the
// size.
func prepareImport(ctx context.Context, o *ImportOptions, c *connector) (finish func() error, err error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	limit, err := s.runInt(ctx, "SELECT @@max_allowed_packet")
	if err != nil {
		return nil, err
	}
	if limit <= o.StatementBytes {
		return nil, fmt.Errorf("the server takes packets of %d bytes, statements have up to %d: SET GLOBAL max_allowed_packet, or use a smaller --statement-bytes", limit, o.StatementBytes)
	}
	for _, stmt := range []string{
		"DROP TABLE IF EXISTS " + importTable,
		"CREATE TABLE " + importTable + " (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(64) NOT NULL, amount DECIMAL(12,2) NOT NULL, note VARCHAR(255) NOT NULL)",
	} {
		if err := s.run(ctx, stmt); err != nil {
			return nil, err
		}
	}
	return func() error {
		if o.Keep {
			return nil
		}
		s, err := c.connect(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		return errors.Join(s.run(context.WithoutCancel(ctx), "DROP TABLE "+importTable), s.close())
	}, nil
}

// An importWatch counts what is imported and samples the target.
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
	samples    []ImportSample // of the sampler until it has ended
}

func (w *importWatch) run(ctx context.Context, o *ImportOptions, c *connector) (ImportResult, error) {
	r := ImportResult{Connections: o.Connections}
	w.began = time.Now()
	from, err := w.target.read(ctx) // with a collection
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
	told := time.Now()
	for {
		s, err := w.sample(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		w.samples = append(w.samples, s)
		if time.Since(told) >= 2*time.Second {
			told = time.Now()
			progressf(w.progress, "%s of %s MiB%s", grouped(float64(s.Imported>>20)), grouped(float64(w.bytes>>20)), s.memory())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// memory says a sample's memory for a line of progress.
func (s *ImportSample) memory() string {
	text := ""
	for _, m := range []struct {
		name string
		v    *float64
	}{{"resident", s.RSS}, {"heap", s.Heap}, {"plan cache", s.PlanCache}} {
		if m.v != nil {
			text += fmt.Sprintf(", %s %.1f MiB", m.name, *m.v/(1<<20))
		}
	}
	return text
}

// sample looks at the target.
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

// peak is the most of each figure over all samples.
func peak(samples []ImportSample) ImportSample {
	var p ImportSample
	most := func(to **float64, v *float64) {
		if v != nil && (*to == nil || *v > **to) {
			*to = v
		}
	}
	for i := range samples {
		most(&p.RSS, samples[i].RSS)
		most(&p.Heap, samples[i].Heap)
		most(&p.PlanCache, samples[i].PlanCache)
		p.Seconds, p.Imported = samples[i].Seconds, samples[i].Imported
	}
	return p
}

// send imports over all connections until there are enough bytes.
func (w *importWatch) send(ctx context.Context, o *ImportOptions, c *connector) error {
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var granted, nextID atomic.Int64
	var running sync.WaitGroup
	for i := range o.Connections {
		running.Go(func() {
			if err := w.sendOne(sending, o, c, uint64(i), &granted, &nextID); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return ctx.Err() // and not what it did to the statements under way
	}
	if sending.Err() != nil {
		return fmt.Errorf("import: %w", context.Cause(sending))
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
		// Sizes from a sixteenth of the largest up to the largest.
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

// A dump makes the INSERT statements of an SQL dump.
type dump struct {
	rng   *rand.Rand
	words []byte // text to cut values from
	buf   []byte
}

func newDump(seed uint64) *dump {
	d := &dump{rng: rand.New(rand.NewPCG(seed, 0x1a9)), words: make([]byte, 64<<10)}
	for i := range d.words {
		d.words[i] = "abcdefghijklmnopqrstuvwxyz      "[d.rng.IntN(32)]
	}
	return d
}

// importRowMost is more than any row of a dump takes.
const importRowMost = 512

// statement makes one of at most size bytes and answers how many rows it has.
func (d *dump) statement(size int64, nextID *atomic.Int64) (stmt string, rows int64) {
	b := append(d.buf[:0], "INSERT INTO "+importTable+" (id, name, amount, note) VALUES "...)
	for rows == 0 || int64(len(b))+importRowMost <= size {
		if rows > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '('), nextID.Add(1), 10)
		b = append(append(b, ",'"...), d.text(8+d.rng.IntN(40))...)
		b = strconv.AppendInt(append(b, "',"...), d.rng.Int64N(1_000_000), 10)
		b = append(append(b, ".25,'"...), d.text(40+d.rng.IntN(200))...)
		b = append(b, "')"...)
		rows++
	}
	d.buf = b
	return string(b), rows
}

// text is n bytes of words.
func (d *dump) text(n int) []byte {
	at := d.rng.IntN(len(d.words) - n)
	return d.words[at : at+n]
}

// Write keeps the series as import.json and the picture as import.svg in a directory.
func (r *ImportResult) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("write the series: %w", err)
	}
	var series bytes.Buffer
	if err := r.WriteJSON(&series); err != nil {
		return fmt.Errorf("write the series: %w", err)
	}
	for name, b := range map[string][]byte{"import.json": series.Bytes(), "import.svg": r.appendSVG(nil)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			return fmt.Errorf("write the series: %w", err)
		}
	}
	return nil
}

// appendSVG draws memory over time.
func (r *ImportResult) appendSVG(dst []byte) []byte {
	c := chart{
		title: fmt.Sprintf("%d MiB in %d INSERTs of up to %.1f MiB over %d connections: memory of the process that relays them",
			r.Bytes>>20, r.Statements, float64(r.LargestBytes)/(1<<20), r.Connections),
		xLabel: "seconds", yLabel: "MiB",
	}
	for _, l := range []struct {
		name, color string
		of          func(*ImportSample) *float64
	}{
		{"resident", "#c0392b", func(s *ImportSample) *float64 { return s.RSS }},
		{"heap in use", "#2471a3", func(s *ImportSample) *float64 { return s.Heap }},
		{"plan cache", "#1e8449", func(s *ImportSample) *float64 { return s.PlanCache }},
	} {
		line := chartLine{name: l.name, color: l.color}
		for i := range r.Samples {
			if v := l.of(&r.Samples[i]); v != nil {
				line.x = append(line.x, r.Samples[i].Seconds)
				line.y = append(line.y, *v/(1<<20))
			}
		}
		if len(line.x) > 0 {
			c.lines = append(c.lines, line)
		}
	}
	return c.appendSVG(dst)
}

// WriteJSON prints the result with all samples.
func (r *ImportResult) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}

// WriteText prints the result for people.
func (r *ImportResult) WriteText(w io.Writer) error {
	b := fmt.Appendf(nil, "%s MiB in %s statements of up to %.1f MiB, %s rows, over %d connections: %.1f s, %.1f MiB/s",
		grouped(float64(r.Bytes>>20)), grouped(float64(r.Statements)), float64(r.LargestBytes)/(1<<20), grouped(float64(r.Rows)), r.Connections, r.Seconds, r.MiBPerSecond)
	if r.CPUNanosPerMiB > 0 {
		b = fmt.Appendf(b, ", %.2f ms of CPU a MiB", r.CPUNanosPerMiB/1e6)
	}
	for _, s := range []struct {
		name string
		at   *ImportSample
	}{{"idle ", &r.Idle}, {"peak ", &r.Peak}, {"after", &r.After}} {
		b = fmt.Appendf(b, "\n%s%s", s.name, s.at.memory())
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}
