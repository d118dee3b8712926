package bench

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
)

// A trace is a recorded query log, ready for replay.
type trace struct {
	conns   []traceConn // in the order of their first statements
	total   int         // statements that can be replayed
	skipped skips
	length  time.Duration // from the first statement to the last
}

// A traceConn is the statements of one client connection, in order.
type traceConn struct {
	id         uint64
	statements []traceStatement
}

// A traceStatement is one statement of a trace.
type traceStatement struct {
	after       time.Duration // time since the trace's first statement
	schema      string
	text        string
	values      []any // for a prepared statement
	prepared    bool
	errorNumber uint16 // outcome in the recording
}

// skips counts records that cannot be replayed, by reason.
type skips struct {
	notStatements int // other commands and other kinds of records
	noText        int // the log has no original text
	cut           int // a text or value was truncated or omitted
}

func (s skips) total() int { return s.noText + s.cut }

// Replayed commands, by their names in the log.
const (
	commandQuery   = "Query"
	commandPrepare = "Prepare"
	commandExecute = "Execute"
)

// A traceRecord is the part of a query log line that a replay reads. The names are querylog's.
type traceRecord struct {
	Kind         string      `json:"kind"`
	Start        time.Time   `json:"start"`
	ConnectionID uint64      `json:"connection_id"`
	Schema       string      `json:"schema"`
	Command      string      `json:"command"`
	Text         string      `json:"text"`
	TextBase64   []byte      `json:"text_base64"`
	TextBytes    int         `json:"text_bytes"` // full length of a truncated text
	StatementID  uint32      `json:"statement_id"`
	Digest       string      `json:"digest"`
	Binds        []traceBind `json:"binds"`
	BindsCount   int         `json:"binds_count"` // their number, if not all are present
	ErrorNumber  uint16      `json:"error_number"`
}

// text returns the original statement and whether it is complete.
func (r *traceRecord) text() (string, bool) {
	text := cmp.Or(r.Text, string(r.TextBase64))
	return text, r.TextBytes <= len(text)
}

// A traceBind is one value of a prepared statement.
type traceBind struct {
	Name        *string         `json:"name"` // of a query attribute, which is not a parameter
	NameBase64  []byte          `json:"name_base64"`
	Type        string          `json:"type"`
	Unsigned    bool            `json:"unsigned"`
	Long        bool            `json:"long"` // sent separately and not recorded
	Value       json.RawMessage `json:"value"`
	ValueBase64 []byte          `json:"value_base64"`
	Bytes       *int            `json:"bytes"` // full length of a truncated value
}

// isParameter reports whether b is not a query attribute.
func (b *traceBind) isParameter() bool { return b.Name == nil && b.NameBase64 == nil }

// whole returns the value to send and whether it was recorded completely.
func (b *traceBind) whole() (any, bool) {
	if b.Long || b.Bytes != nil {
		return nil, false
	}
	if b.ValueBase64 != nil {
		return b.ValueBase64, true
	}
	if len(b.Value) == 0 {
		return nil, false
	}
	if string(b.Value) == "null" {
		return nil, true
	}
	var text string
	if b.Value[0] == '"' {
		err := json.Unmarshal(b.Value, &text)
		return text, err == nil
	}
	text = string(b.Value)
	switch {
	case b.Type == "FLOAT" || b.Type == "DOUBLE":
		v, err := strconv.ParseFloat(text, 64)
		return v, err == nil
	case b.Unsigned:
		v, err := strconv.ParseUint(text, 10, 64)
		return v, err == nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil
}

// readTraceFile reads a query log in JSON lines.
func readTraceFile(path string) (*trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	t, err := readTrace(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", path, err)
	}
	return t, nil
}

// A stmtKey identifies a prepared statement of a connection: by its id if the record of its preparation has
// it, otherwise by its digest.
type stmtKey struct {
	conn   uint64
	id     uint32
	digest string
}

// readTrace reads a whole trace into memory. Records may be in any order, because the gateway's buffers are
// flushed independently; they are sorted by their start.
func readTrace(r io.Reader) (*trace, error) {
	var records []traceRecord
	t := new(trace)
	dec := json.NewDecoder(r)
	for {
		var rec traceRecord
		if err := dec.Decode(&rec); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(records)+t.skipped.notStatements+1, err)
		}
		switch {
		case rec.Kind == "statement" && (rec.Command == commandQuery || rec.Command == commandPrepare || rec.Command == commandExecute):
			records = append(records, rec)
		default:
			t.skipped.notStatements++
		}
	}
	slices.SortStableFunc(records, func(a, b traceRecord) int { return a.Start.Compare(b.Start) })
	t.take(records)
	if t.total == 0 {
		return nil, fmt.Errorf("nothing to replay: of %d statements %d are without original text (record with --log-original and --log-redact none), %d were cut",
			len(records), t.skipped.noText, t.skipped.cut)
	}
	return t, nil
}

// take assigns records, sorted by time, to connections.
func (t *trace) take(records []traceRecord) {
	prepared := make(map[stmtKey]string)
	conns := make(map[uint64]int) // index in t.conns
	var first time.Time
	for i := range records {
		rec := &records[i]
		text, whole := rec.text()
		byID, byDigest := stmtKey{conn: rec.ConnectionID, id: rec.StatementID}, stmtKey{conn: rec.ConnectionID, digest: rec.Digest}
		if rec.Command == commandPrepare {
			if whole && rec.ErrorNumber == 0 {
				prepared[byID], prepared[byDigest] = text, text
			}
			t.skipped.notStatements++ // an execution prepares its statement
			continue
		}
		st := traceStatement{schema: rec.Schema, text: text, errorNumber: rec.ErrorNumber}
		if rec.Command == commandExecute {
			if rec.StatementID != 0 {
				st.text = cmp.Or(st.text, prepared[byID])
			}
			st.text = cmp.Or(st.text, prepared[byDigest])
			st.prepared = true
			whole = st.takeValues(rec) && whole
		}
		switch {
		case st.text == "":
			t.skipped.noText++
			continue
		case !whole:
			t.skipped.cut++
			continue
		}
		if t.total == 0 {
			first = rec.Start
		}
		st.after = rec.Start.Sub(first)
		t.length = st.after
		at, ok := conns[rec.ConnectionID]
		if !ok {
			at = len(t.conns)
			conns[rec.ConnectionID] = at
			t.conns = append(t.conns, traceConn{id: rec.ConnectionID})
		}
		t.conns[at].statements = append(t.conns[at].statements, st)
		t.total++
	}
}

// takeValues takes the values of an execution's parameters, and reports whether they are whole.
func (st *traceStatement) takeValues(rec *traceRecord) bool {
	whole := rec.BindsCount == 0
	for _, b := range rec.Binds {
		if b.isParameter() {
			v, ok := b.whole()
			whole = whole && ok
			st.values = append(st.values, v)
		}
	}
	return whole
}
