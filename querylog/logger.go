package querylog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Logger writes entries to its sinks. It is safe for concurrent use.
type Logger struct {
	boot       string
	flushBytes int
	flushAfter time.Duration
	lanes      []*lane
	sinks      []*sink
	ring       *ring
	store      batchStore
	stripes    []stripe // their number is a power of two
	timer      *time.Timer
	sampling   Sampling
	filter     Filter
	fields     []string // fields that streams may filter by
	limiter    *limiter // nil without a limit per digest

	armed  atomic.Bool // timer runs, or has just fired and will flush all stripes
	closed atomic.Bool
	_      [64]byte
	count  atomic.Uint64 // backs seq without a sequence file

	// seq is the number of the last line; with a sequence file, it points into the file's page. It is
	// accessed under a stripe's lock while the logger is open, and under seqMu otherwise.
	seq     *atomic.Uint64
	seqFile *seqFile // nil without one
	seqMu   sync.Mutex
}

// A lane is a format and redaction in use, with its sinks.
type lane struct {
	line  Line   // initial value of each stripe's line
	head  []byte // a statement's line up to its number: the same for all
	sinks []*sink
	ring  *ring // nil unless the ring uses this lane
}

// A stripe is one of several buffers with a lock each, so that sessions on different stripes do not wait for
// each other.
type stripe struct {
	mu    sync.Mutex
	lanes []stripeLane
	_     [64]byte
}

type stripeLane struct {
	line Line
	b    *batch // nil if nothing is buffered
}

// New opens the sinks of o and returns a Logger, which must be closed.
func New(o Options) (*Logger, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	l := &Logger{
		boot:       o.Boot,
		flushBytes: cmp.Or(o.FlushBytes, 64<<10),
		flushAfter: cmp.Or(o.FlushAfter, time.Second),
		sampling:   o.Sampling,
		filter:     o.Filter,
		fields:     o.Fields,
	}
	if o.Sampling.PerDigest > 0 {
		l.limiter = &limiter{perSecond: o.Sampling.PerDigest}
	}
	if l.boot == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		l.boot = hex.EncodeToString(b[:])
	}
	l.seq = &l.count
	l.store = batchStore{size: l.flushBytes + bufferSlack, maxCap: 4 * l.flushBytes}
	if err := l.open(&o); err != nil {
		return nil, err
	}
	n := 1
	for n < 4*runtime.GOMAXPROCS(0) && n < 64 {
		n *= 2
	}
	l.stripes = make([]stripe, n)
	for i := range l.stripes {
		s := &l.stripes[i]
		s.lanes = make([]stripeLane, len(l.lanes))
		for k, ln := range l.lanes {
			s.lanes[k].line = ln.line
		}
	}
	l.store.spare = (n + 4) * len(l.lanes)
	for _, s := range l.sinks {
		l.store.most += s.limit / l.store.size
	}
	l.store.most += l.store.spare
	l.timer = time.AfterFunc(time.Hour, l.flushDue)
	l.timer.Stop()
	for _, s := range l.sinks {
		go s.run()
	}
	if l.seqFile != nil {
		e := &startEntry{time.Now(), l.seqFile}
		l.write(e, &Facts{End: e.at}, emitAll, 1)
		l.flush() // before all other lines, and before a kill
	}
	return l, nil
}

// open opens the sinks and creates the lanes.
func (l *Logger) open(o *Options) error {
	log := o.Slog
	if log == nil {
		log = slog.Default()
	}
	for i := range o.Sinks {
		so := &o.Sinks[i]
		out, err := so.open(log)
		if err != nil {
			l.closeSinks()
			return fmt.Errorf("log sink %s: %w", so.name(), err)
		}
		s := &sink{
			name:  so.name(),
			boot:  l.boot,
			out:   out,
			limit: cmp.Or(so.QueueBytes, 4<<20),
			store: &l.store,
			line:  Line{Format: so.Format},
			fault: faultReport{log: log, name: so.name()},
			wake:  make(chan struct{}, 1),
			done:  make(chan struct{}),
		}
		l.sinks = append(l.sinks, s)
		ln := l.lane(o, so.Format, so.Redaction)
		ln.sinks = append(ln.sinks, s)
	}
	if o.SeqFile != "" { // after the sinks: a path that cannot be opened leaves no file here
		var err error
		if l.seqFile, err = openSeqFile(o.SeqFile, l.boot); err != nil {
			l.closeSinks()
			return err
		}
		l.seq = l.seqFile.seq()
	}
	if size := cmp.Or(o.RingBytes, 4<<20); size > 0 {
		l.ring = newRing(size, l.boot)
		l.lane(o, JSON, o.RingRedaction).ring = l.ring
	}
	return nil
}

// closeSinks closes the sinks' outputs if nothing was written to them.
func (l *Logger) closeSinks() {
	for _, s := range l.sinks {
		_, _ = s.out.close()
	}
}

// lane returns the lane for a format and redaction, creating it if necessary.
func (l *Logger) lane(o *Options, f Format, r Redaction) *lane {
	for _, ln := range l.lanes {
		if ln.line.Format == f && ln.line.Redaction == r {
			return ln
		}
	}
	ln := &lane{line: Line{
		Format:       f,
		Redaction:    r,
		OriginalText: o.OriginalText,
		MaxText:      cmp.Or(o.MaxText, 1<<20),
		MaxBind:      cmp.Or(o.MaxBind, 256),
	}}
	head := ln.line
	head.Begin(nil, kindStatement)
	head.token("boot", l.boot)
	ln.head = head.buf
	l.lanes = append(l.lanes, ln)
	return ln
}

