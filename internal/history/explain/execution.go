package explain

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

const (
	// maxText and maxValues bound the bytes of a kept execution.
	maxText   = 8 << 10
	maxValues = 2 << 10
	maxBinds  = 64

	// recent is how long the slowest execution is kept before any other replaces it.
	recent = time.Minute
)

// A candidate is one of the statements with most load.
type candidate struct {
	Candidate
	subject
	why error // reason why it is not explained; nil: it may be

	calls atomic.Uint64 // since it is a candidate
	nanos atomic.Uint64

	// slowest and until decide whether an execution is kept, without the lock.
	slowest atomic.Int64 // its duration
	until   atomic.Int64 // Unix nanoseconds of the time until which only a slower one replaces it

	mu        sync.Mutex
	execution execution // guarded by mu, as all below
	prepared  []byte    // text of its PREPARE; empty: not seen

	state // guarded by Prober.mu
}

// An execution is a call with its values.
type execution struct {
	at     time.Time
	schema string
	text   []byte // original text; empty: a prepared statement
	binds  []mysqlwire.BinaryValue
	data   []byte // the bytes of binds
	why    error  // reason why it cannot be explained
	isSet  bool
}

// newCandidate returns a candidate with all memory that Observe needs.
func newCandidate(c Candidate, s subject, why error) *candidate {
	n := &candidate{Candidate: c, subject: s, why: why}
	if why == nil {
		n.execution.text = make([]byte, 0, maxText)
		n.execution.data = make([]byte, 0, maxValues)
		n.execution.binds = make([]mysqlwire.BinaryValue, 0, maxBinds)
		n.prepared = make([]byte, 0, maxText)
	}
	return n
}

// heapBytes returns the bytes charged for the candidate, without its plans.
func (c *candidate) heapBytes() int64 {
	n := 512 + len(c.Text) + len(c.Schema)
	if c.why == nil {
		n += 2*maxText + maxValues + maxBinds*40
	}
	return int64(n)
}

// Observe implements gateway.Observer: it keeps a slow execution of each candidate. It does not allocate or block:
// an execution is dropped while another one is being copied.
func (p *Prober) Observe(r *querylog.Record) {
	known := p.candidates.Load()
	if known == nil {
		return
	}
	c := (*known)[r.Digest]
	if c == nil || c.why != nil {
		return
	}
	if r.Command == mysqlwire.ComStmtPrepare {
		c.keepPrepared(r)
		return
	}
	if r.ErrorNumber != 0 || r.Command != mysqlwire.ComQuery && r.Command != mysqlwire.ComStmtExecute {
		return
	}
	c.calls.Add(1)
	c.nanos.Add(uint64(max(r.Total, 0)))
	now := r.Start.UnixNano()
	if int64(r.Total) <= c.slowest.Load() && now < c.until.Load() {
		return
	}
	if !c.mu.TryLock() {
		return
	}
	c.slowest.Store(int64(r.Total))
	c.until.Store(now + int64(recent))
	c.execution.keep(r)
	c.mu.Unlock()
}

func (c *candidate) keepPrepared(r *querylog.Record) {
	if r.ErrorNumber != 0 || len(r.Text) > maxText || r.TextBytes > len(r.Text) || !c.mu.TryLock() {
		return
	}
	c.prepared = append(c.prepared[:0], r.Text...)
	c.mu.Unlock()
}

// keep copies the execution in a record.
func (e *execution) keep(r *querylog.Record) {
	e.isSet, e.why, e.at, e.schema = true, nil, r.Start, r.Schema
	e.text, e.binds, e.data = e.text[:0], e.binds[:0], e.data[:0]
	if r.Command == mysqlwire.ComQuery {
		if len(r.Text) > maxText || r.TextBytes > len(r.Text) {
			e.why = errLong
			return
		}
		e.text = append(e.text, r.Text...)
		return
	}
	for _, v := range r.Binds {
		if v.Long || len(e.binds) == maxBinds || len(e.data)+len(v.Data) > maxValues {
			e.why = errNoValues
			return
		}
		if !v.IsNull() {
			at := len(e.data)
			e.data = append(e.data, v.Data...)
			v.Data = e.data[at:len(e.data):len(e.data)]
		}
		e.binds = append(e.binds, v)
	}
}

// An explained is the statement of an EXPLAIN, with its values.
type explained struct {
	schema, text string
	normalized   string // the whole normalized text
	values       []mysqlwire.BinaryValue
}

// statement returns the statement to explain, or the reason why there is none. mode is the server's.
func (c *candidate) statement(mode sqldigest.Mode) (explained, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.execution
	out := explained{schema: e.schema}
	switch {
	case e.why != nil:
		return out, e.why
	case len(e.text) > 0:
		out.text = string(e.text)
	case len(c.prepared) > 0:
		out.text = string(c.prepared)
	default: // without literals, the normalized text is the statement
		n, ok := placeholders(c.Text)
		if !ok || c.TextCut || n != len(e.binds) {
			return out, errCollapsed
		}
		out.text = c.Text
	}
	var d sqldigest.Digester
	if d.Digest([]byte(out.text), mode) != sqldigest.Digest(c.Digest) || d.Divergent() {
		return out, errMode
	}
	if d.TextTruncated() {
		return out, errLong
	}
	out.normalized = string(d.Text())
	for _, v := range e.binds { // the execution is overwritten by the next one
		v.Data = bytes.Clone(v.Data)
		out.values = append(out.values, v)
	}
	return out, nil
}
