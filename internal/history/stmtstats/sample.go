package stmtstats

import "time"

// A Key identifies the calls that are counted together.
type Key struct {
	Digest                [16]byte
	Schema, User, Backend string
}

// A Kind specifies the calls that a Sample counts.
type Kind uint8

const (
	// Tracked calls are those of one Key.
	Tracked Kind = iota

	// Other calls are those of statements without an entry. Their rate is exact, and the Key is empty.
	Other

	// Evicted calls are the totals of evicted Keys. The Key is empty.
	Evicted

	// Removed is the Kind of a Key that was evicted since the last Collect. Its totals are included in Evicted.
	// Only Key, ID, First and Last are set.
	Removed
)

// String returns the kind's name. Those of Other and Evicted are values of the label digest.
func (k Kind) String() string { return [...]string{"tracked", "other", "evicted", "gone"}[k] }

// A Sample has the counters of one Key of a Table. All counters have counted since First, across restarts,
// and never decrease.
type Sample struct {
	Key
	Kind Kind

	// ID identifies the entry of the Key until it is evicted; it is never reused within the table. 0 and 1
	// are those of Evicted and Other.
	ID uint64

	// Text is the statement with ? for its literals, or its beginning if TextCut. Collect sets it only if
	// Fresh; Table.Text returns it at any time.
	Text    string
	TextCut bool

	Counts              // Calls equals Histogram.Count(), and Nanos Histogram.Nanos
	Histogram Histogram // of the calls' durations

	First time.Time // end of the first call, or the first time that it was counted in flight
	Last  time.Time // end of the last call, or the last time that one was counted in flight

	// Born reports that no Collect of any process has visited the entry before: all its calls happened since
	// the last Collect.
	Born bool

	// Fresh reports that this Table visits the entry for the first time, or has learned its text since: Key
	// and Text are new.
	Fresh bool
}

// A SlowCall is one of a digest's slowest recent calls.
type SlowCall struct {
	Start        time.Time
	Duration     time.Duration
	Rows         uint64 // returned or affected
	ConnectionID uint64
	ErrorNumber  uint16
	Text         string // of the statement, as far as the redaction permits
	TextCut      bool   // only the beginning of the text
}

// Stats are the metrics of a Table.
type Stats struct {
	Digests   int    // tracked Keys
	Bytes     int64  // of memory, fixed
	Pages     int    // for buckets and texts
	FreePages int    // of these
	Admitted  uint64 // admitted Keys, since OpenTable as all below
	Evictions uint64 // evicted Keys
	Untracked uint64 // calls counted in Other

	LastEviction time.Time // zero: there was none
	SetAside     string    // path to which a damaged or foreign file was moved; usually ""
}