// Enabled reports whether there is any output. If not, a caller can skip filling in a Record.
func (l *Logger) Enabled() bool { return len(l.lanes) > 0 }

// OriginalText returns the number of bytes of a statement's original text that Log may write, 0 for none. A
// caller that has to copy the text can omit the rest.
func (l *Logger) OriginalText() int {
	most := 0
	for _, ln := range l.lanes {
		if ln.line.OriginalText && ln.line.Redaction == RedactNone {
			most = ln.line.MaxText
		}
	}
	return most
}

// Log writes r and retains none of it. It does not allocate, and never waits for a sink.
func (l *Logger) Log(r *Record) { l.LogEntry(r) }

// LogEntry writes e. Its contract is that of Log.
func (l *Logger) LogEntry(e Entry) {
	if len(l.lanes) == 0 || l.closed.Load() {
		return
	}
	facts := e.Facts()
	reason, factor := l.sampling.choose(&facts)
	if factor == 0 || !l.filter.Empty() && !l.filter.passEntry(e) {
		return
	}
	if l.limiter != nil {
		if factor = l.limiter.take(&facts, reason, factor); factor == 0 {
			return
		}
	}
	l.write(e, &facts, reason, factor)
}

// write formats e into the stripe of its origin.
func (l *Logger) write(e Entry, facts *Facts, reason string, factor uint64) {
	s := &l.stripes[mix(facts.Origin)&uint64(len(l.stripes)-1)]
	s.mu.Lock()
	defer s.mu.Unlock() // even if an Entry panics
	if l.closed.Load() {
		return
	}
	seq := l.seq.Add(1)
	for i := range s.lanes {
		sl := &s.lanes[i]
		if sl.b == nil {
			sl.b = l.store.get()
		}
		line := &sl.line
		if kind := e.Kind(); kind == kindStatement {
			line.buf = append(sl.b.buf, l.lanes[i].head...)
		} else {
			line.Begin(sl.b.buf, kind)
			line.token("boot", l.boot)
		}
		line.uintAt(&keySeq, seq)
		e.AppendFields(line)
		if reason != emitAll {
			line.token("emit_reason", reason)
		}
		if factor > 1 {
			line.Uint("sample_factor", factor)
		}
		sl.b.buf = line.End()
		sl.b.countLine(facts.End)
		if len(sl.b.buf) >= l.flushBytes {
			l.deliver(l.lanes[i], sl)
		}
	}
	if !l.armed.Load() && l.armed.CompareAndSwap(false, true) {
		l.timer.Reset(l.flushAfter)
	}
}

// mix spreads consecutive numbers over all bits.
func mix(x uint64) uint64 {
	x *= 0x9E3779B97F4A7C15
	return x ^ x>>32
}

// deliver passes a stripe's batch to the lane's ring and sinks. The caller holds the stripe's lock, so that
// batches of one stripe arrive in order.
func (l *Logger) deliver(ln *lane, sl *stripeLane) {
	b := sl.b
	sl.b = nil
	if ln.ring != nil {
		ln.ring.append(b)
	}
	b.refs.Store(int32(len(ln.sinks)) + 1)
	for _, s := range ln.sinks {
		s.offer(b)
	}
	l.store.release(b)
}

// flushDue is the timer's function.
func (l *Logger) flushDue() {
	l.armed.Store(false)
	l.flush()
	l.store.trim()
}

// flush hands over the contents of all stripes.
func (l *Logger) flush() {
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		for k := range s.lanes {
			if s.lanes[k].b != nil {
				l.deliver(l.lanes[k], &s.lanes[k])
			}
		}
		s.mu.Unlock()
	}
}

// Reopen opens each file's path again, as after a rotation by another program. A file whose path cannot be
// opened stays in use, and the error names it.
func (l *Logger) Reopen() error {
	var errs []error
	for _, s := range l.sinks {
		if f, ok := s.out.(*file); ok {
			if err := f.reopen(); err != nil {
				errs = append(errs, fmt.Errorf("log sink %s: %w", s.name, err))
			}
			s.notify()
		}
	}
	return errors.Join(errs...)
}

// Close writes buffered records and closes the sinks. Records that a sink has not written when ctx is done
// count as dropped. Afterwards Log does nothing.
func (l *Logger) Close(ctx context.Context) error {
	if l.closed.Swap(true) {
		return nil
	}
	l.timer.Stop()
	l.flush()
	if l.ring != nil {
		l.ring.close()
	}
	errs := make([]error, len(l.sinks), len(l.sinks)+1)
	var wg sync.WaitGroup
	for i, s := range l.sinks {
		wg.Go(func() { errs[i] = s.close(ctx) })
	}
	wg.Wait()
	if l.seqFile != nil {
		l.seqMu.Lock()
		l.count.Store(l.seq.Load())
		l.seq = &l.count
		errs = append(errs, l.seqFile.close())
		l.seqMu.Unlock()
	}
	return errors.Join(errs...)
}

// lastSeq returns the number of the last line.
func (l *Logger) lastSeq() uint64 {
	l.seqMu.Lock()
	defer l.seqMu.Unlock()
	return l.seq.Load()
}
