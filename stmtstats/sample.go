package stmtstats

import "time"

// A Key names what is counted together.
type Key struct {
	Digest                [16]byte
	Schema, User, Backend string
}

// A Kind says what a Sample counts.
type Kind uint8

const (
	// Tracked is the calls of one Key.
	Tracked Kind = iota

	// Other is the calls of statements that no entry was kept for: it is a true rate. Its
	// Key is empty.
	Other

	// Evicted is the totals of the digests that made room for others. Its Key is empty.
	Evicted

	// Gone is a Key that has made room since it was last collected; its totals are
	// part of Evicted now. Of its fields only Key, ID, First and Last are set.
	Gone
)

// String is the kind's name; those of Other and Evicted are the values of the label digest.
func (k Kind) String() string { return [...]string{"tracked", "other", "evicted", "gone"}[k] }

// A Sample is what a Table says of one Key. All counters have counted since First, across
// restarts, and never fall.
type Sample struct {
	Key
	Kind Kind

	// ID names the entry as long as there is one for the Key; no other entry of the table
	// ever has it. 0 and 1 are those of Evicted and Other.
	ID uint64

	// Text is the statement with ? for its literals, or its beginning if TextCut. Collect
	// sets it only when Fresh; Table.Text answers it at any time.
	Text    string
	TextCut bool

	Calls uint64 // always Histogram.Count()
	Counters
	Histogram Histogram // of the calls' durations

	First time.Time // when the first call had ended
	Last  time.Time // when the last call had ended

	// Born says that no Collect of any process has visited the entry before: all of it
	// has happened since the last one.
	Born bool

	// Fresh says that this Table visits the entry for the first time, or has learnt its
	// text since: now is the time to look at Key and Text.
	Fresh bool
}

// Counters are what a Key has counted, except its calls and their durations.
type Counters struct {
	RowsSent      uint64
	RowsAffected  uint64
	BytesReceived uint64 // of the commands, packet headers included
	BytesSent     uint64 // of the responses, packet headers included
	Warnings      uint64
	Errors        [ErrorClasses]uint64
}

// A SlowCall is one of a digest's slowest recent calls.
type SlowCall struct {
	Start        time.Time
	Duration     time.Duration
	Rows         uint64 // returned or affected
	ConnectionID uint64
	ErrorNumber  uint16
	Text         string // the beginning of the statement's own text, as far as the redaction lets it show
}

// Stats are a Table's own figures.
type Stats struct {
	Digests   int    // that are tracked
	Bytes     int64  // of memory, fixed
	Pages     int    // for buckets and texts
	FreePages int    // of these
	Admitted  uint64 // digests that found a place, since OpenTable as all below
	Evictions uint64 // digests that made room
	Untracked uint64 // calls that were counted in Other

	LastEviction time.Time // zero: there was none
	SetAside     string    // path of a damaged or foreign file that was found and moved; mostly ""
}
