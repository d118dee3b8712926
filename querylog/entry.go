package querylog

import "time"

// An Entry is a record that a Logger can write. Record is the gateway's; other servers define their own.
// Implementations are pointers to reused values, so that logging does not allocate.
type Entry interface {
	// Kind returns the record kind for the line's first field: letters, digits and underscores.
	Kind() string

	// Facts returns the input of sampling. It is called once for each offered entry.
	Facts() Facts

	// AppendFields writes the entry's fields. It is called once for each format and redaction in use, and
	// only if the entry is logged; it must not retain l.
	AppendFields(l *Line)
}

// Facts are the properties of an entry that sampling and buffering use.
type Facts struct {
	End    time.Time     // wall clock; gives the time range of dropped entries
	Total  time.Duration // for slower-than
	Rows   uint64        // for more-rows-than
	Failed bool          // for errors-only
	Digest [16]byte      // key of the rate limit; zero entries share one limit

	// Origin selects the buffer. Entries of one origin are written in the order of logging; entries of
	// different origins do not wait for each other.
	Origin uint64
}

// A Column is a field on the page that follows the log.
type Column struct {
	Field string
	Name  string
	Kind  string // text, time, duration, bytes or number
	Shown bool   // by default
}
