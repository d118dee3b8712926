package querylog

import "time"

// An Entry is a record of some kind that a Logger can write. Record is the gateway's; other
// servers have kinds of their own. Implementations are pointers to values that are used
// again, so that logging them allocates nothing.
type Entry interface {
	// Kind names the record kind in the line's first field: letters, digits and
	// underscores.
	Kind() string

	// Facts is what sampling decides by. It is called once for each entry offered.
	Facts() Facts

	// AppendFields writes the entry's fields. It is called once for each format and
	// redaction in use, and only when the entry is logged; it must not keep l.
	AppendFields(l *Line)
}

// Facts is what sampling and buffering need to know of an entry.
type Facts struct {
	End    time.Time     // wall clock, for the time range of what was dropped
	Total  time.Duration // for slower-than
	Rows   uint64        // for more-rows-than
	Failed bool          // for errors-only
	Digest [16]byte      // what the rate limit counts by; zero entries share one limit

	// Origin chooses the buffer. Entries of one origin are written in the order in
	// which they were logged; entries of different origins do not wait for each other.
	Origin uint64
}

// A Column is a field as the page shows it that follows the log.
type Column struct {
	Field string
	Name  string
	Kind  string // text, time, duration, bytes or number
	Shown bool   // by default
}
